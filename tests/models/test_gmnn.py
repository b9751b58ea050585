"""GMNN: its formula, what each phase is given, and what it lowers."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models.gmnn import GMNN
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

FEATURES, CLASSES, WIDTH = 5, 3, 8
Matrix = np.ndarray
SIX = adjacency(6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
LABELS, INDEX = torch.tensor([2, 0, 1]), torch.tensor([1, 4, 5])


def features(n: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(seed))


def build(**options: object) -> GMNN:
    torch.manual_seed(0)
    given = {"hidden_channels": WIDTH, "input_dropout": 0.0, **options}
    return GMNN(FEATURES, CLASSES, **given)  # type: ignore[arg-type]


def operators_of(adj: sp.csr_array = SIX) -> tuple[Operator, ...]:
    return tuple(
        Operator(a, symmetric=True)
        for a in build_matrices([RowRule(self_loops=True)], adj)
    )


def network(
    z: Matrix, first: torch.Tensor, second: torch.Tensor, adj: sp.csr_array = SIX
) -> Matrix:
    """Return Â relu(Â Z W1) W2 in double precision."""
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    root = a.sum(axis=1) ** -0.5
    a_hat = root[:, None] * a * root
    w1, w2 = (w.detach().double().numpy() for w in (first, second))
    return a_hat @ np.maximum(a_hat @ z @ w1, 0) @ w2


def softmax(logits: Matrix) -> Matrix:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def entropy(logits: Matrix, shares: Matrix) -> float:
    return float(-(shares * np.log(softmax(logits))).sum(axis=1).mean())


def with_labels(shares: Matrix) -> Matrix:
    given = shares.copy()
    given[INDEX] = np.eye(CLASSES)[LABELS]
    return given


def phase(module: GMNN, number: int):
    return module.phases()[number]


def prepare(module: GMNN, number: int, before: dict[str, torch.Tensor]):
    return module.eval().prepare(
        phase(module, number),
        features(),
        Propagation(operators_of()),
        LABELS,
        INDEX,
        before,
    )


@each("named_adj", NAMED.values(), ids=NAMED)
def test_q_predicts_by_its_formula(named_adj: sp.csr_array) -> None:
    n, module = named_adj.shape[0], build(dropout=0.0)
    x, operators = features(n), operators_of(named_adj)
    expected = network(x.double().numpy(), module.q_first, module.q_second, named_adj)
    index = np.array([n - 1, 0])
    for mode in (module.eval, module.train):
        logits = mode()(x, Propagation(operators)).detach()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, Propagation(operators, torch.as_tensor(index))).detach()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("iterations", [1, 3])
def test_phases_are_q_alone_and_then_p_and_q_in_turn(iterations: int) -> None:
    found = build(iterations=iterations, label_steps=7).phases()
    names = [(one.name, one.steps) for one in found]
    assert names == [("q alone", None), *[("p", 7), ("q", None)] * iterations]


def test_q_alone_is_trained_on_labels() -> None:
    module = build()
    assert prepare(module, 0, {}) == {}
    assert (
        module.objective(
            phase(module, 0), features(), Propagation(operators_of()), {}, None
        )
        is None
    )


def test_labels_are_drawn_by_the_probabilities_of_q() -> None:
    module = build(temperature=2.0)
    logits = network(features().double().numpy(), module.q_first, module.q_second)
    drawn = np.stack([prepare(module, 1, {})["targets"].numpy() for _ in range(2000)])
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert (drawn.sum(axis=2) == 1).all()
    expected = with_labels(softmax(logits / 2.0))
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.05)


def test_q_is_given_what_p_says_of_all_labels() -> None:
    module = build()
    before = prepare(module, 1, {})
    labels = before["targets"].double().numpy()
    expected = with_labels(softmax(network(labels, module.p_first, module.p_second)))
    given = prepare(module, 2, before)
    np.testing.assert_allclose(given["targets"], expected, atol=1e-5)


@each("weights", [None, [0.5, 1.0, 3.0]])
def test_each_part_lowers_the_cross_entropy_with_its_shares(weights) -> None:
    module = build()
    classes = None if weights is None else torch.tensor(weights)
    for number, (first, second) in (
        (1, (module.p_first, module.p_second)),
        (2, (module.q_first, module.q_second)),
    ):
        shares = torch.rand(6, CLASSES).softmax(dim=1)
        given = {"targets": shares}
        module.zero_grad()
        loss = module.train().objective(
            phase(module, number),
            features(),
            Propagation(operators_of()),
            given,
            classes,
        )
        assert loss is not None
        given_in = shares if number == 1 else features()
        logits = network(given_in.double().numpy(), first, second)
        aims = shares.double().numpy() * (1 if weights is None else np.array(weights))
        assert loss.item() == pytest.approx(entropy(logits, aims), rel=1e-5)
        loss.backward()
        trained = {id(first), id(second)}
        for weight in module.parameters():
            assert (weight.grad is not None) == (id(weight) in trained)


def test_weights_are_drawn_by_the_number_of_outputs() -> None:
    module = GMNN(400, 4, hidden_channels=25)
    for weight, bound in ((module.q_first, 0.2), (module.p_second, 0.5)):
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.9 * bound
    assert len(module.regularised()) == 4


@each(
    "options",
    [
        {"dropout": 1.5},
        {"dropout": 1},
        {"input_dropout": -1},
        {"input_dropout": 1},
        {"iterations": 0},
        {"label_steps": 0},
        {"temperature": 0},
        {"activation": "tanh"},
        {"hidden_channels": 0},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        GMNN(**({"in_channels": 5, "out_channels": 3} | options))  # type: ignore[arg-type]
