"""GMNN: in which order q and p learn, from which targets."""

import numpy as np
import pytest
import torch

from h2gcn.models.gmnn import GMNN
from models.oracles import keep, relu, softmax, sym, two_layers, with_loops
from support.fits import rehearse, train_module
from support.graphs import adjacency, make_graph
from support.models import propagation, weights_of

CLASSES = 3
SIX = make_graph(adjacency(6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]))
Y, INDEX = np.array([0, 2, 1, 2, 0, 1]), [1, 4, 5]
X, OPERATORS = torch.from_numpy(SIX.x), propagation("gmnn", SIX)
Q, P = {"q_first", "q_second"}, {"p_first", "p_second"}


class Watched(GMNN):
    """Keeps the labels that p has as input."""

    def _p(self, labels, graph):
        self.labels.append(labels.double().numpy())
        return super()._p(labels, graph)


def build(**options):
    torch.manual_seed(0)
    options = {"hidden_channels": 8, "input_dropout": 0.0, **options}
    module = Watched(5, CLASSES, **options)
    module.labels = []
    return module


def network(z, module, name):
    """Return Â relu(Â Z W1) W2 in double precision."""
    a_hat = sym(with_loops(SIX.adj.toarray().astype(float)))
    names = f"{name}_first", f"{name}_second"
    return two_layers(weights_of(module), z, a_hat, relu, (0, 0), keep, names)


def entropy(logits, targets):
    return -(targets * np.log(softmax(logits))).sum(axis=1).mean()


def test_q_learns_alone_and_then_p_and_q_in_turn():
    for iterations, epochs in ((1, [5, 5]), (3, [3, 3, 2, 2])):
        module = build(iterations=iterations, label_steps=7)
        alone, *stages = rehearse(module, X, OPERATORS, Y, INDEX, epochs=10)
        assert (alone.kind, alone.length, alone.loss) == ("train", epochs[0], None)
        m_steps, e_steps = stages[::2], stages[1::2]
        assert len(m_steps) == len(e_steps) == iterations
        for stage in m_steps:
            assert (stage.kind, stage.length, stage.learners) == ("minimize", 7, P)
        for stage, length in zip(e_steps, epochs[1:], strict=True):
            assert (stage.kind, stage.length, stage.learners) == ("train", length, Q)


def test_q_samples_labels_by_its_probabilities_at_the_temperature():
    module = build(temperature=2.0, iterations=500)
    rehearse(module, X, OPERATORS, Y, INDEX)
    sampled = np.stack(module.labels[::2])  # p sees the same ones again for its targets
    np.testing.assert_array_equal(sampled, module.labels[1::2])
    assert set(np.unique(sampled)) == {0, 1}
    assert (sampled.sum(axis=2) == 1).all()
    expected = softmax(network(SIX.x.astype(float), module, "q") / 2)
    expected[INDEX] = np.eye(CLASSES)[Y[INDEX]]
    np.testing.assert_allclose(sampled.mean(axis=0), expected, atol=0.09)


def test_p_predicts_the_labels_from_them_and_q_what_p_predicts():
    # Class 1 has two training nodes, the others one: balanced weights are 4/6 and 4/3.
    cases = (None, [1, 1, 1]), ("balanced", [4 / 3, 2 / 3, 4 / 3])
    for class_weight, weights in cases:
        module, index, y = build(), [0, 1, 4, 5], np.array([0, 1, 1, 2, 2, 1])
        options = {"class_weight": class_weight, "epochs": 2}
        _, m_step, e_step = rehearse(module, X, OPERATORS, y, index, **options)
        labels = module.labels[0]
        p, q = network(labels, module, "p"), network(SIX.x.astype(float), module, "q")
        assert m_step.loss == pytest.approx(entropy(p, labels * weights), rel=1e-5)
        targets = softmax(p)
        targets[index] = np.eye(CLASSES)[y[index]]
        assert e_step.loss == pytest.approx(entropy(q, targets * weights), rel=1e-5)


def test_a_fit_trains_both_networks_and_ends_at_the_best_epoch():
    module = build(iterations=2, label_steps=3)
    before = weights_of(module)
    result = train_module(module, X, OPERATORS, Y, INDEX, epochs=9)
    assert [epoch.number for epoch in result.history] == [*range(1, 10)]
    assert result.val_score == max(epoch.val_score for epoch in result.history)
    assert not np.allclose(weights_of(module)["q_first"], before["q_first"])
