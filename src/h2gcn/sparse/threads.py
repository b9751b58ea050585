"""Rows of a matrix, shared out to threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_threads", "run_in_threads"]

MIN_COST = 2_000_000  # below, a single thread is as fast
CHUNKS_PER_THREAD = 8


def run_in_threads(work: Callable[[slice], object], costs: NDArray[Any]) -> None:
    """Call `work` on slices of rows that cost about the same, in several threads.

    The threads end with the call, so that a process may fork before and after it.

    Parameters
    ----------
    work
        Must release the GIL to gain from threads, and must not depend on how the rows
        are cut.
    costs
        Of each row, [m], in nanoseconds or so.
    """
    total, threads = np.cumsum(costs + 1), count_threads()
    if threads == 1 or not len(total) or total[-1] < MIN_COST:
        work(slice(0, len(costs)))
        return
    bounds = np.linspace(0, total[-1], CHUNKS_PER_THREAD * threads + 1)[1:-1]
    ends = {0, *np.searchsorted(total, bounds).tolist(), len(costs)}
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(*ends) for ends in pairwise(sorted(ends))]))


def count_threads() -> int:
    """Return how many threads torch uses, if it is loaded, or would use."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
