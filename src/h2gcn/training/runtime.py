"""How many threads torch uses: one for small work, which is quicker than to share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock, local

import torch
from torch import Tensor

from h2gcn.graph import Graph
from h2gcn.ring_table import TableInput
from h2gcn.sparse import Operator

__all__ = ["is_small", "threads_for"]

SMALL = 2**20
"""Entries of features and operators together, below which one thread is quicker."""
SMALL_GRAPH = 500_000
"""Walks of length two below which a graph counts as small."""

_LOCK = Lock()
_BEFORE: list[int] = []
"""How many threads there were, once for each who has set them to one."""
_HERE = local()
"""Whether this thread is one of those."""


def is_small(graph: Graph) -> bool:
    """Return whether one thread is for all that is done with a graph."""
    # Walks of length two bound the entries of the 2-hop ring.
    return int((graph.degrees**2).sum()) < SMALL_GRAPH


@contextmanager
def threads_for(factors: Sequence[object], *, small: bool = False) -> Iterator[None]:
    """Have torch use one thread while something is done with small matrices.

    torch keeps the number partly for each thread, partly for all: whoever comes while
    others are here gives back, in its own thread, what the first of them found.

    Parameters
    ----------
    factors
        The matrices that are multiplied: tensors and operators.
    small
        Whether the work is known to be small, whatever the matrices; see `is_small`.
    """
    inside = getattr(_HERE, "inside", False)
    if inside or not (small or sum(map(_entries, factors)) < SMALL):
        yield
        return
    with _LOCK:
        _BEFORE.append(_BEFORE[-1] if _BEFORE else torch.get_num_threads())
        torch.set_num_threads(1)
    _HERE.inside = True
    try:
        yield
    finally:
        _HERE.inside = False
        with _LOCK:
            torch.set_num_threads(_BEFORE.pop())


def _entries(factor: object) -> float:
    """Return the stored entries of a matrix in memory; all others are large."""
    if isinstance(factor, Tensor):
        return factor.numel()
    if isinstance(factor, TableInput):
        return factor.entries
    return factor.scipy.nnz if isinstance(factor, Operator) else inf
