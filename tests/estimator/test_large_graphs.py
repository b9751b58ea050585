"""Classifiers on rings that are capped, or computed when they are needed."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import estimate_work
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import stratified_split
from h2gcn.models import MODELS, build_model
from h2gcn.rings import MemoryLimitError, plan
from support.cases import each
from support.memory import rings_too_large
from support.refusals import only, refused

pytestmark = pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")

TINY = 1e-9
"""A memory limit, in gigabytes, that nothing fits."""


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rings beyond the first be too large for any memory, and all else fit."""
    monkeypatch.setattr(plan, "training_bytes", rings_too_large)


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


def test_the_limit_is_not_saved(graph: Graph, tmp_path: Path) -> None:
    fitted = fit(graph, memory_limit=1.0)
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.memory_limit is None
    np.testing.assert_allclose(
        loaded.predict_logits(graph), fitted.predict_logits(graph), atol=1e-5
    )


WAYS = [{}, {"batch_size": 8}, {"ring_cap": 4}]


@each("params", WAYS, ids=str)
def test_a_fit_that_would_exceed_the_limit_does_not_start(
    graph: Graph, params: dict[str, object]
) -> None:
    epochs: list[object] = []
    classifier = NodeClassifier("h2gcn-1", memory_limit=TINY, **params)
    with pytest.raises(InputError, match=r"the limit is 1 bytes; nothing fits$"):
        classifier.fit(graph, on_epoch=epochs.append)
    assert epochs == []


@each("model", sorted(MODELS))
def test_every_model_is_held_to_the_limit(graph: Graph, model: str) -> None:
    with pytest.raises(InputError, match=r"will not fit in memory: .* the limit is"):
        fit(graph, model=model, memory_limit=TINY)
    fit(graph, model=model, memory_limit=1.0, epochs=1)


def test_sparse_features_count_with_their_transpose(graph: Graph) -> None:
    x = sp.csr_array(np.eye(400, 300, dtype=np.float32))
    sparse = Graph(x=x, adj=graph.adj, y=graph.y)
    dense = Graph(x=x.toarray(), adj=graph.adj, y=graph.y)
    split = stratified_split(graph.y, (0.6, 0.2, 0.2), 0)
    module = build_model("mlp", 300, 4, {})
    assert estimate_work(module, sparse, split).features == 16 * 300
    assert estimate_work(module, dense, split).features == 4 * 400 * 300


@pytest.mark.usefixtures("small_memory")
def test_two_rounds_in_batches_are_refused_before_they_start(graph: Graph) -> None:
    # 40 nodes of h2gcn-1 need 40 rows; of h2gcn-2, nearly those of the whole graph.
    batches = {"batch_size": 40, "epochs": 1, "memory_limit": 1e-3}
    fit(graph, model="h2gcn-1", **batches)
    with pytest.raises(MemoryLimitError, match="a batch of 40 nodes will not fit"):
        fit(graph, model="h2gcn-2", **batches)


@each(
    "params",
    [
        {"ring_cap": 0},
        {"ring_cap": 2.5},
        {"ring_cap": 2**63},
        {"memory_limit": 0},
        {"memory_limit": "8"},
    ],
)
def test_bad_options(graph: Graph, params: dict[str, object]) -> None:
    with refused(**only(params)) as caught:
        fit(graph, **params)
    assert "\n" not in str(caught.value)


@each(
    ("params", "words"),
    [
        ({"ring_cap": 4, "model": "gcn"}, "'gcn' has none"),
        ({"ring_cap": 4, "model": "h2gcn-s1"}, "'h2gcn-s1' has none"),
        ({"ring_cap": 4, "model": "mlp"}, "'mlp' has none"),
    ],
)
def test_options_that_do_not_go_together(
    graph: Graph, params: dict[str, object], words: str
) -> None:
    with refused(param=next(iter(params)), words=words) as caught:
        fit(graph, **params)
    assert "\n" not in str(caught.value)


def test_prediction_computes_rows_that_do_not_fit(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = fit(graph)
    exact = classifier.predict_logits(graph)
    other = Graph(x=graph.x, adj=graph.adj)
    monkeypatch.setattr(plan, "training_bytes", rings_too_large)
    with pytest.warns(H2GCNWarning, match="computed when they are needed"):
        logits = classifier.predict_logits(other)
    np.testing.assert_allclose(logits, exact, atol=1e-4)


def test_rings_at_hand_are_used_only_as_they_would_be_chosen(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Graph(x=graph.x, adj=graph.adj, y=graph.y)
    with monkeypatch.context() as patched:
        patched.setattr(plan, "training_bytes", rings_too_large)
        fit(own, model="h2gcn-1", batch_size=64, epochs=1)
    whole = fit(own, model="h2gcn-1", epochs=1).predict_logits(own)
    fresh = Graph(x=graph.x, adj=graph.adj, y=graph.y)
    assert np.array_equal(
        whole, fit(fresh, model="h2gcn-1", epochs=1).predict_logits(fresh)
    )
    with pytest.raises(InputError, match="will not fit"):
        fit(own, model="h2gcn-1", memory_limit=TINY)


def test_sparse_blocks_are_not_counted_as_dense_in_batches() -> None:
    n = 5000
    path = [(i, i + 1) for i in range(n - 1)]
    big = Graph(x=np.ones((n, 2)), adj=adjacency_of(path, n), y=np.arange(n) % 2)
    for batch_size in (None, 500):  # dense, a batch would take 30 MB
        params = {"epochs": 1, "batch_size": batch_size, "memory_limit": 0.02}
        NodeClassifier("linkx", random_state=0, **params).fit(big)


def adjacency_of(edges: list[tuple[int, int]], n: int) -> sp.csr_array:
    rows, columns = np.array(edges).T
    upper = sp.csr_array((np.ones(len(edges)), (rows, columns)), shape=(n, n))
    return upper + upper.T
