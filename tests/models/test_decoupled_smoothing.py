"""Decoupled smoothing against the dense harmonic function on the two-hop graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models.decoupled_smoothing import DecoupledSmoothing
from h2gcn.sparse import Operator, Propagation
from models.oracles import Dense, decoupled_smoothing
from support.graphs import SIX, adjacency, cycle, one_hot, random_adjacency

VARIANCES = ("degree", "equal")


def predict(adj, x, index=None, **options):
    """Return the log-shares of the target nodes."""
    module = DecoupledSmoothing(x.shape[1], x.shape[1], **options)
    index = None if index is None else torch.as_tensor(index)
    return module(x, Propagation([Operator(adj, symmetric=True)], index))


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
    graph = Dense(None, adj.toarray().astype(float), None, x.double().numpy())
    expected = np.exp(decoupled_smoothing(None, graph, {"variance": variance}))
    logits = predict(adj, x, variance=variance)
    np.testing.assert_allclose(logits.double().exp(), expected, atol=1e-5)
    unreached = np.isclose(expected, 1 / 3).all(axis=1)
    assert (logits[unreached] == logits[unreached, :1]).all()  # to the bit


def test_a_pair_counts_for_each_node_between_by_degree_or_a_share_of_it():
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
