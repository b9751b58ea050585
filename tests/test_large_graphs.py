"""Classifiers on rings that are capped, in a file, or computed when they are needed."""

from pathlib import Path

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.synthetic import GaussianFeatures, generate_graph

pytestmark = pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")

TINY = 1e-9
"""A memory limit, in gigabytes, that no ring fits."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return 400 nodes whose neighbours are mostly of other classes."""
    features = GaussianFeatures(n_features=8)
    return generate_graph(
        n_nodes=400, n_classes=4, edges_per_node=4, homophily=0.1, features=features
    )


def fit(graph: Graph, **params: object) -> NodeClassifier:
    given = {"model": "h2gcn-2", "epochs": 20, "random_state": 0} | params
    return NodeClassifier(**given).fit(graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["h2gcn-1", "h2gcn-2", "h2gcn-ns0", "h2gcn-n1"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_ring_in_a_file_trains_the_same_model(
    graph: Graph, model: str, dropout: float, tmp_path: Path
) -> None:
    params = {"model": model, "dropout": dropout, "epochs": 5}
    exact = fit(graph, **params).predict_logits(graph)
    limit = {"memory_limit": TINY, "ring_store": tmp_path}
    stored = fit(graph, **params, **limit)
    assert list(tmp_path.glob("*/ring-2.int32"))
    np.testing.assert_allclose(stored.predict_logits(graph), exact, atol=2e-4)
    nodes = np.array([7, 3, 300])
    np.testing.assert_allclose(
        stored.predict_logits(graph, nodes), exact[nodes], atol=2e-4
    )


def test_a_cap_above_every_ring_changes_nothing(graph: Graph) -> None:
    exact, capped = fit(graph), fit(graph, ring_cap=400)
    np.testing.assert_allclose(
        capped.predict_logits(graph), exact.predict_logits(graph), atol=1e-4
    )


def test_a_capped_ring_is_drawn_by_the_seed(graph: Graph, tmp_path: Path) -> None:
    first, again = (fit(graph, ring_cap=5).predict_logits(graph) for _ in range(2))
    assert np.array_equal(first, again)
    other = fit(graph, ring_cap=5, random_state=1).predict_logits(graph)
    assert not np.array_equal(first, other)
    classifier = fit(graph, ring_cap=5)
    classifier.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.ring_cap == 5
    assert np.array_equal(loaded.predict_logits(graph), first)


def test_a_capped_ring_still_learns(graph: Graph) -> None:
    exact = fit(graph, epochs=100)
    capped = fit(graph, epochs=100, ring_cap=16)
    test = exact.split_.test
    assert capped.score(graph, test) > exact.score(graph, test) - 0.1


def test_where_rings_were_kept_is_not_saved(graph: Graph, tmp_path: Path) -> None:
    stored = fit(graph, memory_limit=TINY, ring_store=tmp_path / "rings")
    stored.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.ring_store is None
    assert loaded.memory_limit is None
    np.testing.assert_allclose(
        loaded.predict_logits(graph), stored.predict_logits(graph), atol=1e-5
    )


def test_a_fit_that_would_exceed_the_limit_does_not_start(graph: Graph) -> None:
    epochs = []
    with pytest.raises(InputError, match=r"the limit is .*; what fits: "):
        NodeClassifier("h2gcn-1", memory_limit=TINY).fit(graph, on_epoch=epochs.append)
    assert epochs == []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ring_cap": 0}, r"'ring_cap' parameter of NodeClassifier must be an integer"),
        ({"ring_cap": 2.5}, r"'ring_cap' parameter .* Got 2\.5 instead"),
        ({"ring_cap": 2**63}, r"'ring_cap' parameter .* at most 2147483647"),
        ({"ring_store": 5}, r"'ring_store' parameter .* must be a folder\. Got 5"),
        ({"ring_store": ""}, r"'ring_store' parameter .* must be a folder"),
        ({"memory_limit": 0}, r"'memory_limit' parameter of NodeClassifier must be in"),
        ({"memory_limit": "8"}, r"'memory_limit' parameter of NodeClassifier must be"),
        ({"ring_cap": 4, "ring_store": "x"}, r"'ring_cap' and 'ring_store' .* one or"),
        ({"ring_cap": 4, "model": "gcn"}, r"for models with a 2-hop ring.*'gcn' has"),
        ({"ring_cap": 4, "model": "h2gcn-s1"}, r"'h2gcn-s1' has none"),
        ({"ring_store": "x", "model": "mlp"}, r"'ring_store' .* 'mlp' has none"),
    ],
)
def test_bad_options(graph: Graph, params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit(graph, **params)
    assert "\n" not in str(caught.value)


def test_prediction_computes_rows_that_do_not_fit(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = fit(graph)
    exact = classifier.predict_logits(graph)
    other = Graph(x=graph.x, adj=graph.adj)
    monkeypatch.setattr("h2gcn.ring_plan.available_memory", lambda: 1)
    with pytest.warns(H2GCNWarning, match="computed when they are needed"):
        logits = classifier.predict_logits(other)
    np.testing.assert_allclose(logits, exact, atol=1e-4)


def test_rings_at_hand_are_used_only_as_they_would_be_chosen(graph: Graph) -> None:
    own = Graph(x=graph.x, adj=graph.adj, y=graph.y)
    batched = {"batch_size": 64, "memory_limit": TINY, "epochs": 1}
    fit(own, model="h2gcn-1", **batched)
    whole = fit(own, model="h2gcn-1", epochs=1).predict_logits(own)
    fresh = Graph(x=graph.x, adj=graph.adj, y=graph.y)
    assert np.array_equal(
        whole, fit(fresh, model="h2gcn-1", epochs=1).predict_logits(fresh)
    )
    with pytest.raises(InputError, match="will not fit"):
        fit(own, model="h2gcn-1", memory_limit=TINY)
