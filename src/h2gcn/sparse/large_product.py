"""Products with dense matrices that are larger than the processor's cache.

The rows of the dense matrix that a sparse row wants lie anywhere in it. Where it is
larger than the cache, each of them is a trip to memory, with another one to find its
page, and most of an epoch is spent waiting. So the dense matrix is first copied to huge
pages, all of which the processor remembers, and four of its rows are fetched at once.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.sparse.csr import Matrix, Multiplies
from h2gcn.sparse.memory import private_pages

__all__ = ["LargeMatrix", "kept_workspace", "multiplier", "workspace"]

LARGE = 2**16
"""Columns from which the dense side, 64 wide, is larger than most caches."""
WIDE = 24
"""Columns of a dense matrix from which our kernel is quicker than torch's."""
TASKS = 16
"""Parts of the rows that threads take."""


def multiplier(matrix: Matrix) -> Multiplies:
    """Return what multiplies like the matrix, quickly also with large dense ones."""
    if not isinstance(matrix, Tensor) or matrix.device.type != "cpu":
        return matrix
    if matrix.shape[1] < LARGE or matrix.dtype != torch.float32:
        return matrix
    return LargeMatrix(matrix)


class LargeMatrix:
    """A sparse matrix that is multiplied with large dense ones.

    Parameters
    ----------
    matrix
        A CSR tensor of 32-bit floats on the processor, [m, n].
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix
        self._columns = matrix.col_indices().numpy()
        self._values = matrix.values().numpy()
        self._starts = matrix.crow_indices().numpy()
        bounds = np.linspace(0, self._starts[-1], TASKS + 1)[1:-1]
        places = np.searchsorted(self._starts, bounds).tolist()
        self._parts = list(pairwise(sorted({0, *places, matrix.shape[0]})))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        if dense.dtype != torch.float32:
            return self._matrix @ dense
        with workspace(dense.numel()) as numbers:
            given = torch.from_numpy(numbers).view(dense.shape).copy_(dense.detach())
            if dense.shape[1] < WIDE:
                return self._matrix @ given
            return self._write(given)

    def _write(self, dense: Tensor) -> Tensor:
        from h2gcn.sparse.kernels import write_products

        result = torch.empty(self._matrix.shape[0], dense.shape[1])
        given, out = dense.numpy(), result.numpy()

        def write(part: tuple[int, int]) -> None:
            first, last = part
            starts = self._starts[first : last + 1]
            write_products(starts, self._columns, self._values, given, out[first:last])

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(write, self._parts))
        return result


HUGE_PAGE = 2**21

_LOCK = Lock()
_KEPT: list[NDArray[np.float32]] = []
"""The one that is kept for the next time, if there is one and it is not in use."""
_keepers = 0
"""How many there are for whom it is kept."""


@contextmanager
def kept_workspace() -> Iterator[None]:
    """Keep the memory that is lent, from one time to the next, until the end of this.

    Huge pages are slow to come by and quick to use.
    """
    global _keepers
    with _LOCK:
        _keepers += 1
    try:
        yield
    finally:
        with _LOCK:
            _keepers -= 1
            if not _keepers:
                _KEPT.clear()


@contextmanager
def workspace(count: int) -> Iterator[NDArray[np.float32]]:
    """Lend `count` numbers, not zeroed, of memory that was lent before if it is kept.

    The largest lot that was asked for is. Who asks while it is lent gets another.
    """
    with _LOCK:
        lot = _KEPT.pop() if _KEPT else None
    if lot is None or len(lot) < count:
        del lot  # not beside the larger one
        lot = _huge(count)
    try:
        yield lot[:count]
    finally:
        with _LOCK:
            if _KEPT and len(_KEPT[0]) < len(lot):
                _KEPT.pop()
            if _keepers and not _KEPT:
                _KEPT.append(lot)


def _huge(count: int) -> NDArray[np.float32]:
    """Return new memory, in huge pages where the system has them."""
    size = -(-4 * count // HUGE_PAGE) * HUGE_PAGE
    memory = private_pages(size + HUGE_PAGE)  # some of it to begin at a page
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them: small ones are only slower
            memory.madvise(mmap.MADV_HUGEPAGE)
    numbers = np.frombuffer(memory, dtype=np.float32)
    first = -numbers.ctypes.data % HUGE_PAGE // 4
    return numbers[first : first + size // 4]
