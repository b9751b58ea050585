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

MAX_HOPS = 1000
SINGLE_PASS_ENTRIES = 2**30  # a larger bound on the size of a ring: count it first
ITER_ENTRIES = 2**24  # per block of `iter_ring`


def exact_rings(adj: CSR, *, hops: int = 2) -> list[CSR]:
    """Return the rings 1 to `hops` of a graph.

    Ring i is the binary matrix of the pairs at shortest distance exactly i, [n, n]:
    float32 ones with sorted indices, no diagonal. Distances are along the edges, so
    rings are symmetric if the matrix is.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n]. Self-loops and weights do not count.
    hops
        The largest distance, at least 1 and at most 1000.

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
        Without self-loops, [n, n]. Its entries are those of ring 1, unless that is
        sampled; those of further rings are ones.
    nodes
        Of which nodes, [m], in any order, also repeatedly; default all.
    max_neighbors
        How many members a row has at most; default all.
    self_loops
        Whether each node is in its own row too, beside `max_neighbors` others.

    Returns
    -------
    tuple of csr_array and ndarray
        The rows, [m, n], float32, sorted; and the sizes of the whole rings without
        self-loops, [m].
    """
    check_integer("hop", hop, 1)
    if max_neighbors is not None:
        check_integer("max_neighbors", max_neighbors, 1)
    index = _check_nodes(adj, nodes)
    if hop == 1 and max_neighbors is None:
        return _neighbor_rows(adj, index, self_loops)
    from h2gcn.rings import kernels

    graph, k = _kernel_arrays(adj), max_neighbors or 0
    walks, sizes = _count_walks(adj, index), np.zeros(len(index), dtype=np.int64)
    starts = _offsets(_bound_sizes(adj, hop, index, walks, max_neighbors) + self_loops)
    columns = np.empty(starts[-1], np.int32)
    written: dict[int, int] = {}

    def fill(part: slice) -> None:
        out = columns[starts[part.start] : starts[part.stop]]
        written[part.start] = kernels.fill_rings(
            *graph, index[part], hop, self_loops, k, seed, out, sizes[part]
        )

    run_in_threads(fill, walks)
    kept = sizes if max_neighbors is None else np.minimum(sizes, max_neighbors)
    indptr = _offsets(kept + self_loops)
    for first, count in sorted(written.items()):  # close the gaps between the parts
        to, start = indptr[first], starts[first]
        columns[to : to + count] = columns[start : start + count]
    columns.resize(indptr[-1], refcheck=False)  # gives memory back
    rows = _sorted_csr(columns, indptr, (len(index), adj.shape[1]))
    if max_neighbors is not None:
        lengths = np.diff(indptr)
        weights = (np.maximum(sizes, max_neighbors) / max_neighbors).astype(np.float32)
        rows.data[:] = np.repeat(weights, lengths)
        if self_loops:
            rows.data[columns == np.repeat(index, lengths)] = 1
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


def is_weighted(matrix: CSR) -> bool:
    """Return whether the entries of an adjacency matrix are not all one."""
    return bool((matrix.data != 1).any())


def row_blocks(sizes: NDArray[np.integer], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = _offsets(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))


def _check_nodes(adj: CSR, nodes: NDArray[np.integer] | None) -> NDArray[np.int32]:
    n = adj.shape[0]
    if nodes is None:
        return np.arange(n, dtype=np.int32)
    if len(nodes) and not (nodes.min() >= 0 and nodes.max() < n):
        raise InputError(f"must be in [0, {n})", param="nodes", value=nodes)
    return nodes.astype(np.int32, copy=False)


def _neighbor_rows(
    adj: CSR, nodes: NDArray[np.int32], self_loops: bool
) -> tuple[CSR, NDArray[np.int64]]:
    """Return rows of ring 1, with the entries of the matrix: no search is needed."""
    rows = CSR(adj[nodes].astype(np.float32, copy=False))
    sizes = np.diff(rows.indptr).astype(np.int64)
    if self_loops:
        ego = sp.eye_array(adj.shape[0], dtype=np.float32, format="csr")
        rows = CSR(rows + ego[nodes])
    rows.sort_indices()
    return rows, sizes


def _kernel_arrays(adj: CSR) -> tuple[NDArray[Any], NDArray[np.int32]]:
    return adj.indptr, adj.indices.astype(np.int32, copy=False)


def _count_walks(adj: CSR, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many walks of length two leave each of the nodes."""
    rows = adj[nodes]
    degrees = adj.indptr[rows.indices + 1] - adj.indptr[rows.indices]
    counts = CSR((degrees.astype(float), rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(counts.sum(axis=1), dtype=np.float64)


def _bound_sizes(
    adj: CSR,
    hop: int,
    nodes: NDArray[np.int32],
    walks: NDArray[np.float64],
    max_neighbors: int | None,
) -> NDArray[np.int64]:
    """Return how many members each row has at most; exactly how many if that is far."""
    most = adj.shape[0] if max_neighbors is None else max_neighbors
    bounds = np.minimum(walks, most).astype(np.int64)
    if hop == 2 and bounds.sum() < SINGLE_PASS_ENTRIES:
        return bounds
    return np.minimum(ring_sizes(adj, hop, nodes), most)


def _binary(adj: CSR) -> CSR:
    ring = CSR(adj, copy=True)
    ring.sum_duplicates()
    if ring.diagonal().any():
        ring.setdiag(0)
    ring.eliminate_zeros()
    return _sorted_csr(ring.indices, ring.indptr, ring.shape)


def _offsets(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _sorted_csr(
    columns: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> CSR:
    """Return a binary matrix, which scipy need not search to know that it is sorted."""
    fits = len(columns) <= np.iinfo(np.int32).max
    dtype = np.dtype(np.int32 if fits else np.int64)
    columns, indptr = (a.astype(dtype, copy=False) for a in (columns, indptr))
    ones = np.ones(len(columns), np.float32)
    matrix = CSR((ones, columns, indptr), shape=shape)
    matrix.has_sorted_indices = True
    return matrix
