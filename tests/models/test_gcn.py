"""GCN and its relatives: what is theirs besides their formulas."""

import numpy as np
import torch

from h2gcn.sparse import dropout
from models.oracles import ORACLES
from models.test_all_models import dense
from support.graphs import GRAPHS
from support.models import logits, make, settings, weights_of


def test_the_joined_layers_are_dropped_for_the_targets_rows_alone():
    graph, nodes = GRAPHS["random"], [5, 2]
    module, x, operators = make("gcn-jk", graph, dropout=0.5)
    torch.manual_seed(4)
    masks = [dropout(torch.ones(12, width), 0.5).numpy() for width in (5, 8, 8)]
    joined = np.zeros((12, 24))
    joined[nodes] = dropout(torch.ones(2, 24), 0.5).numpy()
    masks = iter([*masks, joined])
    torch.manual_seed(4)
    found = logits(module.train(), x, operators, nodes).detach().numpy()
    expected = ORACLES["gcn-jk"](
        weights_of(module),
        dense(graph),
        settings("gcn-jk", {}),
        lambda h, _: h * next(masks),
    )
    np.testing.assert_allclose(found, expected[nodes], rtol=1e-5, atol=1e-5)


def test_the_highest_degree_of_cheby_loses_little_to_rounding():
    graph, options = GRAPHS["random"], {"max_degree": 32}
    module, x, operators = make("gcn-cheby", graph, **options)
    given = settings("gcn-cheby", options)
    expected = ORACLES["gcn-cheby"](weights_of(module), dense(graph), given)
    found = logits(module, x, operators).detach().numpy()
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
