"""JSON of our own files, read by a schema: bounded, typed, and told in one line.

A schema is a `msgspec.Struct` or a dataclass, and stands beside what it describes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import numpy as np

from h2gcn._validation import shortened
from h2gcn.exceptions import InputError
from h2gcn.io.files import cannot_read, plain_path

__all__ = ["Count", "Finite", "conform", "decode", "parse_json", "read_own", "shown"]

LARGEST = 2**26
"""Bytes of a file of JSON; most of ours are far smaller."""
DEPTH = 64
"""How deep lists and objects may lie in each other."""
SHOWN = 60
"""Characters of a value that a message shows."""

Finite = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]
"""A number that is neither infinite nor NaN."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A whole number, from 0 on."""

_T = TypeVar("_T")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_DOUBTFUL = re.compile(rb"\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}")
"""What may be half of a character, or a number without end."""
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""What a schema calls the kinds of JSON, in words."""
_KINDS: dict[type, str] = {
    **{bool: "bool", int: "int", float: "float", str: "str", type(None): "null"},
    **{list: "array", tuple: "array", dict: "object"},
}


def read_own(file: Path, limit: int = LARGEST) -> bytes:
    """Return the content of a file of ours, if it is a file and not too large.

    Parameters
    ----------
    file
        Not a pipe, which would be waited for, nor a device.
    limit
        Bytes that it may have.
    """
    file = plain_path(file)
    try:
        size = file.stat().st_size
        if size > limit:
            raise InputError(f"{file}: has {size:,} bytes; at most {limit:,} are read")
        with file.open("rb") as stream:
            return stream.read()
    except OSError as error:
        raise cannot_read(file, error) from None


def parse_json(
    content: bytes,
    where: object,
    *,
    constants: Callable[[str], object] | None = None,
) -> Any:
    """Return what JSON holds, if it is neither too deep nor something else.

    Parameters
    ----------
    content
        In UTF-8.
    where
        What it is of, for messages: a file, or a line of it.
    constants
        What NaN and infinite numbers are read as, which JSON does not have, such as
        `float`; None refuses them.
    """
    if _is_too_deep(content):
        raise InputError(f"{where}: is nested more than {DEPTH} deep")

    def refuse(name: str) -> NoReturn:
        raise InputError(f"{where}: holds {name}, which is not a number of JSON")

    try:
        found = json.loads(content.decode("utf-8"), parse_constant=constants or refuse)
        if _DOUBTFUL.search(content):
            json.dumps(found, ensure_ascii=False, allow_nan=bool(constants)).encode()
    except InputError:
        raise
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(
            f"{where}: truncated or not JSON ({error.msg}, {place})"
        ) from None
    except UnicodeError:
        raise InputError(f"{where}: truncated or not JSON (not UTF-8)") from None
    except ValueError:  # of thousands of digits, or 1e999
        raise InputError(f"{where}: holds a number that is too large") from None
    return found


def _is_too_deep(content: bytes) -> bool:
    """Return whether lists and objects lie too deep in each other, texts aside."""
    if content.count(b"[") + content.count(b"{") <= DEPTH:
        return False
    signs = np.frombuffer(_STRING.sub(b"", content), dtype=np.uint8)
    opening = (signs == ord("[")) | (signs == ord("{"))
    closing = (signs == ord("]")) | (signs == ord("}"))
    steps = opening.view(np.int8) - closing.view(np.int8)
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > DEPTH)


def decode(kind: type[_T], content: bytes, where: object) -> _T:
    """Return what JSON holds, if it is of a kind.

    Parameters
    ----------
    kind
        The schema.
    content, where
        As of `parse_json`.
    """
    return conform(kind, parse_json(content, where), where)


def conform(kind: type[_T], value: Any, where: object, at: str = "") -> _T:
    """Return a value as a kind, or raise with the field, the rule and what was found.

    Parameters
    ----------
    kind
        The schema.
    value
        Of `parse_json`.
    where
        What it is of, for messages.
    at
        The field that the value is itself, if it is one.

    Examples
    --------
    >>> conform(dict[str, Finite], {"l2": "much"}, "a.json")
    Traceback (most recent call last):
    h2gcn.exceptions.InputError: a.json: l2 must be a number. Got 'much' instead.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        told, _, path = str(error).partition(" - at ")
    steps = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path)
    field, found = _find(value, [name or index for name, index in steps], told)
    field = ".".join(filter(None, [at, field]))
    raise InputError(f"{where}: {_rule(field, told, found)}")


def _find(value: Any, steps: list[str], told: str) -> tuple[str, Any]:
    """Return the field that an error is of, and what it holds.

    Of a value of an object the path says "..." in place of its name: it is the first
    one of the kind that was found.
    """
    if not steps:
        return "", value
    step, rest = steps[0], steps[1:]
    names: list[Any] = [name for name in value if step in (name, "...")]
    if isinstance(value, list):
        names = [int(step)]
    found: list[tuple[str, Any]] = []
    for name in names:
        try:
            path, inner = _find(value[name], rest, told)
        except (LookupError, TypeError, ValueError):
            continue
        shown_name = f"{name}.{path}" if path else str(name)
        found.append((shown_name, inner))
    got = re.search(r"got `(\w+)`", told)
    fitting = [one for one in found if got and _KINDS.get(type(one[1])) == got[1]]
    return (fitting or found)[0]


def _rule(field: str, told: str, found: Any) -> str:
    """Return what a field must be in words, and what it is."""
    if missing := re.fullmatch(r"Object missing required field `(.*)`", told):
        return f"lacks {'.'.join(filter(None, [field, missing[1]]))}"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", told):
        return f"{field or 'it'} has no field {shown(unknown[1])}"
    rule = re.search(r"Expected `([^`]*)`(.*?)(?:, got .*)?$", told)
    if rule is None:  # a rule of the schema's own, or a value that is none of a few
        told = shortened(told)
        return f"{field}: {told}" if field else told
    kinds = [_WORDS.get(name, name) for name in rule[1].split(" | ")]
    what = f"{' or '.join(kinds)}{rule[2]}"
    return f"{field or 'it'} must be {what}. Got {shown(found)} instead."


def shown(value: Any) -> str:
    """Return a value as a message shows it: in short, whatever it is."""
    if isinstance(value, list | tuple | dict):
        return f"{_WORDS[_KINDS[type(value)]]} of {len(value):,}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
