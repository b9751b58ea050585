"""Exact i-hop neighbourhoods: who is at shortest distance exactly i, or some of them.

The paper writes ring 2 as I[A² − A − I > 0]; taken to the letter with integer
matrices that keeps most 1-hop neighbours, for they are also reached by walks of
length two. What is meant, and computed here, is the shortest distance.

Rows are found by a search by breadth, compiled, in blocks that threads share. A row
costs as much as the walks that lead into it. The last step is taken on a bitmap of the
nodes (125 kB for a million: it stays in the nearest cache) with a summary of its words,
so that the row comes out sorted without being sorted. Nothing is shared between calls
and Python's lock is given up: threads take rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_integer
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.sparse import (
    compiled,
    fetch,
    first_of,
    in_threads,
    lowest_bit,
    mix,
    reserve,
    row_starts,
    sorted_csr,
)

__all__ = [
    "capped_ring",
    "drawn_pattern",
    "exact_rings",
    "is_weighted",
    "narrow",
    "normalise",
    "normalise_directed",
    "normalised_ring",
    "ring_blocks",
    "ring_pattern",
    "ring_rows",
    "ring_scale",
    "ring_sizes",
    "row_blocks",
    "sampled_ring",
    "sampled_rows",
]

MAX_HOPS = 1000
"""The largest distance: a list of rings has a matrix for each."""
FEW_ENTRIES = 2**20
"""Below which a ring is normalised before compiled code is loaded."""


def exact_rings(adj: CSR, *, hops: int = 2) -> list[CSR]:
    """Return the rings 1 to `hops` of a graph.

    Ring i is the binary matrix of the pairs at shortest distance exactly i: no
    diagonal, symmetric, disjoint from the other rings. Of a matrix that is not
    symmetric, the distance is the one along the edges, and no ring need be symmetric.

    Each row is found by a breadth-first search. Threads share the rows, and nothing
    larger than the ring is ever written.

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
        The distance, at least 1.
    nodes
        Which rows; default all.
    """
    nodes = _as_nodes(adj, nodes)
    if _is_first(hop):
        return np.diff(adj.indptr)[nodes].astype(np.int64)
    walks = _walks(adj, nodes)
    if hop == 2 and walks.sum() < FEW_WALKS:
        return np.diff(_second_ring(adj, nodes).indptr).astype(np.int64)
    sizes = np.zeros(len(nodes), dtype=np.int64)
    starts, neighbours = _kernel_form(adj)

    def count(part: slice) -> None:
        _count_rows(starts, neighbours, nodes[part], hop, sizes[part])

    in_threads(count, walks)
    return sizes


def ring_rows(adj: CSR, hop: int = 2, nodes: NDArray[Any] | None = None) -> CSR:
    """Return the rows of ring `hop` of each node (or of `nodes`), [m, n], ones.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 1.
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
    nodes = _as_nodes(adj, nodes)
    if _is_first(hop):
        near = CSR(adj[nodes])
        near.sort_indices()
        return near.indices.astype(np.int32), near.indptr.astype(np.int64)
    walks = _walks(adj, nodes)
    if hop == 2 and walks.sum() < FEW_WALKS:
        ring = _second_ring(adj, nodes)
        return ring.indices.astype(np.int32), ring.indptr.astype(np.int64)
    starts, neighbours = _kernel_form(adj)
    most = np.minimum(walks, adj.shape[1])
    if sizes is None and hop == 2 and most.sum() < MANY_WALKS:

        def find(part: slice, room: NDArray[np.int32], to: NDArray[np.int64]) -> int:
            return int(_fill_rows(starts, neighbours, nodes[part], 2, room, to))

        return _found_and_joined(find, most, most)[:2]
    if sizes is None:
        sizes = ring_sizes(adj, hop, nodes)
    rows = row_starts(sizes)
    columns = reserve(int(rows[-1]), np.int32)

    def fill(part: slice) -> None:
        own = columns[rows[part.start] : rows[part.stop]]
        counted = np.empty(part.stop - part.start, dtype=np.int64)
        _fill_rows(starts, neighbours, nodes[part], hop, own, counted)

    in_threads(fill, walks)
    return columns, rows


MANY_WALKS = 2**30
"""Of length two, from which on rows are counted before they are written."""


def _found_and_joined(
    find: Callable[[slice, NDArray[np.int32], NDArray[np.int64]], int],
    most: NDArray[np.float64],
    costs: NDArray[np.float64],
    cap: int | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return columns by a single search, where each row begins, and the rings' sizes.

    There is room for as many as the rows can have at most; what is not written to is
    never given to the process. Threads leave gaps, which are then closed.

    Parameters
    ----------
    find
        Takes some rows, room for their columns, and where the size of each ring goes;
        returns how many columns it wrote, one row after the other.
    most
        Columns of each row, at most.
    costs
        Of each row, for the threads to share out.
    cap
        Columns of a row are at most so many, however large its ring.
    """
    sizes = np.zeros(len(most), dtype=np.int64)
    begins = row_starts(most.astype(np.int64))
    columns = reserve(int(begins[-1]), np.int32)
    found: dict[int, int] = {}

    def find_some(part: slice) -> None:
        room = columns[begins[part.start] : begins[part.stop]]
        found[part.start] = find(part, room, sizes[part])

    in_threads(find_some, costs)
    rows = row_starts(sizes if cap is None else np.minimum(sizes, cap))
    for first, count in sorted(found.items()):
        here, there = int(begins[first]), int(rows[first])
        columns[there : there + count] = columns[here : here + count]
    return first_of(columns, int(rows[-1])), rows, sizes


FEW_WALKS = 20_000
"""Of length two, below which a product is done before compiled code is loaded."""


def _second_ring(adj: CSR, nodes: NDArray[np.int32]) -> CSR:
    """Return the rows of ring 2 by a product: who has two steps, and no shorter way."""
    steps = CSR((np.ones(adj.nnz, dtype=np.int64), adj.indices, adj.indptr), adj.shape)
    near = CSR(steps[nodes])
    own = (np.ones(len(nodes), dtype=np.int64), (np.arange(len(nodes)), nodes))
    shorter = CSR(near + CSR(sp.coo_array(own, shape=near.shape)))
    shorter.data[:] = 1
    walks = CSR(near @ steps)
    ring = CSR(walks - walks.multiply(shorter))
    ring.eliminate_zeros()
    ring.sort_indices()
    return ring


def _is_first(hop: int) -> bool:
    """Return whether a ring is the first, which the matrix has; refuse those below."""
    return check_integer("hop", hop, 1) == 1


def _as_nodes(adj: CSR, nodes: NDArray[Any] | None) -> NDArray[np.int32]:
    chosen = np.arange(adj.shape[0]) if nodes is None else np.asarray(nodes)
    return chosen.astype(np.int32, copy=False)


def _kernel_form(adj: CSR) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return adj.indptr.astype(np.int64), adj.indices.astype(np.int32, copy=False)


def _walks(adj: CSR, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many walks of length two leave each of the nodes."""
    if len(nodes) == adj.shape[0]:
        walks: NDArray[np.float64] = adj @ np.diff(adj.indptr).astype(np.float64)
        return walks
    rows = adj[nodes]  # of some nodes, no more is looked at than they need
    degrees = adj.indptr[rows.indices + 1] - adj.indptr[rows.indices]
    counts = CSR((degrees.astype(np.float64), rows.indices, rows.indptr), rows.shape)
    return np.asarray(counts.sum(axis=1)).reshape(-1)


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
        Symmetric matrix, [n, n]: binary, or what pairs weigh, and degrees are sums.
    self_loops
        Add the identity first (Kipf's Â, and the paper's NS variants).
    """
    matrix = ring
    if self_loops:
        matrix = CSR(ring + sp.eye_array(ring.shape[0], dtype=np.float32))
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()  # the caller's stays as it is
    if is_weighted(matrix):
        return _scaled(matrix, matrix.sum(axis=1), matrix.sum(axis=0))
    return _normalised(matrix.indices, matrix.indptr)


def is_weighted(matrix: CSR) -> bool:
    """Return whether the entries of an adjacency matrix are not all one."""
    return bool((matrix.data != 1).any())


def _scaled(matrix: CSR, rows: NDArray[Any], columns: NDArray[Any]) -> CSR:
    """Return a matrix over the roots of the sums of its rows and columns, [n, n]."""
    counts = np.diff(matrix.indptr)
    scale = np.repeat(ring_scale(rows), counts) * ring_scale(columns)[matrix.indices]
    values = (scale * matrix.data).astype(np.float32)
    return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def normalise_directed(ring: CSR, *, self_loops: bool = False) -> CSR:
    """Return D_out^-1/2 A D_in^-1/2 by the matrix's own row and column sums, [n, n].

    The transpose is what the same function makes of the transposed matrix. A symmetric
    matrix is normalised as by `normalise`.

    Parameters
    ----------
    ring
        Row i has the nodes that i points to, [n, n]: ones, or weights.
    self_loops
        Add the identity first.
    """
    matrix = ring
    if self_loops:
        matrix = CSR(ring + sp.eye_array(ring.shape[0], dtype=np.float32))
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()  # the caller's stays as it is
    if is_weighted(matrix):
        return _scaled(matrix, matrix.sum(axis=1), matrix.sum(axis=0))
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
    """Return the normalised matrix of a symmetric pattern, sorted, [n, n]."""
    degrees = np.diff(starts)
    scale = ring_scale(degrees)
    n = len(scale)
    if len(columns) < FEW_ENTRIES:
        values = np.repeat(scale, degrees) * scale[columns]
    else:
        values = reserve(len(columns), np.float32)

        def write(part: slice) -> None:
            own = starts[part.start : part.stop + 1]
            _write_scaled(own, columns, scale[part], scale, values)

        in_threads(write, degrees)
    return sorted_csr(values, columns, narrow(starts, starts[-1]), (n, n))


def ring_scale(degrees: NDArray[Any]) -> NDArray[np.float32]:
    """Return 1/√degree of each node, 0 where there is none, [n]."""
    scale = np.zeros(len(degrees), dtype=np.float32)
    np.divide(1, np.sqrt(degrees), out=scale, where=degrees > 0, casting="unsafe")
    return scale


def capped_ring(
    adj: CSR, cap: int, *, hop: int = 2, seed: int = 0, self_loops: bool = False
) -> CSR:
    r"""Return the normalised ring `hop` with at most `cap` entries in a row, [n, n].

    With d the true sizes of the rings, a node v with more than `cap` keeps that many,
    all alike likely to be drawn, each weighted :math:`d_v / cap` times what it weighs
    in the exact matrix :math:`d_v^{-1/2} d_u^{-1/2}`: so a product with a row is right
    on average, and exact where nothing was left out. The result is not symmetric.

    An exact row is found and forgotten; what is drawn depends on the seed and the node
    alone.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    cap
        At least 1.
    hop
        The distance, at least 1.
    seed
        Of the draw.
    self_loops
        Whether each node is in its ring too; it does not count against the cap.
    """
    check_integer("cap", cap, 1)
    n = adj.shape[0]
    columns, starts, sizes = _drawn(adj, cap, hop, seed)
    scale = ring_scale(sizes + self_loops)
    weight = scale * (np.maximum(sizes, cap) / cap).astype(np.float32)
    values = np.repeat(weight, np.diff(starts)) * scale[columns]
    capped = CSR((values, columns, narrow(starts, starts[-1])), shape=(n, n))
    if self_loops:
        ego = CSR((scale**2, np.arange(n), np.arange(n + 1)), shape=(n, n))
        capped = CSR(capped + ego)
    return capped


def sampled_ring(adj: CSR, cap: int, *, hop: int = 2, seed: int = 0) -> CSR:
    """Return at most `cap` members of each node's ring `hop`, drawn, [n, n].

    The same that `capped_ring` draws. Each stands for as many as there are in truth:
    its value is the ring's size over the number drawn, so that sums over a row are
    right on average; it is 1 where nothing was left out.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    cap
        At least 1.
    hop
        The distance, at least 1.
    seed
        Of the draw.
    """
    check_integer("cap", cap, 1)
    return sampled_rows(adj, cap, hop=hop, seed=seed)[0]


def sampled_rows(
    adj: CSR,
    cap: int,
    nodes: NDArray[np.int64] | None = None,
    *,
    hop: int = 2,
    seed: int = 0,
) -> tuple[CSR, NDArray[np.int64]]:
    """Return the rows of `sampled_ring` of some nodes, and how large their rings are.

    Parameters
    ----------
    adj, cap, hop, seed
        As of `sampled_ring`.
    nodes
        Which rows; default all.

    Returns
    -------
    tuple[CSR, NDArray]
        [m, n], and the true sizes, [m].
    """
    columns, starts, sizes = _drawn(adj, cap, hop, seed, nodes)
    stands_for = (np.maximum(sizes, cap) / cap).astype(np.float32)
    values = np.repeat(stands_for, np.diff(starts))
    shape = (len(sizes), adj.shape[1])
    return CSR((values, columns, narrow(starts, starts[-1])), shape=shape), sizes


def _drawn(
    adj: CSR, cap: int, hop: int, seed: int, nodes: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the drawn columns, where each row begins, and the rings' true sizes."""
    chosen = _as_nodes(adj, nodes)
    if _is_first(hop):
        columns, ends = ring_pattern(adj, 1, chosen)
        drawn, rows = drawn_pattern(columns, ends, chosen.astype(np.int64), cap, seed)
        return drawn, rows, np.diff(ends)
    starts, neighbours = _kernel_form(adj)
    walks = _walks(adj, chosen)
    most = np.minimum(walks if hop == 2 else float(adj.shape[1]), cap)
    most = np.broadcast_to(most, walks.shape)

    def find(part: slice, room: NDArray[np.int32], to: NDArray[np.int64]) -> int:
        some = chosen[part]
        return int(_draw_rings(starts, neighbours, some, hop, cap, seed, room, to))

    return _found_and_joined(find, most, walks, cap)


RING_BLOCK = 2**24
"""Entries of a ring that are looked at together, about."""


def ring_blocks(adj: CSR, hop: int = 2) -> Iterator[tuple[slice, CSR]]:
    """Return ring `hop` some rows at a time, ones, so that it is never held whole.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 1.
    """
    sizes = ring_sizes(adj, hop)
    for first, last in row_blocks(sizes, RING_BLOCK):
        columns, rows = ring_pattern(
            adj, hop, np.arange(first, last), sizes[first:last]
        )
        values = np.ones(len(columns), dtype=np.float32)
        shape = (last - first, adj.shape[1])
        yield (
            slice(first, last),
            CSR((values, columns, narrow(rows, rows[-1])), shape=shape),
        )


def drawn_pattern(
    columns: NDArray[Any],
    starts: NDArray[np.int64],
    nodes: NDArray[np.int64],
    cap: int,
    seed: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return what `capped_ring` keeps of some rows: columns, and where each begins.

    Parameters
    ----------
    columns, starts
        Of the exact rows.
    nodes
        Whose rows they are.
    cap, seed
        As of `capped_ring`.
    """
    ring = columns.astype(np.int32, copy=False)
    to = row_starts(np.minimum(np.diff(starts), cap))
    drawn = np.empty(to[-1], dtype=np.int32)

    def draw(part: slice) -> None:
        ends = slice(part.start, part.stop + 1)
        _draw_rows(starts[ends], ring, nodes[part], cap, seed, to[ends], drawn)

    in_threads(draw, np.diff(starts))
    return drawn, to


# ------------------------------------------------------------------------------ kernels

ONE = np.uint64(1)
LOW = np.uint64(63)
SIX = np.uint64(6)
TWELVE = np.uint64(12)
EIGHTEEN = np.uint64(18)
THIRTY_TWO, GOLDEN = np.uint64(32), np.uint64(0x9E3779B97F4A7C15)


LINE = 16
"""Neighbours that come to the cache together."""


@compiled
def _fetch_ahead(starts, neighbours, nodes, i):  # type: ignore[no-untyped-def]
    """Have on its way what the two nodes after this one need to be taken a step from.

    Rows of neighbours lie anywhere in memory: one by one, each would be waited for.
    """
    if i + 2 < len(nodes):
        for at in range(starts[nodes[i + 2]], starts[nodes[i + 2] + 1]):
            fetch(starts, neighbours[at])
    if i + 1 < len(nodes):
        for at in range(starts[nodes[i + 1]], starts[nodes[i + 1] + 1]):
            row = starts[neighbours[at]]
            fetch(neighbours, row)
            fetch(neighbours, row + LINE)


@compiled
def _search(starts, neighbours, node, hop, mark, seen, queue):  # type: ignore[no-untyped-def]
    """Put all nodes nearer than `hop` into the queue; return where the last ring is."""
    seen[node] = mark
    queue[0] = node
    first, last = 0, 1
    for _ in range(hop - 1):
        end = last
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = neighbours[at]
                if seen[reached] != mark:
                    seen[reached] = mark
                    queue[end] = reached
                    end += 1
        first, last = last, end
    return first, last


@compiled
def _find_ring(starts, neighbours, node, hop, mark, seen, queue, bits, ring):  # type: ignore[no-untyped-def]
    """Write the nodes at distance `hop` of a node into `ring`; return how many.

    In the order in which they are met. `bits` is zero before and after.
    """
    if hop > 2:
        first, last = _search(starts, neighbours, node, hop, mark, seen, queue)
    else:  # one step is the graph's own row, and there is nothing to search for
        queue[0] = node
        first, last = 1, 1
        for step in range(starts[node], starts[node + 1]):
            queue[last] = neighbours[step]
            last += 1
    for place in range(last):
        nearer = np.uint64(queue[place])
        bits[nearer >> SIX] |= ONE << (nearer & LOW)
    size = 0
    for place in range(first, last):
        for step in range(starts[queue[place]], starts[queue[place] + 1]):
            reached = np.uint64(neighbours[step])
            word = bits[reached >> SIX]
            more = word | (ONE << (reached & LOW))
            if word != more:
                bits[reached >> SIX] = more
                ring[size] = reached
                size += 1
    for place in range(last):
        bits[np.uint64(queue[place]) >> SIX] = 0
    for place in range(size):
        bits[np.uint64(ring[place]) >> SIX] = 0
    return size


@compiled
def _count_rows(starts, neighbours, nodes, hop, sizes):  # type: ignore[no-untyped-def]
    """Count the nodes at distance `hop` of each of `nodes` into `sizes`."""
    n = len(starts) - 1
    seen = np.full(n if hop > 2 else 0, -1, np.int32)
    queue, ring = np.empty(n, np.int32), np.empty(n, np.int32)
    bits = np.zeros(n // 64 + 1, np.uint64)
    for i in range(len(nodes)):
        _fetch_ahead(starts, neighbours, nodes, i)
        sizes[i] = _find_ring(
            starts, neighbours, nodes[i], hop, i, seen, queue, bits, ring
        )


@compiled
def _fill_rows(starts, neighbours, nodes, hop, out, sizes):  # type: ignore[no-untyped-def]
    """Write the nodes at distance `hop` of each of `nodes`, sorted, into `out`.

    One row after the other, how many there are in each into `sizes`; return how many
    there are in all.
    """
    n = len(starts) - 1
    seen = np.full(n if hop > 2 else 0, -1, np.int32)
    queue = np.empty(n, np.int32)
    bits = np.zeros(n // 64 + 1, np.uint64)
    summary = np.zeros(n // 4096 + 1, np.uint64)
    summaries = np.zeros(n // 262144 + 1, np.uint64)
    at = 0
    for i in range(len(nodes)):
        node = nodes[i]
        _fetch_ahead(starts, neighbours, nodes, i)
        if hop > 2:
            first, last = _search(starts, neighbours, node, hop, i, seen, queue)
        else:  # one step is the graph's own row, and there is nothing to search for
            first, last = 0, 0
            for step in range(starts[node], starts[node + 1]):
                queue[last] = neighbours[step]
                last += 1
        for place in range(first, last):
            for step in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = np.uint64(neighbours[step])
                bits[reached >> SIX] |= ONE << (reached & LOW)
                summary[reached >> TWELVE] |= ONE << ((reached >> SIX) & LOW)
                summaries[reached >> EIGHTEEN] |= ONE << ((reached >> TWELVE) & LOW)
        for place in range(last):
            nearer = np.uint64(queue[place])
            bits[nearer >> SIX] &= ~(ONE << (nearer & LOW))
        own = np.uint64(node)
        bits[own >> SIX] &= ~(ONE << (own & LOW))
        begun = at
        for top in range(len(summaries)):
            blocks = summaries[top]
            summaries[top] = 0
            while blocks != 0:
                block = top * 64 + lowest_bit(blocks)
                blocks &= blocks - ONE
                words = summary[block]
                summary[block] = 0
                while words != 0:
                    place = block * 64 + lowest_bit(words)
                    words &= words - ONE
                    word = bits[place]
                    bits[place] = 0
                    while word != 0:
                        out[at] = place * 64 + lowest_bit(word)
                        word &= word - ONE
                        at += 1
        sizes[i] = at - begun
    return at


@compiled
def _write_scaled(starts, columns, rows, scale, values):  # type: ignore[no-untyped-def]
    """Write the product of the scales of row and column as each entry's value."""
    for i in range(len(rows)):
        for at in range(starts[i], starts[i + 1]):
            values[at] = rows[i] * scale[columns[at]]


@compiled
def _draw_rings(starts, neighbours, nodes, hop, cap, seed, out, sizes):  # type: ignore[no-untyped-def]
    """Write at most `cap` nodes at distance `hop` of each of `nodes` into `out`.

    One row after the other, drawn by `_draw_row`; how many there are in truth into
    `sizes`. Return how many are written. No ring is kept longer than its node's turn.
    """
    n = len(starts) - 1
    seen = np.full(n if hop > 2 else 0, -1, np.int32)
    queue, ring = np.empty(n, np.int32), np.empty(n, np.int32)
    bits, keys = np.zeros(n // 64 + 1, np.uint64), np.empty(n, np.uint64)
    to = 0
    for i in range(len(nodes)):
        _fetch_ahead(starts, neighbours, nodes, i)
        size = _find_ring(starts, neighbours, nodes[i], hop, i, seen, queue, bits, ring)
        if size <= cap:
            ring[:size].sort()
        sizes[i] = size
        to += _draw_row(ring[:size], nodes[i], cap, seed, keys, out[to:])
    return to


@compiled
def _draw_rows(row_starts, columns, nodes, cap, seed, out_starts, out):  # type: ignore[no-untyped-def]
    """Write at most `cap` columns of each row, drawn by `_draw_row`, into `out`."""
    longest = 1
    for i in range(len(nodes)):
        longest = max(longest, row_starts[i + 1] - row_starts[i])
    keys = np.empty(longest, np.uint64)
    for i in range(len(nodes)):
        row = columns[row_starts[i] : row_starts[i + 1]]
        _draw_row(row, nodes[i], cap, seed, keys, out[out_starts[i] :])


@compiled
def _draw_row(row, node, cap, seed, keys, out):  # type: ignore[no-untyped-def]
    """Write at most `cap` columns of a row, drawn by seed and node; return how many.

    Each column gets a random number; those with the `cap` smallest are kept, sorted,
    in whatever order they came. Only numbers below a limit that somewhat more than
    `cap` should pass are compared; where too few pass, all are.
    """
    size = len(row)
    if size <= cap:
        out[:size] = row
        return size
    everything = np.uint64(0xFFFFFFFF)
    own = mix(np.uint64(seed) + mix(np.uint64(node) + ONE))
    share = (cap + 5 * np.sqrt(cap) + 5) / size
    limit = np.uint64(share * 4294967296.0) if share < 1 else everything
    kept = 0
    while True:
        for at in range(size):
            column = np.uint64(row[at])
            number = mix(own + (column + ONE) * GOLDEN) >> THIRTY_TWO
            if number <= limit:
                keys[kept] = number << THIRTY_TWO | column
                kept += 1
        if kept >= cap:
            break
        limit, kept = everything, 0
    keys[:kept].sort()
    for place in range(cap):
        keys[place] &= everything
    keys[:cap].sort()
    for place in range(cap):
        out[place] = keys[place]
    return cap


# ---------------------------------------------------------------------- blocks of rows


def narrow(indices: NDArray[Any], largest: int) -> NDArray[Any]:
    """Return indices in 32 bits if numbers up to `largest` can be, else as they are."""
    fits = largest <= np.iinfo(np.int32).max
    return indices.astype(np.int32, copy=False) if fits else indices


def row_blocks(sizes: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = row_starts(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))
