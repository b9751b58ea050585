"""MixHop: statistics of the graph at hand, and its penalty."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models import build_model
from h2gcn.sparse import Operator
from models.oracles import ORACLES
from models.test_all_models import assert_close, dense
from support.graphs import GRAPHS, make_graph
from support.models import logits, make, settings, weights_of
from support.refusals import refused


def formula(module, graph):
    return ORACLES["mixhop"](weights_of(module), dense(graph), settings("mixhop", {}))


def test_a_node_without_features_and_a_graph_of_one_node_stay_finite():
    values = GRAPHS["random"].x.copy()
    values[[1, 5]] = 0
    one_node = make_graph(sp.csr_array((1, 1), dtype=np.float32))
    for graph in (replace(GRAPHS["random"], x=values), one_node):
        module, x, operators = make("mixhop", graph, dropout=0, input_dropout=0)
        for features in (x, Operator(sp.csr_array(graph.x))):
            for training in (False, True):
                module.train(training).zero_grad()
                found = logits(module, features, operators)
                assert_close(found, formula(module, graph))
                found.sum().backward()
                assert all(torch.isfinite(w.grad).all() for w in module.parameters())


def test_the_length_of_a_nodes_features_does_not_matter():
    module, x, operators = make("mixhop", GRAPHS["random"])
    scales = torch.linspace(0.1, 20, 12)[:, None]
    expected = logits(module, x, operators)
    torch.testing.assert_close(logits(module, scales * x, operators), expected)


def test_statistics_are_of_the_graph_at_hand_in_evaluation_too():
    graph = GRAPHS["isolated last node"]
    module, x, operators = make("mixhop", graph)
    logits(module.train(), *make("mixhop", GRAPHS["random"])[1:])
    before = logits(module.eval(), x, operators)
    assert_close(before, formula(module, graph))
    assert not list(module.buffers())
    # The last node has no neighbor, yet depends on the others.
    x = x.clone()
    x[0] = -x[0]
    assert (logits(module, x, operators) - before)[3].abs().max() > 1e-4


def test_the_penalty_is_a_thousandth_of_the_mean_square_of_the_scores():
    module, _, _ = make("mixhop", GRAPHS["path"])
    scores = torch.tensor([1.0, -2.0, 4.0])
    module.scores.data.copy_(scores)
    penalty = module.penalty()
    assert penalty.item() == pytest.approx(7e-3)
    penalty.backward()
    torch.testing.assert_close(module.scores.grad, scores * 2e-3 / 3)


def test_powers_are_sorted_and_have_a_column_each():
    assert build_model("mixhop", 5, 3, {"powers": [2, 0, 1]}).powers == (0, 1, 2)
    with refused(param="hidden_channels", value=2):
        build_model("mixhop", 5, 3, {"hidden_channels": 2})
