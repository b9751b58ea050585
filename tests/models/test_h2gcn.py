"""H2GCN against the paper's formula, written out a second time with loops."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.models import H2GCN, MODELS
from h2gcn.models.h2gcn import directed_ring_operators, ring_operators
from h2gcn.ring_table import TableInput, TableMaker
from h2gcn.sparse import Operator, Target
from h2gcn.sparse.operator import Products
from h2gcn.training import receptive_field
from support.cases import each
from support.dropping import mask_of
from support.graphs import DIRECTED, NAMED, one_way
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 6, 3, 4


def random_adjacency(n: int = 12, p: float = 0.2, seed: int = 5) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


GRAPHS = {**NAMED, "random": random_adjacency()}


# -------------------------------------------------- the paper, once more, in loops


@dataclass(frozen=True)
class Variant:
    """A model as the paper describes it, apart from the library's own table."""

    hops: tuple[int, ...] = (1, 2)
    rounds: int = 1
    final: tuple[int, ...] = (0, 1)
    own: bool = False
    """Neighbourhoods N(v) that include v, in place of those that do not."""
    nonlinear: bool = False


# Section 4 (variants of H2GCN-1 and H2GCN-2) and the section on embeddings per round.
PAPER = {
    "h2gcn-1": Variant(),
    "h2gcn-2": Variant(rounds=2, final=(0, 1, 2)),
    "mlp": Variant(hops=(), rounds=0, final=(0,)),
    "h2gcn-s1": Variant(hops=(1,)),
    "h2gcn-ns0": Variant(own=True, final=(1,)),
    "h2gcn-ns1": Variant(own=True, final=(1,), hops=(1,)),
    "h2gcn-n0": Variant(final=(1,)),
    "h2gcn-n1": Variant(hops=(2,)),
    "h2gcn-k0": Variant(rounds=2, final=(1, 2)),
    "h2gcn-k1": Variant(rounds=2, final=(0, 2)),
    "h2gcn-r2": Variant(rounds=2, final=(2,)),
    "h2gcn-nonlinear": Variant(rounds=2, final=(0, 1, 2), nonlinear=True),
}


def ring(adj: sp.csr_array, hop: int) -> Matrix:
    """Return who is at shortest distance `hop` of whom."""
    a = adj.toarray()
    n = len(a)
    result = np.zeros((n, n))
    for source in range(n):
        distance = {source: 0}
        queue = deque([source])
        while queue:
            u = queue.popleft()
            for v in range(n):
                if a[u, v] and v not in distance:
                    distance[v] = distance[u] + 1
                    queue.append(v)
        for v, d in distance.items():
            result[source, v] = d == hop
    return result


def aggregation(adj: sp.csr_array, hop: int, own: bool) -> Matrix:
    """Return the weights d_v^-1/2 d_u^-1/2 of AGGR over ring `hop`."""
    a = ring(adj, hop)
    if own:
        for v in range(len(a)):
            a[v, v] = 1
    degree = [sum(row) for row in a]
    for v in range(len(a)):
        for u in range(len(a)):
            if a[v, u]:
                a[v, u] = degree[v] ** -0.5 * degree[u] ** -0.5
    return a


def relu(r: Matrix) -> Matrix:
    return np.maximum(r, 0)


def oracle(
    variant: Variant,
    module: H2GCN,
    x: Matrix,
    adj: sp.csr_array,
    drop: Callable[[Matrix], Matrix] = lambda r: r,
) -> Matrix:
    """Return the logits by Algorithm 1, in double precision."""
    weights = {
        name: weight.detach().double().numpy()
        for name, weight in module.named_parameters()
    }
    neighbourhoods = [aggregation(adj, hop, variant.own) for hop in variant.hops]
    r = x @ weights["embedding"]
    r = relu(r) if module.activation == "relu" else r
    representations = [r]
    for k in range(variant.rounds):
        parts = [a @ r for a in neighbourhoods]
        if variant.nonlinear:
            joined = np.concatenate([r, *parts], axis=1)
            r = relu(joined @ weights[f"round_embeddings.{k}"])
        else:
            r = np.concatenate(parts, axis=1)
        representations.append(r)
    final = np.concatenate([representations[k] for k in variant.final], axis=1)
    return drop(final) @ weights["classifier"]


# ------------------------------------------------------------------ what is tested


def build(name: str, *, dropout: float = 0.0, activation: str = "relu") -> H2GCN:
    torch.manual_seed(1)
    return H2GCN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        dropout=dropout,
        activation=activation,
        **MODELS[name].fixed,
    )


def operators_of(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in MODELS[name].operators(adj))


def features(n: int, seed: int = 2) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def target_of(operators: tuple[Operator, ...], n: int) -> tuple[Target, list[int]]:
    index = [n - 1, 0, n // 2]
    return Target.of(operators, np.array(index)), index


def assert_same(logits: Tensor, expected: Matrix) -> None:
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_every_model_that_is_an_h2gcn_is_in_this_file() -> None:
    assert set(PAPER) == {n for n, spec in MODELS.items() if spec.module is H2GCN}


# ------------------------------------------------------------------------- logits


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("name", PAPER)
@each("activation", ["relu", "none"])
def test_logits_are_the_papers(name: str, adj: sp.csr_array, activation: str) -> None:
    module = build(name, activation=activation)
    x, operators = features(adj.shape[0]), operators_of(name, adj)
    expected = oracle(PAPER[name], module, x.double().numpy(), adj)
    target, index = target_of(operators, adj.shape[0])
    for mode in (module.eval, module.train):
        mode()
        logits = module(x, operators)
        assert logits.shape == (adj.shape[0], CLASSES)
        assert_same(logits, expected)
        assert_same(module(x, operators, target), expected[index])


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("name", PAPER)
def test_dropout_does_nothing_in_eval_mode(name: str, adj: sp.csr_array) -> None:
    module = build(name, dropout=0.5).eval()
    x = features(adj.shape[0])
    expected = oracle(PAPER[name], module, x.double().numpy(), adj)
    assert_same(module(x, operators_of(name, adj)), expected)


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("name", PAPER)
@each("only_some", [False, True], ids=["all nodes", "target"])
def test_dropout_acts_on_the_final_representation_only(
    name: str, adj: sp.csr_array, only_some: bool
) -> None:
    module = build(name, dropout=0.5).train()
    n = adj.shape[0]
    x, operators = features(n), operators_of(name, adj)
    target, index = target_of(operators, n) if only_some else (None, list(range(n)))
    torch.manual_seed(9)
    mask = mask_of(torch.tensor(index), module.classifier.shape[0], 0.5).numpy()
    assert set(np.unique(mask)) == {0, 2}  # else nothing would be tested
    torch.manual_seed(9)
    logits = module(x, operators, target)
    expected = oracle(
        PAPER[name], module, x.double().numpy(), adj, lambda r: r[index] * mask
    )
    assert_same(logits, expected)


@each("name", PAPER)
def test_sparse_features_give_the_same_logits(name: str) -> None:
    adj = GRAPHS["random"]
    module = build(name).eval()
    x = features(adj.shape[0])
    x[x < 0.3] = 0
    operators = operators_of(name, adj)
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, operators), module(x, operators))


def test_three_rounds_over_three_rings() -> None:
    adj = random_adjacency(12, 0.15, seed=8)
    variant = Variant(hops=(1, 2, 3), rounds=3, final=(0, 2, 3))
    torch.manual_seed(1)
    module = H2GCN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        hops=variant.hops,
        rounds=3,
        final=(0, 2, 3),
        dropout=0.0,
    )
    assert module.classifier.shape == ((1 + 9 + 27) * WIDTH, CLASSES)
    matrices = ring_operators(adj, hops=variant.hops)
    assert all(matrix.nnz for matrix in matrices)
    operators = tuple(Operator(matrix, symmetric=True) for matrix in matrices)
    x = features(12)
    expected = oracle(variant, module, x.double().numpy(), adj)
    assert_same(module(x, operators), expected)
    target, index = target_of(operators, 12)
    assert_same(module(x, operators, target), expected[index])


def test_rings_are_used_in_the_order_of_hops() -> None:
    adj = GRAPHS["random"]
    matrices = ring_operators(adj, hops=(2, 1))
    for matrix, hop in zip(matrices, (2, 1), strict=True):
        np.testing.assert_allclose(
            matrix.toarray(), aggregation(adj, hop, own=False), rtol=1e-6
        )


# ---------------------------------------------------------------------- gradients


def literal_logits(
    variant: Variant, module: H2GCN, x: Tensor, adj: sp.csr_array
) -> Tensor:
    """Return the logits in the paper's order of operations, for torch to derive."""
    neighbourhoods = [
        torch.from_numpy(aggregation(adj, hop, variant.own).astype(np.float32))
        for hop in variant.hops
    ]
    r = torch.relu(x @ module.embedding)
    representations = [r]
    for k in range(variant.rounds):
        parts = [a @ r for a in neighbourhoods]
        r = (
            torch.relu(torch.cat([r, *parts], dim=1) @ module.round_embeddings[k])
            if variant.nonlinear
            else torch.cat(parts, dim=1)
        )
        representations.append(r)
    final = torch.cat([representations[k] for k in variant.final], dim=1)
    return final @ module.classifier


@each("name", PAPER)
@each("only_some", [False, True], ids=["all nodes", "target"])
def test_gradients_are_those_of_the_literal_formula(name: str, only_some: bool) -> None:
    adj = GRAPHS["random"]
    n = adj.shape[0]
    module = build(name).train()
    x, operators = features(n), operators_of(name, adj)
    target, index = target_of(operators, n) if only_some else (None, list(range(n)))
    outer = torch.randn(len(index), CLASSES, generator=torch.Generator().manual_seed(3))
    parameters = list(module.parameters())
    ours = torch.autograd.grad((module(x, operators, target) * outer).sum(), parameters)
    theirs = torch.autograd.grad(
        (literal_logits(PAPER[name], module, x, adj)[index] * outer).sum(), parameters
    )
    for one, other in zip(ours, theirs, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_gradients_with_dropout_are_those_of_the_literal_formula() -> None:
    adj, variant = GRAPHS["random"], PAPER["h2gcn-2"]
    module = build("h2gcn-2", dropout=0.5).train()
    x, operators = features(12), operators_of("h2gcn-2", adj)
    target, index = target_of(operators, 12)
    torch.manual_seed(9)
    mask = mask_of(torch.tensor(index), 7 * WIDTH, 0.5)
    torch.manual_seed(9)
    ours = torch.autograd.grad(module(x, operators, target).sum(), module.embedding)
    # Dropping columns of the final representation: one masked classifier a node.
    single = [
        torch.func.functional_call(
            _Literal(variant, module, x, adj),
            {"module.classifier": module.classifier * mask[row][:, None]},
        )[node].sum()
        for row, node in enumerate(index)
    ]
    theirs = torch.autograd.grad(torch.stack(single).sum(), module.embedding)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


class _Literal(torch.nn.Module):
    def __init__(
        self, variant: Variant, module: H2GCN, x: Tensor, adj: sp.csr_array
    ) -> None:
        super().__init__()
        self.module, self.given = module, (variant, x, adj)

    def forward(self) -> Tensor:
        variant, x, adj = self.given
        return literal_logits(variant, self.module, x, adj)


# ------------------------------------------------------------------------- weights


@each("rounds", [0, 1, 2, 3])
def test_the_final_representation_is_as_wide_as_the_paper_says(rounds: int) -> None:
    module = H2GCN(5, 3, hidden_channels=8, rounds=rounds, final=range(rounds + 1))
    assert module.embedding.shape == (5, 8)
    assert module.classifier.shape == ((2 ** (rounds + 1) - 1) * 8, 3)


WIDTHS = {
    "h2gcn-1": 3,
    "h2gcn-2": 7,
    "mlp": 1,
    "h2gcn-s1": 2,
    "h2gcn-ns0": 2,
    "h2gcn-ns1": 1,
    "h2gcn-n0": 2,
    "h2gcn-n1": 2,
    "h2gcn-k0": 6,
    "h2gcn-k1": 5,
    "h2gcn-r2": 4,
    "h2gcn-nonlinear": 3,
}


@each("name", PAPER)
def test_weights_and_nothing_else(name: str) -> None:
    """Check that W_e, W_c (and W_k of the non-linear variant) are all there is."""
    shapes = {n: tuple(w.shape) for n, w in build(name).named_parameters()}
    expected = {
        "embedding": (FEATURES, WIDTH),
        "classifier": (WIDTHS[name] * WIDTH, CLASSES),
    }
    if name == "h2gcn-nonlinear":
        expected |= {f"round_embeddings.{k}": (3 * WIDTH, WIDTH) for k in (0, 1)}
    assert shapes == expected
    assert not list(build(name).buffers())


def test_weights_are_drawn_by_glorot_uniform() -> None:
    torch.manual_seed(0)
    module = H2GCN(300, 4, hidden_channels=100)
    for weight in map(Tensor.detach, module.parameters()):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.98 * bound
        assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.05)


def test_reset_parameters_draws_all_weights_anew() -> None:
    module = build("h2gcn-nonlinear")
    before = [weight.clone() for weight in module.parameters()]
    module.reset_parameters()
    for old, new in zip(before, module.parameters(), strict=True):
        assert not torch.equal(old, new)


@each("name", PAPER)
def test_all_weights_are_regularised(name: str) -> None:
    module = build(name)
    assert [id(w) for w in module.regularised()] == [id(w) for w in module.parameters()]


def test_repr_names_the_design() -> None:
    assert repr(H2GCN(5, 3, hidden_channels=8)) == (
        "H2GCN(5, 3, hidden_channels=8, hops=(1, 2), rounds=2, final=(0, 1, 2))"
    )


# ----------------------------------------------- equivalences stated in the paper


def test_dropping_round_2_of_h2gcn_2_is_h2gcn_1() -> None:
    adj = GRAPHS["random"]
    one = build("h2gcn-1")
    k2 = H2GCN(
        FEATURES, CLASSES, hidden_channels=WIDTH, rounds=2, final=(0, 1), dropout=0.0
    )
    k2.load_state_dict(one.state_dict())
    x, operators = features(12), operators_of("h2gcn-1", adj)
    torch.testing.assert_close(k2(x, operators), one(x, operators))


def test_without_rounds_the_graph_has_no_influence() -> None:
    none = H2GCN(
        FEATURES, CLASSES, hidden_channels=WIDTH, rounds=0, final=(0,), dropout=0.0
    )
    mlp = build("mlp")
    none.load_state_dict(mlp.state_dict())
    x = features(12)
    expected = torch.relu(x @ mlp.embedding) @ mlp.classifier
    torch.testing.assert_close(mlp(x, ()), expected)
    for seed in range(3):
        operators = operators_of("h2gcn-1", random_adjacency(seed=seed))
        torch.testing.assert_close(none(x, operators), expected)
    assert MODELS["mlp"].operators(GRAPHS["random"]) == ()


def test_the_order_and_repetition_of_final_do_not_matter() -> None:
    module = H2GCN(3, 2, hidden_channels=4, rounds=2, final=(2, 0, 2))
    assert module.final == (0, 2)
    assert module.classifier.shape == (5 * 4, 2)


# -------------------------------------------------------------------------- errors


@each(
    "options",
    [
        {"dropout": 1.5},
        {"dropout": 1},
        {"dropout": -0.1},
        {"dropout": float("nan")},
        {"hidden_channels": 0},
        {"hidden_channels": 65_537},
        {"rounds": -1},
        {"activation": "rely"},
        {"final": ()},
        {"final": (-1, 0)},
        {"final": (0, 3)},
        {"hops": ()},
        {"hops": (0, 1)},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        H2GCN(5, 3, **options)


def test_the_last_round_must_be_one() -> None:
    with refused(param="final", value=(0, 2), words="from 0 to 1"):
        H2GCN(5, 3, rounds=1, final=(0, 2))


@each("name", ["in_channels", "out_channels"])
def test_bad_sizes_are_named(name: str) -> None:
    sizes = {"in_channels": 5, "out_channels": 3, name: 0}
    with refused(param=name, value=0):
        H2GCN(**sizes)


@each("given", [0, 1, 3])
def test_the_number_of_operators_is_checked(given: int) -> None:
    operator = operators_of("h2gcn-s1", GRAPHS["path"])[0]
    with pytest.raises(
        ValueError,
        match=rf"H2GCN with hops \(1, 2\) takes 2 operators, got {given}",
    ):
        build("h2gcn-1")(features(5), [operator] * given)


# --------------------------------------------------------------------- directions

WITH_RINGS = [name for name, variant in PAPER.items() if variant.hops]


def directed_oracle(variant: Variant, module: H2GCN, x: Matrix, adj: Matrix) -> Matrix:
    """Return the logits with rings along the edges and against them, in double."""
    weights = {n: w.detach().double().numpy() for n, w in module.named_parameters()}
    neighbourhoods = []
    for hop in variant.hops:
        a = ring(adj, hop) + variant.own * np.eye(len(x))
        out, into = (np.maximum(a.sum(axis=axis), 1) for axis in (1, 0))
        along = a / np.sqrt(np.outer(out, into))
        neighbourhoods += [along, along.T]
    r = relu(x @ weights["embedding"])
    representations = [r]
    for k in range(variant.rounds):
        parts = [a @ r for a in neighbourhoods]
        r = np.hstack(parts)
        if variant.nonlinear:
            joined = np.hstack([representations[-1], r])
            r = relu(joined @ weights[f"round_embeddings.{k}"])
        representations.append(r)
    final = np.hstack([representations[k] for k in variant.final])
    return final @ weights["classifier"]


def directed_operators(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    spec = MODELS[name].given({"directed": True})
    assert spec.directed
    assert not spec.symmetric
    return tuple(Operator(a) for a in spec.operators(adj))


def test_directed_rings_by_hand() -> None:
    # 0 ⇄ 1 → 3 → 4, 0 → 2 → 3 → 0; 5 is alone.
    one, back, two, far = directed_ring_operators(DIRECTED)
    assert (one.toarray() > 0).tolist() == (DIRECTED.toarray() > 0).tolist()
    assert np.argwhere(two.toarray()).tolist() == [
        [0, 3],
        [1, 2],
        [1, 4],
        [2, 0],
        [2, 4],
        [3, 1],
        [3, 2],
    ]
    assert two.toarray()[1, 2] == pytest.approx(0.5), "two from 1, two to 2"
    assert two.toarray()[0, 3] == pytest.approx(1.0), "one from 0, one to 3"
    np.testing.assert_array_equal(back.toarray(), one.toarray().T)
    np.testing.assert_array_equal(far.toarray(), two.toarray().T)
    for matrix in (one, back, two, far):
        assert not matrix.diagonal().any(), "0 and 1 come back to themselves"
        assert matrix.dtype == np.float32


@each("name", WITH_RINGS)
@each("training", [False, True])
def test_directed_logits_are_their_formula(name: str, training: bool) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_channels": WIDTH, "dropout": 0.0}
    module = H2GCN(FEATURES, CLASSES, **sizes, directed=True, **MODELS[name].fixed)
    module.train(training)
    x, operators = features(6), directed_operators(name, DIRECTED)
    expected = directed_oracle(PAPER[name], module, x.double().numpy(), DIRECTED)
    target, index = target_of(operators, 6)
    assert_same(module(x, operators), expected)
    assert_same(module(x, operators, target), expected[index])
    part = receptive_field(
        x, operators, np.array(index), module.reach, torch.device("cpu")
    )
    assert_same(module(part.x, part.operators, part.target), expected[index])


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_without_directions_both_rings_are_the_papers(adj: sp.csr_array) -> None:
    plain = ring_operators(adj)
    doubled = directed_ring_operators(adj)
    for number, matrix in enumerate(doubled):
        np.testing.assert_allclose(
            matrix.toarray(), plain[number // 2].toarray(), rtol=1e-6
        )


def test_the_option_is_off_unless_it_is_given() -> None:
    spec = MODELS["h2gcn-2"]
    for options in (None, {}, {"directed": False}, {"dropout": 0.1}):
        assert spec.given(options) is spec
    assert not spec.options["directed"]
    assert "directed" not in MODELS["mlp"].options
    assert "directed" not in repr(H2GCN(2, 2))
    assert repr(H2GCN(2, 2, directed=True)).endswith(", directed=True)")


def test_a_directed_module_names_what_it_wants() -> None:
    message = r"H2GCN with hops \(1, 2\), directed, takes 4 operators, got 2"
    with pytest.raises(ValueError, match=message):
        H2GCN(2, 2, directed=True)(torch.eye(2), [Operator(NAMED["path"])] * 2)


@each("batch_size", [None, 7])
def test_a_directed_h2gcn_from_fit_to_file(
    small_graph: Graph, tmp_path: Path, batch_size: int | None
) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    params = {"epochs": 3, "random_state": 0, "scaling": "none", "dropout": 0.0}
    params |= {"batch_size": batch_size}
    plain = NodeClassifier("h2gcn-2", **params).fit(graph)
    clf = NodeClassifier("h2gcn-2", options={"directed": True}, **params).fit(graph)
    logits = clf.predict_logits(graph)
    x = graph.x.astype(float)
    expected = directed_oracle(PAPER["h2gcn-2"], clf.module_, x, graph.directed)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    # One after the other on one graph: each has its own operators.
    expected = oracle(PAPER["h2gcn-2"], plain.module_, x, graph.adj)
    found = plain.predict_logits(graph)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    clf.save(tmp_path / "m")
    # Batches are not saved: the whole graph at once adds in another order.
    loaded = NodeClassifier.load(tmp_path / "m").predict_logits(graph)
    np.testing.assert_allclose(loaded, logits, rtol=1e-4, atol=1e-4)
    assert batch_size or loaded.tobytes() == logits.tobytes()


@each(("name", "value"), [("ring_cap", 4), ("ring_store", "x")])
def test_directed_rings_are_whole_and_in_memory(
    small_graph: Graph, name: str, value: object
) -> None:
    clf = NodeClassifier("h2gcn-1", options={"directed": True}, **{name: value})
    with refused(param=name, words="'directed'"):
        clf.fit(small_graph)


def test_directed_rings_are_held_to_the_limit(small_graph: Graph) -> None:
    params = {"epochs": 1, "random_state": 0, "options": {"directed": True}}
    with pytest.raises(
        InputError, match=r"will not fit in memory: .* the limit is 1 by"
    ):
        NodeClassifier("h2gcn-1", memory_limit=1e-9, **params).fit(small_graph)
    NodeClassifier("h2gcn-1", memory_limit=1.0, **params).fit(small_graph)


# --------------------------------------------------------------- labels in its rings


def table_of(adj: sp.csr_array, y: NDArray[np.int64], train: list[int]) -> TableInput:
    """Return own features and the labels of some nodes in rings 1 and 2."""
    n = adj.shape[0]
    graph = Graph(x=features(n).numpy(), adj=adj, y=y, classes=np.arange(CLASSES))
    known = torch.zeros(n, CLASSES)
    known[train, torch.from_numpy(y[train])] = 1
    maker = TableMaker(graph)
    return maker.build(
        maker.schema(MODELS["h2gcn-2"].given({"labels": True}).table),
        graph.x,
        "x",
        known,
    )


def with_labels(dropout: float = 0.5) -> H2GCN:
    torch.manual_seed(0)
    widths = (FEATURES, CLASSES + 1, CLASSES + 1)
    return H2GCN(widths, CLASSES, hidden_channels=WIDTH, dropout=dropout, labels=True)


def test_labels_in_rings_are_added_to_what_the_paper_computes() -> None:
    adj = random_adjacency()
    y, train = np.arange(12) % CLASSES, [0, 2, 3, 7, 8]
    module, operators = with_labels().eval(), operators_of("h2gcn-2", adj)
    table = table_of(adj, y, train)
    logits = module(table, operators)
    paper = module(table.blocks["own"], operators)
    weights = module.of_labels.detach().numpy()
    distance = shortest_path(adj, unweighted=True)
    expected = np.zeros((12, CLASSES))
    for ring in (1, 2):
        for node in range(12):
            near = [other for other in train if distance[node, other] == ring]
            row = np.append(np.bincount(y[near], minlength=CLASSES), 0.0)
            row[:CLASSES] /= max(len(near), 1)
            row[CLASSES] = np.log1p(len(near))
            first = (ring - 1) * (CLASSES + 1)
            expected[node] += row @ weights[first : first + CLASSES + 1]
    found = (logits - paper).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    index = np.array([11, 0, 5])
    some = module(table, operators, Target.of(operators, index))
    torch.testing.assert_close(some, logits[index])


def test_a_nodes_own_label_does_not_change_what_is_said_of_it() -> None:
    adj, train = random_adjacency(p=0.4), list(range(9))
    y = np.arange(12) % CLASSES
    module, operators = with_labels().eval(), operators_of("h2gcn-2", adj)
    for node in train:
        other = y.copy()
        other[node] = (y[node] + 1) % CLASSES
        one, two = (
            module(table_of(adj, labels, train), operators) for labels in (y, other)
        )
        assert torch.equal(one[node], two[node])
    assert not torch.equal(one, two)


def test_labels_are_off_by_default_and_none_of_mlps_options() -> None:
    assert MODELS["h2gcn-1"].options["labels"] is False
    assert "labels" not in MODELS["mlp"].options
    assert MODELS["h2gcn-1"].given({"labels": True}).inputs == "table"
    assert MODELS["h2gcn-s1"].given({"labels": True}).table == "own+labels.ring1"
    assert [name for name, _ in H2GCN(2, 2).named_parameters()] == [
        "embedding",
        "classifier",
    ]


def test_with_labels_it_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    adj, y = random_adjacency(30, 0.1), np.arange(30) % CLASSES
    graph = Graph(x=features(30).numpy(), adj=adj, y=y)
    options = {"labels": True}
    clf = NodeClassifier("h2gcn-1", epochs=3, options=options, random_state=0)
    clf.fit(graph).save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    np.testing.assert_allclose(
        clf.move(batch_size=7).predict_logits(graph), logits, rtol=1e-5, atol=1e-5
    )


# ------------------------------------------------------- what two calls have in common


@each(
    ("name", "dropout", "shared"),
    [
        # The embedding is made once; without dropout, both inner rings are too.
        ("h2gcn-2", 0.5, 1),
        ("h2gcn-2", 0.0, 3),
        # Dropout comes after the rounds.
        ("h2gcn-nonlinear", 0.5, 3),
        ("h2gcn-nonlinear", 0.0, 3),
    ],
)
def test_an_evaluation_leaves_to_the_step_what_they_share(
    name: str, dropout: float, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    adj = GRAPHS["random"]
    operators = operators_of(name, adj)
    target, _ = target_of(operators, 12)
    products: list[int] = []

    multiply, write = Operator.__matmul__, Products.write

    def multiplied(self: Operator, dense: Tensor) -> Tensor:
        products.append(1)
        return multiply(self, dense)

    def written(self: Products, *given: Any, **named: Any) -> None:
        products.append(sum(len(batch._table) for batch in self._batches))
        write(self, *given, **named)

    monkeypatch.setattr(Operator, "__matmul__", multiplied)
    monkeypatch.setattr(Products, "write", written)
    x = Operator(sp.csr_array(features(12).numpy()))
    module = build(name, dropout=dropout)

    def evaluate() -> Tensor:
        with torch.no_grad():
            return module.eval()(x, operators, target)

    def step() -> tuple[Tensor, ...]:
        torch.manual_seed(3)
        logits = module.train()(x, operators, target)
        return torch.autograd.grad(logits.square().sum(), list(module.parameters()))

    with module.remembering():
        expected = evaluate()
    with module.remembering():  # which is new, and has nothing of before
        of_step = step()
    alone = sum(products)
    products.clear()
    with module.remembering():
        assert torch.equal(evaluate(), expected)
        for ours, theirs in zip(step(), of_step, strict=True):
            torch.testing.assert_close(ours, theirs)
        assert alone - sum(products) == shared
        # After a step nothing is left of before: fused optimisers say nothing.
        with torch.no_grad():
            module.embedding.data.mul_(2)
        changed = evaluate()
    torch.testing.assert_close(evaluate(), changed)
    assert not torch.allclose(changed, expected)
