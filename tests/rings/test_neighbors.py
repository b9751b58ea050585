"""Rows, sizes and balls of some nodes, and operators made of them."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import shortest_path

from h2gcn import Graph
from h2gcn.io import adjacency_from_edges
from h2gcn.rings import (
    ComputedOperator,
    NeighborIndex,
    RowRule,
    distinct,
    exact_rings,
    neighbors,
    normalize,
)
from support.cases import each
from support.graphs import adjacency, random_adjacency


def random_graph(seed: int, n: int = 30) -> Graph:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(n, size=(2, 2 * n))
    adj, one_way, _ = adjacency_from_edges(u, v, n)
    return Graph(x=np.ones((n, 1)), adj=adj, directed=one_way)


def distances(graph: Graph, direction: str) -> np.ndarray:
    if direction == "ring":
        return shortest_path(graph.adj, unweighted=True)
    assert graph.directed is not None
    matrix = graph.directed if direction == "out" else graph.directed.T
    return shortest_path(matrix, unweighted=True)


ALL_RINGS = [*product(("ring", "out", "in"), (1, 2, 3))]


# ------------------------------------------------------------------------- the index


def test_rows_and_sizes_are_those_at_the_distance() -> None:
    graph, nodes = random_graph(0), np.array([4, 20, 4])
    for direction, hop in ALL_RINGS:
        index = NeighborIndex(graph.adj, graph.directed)
        expected = distances(graph, direction) == hop
        assert index.sizes(direction, hop, nodes)[4] == expected[4].sum()
        rows, sizes = index.rows(direction, hop, nodes)
        assert np.array_equal(rows.toarray(), expected[nodes])
        assert sizes.tolist() == expected[nodes].sum(axis=1).tolist()


def test_sizes_are_counted_once_and_of_no_other_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = NeighborIndex(random_graph(0).adj)
    index.rows("ring", 2, np.array([3, 5]))
    known = index.sizes("ring", 2, np.array([7]))
    assert np.flatnonzero(known >= 0).tolist() == [3, 5, 7]
    monkeypatch.setattr(neighbors, "ring_sizes", lambda *_: pytest.fail("again"))
    index.sizes("ring", 2, np.array([3, 5, 7]))


@each("steps", [0, 1, 2])
def test_within_has_all_that_are_so_near(steps: int) -> None:
    graph = random_graph(1)
    index, apart = NeighborIndex(graph.adj), distances(graph, "ring")
    near = index.within(("ring",), np.array([3, 8]), steps)
    assert near is not None
    nearest = np.minimum(apart[3], apart[8])
    assert near.tolist() == np.flatnonzero(nearest <= steps).tolist()
    assert index.within(("ring",), np.array([3, 8]), steps, max_nodes=1) is None


@each(("direction", "hop"), [*product(("ring", "out", "in"), (2, 3))])
def test_an_extended_graph_takes_the_sizes_that_still_hold(
    direction: str, hop: int
) -> None:
    for seed in range(10):
        base = random_graph(seed)
        old, everyone = NeighborIndex.from_graph(base), np.arange(base.n_nodes)
        before = old.sizes(direction, hop, everyone).copy()
        rng = np.random.default_rng(seed)
        edges = np.array([[30, 31, 30], rng.integers(30, size=3)])
        graph = base.with_nodes(np.ones((2, 1)), edges)
        index, apart = NeighborIndex.from_graph(graph), distances(graph, direction)
        sizes = index.sizes(direction, hop, np.arange(graph.n_nodes))
        assert sizes.tolist() == (apart == hop).sum(axis=1).tolist()
        assert old.sizes(direction, hop, everyone).tolist() == before.tolist()


def test_a_row_costs_its_walks_and_one() -> None:
    star, _, _ = adjacency_from_edges([0, 0, 0], [1, 2, 3], 4, directed=False)
    index = NeighborIndex(star)
    assert index.cost("ring", 2, np.array([1])) == 1 + 3
    assert index.cost("ring", 2, np.array([0])) == 1 + 3
    assert index.cost("ring", 2, None) == 4 + 9 + 3
    assert index.cost("ring", 1, None) == 4 + 6


@each("count", [0, 1, 5, 400])
def test_distinct_nodes_are_ascending(count: int) -> None:
    nodes = np.random.default_rng(0).integers(300, size=count)
    assert distinct(nodes, 300).tolist() == sorted(set(nodes.tolist()))
    assert distinct(nodes.astype(np.int32), 300).dtype == np.int64


# ------------------------------------------------------------------ computed operators


def exact(adj: sp.csr_array, hop: int, *, self_loops: bool) -> np.ndarray:
    return normalize(exact_rings(adj, hops=hop)[-1], self_loops=self_loops).toarray()


@each("self_loops", [False, True])
@each("hop", [1, 2, 3])
def test_products_and_gradients_are_those_of_the_exact_ring(
    hop: int, self_loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_ENTRIES", 7)  # several blocks
    rule = RowRule(hop=hop, self_loops=self_loops)
    for seed in range(6):
        adj = random_adjacency(seed)
        ring = ComputedOperator(NeighborIndex(adj), rule)
        matrix = torch.from_numpy(exact(adj, hop, self_loops=self_loops))
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


def test_scales_signs_and_directions_of_rows() -> None:
    graph, nodes = random_graph(3), np.array([4, 0, 2, 2])
    index = NeighborIndex(graph.adj, graph.directed)
    for (direction, hop), loops in product(ALL_RINGS, (False, True)):
        ones = (distances(graph, direction) == hop) + loops * np.eye(30)
        sums = np.maximum(ones.sum(axis=1, keepdims=True), 1)
        both = normalize(sp.csr_array(ones.astype(np.float32))).toarray()
        for scale, dense in {"none": ones, "rows": ones / sums, "both": both}.items():
            rule = RowRule(direction, hop, scale, loops, sign=-2.0)
            rows = ComputedOperator(index, rule).take(nodes)
            np.testing.assert_allclose(rows.toarray(), -2 * dense[nodes], rtol=1e-6)


def test_rows_of_rows_and_no_rows() -> None:
    adj = random_adjacency(11)
    ring = ComputedOperator(NeighborIndex(adj), RowRule(hop=2))
    again = ring.rows(np.array([4, 0, 2, 2])).take(np.array([1, 3]))
    whole = exact(adj, 2, self_loops=False)
    np.testing.assert_allclose(again.toarray(), whole[[0, 2]], rtol=1e-6)
    assert ring.take(np.zeros(0, dtype=np.int64)).shape == (0, adj.shape[0])


def test_a_product_holds_no_more_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_ENTRIES", 40)
    adj, taken = adjacency(21, [(0, v) for v in range(1, 21)]), []

    class Spy(ComputedOperator):
        def take(self, index):  # type: ignore[no-untyped-def]
            rows = super().take(index)
            taken.append(rows.nnz)
            return rows

    dense = torch.randn(21, 2, requires_grad=True)
    (Spy(NeighborIndex(adj), RowRule(hop=2)) @ dense).sum().backward()
    assert len(taken) > 10
    assert max(taken) <= 40 + 19


def test_rows_that_are_not_needed_are_not_even_counted() -> None:
    """Two components: a batch of one does not look at the other."""
    path = [(v, v + 1) for v in range(9)]
    adj = adjacency(20, [*path, *((u + 10, v + 10) for u, v in path)])
    index = NeighborIndex(adj)
    few = ComputedOperator(index, RowRule(hop=2)).rows(np.array([0, 1]))
    dense = torch.randn(20, 2, requires_grad=True)
    (few @ dense).sum().backward()
    known = index.sizes("ring", 2, np.zeros(0, dtype=np.int64))
    assert np.flatnonzero(known >= 0).tolist() == [0, 1, 2, 3]
