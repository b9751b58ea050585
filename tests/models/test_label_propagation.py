"""Label propagation: its closed form, hubs and ties; what all models of labels do."""

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn.models import MODELS, build_model
from h2gcn.models.label_propagation import LabelPropagation
from h2gcn.sparse import Operator
from models.oracles import log_shares, sym
from support.fits import train_module
from support.graphs import GRAPHS, NAMED, SIX, adjacency, cycle, make_graph, one_hot
from support.models import known_labels, logits, propagation

RING = cycle(40)
LABEL_MODELS = [name for name, spec in MODELS.items() if spec.inputs == "labels"]


def operators_of(adj, name="label-propagation"):
    return propagation(name, make_graph(adj))


def test_many_steps_give_the_closed_form():
    for graph in GRAPHS.values():
        known = known_labels(graph).double().numpy()
        s = sym((graph.adj if graph.weights is None else graph.weights).toarray())
        expected = log_shares(0.2 * np.linalg.inv(np.eye(len(s)) - 0.8 * s) @ known)
        module = LabelPropagation(3, 3, alpha=0.8, steps=200)
        operators = propagation("label-propagation", graph)
        found = logits(module, known_labels(graph), operators)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_hub_still_distinguishes_classes_that_both_exceed_one():
    star = adjacency(61, [(0, v) for v in range(1, 61)])
    x = one_hot(61, {v: int(v > 25) for v in range(1, 61)}, 2)
    found = logits(LabelPropagation(2, 2), x, operators_of(star))
    assert found[0, 1] - found[0, 0] == pytest.approx(np.log(35 / 25), rel=1e-4)


@pytest.mark.parametrize("name", LABEL_MODELS)
def test_nodes_that_no_label_reaches_have_equal_scores(name):
    uniform = {"class_prior": 0.0} if "class_prior" in MODELS[name].options else {}
    module, operators = build_model(name, 3, 3, uniform), operators_of(SIX, name)
    x = one_hot(6, {0: 1, 2: 0, 3: 1})
    train_module(module, x, operators, [1, 2, 0] * 2, [0, 2, 3])
    found = logits(module, x, operators)
    assert len(set(found[5].tolist())) == 1
    assert (found[[0, 2, 4]].std(dim=1) > 1e-3).all()


@pytest.mark.parametrize("name", LABEL_MODELS)
def test_neighbors_that_differ_are_predicted_but_by_label_propagation(name):
    y, known = np.arange(40) % 2, [0, 1, 10, 11, 20, 21, 31, 32]
    x, operators = (
        one_hot(40, {v: y[v] for v in known}, 2),
        operators_of(cycle(40), name),
    )
    result = train_module(build_model(name, 2, 2, {}), x, operators, y, known)
    assert (result.val_score == 1) == (name != "label-propagation")


def test_two_hops_pass_labels_over_neighbors_that_differ():
    x, operators = one_hot(5, {0: 0, 1: 1}, 2), operators_of(NAMED["path"])
    one, two = (
        logits(LabelPropagation(2, 2, power=power), x, operators) for power in (1, 2)
    )
    assert one.argmax(dim=1).tolist()[2:] == [1, 1, 1]
    assert two.argmax(dim=1).tolist() == [0, 1, 0, 1, 0]


def test_rounding_does_not_decide_between_tied_classes():
    # Node 1 receives from 0 and from 2, from one of them slightly more.
    x = one_hot(3, {0: 0, 2: 1})
    for more, tie in ((1e-6, True), (1e-4, False)):
        for best, row in ((0, [1 + more, 0, 1]), (1, [1, 0, 1 + more])):
            unlike = Operator(sp.csr_array(np.array([[0] * 3, row, [0] * 3])))
            found = logits(LabelPropagation(3, 3, steps=1), x, (unlike,))[1]
            assert (found[0] == found[1]) == tie
            assert int(found.argmax()) == (0 if tie else best)
            assert found[2] == pytest.approx(np.log(1e-12))
