"""Checks of parameters and of packages, with messages of one form.

"The 'dropout' parameter of H2GCN must be in [0, 1). Got 1.5 instead."
"""

import difflib
import math
from collections.abc import Iterable
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType

import numpy as np

from h2gcn.exceptions import InputError

__all__ = [
    "check_bool",
    "check_choice",
    "check_integer",
    "check_real",
    "close",
    "import_extra",
    "nearest",
]

_EXTRAS = {"torch_geometric": ("PyG", "pyg"), "networkx": ("networkx", "networkx")}
"""Packages that a plain install leaves out: their names, and the extras with them."""


def import_extra(package: str, purpose: str) -> ModuleType:
    """Return a package of an extra, or raise with how to install it.

    Parameters
    ----------
    package
        What is imported, such as "networkx".
    purpose
        What it is needed for, such as "to read GraphML".
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        # A package of that package is missing: its own words say it better.
        if error.name != package:
            raise
        name, extra = _EXTRAS[package]
        raise InputError(
            f"{purpose}, {name} is needed: pip install 'h2gcn[{extra}]'"
        ) from None


def _fail(owner: str, name: str, rule: str, value: object) -> InputError:
    return InputError(
        f"The '{name}' parameter of {owner} must be {rule}. Got {value!r} instead."
    )


def close(word: str, choices: Iterable[str]) -> list[str]:
    """Return those of the choices, three at most, that a misspelt word may mean."""
    return difflib.get_close_matches(word.lower(), list(choices), n=3, cutoff=0.5)


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return " Did you mean …?" with the nearest of the choices, or ""."""
    found = close(word, choices)
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def check_bool(owner: str, name: str, value: object) -> bool:
    """Return `value` if it is True or False, else raise: "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise _fail(owner, name, "True or False", value)
    return bool(value)


def check_choice(owner: str, name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, else raise with the nearest."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) else ""
        rule = "one of " + ", ".join(map(repr, known))
        raise InputError(str(_fail(owner, name, rule, value)) + hint)
    return value


def check_integer(
    owner: str, name: str, value: object, low: int, high: int | None = None
) -> int:
    """Return `value` as an int in [low, high], else raise."""
    inside = (
        isinstance(value, Integral)
        and not isinstance(value, bool)
        and int(value) >= low
        and (high is None or int(value) <= high)
    )
    if not inside:
        upper = f" and at most {high}" if high is not None else ""
        raise _fail(owner, name, f"an integer, at least {low}{upper}", value)
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_real(
    owner: str,
    name: str,
    value: object,
    interval: str,
) -> float:
    """Return `value` as a float inside an interval written like "[0, 1)"."""
    low_text, high_text = interval[1:-1].split(",")
    low, high = float(low_text), float(high_text)
    number = (
        float(value)
        if isinstance(value, Real) and not isinstance(value, bool)
        else math.nan
    )
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):
        raise _fail(owner, name, f"in {interval}", value)
    return number
