"""Exact i-hop neighbourhoods: who is at shortest distance exactly i, or some of them.

The paper writes ring 2 as I[A² − A − I > 0]; taken to the letter with integer
matrices that keeps most 1-hop neighbours, for they are also reached by walks of
length two. What is meant, and computed here, is the shortest distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_integer, quoted
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.rings.kernels import in_threads, narrow, row_blocks, row_starts
from h2gcn.sparse import reserve

__all__ = [
    "capped_ring",
    "exact_rings",
    "normalise",
    "normalise_directed",
    "normalised_ring",
    "ring_pattern",
    "ring_rows",
    "ring_scale",
    "ring_sizes",
]

MAX_HOPS = 1000
"""The largest distance: a list of rings has a matrix for each."""
CHUNK = 2**22
"""How many entries are normalised at once."""


def exact_rings(adj: CSR, *, hops: int = 2) -> list[CSR]:
    """Return the rings 1 to `hops` of a graph.

    Ring i is the binary matrix of the pairs at shortest distance exactly i: no
    diagonal, symmetric, disjoint from the other rings. Of a matrix that is not
    symmetric, the distance is the one along the edges, and no ring need be symmetric.

    Each row is found by a breadth-first search, twice: once to count it, once to
    write it to its place, so that nothing larger than the ring is ever made. Threads
    share the rows.

    Parameters
    ----------
    adj
        Adjacency matrix without self-loops, [n, n].
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
    check_integer("exact_rings", "hops", hops, 1, MAX_HOPS)
    try:
        first = _binary(adj)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError):
        first = None
    if first is None or first.ndim != 2 or first.shape[0] != first.shape[1]:
        raise InputError(
            "The 'adj' parameter of exact_rings must be a square matrix of numbers, "
            f"dense or scipy sparse. Got {quoted(adj)} instead."
        )
    return [first, *(ring_rows(first, hop) for hop in range(2, hops + 1))]


def ring_sizes(
    adj: CSR, hop: int = 2, nodes: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    """Return how many nodes are at distance `hop` of each node (or of `nodes`).

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 2.
    nodes
        Which rows; default all.
    """
    from h2gcn.rings.kernels import count_rows

    nodes = _as_nodes(adj, nodes)
    sizes = np.zeros(len(nodes), dtype=np.int64)
    starts, neighbours = _kernel_form(adj)

    def count(part: slice) -> None:
        count_rows(starts, neighbours, nodes[part], hop, sizes[part])

    in_threads(count, _walks(adj, nodes))
    return sizes


def ring_rows(adj: CSR, hop: int = 2, nodes: NDArray[Any] | None = None) -> CSR:
    """Return the rows of ring `hop` of each node (or of `nodes`), [m, n], ones.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 2.
    nodes
        Which rows; default all.
    """
    columns, rows = ring_pattern(adj, hop, nodes)
    values = reserve(len(columns), np.float32)
    values[:] = 1
    shape = (len(rows) - 1, adj.shape[1])
    return CSR((values, columns, narrow(rows, rows[-1])), shape=shape)


def ring_pattern(
    adj: CSR,
    hop: int = 2,
    nodes: NDArray[Any] | None = None,
    sizes: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the columns of these rows, sorted in each, and where each row begins.

    Parameters as in `ring_rows`; `sizes` is what `ring_sizes` says of the rows, where
    it is known.
    """
    from h2gcn.rings.kernels import fill_rows

    nodes = _as_nodes(adj, nodes)
    if sizes is None:
        sizes = ring_sizes(adj, hop, nodes)
    rows = row_starts(sizes)
    starts, neighbours = _kernel_form(adj)
    columns = reserve(int(rows[-1]), np.int32)

    def fill(part: slice) -> None:
        places = rows[part.start : part.stop + 1]
        fill_rows(starts, neighbours, nodes[part], hop, places, columns)

    in_threads(fill, _walks(adj, nodes))
    return columns, rows


def _as_nodes(adj: CSR, nodes: NDArray[Any] | None) -> NDArray[np.int32]:
    chosen = np.arange(adj.shape[0]) if nodes is None else np.asarray(nodes)
    return chosen.astype(np.int32, copy=False)


def _kernel_form(adj: CSR) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return adj.indptr.astype(np.int64), adj.indices.astype(np.int32, copy=False)


def _walks(adj: CSR, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many walks of length two leave each of the nodes."""
    rows = adj if len(nodes) == adj.shape[0] else adj[nodes]
    walks: NDArray[np.float64] = rows @ np.diff(adj.indptr).astype(np.float64)
    return walks


def _binary(adj: CSR) -> CSR:
    ring = CSR(adj, copy=True)
    ring.sum_duplicates()
    if ring.diagonal().any():
        ring.setdiag(0)
    ring.eliminate_zeros()
    columns, starts = (narrow(a, ring.nnz) for a in (ring.indices, ring.indptr))
    values = np.ones(ring.nnz, dtype=np.float32)
    return CSR((values, columns, starts), shape=ring.shape)


def normalise(ring: CSR, *, self_loops: bool = False) -> CSR:
    """Return D^-1/2 A D^-1/2 by the matrix's own degrees; empty rows stay zero.

    Parameters
    ----------
    ring
        Symmetric binary matrix, [n, n].
    self_loops
        Add the identity first (Kipf's Â, and the paper's NS variants).
    """
    matrix = ring
    if self_loops:
        matrix = CSR(ring + sp.eye_array(ring.shape[0], dtype=np.float32))
    matrix.sort_indices()
    return _normalised(matrix.indices, matrix.indptr)


def normalise_directed(ring: CSR, *, self_loops: bool = False) -> CSR:
    """Return D_out^-1/2 A D_in^-1/2 by the matrix's own row and column sums, [n, n].

    The transpose is what the same function makes of the transposed matrix. A symmetric
    matrix is normalised as by `normalise`.

    Parameters
    ----------
    ring
        Binary matrix, [n, n]: row i has the nodes that i points to.
    self_loops
        Add the identity first.
    """
    matrix = ring
    if self_loops:
        matrix = CSR(ring + sp.eye_array(ring.shape[0], dtype=np.float32))
    matrix.sort_indices()
    out = np.diff(matrix.indptr)
    into = np.bincount(matrix.indices, minlength=matrix.shape[1])
    values = np.repeat(ring_scale(out), out) * ring_scale(into)[matrix.indices]
    return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def normalised_ring(adj: CSR, hop: int, *, self_loops: bool = False) -> CSR:
    """Return ring `hop` normalised, [n, n], without ever holding its ones.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 1.
    self_loops
        Add the identity first.
    """
    if hop == 1:
        return normalise(adj, self_loops=self_loops)
    columns, starts = ring_pattern(adj, hop)
    if self_loops:
        columns, starts = _with_diagonal(columns, starts)
    return _normalised(columns, starts)


def _with_diagonal(
    columns: NDArray[np.int32], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a pattern without diagonal [n, n] with it, sorted as before."""
    n = len(starts) - 1
    ones = np.ones(len(columns), dtype=np.int8)  # a byte: scipy wants values too
    ring = CSR((ones, columns, narrow(starts, starts[-1] + n)), shape=(n, n))
    both = CSR(ring + sp.eye_array(n, dtype=np.int8))
    both.sort_indices()
    return both.indices, both.indptr


def _normalised(columns: NDArray[Any], starts: NDArray[Any]) -> CSR:
    """Return the normalised matrix of a symmetric pattern, [n, n]."""
    degrees = np.diff(starts)
    scale = ring_scale(degrees)
    values = reserve(len(columns), np.float32)
    # A chunk at a time, and the pattern shared: temporaries would be the peak.
    for a, b in row_blocks(degrees, CHUNK):
        part = slice(starts[a], starts[b])
        values[part] = np.repeat(scale[a:b], degrees[a:b])
        values[part] *= scale[columns[part]]
    return CSR(
        (values, columns, narrow(starts, starts[-1])), shape=(len(scale), len(scale))
    )


def ring_scale(degrees: NDArray[Any]) -> NDArray[np.float32]:
    """Return 1/√degree of each node, 0 where there is none, [n]."""
    scale = np.zeros(len(degrees), dtype=np.float32)
    np.divide(1, np.sqrt(degrees), out=scale, where=degrees > 0, casting="unsafe")
    return scale


DRAW_BLOCK = 2**24
"""Entries of the exact ring that are looked at together, about."""


def capped_ring(
    adj: CSR, cap: int, *, hop: int = 2, seed: int = 0, self_loops: bool = False
) -> CSR:
    r"""Return the normalised ring `hop` with at most `cap` entries in a row, [n, n].

    With d the true sizes of the rings, a node v with more than `cap` keeps that many,
    all alike likely to be drawn, each weighted :math:`d_v / cap` times what it weighs
    in the exact matrix :math:`d_v^{-1/2} d_u^{-1/2}`: so a product with a row is right
    on average, and exact where nothing was left out. The result is not symmetric.

    The exact rows are made block by block and forgotten; what is drawn depends on the
    seed and the node alone.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    cap
        At least 1.
    hop
        The distance, at least 2.
    seed
        Of the draw.
    self_loops
        Whether each node is in its ring too; it does not count against the cap.
    """
    check_integer("capped_ring", "cap", cap, 1)
    n = adj.shape[0]
    sizes = ring_sizes(adj, hop)
    starts = row_starts(np.minimum(sizes, cap))
    columns = np.empty(starts[-1], dtype=np.int32)
    for first, last in row_blocks(sizes, DRAW_BLOCK):
        nodes, to = np.arange(first, last), starts[first : last + 1]
        ring, rows = ring_pattern(adj, hop, nodes, sizes[first:last])
        _draw(ring, rows, nodes, cap, seed, to, columns)
    scale = ring_scale(sizes + self_loops)
    weight = scale * (np.maximum(sizes, cap) / cap).astype(np.float32)
    values = np.repeat(weight, np.diff(starts)) * scale[columns]
    capped = CSR((values, columns, narrow(starts, starts[-1])), shape=(n, n))
    if self_loops:
        ego = CSR((scale**2, np.arange(n), np.arange(n + 1)), shape=(n, n))
        capped = CSR(capped + ego)
    return capped


def _draw(
    ring: NDArray[np.int32],
    rows: NDArray[np.int64],
    nodes: NDArray[np.int64],
    cap: int,
    seed: int,
    to: NDArray[np.int64],
    columns: NDArray[np.int32],
) -> None:
    """Write the drawn columns of each node's row to their places in `columns`."""
    from h2gcn.rings.kernels import draw_rows

    def draw(part: slice) -> None:
        ends = slice(part.start, part.stop + 1)
        draw_rows(rows[ends], ring, nodes[part], cap, seed, to[ends], columns)

    in_threads(draw, np.diff(rows))
