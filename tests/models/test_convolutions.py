"""GCN, GAT and MixHop: what their formulas do not show."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.sparse import Operator, dropout
from models.oracles import ORACLES
from support.graphs import GRAPHS, adjacency, make_graph
from support.models import assert_close, dense, logits, make, settings, weights_of


def test_the_joined_layers_are_dropped_for_the_targets_rows_alone():
    graph, nodes = GRAPHS["random"], [5, 2]
    module, x, operators = make("gcn-jk", graph, dropout=0.5)
    torch.manual_seed(4)
    masks = [dropout(torch.ones(12, width), 0.5).numpy() for width in (5, 8, 8)]
    joined = np.zeros((12, 24))
    joined[nodes] = dropout(torch.ones(2, 24), 0.5).numpy()
    masks = iter([*masks, joined])
    options = settings("gcn-jk", {})
    expected = ORACLES["gcn-jk"](
        weights_of(module), dense(graph), options, lambda h, _: h * next(masks)
    )
    torch.manual_seed(4)
    assert_close(logits(module.train(), x, operators, nodes), expected[nodes])


def test_the_highest_degree_of_cheby_loses_little_to_rounding():
    graph, options = GRAPHS["random"], {"max_degree": 32}
    module, x, operators = make("gcn-cheby", graph, **options)
    options = settings("gcn-cheby", options)
    expected = ORACLES["gcn-cheby"](weights_of(module), dense(graph), options)
    assert_close(logits(module, x, operators), expected, rtol=1e-4)


def test_an_attention_score_of_any_size_has_a_finite_softmax():
    graph = GRAPHS["random"]
    module, x, operators = make("gat", graph)
    with torch.no_grad():
        for layer in (module.first, module.second):
            layer.attention *= 1e4
    found = logits(module, x, operators)
    assert torch.isfinite(found).all()
    # Scores of 1e4 that differ in the last bits of float32 differ by 1e-3.
    expected = ORACLES["gat"](weights_of(module), dense(graph), settings("gat", {}))
    assert_close(found, expected, rtol=0.05)


def test_gats_inputs_attention_and_sums_are_dropped_in_both_layers():
    # Without edges, a node of one feature is multiplied by what each of six masks has.
    graph = make_graph(adjacency(8000, []), n_features=1, n_classes=2)
    sizes = {"hidden_channels": 1, "heads": 1, "out_heads": 1}
    module, x, operators = make("gat", graph, dropout=0.5, activation="none", **sizes)
    with torch.no_grad():
        for layer in (module.first, module.second):
            layer.bias.zero_()
        for features in (x, Operator(sp.csr_array(x.numpy()))):
            plain = logits(module.eval(), features, operators)[:, 0]
            found = logits(module.train(), features, operators)[:, 0]
            kept = found != 0
            assert_close(found[kept], 2**6 * np.asarray(plain[kept]))
            assert kept.float().mean().item() == pytest.approx(2**-6, abs=0.005)


def test_mixhop_on_a_node_without_features_and_a_graph_of_one_node_stay_finite():
    values = GRAPHS["random"].x.copy()
    values[[1, 5]] = 0
    one_node = make_graph(sp.csr_array((1, 1), dtype=np.float32))
    for graph in (replace(GRAPHS["random"], x=values), one_node):
        module, x, operators = make("mixhop", graph, dropout=0, input_dropout=0)
        for features in (x, Operator(sp.csr_array(graph.x))):
            for training in (False, True):
                module.train(training).zero_grad()
                found = logits(module, features, operators)
                assert_close(
                    found,
                    ORACLES["mixhop"](
                        weights_of(module), dense(graph), settings("mixhop", {})
                    ),
                )
                found.sum().backward()
                assert all(torch.isfinite(w.grad).all() for w in module.parameters())


def test_the_penalty_of_mixhop_is_a_thousandth_of_the_mean_square_of_the_scores():
    module, _, _ = make("mixhop", GRAPHS["path"])
    scores = torch.tensor([1.0, -2.0, 4.0])
    module.scores.data.copy_(scores)
    penalty = module.penalty()
    assert penalty.item() == pytest.approx(7e-3)
    penalty.backward()
    torch.testing.assert_close(module.scores.grad, scores * 2e-3 / 3)
