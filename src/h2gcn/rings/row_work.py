"""Rows of different lengths: where they begin, blocks of them, threads for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_threads", "narrow", "row_blocks", "row_starts"]

SMALL_WORK = 2_000_000
"""Costs below which one thread is as quick as several."""


def row_starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where rows of the given sizes begin, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def narrow(indices: NDArray[Any], largest: int) -> NDArray[Any]:
    """Return indices in 32 bits if numbers up to `largest` can be, else as they are."""
    fits = largest <= np.iinfo(np.int32).max
    return indices.astype(np.int32, copy=False) if fits else indices


def row_blocks(sizes: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = row_starts(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))


def in_threads(work: Callable[[slice], None], costs: NDArray[Any]) -> None:
    """Call `work` on slices of rows that cost about the same, side by side.

    As many threads as torch uses, where it is loaded: one where one was asked for.

    Parameters
    ----------
    work
        Gives up Python's lock, or threads would wait for each other.
    costs
        Of each row, [m]; a unit is some nanoseconds.
    """
    total = np.cumsum(costs + 1)
    threads = _count_threads()
    if threads == 1 or not len(total) or total[-1] < SMALL_WORK:
        work(slice(0, len(costs)))
        return
    bounds = np.linspace(0, total[-1], 8 * threads + 1)[1:-1]
    ends = sorted({0, *np.searchsorted(total, bounds).tolist(), len(costs)})
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(*pair) for pair in pairwise(ends)]))


def _count_threads() -> int:
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
