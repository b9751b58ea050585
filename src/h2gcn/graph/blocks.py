"""A large matrix or a long list, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["row_slices", "slices"]

NUMBERS = 2**22
"""How many numbers of a matrix are looked at together, about: 16 MB of float32."""


def slices(count: int, size: int) -> Iterator[slice]:
    """Return slices of at most `size` that cover `count` in order.

    Examples
    --------
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def row_slices(shape: tuple[int, ...]) -> Iterator[slice]:
    """Return slices that cover the rows of a matrix, [n, F], in order."""
    count, columns = shape
    return slices(count, max(1, NUMBERS // max(columns, 1)))
