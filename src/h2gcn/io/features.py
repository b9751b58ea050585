"""How features are stored, and what stands in where a graph has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.graph import CSR, Features

__all__ = ["fit_layout", "structural_features", "worth_sparse"]

SPARSE_BELOW = 0.25
"""Features are kept sparse where a smaller share of the entries is not zero."""
SPARSE_FROM = 32
"""Narrower matrices are dense in any case: there is nothing to gain."""


def worth_sparse(n_nonzero: int, shape: tuple[int, ...]) -> bool:
    """Tell whether features, [n, F], with so many non-zeros are kept as CSR."""
    n, n_features = shape
    return n_features >= SPARSE_FROM and n_nonzero < SPARSE_BELOW * n * n_features


def fit_layout(x: Any) -> Features:
    """Return features, [n, F], as CSR where most entries are zero, else dense."""
    is_sparse: bool = sp.issparse(x)
    if is_sparse:
        matrix = CSR(x, dtype=np.float32)
        return matrix if worth_sparse(matrix.nnz, matrix.shape) else matrix.toarray()
    dense: NDArray[np.float32] = np.asarray(x, dtype=np.float32)
    if dense.ndim == 2 and worth_sparse(int(np.count_nonzero(dense)), dense.shape):
        return CSR(dense)
    return dense


def structural_features(
    adj: CSR,
) -> tuple[NDArray[np.float32], tuple[str, ...], str]:
    """Return features made of the graph alone, for graphs that bring none.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n].

    Returns
    -------
    x
        [n, 3]: log(1 + degree), log(1 + mean degree of the neighbours), and 1.
    feature_names
        The names of the three columns.
    note
        A sentence for the record of the reader.
    """
    degree = np.diff(adj.indptr).astype(np.float64)
    neighbours = (adj @ degree) / np.maximum(degree, 1)
    x = np.column_stack([np.log1p(degree), np.log1p(neighbours), np.ones_like(degree)])
    names = ("log1p_degree", "log1p_neighbour_degree", "one")
    note = (
        "the input has no node features; log1p of the degree, log1p of the mean "
        "degree of the neighbours and a constant are used in their place"
    )
    return x.astype(np.float32), names, note
