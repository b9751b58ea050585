"""The series of a figure: what is there, and where it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Series", "categories", "floats", "has_values"]

Series = Mapping[str, Any]
"""A series as `result.json` holds it."""

Values = Sequence[float | None] | None


def has_values(values: Values) -> bool:
    """Return whether any of the values is there."""
    return any(value is not None for value in values or ())


def floats(values: Values, n: int = 0) -> list[float]:
    """Return values with NaN for what is not there; n of them if there are none.

    Examples
    --------
    >>> floats([1, None]), floats(None, 2)
    ([1.0, nan], [nan, nan])
    """
    if values is None:
        return [math.nan] * n
    return [math.nan if value is None else float(value) for value in values]


def categories(series: Sequence[Series], *, always: bool = False) -> dict[Any, int]:
    """Return the place of each x that is a name; {} where all x are numbers.

    Parameters
    ----------
    series
        The series of a figure.
    always
        Take numbers for names too, as bars do.
    """
    x = [value for one in series for value in one["x"]]
    if not always and all(isinstance(value, (int, float)) for value in x):
        return {}
    return {value: place for place, value in enumerate(dict.fromkeys(x))}
