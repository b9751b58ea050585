"""Checksums by which graphs, splits and rows of a matrix are told apart."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph.checks import CSR, Features
from h2gcn.graph.graph import Graph, Split

__all__ = ["canonical", "equal_groups", "fingerprint", "row_keys", "split_fingerprint"]

_SEED = 20
"""Of the random numbers in the checksum of a row."""
_BLOCK = 1 << 22
"""How many entries of a dense matrix are looked at together."""


def fingerprint(graph: Graph, *, directions: bool = False) -> str:
    """Return the SHA-256 of a graph's edges, features and labels, 64 hex digits.

    What pairs weigh counts where the graph has an `edge_weight`. Names, splits and
    other edge columns do not, nor does the index type of a sparse matrix. Dense and
    sparse features have different fingerprints.

    Parameters
    ----------
    graph
        The graph.
    directions
        Whether its directions count too, if it has any.

    Examples
    --------
    >>> fingerprint(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]))[:8]
    '68b2e1e0'
    """
    adj, x = graph.adj, graph.x
    pieces = [np.array(x.shape), adj.indptr, adj.indices]
    if directions and graph.directed is not None:
        along = canonical(graph.directed)
        pieces += [along.indptr, along.indices]
    if graph.weights is not None:
        pieces.append(graph.weights.data)
    if isinstance(x, np.ndarray):
        pieces.append(x)
    else:
        sparse = canonical(x)
        pieces += [sparse.indptr, sparse.indices, sparse.data]
    digest = hashlib.sha256()
    for piece in [*pieces, graph.y]:
        # One width and byte order, so that equal numbers are equal bytes.
        dtype = "<f4" if piece.dtype.kind == "f" else "<i8"
        digest.update(np.ascontiguousarray(piece, dtype=dtype).data)
    return digest.hexdigest()


def split_fingerprint(split: Split) -> str:
    """Return the SHA-256 of a split, 64 hex digits."""
    digest = hashlib.sha256()
    for index in split.parts.values():
        digest.update(f"{len(index)} ".encode())
        digest.update(np.ascontiguousarray(index, dtype="<i8").data)
    return digest.hexdigest()


def canonical(matrix: CSR) -> CSR:
    """Return a copy with sorted rows, no duplicate and no stored zero.

    Examples
    --------
    >>> stored_zero = CSR(([1.0, 0.0], ([0, 1], [1, 0])))
    >>> canonical(stored_zero).nnz
    1
    """
    copy = CSR(matrix, copy=True)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def row_keys(matrix: Features) -> NDArray[np.uint64]:
    """Return two numbers for each row, equal where the rows are equal, [2, n].

    Σ_j r_j · bits(m_ij) modulo 2⁶⁴, for two vectors r of random numbers. Unequal
    float32 rows agree in both with a chance below 2⁻⁶⁴ a pair.

    Examples
    --------
    >>> keys = row_keys(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32))
    >>> bool((keys[:, 0] == keys[:, 2]).all()), bool((keys[:, 0] == keys[:, 1]).any())
    (True, False)
    """
    if isinstance(matrix, np.ndarray):
        # Blocks of rows, so that a large dense matrix is never held twice.
        step = max(_BLOCK // matrix.shape[1], 1)
        blocks = [matrix[i : i + step] for i in range(0, len(matrix), step)]
        keys = [row_keys(CSR(block)) for block in blocks]
        return np.hstack([np.empty((2, 0), dtype=np.uint64), *keys])
    entries = canonical(matrix)
    bits = entries.data.astype(np.float32).view(np.uint32).astype(np.uint64)
    draws = np.random.PCG64(_SEED).random_raw(2 * entries.shape[1])
    keys = []
    for numbers in draws.reshape(2, -1):
        # Sums wrap around on purpose; differences of running sums undo that.
        sums = np.zeros(entries.nnz + 1, dtype=np.uint64)
        np.cumsum(numbers[entries.indices] * bits, out=sums[1:])
        keys.append(np.diff(sums[entries.indptr]))
    return np.stack(keys)


def equal_groups(*keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return a group number for each position, the same where all keys agree, [n].

    Examples
    --------
    >>> equal_groups(np.array([5, 5, 7]), np.array([1, 1, 1]))
    array([0, 0, 1])
    """
    order = np.lexsort(keys)
    starts = np.zeros(len(order), dtype=bool)
    for key in keys:
        ordered = key[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.cumsum(starts)
    return groups
