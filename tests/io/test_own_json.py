"""JSON of our own files: bounded, typed, and every mistake told in a line."""

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from h2gcn.exceptions import InputError
from h2gcn.io import Count, Finite, conform, decode, parse_json, read_own, shown
from h2gcn.io.files import DEPTH


class Leaf(msgspec.Struct):
    """A part of a file."""

    weight: Finite
    names: list[str] = []


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    """A file."""

    count: Annotated[int, msgspec.Meta(ge=1, le=5)]
    leaf: Leaf | None = None
    leaves: dict[str, Leaf] = {}
    n: Count | None = None


def refused(content: str | bytes, words: str) -> None:
    given = content.encode() if isinstance(content, str) else content
    with pytest.raises(InputError) as caught:
        decode(Whole, given, "a.json")
    assert str(caught.value) == f"a.json: {words}"


def test_what_fits_is_read() -> None:
    text = b'{"count": 3, "leaf": {"weight": 1, "names": ["\xc3\xb6"]}}'
    found = decode(Whole, text, "a.json")
    assert found == Whole(3, Leaf(1.0, ["ö"]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "lacks count"),
        ('{"count": 1, "leaf": {}}', "lacks leaf.weight"),
        ("[]", "it must be an object, got a list of 0"),
        ('{"count": 1, "x": 2}', "it has no field 'x'"),
        ('{"count": "1"}', "count must be an integer, got '1'"),
        ('{"count": true}', "count must be an integer, got True"),
        ('{"count": 1.0}', "count must be an integer, got 1.0"),
        ('{"count": null}', "count must be an integer, got None"),
        ('{"count": 0}', "count must be an integer >= 1, got 0"),
        (
            '{"count": 1, "leaf": 7}',
            "leaf must be an object or null, got 7",
        ),
        (
            '{"count": 1, "leaf": {"weight": 0, "names": ["a", {}]}}',
            "leaf.names.1 must be text, got an object of 0",
        ),
        (
            '{"count": 1, "leaves": {"a": {"weight": 0}, "b": {"weight": "x"}}}',
            "leaves.b.weight must be a number, got 'x'",
        ),
        (
            '{"count": 1, "n": -1}',
            "n must be an integer >= 0, got -1",
        ),
    ],
)
def test_what_does_not_fit_is_named(content: str, words: str) -> None:
    refused(content, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "truncated or not JSON (Expecting value, line 1, column 1)"),
        (
            '{"count": 1',
            "truncated or not JSON (Expecting ',' delimiter, line 1, column 12)",
        ),
        (b"\xff", "truncated or not JSON (not UTF-8)"),
        (b'{"\\ud800": 1}', "truncated or not JSON (not UTF-8)"),
        ('{"count": NaN}', "holds NaN, which is not a number of JSON"),
        ('{"count": -Infinity}', "holds -Infinity, which is not a number of JSON"),
        ('{"count": 1e999}', "holds a number that is too large"),
        (f'{{"count": {"1" * 5000}}}', "holds a number that is too large"),
        ("[" * 100_000 + "]" * 100_000, f"is nested more than {DEPTH} deep"),
        ("[" * 100_000, f"is nested more than {DEPTH} deep"),
        ('{"a":' * 100_000, f"is nested more than {DEPTH} deep"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_what_is_no_json_is_told(content: str | bytes, words: str) -> None:
    refused(content, words)


def test_brackets_in_texts_are_not_deep() -> None:
    text = "[" * 1000 + '\\"' + "{" * 1000
    assert parse_json(f'["{text}", "\\\\", []]'.encode(), "x")[2] == []
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]", "x") == [[]] * 1001
    deepest = b"[" * DEPTH + b"]" * DEPTH
    assert parse_json(deepest, "x") is not None


def test_a_text_that_never_ends_takes_no_time() -> None:
    many = b"[" * 100 + b'"' + b'\\"' * 1_000_000
    with pytest.raises(InputError, match="deep"):
        parse_json(many, "x")


def test_constants_are_read_where_they_may_be() -> None:
    found = parse_json(b'{"a": NaN, "b": 1e999}', "x", constants=float)
    assert math.isnan(found["a"])
    assert found["b"] == math.inf
    with pytest.raises(InputError) as caught:
        conform(dict[str, Finite], {"a": math.nan}, "x", at="scores")
    rule = "scores.a must be a number >= -1.7e+308, got nan"
    assert str(caught.value) == f"x: {rule}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a" * 100, f"'{'a' * 59}…"),
        (10**4000, "an integer of more than 30 digits"),
        ([[1]], "a list of 1"),
        ({}, "an object of 0"),
        (None, "None"),
    ],
)
def test_a_value_is_shown_in_short(value: Any, text: str) -> None:
    assert shown(value) == text


def test_only_files_that_are_not_too_large_are_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_own(file, 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    for path, limit, words in [
        (file, 4, "has 5 bytes; at most 4 are read"),
        (tmp_path, 4, "this is a folder, not a file."),
        (tmp_path / "pipe", 4, "this is a pipe, not a file."),
        (Path("/dev/zero"), 4, "this is a device, not a file."),
        (tmp_path / "no", 4, "cannot be read (No such file or directory)"),
    ]:
        with pytest.raises(InputError) as caught:
            read_own(path, limit)
        assert str(caught.value) == f"{path}: {words}"


def test_a_long_value_of_a_choice_is_cut() -> None:
    with pytest.raises(InputError) as caught:
        conform(dict[str, Literal["a", "b"]], {"verdict": "é" * 5000}, "r.json")
    assert str(caught.value).startswith("r.json: verdict: Invalid enum value 'ééé")
    assert len(str(caught.value)) < 400
