"""GraphSAGE against its formula, its samples replayed, and against PyG's layer."""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.graphsage import GraphSAGE, mean_adjacency
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, WIDTH, CLASSES = 5, 8, 3
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4)])
"""A triangle, of which one corner has two more neighbours; an isolated last node."""


def build(
    *,
    jumping: bool = False,
    dropout: float = 0.0,
    sample: int | None = None,
    activation: str = "relu",
) -> GraphSAGE:
    torch.manual_seed(0)
    return GraphSAGE(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        activation=activation,
        dropout=dropout,
        sample=sample,
        jumping=jumping,
    )


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a) for a in mean_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def mean_over_neighbours(adj: sp.csr_array) -> Matrix:
    dense = adj.toarray().astype(float)
    mean = np.zeros_like(dense)
    for v, row in enumerate(dense):
        for u in np.flatnonzero(row):
            mean[v, u] = 1 / row.sum()
    return mean


def oracle(
    module: GraphSAGE,
    x: Matrix,
    means: tuple[Matrix, Matrix],
    masks: tuple[Matrix | float, Matrix | float] = (1.0, 1.0),
) -> Matrix:
    """Return the logits from the means of each layer, in double."""
    w = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    act = {"relu": lambda h: np.maximum(h, 0), "none": lambda h: h}[module.activation]
    x = x * masks[0]
    h1 = act(np.hstack([x, means[0] @ x]) @ w["first"])
    inner = h1 * masks[1]
    h2 = act(np.hstack([inner, means[1] @ inner]) @ w["second"])
    return (np.hstack([h1, h2]) if module.jumping else h2) @ w["classifier"]


def assert_is_the_oracle(module: GraphSAGE, adj: sp.csr_array) -> None:
    x, operators = features(adj.shape[0]), operators_of(adj)
    mean = mean_over_neighbours(adj)
    expected = oracle(module, x.double().numpy(), (mean, mean))
    index = np.array([adj.shape[0] - 1, 0, 0])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, Target.of(operators, index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------- formula


@each("jumping", [False, True])
@each("activation", ["relu", "none"])
def test_graphsage_is_its_formula(jumping: bool, activation: str) -> None:
    assert_is_the_oracle(build(jumping=jumping, activation=activation), SIX)


@each("named_adj", NAMED.values(), ids=NAMED)
@each("jumping", [False, True])
def test_graphsage_is_its_formula_on_named_graphs(
    jumping: bool, named_adj: sp.csr_array
) -> None:
    assert_is_the_oracle(build(jumping=jumping), named_adj)


@each("jumping", [False, True])
def test_sparse_features_do_for_dense_ones(jumping: bool) -> None:
    x = features(6)
    x[x < 0.2] = 0
    module, operators = build(jumping=jumping).eval(), operators_of(SIX)
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, operators), module(x, operators))


@each("jumping", [False, True])
@each("named_adj", NAMED.values(), ids=NAMED)
def test_graphsage_is_pygs_layers_with_the_same_weights(
    named_adj: sp.csr_array, jumping: bool
) -> None:
    from torch_geometric.nn import SAGEConv

    edges = torch.from_numpy(np.stack(named_adj.nonzero()).astype(np.int64))

    def layer(h: Tensor, weight: Tensor) -> Tensor:
        conv = SAGEConv(len(weight) // 2, weight.shape[1], aggr="mean", bias=False)
        ego, neighbours = weight.detach().chunk(2)
        conv.lin_r.weight.data = ego.T.contiguous()
        conv.lin_l.weight.data = neighbours.T.contiguous()
        return conv(h, edges).relu()

    module, x = build(jumping=jumping).eval(), features(named_adj.shape[0])
    h1 = layer(x, module.first)
    h2 = layer(h1, module.second)
    final = torch.cat([h1, h2], dim=1) if jumping else h2
    torch.testing.assert_close(
        module(x, operators_of(named_adj)),
        final @ module.classifier,
        rtol=1e-5,
        atol=1e-5,
    )


# ------------------------------------------------------------------------- dropout


@each("jumping", [False, True])
def test_dropout_falls_on_the_inputs_of_both_layers_once(jumping: bool) -> None:
    x, module = features(6), build(jumping=jumping, dropout=0.5).train()
    torch.manual_seed(4)
    first, second = (
        dropout(torch.ones(6, width), 0.5).double().numpy()
        for width in (FEATURES, WIDTH)
    )
    torch.manual_seed(4)
    logits = module(x, operators_of(SIX)).detach().numpy()
    mean = mean_over_neighbours(SIX)
    expected = oracle(module, x.double().numpy(), (mean, mean), (first, second))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_dropout_falls_on_the_stored_entries_of_sparse_features() -> None:
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
    mean = mean_over_neighbours(SIX)
    masks = kept.toarray(), second
    expected = oracle(module, x.double().numpy(), (mean, mean), masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------- samples


@each("jumping", [False, True])
@each("index", [None, [2, 5, 2, 0]], ids=["all", "target"])
def test_while_training_each_layer_draws_its_own_neighbours(
    jumping: bool, index: list[int] | None
) -> None:
    x, operators = features(6), operators_of(SIX)
    module = build(jumping=jumping, sample=2).train()
    chosen = np.arange(6) if index is None else np.array(index)
    target = None if index is None else Target.of(operators, chosen)
    last = operators[0] if target is None else target.operators[0]
    torch.manual_seed(7)
    first = (operators[0].sample(2) @ torch.eye(6)).double().numpy()
    second = (last.sample(2) @ torch.eye(6)).double().numpy()
    torch.manual_seed(7)
    logits = module(x, operators, target).detach().numpy()
    assert (first != second if index is None else first[chosen] != second).any()
    for row, (node, mean) in enumerate(zip(chosen, second, strict=True)):
        means = np.zeros((6, 6))
        means[node] = mean
        expected = oracle(module, x.double().numpy(), (first, means))[node]
        np.testing.assert_allclose(logits[row], expected, rtol=1e-5, atol=1e-5)


def test_every_step_draws_anew() -> None:
    x, operators = features(6), operators_of(SIX)
    module = build(sample=1).train()
    torch.manual_seed(0)
    draws = torch.stack([module(x, operators) for _ in range(20)])
    assert len(draws[:, 2].unique(dim=0)) > 1
    torch.manual_seed(0)
    again = torch.stack([module(x, operators) for _ in range(20)])
    assert torch.equal(draws, again)


def test_evaluation_takes_all_neighbours() -> None:
    assert_is_the_oracle(build().eval(), SIX)
    x, operators = features(6), operators_of(SIX)
    sampled, whole = build(sample=1).eval(), build().eval()
    torch.testing.assert_close(sampled(x, operators), whole(x, operators))


def test_a_sample_as_large_as_the_largest_degree_is_everybody() -> None:
    assert_is_the_oracle(build(sample=4), SIX)


@each("jumping", [False, True])
def test_gradients_reach_every_weight_through_a_sample(jumping: bool) -> None:
    module, operators = build(jumping=jumping, sample=1).train(), operators_of(SIX)
    target = Target.of(operators, np.array([0, 2, 3]))
    logits = module(features(6), operators, target)
    torch.nn.functional.cross_entropy(logits, torch.arange(3)).backward()
    for name, weight in module.named_parameters():
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().max() > 0, name


# --------------------------------------------------------------- weights, operator


@each(("jump", "joined"), [(False, WIDTH), (True, 2 * WIDTH)])
def test_the_penalty_is_on_all_weights(jump: bool, joined: int) -> None:
    module = build(jumping=jump)
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first": (2 * FEATURES, WIDTH),
        "second": (2 * WIDTH, WIDTH),
        "classifier": (joined, CLASSES),
    }
    regularised = {id(weight) for weight in module.regularised()}
    assert regularised == {id(weight) for weight in module.parameters()}


def test_weights_are_glorot_uniform_over_node_and_neighbours_joined() -> None:
    torch.manual_seed(0)
    module = GraphSAGE(300, 40, hidden_channels=200)
    for weight, fan_in in ((module.first, 600), (module.second, 400)):
        bound = (6 / (fan_in + 200)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound


@each("named_adj", NAMED.values(), ids=NAMED)
def test_the_operator_is_the_mean_over_neighbours(named_adj: sp.csr_array) -> None:
    before = named_adj.toarray()
    (operator,) = mean_adjacency(named_adj)
    assert operator.dtype == np.float32
    expected = mean_over_neighbours(named_adj)
    np.testing.assert_allclose(operator.toarray(), expected, rtol=1e-7)
    np.testing.assert_array_equal(named_adj.toarray(), before)


def test_the_mean_of_no_neighbours_is_zero() -> None:
    (operator,) = mean_adjacency(NAMED["isolated last node"])
    assert operator.toarray()[3].tolist() == [0, 0, 0, 0]


# ------------------------------------------------------------------------- options


@each(
    "options",
    [
        {"sample": 0},
        {"sample": 2.5},
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
        GraphSAGE(**{"in_channels": 5, "out_channels": 3, **options})
