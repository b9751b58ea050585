"""Exact i-hop rings: which nodes are at shortest distance exactly i, or a sample."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_integer
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.sparse import run_in_threads

__all__ = [
    "exact_rings",
    "inverse_sqrt",
    "is_weighted",
    "iter_ring",
    "narrow",
    "normalize",
    "ring_rows",
    "ring_sizes",
    "row_blocks",
    "scale_entries",
]

MAX_HOPS = 1000
SINGLE_PASS_ENTRIES = 2**30  # a larger bound on the size of a ring: count it first
ITER_ENTRIES = 2**24  # of a ring that is looked at together
SCALED_ENTRIES = 2**20  # that a thread scales together


def exact_rings(adj: CSR, *, hops: int = 2) -> list[CSR]:
    """Return the rings 1 to `hops` of a graph.

    Ring i is the binary matrix of the pairs at shortest distance exactly i: no
    diagonal, symmetric, disjoint from the other rings. If the matrix is not symmetric,
    distances are along the edges, and rings need not be symmetric.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n]. Self-loops and weights do not count.
    hops
        The largest distance, at least 1 and at most 1000.

    Returns
    -------
    list of csr_array
        `hops` matrices, [n, n], float32 ones, sorted int32 indices.

    Examples
    --------
    >>> path = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> exact_rings(path, hops=2)[1].toarray()
    array([[0., 0., 1.],
           [0., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    check_integer("hops", hops, 1, MAX_HOPS)
    try:
        first = _binary(adj)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError):
        first = None
    if first is None or first.ndim != 2 or first.shape[0] != first.shape[1]:
        raise InputError(
            "must be a square matrix of numbers, dense or scipy sparse",
            param="adj",
            value=adj,
        )
    return [first, *(ring_rows(first, hop)[0] for hop in range(2, hops + 1))]


def ring_rows(
    adj: CSR,
    hop: int = 2,
    nodes: NDArray[np.integer] | None = None,
    *,
    max_neighbors: int | None = None,
    seed: int = 0,
    self_loops: bool = False,
) -> tuple[CSR, NDArray[np.int64]]:
    r"""Return rows of ring `hop`, and how many nodes are in each of these rings.

    Each row is a breadth-first search of its own, and costs as much as the walks that
    lead into it. Threads share the rows.

    With `max_neighbors`, a ring of :math:`d_v` members keeps a uniform sample of k, and
    each of them counts :math:`d_v / k`: sums over a row are right on average, and exact
    if nothing was left out. The sample depends on seed, node and members alone, not on
    the other rows.

    Parameters
    ----------
    adj
        Binary, without self-loops, [n, n].
    hop
        The distance, at least 1.
    nodes
        Of which nodes, [m], in any order, also repeatedly; default all.
    max_neighbors
        How many members a row has at most; default all.
    seed
        Of the sample.
    self_loops
        Whether each node is in its own row too, beside `max_neighbors` others.

    Returns
    -------
    tuple of csr_array and ndarray
        The rows, [m, n], float32, sorted; and the sizes of the whole rings without
        self-loops, [m].
    """
    from h2gcn.rings import kernels

    check_integer("hop", hop, 1)
    if max_neighbors is not None:
        check_integer("max_neighbors", max_neighbors, 1)
    index, graph = _check_nodes(adj, nodes), _kernel_arrays(adj)
    walks, sizes = _count_walks(adj, index), np.zeros(len(index), dtype=np.int64)
    starts = _offsets(_bound_sizes(adj, hop, index, walks, max_neighbors) + self_loops)
    columns = np.empty(starts[-1], np.int32)
    written: dict[int, int] = {}

    def fill(part: slice) -> None:
        out = columns[starts[part.start] : starts[part.stop]]
        args = (*graph, index[part], hop, self_loops)
        if max_neighbors is None:
            count = kernels.fill_rings(*args, out, sizes[part])
        else:
            sample = max_neighbors, seed
            count = kernels.sample_rings(*args, *sample, out, sizes[part])
        written[part.start] = count

    run_in_threads(fill, walks)
    kept = sizes if max_neighbors is None else np.minimum(sizes, max_neighbors)
    indptr = _offsets(kept + self_loops)
    for first, count in sorted(written.items()):  # close the gaps between the parts
        to, start = indptr[first], starts[first]
        columns[to : to + count] = columns[start : start + count]
    columns.resize(indptr[-1], refcheck=False)  # gives memory back
    values = np.ones(len(columns), np.float32)
    rows = _sorted_csr(values, columns, indptr, (len(index), adj.shape[1]))
    if max_neighbors is not None:
        lengths = np.diff(indptr)
        weights = (np.maximum(sizes, max_neighbors) / max_neighbors).astype(np.float32)
        values[:] = np.repeat(weights, lengths)
        if self_loops:
            values[columns == np.repeat(index, lengths)] = 1
    return rows, sizes


def ring_sizes(
    adj: CSR, hop: int = 2, nodes: NDArray[np.integer] | None = None
) -> NDArray[np.int64]:
    """Return the sizes of what `ring_rows` returns, [m], without building it."""
    check_integer("hop", hop, 1)
    index = _check_nodes(adj, nodes)
    if hop == 1:
        return np.diff(adj.indptr)[index].astype(np.int64)
    from h2gcn.rings import kernels

    graph, sizes = _kernel_arrays(adj), np.zeros(len(index), dtype=np.int64)

    def count(part: slice) -> None:
        kernels.count_rings(*graph, index[part], hop, sizes[part])

    run_in_threads(count, _count_walks(adj, index))
    return sizes


def iter_ring(adj: CSR, hop: int = 2) -> Iterator[tuple[slice, CSR]]:
    """Yield ring `hop` in blocks of rows, so that it is never held whole."""
    for first, last in row_blocks(ring_sizes(adj, hop), ITER_ENTRIES):
        yield slice(first, last), ring_rows(adj, hop, np.arange(first, last))[0]


def _check_nodes(adj: CSR, nodes: NDArray[np.integer] | None) -> NDArray[np.int32]:
    n = adj.shape[0]
    if nodes is None:
        return np.arange(n, dtype=np.int32)
    if len(nodes) and not (nodes.min() >= 0 and nodes.max() < n):
        raise InputError(f"must be in [0, {n})", param="nodes", value=nodes)
    return nodes.astype(np.int32, copy=False)


def _kernel_arrays(adj: CSR) -> tuple[NDArray[Any], NDArray[np.int32]]:
    return adj.indptr, adj.indices.astype(np.int32, copy=False)


def _count_walks(adj: CSR, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many walks of length two leave each of the nodes."""
    if len(nodes) >= adj.shape[0]:
        walks: NDArray[np.float64] = adj @ np.diff(adj.indptr).astype(np.float64)
        return walks[nodes]
    rows = adj[nodes]  # of few nodes, no more is read than their neighbors
    degrees = (adj.indptr[rows.indices + 1] - adj.indptr[rows.indices]).astype(float)
    counts = CSR((degrees, rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(counts.sum(axis=1), dtype=np.float64)


def _bound_sizes(
    adj: CSR,
    hop: int,
    nodes: NDArray[np.int32],
    walks: NDArray[np.float64],
    max_neighbors: int | None,
) -> NDArray[np.int64]:
    """Return how many members each row has at most; exactly how many if that is far."""
    n = adj.shape[0]
    if hop == 1:
        bounds = np.diff(adj.indptr)[nodes].astype(np.int64)
    elif hop == 2:
        bounds = np.minimum(walks, n).astype(np.int64)
    else:
        bounds = np.full(len(nodes), n)
    if max_neighbors is not None:
        return np.minimum(bounds, max_neighbors)
    if hop > 2 or bounds.sum() >= SINGLE_PASS_ENTRIES:
        return ring_sizes(adj, hop, nodes)
    return bounds


def _binary(adj: CSR) -> CSR:
    ring = CSR(adj, copy=True)
    ring.sum_duplicates()
    if ring.diagonal().any():
        ring.setdiag(0)
    ring.eliminate_zeros()
    columns, starts = (narrow(a, ring.nnz) for a in (ring.indices, ring.indptr))
    return CSR((np.ones(ring.nnz, np.float32), columns, starts), shape=ring.shape)


# ---------------------------------------------------------------------- normalization


def normalize(matrix: CSR, *, self_loops: bool = False) -> CSR:
    r"""Return :math:`D_r^{-1/2} A D_c^{-1/2}`, with the sums of A's rows and columns.

    Of a symmetric matrix they are the degrees, and the result is symmetric. The
    transpose is what the same function makes of the transposed matrix. Empty rows stay
    zero.

    Parameters
    ----------
    matrix
        A, [n, n]: binary or weighted, symmetric or directed.
    self_loops
        Add the identity first (Kipf's Â, and the paper's NS variants).
    """
    if self_loops:
        matrix = CSR(matrix + sp.eye_array(matrix.shape[0], dtype=np.float32))
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()  # the caller's stays as it is
    rows, columns = np.diff(matrix.indptr), matrix.indices
    if is_weighted(matrix):
        rows, sums = matrix.sum(axis=1), matrix.sum(axis=0)
    else:
        sums = np.bincount(columns, minlength=matrix.shape[1])
    values = matrix.data.astype(np.float32)
    result = _sorted_csr(values, columns, matrix.indptr, matrix.shape)
    scale_entries(result, inverse_sqrt(rows), inverse_sqrt(sums))
    return result


def scale_entries(
    matrix: CSR, rows: NDArray[np.float32], columns: NDArray[np.float32]
) -> None:
    """Multiply each entry, in place, by factors of its row [m] and its column [n]."""
    lengths = np.diff(matrix.indptr)
    blocks = row_blocks(lengths, SCALED_ENTRIES)

    def scale(part: slice) -> None:
        for first, last in blocks[part]:
            entries = slice(matrix.indptr[first], matrix.indptr[last])
            factors = columns[matrix.indices[entries]]
            factors *= np.repeat(rows[first:last], lengths[first:last])
            matrix.data[entries] *= factors

    run_in_threads(scale, np.full(len(blocks), SCALED_ENTRIES))


def inverse_sqrt(sums: NDArray[Any]) -> NDArray[np.float32]:
    """Return 1/√d of each number d, 0 if d is not positive."""
    scale, positive = np.zeros(len(sums), dtype=np.float32), sums > 0
    scale[positive] = 1 / np.sqrt(sums[positive])
    return scale


def is_weighted(matrix: CSR) -> bool:
    """Return whether the entries of an adjacency matrix are not all one."""
    return bool((matrix.data != 1).any())


# ------------------------------------------------------------------------- CSR arrays


def row_blocks(sizes: NDArray[np.integer], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = _offsets(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))


def narrow(indices: NDArray[Any], largest: int) -> NDArray[Any]:
    """Return indices as int32 if numbers up to `largest` fit, else as they are."""
    fits = largest <= np.iinfo(np.int32).max
    return indices.astype(np.int32, copy=False) if fits else indices


def _offsets(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _sorted_csr(
    values: NDArray[np.float32],
    columns: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
) -> CSR:
    """Return a matrix that scipy need not look through to know that it is sorted."""
    matrix = CSR((values, columns, narrow(indptr, indptr[-1])), shape=shape)
    matrix.has_sorted_indices = True
    return matrix
