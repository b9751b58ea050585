"""The error and the warnings: their fields, and how they become one line."""

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from h2gcn.exceptions import (
    MAX_VALUE_CHARS,
    MISSING,
    H2GCNWarning,
    InputError,
    UndefinedMeasureWarning,
    python_name,
    short_repr,
)


class Mute:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def flag(param: str, value: object = MISSING) -> str:
    name = f"--{param.replace('_', '-')}"
    return name if value is MISSING else f"{name} {value}"


@pytest.mark.parametrize(
    ("error", "python", "command"),
    [
        (InputError("the graph has no edges"), "the graph has no edges", None),
        (
            InputError("must be in [0, 1)", param="dropout", value=1.5),
            "dropout must be in [0, 1), got 1.5",
            "--dropout must be in [0, 1), got 1.5",
        ),
        (
            InputError("must be a name", param="id_column", value=None),
            "id_column must be a name, got None",
            "--id-column must be a name, got None",
        ),
        (
            InputError("no room", hint={"ring_cap": 64, "cache_dir": "rings"}),
            "no room; try ring_cap=64 or cache_dir='rings'",
            "no room; try --ring-cap 64 or --cache-dir rings",
        ),
        (InputError("no room", hint="take less"), "no room; take less", None),
        (InputError("no room", hint={}), "no room", None),
        (InputError("no room", hint=""), "no room", None),
        (
            InputError("there is no such file", where="split=0/nodes.csv"),
            "split=0/nodes.csv: there is no such file",
            None,
        ),
        (
            InputError("names no column", param="id_column", value="k", where="a.csv"),
            "a.csv: id_column names no column, got 'k'",
            "a.csv: --id-column names no column, got 'k'",
        ),
        (
            InputError("no numbers", where="a.csv", hint={"categorical": "age"}),
            "a.csv: no numbers; try categorical='age'",
            "a.csv: no numbers; try --categorical age",
        ),
    ],
    ids=str,
)
def test_an_error_is_one_line_in_the_words_of_its_reader(
    error: InputError, python: str, command: str | None
) -> None:
    assert str(error) == error.render() == error.render(python_name) == python
    assert error.render(flag) == (python if command is None else command)
    note = H2GCNWarning(error.rule, **{k: getattr(error, k) for k in FIELDS})
    assert str(note) == python
    assert note.render(flag) == error.render(flag)


FIELDS = ("param", "value", "where", "hint")


def test_an_error_is_a_value_error_and_a_warning_is_one() -> None:
    with pytest.raises(ValueError, match=r"^x must be odd, got 2$") as caught:
        raise InputError("must be odd", param="x", value=2)
    assert caught.value.args == ("must be odd",)
    with pytest.warns(UserWarning, match="^no such measure$"):
        warnings.warn("no such measure", UndefinedMeasureWarning, stacklevel=1)


def test_a_value_is_shown_on_one_line_and_not_all_of_a_long_one() -> None:
    assert short_repr("a\nb") == r"'a\nb'"
    long = short_repr("x" * 1000)
    assert long == "'" + "x" * (MAX_VALUE_CHARS - 2) + "…"
    assert short_repr(Mute()) == "a Mute"
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert short_repr(nested) == "a list"
    error = InputError("must be small", param="x", value=Mute())
    assert str(error) == "x must be small, got a Mute"
    assert "\n" not in str(InputError("must be", param="x", value=LINES))


class Lines:
    """Shown on several lines."""

    def __repr__(self) -> str:
        return "a\nb\r\nc\u2028d"


LINES = Lines()


def refuse(value: object) -> None:
    hint = {"ring_cap": 64}
    raise InputError("must be", param="x", value=value, where="a.csv", hint=hint)


@pytest.mark.parametrize("kind", [InputError, H2GCNWarning, UndefinedMeasureWarning])
def test_all_fields_survive_pickling(kind: type[InputError]) -> None:
    for value in (5, None, MISSING, "x"):
        error = kind("must be", param="x", value=value, where="a.csv", hint={"b": 1})
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert vars(again) == vars(error)
        assert str(again) == str(error)
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING


def test_a_value_that_cannot_be_pickled_is_still_shown() -> None:
    for value in (lambda: 1, [object()], np.zeros(3), int, iter([])):
        error = InputError("must be a path", param="x", value=value)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.param) == (str(error), "x")
        assert error.value is value


def test_a_place_of_several_lines_is_shown_on_one() -> None:
    assert str(InputError("is empty", where="a\nb.csv")) == "a b.csv: is empty"


def test_an_error_of_another_process_is_the_same() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(refuse, 5).exception(timeout=60)
    assert isinstance(error, InputError)
    assert error.render(flag) == "a.csv: --x must be, got 5; try --ring-cap 64"
    assert error.value == 5


def test_a_place_is_put_before_the_place_that_is_known() -> None:
    error = InputError("must be positive", param="l2", value=-1)
    inner = error.at("settings")
    assert inner.where == "settings"
    assert (
        str(inner.at("best.json")) == "best.json: settings: l2 must be positive, got -1"
    )
    assert error.where is None
    assert type(UndefinedMeasureWarning("none").at("a")) is UndefinedMeasureWarning


def test_a_message_with_a_place_keeps_its_value_and_its_notes() -> None:
    value = [1, 2]
    error = InputError("must be a number", param="l2", value=value, hint={"l2": 0})
    error.add_note("in the second run")
    moved = error.at("best.json")
    assert moved.value is value
    assert (moved.param, moved.where, moved.hint) == ("l2", "best.json", {"l2": 0})
    assert moved.__notes__ == ["in the second run"]
    assert error.where is None
