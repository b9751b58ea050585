"""GCN-Cheby against polynomials of eigenvalues, and against PyG's layer."""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.gcn import ChebyGCN, scaled_laplacian
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, WIDTH, CLASSES = 5, 8, 3
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and an isolated last node."""


def build(
    *,
    jumping: bool = False,
    dropout: float = 0.0,
    max_degree: int = 2,
    activation: str = "relu",
) -> ChebyGCN:
    torch.manual_seed(0)
    return ChebyGCN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        activation=activation,
        dropout=dropout,
        max_degree=max_degree,
        jumping=jumping,
    )


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in scaled_laplacian(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def laplacian(adj: sp.csr_array) -> Matrix:
    """Return I − D^-1/2 A D^-1/2, with 0 for 0^-1/2."""
    a = adj.toarray().astype(float)
    degrees = a.sum(axis=1)
    root = np.diag([d**-0.5 if d else 0.0 for d in degrees])
    return np.eye(len(a)) - root @ a @ root


def filtered(x: Matrix, weights: Matrix, adj: sp.csr_array) -> Matrix:
    """Return Σ_k T_k(L̃) x W_k, each T_k applied to the eigenvalues of L̃."""
    values, vectors = np.linalg.eigh(laplacian(adj) * 2 / 2 - np.eye(adj.shape[0]))
    total = np.zeros((len(x), weights.shape[2]))
    for k, weight in enumerate(weights):
        t_k = vectors @ np.diag(chebval(values, np.eye(k + 1)[k])) @ vectors.T
        total += t_k @ x @ weight
    return total


def oracle(
    module: ChebyGCN,
    x: Matrix,
    adj: sp.csr_array,
    masks: list[Matrix] | None = None,
) -> Matrix:
    w = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    m = masks or [np.ones(1)] * 4
    act = {"relu": lambda h: np.maximum(h, 0), "none": lambda h: h}[module.activation]
    if not module.jumping:
        hidden = act(filtered(x * m[0], w["first"], adj))
        return filtered(hidden * m[1], w["second"], adj)
    h0 = act((x * m[0]) @ w["embedding"])
    h1 = act(filtered(h0 * m[1], w["first"], adj))
    h2 = act(filtered(h1 * m[2], w["second"], adj))
    return (np.hstack([h0, h1, h2]) * m[3]) @ w["classifier"]


def assert_is_the_oracle(module: ChebyGCN, adj: sp.csr_array) -> None:
    x, operators = features(adj.shape[0]), operators_of(adj)
    expected = oracle(module, x.double().numpy(), adj)
    index = np.array([adj.shape[0] - 1, 0, 0])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------- formula


@each("jumping", [False, True])
@each("max_degree", [0, 1, 2, 3, 6])
def test_cheby_is_its_formula_for_every_degree(jumping: bool, max_degree: int) -> None:
    assert_is_the_oracle(build(jumping=jumping, max_degree=max_degree), SIX)


@each("named_adj", NAMED.values(), ids=NAMED)
@each("jumping", [False, True])
def test_cheby_is_its_formula_on_named_graphs(
    jumping: bool, named_adj: sp.csr_array
) -> None:
    assert_is_the_oracle(build(jumping=jumping), named_adj)


@each("jumping", [False, True])
def test_the_activation_can_be_left_out(jumping: bool) -> None:
    assert_is_the_oracle(build(jumping=jumping, activation="none"), SIX)


@each("jumping", [False, True])
def test_degree_zero_does_not_see_the_graph(jumping: bool) -> None:
    module, x = build(jumping=jumping, max_degree=0).eval(), features(5)
    path, star = operators_of(NAMED["path"]), operators_of(NAMED["star"])
    torch.testing.assert_close(module(x, path), module(x, star))


def test_the_highest_degree_loses_little_to_rounding() -> None:
    module, x = build(max_degree=32).eval(), features(6)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX)
    assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()


@each("jumping", [False, True])
def test_sparse_features_do_for_dense_ones(jumping: bool) -> None:
    x = features(6)
    x[x < 0.2] = 0
    module, operators = build(jumping=jumping).eval(), operators_of(SIX)
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, operators), module(x, operators))


def test_gradients_are_those_of_the_dense_formula() -> None:
    x, module = features(6), build(max_degree=3)
    index = np.array([4, 1])
    operators = operators_of(SIX)
    module(x, operators, Target.of(operators, index)).square().sum().backward()
    scaled = torch.from_numpy(laplacian(SIX) - np.eye(6)).float()
    t = [torch.eye(6), scaled, 2 * scaled @ scaled - torch.eye(6)]
    t.append(2 * scaled @ t[2] - scaled)
    first, second = (
        w.detach().clone().requires_grad_() for w in (module.first, module.second)
    )
    hidden = sum(t_k @ x @ w for t_k, w in zip(t, first, strict=True)).relu()
    logits = sum(t_k @ hidden @ w for t_k, w in zip(t, second, strict=True))
    logits[index].square().sum().backward()
    torch.testing.assert_close(module.first.grad, first.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.second.grad, second.grad, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------- dropout


@each("jumping", [False, True])
def test_one_mask_is_shared_by_all_degrees_of_a_layer(jumping: bool) -> None:
    x, module = features(6), build(jumping=jumping, dropout=0.5).train()
    jumps = (FEATURES, WIDTH, WIDTH, 3 * WIDTH)
    torch.manual_seed(4)
    masks = [
        dropout(torch.ones(6, width), 0.5).double().numpy()
        for width in (jumps if jumping else (FEATURES, WIDTH))
    ]
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_one_mask_of_stored_entries_is_shared_by_all_degrees() -> None:
    x = features(6)
    x[x < 0.2] = 0
    stored = sp.csr_array(x.numpy())
    module = build(dropout=0.5).train()
    torch.manual_seed(4)
    kept = stored.copy()
    kept.data = dropout(torch.ones(stored.nnz), 0.5).numpy()
    second = dropout(torch.ones(6, WIDTH), 0.5).double().numpy()
    torch.manual_seed(4)
    logits = module(Operator(stored), operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, [kept.toarray(), second])
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------- weights


def test_the_penalty_is_on_all_weights_of_the_first_layer() -> None:
    module = build()
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first": (3, FEATURES, WIDTH),
        "second": (3, WIDTH, CLASSES),
    }
    assert len(module.regularised()) == 1
    assert module.regularised()[0] is module.first


def test_with_jumping_knowledge_the_penalty_is_on_the_embedding_only() -> None:
    module = build(jumping=True)
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "embedding": (FEATURES, WIDTH),
        "first": (3, WIDTH, WIDTH),
        "second": (3, WIDTH, WIDTH),
        "classifier": (3 * WIDTH, CLASSES),
    }
    assert len(module.regularised()) == 1
    assert module.regularised()[0] is module.embedding


def test_each_degrees_matrix_is_glorot_uniform_by_itself() -> None:
    torch.manual_seed(0)
    module = ChebyGCN(300, 40, hidden_channels=200)
    for weight in (*module.first, *module.second):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound
    assert not torch.equal(module.first[0], module.first[1])


# ----------------------------------------------------------------------------- PyG


@each("jumping", [False, True])
@each("named_adj", NAMED.values(), ids=NAMED)
@each("max_degree", [0, 1, 2, 4])
def test_cheby_is_pygs_layers_with_the_same_weights(
    named_adj: sp.csr_array, jumping: bool, max_degree: int
) -> None:
    from torch_geometric.nn import ChebConv

    edges = torch.from_numpy(np.stack(named_adj.nonzero()).astype(np.int64))

    def layer(h: Tensor, weights: Tensor) -> Tensor:
        conv = ChebConv(*weights.shape[1:], K=len(weights), bias=False)
        for lin, weight in zip(conv.lins, weights.detach(), strict=True):
            lin.weight.data = weight.T.contiguous()
        return conv(h, edges, lambda_max=torch.tensor(2.0))

    x, operators = features(named_adj.shape[0]), operators_of(named_adj)
    module = build(jumping=jumping, max_degree=max_degree).eval()
    if jumping:
        h0 = (x @ module.embedding).relu()
        h1 = layer(h0, module.first).relu()
        h2 = layer(h1, module.second).relu()
        expected = torch.cat([h0, h1, h2], dim=1) @ module.classifier
    else:
        expected = layer(layer(x, module.first).relu(), module.second)
    torch.testing.assert_close(module(x, operators), expected, rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------- operator, options


@each("named_adj", NAMED.values(), ids=NAMED)
def test_the_operator_is_the_laplacian_scaled_by_the_bound_two(
    named_adj: sp.csr_array,
) -> None:
    before = named_adj.toarray()
    (operator,) = scaled_laplacian(named_adj)
    assert operator.dtype == np.float32
    expected = laplacian(named_adj) - np.eye(named_adj.shape[0])
    np.testing.assert_allclose(operator.toarray(), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(operator.toarray(), operator.toarray().T)
    np.testing.assert_array_equal(named_adj.toarray(), before)
    isolated = before.sum(axis=1) == 0
    assert (operator.toarray()[isolated] == 0).all()


@each(
    "options",
    [
        {"max_degree": -1},
        {"max_degree": 33},
        {"max_degree": 1.5},
        {"max_degree": True},
        {"dropout": 1},
        {"hidden_channels": 0},
        {"hidden_channels": 65_537},
        {"activation": "rely"},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        ChebyGCN(**{"in_channels": 5, "out_channels": 3, **options})
