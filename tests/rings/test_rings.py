"""Rings against breadth-first search, whole and row by row; their normalization."""

from collections import deque

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from h2gcn.rings import (
    exact_rings,
    iter_ring,
    ring_rows,
    ring_sizes,
    rings,
    row_blocks,
)
from support.graphs import NAMED, adjacency, one_way, random_adjacency
from support.refusals import refused

HOPS = 4


def distances(adj):
    """Return all shortest distances by breadth-first search; -1 is unreachable."""
    dense = adj.toarray()
    np.fill_diagonal(dense, 0)
    result = np.full(dense.shape, -1)
    for source in range(len(dense)):
        result[source, source] = 0
        queue = deque([source])
        while queue:
            u = queue.popleft()
            for v in np.flatnonzero(dense[u]):
                if result[source, v] < 0:
                    result[source, v] = result[source, u] + 1
                    queue.append(v)
    return result


@st.composite
def adjacencies(draw):
    n = draw(st.integers(1, 9))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return adjacency(n, edges)


def share_rows_among_threads(patch, threads):
    patch.setattr("h2gcn.sparse.threads.MIN_COST", 0)
    patch.setattr("h2gcn.sparse.threads.count_threads", lambda: threads)


def test_rings_are_shortest_distances():
    random = [random_adjacency(seed) for seed in range(200)]
    directed = [one_way(random_adjacency(seed), seed) for seed in range(20)]
    path = NAMED["path"]
    indices = path.indices.astype(np.int64), path.indptr.astype(np.int64)
    wide = sp.csr_array((path.data, *indices), shape=path.shape)
    for adj in (*NAMED.values(), *random, *directed, wide):
        distance, found = distances(adj), exact_rings(adj, hops=HOPS)
        assert len(found) == HOPS
        for hop, ring in enumerate(found, start=1):
            assert np.array_equal(ring.toarray(), distance == hop), f"ring {hop}"
            assert isinstance(ring, sp.csr_array)
            assert ring.dtype == np.float32
            assert (ring.indices.dtype, ring.indptr.dtype) == (np.int32, np.int32)
            for row in np.split(ring.indices, ring.indptr[1:-1]):
                assert (np.diff(row) > 0).all()


def test_rings_by_hand():
    for hop, ring in enumerate(exact_rings(NAMED["path"], hops=4), start=1):
        assert np.array_equal(ring.toarray(), np.eye(5, k=hop) + np.eye(5, k=-hop))
    first, second = exact_rings(NAMED["K4"])
    assert (first.nnz, second.nnz, second.shape) == (12, 0, (4, 4))
    leaves = np.ones((5, 5)) - np.eye(5)
    leaves[0] = leaves[:, 0] = 0
    assert np.array_equal(exact_rings(NAMED["star"])[1].toarray(), leaves)


def test_loops_zeros_weights_and_repeated_edges_of_the_input_do_not_count():
    dirty = NAMED["path"].toarray() * 7
    np.fill_diagonal(dirty, 1)
    stored = sp.csr_array(dirty)
    stored.data[stored.data == 1] = [1, 0, 1, 0, 1]
    clean = exact_rings(NAMED["path"], hops=3)
    for ring, expected in zip(exact_rings(stored, hops=3), clean, strict=True):
        assert np.array_equal(ring.toarray(), expected.toarray())
        assert ring.nnz == expected.nnz
    columns = np.array([1, 1, 0, 0]), np.array([0, 2, 4])
    (ring,) = exact_rings(sp.csr_array((np.ones(4), *columns), shape=(2, 2)), hops=1)
    assert ring.nnz == 2
    np.testing.assert_array_equal(ring.toarray(), [[0, 1], [1, 0]])


def test_arguments_out_of_range_are_refused():
    path = NAMED["path"]
    for hops in (0, -1, 1.5, "2", True, None, 1001):
        with refused(param="hops", value=hops):
            exact_rings(path, hops=hops)
    with refused(param="adj"):
        exact_rings(sp.csr_array(np.ones((2, 3))))
    for function in (ring_rows, ring_sizes):
        for hop in (0, -1, 1.5):
            with refused(param="hop", value=hop):
                function(path, hop)
        for nodes in ([5], [-1]):
            with refused(param="nodes"):
                function(path, 2, np.array(nodes))
    for k in (0, -1, 2.5, True):
        with refused(param="max_neighbors", value=k):
            ring_rows(path, max_neighbors=k)


def test_ring_2_is_neither_of_two_published_mistakes():
    """I[A² − A − I > 0] over the integers, and I[A² > 0] with the diagonal left in."""
    triangle = adjacency(3, [(0, 1), (1, 2), (0, 2)])
    for adj, left in ((triangle, np.eye(3)), (NAMED["K4"], np.ones((4, 4)))):
        # Two nodes of a triangle have a walk of two between them besides the edge.
        a = adj.toarray().astype(int)
        assert np.array_equal(a @ a - a - np.eye(len(a), dtype=int) > 0, left)
        assert exact_rings(adj)[1].nnz == 0
    path = adjacency(4, [(0, 1), (1, 2), (2, 3)])
    a = path.toarray().astype(int)
    walks = ((a @ a > 0) & (a == 0)).astype(int)
    assert np.array_equal(walks - exact_rings(path)[1].toarray(), np.eye(4))


@settings(max_examples=100, deadline=None)
@given(adjacencies(), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.data())
def test_rows_of_any_nodes(adj, hop, threads, self_loops, data):
    nodes = np.array(
        data.draw(st.lists(st.integers(0, adj.shape[0] - 1), max_size=12)), dtype=int
    )
    expected = distances(adj)[nodes] == hop
    for entries in (2**30, 0):  # written in one pass, and counted first
        with pytest.MonkeyPatch.context() as patch:
            share_rows_among_threads(patch, threads)
            patch.setattr(rings, "SINGLE_PASS_ENTRIES", entries)
            rows, sizes = ring_rows(adj, hop, nodes, self_loops=self_loops)
            assert np.array_equal(ring_sizes(adj, hop, nodes), expected.sum(axis=1))
        assert np.array_equal(sizes, expected.sum(axis=1))
        loops = self_loops * np.eye(adj.shape[0])[nodes]
        assert np.array_equal(rows.toarray(), expected + loops)
        assert rows.indices.tolist() == np.nonzero(expected + loops)[1].tolist()


def test_a_graph_that_cannot_be_written_to():
    adj = random_adjacency(2)
    expected = [ring_rows(adj, hop)[0] for hop in (2, 3)]
    adj.indices.flags.writeable = adj.indptr.flags.writeable = False
    for hop, ring in zip((2, 3), expected, strict=True):
        assert (ring_rows(adj, hop)[0] != ring).nnz == 0


def test_bitmaps_of_many_words():
    """Nodes far apart: several words of the bitmap, and of the words above it."""
    n, hubs = 10_000, [0, 5000, 9_999]
    adj = adjacency(n, [(hubs[v % 3], v) for v in range(1, n - 1) if v != 5000])
    rows, _ = ring_rows(adj, 2, np.array([3]))
    assert rows.indices.tolist() == list(range(6, n - 1, 3))
    n = 600_000
    ends = [1, 70_000, 262_143, 262_144, 300_000, 524_288, n - 1]
    near, far = np.array([0] + [2] * len(ends)), np.array([2, *ends])
    both = (np.append(near, far), np.append(far, near))
    adj = sp.csr_array((np.ones(len(both[0]), np.float32), both), shape=(n, n))
    rows, sizes = ring_rows(adj, 2, np.array([0, 5] + [0] * 9_000))
    assert sizes[:3].tolist() == [7, 0, 7]
    assert rows.indices.reshape(-1, 7).tolist() == [ends] * 9_001


def test_blocks_of_rows_are_the_ring(monkeypatch):
    monkeypatch.setattr(rings, "ITER_ENTRIES", 3)
    for hop, ring in enumerate(exact_rings(NAMED["path"], hops=3), start=1):
        parts = list(iter_ring(NAMED["path"], hop))
        assert len(parts) > 1
        whole = np.concatenate([block.toarray() for _, block in parts])
        assert np.array_equal(whole, ring.toarray())
        assert [r.start for r, _ in parts[1:]] == [r.stop for r, _ in parts[:-1]]


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 50))
def test_row_blocks_cover_the_rows_in_order(sizes, entries):
    blocks = row_blocks(np.array(sizes, dtype=np.int64), entries)
    covered = [row for first, last in blocks for row in range(first, last)]
    assert covered == list(range(len(sizes)))
    # A block exceeds what was asked for by no more than its last row.
    assert all(sum(sizes[a : b - 1]) <= entries for a, b in blocks if b - a > 1)
