"""Residual GNNs against their formula, and what their statistics are of."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.models import MODELS
from h2gcn.models.residual import ResidualGNN
from h2gcn.sparse import Operator, Target, dropout
from h2gcn.training import receptive_field
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 4
NAMES = ("residual-gcn", "residual-sage")
SEVEN = adjacency(7, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)])
"""A triangle with a long tail, and an isolated last node."""


def build(layers: int = 3, norm: str = "batch", dropout: float = 0.0) -> ResidualGNN:
    """Return a module none of whose weights is as it begins."""
    torch.manual_seed(0)
    module = ResidualGNN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        layers=layers,
        norm=norm,
        dropout=dropout,
    )
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim < 2 or weight is module.shift:
                weight.normal_()
        if norm != "none":
            module.scale.uniform_(0.5, 1.5)
        if norm == "batch":
            module.means.normal_()
            module.variances.uniform_(0.5, 1.5)
    return module


def operators_of(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    spec = MODELS[name]
    return tuple(Operator(a, symmetric=spec.symmetric) for a in spec.operators(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def dense_operator(name: str, adj: sp.csr_array) -> Matrix:
    a = adj.toarray().astype(float)
    if name == "residual-sage":
        return a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    a += np.eye(len(a))
    return a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))


def oracle(
    module: ResidualGNN,
    x: Matrix,
    s: Matrix,
    counted: list[NDArray[np.int64]] | None = None,
    masks: list[Matrix] | None = None,
) -> Matrix:
    """Return the logits in double; statistics of the counted rows where given."""
    weights = {n: w.detach().double().numpy() for n, w in module.state_dict().items()}
    h = x
    for k in range(module.layers):
        z = s @ h @ weights[f"neighbours.{k}"] + h @ weights[f"own.{k}"]
        if module.norm == "batch":
            mean, variance = weights["means"][k], weights["variances"][k]
            if counted is not None:
                mean, variance = (f(z[counted[k]], axis=0) for f in (np.mean, np.var))
            z = (z - mean) / np.sqrt(variance + 1e-5)
        elif module.norm == "layer":
            z = z - z.mean(axis=1, keepdims=True)
            z = z / np.sqrt((z**2).mean(axis=1, keepdims=True) + 1e-5)
        if module.norm != "none":
            z = z * weights["scale"][k]
        h = np.maximum(z + weights["shift"][k], 0)
        if masks is not None:
            h = h * masks[k]
    return h @ weights["classifier"] + weights["bias"]


@each("name", NAMES)
@each("norm", ["batch", "layer", "none"])
@each("layers", [1, 2, 5])
def test_it_is_its_formula(name: str, norm: str, layers: int) -> None:
    module, x = build(layers, norm).eval(), features(7)
    operators = operators_of(name, SEVEN)
    expected = oracle(module, x.double().numpy(), dense_operator(name, SEVEN))
    index = np.array([6, 0, 0, 3])
    logits = module(x, operators).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    some = module(x, operators, Target.of(operators, index)).detach().numpy()
    np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
@each("name", NAMES)
def test_it_is_its_formula_on_named_graphs(name: str, named_adj: sp.csr_array) -> None:
    module, x = build().eval(), features(named_adj.shape[0])
    expected = oracle(module, x.double().numpy(), dense_operator(name, named_adj))
    logits = module(x, operators_of(name, named_adj)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@each("name", NAMES)
def test_training_on_all_nodes_takes_the_statistics_of_all(name: str) -> None:
    module, x = build().train(), features(7)
    counted = [np.arange(7)] * 3
    expected = oracle(module, x.double().numpy(), dense_operator(name, SEVEN), counted)
    logits = module(x, operators_of(name, SEVEN)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@each("name", NAMES)
@each("batched", [False, True])
def test_statistics_are_of_the_nodes_that_matter(name: str, batched: bool) -> None:
    # Of 4 and 5 the logits depend on 3 after two layers, and on 2 after one.
    module, x, index = build().train(), features(7), np.array([5, 4])
    counted = [np.array([2, 3, 4, 5]), np.array([3, 4, 5]), index]
    s = dense_operator(name, SEVEN)
    expected = oracle(module, x.double().numpy(), s, counted)
    operators = operators_of(name, SEVEN)
    if batched:
        part = receptive_field(x, operators, index, module.reach, torch.device("cpu"))
        assert part.x.shape == (6, FEATURES), "0 and 1 came in last, in part only"
        logits = module(part.x, part.operators, part.target)
    else:
        logits = module(x, operators, Target.of(operators, index))
    np.testing.assert_allclose(
        logits.detach().numpy(), expected[index], rtol=1e-4, atol=1e-4
    )


def test_what_runs_is_a_mean_of_what_was_seen() -> None:
    module, x, index = build(1).train(), features(7), np.array([0, 2, 5])
    operators = operators_of("residual-gcn", SEVEN)
    before = module.means.numpy()[0].copy(), module.variances.numpy()[0].copy()
    module(x, operators, Target.of(operators, index))
    weights = (module.neighbours[0], module.own[0])
    w, v = (weight.detach().double().numpy() for weight in weights)
    own = x.double().numpy()
    z = (dense_operator("residual-gcn", SEVEN) @ own @ w + own @ v)[index]
    seen = z.mean(axis=0), z.var(axis=0, ddof=1)
    for running, old, new in zip(
        (module.means, module.variances), before, seen, strict=True
    ):
        expected = 0.9 * old + 0.1 * new
        np.testing.assert_allclose(running.numpy()[0], expected, rtol=1e-4, atol=1e-5)
    kept = module.means.clone(), module.variances.clone()
    module.eval()(x, operators)
    assert torch.equal(module.means, kept[0])
    assert torch.equal(module.variances, kept[1])


def test_a_single_row_is_normalised_by_what_runs() -> None:
    module, x, index = build(1).train(), features(7), np.array([3])
    operators = operators_of("residual-gcn", SEVEN)
    before = module.means.clone()
    target = Target.of(operators, index)
    logits = module(x, operators, target)
    assert torch.equal(module.means, before)
    torch.testing.assert_close(logits, module.eval()(x, operators, target))


def test_each_layer_is_dropped_from() -> None:
    module, x = build(2, "none", dropout=0.5).train(), features(7)
    torch.manual_seed(4)
    masks = [dropout(torch.ones(7, WIDTH), 0.5).double().numpy() for _ in range(2)]
    torch.manual_seed(4)
    logits = module(x, operators_of("residual-gcn", SEVEN)).detach().numpy()
    s = dense_operator("residual-gcn", SEVEN)
    expected = oracle(module, x.double().numpy(), s, masks=masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_its_weights_and_which_are_penalised() -> None:
    module = build(2)
    assert {n: tuple(w.shape) for n, w in module.state_dict().items()} == {
        "neighbours.0": (5, 4),
        "neighbours.1": (4, 4),
        "own.0": (5, 4),
        "own.1": (4, 4),
        "scale": (2, 4),
        "shift": (2, 4),
        "means": (2, 4),
        "variances": (2, 4),
        "classifier": (4, 3),
        "bias": (3,),
    }
    penalised = {id(weight) for weight in module.regularised()}
    free = [n for n, w in module.named_parameters() if id(w) not in penalised]
    assert sorted(free) == ["bias", "scale", "shift"]
    assert "scale" not in dict(build(2, "none").named_parameters())
    assert module.reach == 2


@each("batch_size", [None, 5])
def test_the_best_epoch_is_kept_with_its_statistics(
    small_graph: Graph, tmp_path: Path, batch_size: int | None
) -> None:
    clf = NodeClassifier(
        "residual-sage", epochs=8, batch_size=batch_size, random_state=0
    )
    clf.fit(small_graph)
    whole = clf.predict_logits(small_graph)
    # The same training ended at the best epoch has the same statistics.
    short = NodeClassifier(
        "residual-sage", epochs=clf.best_epoch_, batch_size=batch_size, random_state=0
    ).fit(small_graph)
    assert torch.equal(short.module_.means, clf.module_.means)
    assert torch.equal(short.module_.variances, clf.module_.variances)
    clf.save(tmp_path / "m")
    loaded = NodeClassifier.load(tmp_path / "m")
    assert torch.equal(loaded.module_.means, clf.module_.means)
    # Batches are not saved: the whole graph at once adds in another order.
    found = loaded.predict_logits(small_graph)
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)
    assert batch_size or found.tobytes() == whole.tobytes()
    blocks = clf.predict_blocks(small_graph, block_size=7)
    found = np.concatenate([logits for _, logits in blocks])
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)


def test_batches_of_one_node_are_trained_on(small_graph: Graph) -> None:
    clf = NodeClassifier("residual-gcn", epochs=2, batch_size=1, random_state=0)
    assert np.isfinite(clf.fit(small_graph).predict_logits(small_graph)).all()


@each(("layers", "seen"), [(3, False), (4, True)])
def test_each_layer_sees_a_step_further(layers: int, seen: bool) -> None:
    # On the tail, 1 is four steps from 5.
    module, x = build(layers, "layer").eval(), features(7)
    other = x.clone()
    other[1] += 1
    operators = operators_of("residual-sage", SEVEN)
    before, after = (module(rows, operators)[5] for rows in (x, other))
    assert torch.equal(before, after) != seen


@each(
    "options",
    [
        {"layers": 0},
        {"layers": 129},
        {"norm": "graph"},
        {"dropout": 1.0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        ResidualGNN(5, 3, **options)


def test_an_isolated_node_has_itself_alone_in_the_mean() -> None:
    module = build(1, "none").eval()
    x = features(4)
    logits = module(x, operators_of("residual-sage", NAMED["isolated last node"]))
    own = torch.relu(x[3] @ module.own[0] + module.shift[0])
    torch.testing.assert_close(logits[3], own @ module.classifier + module.bias)
