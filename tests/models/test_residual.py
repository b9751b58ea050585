"""Residual GNNs: what their statistics are of, and that they are kept."""

import numpy as np
import pytest
import torch

from h2gcn import NodeClassifier
from models.oracles import sym, with_loops
from models.test_all_models import assert_close, dense
from support.graphs import adjacency, make_graph
from support.models import batch_logits, logits, make, weights_of

SEVEN = adjacency(7, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)])
GRAPH = make_graph(SEVEN)
"""A triangle with a long tail, and an isolated last node."""


def by_hand(module, counted):
    """Return the logits, each layer by the statistics of the counted rows."""
    w, g = weights_of(module), dense(GRAPH)
    s, h = sym(with_loops(g.adj)), g.x
    for k, rows in enumerate(counted):
        z = s @ h @ w[f"neighbours.{k}"] + h @ w[f"own.{k}"]
        z = (z - z[rows].mean(axis=0)) / np.sqrt(z[rows].var(axis=0) + 1e-5)
        h = np.maximum(z * w["scale"][k] + w["shift"][k], 0)
    return h @ w["classifier"] + w["bias"]


def build(layers):
    module, x, operators = make("residual-gcn", GRAPH, layers=layers, dropout=0.0)
    return module.train(), x, operators


def test_training_takes_the_statistics_of_the_nodes_that_matter():
    module, x, operators = build(3)
    expected = by_hand(module, [np.arange(7)] * 3)
    assert_close(logits(module, x, operators), expected, rtol=1e-4)
    # Of 4 and 5 the logits depend on 3 after two layers, and on 2 after one.
    nodes = [5, 4]
    expected = by_hand(module, [[2, 3, 4, 5], [3, 4, 5], nodes])[nodes]
    for call in (logits, batch_logits):
        found = call(module, x, operators, nodes)
        assert_close(found, expected, call, rtol=1e-4)


def test_what_runs_is_a_mean_of_what_was_seen():
    module, x, operators = build(1)
    before, nodes = weights_of(module), [0, 2, 5]
    before = {key: value.copy() for key, value in before.items()}
    logits(module, x, operators, nodes)
    g = dense(GRAPH)
    z = sym(with_loops(g.adj)) @ g.x @ before["neighbours.0"]
    z = (z + g.x @ before["own.0"])[nodes]
    for key, seen in (("means", z.mean(axis=0)), ("variances", z.var(axis=0, ddof=1))):
        expected = 0.9 * before[key][0] + 0.1 * seen
        np.testing.assert_allclose(weights_of(module)[key][0], expected, rtol=1e-4)
    kept = weights_of(module)
    logits(module.eval(), x, operators)
    for key in ("means", "variances"):
        np.testing.assert_array_equal(weights_of(module)[key], kept[key])


def test_a_single_row_is_normalised_by_what_runs():
    module, x, operators = build(1)
    before = module.means.clone()
    found = logits(module, x, operators, [3])
    assert torch.equal(module.means, before)
    torch.testing.assert_close(found, logits(module.eval(), x, operators, [3]))


@pytest.mark.parametrize("batch_size", [None, 5])
def test_the_best_epoch_is_kept_with_its_statistics(small_graph, tmp_path, batch_size):
    params = {"batch_size": batch_size, "random_state": 0}
    clf = NodeClassifier("residual-gcn", epochs=8, **params).fit(small_graph)
    # The same training ended at the best epoch has the same statistics.
    short = NodeClassifier("residual-gcn", epochs=clf.best_epoch_, **params)
    short.fit(small_graph)
    clf.save(tmp_path / "m")
    for other in (short, NodeClassifier.load(tmp_path / "m")):
        assert torch.equal(other.module_.means, clf.module_.means)
        assert torch.equal(other.module_.variances, clf.module_.variances)
    # Batches are not saved: the whole graph at once adds in another order.
    found, whole = other.predict_logits(small_graph), clf.predict_logits(small_graph)
    assert_close(found, whole, rtol=1e-4)


def test_batches_of_one_node_are_trained_on(small_graph):
    clf = NodeClassifier("residual-gcn", epochs=2, batch_size=1, random_state=0)
    assert np.isfinite(clf.fit(small_graph).predict_logits(small_graph)).all()
