"""Products with dense matrices that are larger than the processor's cache.

The rows of the dense matrix that a sparse row wants lie anywhere in it. Where it is
larger than the cache, each of them is a trip to memory, with another one to find its
page, and most of an epoch is spent waiting. So the dense matrix is first copied to huge
pages, all of which the processor remembers, and four of its rows are fetched at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from h2gcn.sparse.csr import Matrix, Multiplies
from h2gcn.sparse.workspace import workspace

__all__ = ["LargeMatrix", "multiplier"]

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
        from h2gcn.sparse.product_kernels import write_products

        result = torch.empty(self._matrix.shape[0], dense.shape[1])
        given, out = dense.numpy(), result.numpy()

        def write(part: tuple[int, int]) -> None:
            first, last = part
            starts = self._starts[first : last + 1]
            write_products(starts, self._columns, self._values, given, out[first:last])

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(write, self._parts))
        return result
