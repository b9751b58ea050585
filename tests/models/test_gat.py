"""GAT: scores of any size, and what is dropped."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.sparse import Operator
from models.oracles import ORACLES
from support.graphs import GRAPHS, adjacency, make_graph
from support.models import (
    assert_close,
    dense,
    logits,
    make,
    settings,
    weights_of,
)


def test_a_score_of_any_size_has_a_finite_softmax():
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


def test_inputs_attention_and_sums_are_dropped_in_both_layers():
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
