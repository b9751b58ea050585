"""Products with dense matrices that are larger than the processor's cache.

The rows of the dense matrix that a sparse row wants lie anywhere in it. Where it is
larger than the cache, each of them is a trip to memory, and most of the time of an
epoch is spent waiting. Taken a block of columns at a time, the part of the dense matrix
that is wanted stays in the cache, and is fetched once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.sparse_matrix import Matrix, Multiplies

__all__ = ["Tiled", "tile"]

BLOCK = 2**16
"""Columns of a block: 16 MB of a dense matrix that is 64 wide."""
WIDE = 32
"""Columns of a dense matrix from which waiting outweighs the rest."""
ROW_ENTRIES = 4
"""Entries that a row should have in a block, or the result is touched too often."""
TASKS = 16
"""Parts of the rows that threads take."""


def tile(matrix: Matrix) -> Multiplies:
    """Return what multiplies like the matrix, quickly also with large dense ones."""
    if not isinstance(matrix, Tensor) or matrix.device.type != "cpu":
        return matrix
    rows, columns = matrix.shape
    entries = matrix.col_indices().numel() / max(rows, 1)
    blocks = -(-columns // BLOCK)
    if blocks <= 2 or entries < ROW_ENTRIES * blocks or matrix.dtype != torch.float32:
        return matrix
    return Tiled(matrix)


class Tiled:
    """A sparse matrix, multiplied a block of columns at a time.

    Parameters
    ----------
    matrix
        A CSR tensor on the processor, its columns sorted in each row, [m, n].
    """

    def __init__(self, matrix: Tensor) -> None:
        from h2gcn._tile_kernels import split_rows

        self._matrix = matrix
        self._columns = matrix.col_indices().numpy()
        self._values = matrix.values().numpy()
        starts = matrix.crow_indices().numpy()
        blocks = -(-matrix.shape[1] // BLOCK)
        self._splits = np.empty((blocks + 1, matrix.shape[0]), dtype=starts.dtype)
        split_rows(starts, self._columns, BLOCK, self._splits)
        bounds = np.linspace(0, starts[-1], TASKS + 1)[1:-1]
        ends = sorted({0, *np.searchsorted(starts, bounds).tolist(), matrix.shape[0]})
        self._parts = [slice(*pair) for pair in pairwise(ends)]

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        if dense.shape[1] < WIDE or dense.dtype != torch.float32:
            return self._matrix @ dense
        from h2gcn._tile_kernels import add_products

        given = dense.detach().contiguous().numpy()
        result = torch.zeros(self._matrix.shape[0], dense.shape[1])
        out = result.numpy()

        def add(part: slice, begin: NDArray[Any], end: NDArray[Any]) -> None:
            places = begin[part], end[part]
            add_products(*places, self._columns, self._values, given, out[part])

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for begin, end in pairwise(self._splits):
                # All threads are in one block: together they fill the cache once.
                list(pool.map(partial(add, begin=begin, end=end), self._parts))
        return result
