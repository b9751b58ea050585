"""GPR-GNN against its formula."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.gcn import renormalised_adjacency
from h2gcn.models.gpr_gnn import GPRGNN
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 4
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and an isolated last node."""


def build(**options: object) -> GPRGNN:
    torch.manual_seed(0)
    return GPRGNN(FEATURES, CLASSES, hidden_channels=WIDTH, **options)


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in renormalised_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def oracle(
    module: GPRGNN,
    x: Matrix,
    adj: sp.csr_array,
    masks: tuple[Matrix | float, Matrix | float, Matrix | float] = (1.0, 1.0, 1.0),
) -> Matrix:
    """Return the logits as a sum over powers of the matrix, in double."""
    weights = {n: w.detach().double().numpy() for n, w in module.state_dict().items()}
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    a_hat = a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))
    hidden = np.maximum((x * masks[0]) @ weights["first"] + weights["first_bias"], 0)
    z = (hidden * masks[1]) @ weights["second"] + weights["second_bias"]
    powers = [np.linalg.matrix_power(a_hat, k) for k in range(module.power + 1)]
    weighted = (
        gamma * power @ (z * masks[2])
        for gamma, power in zip(weights["gamma"], powers, strict=True)
    )
    return np.sum(list(weighted), axis=0)


@each("power", [1, 2, 10])
def test_it_is_its_formula(power: int) -> None:
    module = build(power=power).eval()
    with torch.no_grad():
        module.gamma.normal_()
    x, operators, index = features(6), operators_of(SIX), np.array([5, 0, 0])
    expected = oracle(module, x.double().numpy(), SIX)
    logits = module(x, operators).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    some = module(x, operators, Target.of(operators, index)).detach().numpy()
    np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_it_is_its_formula_on_named_graphs(named_adj: sp.csr_array) -> None:
    module, x = build().eval(), features(named_adj.shape[0])
    expected = oracle(module, x.double().numpy(), named_adj)
    logits = module(x, operators_of(named_adj)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_the_weights_of_the_powers_begin_as_pageranks() -> None:
    gamma = build(power=3, alpha=0.2).gamma.detach().numpy()
    np.testing.assert_allclose(gamma, [0.2, 0.16, 0.128, 0.512], rtol=1e-6)
    for alpha in (0.1, 0.9):
        assert build(alpha=alpha).gamma.sum().item() == pytest.approx(1)


def test_features_hidden_layer_and_scores_are_dropped_from() -> None:
    module, x = build(dropout=0.5, propagation_dropout=0.25).train(), features(6)
    torch.manual_seed(4)
    masks = tuple(
        dropout(torch.ones(6, width), share).double().numpy()
        for width, share in ((FEATURES, 0.5), (WIDTH, 0.5), (CLASSES, 0.25))
    )
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_the_penalty_is_on_the_maps_and_not_on_the_powers() -> None:
    module = build()
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first": (5, 4),
        "first_bias": (4,),
        "second": (4, 3),
        "second_bias": (3,),
        "gamma": (11,),
    }
    assert [id(w) for w in module.regularised()] == [
        id(module.first),
        id(module.second),
    ]
    assert module.reach == 10


@each(
    "options",
    [
        {"power": 0},
        {"alpha": 0.0},
        {"alpha": 1},
        {"propagation_dropout": 1.0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        GPRGNN(5, 3, **options)
