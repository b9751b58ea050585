"""What labels tell, by ring and by direction, against sums written out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from h2gcn import Graph
from h2gcn.homophily import (
    direction_shares,
    informativeness_by_chance,
    informativeness_of,
    label_informativeness,
    ring_shares,
    walk_ends,
)
from h2gcn.rings import forecast_rings
from support.cases import each
from support.graphs import adjacency

PATHS = ("out", "in", "out-out", "out-in", "in-out", "in-in")


def by_hand(ends: NDArray[np.int64]) -> float:
    """Return I(i; j) / H(i), a term at a time."""
    total, size = ends.sum(), len(ends)
    own, other = ends.sum(axis=1) / total, ends.sum(axis=0) / total
    shared = sum(
        ends[i, j] / total * math.log(ends[i, j] / total / (own[i] * other[j]))
        for i in range(size)
        for j in range(size)
        if ends[i, j]
    )
    return float(shared / -sum(p * math.log(p) for p in own if p))


@given(st.lists(st.integers(0, 50), min_size=9, max_size=9))
def test_informativeness_is_mutual_information_over_entropy(counts: list[int]) -> None:
    ends = np.array(counts).reshape(3, 3)
    if np.count_nonzero(ends.sum(axis=1)) < 2:
        assert math.isnan(informativeness_of(ends))
        assert math.isnan(informativeness_by_chance(ends, directed=True))
    else:
        assert informativeness_of(ends) == pytest.approx(by_hand(ends), abs=1e-12)


def test_labels_that_decide_and_labels_that_tell_nothing() -> None:
    assert informativeness_of(np.array([[0, 3], [5, 0]])) == 1.0
    assert informativeness_of(np.array([[2, 6], [1, 3]])) == pytest.approx(0, abs=1e-12)
    # All lead to one class: that says nothing of where they come from.
    assert informativeness_of(np.array([[4, 0], [4, 0]])) == pytest.approx(0, abs=1e-12)


@each("directed", [True, False])
def test_what_chance_gives_is_the_mean_over_draws(directed: bool) -> None:
    rng = np.random.default_rng(0)
    told, expected = [], []
    for _ in range(400):
        ends = np.zeros((3, 3), dtype=np.int64)
        np.add.at(ends, tuple(rng.choice(3, (2, 500), p=[0.5, 0.3, 0.2])), 1)
        ends = ends if directed else ends + ends.T
        told.append(informativeness_of(ends))
        expected.append(informativeness_by_chance(ends, directed=directed))
    assert np.mean(told) == pytest.approx(np.mean(expected), rel=0.15)


def graph_of(
    n: int, arcs: list[tuple[int, int]], y: list[int]
) -> tuple[Graph, NDArray[np.int64]]:
    """Return a directed graph and its matrix, without loops."""
    dense = np.zeros((n, n), dtype=np.int64)
    for u, v in arcs:
        if u != v:
            dense[u, v] = 1
    both = ((dense + dense.T) > 0).astype(float)
    return Graph(x=np.eye(n), adj=both, y=y, directed=dense.astype(float)), dense


NODES = 6
GRAPHS = st.tuples(
    st.lists(st.tuples(*[st.integers(0, NODES - 1)] * 2), min_size=1, max_size=20),
    st.lists(st.integers(-1, 2), min_size=NODES, max_size=NODES).filter(
        lambda y: 2 in y  # so that there are three classes
    ),
)


@settings(deadline=None)
@given(GRAPHS, st.sampled_from(PATHS))
def test_walks_are_those_of_the_dense_product_without_its_diagonal(
    drawn: tuple[list[tuple[int, int]], list[int]], path: str
) -> None:
    graph, dense = graph_of(NODES, *drawn)
    product = np.eye(NODES, dtype=np.int64)
    for step in path.split("-"):
        product = product @ (dense if step == "out" else dense.T)
    np.fill_diagonal(product, 0)
    expected = np.zeros((3, 3), dtype=np.int64)
    for i in range(NODES):
        for j in range(NODES):
            if graph.y[i] >= 0 and graph.y[j] >= 0:
                expected[graph.y[i], graph.y[j]] += product[i, j]
    np.testing.assert_array_equal(walk_ends(graph, path), expected)
    share = {one.path: one for one in direction_shares(graph)}[path]
    total = int(expected.sum())
    assert share.walks == total
    assert bool(share.note) == (share.informativeness is None)
    if total:
        assert share.homophily == pytest.approx(np.trace(expected) / total)
        shares = expected / total
        by_chance = shares.sum(axis=1) @ shares.sum(axis=0)
        assert share.chance == pytest.approx(by_chance)
    if share.informativeness is not None:
        assert share.informativeness == pytest.approx(by_hand(expected), abs=1e-12)


def test_directions_tell_what_the_edges_alone_do_not() -> None:
    # 0 leads to 1, 1 to 2, 2 to 0; without directions each class meets both others.
    n = 300
    y = np.arange(n) % 3
    rng = np.random.default_rng(0)
    heads = rng.integers(0, n // 3, 900) * 3
    arcs = [(i % n, int(h + (y[i % n] + 1) % 3)) for i, h in enumerate(heads)]
    graph, _ = graph_of(n, arcs, y.tolist())
    found = {one.path: one for one in direction_shares(graph)}
    assert found["out"].informativeness == pytest.approx(1.0)
    assert found["out"].homophily == 0.0
    assert found["out-in"].homophily == 1.0
    assert label_informativeness(graph) < 0.4


def test_a_graph_without_directions_has_no_shares_by_direction() -> None:
    graph = Graph(x=np.eye(2), adj=adjacency(2, [(0, 1)]), y=[0, 1])
    assert direction_shares(graph) == []


def test_notes_say_why_there_is_no_value() -> None:
    graph, _ = graph_of(3, [(0, 1), (0, 2)], [0, 1, 1])
    found = {one.path: one for one in direction_shares(graph)}
    assert found["out"].note == "all of them begin in a single class"
    assert found["out-out"].note == "no such walk joins two labelled nodes"
    assert (found["out-out"].walks, found["out-out"].homophily) == (0, None)
    assert found["in-out"].walks == 2


def test_rings_have_their_informativeness() -> None:
    edges = [(u, v) for u in range(4) for v in range(4, 8)]
    graph = Graph(x=np.eye(8), adj=adjacency(8, edges), y=np.arange(8) // 4)
    near, far = ring_shares(graph, forecast_rings(graph.adj), 100)
    assert near.informativeness == pytest.approx(label_informativeness(graph))
    assert far.informativeness == pytest.approx(1.0)
    # R(R − 1)/4N over the entropy of two equal classes.
    assert near.informativeness_chance == pytest.approx(2 / 64 / math.log(2))
    assert far.informativeness_chance == pytest.approx(2 / 48 / math.log(2))
