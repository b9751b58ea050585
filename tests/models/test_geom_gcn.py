"""Geom-GCN against its formula: nine divisions, two layers, in dense loops."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.models import geom_gcn as geometry
from h2gcn.models.geom_gcn import DIVISIONS, GeometricMatrices, GeomGCN, embed
from h2gcn.sparse import Operator, Propagation, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 5, 3, 4
SELF = 8


def random_adjacency(n: int = 15, p: float = 0.15, seed: int = 0) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 5)])
"""A triangle with tails of one and of two edges: no symmetry at all."""
GRAPHS = {
    **NAMED,
    "six": SIX,
    "random": random_adjacency(),
    "dense": random_adjacency(14, 0.4, seed=2),
}


def divisions(adj: sp.csr_array) -> list[Matrix]:
    """Return the nine normalised divisions, pair by pair, from the layout."""
    (z, component), a = embed(adj), adj.toarray()
    n, slack = len(a), 1e-8
    apart = {
        (v, u): float(np.hypot(*(z[v] - z[u])))
        for v in range(n)
        for u in range(n)
        if u != v and component[u] == component[v]
    }
    wanted = a.sum() / n
    rho = -1.0
    for rho in [-1.0, *sorted(apart.values())]:
        if sum(d <= rho for d in apart.values()) / n >= wanted:
            break
    binary = np.zeros((DIVISIONS, n, n))
    for v in range(n):
        binary[SELF, v, v] = 1
        for u in range(n):
            latent = (v, u) in apart and apart[v, u] <= rho + slack
            if latent or a[v, u]:
                left = z[u, 0] < z[v, 0] - slack
                lower = z[u, 1] < z[v, 1] - slack
                relation = {(1, 0): 0, (0, 0): 1, (1, 1): 2, (0, 1): 3}[left, lower]
                binary[4 * latent + relation, v, u] = 1
    degree = binary.sum(axis=(0, 2))
    root = np.diag(degree**-0.5)
    return [root @ m @ root for m in binary]


def oracle(
    module: GeomGCN,
    x: Matrix,
    operators: list[Matrix],
    first_mask: NDArray[np.float32] | float = 1.0,
    second_mask: NDArray[np.float32] | float = 1.0,
) -> Matrix:
    """Return the logits: one map a division, then one sum a node, in double."""
    first, second = (
        np.split(w.detach().double().numpy(), DIVISIONS, axis=1)
        for w in (module.first, module.second)
    )
    x = x * first_mask
    parts = [m @ x @ w for m, w in zip(operators, first, strict=True)]
    hidden = np.concatenate(parts, axis=1)
    if module.activation == "relu":
        hidden = np.maximum(hidden, 0)
    hidden = hidden * second_mask
    return np.mean(
        [m @ hidden @ w for m, w in zip(operators, second, strict=True)], axis=0
    )


def build(dropout: float = 0.0, activation: str = "relu") -> GeomGCN:
    torch.manual_seed(1)
    return GeomGCN(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        dropout=dropout,
        activation=activation,
    )


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(matrix) for matrix in GeometricMatrices()(adj))


def features(n: int, seed: int = 2) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def assert_same(logits: Tensor, expected: Matrix) -> None:
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_operators_are_the_divisions_of_both_neighbourhoods(adj: sp.csr_array) -> None:
    matrices = GeometricMatrices()(adj)
    assert len(matrices) == DIVISIONS == 9
    for matrix, expected in zip(matrices, divisions(adj), strict=True):
        assert matrix.shape == adj.shape
        assert matrix.dtype == np.float32
        assert matrix.has_sorted_indices
        assert matrix.data.all()
        np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-6)


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_divisions_are_disjoint_and_cover_the_graph_and_the_loops(
    adj: sp.csr_array,
) -> None:
    binary = np.array([m.toarray() > 0 for m in GeometricMatrices()(adj)])
    together = binary.sum(axis=0)
    assert together.max() == 1
    np.testing.assert_array_equal(together, together.T)
    assert (together[adj.toarray() > 0] == 1).all()
    np.testing.assert_array_equal(binary[SELF], np.eye(adj.shape[0]))


def test_self_loops_and_stored_zeros_of_the_input_do_not_count() -> None:
    rows, columns = SIX.nonzero()
    entries = np.r_[SIX.data, 1, 0, 0], (np.r_[rows, 0, 0, 4], np.r_[columns, 0, 4, 0])
    untidy = sp.csr_array(entries, shape=(6, 6))
    assert untidy.nnz == SIX.nnz + 3
    for one, other in zip(
        GeometricMatrices()(untidy), GeometricMatrices()(SIX), strict=True
    ):
        np.testing.assert_array_equal(one.toarray(), other.toarray())


@each("adj", [SIX, random_adjacency(40, 0.1, seed=1)])
def test_renumbering_the_nodes_renumbers_the_operators(adj: sp.csr_array) -> None:
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(adj.shape[0])
        permuted = GeometricMatrices()(sp.csr_array(adj[order][:, order]))
        for one, other in zip(permuted, GeometricMatrices()(adj), strict=True):
            np.testing.assert_array_equal(
                one.toarray(), other.toarray()[order][:, order]
            )


def test_a_graph_too_large_for_isomap_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("distances were computed")

    monkeypatch.setattr(geometry, "available_memory", lambda: 10_000)
    monkeypatch.setattr("scipy.sparse.csgraph.shortest_path", never)
    path = adjacency(30, [(i, i + 1) for i in range(29)])
    with pytest.raises(
        InputError,
        match=r"geom-gcn embeds the graph by Isomap, .* for the 30 nodes of the "
        r"largest connected component; here it can do up to 9 nodes\. Instead, use h",
    ):
        GeometricMatrices()(path)


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("activation", ["relu", "none"])
def test_geom_gcn_is_its_formula(adj: sp.csr_array, activation: str) -> None:
    module = build(activation=activation)
    n = adj.shape[0]
    x, operators = features(n), operators_of(adj)
    expected = oracle(module, x.double().numpy(), divisions(adj))
    index = np.array([n - 1, 0, n - 1])
    target = Propagation(operators, torch.as_tensor(index))
    for mode in (module.eval, module.train):
        mode()
        assert_same(module(x, Propagation(operators)), expected)
        assert_same(module(x, target), expected[index])


def test_one_dropout_acts_on_the_input_of_each_layer() -> None:
    module = build(dropout=0.5).train()
    x, operators = features(6), operators_of(SIX)
    torch.manual_seed(4)
    shapes = (6, FEATURES), (6, DIVISIONS * WIDTH)
    masks = [dropout(torch.ones(shape), 0.5).numpy() for shape in shapes]
    expected = oracle(module, x.double().numpy(), divisions(SIX), *masks)
    index = np.array([5, 2])
    torch.manual_seed(4)
    assert_same(module(x, Propagation(operators)), expected)
    torch.manual_seed(4)
    some = module(x, Propagation(operators, torch.as_tensor(index)))
    assert_same(some, expected[index])


def test_each_division_is_drawn_by_glorot_uniform_for_itself() -> None:
    torch.manual_seed(0)
    module = GeomGCN(300, 60, hidden_channels=20)
    for weight in (module.first, module.second):
        blocks = weight.detach().chunk(DIVISIONS, dim=1)
        for block in blocks:
            bound = (6 / sum(block.shape)) ** 0.5
            assert 0.98 * bound < block.abs().max() <= bound
            assert float(block.std()) == pytest.approx(bound / 3**0.5, rel=0.05)
        assert not torch.equal(blocks[0], blocks[1])


@each(
    "options",
    [
        {"dropout": 1.0},
        {"hidden_channels": 0},
        {"hidden_channels": 65_537},
        {"activation": "rely"},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    given = {"in_channels": FEATURES, "out_channels": CLASSES} | options
    with refused(**only(options)):
        GeomGCN(**given)


@each("given", [0, 8, 10])
def test_the_number_of_matrices_is_checked(given: int) -> None:
    operator = operators_of(SIX)[0]
    with pytest.raises(ValueError, match=f"takes 9 matrices, got {given}"):
        build()(features(6), Propagation([operator] * given))
