"""Checks of parameters and of packages, with messages of one form.

"The 'dropout' parameter of H2GCN must be in [0, 1). Got 1.5 instead."
"""

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
    "quoted",
    "shortened",
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


LONGEST = 300
"""Characters of a value that a message shows, at most."""
LONGEST_NAME = 255
"""Bytes of the name of a file or a folder, at most, on all usual systems."""


def quoted(value: object) -> str:
    """Return a value as a message shows it: on a line, and not all of a long one.

    Examples
    --------
    >>> quoted("no")
    "'no'"
    """
    try:
        return shortened(repr(value))
    except Exception:  # it is anybody's: too deep, or with a mistake of its own
        return f"a {type(value).__name__}"


def shortened(text: str) -> str:
    """Return a text on a line, without the end of a long one."""
    line = " ".join(text.splitlines())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _fail(owner: str, name: str, rule: str, value: object) -> InputError:
    return InputError(
        f"The '{name}' parameter of {owner} must be {rule}. Got {quoted(value)} "
        "instead."
    )


def check_type(
    owner: str, name: str, value: object, kind: type | tuple[type, ...], rule: str
) -> None:
    """Raise where a value is not of a kind, with the rule that says of which."""
    if not isinstance(value, kind):
        raise InputError(
            f"The '{name}' parameter of {owner} must be {rule}. Got "
            f"{type(value).__name__!r} instead."
        )


def check_callable(owner: str, name: str, value: object) -> None:
    """Raise where a value is neither a function nor None."""
    if value is not None and not callable(value):
        raise _fail(owner, name, "a function, or None", value)


def check_names(owner: str, name: str, value: object) -> None:
    """Raise where a value is not a dict with texts for keys."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise _fail(owner, name, "a dict of values by name", value)


def check_list(owner: str, name: str, value: Any, what: str) -> list[Any]:
    """Return the entries of a list, or of what else has some; a text is no list."""
    if not isinstance(value, str | bytes | Mapping):
        with suppress(TypeError):
            return list(value)
    raise _fail(owner, name, f"a list of {what}", value)


def check_path(owner: str, name: str, value: object) -> Path:
    """Return a value as a path that can be, `~` replaced, else raise."""
    rule = "a path"
    if not isinstance(value, str | os.PathLike) or "\0" in os.fspath(value):
        raise _fail(owner, name, rule, value)
    try:
        path = Path(value).expanduser()
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except (RuntimeError, UnicodeError, TypeError) as error:
        raise _fail(owner, name, f"{rule} ({error})", value) from None
    if longest > LONGEST_NAME:
        rule += f" whose names have at most {LONGEST_NAME} bytes each"
        raise _fail(owner, name, rule, value)
    return path


def as_array(owner: str, name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return a value as an array, else raise."""
    try:
        return np.asarray(value)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        raise _fail(owner, name, "an array of one shape", value) from None


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
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            number = float(value)
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):
        raise _fail(owner, name, f"in {interval}", value)
    return number
