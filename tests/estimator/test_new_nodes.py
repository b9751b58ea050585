"""Some nodes predicted alone, and nodes that were added, against the whole graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator import classifier as classifier_module, operators
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import EdgeColumns
from h2gcn.io import adjacency_from_edges
from h2gcn.models import MODELS
from support.cases import each

CLASSES = 3
CLOSE = {"atol": 1e-6, "rtol": 0}
WHOLE = (
    *("mixhop", "geom-gcn", "gdc", "label-propagation", "label-propagation-2hop"),
    *("linbp", "bp", "zoobp", "decoupled-smoothing", "correct-and-smooth", "ica"),
)
ALONE = [*(name for name in MODELS if name not in WHOLE), "ica"]
TABLE_OF_ALL = "+".join(
    [
        "ego+rings+ring3+directions+degrees+edges+labels+labels.ring3",
        "ring1.sum+ring2.max+out.min+power2+loops3",
    ]
)


def random_graph(
    seed: int, n: int = 60, *, directed: bool = True, sparse: bool = False
) -> Graph:
    """Return a graph with ids, labels, directions and what edges carry."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(n, size=(2, 2 * n))
    u, v = u[u != v], v[u != v]
    adj, one_way, _ = adjacency_from_edges(u, v, n, directed=directed or False)
    values = np.c_[rng.normal(size=len(u)), rng.integers(2, size=len(u))]
    x: Any = rng.normal(size=(n, 4))
    if sparse:
        x = sp.csr_array(np.where(rng.random((n, 40)) < 0.1, 1.0, 0.0))
    return Graph(
        x=x,
        adj=adj,
        directed=one_way,
        y=np.where(rng.random(n) < 0.8, rng.integers(CLASSES, size=n), -1),
        classes=np.arange(CLASSES),
        node_ids=np.array([f"n{i}" for i in range(n)]),
        edge_columns=EdgeColumns(
            u, v, values, ("amount", "kind=wire"), directed=directed
        ),
        name="random",
    )


def fitted(model: str, graph: Graph, **more: Any) -> NodeClassifier:
    params: dict[str, Any] = {"random_state": 0}
    if MODELS[model].epochs:
        params["epochs"] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NodeClassifier(model, **params, **more).fit(graph)


@pytest.fixture
def as_forecast(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Have some nodes always computed alone, or never."""

    def decide(alone: bool) -> None:
        monkeypatch.setattr(operators, "SHARE", np.inf if alone else -1.0)

    return decide


def both_ways(
    clf: NodeClassifier,
    graph: Graph,
    nodes: NDArray[np.int64],
    decide: Callable[[bool], None],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return probabilities of nodes computed alone, and among all.

    The latter of an equal graph: no operators are left that the former could use.
    """
    decide(True)
    alone = clf.predict_proba(graph, nodes)
    decide(False)
    return alone, clf.predict_proba(afresh(graph))[nodes]


def afresh(graph: Graph) -> Graph:
    """Return an equal graph of which nothing is remembered."""
    names = Graph.__dataclass_fields__
    return Graph(**{name: getattr(graph, name) for name in names})


@pytest.mark.parametrize("model", ALONE)
@each("directed", [True, False])
def test_nodes_alone_are_as_among_all(
    model: str, directed: bool, as_forecast: Callable[[bool], None]
) -> None:
    graph = random_graph(0, directed=directed)
    clf = fitted(model, graph)
    nodes = np.array([7, 3, 59, 7, 0])
    alone, whole = both_ways(clf, afresh(graph), nodes, as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)
    # And with the operators that the fit has left.
    as_forecast(True)
    np.testing.assert_allclose(clf.predict_proba(graph, nodes), whole, **CLOSE)


@pytest.mark.parametrize(
    "more",
    [
        {"model": "h2gcn-2", "ring_cap": 3},
        {"model": "h2gcn-ns0", "ring_cap": 2},
        {"model": "h2gcn-1", "batch_size": 2},
        {"model": "logistic", "options": {"table": TABLE_OF_ALL}},
        {"model": "ring-table", "options": {"table": TABLE_OF_ALL}},
        {"model": "logistic", "options": {"table": TABLE_OF_ALL}, "ring_cap": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("sparse", [True, False])
def test_options_change_nothing_about_that(
    more: dict[str, Any], sparse: bool, as_forecast: Callable[[bool], None]
) -> None:
    graph = random_graph(1, sparse=sparse)
    clf = fitted(graph=graph, **more)
    nodes = np.array([11, 2, 58, 30])
    alone, whole = both_ways(clf, afresh(graph), nodes, as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)
    blocks = clf.predict_blocks(afresh(graph), nodes, block_size=3)
    assert [len(part) for part, _ in blocks] == [3, 1]


def grow(graph: Graph, seed: int, k: int = 5, *, negative: bool = True) -> Graph:
    """Return the graph with new nodes, edges to them and among old ones."""
    rng = np.random.default_rng(seed)
    n = graph.n_nodes
    fresh = rng.integers(n, n + k, size=3 * k), rng.integers(n + k, size=3 * k)
    old = rng.integers(n, size=(2, 3))
    edges = np.concatenate([np.stack(fresh), old], axis=1)
    edges = edges[:, edges[0] != edges[1]]
    flip = rng.random(edges.shape[1]) < 0.5
    edges[:, flip] = edges[::-1, flip]
    count = edges.shape[1]
    x: Any = rng.normal(size=(k, graph.n_features))
    amounts = rng.normal(size=count)
    return graph.with_nodes(
        x if isinstance(graph.x, np.ndarray) else sp.csr_array(np.abs(x) > 1),
        edges,
        y=rng.integers(-1, CLASSES, size=k),
        node_ids=[f"new {seed} {i}" for i in range(k)],
        edge_values=np.c_[
            amounts if negative else np.abs(amounts), rng.integers(2, size=count)
        ],
    )


# linkx has a column for each node, and none for new ones.
@pytest.mark.parametrize("model", sorted(set(ALONE) - {"linkx"}))
@each("seed", range(3))
@each("directed", [True, False])
def test_new_nodes_are_as_in_a_graph_that_always_had_them(
    model: str, seed: int, directed: bool, as_forecast: Callable[[bool], None]
) -> None:
    """Also where the graph has grown twice, and much was remembered before."""
    base = random_graph(seed, directed=directed)
    clf = fitted(model, afresh(base))
    as_forecast(True)
    clf.predict(base, np.arange(base.n_nodes))  # what may be remembered, is
    once = grow(base, seed)
    twice = grow(once, seed + 10)
    for graph in (once, twice):
        everyone = np.arange(graph.n_nodes)
        alone, whole = both_ways(clf, graph, everyone, as_forecast)
        np.testing.assert_allclose(alone, whole, **CLOSE)


@pytest.mark.parametrize(
    "more",
    [
        {"model": "h2gcn-2", "ring_cap": 3},
        {"model": "logistic", "options": {"table": TABLE_OF_ALL}},
    ],
    ids=str,
)
@pytest.mark.parametrize("sparse", [True, False])
@each("seed", range(3))
def test_new_nodes_with_options(
    more: dict[str, Any], sparse: bool, seed: int, as_forecast: Callable[[bool], None]
) -> None:
    base = random_graph(seed, sparse=sparse)
    clf = fitted(graph=afresh(base), **more)
    as_forecast(True)
    clf.predict(base, np.arange(base.n_nodes))
    graph = grow(base, seed)
    nodes = np.arange(base.n_nodes - 20, graph.n_nodes)
    alone, whole = both_ways(clf, graph, nodes, as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("the whole graph was computed")


def long_path(n: int = 400) -> Graph:
    """Return a path with two classes, on which a few nodes need little."""
    ends = np.arange(n - 1)
    adj, _, _ = adjacency_from_edges(ends, ends + 1, n, directed=False)
    x = np.random.default_rng(0).normal(size=(n, 3))
    return Graph(x=x, adj=adj, y=np.arange(n) % 2, name="path")


@each("model", ["h2gcn-2", "gcn", "logistic", "mlp"])
def test_a_few_nodes_have_no_operators_or_tables_built(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = long_path()
    clf = fitted(model, graph)
    other = afresh(graph)
    for name in ("build_input", "build_operators", "plan_operators"):
        monkeypatch.setattr(classifier_module, name, refuse)
    assert clf.predict(other, [5]).shape == (1,)
    with pytest.raises(AssertionError, match="whole graph"):
        clf.predict(other)
    with pytest.raises(AssertionError, match="whole graph"):
        clf.predict(other, np.arange(200))  # not a few


def test_in_a_graph_where_all_are_near_the_whole_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 200
    hub = np.zeros(n - 1, dtype=np.int64)
    adj, _, _ = adjacency_from_edges(hub, np.arange(1, n), n, directed=False)
    x = np.random.default_rng(0).normal(size=(n, 3))
    graph = Graph(x=x, adj=adj, y=np.arange(n) % 2, name="star")
    clf = fitted("gcn", graph)
    monkeypatch.setattr(classifier_module, "build_operators", refuse)
    with pytest.raises(AssertionError, match="whole graph"):
        clf.predict(afresh(graph), [5])  # its only neighbour has all others


@pytest.mark.parametrize(
    ("model", "whole"), [("gcn", True), ("logistic", True), ("gat", False)]
)
def test_what_pairs_weigh_is_of_the_whole_graph(
    model: str,
    whole: bool,
    as_forecast: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = {
        name: getattr(random_graph(0), name) for name in Graph.__dataclass_fields__
    }
    columns = parts["edge_columns"]
    carried = EdgeColumns(
        columns.source, columns.target, np.abs(columns.values), columns.names
    )
    weighted = {"edge_columns": carried, "edge_weight": "amount"}
    graph = Graph(**parts | weighted)
    clf = fitted(model, graph)
    new = grow(graph, 0, negative=False)
    assert new.edge_weight == "amount"
    nodes = np.arange(graph.n_nodes, new.n_nodes)
    alone, among = both_ways(clf, new, nodes, as_forecast)
    np.testing.assert_allclose(alone, among, **CLOSE)
    as_forecast(True)
    monkeypatch.setattr(classifier_module, "build_input", refuse)
    if whole:
        with pytest.raises(AssertionError, match="whole graph"):
            clf.predict(afresh(new), nodes)
    else:
        clf.predict(afresh(new), nodes)


@pytest.mark.parametrize(
    "model",
    sorted(set(WHOLE) - {"gdc", "label-propagation-2hop"}),
)
def test_what_looks_everywhere_is_computed_whole(
    model: str, as_forecast: Callable[[bool], None]
) -> None:
    graph = random_graph(0, directed=False)
    clf = fitted(model, graph)
    assert not clf.can_predict_alone(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        alone, whole = both_ways(clf, graph, np.array([3, 40]), as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)


def test_auto_answers_for_new_nodes(as_forecast: Callable[[bool], None]) -> None:
    base = random_graph(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = NodeClassifier("auto", time_limit=5, random_state=0).fit(base)
        graph = grow(base, 0)
        nodes = np.arange(base.n_nodes, graph.n_nodes)
        alone, whole = both_ways(clf, graph, nodes, as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)
