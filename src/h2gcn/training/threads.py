"""One thread for small work: to share it would take longer than to do it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock

import torch
from torch import Tensor

from h2gcn.sparse import Operator

__all__ = ["threads_for"]

SMALL = 2**20
"""Entries of features and operators together, below which one thread is quicker."""

_LOCK = Lock()
_BEFORE: list[int] = []
"""How many threads there were, once for each who has set them to one."""


@contextmanager
def threads_for(factors: Sequence[object]) -> Iterator[None]:
    """Have torch use one thread while something is done with small matrices.

    torch keeps the number partly for each thread, partly for all: whoever comes while
    others are here gives back, in its own thread, what the first of them found.

    Parameters
    ----------
    factors
        The matrices that are multiplied: tensors and operators.
    """
    if sum(map(_entries, factors)) >= SMALL:
        yield
        return
    with _LOCK:
        _BEFORE.append(_BEFORE[-1] if _BEFORE else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            torch.set_num_threads(_BEFORE.pop())


def _entries(factor: object) -> float:
    """Return the stored entries of a matrix in memory; all others are large."""
    if isinstance(factor, Tensor):
        return factor.numel()
    return factor.scipy.nnz if isinstance(factor, Operator) else inf
