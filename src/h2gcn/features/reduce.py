"""Reductions of features over the rows of a sparse matrix."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from h2gcn.graph import CSR, Features
from h2gcn.rings import row_blocks
from h2gcn.sparse import Operator, spmm

SPARSE_COST = 16  # of an entry in a product of two sparse matrices, to a dense one
DENSE_FROM = 0.1  # filled fraction from which a product is stored dense
BLOCK_NUMBERS = 2**24  # gathered at a time for maxima
UFUNCS = {"max": np.maximum, "min": np.minimum, "std": np.add}


def reduce_rows(matrix: CSR, x: Features, reduce: str) -> Features:
    """Return the features of each row's entries, reduced; zero for an empty row.

    Parameters
    ----------
    matrix
        Who is reduced in each row, and with which weight, [m, k].
    x
        Their features, [k, F].
    reduce
        "mean" and "std" (both weighted), "sum", "max", "min"; "power" and "loops" are
        sums, "count" is one in float64.
    """
    if reduce == "count":
        return matrix.astype(np.float64) @ x
    if reduce in UFUNCS:
        return _reduce_blocks(matrix, x, reduce)
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
    sums = matrix.sum(axis=1, dtype=np.float64)
    values = matrix.data / np.repeat(sums, np.diff(matrix.indptr))
    parts = (values.astype(np.float32), matrix.indices, matrix.indptr)
    return CSR(parts, shape=matrix.shape)


def _reduce_blocks(matrix: CSR, x: Features, reduce: str) -> NDArray[np.float32]:
    """Return maxima, minima or deviations, for as many rows at a time as fit.

    A deviation is √(Σ w (x - Σ w x)²), where the weights w of a row sum to one.
    """
    x = x if isinstance(x, np.ndarray) else x.toarray()
    sizes = np.diff(matrix.indptr)
    result = np.zeros((matrix.shape[0], x.shape[1]), dtype=np.float32)
    for first, last in row_blocks(sizes, max(BLOCK_NUMBERS // max(x.shape[1], 1), 1)):
        rows = CSR(matrix[first:last])
        filled = np.flatnonzero(sizes[first:last])
        if not filled.size:
            continue
        values = x[rows.indices]
        if reduce == "std":
            rows = rows.astype(np.float64)
            rows.data /= np.repeat(rows.sum(axis=1), sizes[first:last])
            means = np.repeat(rows @ x, sizes[first:last], axis=0)
            values = rows.data[:, None] * np.square(values - means)
        starts = rows.indptr[filled]
        result[first + filled] = UFUNCS[reduce].reduceat(values, starts, axis=0)
    return np.sqrt(result) if reduce == "std" else result
