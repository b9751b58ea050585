"""The measures of Hou et al. (2020): by hand, by brute force, and without a value."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn import Graph, homophily as hom
from h2gcn.datasets import load_dataset
from h2gcn.exceptions import UndefinedMeasureWarning
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import refused


def brute_force(x: np.ndarray, adj: np.ndarray) -> float:
    """Return the smoothness of features, edge by edge, as the authors' program does."""
    scaled = np.zeros(x.shape)
    for column in range(x.shape[1]):
        low, high = x[:, column].min(), x[:, column].max()
        if high > low:
            scaled[:, column] = (x[:, column] - low) / (high - low)
    total, n_edges = np.zeros(x.shape[1]), 0
    for u in range(len(x)):
        for v in range(u):
            if adj[u, v]:
                total += (scaled[u] - scaled[v]) ** 2
                n_edges += 1
    return float(2 * total.sum() / n_edges / x.shape[1])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray, sp.csr_array, np.ndarray]:
    """Draw features, edges and labels of up to 8 nodes."""
    n, width = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    values = st.sampled_from([0.0, 0.0, 1.0, -3.5, 1e6, 20.25])
    rows = st.lists(values, min_size=width, max_size=width)
    x = draw(st.lists(rows, min_size=n, max_size=n))
    y = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    return np.array(x), adjacency(n, edges), np.array(y)


@given(graphs())
def test_both_are_those_of_brute_force(drawn: tuple[Any, Any, Any]) -> None:
    x, adj, y = drawn
    expected = brute_force(x, adj.toarray())
    for features in (x, sp.csr_array(x)):
        graph = Graph(x=features, adj=adj, y=y)
        assert hom.feature_smoothness(graph) == pytest.approx(expected, abs=1e-12)
    joined = [(u, v) for u, v in zip(*adj.nonzero(), strict=True) if u < v]
    known = [(u, v) for u, v in joined if y[u] >= 0 and y[v] >= 0]
    if known:
        share = sum(y[u] != y[v] for u, v in known) / len(known)
        assert hom.label_smoothness(graph) == pytest.approx(share)
        assert hom.label_smoothness(graph) == pytest.approx(
            1 - hom.edge_homophily(graph)
        )


@given(graphs(), st.integers(1, 9))
def test_blocks_of_edges_add_up(drawn: tuple[Any, Any, Any], block: int) -> None:
    x, adj, _ = drawn
    expected = brute_force(x, adj.toarray())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("h2gcn.homophily.measures._BLOCK", block)
        for features in (x, sp.csr_array(x)):
            found = hom.feature_smoothness(Graph(x=features, adj=adj))
            assert found == pytest.approx(expected, abs=1e-12)


def test_by_hand() -> None:
    # A path 0-1-2-3-4. The first column, 0, 1, 1, 3, 4 by 4, differs by ¼, 0, ½, ¼; the
    # second is one value: (1/16 + 0 + 1/4 + 1/16) · 2 / (4 · 2).
    x = np.array([[0.0, 5], [1, 5], [1, 5], [3, 5], [4, 5]])
    graph = Graph(x=x, adj=NAMED["path"], y=[0, 0, 1, 1, -1])
    assert hom.feature_smoothness(graph) == pytest.approx(3 / 8 * 2 / 8)
    assert hom.label_smoothness(graph) == pytest.approx(1 / 3)


def test_neighbours_that_are_as_far_apart_as_can_be() -> None:
    x = np.array([[-7.0], [12], [-7], [12], [-7]])
    assert hom.feature_smoothness(Graph(x=x, adj=NAMED["path"])) == 2


@each("x", [np.full((5, 3), 7.0), np.zeros((5, 3))])
def test_features_of_one_value_are_smooth(x: np.ndarray) -> None:
    for features in (x, sp.csr_array(x)):
        graph = Graph(x=features, adj=NAMED["path"])
        assert hom.feature_smoothness(graph) == 0


def test_neighbours_that_are_equal_are_smooth_to_the_bit() -> None:
    # Two pairs that nothing joins.
    adj = adjacency(4, [(0, 1), (2, 3)])
    x = np.array([[0.1, 1e30], [0.1, 1e30], [0.3, -1e30], [0.3, -1e30]])
    for features in (x, sp.csr_array(x)):
        assert hom.feature_smoothness(Graph(x=features, adj=adj)) == 0


def test_labels_play_no_part_in_that_of_features() -> None:
    x = np.arange(5.0)[:, None]
    found = {
        hom.feature_smoothness(Graph(x=x, adj=NAMED["path"], y=y))
        for y in (None, [0, 1, 0, 1, 0], [0, -1, -1, -1, 0])
    }
    assert found == {2 / 16}


@each("scale", [1e-30, 1.0, 1e30])
def test_units_play_no_part(scale: float) -> None:
    x = np.array([[0.0, 3], [1, 0], [4, 0], [2, 1], [2, 2]])
    expected = brute_force(x, NAMED["path"].toarray())
    for features in (x * scale, sp.csr_array(x * scale)):
        graph = Graph(x=features, adj=NAMED["path"])
        assert hom.feature_smoothness(graph) == pytest.approx(expected, rel=1e-5)
    moved = Graph(x=x + 1000, adj=NAMED["path"])
    assert hom.feature_smoothness(moved) == pytest.approx(expected, rel=1e-5)


def test_without_edges_they_are_nan_and_say_so() -> None:
    graph = Graph(x=np.eye(3), adj=NAMED["no edges"], y=[0, 1, 1], name="bare")
    for measure, reason in (
        (hom.feature_smoothness, "there is no edge"),
        (hom.label_smoothness, "no edge joins two labelled nodes"),
    ):
        with pytest.warns(UndefinedMeasureWarning, match=f"'bare'.*{reason}") as caught:
            assert math.isnan(measure(graph))
        assert caught[0].filename == __file__, "the warning points at the caller"


@each("measure", [hom.feature_smoothness, hom.label_smoothness])
def test_what_is_no_graph_is_refused(measure: Callable[[Any], float]) -> None:
    with refused(param="graph", value=np.ndarray):
        measure(np.eye(3))


@pytest.mark.data
@each(
    ("name", "features", "labels"),
    [("cora", 0.042564, 0.1900), ("texas", 0.148037, 0.9391)],
)
def test_of_benchmarks(
    data_root: Path, name: str, features: float, labels: float
) -> None:
    # Counted by another program: all pairs of rows, in dense matrices.
    graph = load_dataset(name, root=data_root)
    assert hom.feature_smoothness(graph) == pytest.approx(features, abs=5e-7)
    assert hom.label_smoothness(graph) == pytest.approx(labels, abs=5e-5)
    x = np.asarray(graph.x.toarray(), dtype=float)
    x /= np.where(x.max(0) > 0, x.max(0), 1)  # the least of each is 0
    u, v = graph.adj.nonzero()
    apart = ((x[u] - x[v]) ** 2).sum() / (graph.n_edges * graph.n_features)
    assert hom.feature_smoothness(graph) == pytest.approx(apart)
