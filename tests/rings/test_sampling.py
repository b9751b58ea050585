"""Sampled rings: what is kept, how it is weighted, that it is right on average."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn.rings import NeighborIndex, RowRule, exact_rings, ring_rows
from support.graphs import adjacency, random_adjacency

LEAVES = 40
STAR = adjacency(LEAVES + 1, [(0, v) for v in range(1, LEAVES + 1)])
"""Every leaf has the other 39 leaves in its 2-hop ring."""


def sampled_operator(adj, k, *, seed=0, self_loops=False):
    """Return the normalized 2-hop ring with at most k sampled neighbors."""
    rule, index = RowRule(hop=2, self_loops=self_loops), NeighborIndex(adj)
    return rule.rows(index, max_neighbors=k, seed=seed)


def whole_operator(adj, *, self_loops=False):
    return RowRule(hop=2, self_loops=self_loops).rows(NeighborIndex(adj))


SMALL = st.integers(0, 5)


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 4), SMALL, st.booleans())
def test_a_row_is_a_sample_of_the_exact_row(graph, k, hop, seed, self_loops):
    adj = random_adjacency(graph)
    exact, n = exact_rings(adj, hops=hop)[-1], adj.shape[0]
    sample = {"max_neighbors": k, "seed": seed}
    rows, sizes = ring_rows(adj, hop, **sample)
    assert sizes.tolist() == np.diff(exact.indptr).tolist()
    assert np.array_equal(np.diff(rows.indptr), np.minimum(sizes, k))
    assert not (rows.astype(bool) > exact.astype(bool)).nnz
    assert all((np.diff(row) > 0).all() for row in np.split(rows.indices, rows.indptr))
    # Each member counts for as many as there are: rows sum to the true sizes.
    np.testing.assert_allclose(rows.sum(axis=1), sizes, rtol=1e-6)
    with_loops, _ = ring_rows(adj, hop, self_loops=True, **sample)
    assert np.array_equal(with_loops.toarray(), rows.toarray() + np.eye(n))
    if hop == 2:  # weights are those of the exact matrix, times the true size over k
        whole = whole_operator(adj, self_loops=self_loops).toarray()
        factors = np.where(np.eye(n), 1, np.maximum(sizes, k)[:, None] / k)
        present = (rows.toarray() != 0) | (self_loops * np.eye(n, dtype=bool))
        operator = sampled_operator(adj, k, seed=seed, self_loops=self_loops)
        expected = np.where(present, whole * factors, 0)
        np.testing.assert_allclose(operator.toarray(), expected, rtol=1e-5)


def test_products_are_right_on_average():
    values = np.random.default_rng(0).normal(size=LEAVES + 1)
    exact = whole_operator(STAR) @ values
    draws = [sampled_operator(STAR, 8, seed=seed) @ values for seed in range(600)]
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - exact) <= 4.5 * error + 1e-6).all()


def test_every_member_and_pair_is_as_likely_as_any_other():
    k, draws = 10, 1500
    pairs = np.zeros((LEAVES + 1, LEAVES + 1))
    for seed in range(draws):
        members = ring_rows(STAR, 2, np.array([5]), max_neighbors=k, seed=seed)[0]
        pairs[np.ix_(members.indices, members.indices)] += 1
    others = np.delete(np.arange(1, LEAVES + 1), 4)
    fraction = np.diag(pairs)[others] / draws
    p = k / (LEAVES - 1)
    assert np.abs(fraction - p).max() < 4.5 * (p * (1 - p) / draws) ** 0.5
    together = pairs[np.ix_(others, others)][np.triu_indices(LEAVES - 1, 1)] / draws
    q = p * (k - 1) / (LEAVES - 2)
    assert np.abs(together - q).max() < 5 * (q * (1 - q) / draws) ** 0.5


def test_the_sample_depends_on_seed_node_and_member_alone(monkeypatch):
    whole, _ = ring_rows(STAR, max_neighbors=10, seed=4)
    for nodes in ([3], [7, 2, 7], [*range(1, LEAVES)]):
        rows, _ = ring_rows(STAR, 2, np.array(nodes), max_neighbors=10, seed=4)
        assert np.array_equal(rows.toarray(), whole[nodes].toarray())
    monkeypatch.setattr("h2gcn.sparse.threads.MIN_COST", 0)
    monkeypatch.setattr("h2gcn.sparse.threads.count_threads", lambda: 3)
    again, _ = ring_rows(STAR, max_neighbors=10, seed=4)
    assert np.array_equal(again.indices, whole.indices)
    other, _ = ring_rows(STAR, max_neighbors=10, seed=5)
    assert not np.array_equal(other.indices, whole.indices)
    one, two = (set(whole[[node]].indices) - {1, 2} for node in (1, 2))
    assert one != two  # nodes draw independently


def test_a_row_of_which_too_few_pass_the_first_limit():
    """One of 39: now and then no member is below the limit at first."""
    rows = [ring_rows(STAR, max_neighbors=1, seed=seed)[0] for seed in range(300)]
    assert all((np.diff(row.indptr)[1:] == 1).all() for row in rows)


def test_a_graph_without_edges():
    empty = adjacency(3, [])
    assert ring_rows(empty, max_neighbors=4)[0].shape == (3, 3)
    assert ring_rows(empty, max_neighbors=4)[0].nnz == 0
    loops = sampled_operator(empty, 4, self_loops=True)
    assert sp.linalg.norm(loops - sp.eye_array(3)) == 0
