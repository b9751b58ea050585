"""Capped rings: what is drawn, how it is weighted, that it is right on average."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn.rings import drawn_pattern, exact_rings, normalise, sampled_rows
from h2gcn.rings.exact import capped_ring, ring_rows
from support.cases import each
from support.graphs import adjacency, random_adjacency
from support.refusals import refused

LEAVES = 40
STAR = adjacency(LEAVES + 1, [(0, v) for v in range(1, LEAVES + 1)])
"""Every leaf has the other 39 leaves in its 2-hop ring."""


@given(st.integers(0, 30), st.integers(1, 40), st.integers(0, 5))
def test_a_row_is_a_sample_of_the_exact_row(graph: int, cap: int, seed: int) -> None:
    adj = random_adjacency(graph)
    exact, capped = exact_rings(adj)[1], capped_ring(adj, cap, seed=seed)
    sizes = np.diff(exact.indptr)
    assert np.array_equal(np.diff(capped.indptr), np.minimum(sizes, cap))
    assert capped.has_sorted_indices
    assert not (capped.astype(bool) > exact.astype(bool)).nnz
    # Weights are those of the exact matrix, times the true size over the cap.
    whole = normalise(exact).toarray()
    factor = np.maximum(sizes, cap) / cap
    present = capped.toarray() != 0
    expected = np.where(present, whole * factor[:, None], 0)
    np.testing.assert_allclose(capped.toarray(), expected, rtol=1e-6)


@each("self_loops", [False, True])
def test_a_cap_that_nothing_exceeds_is_the_exact_ring(self_loops: bool) -> None:
    adj = random_adjacency(7)
    exact = normalise(exact_rings(adj)[1], self_loops=self_loops)
    capped = capped_ring(adj, 30, self_loops=self_loops)
    np.testing.assert_allclose(capped.toarray(), exact.toarray(), rtol=1e-6)


def test_products_are_right_on_average() -> None:
    values = np.random.default_rng(0).normal(size=LEAVES + 1)
    exact = normalise(exact_rings(STAR)[1]) @ values
    draws = [capped_ring(STAR, 8, seed=seed) @ values for seed in range(600)]
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - exact) <= 4.5 * error + 1e-6).all()


def test_every_member_and_pair_is_as_likely_as_any_other() -> None:
    cap, draws = 10, 1500
    pairs = np.zeros((LEAVES + 1, LEAVES + 1))
    for seed in range(draws):
        drawn = capped_ring(STAR, cap, seed=seed)[[5]].indices
        pairs[np.ix_(drawn, drawn)] += 1
    others = np.delete(np.arange(1, LEAVES + 1), 4)
    share = np.diag(pairs)[others] / draws
    p = cap / (LEAVES - 1)
    assert np.abs(share - p).max() < 4.5 * (p * (1 - p) / draws) ** 0.5
    together = pairs[np.ix_(others, others)][np.triu_indices(LEAVES - 1, 1)] / draws
    q = p * (cap - 1) / (LEAVES - 2)
    assert np.abs(together - q).max() < 5 * (q * (1 - q) / draws) ** 0.5


def test_nodes_draw_independently() -> None:
    rows = capped_ring(STAR, 10, seed=1)
    drawn = [set(rows[[v]].indices) - {1, 2} for v in (1, 2)]
    assert drawn[0] != drawn[1]


def test_the_draw_depends_on_seed_and_node_alone() -> None:
    whole = capped_ring(STAR, 2, seed=4)
    for nodes in ([3], [7, 2, 7], range(1, LEAVES)):
        rows, _ = sampled_rows(STAR, 2, np.array(nodes), seed=4)
        assert np.array_equal(rows.indices, whole[[*nodes]].indices)
    assert not np.array_equal(whole.indices, capped_ring(STAR, 2, seed=5).indices)


@given(st.integers(0, 30), st.integers(1, 12), st.integers(2, 4), st.integers(0, 9))
def test_rings_are_drawn_as_their_rows_are(
    graph: int, cap: int, hop: int, seed: int
) -> None:
    """What is drawn while a ring is searched is what is drawn of the ring."""
    adj = random_adjacency(graph)
    ring, nodes = ring_rows(adj, hop), np.arange(adj.shape[0])
    columns, starts = drawn_pattern(ring.indices, ring.indptr, nodes, cap, seed)
    found, sizes = sampled_rows(adj, cap, hop=hop, seed=seed)
    assert found.indices.tolist() == columns.tolist()
    assert found.indptr.tolist() == starts.tolist()
    assert sizes.tolist() == np.diff(ring.indptr).tolist()


def test_a_row_of_which_too_few_pass_the_first_limit() -> None:
    """A cap of 1 of 39: now and then no number is below the limit at first."""
    rows = [capped_ring(STAR, 1, seed=seed) for seed in range(300)]
    assert all((np.diff(row.indptr)[1:] == 1).all() for row in rows)


@each("cap", [0, -1, 2.5, True])
def test_a_cap_must_be_a_positive_integer(cap: int) -> None:
    with refused(param="cap", value=cap):
        capped_ring(STAR, cap)


def test_a_graph_without_edges() -> None:
    empty = capped_ring(adjacency(3, []), 4)
    assert empty.shape == (3, 3)
    assert empty.nnz == 0
    loops = capped_ring(adjacency(3, []), 4, self_loops=True)
    assert sp.linalg.norm(loops - sp.eye_array(3)) == 0
