"""CPGNN against its formula, and what its three steps of training ask of it."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import Split
from h2gcn.models.compatibility import project
from h2gcn.models.cpgnn import CPGNN, plain_adjacency
from h2gcn.sparse import Operator, Target
from h2gcn.training import TrainConfig
from h2gcn.training.loop import train
from support.cases import each
from support.dropping import mask_of
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 8

# A square with a chord, a tail, and a node of its own.
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
GRAPHS = {**NAMED, "six": SIX}


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in plain_adjacency(adj))


def features(n: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def build(rounds: int = 1, dropout: float = 0.0, activation: str = "relu") -> CPGNN:
    torch.manual_seed(0)
    module = CPGNN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        rounds=rounds,
        activation=activation,
        dropout=dropout,
    )
    with torch.no_grad():  # zeros would hide the propagation
        torch.nn.init.normal_(module.compatibility, std=0.3)
    return module


def softmax(r: Matrix) -> Matrix:
    powers = np.exp(r - r.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def prior_of(module: CPGNN, x: Matrix, mask: Matrix | float = 1.0) -> Matrix:
    """Return the prior's probabilities of all nodes."""
    w1, w2 = (w.detach().double().numpy() for w in module.prior.parameters())
    hidden = np.maximum(x @ w1, 0) if module.prior.activation == "relu" else x @ w1
    return softmax((hidden * mask) @ w2)


def oracle(
    module: CPGNN, x: Matrix, adj: sp.csr_array, mask: Matrix | float = 1.0
) -> Matrix:
    """Return the paper's final beliefs, in double precision."""
    h = module.compatibility.detach().double().numpy()
    a = adj.toarray().astype(float)
    e = prior_of(module, x, mask) - 1 / CLASSES
    b = e
    for _ in range(module.rounds):
        b = e + a @ b @ h
    return b + 1 / CLASSES


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("rounds", [1, 2, 3])
@each("activation", ["relu", "none"])
def test_logits_are_the_final_beliefs(
    adj: sp.csr_array, rounds: int, activation: str
) -> None:
    n = adj.shape[0]
    module = build(rounds, activation=activation)
    x, operators = features(n), operators_of(adj)
    expected = oracle(module, x.double().numpy(), adj)
    index = np.array([n - 1, 0, 0])
    target = Target.of(operators, index)
    for mode in (module.eval, module.train):
        mode()
        logits = module(x, operators)
        assert logits.dtype == torch.float32
        np.testing.assert_allclose(logits.detach(), expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, target).detach()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("only_some", [False, True], ids=["all nodes", "target"])
def test_dropout_acts_on_the_priors_hidden_layer_of_all_nodes(only_some: bool) -> None:
    module, x, operators = build(2, dropout=0.5), features(6), operators_of(SIX)
    index = np.array([4, 0]) if only_some else np.arange(6)
    target = Target.of(operators, index) if only_some else None
    torch.manual_seed(4)
    mask = mask_of(torch.arange(6), WIDTH, 0.5).double().numpy()
    torch.manual_seed(4)
    logits = module.train()(x, operators, target).detach()
    expected = oracle(module, x.double().numpy(), SIX, mask)[index]
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    still = oracle(module, x.double().numpy(), SIX)
    assert np.abs(still[index] - expected).max() > 1e-3
    calm = module.eval()(x, operators).detach()
    np.testing.assert_allclose(calm, still, rtol=1e-5, atol=1e-5)


def test_a_new_module_says_what_its_prior_says() -> None:
    torch.manual_seed(0)
    module = CPGNN(FEATURES, CLASSES).eval()
    x = features(6)
    expected = prior_of(module, x.double().numpy())
    logits = module(x, operators_of(SIX)).detach()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def initialised_by_loops(
    module: CPGNN, x: Matrix, adj: sp.csr_array, labels: list[int], index: list[int]
) -> Matrix:
    """Return the estimate of Ĥ where every class has a training node with edges."""
    a = adj.toarray()
    beliefs = prior_of(module, x)
    for node, label in zip(index, labels, strict=True):
        beliefs[node] = np.eye(CLASSES)[label]
    h = np.zeros((CLASSES, CLASSES))
    for c in range(CLASSES):
        nodes = [v for v, k in zip(index, labels, strict=True) if k == c and a[v].any()]
        h[c] = np.mean([beliefs[a[v] > 0].mean(axis=0) for v in nodes], axis=0)
    return project(torch.from_numpy(h)).numpy() - 1 / CLASSES


@each(("labels", "index"), [([0, 1, 2], [0, 1, 4]), ([2, 1, 0, 0, 2], [2, 3, 0, 5, 4])])
def test_the_compatibility_is_estimated_from_labels_and_prior(
    labels: list[int], index: list[int]
) -> None:
    module, x = build(dropout=0.5).eval(), features(6)
    module.initialise(x, operators_of(SIX), torch.tensor(labels), torch.tensor(index))
    expected = initialised_by_loops(module, x.double().numpy(), SIX, labels, index)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(module.compatibility.detach(), expected, atol=1e-5)
    assert module.compatibility.requires_grad
    # Doubly stochastic less 1/C: nothing to penalise yet.
    assert module.penalty().item() == pytest.approx(0, abs=1e-5)


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_any_graph_can_be_initialised(adj: sp.csr_array) -> None:
    n = adj.shape[0]
    for labels, index in (([0, 1], [0, 1]), ([2], [n - 1]), ([0, 0], [0, n - 1])):
        module = build(2).eval()
        known = torch.tensor(labels), torch.tensor(index)
        module.initialise(features(n), operators_of(adj), *known)
        assert torch.isfinite(module.compatibility).all()
        assert torch.isfinite(module(features(n), operators_of(adj))).all()


def test_the_penalty_is_the_sum_of_the_rows_distances_from_zero() -> None:
    module = CPGNN(2, 2)
    assert module.penalty().item() == 0
    with torch.no_grad():
        module.compatibility.copy_(torch.tensor([[1.0, -3.0], [2.0, 0.5]]))
    assert module.penalty().item() == 4.5
    module.penalty().backward()
    assert module.compatibility.grad is not None
    assert module.compatibility.grad.tolist() == [[-1, -1], [1, 1]]
    decayed = [id(weight) for weight in module.regularised()]
    assert decayed == [id(weight) for weight in module.prior.parameters()]


@each("rounds", [1, 2])
def test_fifty_epochs_on_a_hub_stay_finite(rounds: int) -> None:
    n = 2001
    hub = adjacency(n, [(0, v) for v in range(1, n)])
    operators, x = operators_of(hub), features(n)
    y = np.arange(n) % 3
    x[:, 0] += 3 * torch.from_numpy(y).float()
    split = Split(train=np.arange(1000), val=np.arange(1000, 1500), test=[n - 1])
    module = build(rounds, dropout=0.5)
    module.reset_parameters()
    config = TrainConfig(epochs=50)
    train(module.prior, x, (), y, split, config)
    module.eval()
    index = torch.from_numpy(split.train)
    module.initialise(x, operators, torch.from_numpy(y)[index], index)
    result = train(module, x, operators, y, split, config)
    assert len(result.history) == 50
    assert result.history[-1].loss < result.history[0].loss
    assert torch.isfinite(module(x, operators)).all()


@each(
    "options",
    [
        {"dropout": 1.5},
        {"dropout": 1},
        {"rounds": 0},
        {"rounds": 10_001},
        {"hidden_channels": 0},
        {"activation": "tanh"},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        CPGNN(**({"in_channels": 5, "out_channels": 3} | options))
