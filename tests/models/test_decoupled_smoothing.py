"""Decoupled smoothing against the dense harmonic function on the two-hop graph."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models.decoupled_smoothing import DecoupledSmoothing
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""
GRAPHS = {**NAMED, "six": SIX}


def one_hot(n: int, labels: dict[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def random_adjacency(n: int, seed: int, *, weighted: bool = False) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.25, 1).astype(np.float32)
    if weighted:
        upper *= rng.integers(1, 5, size=(n, n))
    return sp.csr_array(upper + upper.T)


def spreading(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(
        Operator(a, symmetric=True) for a in build_matrices([RowRule(norm="none")], adj)
    )


def two_hop_weights(adj: sp.csr_array, variance: str) -> Matrix:
    """Return Ã as the authors' program has it, W = A Σ⁻¹ and W Z⁻¹ Wᵀ, dense."""
    a = adj.toarray().astype(float)
    degrees = a.sum(axis=1)
    sigma = 0.1 / np.where(degrees > 0, degrees, 1)
    if variance == "equal":
        sigma = np.full(len(a), 0.1)
    w = a @ np.linalg.inv(np.diag(sigma))
    columns = w.sum(axis=0)
    z = np.diag(1 / np.where(columns > 0, columns, 1))
    return w @ z @ w.T


def harmonic(weights: Matrix, y: Matrix) -> Matrix:
    """Return each node's mean of those around it, training nodes as they are.

    Nodes that no label reaches are left out of the system, and zero.
    """
    known = y.any(axis=1)
    walks = np.linalg.matrix_power((weights > 0) + np.eye(len(y)), len(y))
    free = np.flatnonzero(~known & ((walks > 0) @ known))
    laplacian = np.diag(weights.sum(axis=1)) - weights
    found = y.copy()
    found[free] = np.linalg.solve(
        laplacian[np.ix_(free, free)], weights[np.ix_(free, known)] @ y[known]
    )
    return found


def shares_of(f: Matrix) -> Matrix:
    total = f.sum(axis=1, keepdims=True)
    return np.where(total > 0, f / np.where(total > 0, total, 1), 1 / f.shape[1])


@each("graph", GRAPHS)
@each("variance", ["degree", "equal"])
def test_shares_are_harmonic_on_the_two_hop_graph(graph: str, variance: str) -> None:
    adj = GRAPHS[graph]
    n = adj.shape[0]
    x, operators = one_hot(n, {0: 1, n - 1: 2}), spreading(adj)
    module = DecoupledSmoothing(3, 3, variance=variance)
    expected = shares_of(harmonic(two_hop_weights(adj, variance), x.double().numpy()))
    logits = module(x, Propagation(operators))
    assert logits.dtype == torch.float32
    np.testing.assert_allclose(logits.double().exp(), expected, atol=1e-5)
    index = np.array([n - 1, 0, 0])
    some = module(x, Propagation(operators, torch.as_tensor(index)))
    assert torch.equal(some, logits[index])


@given(
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    variance=st.sampled_from(["degree", "equal"]),
)
def test_it_is_harmonic_on_any_graph_and_by_what_edges_weigh(
    seed: int, weighted: bool, variance: str
) -> None:
    adj = random_adjacency(14, seed, weighted=weighted)
    rng = np.random.default_rng(seed)
    x = one_hot(14, {int(v): int(rng.integers(3)) for v in rng.choice(14, 5)})
    expected = shares_of(harmonic(two_hop_weights(adj, variance), x.double().numpy()))
    module = DecoupledSmoothing(3, 3, variance=variance)
    logits = module(x, Propagation(spreading(adj)))
    np.testing.assert_allclose(logits.double().exp(), expected, atol=1e-5)
    unreached = ~module.reached(x, Propagation(spreading(adj))).numpy()
    np.testing.assert_allclose(expected[unreached], 1 / 3)
    assert (x.any(dim=1).numpy() <= ~unreached).all()


def test_by_degree_a_pair_counts_for_each_node_between() -> None:
    np.testing.assert_allclose(
        two_hop_weights(SIX, "degree") * 0.1, (SIX @ SIX).toarray(), atol=1e-9
    )
    # Two steps from node 4 are 0 and 2, both by way of 3.
    x = one_hot(6, {0: 0, 2: 1})
    logits = DecoupledSmoothing(3, 3)(x, Propagation(spreading(SIX)))
    assert logits[4, :2].exp().tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert float(logits[4, 0]) == float(logits[4, 1])  # and no rounding tells


def test_the_two_variances_differ() -> None:
    # Node 0 is two steps from 3 by the hub 1, and from 4 by node 2.
    graph = adjacency(
        9, [(0, 1), (1, 3), (0, 2), (2, 4)] + [(1, v) for v in (5, 6, 7, 8)]
    )
    x = one_hot(9, {3: 0, 4: 1, 5: 0, 6: 0, 7: 0, 8: 0}, 2)
    by_degree = DecoupledSmoothing(2, 2)(x, Propagation(spreading(graph)))[0].exp()
    equal = DecoupledSmoothing(2, 2, variance="equal")(
        x, Propagation(spreading(graph))
    )[0].exp()
    assert by_degree.tolist() == pytest.approx([5 / 6, 1 / 6], abs=1e-5)
    # By way of the hub, of degree six, five labels count a sixth each, the other ½.
    assert equal.tolist() == pytest.approx([5 / 8, 3 / 8], abs=1e-5)


def test_the_other_side_of_a_bipartite_graph_is_not_reached() -> None:
    cycle = adjacency(6, [(v, (v + 1) % 6) for v in range(6)])
    x, module = one_hot(6, {0: 1}, 2), DecoupledSmoothing(2, 2)
    logits = module(x, Propagation(spreading(cycle)))
    assert (
        module.reached(x, Propagation(spreading(cycle))).tolist() == [True, False] * 3
    )
    assert (logits[1::2, 0] == logits[1::2, 1]).all()
    assert (logits[::2].argmax(dim=1) == 1).all()


def test_friends_of_friends_are_alike_where_friends_are_not() -> None:
    n = 40
    cycle = adjacency(n, [(v, (v + 1) % n) for v in range(n)])
    y = torch.arange(n) % 2
    x = one_hot(n, {v: int(y[v]) for v in (0, 1, 10, 11, 20, 21)}, 2)
    logits = DecoupledSmoothing(2, 2)(x, Propagation(spreading(cycle)))
    assert (logits.argmax(dim=1) == y).all()


def test_too_few_steps_are_said() -> None:
    path = adjacency(60, [(v, v + 1) for v in range(59)])
    x = one_hot(60, {0: 0, 1: 1}, 2)
    message = (
        r"decoupled smoothing has not converged: after 2 steps \S+ of the right side "
        r"is left; more 'steps' may help"
    )
    with pytest.warns(H2GCNWarning, match=message):
        DecoupledSmoothing(2, 2, steps=2)(x, Propagation(spreading(path)))


@each(
    "options",
    [
        {"in_channels": 5},
        {"variance": "equl"},
        {"steps": 0},
        {"steps": 10_001},
        {"tolerance": 0},
    ],
)
def test_bad_options_of_decoupled_smoothing_are_named(options: dict[str, Any]) -> None:
    given = {"in_channels": 2, "out_channels": 2} | options
    with refused(**only(options)):
        DecoupledSmoothing(**given)
