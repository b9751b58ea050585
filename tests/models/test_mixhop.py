"""MixHop: statistics of the graph at hand, powers in any order, and its penalty."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models import build_model
from h2gcn.sparse import Operator
from models.oracles import ORACLES
from models.test_all_models import dense
from support.graphs import GRAPHS, make_graph
from support.models import logits, make, settings, weights_of


def assert_is_its_formula(module, x, operators, graph):
    given = settings("mixhop", {})
    expected = ORACLES["mixhop"](weights_of(module), dense(graph), given)
    found = logits(module, x, operators).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_node_without_features_stays_finite():
    values = GRAPHS["random"].x.copy()
    values[[1, 5]] = 0
    graph = replace(GRAPHS["random"], x=values)
    for training in (False, True):
        module, x, operators = make("mixhop", graph, dropout=0, input_dropout=0)
        module.train(training)
        for given in (x, Operator(sp.csr_array(values))):
            assert_is_its_formula(module, given, operators, graph)
            module.zero_grad()
            logits(module, given, operators).sum().backward()
            for weight in module.parameters():
                assert torch.isfinite(weight.grad).all()


def test_a_graph_of_one_node_is_classified():
    graph = make_graph(sp.csr_array((1, 1), dtype=np.float32))
    assert_is_its_formula(*make("mixhop", graph), graph)


def test_the_length_of_a_nodes_features_does_not_matter():
    module, x, operators = make("mixhop", GRAPHS["random"])
    scales = torch.linspace(0.1, 20, 12)[:, None]
    expected = logits(module, x, operators)
    torch.testing.assert_close(logits(module, scales * x, operators), expected)


def test_the_statistics_are_of_the_graph_at_hand_in_evaluation_too():
    graph = GRAPHS["isolated last node"]
    module, x, operators = make("mixhop", graph)
    other = make("mixhop", GRAPHS["random"])[1:]
    logits(module.train(), *other)
    assert_is_its_formula(module.eval(), x, operators, graph)
    assert not list(module.buffers())
    # The last node has no neighbor, yet hears of the others.
    before = logits(module, x, operators)[3]
    x = x.clone()
    x[0] = -x[0]
    assert (logits(module, x, operators)[3] - before).abs().max() > 1e-4


def test_the_penalty_is_a_thousandth_of_the_mean_square_of_the_scores():
    module, _, _ = make("mixhop", GRAPHS["path"])
    scores = torch.tensor([1.0, -2.0, 4.0])
    with torch.no_grad():
        module.scores.copy_(scores)
    penalty = module.penalty()
    assert penalty.item() == pytest.approx(7e-3)
    penalty.backward()
    torch.testing.assert_close(module.scores.grad, scores * 2e-3 / 3)


def test_powers_come_back_from_json_and_in_any_order():
    powers = json.loads(json.dumps((2, 0, 1)))
    assert build_model("mixhop", 5, 3, {"powers": powers}).powers == (0, 1, 2)
