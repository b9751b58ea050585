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
from h2gcn.estimator import classifier as classifier_module, nearby
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import EdgeColumns
from h2gcn.io import adjacency_from_edges
from h2gcn.models import MODELS

CLASSES = 3
CLOSE = {"atol": 1e-6, "rtol": 0}
ALONE = [name for name, spec in MODELS.items() if spec.rows is not None]
TABLE_OF_ALL = "+".join(
    [
        "own+rings+ring3+directions+degrees+edges+labels+labels.ring3",
        "ring1.sum+ring2.max+out.min+power2+loops3+hop2.mean+hop2.sum+hop1.max+hop2.min",
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
    if MODELS[model].trained:
        params["epochs"] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NodeClassifier(model, **params, **more).fit(graph)


@pytest.fixture
def as_forecast(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Have some nodes always computed alone, or never."""

    def decide(alone: bool) -> None:
        monkeypatch.setattr(nearby, "SHARE", np.inf if alone else -1.0)

    return decide


def both_ways(
    clf: NodeClassifier,
    graph: Graph,
    nodes: NDArray[np.int64],
    decide: Callable[[bool], None],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return probabilities of nodes computed alone, and among all."""
    decide(False)
    whole = clf.predict_proba(graph)[nodes]
    decide(True)
    return clf.predict_proba(graph, nodes), whole


def afresh(graph: Graph) -> Graph:
    """Return an equal graph of which nothing is remembered."""
    names = Graph.__dataclass_fields__
    return Graph(**{name: getattr(graph, name) for name in names})


@pytest.mark.parametrize("model", ALONE)
@pytest.mark.parametrize("directed", [True, False])
def test_nodes_alone_are_as_among_all(
    model: str, directed: bool, as_forecast: Callable[[bool], None]
) -> None:
    graph = random_graph(0, directed=directed)
    clf = fitted(model, graph)
    nodes = np.array([7, 3, 59, 7, 0])
    alone, whole = both_ways(clf, afresh(graph), nodes, as_forecast)
    np.testing.assert_allclose(alone, whole, **CLOSE)
    # And with the operators that the fit has left.
    np.testing.assert_allclose(clf.predict_proba(graph, nodes), whole, **CLOSE)
