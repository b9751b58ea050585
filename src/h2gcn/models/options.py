"""Options of models: their checks and their help stand in a constructor's signature.

    def __init__(..., rounds: Annotated[int, at_least(1), "Number of rounds"] = 2)

`ModelSpec.build` checks the options once; constructors trust their callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

from h2gcn._validation import (
    check_bool,
    check_choice,
    check_integer,
    check_real,
    check_type,
)
from h2gcn.features import parse_blocks

MAX_WIDTH = 65_536  # of a hidden layer; more is a typing error
MAX_STEPS = 10_000  # of what is repeated; more is a typing error


@dataclass(frozen=True)
class Check:
    """A check of an option: `check(name, value)` returns the value or raises."""

    check: Callable[[str, Any], Any]


@dataclass(frozen=True)
class Option:
    """An option of a model: its default, its check and a line of help."""

    default: Any
    check: Callable[[str, Any], Any]
    help: str


def at_least(low: int, high: int | None = None) -> Check:
    """Return the check of an integer, at most `high`."""
    return Check(lambda name, value: check_integer(name, value, low, high))


def between(interval: str) -> Check:
    """Return the check of a number in an interval such as "[0, 1)"."""
    return Check(lambda name, value: check_real(name, value, interval))


def one_of(choices: Iterable[str]) -> Check:
    """Return the check of a name."""
    return Check(lambda name, value: check_choice(name, value, choices))


def _check_table(name: str, value: Any) -> Any:
    check_type(name, value, str, "the blocks of a table, such as ego+ring1")
    parse_blocks(value)
    return value


Width = Annotated[int, at_least(1, MAX_WIDTH), "Width of the hidden layers"]
Steps = Annotated[int, at_least(1, MAX_STEPS), "Number of steps"]
Flag = Annotated[bool, Check(check_bool), ""]
Activation = Annotated[
    str, one_of(("relu", "elu", "none")), "Activation: relu, elu or none"
]
Dropout = Annotated[
    float, between("[0, 1)"), "Dropped fraction of the hidden layers in training"
]
InputDropout = Annotated[
    float, between("[0, 1)"), "Dropped fraction of the input in training"
]
Table = Annotated[
    str, Check(_check_table), "Blocks of the table, such as ego+ring1+labels"
]


def options_of(owner: type) -> dict[str, Option]:
    """Return the options of a module, or of a `MatrixMaker`, by name.

    They are the annotated parameters of its constructor. Of nested annotations, the
    outermost help counts.
    """
    hints = get_type_hints(owner.__init__, include_extras=True)  # type: ignore[misc]
    options = {}
    for name, parameter in signature(owner).parameters.items():
        metadata = getattr(hints.get(name), "__metadata__", ())
        checks = [one.check for one in metadata if isinstance(one, Check)]
        texts = [one for one in metadata if isinstance(one, str)]
        if checks and parameter.default is not Parameter.empty:
            help_text = texts[-1] if texts else ""
            options[name] = Option(parameter.default, checks[-1], help_text)
    return options
