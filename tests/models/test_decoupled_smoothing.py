"""Decoupled smoothing against the dense harmonic function on the two-hop graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models.decoupled_smoothing import DecoupledSmoothing
from h2gcn.sparse import Operator, Propagation
from support.graphs import NAMED, SIX, adjacency, cycle, one_hot, random_adjacency

VARIANCES = ("degree", "equal")


def predict(adj, x, index=None, **options):
    """Return the log-shares of the target nodes."""
    module = DecoupledSmoothing(x.shape[1], x.shape[1], **options)
    index = None if index is None else torch.as_tensor(index)
    return module(x, Propagation([Operator(adj, symmetric=True)], index))


def two_hop_weights(adj, variance):
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


def harmonic_shares(weights, y):
    """Return shares where each node but the known ones is the mean of those around it.

    Nodes that no label reaches are left out of the system; their shares are equal.
    """
    known = y.any(axis=1)
    walks = np.linalg.matrix_power((weights > 0) + np.eye(len(y)), len(y))
    free = np.flatnonzero(~known & ((walks > 0) @ known))
    laplacian = np.diag(weights.sum(axis=1)) - weights
    f = y.copy()
    f[free] = np.linalg.solve(
        laplacian[np.ix_(free, free)], weights[np.ix_(free, known)] @ y[known]
    )
    total = f.sum(axis=1, keepdims=True)
    return np.where(total > 0, f / np.where(total > 0, total, 1), 1 / f.shape[1])


def test_shares_are_harmonic_on_the_two_hop_graph():
    for name, adj in {**NAMED, "six": SIX}.items():
        n = adj.shape[0]
        x = one_hot(n, {0: 1, n - 1: 2})
        for variance in VARIANCES:
            weights = two_hop_weights(adj, variance)
            expected = harmonic_shares(weights, x.double().numpy())
            logits = predict(adj, x, variance=variance)
            assert logits.dtype == torch.float32
            shares = logits.double().exp()
            np.testing.assert_allclose(shares, expected, atol=1e-5, err_msg=name)
            some = predict(adj, x, [n - 1, 0, 0], variance=variance)
            assert torch.equal(some, logits[[n - 1, 0, 0]])


@given(
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    variance=st.sampled_from(VARIANCES),
    n_known=st.sampled_from([0, 1, 5, 14]),
)
def test_shares_are_harmonic_on_any_graph_by_its_weights(
    seed, weighted, variance, n_known
):
    adj, rng = random_adjacency(seed, 14, 0.15), np.random.default_rng(seed)
    if weighted:
        upper = np.triu(rng.integers(1, 5, size=(14, 14)), 1)
        adj = adj.multiply(upper + upper.T).tocsr().astype(np.float32)
    x = one_hot(14, {v: rng.integers(3) for v in rng.choice(14, n_known, False)})
    expected = harmonic_shares(two_hop_weights(adj, variance), x.double().numpy())
    logits = predict(adj, x, variance=variance)
    np.testing.assert_allclose(logits.double().exp(), expected, atol=1e-5)
    unreached = np.isclose(expected, 1 / 3).all(axis=1)
    assert (logits[unreached] == logits[unreached, :1]).all()  # to the bit


def test_a_pair_counts_for_each_node_between_by_degree_or_a_share_of_it():
    weights = two_hop_weights(SIX, "degree") * 0.1
    np.testing.assert_allclose(weights, (SIX @ SIX).toarray(), atol=1e-9)
    # Two steps from node 4 are 0 and 2, both by way of 3.
    logits = predict(SIX, one_hot(6, {0: 0, 2: 1}))
    assert logits[4, :2].exp().tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert float(logits[4, 0]) == float(logits[4, 1])
    # Node 0 is two steps from 3 by the hub 1, and from 4 by node 2.
    hub = [(1, v) for v in (5, 6, 7, 8)]
    adj = adjacency(9, [(0, 1), (1, 3), (0, 2), (2, 4), *hub])
    x = one_hot(9, {3: 0, 4: 1, 5: 0, 6: 0, 7: 0, 8: 0}, 2)
    # By way of the hub, of degree six, five labels count a sixth each, the other ½.
    for variance, expected in (("degree", [5 / 6, 1 / 6]), ("equal", [5 / 8, 3 / 8])):
        shares = predict(adj, x, variance=variance)[0].exp().tolist()
        assert shares == pytest.approx(expected, abs=1e-5)


def test_labels_reach_only_their_side_of_a_bipartite_graph():
    logits = predict(cycle(6), one_hot(6, {0: 1}, 2))
    assert (logits[1::2, 0] == logits[1::2, 1]).all()
    assert (logits[::2].argmax(dim=1) == 1).all()


def test_too_few_steps_are_a_warning():
    path = adjacency(60, [(v, v + 1) for v in range(59)])
    x = one_hot(60, {0: 0, 1: 1}, 2)
    with pytest.warns(H2GCNWarning, match="not converged after 2 steps"):
        predict(path, x, steps=2)
