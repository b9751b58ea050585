"""Rings against breadth-first search, whole and row by row; their normalisation."""

from collections import deque
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.rings import (
    exact as rings_module,
    exact_rings,
    normalise,
    normalise_directed,
)
from h2gcn.rings.exact import ring_pattern, ring_rows, ring_sizes, sampled_rows
from h2gcn.sparse import Operator
from h2gcn.sparse.large import RowSums
from support.cases import each
from support.graphs import DIRECTED, NAMED, adjacency, one_way, random_adjacency
from support.refusals import refused

HOPS = 4


def distances(adj: sp.csr_array) -> np.ndarray:
    """Return all shortest distances by breadth-first search; -1 is unreachable."""
    dense = adj.toarray()
    neighbours = [
        [v for v in range(len(dense)) if v != u and dense[u, v]]
        for u in range(len(dense))
    ]
    found = np.full(dense.shape, -1)
    for source in range(len(dense)):
        found[source, source] = 0
        queue = deque([source])
        while queue:
            u = queue.popleft()
            for v in neighbours[u]:
                if found[source, v] < 0:
                    found[source, v] = found[source, u] + 1
                    queue.append(v)
    return found


@st.composite
def adjacencies(draw: st.DrawFn) -> sp.csr_array:
    n = draw(st.integers(1, 9))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return adjacency(n, edges)


def assert_rings_are_distances(adj: sp.csr_array) -> None:
    distance = distances(adj)
    rings = exact_rings(adj, hops=HOPS)
    assert len(rings) == HOPS
    for hop, ring in enumerate(rings, start=1):
        assert np.array_equal(ring.toarray(), distance == hop), f"ring {hop}"


# ------------------------------------------------------------------------- rings


@each("batch", range(8))
def test_rings_are_shortest_distances_on_random_graphs(batch: int) -> None:
    for seed in range(25 * batch, 25 * (batch + 1)):
        assert_rings_are_distances(random_adjacency(seed))


@each("named_adj", NAMED.values(), ids=NAMED)
def test_rings_are_shortest_distances_on_named_graphs(named_adj: sp.csr_array) -> None:
    assert_rings_are_distances(named_adj)


def test_rings_of_a_path_by_hand() -> None:
    first, second, third, fourth = exact_rings(NAMED["path"], hops=4)
    assert set(zip(*map(list, first.nonzero()), strict=True)) == {
        *((0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3))
    }
    assert set(zip(*map(list, second.nonzero()), strict=True)) == {
        *((0, 2), (2, 0), (1, 3), (3, 1), (2, 4), (4, 2))
    }
    assert set(zip(*map(list, third.nonzero()), strict=True)) == {
        *((0, 3), (3, 0), (1, 4), (4, 1))
    }
    assert set(zip(*map(list, fourth.nonzero()), strict=True)) == {(0, 4), (4, 0)}


def test_everyone_is_a_neighbour_in_k4_so_ring_2_is_empty() -> None:
    first, second = exact_rings(NAMED["K4"])
    assert first.nnz == 12
    assert second.nnz == 0
    assert second.shape == (4, 4)


def test_the_leaves_of_a_star_are_the_second_ring_of_each_other() -> None:
    _, second = exact_rings(NAMED["star"])
    leaves = np.ones((5, 5)) - np.eye(5)
    leaves[0] = leaves[:, 0] = 0
    assert np.array_equal(second.toarray(), leaves)


@settings(max_examples=60, deadline=None)
@given(adjacencies())
def test_rings_partition_the_connected_pairs(adj: sp.csr_array) -> None:
    n = adj.shape[0]
    rings = [ring.toarray() for ring in exact_rings(adj, hops=max(n, 2))]
    for ring in rings:
        assert not np.diag(ring).any()
        assert np.array_equal(ring, ring.T)
        assert set(np.unique(ring)) <= {0, 1}
    # Disjoint: no pair is counted twice; complete: none that has a path is missing.
    assert np.array_equal(np.sum(rings, axis=0), distances(adj) > 0)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_rings_are_stored_as_sorted_float32_ones(named_adj: sp.csr_array) -> None:
    for ring in exact_rings(named_adj, hops=3):
        assert isinstance(ring, sp.csr_array)
        assert ring.dtype == np.float32
        assert ring.indices.dtype == np.int32
        assert ring.indptr.dtype == np.int32
        assert (ring.data == 1).all()
        for row in range(ring.shape[0]):
            columns = ring.indices[ring.indptr[row] : ring.indptr[row + 1]]
            assert (np.diff(columns) > 0).all()


def test_wide_indices_become_int32() -> None:
    path = NAMED["path"]
    wide = sp.csr_array(
        (path.data, path.indices.astype(np.int64), path.indptr.astype(np.int64)),
        shape=path.shape,
    )
    assert [ring.indices.dtype for ring in exact_rings(wide)] == [np.int32, np.int32]


def test_fewer_hops_give_the_first_rings() -> None:
    adj = NAMED["triangle with tail"]
    for hops in (1, 2, 3):
        for ring, longer in zip(
            exact_rings(adj, hops=hops), exact_rings(adj, hops=4), strict=False
        ):
            assert np.array_equal(ring.toarray(), longer.toarray())


def test_loops_zeros_and_weights_of_the_input_do_not_count() -> None:
    dirty = NAMED["path"].toarray() * 7
    np.fill_diagonal(dirty, 1)
    stored = sp.csr_array(dirty)
    stored.data[stored.data == 1] = [1, 0, 1, 0, 1]
    for ring, clean in zip(
        exact_rings(stored, hops=3), exact_rings(NAMED["path"], hops=3), strict=True
    ):
        assert np.array_equal(ring.toarray(), clean.toarray())
        assert ring.nnz == clean.nnz


def test_an_edge_that_is_stored_twice_is_one_edge() -> None:
    twice = sp.csr_array(
        (np.ones(4), [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2), dtype=np.float32
    )
    (ring,) = exact_rings(twice, hops=1)
    assert ring.nnz == 2
    np.testing.assert_array_equal(ring.toarray(), [[0, 1], [1, 0]])


def test_the_input_is_left_as_it_was() -> None:
    adj = NAMED["triangle with tail"].copy()
    for ring in exact_rings(adj, hops=2):
        ring.data[:] = 5
    normalise(adj).data[:] = 5
    normalise(adj, self_loops=True).data[:] = 5
    assert np.array_equal(adj.toarray(), NAMED["triangle with tail"].toarray())


@each("hops", [0, -1, 1.5, "2", True, None, 1001])
def test_hops_must_be_a_positive_integer(hops: object) -> None:
    with refused(param="hops", value=hops):
        exact_rings(NAMED["path"], hops=hops)


# ---------------------------------------------------- the two published mistakes


def literal_formula(adj: sp.csr_array) -> np.ndarray:
    """Return I[A² − A − I > 0] over the integers, as one port computes it."""
    a = adj.toarray().astype(int)
    return (a @ a - a - np.eye(len(a), dtype=int) > 0).astype(int)


def two_step_walks(adj: sp.csr_array) -> np.ndarray:
    """Return I[A² > 0] without ring 1, its diagonal left in, as another port does."""
    a = adj.toarray().astype(int)
    return ((a @ a > 0) & (a == 0)).astype(int)


def test_ring_2_is_not_the_formula_over_the_integers() -> None:
    triangle = adjacency(3, [(0, 1), (1, 2), (0, 2)])
    # Each node has two walks of length two back to itself: 2 − 0 − 1 > 0.
    assert np.array_equal(literal_formula(triangle), np.eye(3))
    assert exact_rings(triangle)[1].nnz == 0
    # In K4 each neighbour is reached by two more walks: 2 − 1 − 0 > 0.
    assert literal_formula(NAMED["K4"]).sum() == 16
    assert exact_rings(NAMED["K4"])[1].nnz == 0


def test_ring_2_never_holds_the_egos() -> None:
    path = adjacency(4, [(0, 1), (1, 2), (2, 3)])
    ours = exact_rings(path)[1].toarray()
    assert np.array_equal(two_step_walks(path) - ours, np.eye(4))


# ----------------------------------------------------------------- normalisation


def dense_normalised(a: np.ndarray) -> np.ndarray:
    """Return D^-1/2 A D^-1/2 entry by entry."""
    degree = a.sum(axis=1)
    result = np.zeros(a.shape)
    for u, v in zip(*a.nonzero(), strict=True):
        result[u, v] = a[u, v] / np.sqrt(degree[u] * degree[v])
    return result


@each("named_adj", NAMED.values(), ids=NAMED)
@each("hop", [1, 2])
def test_normalise_divides_by_the_rings_own_degrees(
    named_adj: sp.csr_array, hop: int
) -> None:
    ring = exact_rings(named_adj)[hop - 1]
    normalised = normalise(ring)
    assert normalised.dtype == np.float32
    np.testing.assert_allclose(
        normalised.toarray(), dense_normalised(ring.toarray()), rtol=1e-6
    )


@each("named_adj", NAMED.values(), ids=NAMED)
@each("hop", [1, 2])
def test_self_loops_are_added_before_the_degrees_are_taken(
    named_adj: sp.csr_array, hop: int
) -> None:
    ring = exact_rings(named_adj)[hop - 1]
    normalised = normalise(ring, self_loops=True)
    assert normalised.dtype == np.float32
    expected = dense_normalised(ring.toarray() + np.eye(ring.shape[0]))
    np.testing.assert_allclose(normalised.toarray(), expected, rtol=1e-6)


def test_normalise_by_hand() -> None:
    half, root = 0.5, np.sqrt(0.5)
    assert normalise(NAMED["star"]).toarray()[0].tolist() == [0, half, half, half, half]
    np.testing.assert_allclose(
        normalise(adjacency(3, [(0, 1), (1, 2)])).toarray(),
        [[0, root, 0], [root, 0, root], [0, root, 0]],
        rtol=1e-6,
    )


def test_empty_rows_stay_zero() -> None:
    normalised = normalise(NAMED["isolated last node"])
    assert normalised.toarray()[3].tolist() == [0, 0, 0, 0]
    assert np.isfinite(normalised.data).all()
    assert normalise(NAMED["no edges"]).nnz == 0


def test_an_isolated_node_with_a_self_loop_keeps_itself() -> None:
    normalised = normalise(NAMED["isolated last node"], self_loops=True)
    assert normalised.toarray()[3].tolist() == [0, 0, 0, 1]


@each("self_loops", [False, True])
@each("hop", [1, 2])
def test_directed_rings_are_divided_by_what_leaves_and_what_arrives(
    hop: int, self_loops: bool
) -> None:
    ring = exact_rings(DIRECTED)[hop - 1]
    dense = ring.toarray().astype(float) + self_loops * np.eye(6)
    out, into = dense.sum(axis=1), dense.sum(axis=0)
    expected = np.zeros((6, 6))
    for u, v in zip(*dense.nonzero(), strict=True):
        expected[u, v] = 1 / np.sqrt(out[u] * into[v])
    found = normalise_directed(ring, self_loops=self_loops)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
    turned = normalise_directed(sp.csr_array(ring.T), self_loops=self_loops)
    np.testing.assert_allclose(turned.toarray(), expected.T, rtol=1e-6)
    assert ring.toarray().tolist() == exact_rings(DIRECTED)[hop - 1].toarray().tolist()


@each("seed", range(20))
def test_rings_follow_directions(seed: int) -> None:
    assert_rings_are_distances(one_way(random_adjacency(seed), seed))


@each("named_adj", NAMED.values(), ids=NAMED)
def test_a_symmetric_ring_is_normalised_alike(named_adj: sp.csr_array) -> None:
    np.testing.assert_allclose(
        normalise_directed(named_adj).toarray(),
        normalise(named_adj).toarray(),
        rtol=1e-6,
    )


@settings(max_examples=40, deadline=None)
@given(adjacencies(), st.booleans())
def test_a_normalised_ring_is_symmetric_with_spectrum_in_one(
    adj: sp.csr_array, self_loops: bool
) -> None:
    dense = normalise(adj, self_loops=self_loops).toarray().astype(float)
    np.testing.assert_array_equal(dense, dense.T)
    assert np.abs(np.linalg.eigvalsh(dense)).max() <= 1 + 1e-6


@each("threads", [1, 3])
def test_compiled_code_normalises_to_the_same_bits(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = exact_rings(random_adjacency(3))[1]
    plain = normalise(ring)
    monkeypatch.setattr(rings_module, "FEW_ENTRIES", 0)
    monkeypatch.setattr("h2gcn.sparse.rows.SMALL_WORK", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    shared = normalise(ring)
    assert np.array_equal(plain.data, shared.data)
    assert shared.data.dtype == plain.data.dtype
    assert np.shares_memory(shared.indices, ring.indices)


# --------------------------------------------------------------------------- rows


@settings(max_examples=60, deadline=None)
@given(adjacencies(), st.integers(2, 4), st.data())
def test_rows_of_any_nodes(adj: sp.csr_array, hop: int, data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(0, adj.shape[0] - 1), max_size=12))
    wanted = distances(adj)[nodes] == hop
    assert np.array_equal(ring_sizes(adj, hop, np.array(nodes)), wanted.sum(axis=1))
    rows = ring_rows(adj, hop, np.array(nodes, dtype=np.int64))
    assert rows.shape == wanted.shape
    assert np.array_equal(rows.toarray(), wanted)
    assert all((np.diff(row) > 0).all() for row in np.split(rows.indices, rows.indptr))


@settings(max_examples=60, deadline=None)
@given(adjacencies(), st.integers(2, 4), st.booleans(), st.integers(1, 3), st.data())
def test_compiled_rows_are_those_of_a_search_by_breadth(
    adj: sp.csr_array, hop: int, counted: bool, threads: int, data: st.DataObject
) -> None:
    nodes = data.draw(st.lists(st.integers(0, adj.shape[0] - 1), max_size=12))
    wanted = distances(adj)[nodes] == hop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings_module, "FEW_WALKS", 0)
        patch.setattr(rings_module, "MANY_WALKS", 0 if counted else np.inf)
        patch.setattr("h2gcn.sparse.rows.SMALL_WORK", 0)
        patch.setattr("torch.get_num_threads", lambda: threads)
        columns, rows = ring_pattern(adj, hop, np.array(nodes, dtype=np.int64))
    assert np.array_equal(rows, np.append(0, np.cumsum(wanted.sum(axis=1))))
    assert np.array_equal(columns, np.nonzero(wanted)[1])


@each("hop", [2, 3])
def test_a_graph_that_cannot_be_written_to(
    hop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings_module, "FEW_WALKS", 0)
    adj = random_adjacency(2)
    columns, rows = ring_pattern(adj, hop)
    adj.indices.flags.writeable = adj.indptr.flags.writeable = False
    for sizes in (None, ring_sizes(adj, hop)):
        found = ring_pattern(adj, hop, sizes=sizes)
        assert np.array_equal(found[0], columns)
        assert np.array_equal(found[1], rows)


def test_bitmaps_of_many_words() -> None:
    """Nodes far apart: several words of the bitmap, and of its summary."""
    n = 10_000
    hubs = [0, 5000, n - 1]
    spokes = np.arange(1, n - 1)
    edges = [(hubs[v % 3], int(v)) for v in spokes if v != 5000]
    adj = adjacency(n, edges)
    rows, _ = ring_pattern(adj, 2, np.array([3]))
    assert rows.tolist() == list(range(6, n - 1, 3))


def test_bitmaps_of_many_summaries() -> None:
    """Nodes so far apart that summaries of the summary are several words too."""
    n = 600_000
    ends = [1, 70_000, 262_143, 262_144, 300_000, 524_288, n - 1]
    near, far = np.array([0] + [2] * len(ends)), np.array([2, *ends])
    both = (np.append(near, far), np.append(far, near))
    adj = sp.csr_array((np.ones(len(both[0]), np.float32), both), shape=(n, n))
    columns, starts = ring_pattern(adj, 2, np.array([0, 5] + [0] * 9_000))
    assert columns[: starts[1]].tolist() == ends
    assert starts[2] == starts[1]
    assert columns[-len(ends) :].tolist() == ends


@each("seed", range(4))
def test_threads_share_the_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    adj = random_adjacency(seed)
    alone = exact_rings(adj, hops=3)
    monkeypatch.setattr(rings_module, "FEW_WALKS", 0)
    monkeypatch.setattr("h2gcn.sparse.rows.SMALL_WORK", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    for one, other in zip(alone, exact_rings(adj, hops=3), strict=True):
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.indptr, other.indptr)


@each("directed", [False, True])
def test_a_few_walks_are_counted_by_a_product(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    matrix = np.triu(rng.random((60, 60)) < 0.06, 1)
    matrix = matrix if directed else matrix | matrix.T
    adj = CSR(matrix.astype(np.float32))
    nodes = np.array([5, 0, 59, 5])
    found = [ring_rows(adj, 2), ring_rows(adj, 2, nodes)]
    sizes = [ring_sizes(adj, 2), ring_sizes(adj, 2, nodes)]
    monkeypatch.setattr("h2gcn.rings.exact.FEW_WALKS", 0)
    for ours, kernel in zip(
        found, [ring_rows(adj, 2), ring_rows(adj, 2, nodes)], strict=True
    ):
        assert np.array_equal(ours.indptr, kernel.indptr)
        assert np.array_equal(ours.indices, kernel.indices)
        assert ours.indices.dtype == kernel.indices.dtype
    for ours, kernel in zip(
        sizes, [ring_sizes(adj, 2), ring_sizes(adj, 2, nodes)], strict=True
    ):
        assert np.array_equal(ours, kernel)
        assert ours.dtype == kernel.dtype


def test_ring_1_is_the_neighbours(named_adj: sp.csr_array) -> None:
    adj = exact_rings(named_adj, hops=1)[0]
    nodes = np.arange(adj.shape[0])[::2]
    for rows in (None, nodes):
        expected = adj if rows is None else CSR(adj[rows])
        assert (ring_rows(adj, 1, rows) != expected).nnz == 0
        np.testing.assert_array_equal(
            ring_sizes(adj, 1, rows), np.diff(expected.indptr)
        )
    whole, sizes = sampled_rows(adj, max(adj.shape[0], 1), hop=1)
    assert (whole != adj).nnz == 0
    np.testing.assert_array_equal(sizes, np.diff(adj.indptr))
    few, sizes = sampled_rows(adj, 1, nodes, hop=1)
    assert few.multiply(CSR(adj[nodes])).nnz == few.nnz
    np.testing.assert_array_equal(np.diff(few.indptr), np.minimum(sizes, 1))


@pytest.mark.parametrize("rings", [ring_rows, ring_sizes, ring_pattern])
@pytest.mark.parametrize("hop", [0, -1, 1.5])
def test_rings_below_the_first_are_refused(rings: Any, hop: int) -> None:
    with pytest.raises(InputError) as caught:
        rings(NAMED["path"], hop)
    assert (caught.value.param, caught.value.value) == ("hop", hop)


@pytest.mark.parametrize("of", [normalise, normalise_directed, Operator, RowSums])
def test_unsorted_matrices_of_the_caller_stay_as_they_are(of: Any) -> None:
    columns = np.array([2, 1, 0, 0], dtype=np.int32)
    starts = np.array([0, 2, 3, 4], dtype=np.int32)
    matrix = CSR((np.ones(4, dtype=np.float32), columns, starts), shape=(3, 3))
    of(matrix)
    assert matrix.indices.tolist() == [2, 1, 0, 0]
