"""Checks of parameters and of packages: "dropout must be in [0, 1), got 1.5"."""

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from h2gcn.exceptions import InputError

__all__ = [
    "as_array",
    "check_bool",
    "check_callable",
    "check_choice",
    "check_integer",
    "check_list",
    "check_names",
    "check_path",
    "check_real",
    "check_type",
    "close",
    "import_extra",
    "nearest",
]

_EXTRAS = {
    "torch_geometric": ("PyG", "pyg"),
    "networkx": ("networkx", "networkx"),
    "duckdb": ("duckdb", "sql"),
    "adbc_driver_postgresql": ("adbc-driver-postgresql", "sql"),
    "fastapi": ("FastAPI", "serve"),
    "uvicorn": ("uvicorn", "serve"),
}
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


LONGEST_NAME = 255
"""Bytes of the name of a file or a folder, at most, on all usual systems."""


def check_type(
    name: str, value: object, kind: type | tuple[type, ...], rule: str
) -> None:
    """Raise where a value is not of a kind, with the rule that says of which."""
    if not isinstance(value, kind):
        raise InputError(f"must be {rule}", param=name, value=type(value))


def check_callable(name: str, value: object) -> None:
    """Raise where a value is neither a function nor None."""
    if value is not None and not callable(value):
        raise InputError("must be a function, or None", param=name, value=value)


def check_names(name: str, value: object) -> None:
    """Raise where a value is not a dict with texts for keys."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise InputError("must be a dict of values by name", param=name, value=value)


def check_list(name: str, value: Any, what: str) -> list[Any]:
    """Return the entries of a list, or of what else has some; a text is no list."""
    if not isinstance(value, str | bytes | Mapping):
        with suppress(TypeError):
            return list(value)
    raise InputError(f"must be a list of {what}", param=name, value=value)


def check_path(name: str, value: object) -> Path:
    """Return a value as a path that can be, `~` replaced, else raise."""
    rule = "must be a path"
    if not isinstance(value, str | os.PathLike) or "\0" in os.fspath(value):
        raise InputError(rule, param=name, value=value)
    try:
        path = Path(value).expanduser()
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except (RuntimeError, UnicodeError, TypeError) as error:
        raise InputError(f"{rule} ({error})", param=name, value=value) from None
    if longest > LONGEST_NAME:
        rule += f" whose names have at most {LONGEST_NAME} bytes each"
        raise InputError(rule, param=name, value=value)
    return path


def as_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return a value as an array, else raise."""
    try:
        return np.asarray(value)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        raise InputError(
            "must be an array of one shape", param=name, value=value
        ) from None


def close(word: str, choices: Iterable[str]) -> list[str]:
    """Return those of the choices, three at most, that a misspelt word may mean."""
    return difflib.get_close_matches(word.lower(), list(choices), n=3, cutoff=0.5)


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return " Did you mean …?" with the nearest of the choices, or ""."""
    found = close(word, choices)
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def check_bool(name: str, value: object) -> bool:
    """Return `value` if it is True or False, else raise: "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise InputError("must be True or False", param=name, value=value)
    return bool(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, else raise with the nearest."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        found = close(value, known) if isinstance(value, str) else []
        hint = f"did you mean {' or '.join(map(repr, found))}?" if found else None
        rule = "must be one of " + ", ".join(map(repr, known))
        raise InputError(rule, param=name, value=value, hint=hint)
    return value


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [low, high], else raise."""
    inside = (
        isinstance(value, Integral)
        and not isinstance(value, bool)
        and int(value) >= low
        and (high is None or int(value) <= high)
    )
    if not inside:
        rule = f"must be an integer, at least {low}"
        if high is not None:
            rule += f" and at most {high}"
        raise InputError(rule, param=name, value=value)
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_real(name: str, value: object, interval: str) -> float:
    """Return `value` as a float inside an interval written like "[0, 1)"."""
    low_text, high_text = interval[1:-1].split(",")
    low, high = float(low_text), float(high_text)
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            number = float(value)
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):
        raise InputError(f"must be in {interval}", param=name, value=value)
    return number
