"""Rows, sizes and balls of some nodes, against all rows and distances."""

from itertools import product

import numpy as np
from scipy.sparse.csgraph import shortest_path

from h2gcn import Graph
from h2gcn.io import adjacency_from_edges
from h2gcn.rings import RowOperator, RowRule, Vicinity, distinct
from h2gcn.rings.exact import capped_ring
from support.cases import each


def random_graph(seed: int, n: int = 30) -> Graph:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(n, size=(2, 2 * n))
    adj, one_way, _ = adjacency_from_edges(u, v, n)
    return Graph(x=np.ones((n, 1)), adj=adj, directed=one_way)


def distances(graph: Graph, way: str) -> np.ndarray:
    if way == "ring":
        return shortest_path(graph.adj, unweighted=True)
    assert graph.directed is not None
    matrix = graph.directed if way == "out" else graph.directed.T
    return shortest_path(matrix, unweighted=True)


@each(("way", "hop"), [*product(("ring", "out", "in"), (1, 2, 3))])
def test_sizes_and_members_are_those_at_the_distance(way: str, hop: int) -> None:
    graph = random_graph(0)
    near, apart = Vicinity(graph.adj, graph.directed), distances(graph, way)
    index = np.array([4, 20, 4])
    columns, starts = near.pattern(way, hop, index)
    for place, node in enumerate(index):
        members = columns[starts[place] : starts[place + 1]]
        assert members.tolist() == np.flatnonzero(apart[node] == hop).tolist()
    assert near.sizes(way, hop, index)[4] == (apart[4] == hop).sum()


@each("steps", [0, 1, 2])
def test_a_ball_has_all_that_are_so_near(steps: int) -> None:
    graph = random_graph(1)
    near, apart = Vicinity(graph.adj), distances(graph, "ring")
    ball = near.ball(("ring",), np.array([3, 8]), steps)
    assert ball is not None
    nearest = np.minimum(apart[3], apart[8])
    assert ball.tolist() == np.flatnonzero(nearest <= steps).tolist()
    assert near.ball(("ring",), np.array([3, 8]), steps, most=1) is None


@each("self_loops", [True, False])
def test_a_capped_row_is_drawn_alike_alone_and_among_all(self_loops: bool) -> None:
    graph = random_graph(2)
    whole = capped_ring(graph.adj, 2, seed=5, self_loops=self_loops)
    rule = RowRule(hop=2, self_loops=self_loops)
    index = np.array([7, 0, 29])
    some = RowOperator(Vicinity(graph.adj), rule, cap=2, seed=5).take(index)
    np.testing.assert_allclose(some.toarray(), whole[index].toarray(), rtol=1e-6)
    assert (np.diff(whole.indptr) == 2 + self_loops).any()  # some were left out


@each(("way", "hop"), [*product(("ring", "out", "in"), (2, 3))])
def test_what_was_counted_before_a_graph_grew_is_taken_where_it_holds(
    way: str, hop: int
) -> None:
    for seed in range(10):
        base = random_graph(seed)
        everyone = np.arange(base.n_nodes)
        before = Vicinity.of(base).sizes(way, hop, everyone).copy()
        rng = np.random.default_rng(seed)
        edges = np.array([[30, 31, 30], rng.integers(30, size=3)])
        graph = base.with_nodes(np.ones((2, 1)), edges)
        near, apart = Vicinity.of(graph), distances(graph, way)
        sizes = near.sizes(way, hop, np.arange(graph.n_nodes))
        assert sizes.tolist() == (apart == hop).sum(axis=1).tolist()
        assert Vicinity.of(base).sizes(way, hop, everyone).tolist() == before.tolist()


def test_work_is_the_walks_and_the_rows() -> None:
    star, _, _ = adjacency_from_edges([0, 0, 0], [1, 2, 3], 4, directed=False)
    near = Vicinity(star)
    assert near.work("ring", 2, np.array([1])) == 1 + 3
    assert near.work("ring", 2, np.array([0])) == 1 + 3
    assert near.work("ring", 2, None) == 4 + 9 + 3
    assert near.work("ring", 1, None) == 4 + 6


@each("count", [0, 1, 5, 400])
def test_few_nodes_are_sorted_and_many_are_marked(count: int) -> None:
    nodes = np.random.default_rng(0).integers(300, size=count)
    assert distinct(nodes, 300).tolist() == sorted(set(nodes.tolist()))
    assert distinct(nodes.astype(np.int32), 300).dtype == np.int64
