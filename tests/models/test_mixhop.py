"""MixHop: statistics of the graph at hand, and its penalty."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.sparse import Operator
from models.oracles import ORACLES
from support.graphs import GRAPHS, make_graph
from support.models import (
    assert_close,
    dense,
    logits,
    make,
    settings,
    weights_of,
)


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


def test_the_penalty_is_a_thousandth_of_the_mean_square_of_the_scores():
    module, _, _ = make("mixhop", GRAPHS["path"])
    scores = torch.tensor([1.0, -2.0, 4.0])
    module.scores.data.copy_(scores)
    penalty = module.penalty()
    assert penalty.item() == pytest.approx(7e-3)
    penalty.backward()
    torch.testing.assert_close(module.scores.grad, scores * 2e-3 / 3)
