"""What an audit finds, as data and as a sentence with counts and names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Finding", "Severity", "by_split", "finding", "first"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found: its kind, how grave it is, a sentence, and how many."""

    kind: str
    severity: Severity
    message: str
    count: int


def by_split(
    kind: str,
    severity: Severity,
    texts: tuple[str, str],
    names: NDArray[Any],
    flags: Sequence[NDArray[np.bool_]],
) -> list[Finding]:
    """Make one finding of the names that are flagged in any split.

    `flags` has one boolean array for each split, of the length of `names`.

    Examples
    --------
    >>> texts, flags = ("class is out", "classes are out"), [[True, False]]
    >>> by_split("out", "note", texts, np.array(["a", "b"]), np.array(flags))[0].message
    '1 class is out: a.'
    """
    if not len(flags):
        return []
    numbers = [number for number, found in enumerate(flags) if found.any()]
    where = f", in {len(numbers)} of {len(flags)} splits ({first(numbers)})"
    where = where if len(flags) > 1 else ""
    found = names[np.any(flags, axis=0)]
    return finding(kind, severity, (texts[0] + where, texts[1] + where), found)


def finding(
    kind: str, severity: Severity, texts: tuple[str, str], names: NDArray[Any]
) -> list[Finding]:
    """Count and name what was found, in singular or plural; nothing if none was.

    Examples
    --------
    >>> finding("out", "note", ("node is out", "nodes are out"), np.array([4, 7]))
    [Finding(kind='out', severity='note', message='2 nodes are out: 4, 7.', count=2)]
    """
    count = len(names)
    if not count:
        return []
    message = f"{count:,} {texts[count > 1]}: {first(names)}."
    return [Finding(kind, severity, message, count)]


def first(items: Sequence[object] | NDArray[Any]) -> str:
    """Return the first three items, and how many more there are.

    Examples
    --------
    >>> first([1, 2, 3, 4])
    '1, 2, 3 and 1 more'
    """
    more = len(items) - 3
    return ", ".join(map(str, items[:3])) + (f" and {more:,} more" if more > 0 else "")
