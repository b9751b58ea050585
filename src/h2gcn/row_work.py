"""Rows of different lengths: where they begin, blocks of them, threads for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_threads", "row_blocks", "row_starts"]

SMALL_WORK = 2_000_000
"""Costs below which one thread is as quick as several."""


def row_starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where rows of the given sizes begin, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def row_blocks(sizes: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = row_starts(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))


def in_threads(work: Callable[[slice], None], costs: NDArray[Any]) -> None:
    """Call `work` on slices of rows that cost about the same, side by side.

    Parameters
    ----------
    work
        Gives up Python's lock, or threads would wait for each other.
    costs
        Of each row, [m]; a unit is some nanoseconds.
    """
    total = np.cumsum(costs + 1)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if threads == 1 or not len(total) or total[-1] < SMALL_WORK:
        work(slice(0, len(costs)))
        return
    bounds = np.linspace(0, total[-1], 8 * threads + 1)[1:-1]
    ends = sorted({0, *np.searchsorted(total, bounds).tolist(), len(costs)})
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(*pair) for pair in pairwise(ends)]))
