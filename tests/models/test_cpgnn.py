"""CPGNN: how it is trained, its penalty, and hubs."""

import numpy as np
import pytest
import torch

from h2gcn.models import build_model
from models.oracles import ORACLES, mlp, part, softmax
from support.dropout import mask_of
from support.fits import rehearse, train_module
from support.graphs import GRAPHS, SIX, adjacency, make_graph
from support.models import dense, logits, make, propagation, settings, weights_of

GRAPH = make_graph(SIX)
Y = np.array([0, 1, 2, 2, 0, 1])


def prior_of(module, graph):
    """Return the prior's probabilities of all nodes."""
    weights = part(weights_of(module), "prior")
    return softmax(mlp(weights, dense(graph), settings("cpgnn", {})))


def test_dropout_acts_on_the_hidden_layer_of_the_prior_of_all_nodes():
    options = {"rounds": 2, "dropout": 0.5}
    module, x, operators = make("cpgnn", GRAPH, **options)
    torch.manual_seed(4)
    mask = mask_of(torch.arange(6), 8, 0.5).double().numpy()
    expected = ORACLES["cpgnn"](
        weights_of(module),
        dense(GRAPH),
        settings("cpgnn", options),
        lambda h, p, by_node: h * mask,  # noqa: ARG005
    )
    module.train()
    for nodes in ([0, 1, 2, 3, 4, 5], [4, 0]):
        torch.manual_seed(4)
        found = logits(module, x, operators, nodes).detach()
        np.testing.assert_allclose(found, expected[nodes], rtol=1e-5, atol=1e-5)


def test_a_new_module_predicts_what_its_prior_predicts():
    module = build_model("cpgnn", 5, 3, {"hidden_channels": 8}).eval()
    found = logits(module, torch.from_numpy(GRAPH.x), propagation("cpgnn", GRAPH))
    np.testing.assert_allclose(found.detach(), prior_of(module, GRAPH), rtol=1e-5)


def estimate_by_loops(module, index):
    """Return the estimate of Ĥ where every class has a training node with edges."""
    a, beliefs = GRAPH.adj.toarray(), prior_of(module, GRAPH)
    beliefs[index] = np.eye(3)[Y[index]]
    h = np.zeros((3, 3))
    for c in range(3):
        nodes = [v for v in index if Y[v] == c and a[v].any()]
        h[c] = np.mean([beliefs[a[v] > 0].mean(axis=0) for v in nodes], axis=0)
    for _ in range(1000):  # Sinkhorn and Knopp
        h = h / h.sum(axis=0)
        h = h / h.sum(axis=1, keepdims=True)
    return (h + h.T) / 2 - 1 / 3


def test_the_prior_is_trained_then_the_compatibility_estimated_then_all_trained():
    for index in ([0, 1, 2], [2, 3, 0, 5, 4, 1]):
        module, x, operators = make("cpgnn", GRAPH, dropout=0.5)
        first, second = rehearse(module, x, operators, Y, index)
        assert (first.kind, first.length) == ("pretrain", 400)
        assert first.learners == {n for n in first.weights if n.startswith("prior.")}
        assert (second.kind, second.length, second.loss) == ("train", None, None)
        assert second.learners == set(second.weights)
        expected = estimate_by_loops(module, index)
        assert np.abs(expected).max() > 0.05
        found = second.weights["compatibility"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        # Doubly stochastic less 1/C: there is no penalty yet.
        assert module.penalty().item() == pytest.approx(0, abs=1e-5)


def test_any_graph_can_be_fitted():
    for title, graph in GRAPHS.items():
        for index in ([0, 1], [graph.n_nodes - 1]):
            module, x, operators = make("cpgnn", graph, rounds=2)
            train_module(module, x, operators, graph.y, index, epochs=2)
            assert torch.isfinite(logits(module, x, operators)).all(), title


def test_the_penalty_is_the_distance_of_row_sums_from_zero():
    module = build_model("cpgnn", 2, 2, {})
    assert module.penalty().item() == 0
    with torch.no_grad():
        module.compatibility.copy_(torch.tensor([[1.0, -3.0], [2.0, 0.5]]))
    assert module.penalty().item() == 4.5
    module.penalty().backward()
    assert module.compatibility.grad.tolist() == [[-1, -1], [1, 1]]


def test_gradients_reach_all_weights_where_the_compatibility_is_zero():
    for rounds in (1, 2):
        module, x, operators = make("cpgnn", GRAPH, rounds=rounds, dropout=0.0)
        torch.nn.init.zeros_(module.compatibility)
        found = logits(module, x, operators)
        torch.nn.functional.cross_entropy(found, torch.arange(6) % 3).backward()
        for weight in module.parameters():
            assert weight.grad.abs().max() > 0


def test_fifty_epochs_on_a_hub_stay_finite():
    n = 2001
    hub = make_graph(adjacency(n, [(0, v) for v in range(1, n)]))
    hub.x[:, 0] += 3 * hub.y
    x, operators = torch.from_numpy(hub.x), propagation("cpgnn", hub)
    for rounds in (1, 2):
        module = build_model("cpgnn", 5, 3, {"rounds": rounds})
        result = train_module(module, x, operators, hub.y, range(1000), epochs=50)
        losses = [epoch.loss for epoch in result.history]
        assert losses[-1] < losses[0]
        assert torch.isfinite(logits(module, x, operators)).all()
