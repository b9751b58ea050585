"""MixHop against its formula in dense matrices, and against PyG's layer."""

import itertools
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn.models.mixhop import MixHop
from h2gcn.rings import normalise
from h2gcn.sparse import Operator, Target, dropout, operator as sparse_matrix
from h2gcn.sparse.operator import Triplets
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and a node apart."""


def build(**options: object) -> MixHop:
    """Return a small MixHop whose β and q are not zero."""
    torch.manual_seed(0)
    given = {"hidden_channels": 8, "input_dropout": 0.0, "dropout": 0.0}
    module = MixHop(5, 3, **(given | options))
    torch.nn.init.normal_(module.shift)
    torch.nn.init.normal_(module.scores)
    return module


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return (Operator(normalise(adj, self_loops=True), symmetric=True),)


def features(n: int, columns: int = 5, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, columns)).astype(np.float32))


def random_adjacency(n: int = 20, p: float = 0.2) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(3).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


# ------------------------------------------------------- the formula, once more


def oracle(
    module: MixHop,
    x: Matrix,
    adj: sp.csr_array,
    input_mask: Matrix | float = 1.0,
    mask: Matrix | float = 1.0,
) -> Matrix:
    """Return the logits with powers written out, in double precision."""
    w1, beta, w2, q = (
        w.detach().double().numpy()
        for w in (module.first, module.shift, module.second, module.scores)
    )
    a = adj.toarray().astype(float) + np.eye(len(x))
    root = np.diag(a.sum(axis=1) ** -0.5)
    powers = [np.linalg.matrix_power(root @ a @ root, p) for p in module.powers]

    x = x * input_mask
    x = np.stack([row / np.linalg.norm(row) if row.any() else row for row in x])
    ends = np.cumsum(module.widths)
    blocks = [
        power @ x @ w1[:, end - width : end]
        for power, end, width in zip(powers, ends, module.widths, strict=True)
    ]
    h = np.concatenate(blocks, axis=1)
    h = (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + 1e-3) + beta
    if module.activation == "relu":
        h = np.maximum(h, 0)
    elif module.activation == "elu":
        h = np.where(h > 0, h, np.exp(np.minimum(h, 0)) - 1)
    share = np.exp(q) / np.exp(q).sum()
    return sum(
        s * power @ (h * mask) @ w2[:, k]
        for k, (s, power) in enumerate(zip(share, powers, strict=True))
    )


def assert_is_its_formula(module: MixHop, x: Tensor, adj: sp.csr_array) -> None:
    n, operators = adj.shape[0], operators_of(adj)
    expected = oracle(module, x.double().numpy(), adj)
    index = np.array([n - 1, 0, 0])
    target = Target.of(operators, index)
    stored = Operator(sp.csr_array(x.numpy()))
    for training, given in itertools.product((False, True), (x, stored)):
        module.train(training)
        logits = module(given, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(given, operators, target).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_mixhop_is_its_formula_on_named_graphs(named_adj: sp.csr_array) -> None:
    assert_is_its_formula(build(), features(named_adj.shape[0]), named_adj)


@each("activation", ["relu", "elu", "none"])
@each("powers", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 4)])
def test_mixhop_is_its_formula_with_all_options(
    activation: str, powers: tuple[int, ...]
) -> None:
    module = build(activation=activation, powers=powers)
    assert_is_its_formula(module, features(6), SIX)


def test_a_node_without_features_stays_finite() -> None:
    x = features(6)
    x[[1, 5]] = 0
    module = build()
    assert_is_its_formula(module, x, SIX)
    for given in (x, Operator(sp.csr_array(x.numpy()))):
        module.zero_grad()
        module(given, operators_of(SIX)).sum().backward()
        for weight in module.parameters():
            assert torch.isfinite(weight.grad).all()


def test_a_graph_of_one_node_is_classified() -> None:
    module = build()
    one = sp.csr_array((1, 1), dtype=np.float32)
    logits = module(features(1), operators_of(one)).detach().numpy()
    expected = oracle(module, features(1).double().numpy(), one)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_the_length_of_a_nodes_features_does_not_matter() -> None:
    module, x = build(), features(6)
    scales = torch.tensor([0.1, 3.0, 1.0, 20.0, 0.5, 7.0])[:, None]
    torch.testing.assert_close(
        module(scales * x, operators_of(SIX)), module(x, operators_of(SIX))
    )


def test_the_statistics_are_of_the_graph_at_hand_in_evaluation_too() -> None:
    module = build().train()
    module(features(20), operators_of(random_adjacency()))
    module.eval()
    logits = module(features(6), operators_of(SIX)).detach().numpy()
    expected = oracle(module, features(6).double().numpy(), SIX)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    assert not list(module.buffers())
    # The last node has no neighbour, yet hears of the others.
    x = features(6)
    x[0] = features(6, seed=1)[0]
    changed = module(x, operators_of(SIX)).detach().numpy()
    assert np.abs(changed[5] - logits[5]).max() > 1e-4


# ------------------------------------------------------------------------ dropout


def test_features_are_dropped_before_they_are_scaled_and_the_hidden_layer_too() -> None:
    module, x = build(input_dropout=0.3, dropout=0.6).train(), features(6)
    torch.manual_seed(4)
    given = dropout(torch.ones(6, 5), 0.3).numpy()
    hidden = dropout(torch.ones(6, 8), 0.6).numpy()
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, given, hidden)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_stored_entries_of_sparse_features_are_dropped() -> None:
    module, x = build(input_dropout=0.7, dropout=0.6).train(), features(6)
    x[x < 0.1] = 0
    stored = sp.csr_array(x.numpy())
    torch.manual_seed(4)
    kept = stored.copy()
    kept.data = dropout(torch.ones(stored.nnz), 0.7).numpy()
    hidden = dropout(torch.ones(6, 8), 0.6).numpy()
    assert not kept.toarray().any(axis=1).all()  # a row lost all its entries
    torch.manual_seed(4)
    logits = module(Operator(stored), operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, kept.toarray(), hidden)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_nothing_is_dropped_in_evaluation() -> None:
    module = build(input_dropout=0.7, dropout=0.9).eval()
    logits = module(features(6), operators_of(SIX)).detach().numpy()
    expected = oracle(module, features(6).double().numpy(), SIX)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@each("devices", [("cpu",), ()], ids=["CSR", "triplets"])
def test_row_norms_are_the_lengths_of_the_rows(
    devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", devices)
    x = features(7, 4)
    x[x < 0] = 0
    x[2] = 0
    operator = Operator(sp.csr_array(x.numpy()))
    assert isinstance(operator.matrix, Triplets) == (not devices)
    torch.testing.assert_close(operator.row_norms(), x.norm(dim=1))
    torch.manual_seed(0)
    dropped = operator.dropout(0.5)
    expected = (dropped @ torch.eye(4)).norm(dim=1)
    assert not torch.allclose(expected, x.norm(dim=1))
    torch.testing.assert_close(dropped.row_norms(), expected)


# ------------------------------------------------------------------ PyG as oracle


def test_logits_and_gradients_are_those_of_pyg() -> None:
    from torch_geometric.nn import MixHopConv

    module = build(hidden_channels=9)
    # PyG's list starts with power 0 if that is among them.
    first, second = (
        MixHopConv(5, 3, powers=[0, 1, 2], bias=False),
        MixHopConv(9, 3, powers=[0, 1, 2], bias=False),
    )
    with torch.no_grad():
        for power in range(3):
            columns = slice(3 * power, 3 * power + 3)
            first.lins[power].weight.copy_(module.first[:, columns].T)
            second.lins[power].weight.copy_(module.second[:, power].T)
    adj = random_adjacency()
    x, labels = features(20), torch.arange(20) % 3
    edges = torch.from_numpy(np.stack(adj.nonzero()).astype(np.int64))
    hidden = functional.batch_norm(
        first(functional.normalize(x), edges),
        running_mean=None,
        running_var=None,
        bias=module.shift.detach(),
        training=True,
        eps=1e-3,
    )
    blocks = second(torch.relu(hidden), edges).view(20, 3, 3)
    theirs = (blocks * torch.softmax(module.scores.detach(), 0)[:, None]).sum(dim=1)
    logits = module(x, operators_of(adj))
    torch.testing.assert_close(logits, theirs)

    functional.cross_entropy(theirs, labels).backward()
    functional.cross_entropy(logits, labels).backward()
    for power in range(3):
        columns = slice(3 * power, 3 * power + 3)
        torch.testing.assert_close(
            module.first.grad[:, columns].T, first.lins[power].weight.grad
        )
        torch.testing.assert_close(
            module.second.grad[:, power].T, second.lins[power].weight.grad
        )
    assert module.scores.grad.abs().max() > 0
    assert module.shift.grad.abs().max() > 0


# ------------------------------------------------------------- weights and options


def test_the_weights_are_regularised_and_shift_and_scores_are_not() -> None:
    module = MixHop(5, 3)
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first": (5, 64),
        "shift": (64,),
        "second": (64, 3, 3),
        "scores": (3,),
    }
    regularised = module.regularised()
    assert len(regularised) == 2
    assert regularised[0] is module.first
    assert regularised[1] is module.second


def test_the_penalty_is_a_thousandth_of_the_mean_square_of_the_scores() -> None:
    module = build()
    with torch.no_grad():
        module.scores.copy_(torch.tensor([1.0, -2.0, 4.0]))
    penalty = module.penalty()
    assert penalty.item() == pytest.approx(7e-3)
    penalty.backward()
    torch.testing.assert_close(
        module.scores.grad, torch.tensor([1.0, -2.0, 4.0]) * 2e-3 / 3
    )


@each(
    ("hidden", "powers", "widths"),
    [
        (64, (0, 1, 2), [21, 21, 22]),
        (192, (0, 1, 2), [64, 64, 64]),
        (3, (0, 1, 2), [1, 1, 1]),
        (8, (1,), [8]),
    ],
)
def test_the_hidden_layer_is_shared_out_among_the_powers(
    hidden: int, powers: tuple[int, ...], widths: list[int]
) -> None:
    assert MixHop(5, 3, hidden_channels=hidden, powers=powers).widths == widths


def test_powers_come_back_from_json_and_in_any_order() -> None:
    module = MixHop(5, 3, powers=json.loads(json.dumps((2, 0, 1))))
    assert module.powers == (0, 1, 2)


def test_weights_are_drawn_by_each_powers_own_size() -> None:
    torch.manual_seed(0)
    module = MixHop(50, 3)
    module.shift.data.fill_(7)
    module.scores.data.fill_(7)
    before = module.first.clone(), module.second.clone()
    module.reset_parameters()
    assert not torch.equal(before[0], module.first)
    assert not torch.equal(before[1], module.second)
    for block in module.first.split([21, 21, 22], dim=1):
        bound = math.sqrt(6 / (50 + block.shape[1]))
        assert 0.9 * bound < block.abs().max() <= bound
    for block in module.second.unbind(dim=1):
        bound = math.sqrt(6 / (64 + 3))
        assert 0.9 * bound < block.abs().max() <= bound
    assert not module.shift.any()
    assert not module.scores.any()


@each("powers", [(), [], (0, 0), (-1, 0), (0.5,), (True,), 2, "01", None])
def test_powers_are_distinct_integers_from_zero(powers: object) -> None:
    with refused(param="powers", value=powers):
        MixHop(5, 3, powers=powers)


@each(
    ("options", "words"),
    [
        ({"hidden_channels": 0}, "at least 1"),
        ({"hidden_channels": 2}, "at least 3"),
        ({"dropout": 1.0}, "[0, 1)"),
        ({"input_dropout": -0.1}, "[0, 1)"),
        ({"activation": "tanh"}, ""),
    ],
)
def test_bad_options_are_named(options: dict[str, object], words: str) -> None:
    with refused(**only(options), words=words):
        MixHop(5, 3, **options)
