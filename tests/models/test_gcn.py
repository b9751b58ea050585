"""GCN and GCN-Cheby: what their formulas do not show."""

import numpy as np
import torch

from h2gcn.sparse import dropout
from models.oracles import ORACLES
from support.graphs import GRAPHS
from support.models import (
    assert_close,
    dense,
    logits,
    make,
    settings,
    weights_of,
)


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
