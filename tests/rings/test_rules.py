"""Propagation matrices by their rules: all rows, some, sampled, and computed ones."""

from itertools import product

import numpy as np
import torch

from h2gcn.graph import CSR
from h2gcn.models import MODELS
from h2gcn.rings import (
    ComputedOperator,
    NeighborIndex,
    RowRule,
    build_matrices,
    exact_rings,
    ring_rows,
    rules,
)
from support.cases import each
from support.graphs import DIRECTED, NAMED, adjacency, one_way, random_adjacency

DIRECTIONS, NORMS = ("ring", "out", "in"), ("sym", "row", "none")
RULES = [
    RowRule(*parts)
    for parts in product(DIRECTIONS, (1, 2, 3), NORMS, (False, True), (1, -2.0))
]


def dense_matrix(rule, ring):
    """Return the matrix of a rule from its ring, entry by entry in double precision."""
    a = ring + np.eye(len(ring)) * rule.self_loops
    rows, columns, result = a.sum(axis=1), a.sum(axis=0), np.zeros(a.shape)
    for u, v in zip(*a.nonzero(), strict=True):
        divisor = {"sym": np.sqrt(rows[u] * columns[v]), "row": rows[u], "none": 1}
        result[u, v] = rule.sign * a[u, v] / divisor[rule.norm]
    return result


def dense_ring(adj, directed, rule):
    """Return the ring of a rule: distances in a direction."""
    ring = exact_rings(adj if rule.direction == "ring" else directed, hops=rule.hop)[-1]
    return ring.toarray().T if rule.direction == "in" else ring.toarray()


def test_all_rows_and_some_are_those_of_the_formula():
    symmetric = [*map(random_adjacency, range(6)), *NAMED.values()]
    pairs = [(adj, one_way(adj, 0)) for adj in symmetric]
    both_ways = CSR(((DIRECTED + DIRECTED.T) > 0).astype(np.float32))
    for adj, along in [*pairs, (both_ways, DIRECTED)]:
        index = NeighborIndex(adj, along)
        nodes = np.random.default_rng(0).integers(adj.shape[0], size=4)
        for rule in RULES:
            expected = dense_matrix(rule, dense_ring(adj, along, rule))
            whole, some = rule.rows(index), rule.rows(index, nodes)
            assert whole.dtype == some.dtype == np.float32
            assert whole.has_canonical_format
            assert some.has_canonical_format
            close = {"rtol": 1e-6, "err_msg": str(rule)}
            np.testing.assert_allclose(whole.toarray(), expected, **close)
            np.testing.assert_allclose(some.toarray(), expected[nodes], **close)
            assert rule.rows(index, nodes[:0]).shape == (0, adj.shape[0])
            if rule.symmetric:
                np.testing.assert_array_equal(whole.toarray(), whole.toarray().T)
            base = adj if rule.direction == "ring" else along
            (built,) = build_matrices([rule], base)
            np.testing.assert_array_equal(built.toarray(), whole.toarray())


def test_rows_by_hand():
    star, path = (NeighborIndex(NAMED[name]) for name in ("star", "path"))
    assert RowRule().rows(star).toarray()[0].tolist() == [0, 0.5, 0.5, 0.5, 0.5]
    means = RowRule(norm="row", self_loops=True, sign=-1.0).rows(path).toarray()
    np.testing.assert_allclose(means[0], [-0.5, -0.5, 0, 0, 0])


def test_edge_weights_are_the_entries_of_the_first_ring_alone():
    weights = random_adjacency(2, 14, 0.3)
    weights.data = np.arange(1, weights.nnz + 1, dtype=np.float32)
    along = CSR(weights.copy())
    weights = CSR(weights + weights.T)
    for direction, norm, self_loops in product(DIRECTIONS, NORMS, (False, True)):
        base = weights if direction == "ring" else along
        rules = [RowRule(direction, hop, norm, self_loops) for hop in (2, 1)]
        far, near = build_matrices(rules, base)
        expected = dense_matrix(rules[0], dense_ring(base, base, rules[0]))
        np.testing.assert_allclose(far.toarray(), expected, rtol=1e-5)
        dense = base.toarray().T if direction == "in" else base.toarray()
        expected = dense_matrix(rules[1], dense.astype(float))
        np.testing.assert_allclose(near.toarray(), expected, rtol=1e-5)
        (alike,) = build_matrices([RowRule("ring", weighted=False)], weights)
        (ones,) = build_matrices([RowRule()], exact_rings(weights)[0])
        assert (alike != ones).nnz == 0


def test_self_loops_of_the_input_do_not_count_and_no_rule_is_no_matrix():
    along = one_way(random_adjacency(2), 2)
    looped = CSR(along + np.eye(along.shape[0], dtype=np.float32))
    rules = [RowRule("out"), RowRule("in", norm="row")]
    both = build_matrices(rules, along), build_matrices(rules, looped)
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(one.toarray(), other.toarray())
    assert build_matrices((), along) == ()


@each("name", ["gcn", "gat", "dir-gnn", "acm-gcn", "h2gcn-2"])
def test_the_callers_matrix_stays_as_it_is(name):
    adj = random_adjacency(2, 14, 0.3)
    untidy = CSR((adj.data, adj.indices[::-1].copy(), adj.indptr), shape=adj.shape)
    before = untidy.indices.copy(), untidy.data.copy()
    MODELS[name].build_matrices(untidy)
    index = NeighborIndex(untidy, untidy, weights=untidy, directed_weights=untidy)
    for rule in MODELS[name].rules:
        rule.rows(index).data[:] = 5
    for ring in (*exact_rings(untidy), *(ring_rows(untidy, k)[0] for k in (1, 2))):
        ring.data[:] = 5
    np.testing.assert_array_equal(untidy.indices, before[0])
    np.testing.assert_array_equal(untidy.data, before[1])


def test_threads_and_blocks_do_not_change_a_bit(monkeypatch):
    index, rule = NeighborIndex(random_adjacency(3)), RowRule(hop=2)
    alone = rule.rows(index)
    monkeypatch.setattr("h2gcn.sparse.threads.MIN_COST", 0)
    monkeypatch.setattr("h2gcn.sparse.threads.count_threads", lambda: 3)
    monkeypatch.setattr(rules, "SCALED_ENTRIES", 5)
    assert np.array_equal(rule.rows(index).data, alone.data)


@each("self_loops", [False, True])
@each("hop", [1, 2, 3])
def test_products_and_gradients_are_those_of_the_matrix(hop, self_loops, monkeypatch):
    monkeypatch.setattr(rules, "BLOCK_ENTRIES", 7)  # several blocks
    rule = RowRule(hop=hop, self_loops=self_loops)
    for seed in range(6):
        adj = random_adjacency(seed)
        ring = ComputedOperator(NeighborIndex(adj), rule)
        matrix = torch.from_numpy(build_matrices([rule], adj)[0].toarray())
        order = np.random.default_rng(seed).permutation(len(matrix))
        for nodes in (order[: 1 + len(order) // 4], np.arange(len(order))):
            some, dense = ring.rows(nodes), matrix[nodes]
            assert some.shape == tuple(dense.shape)
            b = torch.randn(len(matrix), 3, requires_grad=True)
            weight = torch.randn(len(nodes), 3)
            (expected,) = torch.autograd.grad(((dense @ b) * weight).sum(), b)
            (gradient,) = torch.autograd.grad(((some @ b) * weight).sum(), b)
            torch.testing.assert_close(some @ b, dense @ b, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


def test_rows_of_rows_and_no_rows():
    adj, rule = random_adjacency(11), RowRule(hop=2)
    ring = ComputedOperator(NeighborIndex(adj), rule)
    again = ring.rows(np.array([4, 0, 2, 2])).take(np.array([1, 3]))
    whole = build_matrices([rule], adj)[0].toarray()
    np.testing.assert_allclose(again.toarray(), whole[[0, 2]], rtol=1e-6)
    nobody = ring.rows(np.zeros(0, dtype=np.int64))
    assert nobody.take(np.zeros(0, dtype=np.int64)).shape == (0, adj.shape[0])
    assert (nobody @ torch.ones(adj.shape[0], 2)).shape == (0, 2)


def test_a_product_holds_no_more_than_a_block(monkeypatch):
    monkeypatch.setattr(rules, "BLOCK_ENTRIES", 40)
    adj, taken = adjacency(21, [(0, v) for v in range(1, 21)]), []

    class Spy(ComputedOperator):
        def take(self, index):
            rows = super().take(index)
            taken.append(rows.nnz)
            return rows

    dense = torch.randn(21, 2, requires_grad=True)
    (Spy(NeighborIndex(adj), RowRule(hop=2)) @ dense).sum().backward()
    assert len(taken) > 10
    assert max(taken) <= 40 + 19


def test_rows_that_are_not_needed_are_not_even_counted():
    """Two components: a batch of one does not look at the other."""
    path = [(v, v + 1) for v in range(9)]
    adj = adjacency(20, [*path, *((u + 10, v + 10) for u, v in path)])
    index = NeighborIndex(adj)
    few = ComputedOperator(index, RowRule(hop=2)).rows(np.array([0, 1]))
    dense = torch.randn(20, 2, requires_grad=True)
    (few @ dense).sum().backward()
    known = index.sizes("ring", 2, np.zeros(0, dtype=np.int64))
    assert np.flatnonzero(known >= 0).tolist() == [0, 1, 2, 3]
