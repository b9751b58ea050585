"""Every measure by hand, against other programs, and where it has no value."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from sklearn.metrics import mutual_info_score

from h2gcn import Graph, homophily as hom
from h2gcn.exceptions import UndefinedMeasureWarning
from h2gcn.graph import ReadRecord
from h2gcn.homophily import DegreeRange
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import refused

MEASURES = [
    hom.edge_homophily,
    hom.homophily_with_loops,
    hom.node_homophily,
    hom.class_insensitive_homophily,
    hom.adjusted_homophily,
    hom.label_informativeness,
    hom.label_smoothness,
]
OF_CLASSES = MEASURES[3:6]
"""The measures that compare classes, and have no value on a single one."""


def graph_of(adj: sp.csr_array, y: list[int] | np.ndarray, **more: object) -> Graph:
    return Graph(x=np.ones((adj.shape[0], 1)), adj=adj, y=np.asarray(y), **more)


def tailed() -> Graph:
    """Return a triangle of class 0 with a tail of class 1.

    Edges 01, 12, 02 and 34 join equal labels, 23 does not. Seen from either end,
    e = [[6, 1], [1, 2]].
    """
    return graph_of(NAMED["triangle with tail"], [0, 0, 0, 1, 1])


def random_graph(seed: int, n: int = 40, classes: int = 4, p: float = 0.15) -> Graph:
    """Return a random graph on a cycle: every node has a neighbour."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < p, 1)
    upper[np.arange(n - 1), np.arange(1, n)] = True
    labels = np.r_[np.arange(classes), rng.integers(classes, size=n - classes)]
    return graph_of(sp.csr_array((upper | upper.T).astype(float)), labels)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph of up to 8 nodes, some unlabelled, some isolated."""
    n = draw(st.integers(1, 8))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    labels = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    return graph_of(adjacency(n, edges), labels, classes=np.array(["a", "b", "c"]))


def quiet(measure: Callable[[Graph], float], graph: Graph) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        return measure(graph)


# ---------------------------------------------------------------- worked by hand


def test_edge_homophily_by_hand() -> None:
    assert hom.edge_homophily(tailed()) == 4 / 5


def test_loops_count_as_edges_between_equal_labels() -> None:
    record = ReadRecord(loops_dropped=2)
    graph = graph_of(NAMED["triangle with tail"], [0, 0, 0, 1, 1], record=record)
    assert hom.homophily_with_loops(graph) == (4 + 2) / (5 + 2)
    assert hom.homophily_with_loops(tailed()) == 4 / 5


def test_node_homophily_by_hand() -> None:
    # Nodes 0 to 4 have shares 1, 1, 2/3, 1/2, 1.
    assert hom.node_homophily(tailed()) == pytest.approx(5 / 6)


def test_class_insensitive_homophily_by_hand() -> None:
    # h_k = 6/7 and 2/3, class sizes 3/5 and 2/5: 9/35 + 4/15 = 11/21, over C − 1 = 1.
    assert hom.class_insensitive_homophily(tailed()) == pytest.approx(11 / 21)


def test_class_insensitive_homophily_has_no_negative_terms() -> None:
    # A star of class 0 around class 1: h_0 = h_1 = 0, below the class sizes.
    assert (
        hom.class_insensitive_homophily(graph_of(NAMED["star"], [0, 1, 1, 1, 1])) == 0
    )


def test_adjusted_homophily_by_hand() -> None:
    # p = 7/10 and 3/10, so chance is 0.58: (0.8 − 0.58)/0.42 = 11/21.
    assert hom.adjusted_homophily(tailed()) == pytest.approx(11 / 21)


def test_label_informativeness_by_hand() -> None:
    # p(i, j) = 0.6, 0.1, 0.1, 0.2 and p = 0.7, 0.3.
    pairs = 0.6 * math.log(0.6) + 0.2 * math.log(0.1) + 0.2 * math.log(0.2)
    single = 0.7 * math.log(0.7) + 0.3 * math.log(0.3)
    assert hom.label_informativeness(tailed()) == pytest.approx(2 - pairs / single)


def test_a_cycle_of_two_pairs_is_pure_chance() -> None:
    # Around the cycle 0, 0, 1, 1: every pair of classes holds a quarter of the ends.
    cycle = graph_of(adjacency(4, [(0, 1), (1, 2), (2, 3), (3, 0)]), [0, 0, 1, 1])
    assert hom.adjusted_homophily(cycle) == 0
    assert hom.label_informativeness(cycle) == 0


@each("y", [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]])
def test_a_two_coloured_path_is_fully_informative(y: list[int]) -> None:
    path = graph_of(NAMED["path"], y)
    assert hom.edge_homophily(path) == 0
    assert hom.adjusted_homophily(path) == pytest.approx(-1)
    assert hom.label_informativeness(path) == pytest.approx(1)


def test_compatibility_matrix_by_hand() -> None:
    expected = [[6 / 7, 1 / 7], [1 / 3, 2 / 3]]
    np.testing.assert_allclose(hom.compatibility_matrix(tailed()), expected)
    np.testing.assert_allclose(hom.class_homophily(tailed()), [6 / 7, 2 / 3])


def test_ring_homophily_by_hand() -> None:
    # Of the spokes only 04 joins equal labels; of the six pairs of leaves, the three
    # among 1, 2, 3 do.
    star = graph_of(NAMED["star"], [0, 1, 1, 1, 0])
    assert hom.ring_homophily(star) == [1 / 4, 3 / 6]
    # Distance 2: 03, 13 and 24; distance 3: 04 and 14.
    assert hom.ring_homophily(tailed(), hops=3) == [4 / 5, 0, 0]


def test_degree_homophily_by_hand() -> None:
    # Degrees 2, 2, 3, 2, 1; shares 1, 1, 2/3, 1/2, 1.
    one, two = hom.degree_homophily(tailed())
    assert one == DegreeRange(low=1, high=1, nodes=1, homophily=1.0)
    assert (two.low, two.high, two.nodes) == (2, 3, 4)
    assert two.homophily == pytest.approx(19 / 24)


def test_degree_ranges_without_nodes_are_left_out() -> None:
    star = graph_of(NAMED["star"], [0, 0, 1, 1, 1])
    assert hom.degree_homophily(star) == [
        DegreeRange(1, 1, 4, 0.25),
        DegreeRange(4, 7, 1, 0.25),
    ]


def test_degree_ranges_can_be_given() -> None:
    ranges = hom.degree_homophily(tailed(), edges=[1, 3, 4])
    assert [(r.low, r.high, r.nodes) for r in ranges] == [(1, 2, 4), (3, 3, 1)]


@each(
    ("edges", "value"),
    [
        ([3, 1], [3, 1]),
        ([1, 1], [1, 1]),
        ([0, 2], 0),
        ([1], [1]),
        ([], []),
        ([1.5, 2.5], 1.5),
    ],
)
def test_degree_ranges_must_increase_from_one(edges: list[int], value: object) -> None:
    with refused(param="edges", value=value):
        hom.degree_homophily(tailed(), edges=edges)


def test_ring_homophily_needs_a_hop() -> None:
    with refused(param="hops", value=0):
        hom.ring_homophily(tailed(), hops=0)


# ------------------------------------------------------------ against other programs


# PyG calls torch.jit.script when it is first imported; not ours to mend.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@each("seed", range(5))
@each(
    ("measure", "method"),
    [
        (hom.edge_homophily, "edge"),
        (hom.node_homophily, "node"),
        (hom.class_insensitive_homophily, "edge_insensitive"),
    ],
)
def test_equals_pyg(measure: Callable[[Graph], float], method: str, seed: int) -> None:
    import torch
    from torch_geometric.utils import homophily

    graph = random_graph(seed)
    edges = torch.from_numpy(np.stack(graph.adj.nonzero()).astype(np.int64))
    expected = homophily(edges, torch.from_numpy(graph.y), method=method)
    assert measure(graph) == pytest.approx(expected, abs=1e-6)


@each("seed", range(5))
def test_adjusted_homophily_is_the_assortativity_of_networkx(seed: int) -> None:
    graph = random_graph(seed)
    other = nx.from_scipy_sparse_array(graph.adj)
    nx.set_node_attributes(other, dict(enumerate(graph.y.tolist())), "y")
    expected = nx.attribute_assortativity_coefficient(other, "y")
    assert hom.adjusted_homophily(graph) == pytest.approx(expected)


@each("seed", range(5))
def test_label_informativeness_is_normalised_mutual_information(seed: int) -> None:
    graph = random_graph(seed)
    rows, columns = graph.adj.nonzero()
    ends = graph.y[rows], graph.y[columns]
    expected = mutual_info_score(*ends) / mutual_info_score(ends[0], ends[0])
    assert hom.label_informativeness(graph) == pytest.approx(expected)


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(0)
    whole = hom.compatibility_matrix(graph)
    monkeypatch.setattr("h2gcn.homophily.measures._BLOCK", 7)
    np.testing.assert_array_equal(hom.compatibility_matrix(graph), whole)


# ------------------------------------------------------------- where labels are few


def test_unlabelled_nodes_do_not_count() -> None:
    graph = random_graph(3)
    hidden = np.arange(40) % 3 == 0
    partly = graph_of(graph.adj, np.where(hidden, -1, graph.y))
    kept = np.flatnonzero(~hidden)
    inner = graph_of(graph.adj[kept][:, kept], graph.y[kept])
    for measure in MEASURES:
        assert measure(partly) == pytest.approx(measure(inner)), measure.__name__
    np.testing.assert_allclose(
        hom.compatibility_matrix(partly), hom.compatibility_matrix(inner)
    )
    ranges = zip(hom.degree_homophily(partly), hom.degree_homophily(inner), strict=True)
    for one, other in ranges:
        assert one == replace(other, homophily=pytest.approx(other.homophily))


def test_rings_go_through_unlabelled_nodes() -> None:
    # 0 and 2 are at distance 2, by way of the unlabelled 1.
    graph = graph_of(NAMED["path"], [0, -1, 0, 1, -1])
    assert hom.ring_homophily(graph) == [0.0, 1.0]


def test_isolated_nodes_count_for_class_sizes_only() -> None:
    # Path 0-1-2 and an isolated node; e = [[2, 1], [1, 0]].
    graph = graph_of(NAMED["isolated last node"], [0, 0, 1, 1])
    assert hom.edge_homophily(graph) == 1 / 2
    assert hom.node_homophily(graph) == pytest.approx((1 + 1 / 2 + 0) / 3)
    # h_0 = 2/3 exceeds 2/4 by 1/6; h_1 = 0.
    assert hom.class_insensitive_homophily(graph) == pytest.approx(1 / 6)


@each("measure", MEASURES)
@each("y", [[0, 1, 1], [-1, -1, -1], [0, -1, -1]])
def test_no_edge_between_labelled_nodes_is_nan_and_said(
    measure: Callable[[Graph], float], y: list[int]
) -> None:
    graph = graph_of(NAMED["no edges"], y, name="bare")
    with pytest.warns(UndefinedMeasureWarning, match=r"'bare'.*no edge") as caught:
        assert math.isnan(measure(graph))
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the warning points at the caller"


@each("measure", MEASURES)
def test_edges_to_unlabelled_nodes_are_no_edges(
    measure: Callable[[Graph], float],
) -> None:
    graph = graph_of(NAMED["path"], [0, -1, 1, -1, 1])
    with pytest.warns(UndefinedMeasureWarning, match="no edge joins two labelled"):
        assert math.isnan(measure(graph))


@each("measure", OF_CLASSES)
def test_a_single_class_is_nan_and_said(measure: Callable[[Graph], float]) -> None:
    with pytest.warns(UndefinedMeasureWarning, match="single class"):
        assert math.isnan(measure(graph_of(NAMED["K4"], [0, 0, 0, 0])))


@each("measure", MEASURES[:3])
def test_a_single_class_is_fully_homophilous(
    measure: Callable[[Graph], float],
) -> None:
    assert measure(graph_of(NAMED["K4"], [0, 0, 0, 0])) == 1


def test_only_loops_are_fully_homophilous() -> None:
    record = ReadRecord(loops_dropped=3)
    graph = graph_of(NAMED["no edges"], [0, 1, 1], record=record)
    assert hom.homophily_with_loops(graph) == 1
    with pytest.warns(UndefinedMeasureWarning, match="homophily with loops"):
        hom.homophily_with_loops(graph_of(NAMED["no edges"], [-1] * 3, record=record))


@each("measure", [hom.compatibility_matrix, hom.class_homophily])
def test_classes_without_edges_are_nan_and_named(
    measure: Callable[[Graph], np.ndarray],
) -> None:
    graph = graph_of(
        NAMED["isolated last node"],
        [0, 0, 1, 2],
        classes=np.array(["cat", "dog", "owl", "yak"]),
    )
    with pytest.warns(UndefinedMeasureWarning, match="class owl, yak") as caught:
        values = measure(graph)
    assert caught[0].filename == __file__
    assert np.isnan(values[2:]).all()
    assert np.isfinite(values.diagonal() if values.ndim == 2 else values)[:2].all()


def test_an_empty_ring_is_nan_and_said() -> None:
    with pytest.warns(UndefinedMeasureWarning, match="at distance 2"):
        first, second = hom.ring_homophily(graph_of(NAMED["K4"], [0, 0, 1, 1]))
    assert first == pytest.approx(2 / 6)
    assert math.isnan(second)


def test_degree_homophily_without_edges_is_empty() -> None:
    assert hom.degree_homophily(graph_of(NAMED["no edges"], [0, 1, 1])) == []


def test_a_class_without_nodes_changes_no_number() -> None:
    named = graph_of(
        NAMED["triangle with tail"], [0, 0, 0, 1, 1], classes=np.array(["a", "b", "c"])
    )
    for measure in MEASURES:
        # One more term of zero, and so maybe another order of the sum.
        assert measure(named) == pytest.approx(measure(tailed())), measure.__name__


# ------------------------------------------------------------------------ for any graph


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(graph: Graph, random: object) -> None:
    order = np.arange(graph.n_nodes)
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = graph_of(
        graph.adj[order][:, order], graph.y[order], classes=graph.classes
    )
    for measure in MEASURES:
        one, other = quiet(measure, graph), quiet(measure, shuffled)
        assert one == pytest.approx(other, nan_ok=True), measure.__name__
    np.testing.assert_allclose(
        quiet(hom.compatibility_matrix, graph),
        quiet(hom.compatibility_matrix, shuffled),
    )


@given(graphs())
def test_measures_stay_in_their_ranges(graph: Graph) -> None:
    for measure in MEASURES:
        value = quiet(measure, graph)
        low = -1 if measure is hom.adjusted_homophily else 0
        assert math.isnan(value) or low <= value <= 1 + 1e-12, measure.__name__


@given(graphs())
def test_rows_of_the_compatibility_matrix_sum_to_one(graph: Graph) -> None:
    matrix = quiet(hom.compatibility_matrix, graph)
    assert matrix.shape == (3, 3)
    sums = matrix.sum(axis=1)
    np.testing.assert_allclose(sums[np.isfinite(sums)], 1)
    np.testing.assert_array_equal(matrix.diagonal(), quiet(hom.class_homophily, graph))


@given(graphs())
def test_degree_ranges_hold_every_node_with_a_labelled_neighbour(graph: Graph) -> None:
    ranges = hom.degree_homophily(graph)
    nodes = sum(r.nodes for r in ranges)
    if nodes:
        mean = sum(r.nodes * r.homophily for r in ranges) / nodes
        assert mean == pytest.approx(hom.node_homophily(graph))
    else:
        assert math.isnan(quiet(hom.node_homophily, graph))


@given(graphs())
def test_the_first_ring_is_the_graph(graph: Graph) -> None:
    first = quiet(lambda g: hom.ring_homophily(g, hops=2)[0], graph)
    assert first == pytest.approx(quiet(hom.edge_homophily, graph), nan_ok=True)
