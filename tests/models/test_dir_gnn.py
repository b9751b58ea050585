"""Dir-GNN against its formula, and the directions that reach it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.models import MODELS
from h2gcn.models.dir_gnn import DirGNN, directed_adjacency
from h2gcn.sparse import Operator, Target, dropout
from h2gcn.training import receptive_field
from support.cases import each
from support.graphs import DIRECTED, NAMED, adjacency, one_way
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 4


def build(**options: object) -> DirGNN:
    """Return a module none of whose weights is zero."""
    torch.manual_seed(0)
    module = DirGNN(FEATURES, CLASSES, hidden_channels=WIDTH, **options)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim == 1:
                weight.normal_()
    return module


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a) for a in directed_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def dense_operator(adj: sp.csr_array) -> Matrix:
    a = adj.toarray().astype(float)
    out, into = (np.maximum(a.sum(axis=axis), 1) for axis in (1, 0))
    return a / np.sqrt(np.outer(out, into))


def oracle(
    module: DirGNN, x: Matrix, adj: sp.csr_array, masks: list[Matrix] | None = None
) -> Matrix:
    weights = {n: w.detach().double().numpy() for n, w in module.state_dict().items()}
    s, layers, h = dense_operator(adj), [], x
    for k in range(module.layers):
        z = module.alpha * s @ h @ weights[f"along.{k}"]
        z = z + (1 - module.alpha) * s.T @ h @ weights[f"against.{k}"]
        z = z + weights[f"shifts.{k}"]
        if module.jumping == "none" and k == module.layers - 1:
            return z
        h = np.maximum(z, 0) * (1 if masks is None else masks[k])
        if module.normalise:
            length = np.linalg.norm(h, axis=1, keepdims=True)
            h = h / np.where(length > 0, length, 1)
        layers.append(h)
    final = np.hstack(layers) if module.jumping == "cat" else np.maximum.reduce(layers)
    return final @ weights["classifier"] + weights["bias"]


def test_both_directions_of_a_graph_by_hand() -> None:
    along, against = directed_adjacency(DIRECTED)
    half, root = 0.5, 0.5**0.5
    # Out-degrees 2 2 1 2 0 0; in-degrees 2 1 1 2 1 0.
    np.testing.assert_allclose(
        along.toarray(),
        [
            [0, root, root, 0, 0, 0],
            [half, 0, 0, half, 0, 0],
            [0, 0, 0, root, 0, 0],
            [half, 0, 0, 0, root, 0],
            [0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0],
        ],
        rtol=1e-6,
    )
    np.testing.assert_array_equal(against.toarray(), along.toarray().T)
    assert along.dtype == against.dtype == np.float32


def test_loops_and_equal_weights_of_a_matrix_do_not_count() -> None:
    weighted = DIRECTED * 7 + sp.eye_array(6, dtype=np.float32)
    for one, other in zip(
        directed_adjacency(sp.csr_array(weighted)),
        directed_adjacency(DIRECTED),
        strict=True,
    ):
        np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-6)


@each("jumping", ["max", "cat", "none"])
@each("alpha", [0.0, 0.3, 1.0])
@each("normalise", [False, True])
@each("layers", [1, 3])
def test_it_is_its_formula(
    jumping: str, alpha: float, normalise: bool, layers: int
) -> None:
    module = build(jumping=jumping, alpha=alpha, normalise=normalise, layers=layers)
    x, operators = features(6), operators_of(DIRECTED)
    expected = oracle(module, x.double().numpy(), DIRECTED)
    index = np.array([5, 0, 0, 3])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)
        part = receptive_field(x, operators, index, module.reach, torch.device("cpu"))
        some = module(part.x, part.operators, part.target).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_it_is_its_formula_on_named_graphs(named_adj: sp.csr_array) -> None:
    module, x = build().eval(), features(named_adj.shape[0])
    expected = oracle(module, x.double().numpy(), named_adj)
    logits = module(x, operators_of(named_adj)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_each_layer_is_dropped_from() -> None:
    module, x = build(layers=2, dropout=0.5).train(), features(6)
    torch.manual_seed(4)
    masks = [dropout(torch.ones(6, WIDTH), 0.5).double().numpy() for _ in range(2)]
    torch.manual_seed(4)
    logits = module(x, operators_of(DIRECTED)).detach().numpy()
    expected = oracle(module, x.double().numpy(), DIRECTED, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_rows_of_zeros_have_a_gradient_that_is_no_larger_than_others() -> None:
    module = DirGNN(FEATURES, CLASSES, normalise=True, activation="none")
    assert not module.shifts[0].any()
    module(features(6), operators_of(DIRECTED)).sum().backward()  # 5 is alone
    for weight in module.parameters():
        assert weight.grad is not None
        assert weight.grad.abs().max() < 1e3


def test_its_weights_and_which_are_penalised() -> None:
    assert {n: tuple(w.shape) for n, w in build(layers=2).named_parameters()} == {
        "along.0": (5, 4),
        "along.1": (4, 4),
        "against.0": (5, 4),
        "against.1": (4, 4),
        "shifts.0": (4,),
        "shifts.1": (4,),
        "classifier": (4, 3),
        "bias": (3,),
    }
    assert build(layers=2, jumping="cat").classifier.shape == (8, 3)
    plain = build(layers=2, jumping="none")
    assert "classifier" not in dict(plain.named_parameters())
    assert plain.along[1].shape == (4, 3)
    module = build()
    assert [w.ndim for w in module.regularised()] == [2] * 7
    assert module.reach == 3


# ------------------------------------------------------- directions of a graph


def circle(n: int = 60) -> Graph:
    """Return a directed circle, whose node has the class of the one it points to.

    The features tell the class of the node before it: of in-neighbours, nothing can
    be learned without the direction.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    ends = np.arange(n), (np.arange(n) + 1) % n
    directed = sp.csr_array((np.ones(n, np.float32), ends), (n, n))
    x = np.roll(y, 1)[:, None] * 2.0 - 1 + rng.normal(0, 0.1, size=(n, 1))
    adj = adjacency(n, list(zip(*(e.tolist() for e in ends), strict=True)))
    return Graph(x=x, adj=adj, directed=directed, y=y)


def test_a_model_says_which_matrix_it_wants() -> None:
    graph = circle()
    plain = replace(graph, directed=None)
    follows = {name for name, spec in MODELS.items() if spec.directed}
    tables = {name for name, spec in MODELS.items() if "table" in spec.options}
    assert follows == {"dir-gnn", *tables}
    for name, spec in MODELS.items():
        wanted = graph.directed if name in follows else graph.adj
        assert spec.matrix_of(graph) is wanted
        assert spec.matrix_of(plain) is plain.adj
    asked = MODELS["h2gcn-1"].given({"directed": True})
    assert asked.matrix_of(graph) is graph.directed
    assert asked.matrix_of(plain) is plain.adj


def test_directions_tell_what_a_symmetric_graph_cannot(tmp_path: Path) -> None:
    graph = circle(200)
    params = {"epochs": 100, "random_state": 0, "scaling": "none"}
    clf = NodeClassifier("dir-gnn", options={"layers": 1}, **params).fit(graph)
    assert clf.score(graph) > 0.95
    plain = replace(graph, directed=None)
    other = NodeClassifier("dir-gnn", options={"layers": 1}, **params).fit(plain)
    assert other.score(plain) < 0.9
    # The same model sees the directions of the graph it is given, saved or not.
    logits = clf.predict_logits(graph)
    turned = replace(graph, directed=sp.csr_array(graph.directed.T))
    assert np.abs(clf.predict_logits(turned) - logits).max() > 0.1
    clf.save(tmp_path / "m")
    loaded = NodeClassifier.load(tmp_path / "m")
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    some = NodeClassifier("dir-gnn", options={"layers": 1}, batch_size=16, **params)
    assert some.fit(graph).score(graph) > 0.95


def test_the_fitted_logits_are_those_of_the_directed_operators(
    small_graph: Graph,
) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    clf = NodeClassifier("dir-gnn", epochs=3, random_state=0, scaling="none")
    logits = clf.fit(graph).predict_logits(graph)
    expected = oracle(clf.module_, graph.x.astype(float), graph.directed)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@each(
    "options",
    [
        {"layers": 0},
        {"alpha": 1.5},
        {"jumping": "lstm"},
        {"normalise": "yes"},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        DirGNN(5, 3, **options)
