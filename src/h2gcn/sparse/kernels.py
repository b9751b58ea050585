"""Compiled functions: how they are made, and a product of far-apart rows."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled", "write_products"]


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function that is compiled when it is first called.

    What was compiled is kept beside the module, or in the user's cache folder; where
    neither can be written, each process compiles anew.
    """
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place for the cache
        return numba.njit(**options)(function)


@compiled
def write_products(starts, columns, values, dense, out):  # type: ignore[no-untyped-def]
    """Write each row of a sparse matrix, times `dense`, to the same row of `out`.

    Four rows of `dense` are added together: the processor waits for all of them at
    once, where one by one it would wait for each.
    """
    width = dense.shape[1]
    for i in range(len(starts) - 1):
        row, at, end = out[i], starts[i], starts[i + 1]
        for j in range(width):
            row[j] = 0
        while at + 4 <= end:
            a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
            of_a, of_b = dense[columns[at]], dense[columns[at + 1]]
            of_c, of_d = dense[columns[at + 2]], dense[columns[at + 3]]
            for j in range(width):
                row[j] += a * of_a[j] + b * of_b[j] + c * of_c[j] + d * of_d[j]
            at += 4
        while at < end:
            a, of_a = values[at], dense[columns[at]]
            for j in range(width):
                row[j] += a * of_a[j]
            at += 1
