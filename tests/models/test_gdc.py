"""GDC: a GCN on a diffusion, whose options change its operator alone."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from h2gcn import Graph, NodeClassifier
from h2gcn.models import MODELS, Diffusion, build_model, find_model
from h2gcn.sparse import Operator, Target
from support.cases import each
from support.graphs import NAMED, random_adjacency
from support.refusals import refused

FEATURES, CLASSES = 5, 3


def features(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(seed))


def dense_operator(adj: sp.csr_array, alpha: float, top: int) -> np.ndarray:
    """Return what is kept of PageRank, each row divided by its sum, [n, n]."""
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    root = a.sum(axis=1) ** -0.5
    s = alpha * np.linalg.inv(np.eye(len(a)) - (1 - alpha) * root[:, None] * a * root)
    for row in s:
        row[np.argsort(-row, kind="stable")[top:]] = 0
    return s / s.sum(axis=1, keepdims=True)


@each("seed", range(4))
def test_logits_are_those_of_the_formula(seed: int) -> None:
    adj = random_adjacency(seed)
    n, options = adj.shape[0], {"alpha": 0.2, "top": n_kept(adj)}
    torch.manual_seed(0)
    module = build_model("gdc", FEATURES, CLASSES, {"hidden_channels": 8} | options)
    spec = find_model("gdc").given(options)
    operators = [Operator(matrix) for matrix in spec.operators(adj)]
    x, s = features(n), dense_operator(adj, 0.2, n_kept(adj))
    w1, w2 = (w.detach().double().numpy() for w in (module.first, module.second))
    expected = s @ np.maximum(s @ x.double().numpy() @ w1, 0) @ w2
    module.eval()
    logits = module(x, operators).detach()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    index = np.array([n - 1, 0])
    some = module(x, operators, Target.of(operators, index)).detach()
    np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


def n_kept(adj: sp.csr_array) -> int:
    """Return a number of neighbours that leaves some out, where there are several."""
    return max(adj.shape[0] // 2, 1)


def test_the_options_are_those_of_the_diffusion() -> None:
    own = set(MODELS["gcn"].options)
    assert set(MODELS["gdc"].options) - own == {
        *("kernel", "alpha", "time", "sparsify", "top", "threshold", "tolerance"),
    }
    module = build_model("gdc", 4, 2, {"kernel": "heat", "time": 3.0, "top": 7})
    assert module.diffusion == Diffusion(kernel="heat", time=3.0, top=7)
    assert build_model("gdc", 4, 2, {}).diffusion == MODELS["gdc"].operators


def test_options_set_how_operators_are_made() -> None:
    spec = find_model("gdc")
    assert spec.given(None) == spec
    assert spec.given({"dropout": 0.1, "alpha": 0.15}) == spec
    other = spec.given({"kernel": "heat", "top": 3, "hidden_channels": 8})
    assert other.operators == Diffusion(kernel="heat", top=3)
    with refused(param="alpha", value=7):
        spec.given({"alpha": 7})


@each(
    "options",
    [
        {"alpha": 0.5},
        {"kernel": "heat"},
        {"top": 3},
        {"sparsify": "threshold", "threshold": 0.1},
    ],
)
def test_a_fit_takes_the_options_and_a_saved_model_has_them(
    small_graph: Graph, tmp_path: Path, options: dict[str, object]
) -> None:
    plain = NodeClassifier("gdc", epochs=3, random_state=0).fit(small_graph)
    clf = NodeClassifier("gdc", epochs=3, random_state=0, options=options)
    logits = clf.fit(small_graph).predict_logits(small_graph)
    assert np.abs(logits - plain.predict_logits(small_graph)).max() > 1e-5
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    fresh = Graph(x=small_graph.x, adj=small_graph.adj, y=small_graph.y)
    assert loaded.predict_logits(fresh).tobytes() == logits.tobytes()


def test_some_nodes_are_predicted_with_all(small_graph: Graph) -> None:
    clf = NodeClassifier("gdc", epochs=3, random_state=0).fit(small_graph)
    assert MODELS["gdc"].rows is None
    some = clf.predict_logits(small_graph, [3, 0])
    whole = clf.predict_logits(small_graph)
    np.testing.assert_allclose(some, whole[[3, 0]], rtol=1e-5, atol=1e-6)


def test_neighbours_of_neighbours_are_mixed_at_once() -> None:
    (operator,) = Diffusion(alpha=0.15)(NAMED["path"])
    assert (operator.toarray() > 0).all()
