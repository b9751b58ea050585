"""SGC against its formula, and against PyG's layer."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.gcn import SGC, renormalised_adjacency
from h2gcn.sparse import Operator, Target
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES = 5, 3
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and an isolated last node."""


def build(power: int = 2) -> SGC:
    torch.manual_seed(0)
    return SGC(FEATURES, CLASSES, power=power)


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in renormalised_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def oracle(module: SGC, x: Matrix, adj: sp.csr_array) -> Matrix:
    """Return the logits, the features smoothed first as in the paper, in double."""
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    a_hat = a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))
    smoothed = np.linalg.matrix_power(a_hat, module.power) @ x
    weight, bias = (p.detach().double().numpy() for p in (module.weight, module.bias))
    return smoothed @ weight + bias


def assert_is_the_oracle(module: SGC, adj: sp.csr_array) -> None:
    x, operators = features(adj.shape[0]), operators_of(adj)
    expected = oracle(module, x.double().numpy(), adj)
    index = np.array([adj.shape[0] - 1, 0, 0])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("power", [1, 2, 3, 10])
def test_sgc_is_its_formula_for_every_power(power: int) -> None:
    assert_is_the_oracle(build(power), SIX)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_sgc_is_its_formula_on_named_graphs(named_adj: sp.csr_array) -> None:
    assert_is_the_oracle(build(), named_adj)


def test_sgc_is_linear_in_the_features() -> None:
    module, operators, x = build().eval(), operators_of(SIX), features(6)
    logits = module(x, operators) - module.bias
    torch.testing.assert_close(module(-3 * x, operators), -3 * logits + module.bias)


def test_sparse_features_do_for_dense_ones() -> None:
    x = features(6)
    x[x < 0.2] = 0
    module, operators = build(), operators_of(SIX)
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, operators), module(x, operators))


def test_training_draws_nothing() -> None:
    module, operators, x = build().train(), operators_of(SIX), features(6)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two = module(x, operators), module(x, operators)
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_penalty_is_on_the_weights_but_not_on_the_biases() -> None:
    module = build()
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "weight": (FEATURES, CLASSES),
        "bias": (CLASSES,),
    }
    assert len(module.regularised()) == 1
    assert module.regularised()[0] is module.weight


def test_weights_and_biases_are_drawn_as_a_linear_layers() -> None:
    torch.manual_seed(0)
    module, bound = SGC(100, 400), 0.1
    for drawn in (module.weight, module.bias):
        assert 0.97 * bound < drawn.abs().max() <= bound
        assert drawn.min() < -0.9 * bound
        assert drawn.max() > 0.9 * bound
    linear = torch.nn.Linear(100, 400)
    torch.testing.assert_close(
        module.weight.std(), linear.weight.std(), rtol=0.02, atol=0
    )
    torch.testing.assert_close(module.bias.std(), linear.bias.std(), rtol=0.1, atol=0)


@each("named_adj", NAMED.values(), ids=NAMED)
@each("power", [1, 2, 4])
def test_sgc_is_pygs_layer_with_the_same_weights(
    named_adj: sp.csr_array, power: int
) -> None:
    from torch_geometric.nn import SGConv

    edges = torch.from_numpy(np.stack(named_adj.nonzero()).astype(np.int64))
    module, x = build(power).eval(), features(named_adj.shape[0])
    conv = SGConv(FEATURES, CLASSES, K=power)
    conv.lin.weight.data = module.weight.detach().T.contiguous()
    conv.lin.bias.data = module.bias.detach()
    torch.testing.assert_close(
        module(x, operators_of(named_adj)), conv(x, edges), rtol=1e-5, atol=1e-5
    )


def test_an_isolated_node_is_its_own_neighbourhood() -> None:
    module, x = build(5).eval(), features(4)
    logits = module(x, operators_of(NAMED["isolated last node"]))
    torch.testing.assert_close(logits[3], x[3] @ module.weight + module.bias)


@each(
    "options",
    [
        {"power": 0},
        {"power": 129},
        {"power": 2.0},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        SGC(**{"in_channels": 5, "out_channels": 3, **options})


@each("option", ["hidden_channels", "activation", "dropout"])
def test_a_linear_model_has_no_such_option(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        SGC(5, 3, **{option: 1})
