"""Label propagation: its closed form, hubs, ties, and whom labels reach."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models.label_propagation import LabelPropagation
from h2gcn.sparse import Operator, Propagation
from models.oracles import binary, log_shares, powers, sym
from support.graphs import GRAPHS, NAMED, adjacency, make_graph
from support.models import known_labels, logits, propagation
from support.refusals import refused

SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""


def operators_of(adj):
    return propagation("label-propagation", make_graph(adj))


def one_hot(n, labels, c=3):
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def test_many_steps_give_the_closed_form():
    for graph in GRAPHS.values():
        known = known_labels(graph).double().numpy()
        s = sym((graph.adj if graph.weights is None else graph.weights).toarray())
        expected = log_shares(0.2 * np.linalg.inv(np.eye(len(s)) - 0.8 * s) @ known)
        module = LabelPropagation(3, 3, alpha=0.8, steps=200)
        operators = propagation("label-propagation", graph)
        found = logits(module, known_labels(graph), operators)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_hub_still_tells_the_classes_apart_that_both_exceed_one():
    leaves = 60
    star = adjacency(leaves + 1, [(0, v) for v in range(1, leaves + 1)])
    x = one_hot(leaves + 1, {v: int(v > 25) for v in range(1, leaves + 1)}, 2)
    found = logits(LabelPropagation(2, 2), x, operators_of(star))
    assert found[0, 1] - found[0, 0] == pytest.approx(np.log(35 / 25), rel=1e-4)


def test_nodes_that_no_label_reaches_have_equal_scores():
    found = logits(LabelPropagation(3, 3), one_hot(6, {1: 2}), operators_of(SIX))
    np.testing.assert_allclose(found[5], np.log(1 / 3), rtol=1e-6)
    assert found[:5].argmax(dim=1).tolist() == [2] * 5
    assert found.min() == pytest.approx(np.log(1e-12))


def test_two_hops_pass_labels_over_neighbors_that_differ():
    x, operators = one_hot(5, {0: 0, 1: 1}, 2), operators_of(NAMED["path"])
    one, two = (
        logits(LabelPropagation(2, 2, hops=hops), x, operators) for hops in (1, 2)
    )
    assert one.argmax(dim=1).tolist()[2:] == [1, 1, 1]
    assert two.argmax(dim=1).tolist() == [0, 1, 0, 1, 0]


def test_sparse_labels_do_for_dense_ones():
    x, operators = one_hot(6, {0: 0, 4: 1}), operators_of(SIX)
    module, sparse = LabelPropagation(3, 3), Operator(sp.csr_array(x.numpy()))
    expected = logits(module, x, operators)
    torch.testing.assert_close(logits(module, sparse, operators), expected)


def test_the_nodes_that_are_reached_have_a_score():
    for adj in NAMED.values():
        for hops in (1, 2):
            x, module = one_hot(adj.shape[0], {0: 1}), LabelPropagation(3, 3, hops=hops)
            (step,) = powers(binary(adj.toarray()), hops)
            (walks,) = powers(binary(step) + np.eye(len(step)), len(step))
            expected = (walks[:, 0] > 0).tolist()
            assert (
                module.reached(x, Propagation(operators_of(adj))).tolist() == expected
            )


def test_a_node_that_hears_two_classes_equally_well_is_reached():
    x, operators = one_hot(5, {1: 0, 3: 1}, 2), operators_of(NAMED["path"])
    module = LabelPropagation(2, 2)
    found = logits(module, x, operators)
    assert found[2, 0] == found[2, 1]  # on every processor: ties are told
    assert module.reached(x, Propagation(operators)).all()


@pytest.mark.parametrize("swapped", [False, True])
def test_rounding_does_not_decide_between_classes_that_are_level(swapped):
    # Node 1 hears of 0 and of 2, one of them a little louder than the other.
    x = one_hot(3, {0: 0, 2: 1})
    for more, tie in ((1e-6, True), (1e-4, False)):
        row = [1 + more, 0, 1] if not swapped else [1, 0, 1 + more]
        unlike = Operator(sp.csr_array(np.array([[0] * 3, row, [0] * 3])))
        found = logits(LabelPropagation(3, 3, steps=1), x, (unlike,))[1]
        assert (found[0] == found[1]) == tie
        assert int(found.argmax()) == (0 if tie else int(swapped))
        assert found[2] == pytest.approx(np.log(1e-12))


def test_bad_options_are_named():
    for options in ({"in_channels": 5}, {"hops": 3}, {"hops": 0}):
        ((param, value),) = options.items()
        with refused(param=param, value=value):
            LabelPropagation(**({"in_channels": 3, "out_channels": 3} | options))
