"""Dir-GNN: the directions of a graph reach it."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier
from models.oracles import ORACLES
from support.graphs import DIRECTED, adjacency, make_graph
from support.models import (
    assert_close,
    dense,
    logits,
    make,
    propagation,
    settings,
    weights_of,
)


def test_both_directions_of_a_graph_by_hand():
    graph = make_graph(DIRECTED)
    along, against = (m.scipy.toarray() for m in propagation("dir-gnn", graph))
    half, root = 0.5, 0.5**0.5
    # Out-degrees 2 2 1 2 0 0; in-degrees 2 1 1 2 1 0.
    expected = [
        [0, root, root, 0, 0, 0],
        [half, 0, 0, half, 0, 0],
        [0, 0, 0, root, 0, 0],
        [half, 0, 0, 0, root, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(along, expected, rtol=1e-6)
    np.testing.assert_array_equal(against, along.T)
    # Numbers in the directions are no weights.
    numbers = propagation("dir-gnn", replace(graph, directed=DIRECTED * 7))
    for one, other in zip(numbers, (along, against), strict=True):
        np.testing.assert_array_equal(one.scipy.toarray(), other)


def test_rows_of_zeros_have_a_gradient_that_is_no_larger_than_others():
    options = {"normalize": True, "activation": "none"}
    module, x, operators = make("dir-gnn", make_graph(DIRECTED), **options)
    for shift in module.shifts:
        shift.data.zero_()
    logits(module, x, operators).sum().backward()  # 5 is alone
    for weight in module.parameters():
        assert weight.grad.abs().max() < 1e3


def circle(n):
    """Return a directed circle, whose node has the class of the one it points to.

    The features tell the class of the node before it: of in-neighbors, nothing can
    be learned without the direction.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    ends = np.arange(n), (np.arange(n) + 1) % n
    directed = sp.csr_array((np.ones(n, np.float32), ends), (n, n))
    x = np.roll(y, 1)[:, None] * 2.0 - 1 + rng.normal(0, 0.1, size=(n, 1))
    adj = adjacency(n, list(zip(*(e.tolist() for e in ends), strict=True)))
    return Graph(x=x, adj=adj, directed=directed, y=y)


def test_directions_tell_what_a_symmetric_graph_cannot():
    graph = circle(200)
    options = {"layers": 1}
    params = {"epochs": 100, "random_state": 0, "scaling": "none", "options": options}
    clf = NodeClassifier("dir-gnn", **params).fit(graph)
    batched = NodeClassifier("dir-gnn", batch_size=60, **params).fit(graph)
    plain = replace(graph, directed=None)
    without = NodeClassifier("dir-gnn", **params).fit(plain)
    assert min(clf.score(graph), batched.score(graph)) > 0.95
    assert without.score(plain) < 0.9
    weights, found = weights_of(clf.module_), clf.predict_logits(graph)
    expected = ORACLES["dir-gnn"](weights, dense(graph), settings("dir-gnn", options))
    assert_close(found, expected, rtol=1e-4)
    # The same model sees the directions of the graph it is given.
    reversed_graph = replace(graph, directed=sp.csr_array(graph.directed.T))
    assert np.abs(clf.predict_logits(reversed_graph) - found).max() > 0.1
