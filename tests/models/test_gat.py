"""GAT against its formula, written out with loops, and against PyG's layer."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn.exceptions import InputError
from h2gcn.models.gat import GAT, AttentionHeads, closed_neighbourhoods
from h2gcn.sparse import Operator, Target, dropout, operator as sparse_matrix
from h2gcn.sparse.lanes import LANES
from h2gcn.sparse.operator import Triplets, row_softmax, weighted_sums
from support.cases import each
from support.dropping import mask_of
from support.graphs import NAMED, adjacency

Matrix = NDArray[np.float64]
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
"""A triangle with a tail, and a node apart."""


def build(**options: object) -> GAT:
    """Return a small GAT whose biases are not zero."""
    torch.manual_seed(0)
    given = {"hidden_channels": 4, "heads": 3, "out_heads": 2, "dropout": 0.0}
    module = GAT(5, 3, **(given | options))
    for name, weight in module.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    return module


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in closed_neighbourhoods(adj))


def features(n: int, columns: int = 5) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, columns)).astype(np.float32))


def random_adjacency(n: int = 20, p: float = 0.2) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(3).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


# ------------------------------------------------------- the formula, once more


def head(
    layer: AttentionHeads, h: int, x: Matrix, adj: sp.csr_array, masks: list[Matrix]
) -> Matrix:
    """Return what head `h` gives, in double precision.

    The masks are those of the inputs [n, F], of α [n, n] and of z [n, d].
    """
    weight = layer.weight.detach().double().numpy()[:, h]
    ego, other = layer.attention.detach().double().numpy()[:, h]
    b_ego, b_other = layer.attention_bias.detach().double().numpy()[:, h, 0]
    n = len(x)
    z = (x * masks[0]) @ weight
    result = np.zeros_like(z)
    for i in range(n):
        near = [j for j in range(n) if j == i or adj[i, j]]
        e = np.array([ego @ z[i] + b_ego + other @ z[j] + b_other for j in near])
        e = np.where(e > 0, e, 0.2 * e)
        alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
        for a, j in zip(alpha, near, strict=True):
            result[i] += a * masks[1][i, j] * masks[2][j] * z[j]
    return result + layer.bias.detach().double().numpy()[h]


def oracle(
    module: GAT,
    x: Matrix,
    adj: sp.csr_array,
    first: list[list[Matrix]] | None = None,
    second: list[list[Matrix]] | None = None,
) -> Matrix:
    """Return the logits, with the masks of each head of both layers."""
    none = [np.ones((1, 1)), np.ones(adj.shape), np.ones((len(x), 1))]
    heads, out_heads = module.first.bias.shape[0], module.second.bias.shape[0]
    first, second = first or [none] * heads, second or [none] * out_heads
    hidden = np.concatenate(
        [head(module.first, h, x, adj, first[h]) for h in range(heads)], axis=1
    )
    if module.activation == "elu":
        hidden = np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)
    elif module.activation == "relu":
        hidden = np.maximum(hidden, 0)
    out = [head(module.second, h, hidden, adj, second[h]) for h in range(out_heads)]
    return np.mean(out, axis=0)


def assert_is_its_formula(module: GAT, adj: sp.csr_array) -> None:
    n = adj.shape[0]
    x, operators = features(n), operators_of(adj)
    expected = oracle(module, x.double().numpy(), adj)
    index = np.array([n - 1, 0, 0])
    target = Target.of(operators, index)
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, target).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_gat_is_its_formula_on_named_graphs(named_adj: sp.csr_array) -> None:
    assert_is_its_formula(build(), named_adj)


@each("activation", ["elu", "relu", "none"])
@each(("heads", "out_heads"), [(1, 1), (2, 3)])
def test_gat_is_its_formula_with_all_options(
    activation: str, heads: int, out_heads: int
) -> None:
    module = build(activation=activation, heads=heads, out_heads=out_heads)
    assert_is_its_formula(module, SIX)


def test_a_score_of_any_size_has_a_finite_softmax() -> None:
    module = build()
    with torch.no_grad():
        for layer in (module.first, module.second):
            layer.attention *= 1e4
    logits = module(features(6), operators_of(SIX)).detach().numpy()
    assert np.isfinite(logits).all()
    # Scores of 1e4 that differ in the last bits of float32 differ by 1e-3.
    expected = oracle(module, features(6).double().numpy(), SIX)
    np.testing.assert_allclose(logits, expected, rtol=0.05, atol=0.05)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_the_operator_is_the_neighbours_and_the_node_itself(
    named_adj: sp.csr_array,
) -> None:
    (closed,) = closed_neighbourhoods(named_adj)
    assert closed.dtype == np.float32
    expected = named_adj.toarray() + np.eye(named_adj.shape[0])
    np.testing.assert_array_equal(closed.toarray(), expected)


# ------------------------------------------------------------------------ dropout


def layer_masks(
    layer: AttentionHeads, given: Matrix, adj: sp.csr_array, p: float
) -> list[list[Matrix]]:
    """Draw one layer's masks in its order: α by head and entry, then z."""
    heads, width = layer.bias.shape
    (closed,) = closed_neighbourhoods(adj)
    entries = sp.csr_array(closed)
    groups = -(-heads // LANES)
    drawn = mask_of(torch.arange(groups), LANES * closed.nnz, p).double()
    by_head = drawn.view(groups, -1, LANES).transpose(1, 2).flatten(0, 1)
    alpha = by_head.numpy()
    z = mask_of(torch.arange(len(given)), heads * width, p).double().numpy()
    z = z.reshape(len(given), heads, width)
    masks = []
    for h in range(heads):
        entries.data = alpha[h]
        masks.append([given, entries.toarray(), z[:, h]])
    return masks


def seeded_masks(
    module: GAT, x: Tensor | sp.csr_array, adj: sp.csr_array, p: float
) -> tuple[list[list[Matrix]], list[list[Matrix]]]:
    torch.manual_seed(4)
    if isinstance(x, Tensor):
        given = dropout(torch.ones_like(x), p).double().numpy()
    else:
        kept = dropout(torch.ones(x.nnz), p).double().numpy()
        given = sp.csr_array((kept, x.indices, x.indptr), x.shape).toarray()
    first = layer_masks(module.first, given, adj, p)
    width = module.second.weight.shape[0]
    hidden = dropout(torch.ones(x.shape[0], width), p).double().numpy()
    return first, layer_masks(module.second, hidden, adj, p)


def test_inputs_attention_and_what_is_summed_are_dropped_in_both_layers() -> None:
    module, x = build(dropout=0.4).train(), features(6)
    first, second = seeded_masks(module, x, SIX, 0.4)
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, first, second)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_stored_entries_of_sparse_features_are_dropped() -> None:
    module, x = build(dropout=0.4).train(), features(6)
    x[x < 0.1] = 0
    stored = sp.csr_array(x.numpy())
    first, second = seeded_masks(module, stored, SIX, 0.4)
    torch.manual_seed(4)
    logits = module(Operator(stored), operators_of(SIX)).detach().numpy()
    expected = oracle(module, x.double().numpy(), SIX, first, second)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_nothing_is_dropped_in_evaluation() -> None:
    module = build(dropout=0.4).eval()
    expected = oracle(module, features(6).double().numpy(), SIX)
    logits = module(features(6), operators_of(SIX)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------ PyG as oracle


def test_logits_and_gradients_are_those_of_pyg_without_the_attentions_biases() -> None:
    from torch_geometric.nn import GATConv

    module = build(out_heads=2)
    convs = (
        GATConv(5, 4, heads=3),
        GATConv(12, 3, heads=2, concat=False),
    )
    ours = (module.first, module.second)
    with torch.no_grad():
        for layer, conv in zip(ours, convs, strict=True):
            layer.attention_bias.zero_()
            conv.lin.weight.copy_(layer.weight.flatten(1).T)
            conv.att_dst.copy_(layer.attention[:1])
            conv.att_src.copy_(layer.attention[1:])
            # PyG adds one bias to the mean of the heads, we take the mean of biases.
            bias = layer.bias.flatten() if conv.concat else layer.bias.mean(dim=0)
            conv.bias.copy_(bias)
    adj = random_adjacency()
    x, labels = features(20), torch.arange(20) % 3
    edges = torch.from_numpy(np.stack(adj.nonzero()).astype(np.int64))
    theirs = convs[1](functional.elu(convs[0](x, edges)), edges)
    logits = module(x, operators_of(adj))
    torch.testing.assert_close(logits, theirs)

    functional.cross_entropy(theirs, labels).backward()
    functional.cross_entropy(logits, labels).backward()
    for layer, conv in zip(ours, convs, strict=True):
        torch.testing.assert_close(layer.weight.grad.flatten(1).T, conv.lin.weight.grad)
        torch.testing.assert_close(layer.attention.grad[:1], conv.att_dst.grad)
        torch.testing.assert_close(layer.attention.grad[1:], conv.att_src.grad)


def test_the_attentions_biases_have_the_gradient_of_a_difference_quotient() -> None:
    module, adj = build(), random_adjacency()
    x, labels = features(20), np.arange(20) % 3
    logits = module(x, operators_of(adj))
    functional.cross_entropy(logits, torch.from_numpy(labels)).backward()

    def loss() -> float:
        z = oracle(module, x.double().numpy(), adj)
        chosen = z[np.arange(20), labels] - np.log(np.exp(z).sum(axis=1))
        return -float(chosen.mean())

    for layer, end in itertools.product((module.first, module.second), (0, 1)):
        # All heads at once: the sum of their gradients.
        bias, step = layer.attention_bias, 1e-4
        with torch.no_grad():
            bias[end] += step
            above = loss()
            bias[end] -= 2 * step
            below = loss()
        quotient = (above - below) / (2 * step)
        assert abs(quotient) > 1e-3
        assert bias.grad[end].sum().item() == pytest.approx(quotient, rel=1e-2)


# ------------------------------------------------------ softmax and weighted sums


@pytest.fixture(params=["CSR", "triplets"])
def pattern(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Operator:
    """Return a pattern [4, 6] with an empty row, in both forms."""
    if request.param == "triplets":
        monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", ())
    dense = np.zeros((4, 6), dtype=np.float32)
    dense[[0, 0, 0, 1, 3, 3], [5, 1, 2, 2, 0, 2]] = 1
    operator = Operator(sp.csr_array(dense))
    assert isinstance(operator.matrix, Triplets) == (request.param == "triplets")
    return operator


def test_edges_are_the_rows_and_columns_of_the_entries(pattern: Operator) -> None:
    rows, columns = pattern.edges
    assert rows.tolist() == [0, 0, 0, 1, 3, 3]
    assert columns.tolist() == [1, 2, 5, 2, 0, 2]
    assert rows.dtype == columns.dtype == torch.int64
    assert pattern.edges is pattern.edges  # made once


def on_pattern(pattern: Operator, values: Tensor, fill: float) -> Tensor:
    """Return values [k, nnz] as dense matrices [k, m, n]."""
    rows, columns = pattern.edges
    dense = values.new_full((len(values), *pattern.shape), fill)
    return dense.index_put((torch.arange(len(values))[:, None], rows, columns), values)


def test_the_softmax_is_over_each_row(pattern: Operator) -> None:
    torch.manual_seed(0)
    scores = (3 * torch.randn(2, 6)).requires_grad_()
    outer = torch.randn(2, 6)
    ours = row_softmax(pattern, scores)
    dense = torch.softmax(on_pattern(pattern, scores, -math.inf)[:, [0, 1, 3]], dim=2)
    theirs = dense[:, [0, 0, 0, 1, 2, 2], pattern.edges[1]]
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours, scores, outer),
        torch.autograd.grad(theirs, scores, outer),
    )


def test_weighted_sums_and_their_gradients_are_the_dense_ones(
    pattern: Operator,
) -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 6, requires_grad=True)
    dense = torch.randn(6, 2, 3, requires_grad=True)
    outer = torch.randn(4, 2, 3)
    ours = weighted_sums(pattern, weights, dense)
    matrices = on_pattern(pattern, weights, 0.0)
    theirs = torch.einsum("kmn,nkd->mkd", matrices, dense)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours, (weights, dense), outer),
        torch.autograd.grad(theirs, (weights, dense), outer),
    )


def test_a_device_without_csr_products_gives_the_same_logits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, index = build(), np.array([3, 0])
    operators = operators_of(SIX)
    expected = module(features(6), operators, Target.of(operators, index))
    monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", ())
    others = operators_of(SIX)
    assert isinstance(others[0].matrix, Triplets)
    logits = module(features(6), others, Target.of(others, index))
    torch.testing.assert_close(logits, expected)


def test_no_node_gives_no_logits() -> None:
    operators = operators_of(SIX)
    target = Target.of(operators, np.array([], dtype=np.int64))
    assert build()(features(6), operators, target).shape == (0, 3)


# ------------------------------------------------------------- weights and options


def test_all_parameters_are_regularised_biases_too() -> None:
    module = GAT(5, 3)
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first.weight": (5, 8, 8),
        "first.attention": (2, 8, 8),
        "first.attention_bias": (2, 8, 1),
        "first.bias": (8, 8),
        "second.weight": (64, 1, 3),
        "second.attention": (2, 1, 3),
        "second.attention_bias": (2, 1, 1),
        "second.bias": (1, 3),
    }
    assert len(module.regularised()) == 8
    assert {*map(id, module.regularised())} == {*map(id, module.parameters())}


def test_weights_are_drawn_by_each_heads_own_size_and_biases_are_zero() -> None:
    torch.manual_seed(0)
    module = GAT(50, 3)
    layers = module.first, module.second
    before = [layer.weight.clone() for layer in layers]
    for layer in layers:
        layer.bias.data.fill_(7)
        layer.attention_bias.data.fill_(7)
    module.reset_parameters()
    for weight, layer in zip(before, layers, strict=True):
        assert not torch.equal(weight, layer.weight)
    for layer, fan_in, width in ((module.first, 50, 8), (module.second, 64, 3)):
        for weight, fans in (
            (layer.weight, fan_in + width),
            (layer.attention, width + 1),
        ):
            bound = math.sqrt(6 / fans)
            assert 0.7 * bound < weight.abs().max() <= bound
        assert not layer.bias.any()
        assert not layer.attention_bias.any()


@each(
    ("options", "message"),
    [
        ({"heads": 0}, "^heads must be an integer, at least 1"),
        ({"heads": 2.0}, r"^heads .*got 2\.0"),
        ({"out_heads": 0}, "^out_heads must be an integer, at"),
        ({"dropout": 1.0}, r"^dropout must be in \[0, 1\)"),
        ({"activation": "gelu"}, "^activation must be one of"),
        ({"hidden_channels": 0}, "^hidden_channels must be"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GAT(5, 3, **options)
