"""ACM-GCN against its formula."""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.acm_gcn import ACMGCN, closed_means
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 4
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and an isolated last node."""


def build(**options: object) -> ACMGCN:
    torch.manual_seed(0)
    return ACMGCN(FEATURES, CLASSES, hidden_channels=WIDTH, **options)


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a) for a in closed_means(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def relu(z: Matrix) -> Matrix:
    return np.maximum(z, 0)


def layer(module: ACMGCN, number: int, x: Matrix, adj: sp.csr_array) -> Matrix:
    """Return one layer node by node, in double."""
    weights = {n: w.detach().double().numpy() for n, w in module.state_dict().items()}
    maps, scores = weights[f"maps.{number}"], weights[f"scores.{number}"]
    n = adj.shape[0]
    a = adj.toarray().astype(float) + np.eye(n)
    low = a / a.sum(axis=1, keepdims=True)
    filters = [low, np.eye(n) - low, np.eye(n)]
    if module.relu == "after":
        channels = [relu(f @ x @ w) for f, w in zip(filters, maps, strict=True)]
    else:
        channels = [f @ relu(x @ w) for f, w in zip(filters, maps, strict=True)]
    result = np.zeros_like(channels[0])
    for node in range(n):
        rows = [channel[node] for channel in channels]
        told = [1 / (1 + np.exp(-r @ v)) for r, v in zip(rows, scores, strict=True)]
        mixed = np.exp(np.array(told) @ weights[f"mixing.{number}"] / 3)
        shares = mixed / mixed.sum()
        result[node] = 3 * sum(p * r for p, r in zip(shares, rows, strict=True))
    return result


def oracle(
    module: ACMGCN,
    x: Matrix,
    adj: sp.csr_array,
    masks: tuple[Matrix | float, Matrix | float] = (1.0, 1.0),
) -> Matrix:
    hidden = relu(layer(module, 0, x * masks[0], adj))
    return layer(module, 1, hidden * masks[1], adj)


def test_the_mean_holds_the_node_itself() -> None:
    (mean,) = closed_means(NAMED["isolated last node"])
    half, third = 1 / 2, 1 / 3
    np.testing.assert_allclose(
        mean.toarray(),
        [[half, half, 0, 0], [third] * 3 + [0], [0, half, half, 0], [0, 0, 0, 1]],
        rtol=1e-6,
    )


@each("place", ["after", "before"])
def test_it_is_its_formula(place: str) -> None:
    module = build(relu=place, dropout=0.0)
    x, operators, index = features(6), operators_of(SIX), np.array([5, 0, 0])
    expected = oracle(module, x.double().numpy(), SIX)
    assert expected.any()
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
@each("place", ["after", "before"])
def test_it_is_its_formula_on_named_graphs(named_adj: sp.csr_array, place: str) -> None:
    module, x = build(relu=place).eval(), features(named_adj.shape[0])
    expected = oracle(module, x.double().numpy(), named_adj)
    logits = module(x, operators_of(named_adj)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_both_layers_are_dropped_from() -> None:
    module, x = build(dropout=0.5).train(), features(6)
    torch.manual_seed(4)
    masks = tuple(
        dropout(torch.ones(6, width), 0.5).double().numpy()
        for width in (FEATURES, WIDTH)
    )
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_its_weights_are_drawn_as_in_the_program_and_all_penalised() -> None:
    torch.manual_seed(0)
    module = ACMGCN(50, 25, hidden_channels=100)
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "maps.0": (3, 50, 100),
        "maps.1": (3, 100, 25),
        "scores.0": (3, 100),
        "scores.1": (3, 25),
        "mixing.0": (3, 3),
        "mixing.1": (3, 3),
    }
    for weight, bound in (
        (module.maps[0], 0.1),
        (module.maps[1], 0.2),
        (module.scores[0], 1.0),
    ):
        assert 0.95 * bound < weight.abs().max() <= bound
    assert module.mixing[0].abs().max() <= 3**-0.5
    assert len(module.regularised()) == 6
    assert module.reach == 2


@each(
    ("options", "words"),
    [({"relu": "never"}, "'after'"), ({"dropout": -0.1}, "[0, 1)")],
)
def test_bad_options_are_named(options: dict[str, object], words: str) -> None:
    with refused(**only(options), words=words):
        ACMGCN(5, 3, **options)
