"""How many threads torch uses: one for small work, the host's own after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock, local

import torch
from torch import Tensor

from h2gcn.features import FeatureTable
from h2gcn.graph import Graph
from h2gcn.sparse import Operator

__all__ = ["is_small", "threads_for"]

SMALL_ENTRIES = 2**20  # of features and operators together: one thread is quicker
SMALL_WALKS = 500_000  # of length two, below which a graph counts as small

_LOCK = Lock()
_HOST_THREADS: list[int] = []  # the host's number, once per thread limited to one
_THREAD = local()


def is_small(graph: Graph) -> bool:
    """Return whether one thread is enough for all work on a graph."""
    # Walks of length two bound the entries of the 2-hop ring.
    return int((graph.degrees**2).sum()) < SMALL_WALKS


@contextmanager
def threads_for(factors: Sequence[object], *, small: bool = False) -> Iterator[None]:
    """Have torch use one thread while small matrices are multiplied.

    torch keeps the number partly per thread, partly for the process: every thread
    restores the number that the first of them found.

    Parameters
    ----------
    small
        Whether the work is known to be small, whatever the matrices; see `is_small`.
    """
    is_limited = getattr(_THREAD, "is_limited", False)
    if is_limited or not (small or sum(map(_entries, factors)) < SMALL_ENTRIES):
        yield
        return
    with _LOCK:
        threads = _HOST_THREADS[-1] if _HOST_THREADS else torch.get_num_threads()
        _HOST_THREADS.append(threads)
        torch.set_num_threads(1)
    _THREAD.is_limited = True
    try:
        yield
    finally:
        _THREAD.is_limited = False
        with _LOCK:
            torch.set_num_threads(_HOST_THREADS.pop())


def _entries(factor: object) -> float:
    """Return the stored entries of a matrix in memory; all others are large."""
    if isinstance(factor, Tensor):
        return factor.numel()
    if isinstance(factor, FeatureTable):
        return factor.entries
    return factor.scipy.nnz if isinstance(factor, Operator) else inf
