"""Correct and smooth against the dense steps of the authors' program."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.features import FeatureTable
from h2gcn.models import MODELS
from h2gcn.models.base import NodeModule
from h2gcn.models.correct_and_smooth import (
    CorrectAndSmooth,
    LinearTable,
)
from h2gcn.models.table_net import TableNet
from h2gcn.sparse import NO_GRAPH, Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""


def one_hot(n: int, labels: dict[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def random_adjacency(n: int, seed: int, *, weighted: bool = False) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.25, 1).astype(np.float32)
    if weighted:
        upper *= rng.integers(1, 5, size=(n, n))
    return sp.csr_array(upper + upper.T)


class Given(NodeModule):
    """A base whose logits are given."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(1, logits.shape[1])
        self.logits = logits

    def forward(self, x: object, graph: Propagation) -> Any:
        """Return what was given."""
        del x, graph
        return self.logits


def correcting(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a) for a in MODELS["correct-and-smooth"].build_matrices(adj))


def table(n: int, known: Tensor, features: Tensor | None = None) -> FeatureTable:
    x = torch.ones(n, 1) if features is None else features
    return FeatureTable({"own": x}, known)


def with_base(logits: Tensor, **options: Any) -> CorrectAndSmooth:
    module = CorrectAndSmooth((1,), logits.shape[1], **options)
    module.base = Given(logits)  # type: ignore[assignment]
    return module.eval()


def correct_and_smooth(
    adj: sp.csr_array,
    base_logits: Matrix,
    y: Matrix,
    *,
    correction: str = "autoscale",
    correction_alpha: float = 0.9,
    scale: float = 1.0,
    smoothing_alpha: float = 0.8,
    steps: int = 50,
) -> Matrix:
    """Return the shares after all steps of the program, in dense matrices."""
    a = adj.toarray().astype(float)
    d = a.sum(axis=1)
    root = np.diag(np.where(d > 0, np.where(d > 0, d, 1) ** -0.5, 0))
    means = np.diag(np.where(d > 0, 1 / np.where(d > 0, d, 1), 0)) @ a
    s = root @ a @ root
    train = np.flatnonzero(y.any(axis=1))
    z = np.exp(base_logits) / np.exp(base_logits).sum(axis=1, keepdims=True)
    errors = np.zeros_like(z)
    errors[train] = y[train] - z[train]
    corrected = z.copy()
    spread = errors.copy()
    for _ in range(steps):
        if correction == "autoscale":
            spread = correction_alpha * s @ spread + (1 - correction_alpha) * errors
            spread = np.clip(spread, -1, 1)
        else:
            spread = means @ spread
            spread[train] = errors[train]
    if correction == "autoscale" and len(train):
        sigma = np.abs(errors[train]).sum() / len(train)
        for v in range(len(z)):
            size = np.abs(spread[v]).sum()
            gamma = sigma / size if size > 0 else np.inf
            corrected[v] += (gamma if gamma <= 1000 else 1.0) * spread[v]
    elif correction == "fixed":
        corrected += scale * spread
    start = corrected.copy()
    start[train] = y[train]
    g = start.copy()
    for _ in range(steps):
        g = np.clip(smoothing_alpha * s @ g + (1 - smoothing_alpha) * start, 0, 1)
    return g / g.sum(axis=1, keepdims=True)


@given(
    seed=st.integers(0, 10_000),
    options=st.sampled_from(
        [
            {},
            {"correction_alpha": 0.3, "smoothing_alpha": 0.3},
            {"steps": 1},
            {"correction": "fixed"},
            {"correction": "fixed", "scale": 3.0, "steps": 7},
            {"correction": "none"},
        ]
    ),
)
def test_all_steps_are_those_of_the_program(seed: int, options: dict[str, Any]) -> None:
    adj, rng = random_adjacency(12, seed), np.random.default_rng(seed)
    y = one_hot(12, {int(v): int(rng.integers(3)) for v in rng.choice(12, 5)})
    logits = torch.from_numpy(rng.normal(size=(12, 3)).astype(np.float32))
    module = with_base(logits, **options)
    found = module(table(12, y), Propagation(correcting(adj))).double().exp().numpy()
    expected = correct_and_smooth(
        adj, logits.double().numpy(), y.double().numpy(), **options
    )
    np.testing.assert_allclose(found, np.maximum(expected, 1e-12), atol=2e-5)


def test_errors_are_corrected_where_the_base_is_wrong_all_over() -> None:
    # On the left the base says class 0 and all is class 1; on the right it is right.
    left = [(u, v) for u in range(6) for v in range(u)]
    right = [(u + 6, v + 6) for u, v in left]
    adj, y = adjacency(12, left + right), np.repeat([1, 0], 6)
    logits = torch.tensor([[2.0, 0.0]]).repeat(12, 1)
    known = one_hot(12, {0: 1, 1: 1, 6: 0, 7: 0}, 2)
    assert (logits.argmax(dim=1).numpy() == y).mean() == 0.5
    for options in ({}, {"correction": "fixed"}):
        found = with_base(logits, **options)(
            table(12, known), Propagation(correcting(adj))
        )
        assert (found.argmax(dim=1).numpy() == y).all()


def test_an_error_that_is_too_small_is_not_scaled_up() -> None:
    # Node 12 is so far from the label that its error would be multiplied by thousands.
    adj = adjacency(13, [(v, v + 1) for v in range(12)])
    known = one_hot(13, {0: 1}, 2)
    logits = torch.tensor([[1.0, 0.0]]).repeat(13, 1)
    near, far = (
        with_base(logits, correction_alpha=alpha, smoothing_alpha=1e-6)(
            table(13, known), Propagation(correcting(adj))
        )
        for alpha in (0.9, 0.1)
    )
    base = logits.log_softmax(dim=1)
    torch.testing.assert_close(far[12], base[12], atol=1e-4, rtol=0)
    assert (near[12] - base[12]).abs().max() > 0.1


def test_without_a_known_label_the_base_is_smoothed() -> None:
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    found = with_base(logits)(table(6, torch.zeros(6, 3)), Propagation(correcting(SIX)))
    expected = correct_and_smooth(
        SIX, logits.double().numpy(), np.zeros((6, 3)), correction="none"
    )
    np.testing.assert_allclose(found.double().exp(), expected, atol=1e-5)
    torch.testing.assert_close(found[5], logits[5].log_softmax(dim=0))  # it is alone


def test_a_base_that_is_right_has_nothing_to_correct() -> None:
    known = one_hot(6, {0: 1, 1: 1})
    logits = torch.full((6, 3), -200.0)
    logits[:, 1] = 200
    found = with_base(logits)(table(6, known), Propagation(correcting(SIX)))
    assert torch.isfinite(found).all()
    assert (found.argmax(dim=1) == 1).all()


def test_equal_shares_are_equal() -> None:
    known = one_hot(5, {1: 0, 3: 1}, 2)
    found = with_base(torch.zeros(5, 2))(
        table(5, known), Propagation(correcting(NAMED["path"]))
    )
    assert float(found[2, 0]) == float(found[2, 1])


def test_the_base_is_what_epochs_train() -> None:
    mlp, linear = CorrectAndSmooth((4,), 3), CorrectAndSmooth((4,), 3, base="linear")
    assert isinstance(mlp.base, TableNet)
    assert isinstance(linear.base, LinearTable)
    for module in (mlp, linear):
        assert module.learner() is module.base
        assert {*module.parameters()} == {*module.base.parameters()}
        assert [*map(id, module.regularised())] == [*map(id, module.base.regularised())]
        assert module.reach is None
    shapes = {name: tuple(w.shape) for name, w in linear.named_parameters()}
    assert shapes == {"base.bias": (3,), "base.maps.0": (4, 3)}


def test_a_linear_base_is_one_linear_map() -> None:
    torch.manual_seed(0)
    module = LinearTable((2, 3), 2)
    rows = torch.randn(4, 5)
    x = FeatureTable({"a": rows[:, :2], "b": rows[:, 2:]}, torch.zeros(4, 2))
    with torch.no_grad():
        module.bias.add_(torch.tensor([1.0, -1.0]))
        weight = torch.cat([*module.maps])
        torch.testing.assert_close(module(x, NO_GRAPH), rows @ weight + module.bias)
        some = module(x, Propagation((), torch.tensor([3, 1])))
        torch.testing.assert_close(some, module(x, NO_GRAPH)[[3, 1]])


def synthetic(seed: int = 0, n: int = 200) -> Graph:
    return generate_graph(
        n_nodes=n,
        n_classes=3,
        homophily=0.9,
        features=GaussianFeatures(n_features=6, separation=1.0),
        seed=seed,
    )


def test_the_best_epoch_is_the_bases_and_the_score_is_the_whole_models() -> None:
    graph = synthetic()
    clf = NodeClassifier("correct-and-smooth", epochs=40, random_state=0).fit(graph)
    base = [epoch.val_score for epoch in clf.history_]
    assert base[clf.best_epoch_ - 1] == max(base)
    val = clf.split_.val
    whole = (clf.predict(graph, val) == graph.classes[graph.y[val]]).mean()
    assert clf.val_score_ == pytest.approx(whole)
    assert clf.val_score_ > max(base) + 0.05  # neighbours are alike
    assert clf.seconds_ > 0


def test_labels_of_validation_and_test_nodes_are_never_put_in() -> None:
    graph = synthetic()
    clf = NodeClassifier("correct-and-smooth", epochs=5, random_state=0).fit(graph)
    assert clf.seeds_ is not None
    train = {str(node) for node in graph.node_ids[clf.split_.train].tolist()}
    assert set(clf.seeds_.ids) == train
    # Other labels there change no prediction of the same model.
    y = graph.y.copy()
    others = np.concatenate([clf.split_.val, clf.split_.test])
    y[others] = (y[others] + 1) % 3
    changed = Graph(x=graph.x, adj=graph.adj, y=y, classes=graph.classes)
    np.testing.assert_array_equal(
        clf.predict_logits(changed), clf.predict_logits(graph)
    )


def test_a_graph_whose_labels_are_not_known_is_predicted_from_its_features() -> None:
    graph = synthetic()
    clf = NodeClassifier("correct-and-smooth", epochs=40, random_state=0).fit(graph)
    # Without ids, a graph with one edge less has none of the nodes of training.
    edges = sp.triu(graph.adj).tocoo()
    fewer = adjacency(200, list(zip(*(c[1:] for c in edges.coords), strict=True)))
    other = Graph(x=graph.x, adj=fewer, y=graph.y, classes=graph.classes)
    assert clf.seeds_ is not None
    assert not clf.seeds_.one_hot(other, torch.device("cpu"), must=False).any()
    found, known = clf.predict_logits(other), clf.predict_logits(graph)
    assert np.abs(found - known).max() > 0.1
    rows = table(200, torch.zeros(200, 3), scaled(clf, graph))
    base = clf.module_.base(rows, NO_GRAPH)
    module = with_base(base.detach(), correction="none")
    expected = module(table(200, torch.zeros(200, 3)), Propagation(correcting(fewer)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def scaled(clf: NodeClassifier, graph: Graph) -> Tensor:
    return torch.from_numpy(np.asarray(clf.scaler_(graph.x)))


@each(
    "options",
    [
        {"base": "gcn"},
        {"correction": "auto"},
        {"correction_alpha": 1},
        {"smoothing_alpha": 0},
        {"scale": -1},
        {"steps": 0},
        {"steps": 10_001},
        {"hidden_channels": 0},
        {"activation": "tan"},
        {"dropout": 1},
    ],
)
@each("base", ["mlp", "linear"])
def test_bad_options_of_correct_and_smooth_are_named(
    base: str, options: dict[str, Any]
) -> None:
    with refused(**only(options)):
        CorrectAndSmooth((4,), 3, **({"base": base} | options))
