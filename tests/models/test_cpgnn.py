"""CPGNN: where its compatibilities come from, its penalty, and hubs."""

import numpy as np
import pytest
import torch

from h2gcn import NodeClassifier, Split
from h2gcn.models import build_model
from models.oracles import ORACLES, mlp, part, softmax
from models.test_all_models import dense
from support.cases import each
from support.dropout import mask_of
from support.graphs import GRAPHS, adjacency, make_graph
from support.models import initialise, logits, make, propagation, settings, weights_of

SIX = make_graph(adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)]))
"""A square with a chord, a tail, and a node of its own."""


def prior_of(module, graph):
    """Return the prior's probabilities of all nodes."""
    weights = part(weights_of(module), "prior")
    return softmax(mlp(weights, dense(graph), settings("cpgnn", {})))


@each("nodes", [None, [4, 0]])
def test_dropout_acts_on_the_priors_hidden_layer_of_all_nodes(nodes):
    options = {"rounds": 2, "dropout": 0.5}
    module, x, operators = make("cpgnn", SIX, **options)
    torch.manual_seed(4)
    mask = mask_of(torch.arange(6), 8, 0.5).double().numpy()
    torch.manual_seed(4)
    found = logits(module.train(), x, operators, nodes).detach()
    given = settings("cpgnn", options)
    expected = ORACLES["cpgnn"](
        weights_of(module),
        dense(SIX),
        given,
        lambda h, p, by_node: h * mask,  # noqa: ARG005
    )
    expected = expected if nodes is None else expected[nodes]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_new_module_says_what_its_prior_says():
    module = build_model("cpgnn", 5, 3, {"hidden_channels": 8}).eval()
    assert not module.compatibility.any()
    found = logits(module, torch.from_numpy(SIX.x), propagation("cpgnn", SIX))
    np.testing.assert_allclose(found.detach(), prior_of(module, SIX), rtol=1e-5)


def test_the_prior_is_trained_alone_first():
    module, x, _ = make("cpgnn", SIX)
    found = logits(module.prior, x, ()).detach()
    expected = prior_of(module, SIX)
    np.testing.assert_allclose(found.softmax(dim=1), expected, rtol=1e-5)
    assert module.trained_first() is module.prior


def initialised_by_loops(module, graph, labels, index):
    """Return the estimate of Ĥ where every class has a training node with edges."""
    a, beliefs = graph.adj.toarray(), prior_of(module, graph)
    for node, label in zip(index, labels, strict=True):
        beliefs[node] = np.eye(3)[label]
    h = np.zeros((3, 3))
    for c in range(3):
        nodes = [v for v, k in zip(index, labels, strict=True) if k == c and a[v].any()]
        h[c] = np.mean([beliefs[a[v] > 0].mean(axis=0) for v in nodes], axis=0)
    for _ in range(1000):  # Sinkhorn and Knopp
        h = h / h.sum(axis=1, keepdims=True)
        h = h / h.sum(axis=0)
    return (h + h.T) / 2 - 1 / 3


@each(("labels", "index"), [([0, 1, 2], [0, 1, 4]), ([2, 1, 0, 0, 2], [2, 3, 0, 5, 4])])
def test_the_compatibility_is_estimated_from_labels_and_prior(labels, index):
    module, x, operators = make("cpgnn", SIX, dropout=0.5)
    initialise(module, x, operators, labels, index)
    expected = initialised_by_loops(module, SIX, labels, index)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(module.compatibility.detach(), expected, atol=1e-5)
    assert module.compatibility.requires_grad
    # Doubly stochastic less 1/C: nothing to penalise yet.
    assert module.penalty().item() == pytest.approx(0, abs=1e-5)


def test_any_graph_can_be_initialised():
    for graph in GRAPHS.values():
        last = graph.n_nodes - 1
        for labels, index in (([0, 1], [0, 1]), ([2], [last]), ([0, 0], [0, last])):
            module, x, operators = make("cpgnn", graph, rounds=2)
            initialise(module, x, operators, labels, index)
            assert torch.isfinite(module.compatibility).all()
            assert torch.isfinite(logits(module, x, operators)).all()


def test_the_penalty_is_the_sum_of_the_rows_distances_from_zero():
    module = build_model("cpgnn", 2, 2, {})
    assert module.penalty().item() == 0
    with torch.no_grad():
        module.compatibility.copy_(torch.tensor([[1.0, -3.0], [2.0, 0.5]]))
    assert module.penalty().item() == 4.5
    module.penalty().backward()
    assert module.compatibility.grad.tolist() == [[-1, -1], [1, 1]]


def test_weights_are_reached_where_the_compatibility_is_still_zero():
    for rounds in (1, 2):
        module, x, operators = make("cpgnn", SIX, rounds=rounds, dropout=0.0)
        with torch.no_grad():
            module.compatibility.zero_()
        found = logits(module, x, operators)
        torch.nn.functional.cross_entropy(found, torch.arange(6) % 3).backward()
        for weight in module.parameters():
            assert weight.grad.abs().max() > 0


@pytest.mark.filterwarnings("ignore:.*same neighbours:h2gcn.exceptions.H2GCNWarning")
@pytest.mark.parametrize("rounds", [1, 2])
def test_fifty_epochs_on_a_hub_stay_finite(rounds):
    n = 2001
    hub = make_graph(adjacency(n, [(0, v) for v in range(1, n)]))
    hub.x[:, 0] += 3 * hub.y
    split = Split(np.arange(1000), np.arange(1000, 1500), np.array([n - 1]))
    params = {"epochs": 50, "random_state": 0, "options": {"rounds": rounds}}
    clf = NodeClassifier("cpgnn", **params).fit(hub, split)
    assert len(clf.history_) == 50
    assert clf.history_[-1].loss < clf.history_[0].loss
    assert np.isfinite(clf.predict_logits(hub)).all()
