"""Reductions of features over the rows of a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from h2gcn.graph import CSR, Features
from h2gcn.rings import is_weighted, row_blocks
from h2gcn.sparse import Operator, spmm

__all__ = ["compact", "multiply", "reduce_rows", "row_normalized", "sym_normalized"]

SPARSE_COST = 16  # of an entry in a product of two sparse matrices, to a dense one
DENSE_FROM = 0.1  # filled fraction from which a product is stored dense
BLOCK_NUMBERS = 2**24  # gathered at a time for maxima


def reduce_rows(matrix: CSR, x: Features, reduce: str) -> Features:
    """Return the features of each row's entries, reduced; zero for an empty row.

    Parameters
    ----------
    matrix
        Who is reduced in each row, and with which weight, [m, k].
    x
        Their features, [k, F].
    reduce
        "mean" (weighted), "sum", "max", "min", "std"; "power" and "loops" are sums.
    """
    if reduce in ("max", "min"):
        return _extremes(
            matrix, _dense(x), np.maximum if reduce == "max" else np.minimum
        )
    if reduce == "std":
        return _deviations(matrix, _dense(x))
    return multiply(row_normalized(matrix) if reduce == "mean" else matrix, x)


def multiply(matrix: CSR, x: Features) -> Features:
    """Return a sparse matrix times features; sparse ones stay so if cheaper."""
    if not matrix.nnz:
        return np.zeros((matrix.shape[0], x.shape[1]), dtype=np.float32)
    if not isinstance(x, np.ndarray):
        if x.nnz * SPARSE_COST < x.shape[0] * x.shape[1]:
            product = CSR(matrix @ x)
            product.sort_indices()
            full = product.nnz > DENSE_FROM * product.shape[0] * max(x.shape[1], 1)
            return product.toarray() if full else product
        x = x.toarray()
    dense = torch.from_numpy(np.array(x, dtype=np.float32, order="C"))
    result: NDArray[np.float32] = spmm(*Operator(matrix).parts, dense).numpy()
    return result


def row_normalized(matrix: CSR) -> CSR:
    """Return a matrix whose rows sum to one, except empty ones."""
    sizes = np.diff(matrix.indptr)
    sums = matrix.sum(axis=1, dtype=np.float64) if is_weighted(matrix) else sizes
    values = matrix.data / np.repeat(sums, sizes)
    parts = (values.astype(np.float32), matrix.indices, matrix.indptr)
    return CSR(parts, shape=matrix.shape)


def sym_normalized(
    matrix: CSR, scale: NDArray[np.float64], nodes: NDArray[np.int64]
) -> CSR:
    """Return rows of D^-1/2 A D^-1/2 from those of A; `scale` is D^-1/2, [n]."""
    own = np.repeat(scale[nodes], np.diff(matrix.indptr))
    values = (own * scale[matrix.indices] * matrix.data).astype(np.float32)
    return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def compact(matrix: CSR) -> tuple[CSR, NDArray[np.int64]]:
    """Return a matrix without its empty columns, and which are left, ascending."""
    used = np.zeros(matrix.shape[1], dtype=bool)
    used[matrix.indices] = True
    members = np.flatnonzero(used)
    position = np.empty(matrix.shape[1], dtype=np.int32)  # set for members only
    position[members] = np.arange(len(members), dtype=np.int32)
    parts = (matrix.data, position[matrix.indices], matrix.indptr)
    return CSR(parts, shape=(matrix.shape[0], len(members))), members


def _dense(x: Features) -> NDArray[np.float32]:
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    return np.ascontiguousarray(dense, dtype=np.float32)


def _extremes(
    matrix: CSR, x: NDArray[np.float32], ufunc: np.ufunc
) -> NDArray[np.float32]:
    result = np.zeros((matrix.shape[0], x.shape[1]), dtype=np.float32)
    for rows, entries, starts in _row_blocks(matrix, x.shape[1]):
        result[rows] = ufunc.reduceat(x[matrix.indices[entries]], starts, axis=0)
    return result


def _deviations(matrix: CSR, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return √(Σ w (x - Σ w x)²), the weights w of a row summing to one."""
    sizes = np.diff(matrix.indptr)
    weights = matrix.data / np.repeat(matrix.sum(axis=1, dtype=np.float64), sizes)
    shares = sp.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)
    mean = shares @ x.astype(np.float64)
    variance = np.zeros_like(mean)
    for rows, entries, starts in _row_blocks(matrix, x.shape[1]):
        centers = np.repeat(mean[rows], sizes[rows], axis=0)
        squares = np.square(x[matrix.indices[entries]] - centers)
        squares *= weights[entries, None]
        variance[rows] = np.add.reduceat(squares, starts, axis=0)
    return np.sqrt(variance).astype(np.float32)


def _row_blocks(
    matrix: CSR, width: int
) -> Iterator[tuple[NDArray[np.int64], slice, NDArray[np.int64]]]:
    """Yield the filled rows of a block, its entries, and where each row starts."""
    sizes, indptr = np.diff(matrix.indptr), matrix.indptr
    for first, last in row_blocks(sizes, max(BLOCK_NUMBERS // max(width, 1), 1)):
        rows = first + np.flatnonzero(sizes[first:last])
        if rows.size:
            yield rows, slice(indptr[first], indptr[last]), indptr[rows] - indptr[first]
