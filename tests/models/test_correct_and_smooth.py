"""Correct and smooth against the dense steps of the authors' program."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.features import FeatureTable
from h2gcn.graph import stratified_split
from h2gcn.models import MODELS
from h2gcn.models.correct_and_smooth import CorrectAndSmooth, LinearTable
from h2gcn.sparse import NO_GRAPH, Operator, Propagation
from h2gcn.training import NodeModule, TrainConfig, Trainer
from support.graphs import NAMED, SIX, adjacency, one_hot, random_adjacency


def matrices(adj):
    return [Operator(a) for a in MODELS["correct-and-smooth"].build_matrices(adj)]


class FixedLogits(NodeModule):
    """A base with the same logits for any input."""

    def __init__(self, logits):
        super().__init__(1, logits.shape[1])
        self.logits = logits

    def forward(self, x, graph):
        del x, graph
        return self.logits


def predict(adj, base_logits, known, **options):
    """Return the log-shares of a module whose base has these logits."""
    module = CorrectAndSmooth((1,), base_logits.shape[1], **options)
    module.base = FixedLogits(base_logits)
    table = FeatureTable({"ego": torch.ones(len(known), 1)}, known)
    return module.eval()(table, Propagation(matrices(adj)))


def shares_by_program(
    adj,
    base_logits,
    y,
    *,
    correction="autoscale",
    correction_alpha=0.9,
    scale=1.0,
    smoothing_alpha=0.8,
    steps=50,
):
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


OPTIONS = (
    {},
    {"correction_alpha": 0.3, "smoothing_alpha": 0.3},
    {"steps": 1},
    {"correction": "fixed"},
    {"correction": "fixed", "scale": 3.0, "steps": 7},
    {"correction": "none"},
)


@given(
    seed=st.integers(0, 10_000),
    options=st.sampled_from(OPTIONS),
    n_known=st.sampled_from([0, 1, 5]),
)
def test_all_steps_are_those_of_the_program(seed, options, n_known):
    adj, rng = random_adjacency(seed, 12, 0.25), np.random.default_rng(seed)
    y = one_hot(12, {v: rng.integers(3) for v in rng.choice(12, n_known, False)})
    logits = torch.from_numpy(rng.normal(size=(12, 3)).astype(np.float32))
    found = predict(adj, logits, y, **options).double().exp().numpy()
    expected = shares_by_program(adj, logits.double().numpy(), y.numpy(), **options)
    np.testing.assert_allclose(found, np.maximum(expected, 1e-12), atol=2e-5)


def test_errors_are_corrected_in_the_region_where_the_base_is_wrong():
    # On the left the base says class 0 and all is class 1; on the right it is right.
    left = [(u, v) for u in range(6) for v in range(u)]
    right = [(u + 6, v + 6) for u, v in left]
    adj, y = adjacency(12, left + right), np.repeat([1, 0], 6)
    logits = torch.tensor([[2.0, 0.0]]).repeat(12, 1)
    known = one_hot(12, {0: 1, 1: 1, 6: 0, 7: 0}, 2)
    for options in ({}, {"correction": "fixed"}):
        found = predict(adj, logits, known, **options)
        assert (found.argmax(dim=1).numpy() == y).all()


def test_an_error_that_would_be_scaled_by_thousands_is_not_scaled():
    # Node 12 is far from the only label; with a small alpha hardly any error arrives.
    adj = adjacency(13, [(v, v + 1) for v in range(12)])
    known = one_hot(13, {0: 1}, 2)
    logits = torch.tensor([[1.0, 0.0]]).repeat(13, 1)
    base = logits.log_softmax(dim=1)
    for alpha, changes in ((0.9, True), (0.1, False)):
        options = {"correction_alpha": alpha, "smoothing_alpha": 1e-6}
        change = (predict(adj, logits, known, **options)[12] - base[12]).abs().max()
        assert change > 0.1 if changes else change < 1e-4


def test_certain_and_equal_predictions_stay_finite_and_equal():
    certain = torch.full((6, 3), -200.0)
    certain[:, 1] = 200
    found = predict(SIX, certain, one_hot(6, {0: 1, 1: 1}))
    assert torch.isfinite(found).all()
    assert (found.argmax(dim=1) == 1).all()
    found = predict(NAMED["path"], torch.zeros(5, 2), one_hot(5, {1: 0, 3: 1}, 2))
    assert float(found[2, 0]) == float(found[2, 1])
    # Node 5 is alone: it keeps the prediction of the base.
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    found = predict(SIX, logits, torch.zeros(6, 3))
    torch.testing.assert_close(found[5], logits[5].log_softmax(dim=0))


def test_a_linear_base_is_one_linear_map():
    torch.manual_seed(0)
    module, rows = LinearTable((2, 3), 2), torch.randn(4, 5)
    x = FeatureTable({"a": rows[:, :2], "b": rows[:, 2:]})
    with torch.no_grad():
        module.bias.add_(torch.tensor([1.0, -1.0]))
        expected = rows @ module.weight + module.bias
        torch.testing.assert_close(module(x, NO_GRAPH), expected)
        some = module(x, Propagation((), torch.tensor([3, 1])))
        torch.testing.assert_close(some, expected[[3, 1]])
    assert module.decayed_parameters() == [module.weight]


def fit(graph, y, split, **options):
    """Return a module trained with the labels y, its input and the result."""
    known = np.eye(3, dtype=np.float32)[y]
    known[np.setdiff1d(np.arange(len(y)), split.train)] = 0
    x = FeatureTable({"ego": torch.from_numpy(graph.x)}, torch.from_numpy(known))
    torch.manual_seed(0)
    module = CorrectAndSmooth((graph.n_features,), 3, **options)
    config = TrainConfig(epochs=40)
    result = Trainer(module, x, matrices(graph.adj), y, split, config).run()
    return module, x, result


@pytest.mark.parametrize("base", ["mlp", "linear"])
def test_epochs_train_the_base_alone_and_the_score_is_the_whole_models(base):
    features = GaussianFeatures(n_features=6, separation=1.0)
    graph = generate_graph(
        n_nodes=200, n_classes=3, homophily=0.9, features=features, seed=0
    )
    split = stratified_split(graph.y, seed=0)
    module, x, result = fit(graph, graph.y, split, base=base)
    names = {name.partition(".")[0] for name, _ in module.named_parameters()}
    assert names == {"base"}
    assert module.decayed_parameters() == module.base.decayed_parameters()
    val, scores = split.val, [epoch.val_score for epoch in result.history]
    logits = module.base(x, NO_GRAPH).detach()
    accuracy = (logits.argmax(dim=1).numpy()[val] == graph.y[val]).mean()
    assert scores[result.best_epoch - 1] == max(scores) == pytest.approx(accuracy)
    logits = module(x, Propagation(matrices(graph.adj))).detach()
    accuracy = (logits.argmax(dim=1).numpy()[val] == graph.y[val]).mean()
    assert result.val_score == pytest.approx(accuracy)
    assert result.val_score > max(scores) + 0.05  # neighbors are alike
    # Labels of test nodes are read nowhere.
    y = graph.y.copy()
    y[split.test] = (y[split.test] + 1) % 3
    other, x, _ = fit(graph, y, split, base=base)
    assert torch.equal(other(x, Propagation(matrices(graph.adj))), logits)
