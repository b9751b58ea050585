"""GCN with jumping knowledge against its formula, and both forms against PyG's layer.

The plain form's formula is in `test_models.py`.
"""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.gcn import GCN, renormalised_adjacency
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, WIDTH, CLASSES = 5, 8, 3
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and an isolated last node."""


def build(dropout: float = 0.0, jumping: bool = True, activation: str = "relu") -> GCN:
    torch.manual_seed(0)
    return GCN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        activation=activation,
        dropout=dropout,
        jumping=jumping,
    )


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in renormalised_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def edge_index(adj: sp.csr_array) -> Tensor:
    return torch.from_numpy(np.stack(adj.nonzero()).astype(np.int64))


def masks_of(*widths: int, n: int, seed: int = 4) -> list[Matrix]:
    """Return what dropout of 0.5 draws for matrices of these widths, in order."""
    torch.manual_seed(seed)
    ones = (torch.ones(n, width) for width in widths)
    return [dropout(one, 0.5).double().numpy() for one in ones]


def jumping_oracle(
    module: GCN,
    x: Matrix,
    adj: sp.csr_array,
    masks: list[Matrix] | None = None,
) -> Matrix:
    """Return the logits of the form with jumping knowledge, in double."""
    w = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    s = a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))
    m0, m1, m2, m3 = masks or [np.ones(1)] * 4
    act = {
        "relu": lambda h: np.maximum(h, 0),
        "elu": lambda h: np.where(h > 0, h, np.exp(h) - 1),
        "none": lambda h: h,
    }[module.activation]
    h0 = act((x * m0) @ w["embedding"])
    h1 = act(s @ (h0 * m1) @ w["first"])
    h2 = act(s @ (h1 * m2) @ w["second"])
    return (np.hstack([h0, h1, h2]) * m3) @ w["classifier"]


def assert_is_the_oracle(module: GCN, adj: sp.csr_array) -> None:
    x, operators = features(adj.shape[0]), operators_of(adj)
    expected = jumping_oracle(module, x.double().numpy(), adj)
    index = np.array([adj.shape[0] - 1, 0, 0])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("activation", ["relu", "elu", "none"])
def test_gcn_with_jumping_knowledge_is_its_formula(activation: str) -> None:
    assert_is_the_oracle(build(activation=activation), SIX)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_gcn_with_jumping_knowledge_is_its_formula_on_named_graphs(
    named_adj: sp.csr_array,
) -> None:
    assert_is_the_oracle(build(), named_adj)


def test_dropout_falls_on_every_layers_input_and_on_the_joined_layers() -> None:
    x, module = features(6), build(dropout=0.5).train()
    masks = masks_of(FEATURES, WIDTH, WIDTH, 3 * WIDTH, n=6)
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = jumping_oracle(module, x.double().numpy(), SIX, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_the_joined_layers_are_dropped_for_the_targets_rows_alone() -> None:
    x, module, operators = features(6), build(dropout=0.5).train(), operators_of(SIX)
    index = np.array([5, 2])
    masks = masks_of(FEATURES, WIDTH, WIDTH, n=6)
    joined = np.zeros((6, 3 * WIDTH))
    joined[index] = dropout(torch.ones(2, 3 * WIDTH), 0.5).numpy()
    torch.manual_seed(4)
    some = module(x, operators, Target.of(operators, index)).detach().numpy()
    expected = jumping_oracle(module, x.double().numpy(), SIX, [*masks, joined])
    np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


def test_the_embedding_drops_from_the_stored_entries_of_sparse_features() -> None:
    x = features(6)
    x[x < 0.2] = 0
    stored = sp.csr_array(x.numpy())
    module = build(dropout=0.5).train()
    torch.manual_seed(4)
    kept = stored.copy()
    kept.data = dropout(torch.ones(stored.nnz), 0.5).numpy()
    widths = (WIDTH, WIDTH, 3 * WIDTH)
    others = [dropout(torch.ones(6, width), 0.5).double().numpy() for width in widths]
    torch.manual_seed(4)
    logits = module(Operator(stored), operators_of(SIX)).detach().numpy()
    masks = [kept.toarray(), *others]
    expected = jumping_oracle(module, x.double().numpy(), SIX, masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_with_jumping_knowledge_the_penalty_is_on_the_embedding_only() -> None:
    module = build()
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "embedding": (FEATURES, WIDTH),
        "first": (WIDTH, WIDTH),
        "second": (WIDTH, WIDTH),
        "classifier": (3 * WIDTH, CLASSES),
    }
    assert len(module.regularised()) == 1
    assert module.regularised()[0] is module.embedding


def test_weights_are_glorot_uniform() -> None:
    torch.manual_seed(0)
    module = GCN(300, 40, hidden_channels=200, jumping=True)
    for weight in module.parameters():
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound


@each("named_adj", NAMED.values(), ids=NAMED)
def test_both_forms_are_pygs_layers_with_the_same_weights(
    named_adj: sp.csr_array,
) -> None:
    from torch_geometric.nn import GCNConv

    def layer(h: Tensor, weight: Tensor) -> Tensor:
        conv = GCNConv(*weight.shape, bias=False)
        conv.lin.weight.data = weight.detach().T.contiguous()
        return conv(h, edge_index(named_adj))

    x, operators = features(named_adj.shape[0]), operators_of(named_adj)
    plain, jumping = build(jumping=False).eval(), build().eval()
    torch.testing.assert_close(
        plain(x, operators), layer(layer(x, plain.first).relu(), plain.second)
    )
    h0 = (x @ jumping.embedding).relu()
    h1 = layer(h0, jumping.first).relu()
    h2 = layer(h1, jumping.second).relu()
    logits = torch.cat([h0, h1, h2], dim=1) @ jumping.classifier
    torch.testing.assert_close(jumping(x, operators), logits)


def test_the_operator_is_the_renormalised_adjacency() -> None:
    (operator,) = renormalised_adjacency(NAMED["path"])
    third, sixth = 1 / 3, 6**-0.5
    expected = [
        [0.5, sixth, 0, 0, 0],
        [sixth, third, third, 0, 0],
        [0, third, third, third, 0],
        [0, 0, third, third, sixth],
        [0, 0, 0, sixth, 0.5],
    ]
    np.testing.assert_allclose(operator.toarray(), expected, rtol=1e-6)


@each(
    "options",
    [
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
        GCN(**{"in_channels": 5, "out_channels": 3, "jumping": True, **options})
