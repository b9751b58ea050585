"""Rows, sizes and balls of some nodes, and operators made of them."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from h2gcn.rings import NeighborIndex, neighbors
from support.cases import each
from support.graphs import NAMED, make_graph, one_way, random_adjacency


def random_graph(seed):
    adj = random_adjacency(seed, 30, 0.12)
    return make_graph(one_way(adj, seed), n_features=1)


def distances(graph, direction):
    of = {"ring": graph.adj, "out": graph.directed, "in": graph.directed.T}
    return shortest_path(of[direction], unweighted=True)


def test_rows_and_sizes_are_those_at_the_distance():
    graph, nodes = random_graph(0), np.array([4, 20, 4])
    for direction, hop in product(("ring", "out", "in"), (1, 2, 3)):
        index = NeighborIndex(graph.adj, graph.directed)
        expected = distances(graph, direction) == hop
        assert index.sizes(direction, hop, nodes)[4] == expected[4].sum()
        rows, sizes = index.rows(direction, hop, nodes)
        assert np.array_equal(rows.toarray(), expected[nodes])
        assert sizes.tolist() == expected[nodes].sum(axis=1).tolist()


def test_sizes_are_counted_once_and_of_no_other_nodes(monkeypatch):
    index = NeighborIndex(random_graph(0).adj)
    index.rows("ring", 2, np.array([3, 5]))
    known = index.sizes("ring", 2, np.array([7]))
    assert np.flatnonzero(known >= 0).tolist() == [3, 5, 7]
    monkeypatch.setattr(neighbors, "ring_sizes", lambda *_: pytest.fail("again"))
    index.sizes("ring", 2, np.array([3, 5, 7]))


def test_within_has_all_nodes_at_most_so_far():
    graph = random_graph(1)
    index, apart = NeighborIndex(graph.adj), distances(graph, "ring")
    nearest = np.minimum(apart[3], apart[8])
    for steps in (0, 1, 2):
        near = index.within(("ring",), np.array([3, 8]), steps)
        assert near.tolist() == np.flatnonzero(nearest <= steps).tolist()
        assert index.within(("ring",), np.array([3, 8]), steps, max_nodes=1) is None


@each(("direction", "hop"), [*product(("ring", "out", "in"), (2, 3))])
def test_an_extended_graph_takes_the_sizes_that_still_hold(direction, hop):
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


def test_a_row_costs_its_walks_and_one():
    index = NeighborIndex(NAMED["star"])
    assert index.cost("ring", 2, np.array([1])) == 1 + 4
    assert index.cost("ring", 2, np.array([0])) == 1 + 4
    assert index.cost("ring", 2, None) == 5 + 16 + 4
    assert index.cost("ring", 1, None) == 5 + 8
