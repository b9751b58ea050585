"""Belief propagation against sums over all labelings of small graphs."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models.belief_propagation import BeliefPropagation
from support.fits import train_module
from support.graphs import (
    NAMED,
    SIX,
    adjacency,
    cycle,
    make_graph,
    one_hot,
    random_adjacency,
)
from support.models import logits, propagation

MIXED = np.array([[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]])
"""Symmetric and doubly stochastic; each class prefers another."""
ALIKE = np.array([[0.8, 0.2], [0.2, 0.8]])
EXACT = {"damping": 0.0, "tolerance": 0.0, "steps": 20}
not_converged = pytest.mark.filterwarnings(
    "ignore:belief propagation has not converged:h2gcn.exceptions.H2GCNWarning"
)
"""With no tolerance it never has, and is exact all the same."""


def operators_of(adj):
    return propagation("bp", make_graph(adj))


def build(h, counts=None, **options):
    """Return a module with a compatibility, and a number of training nodes per class.

    Without `counts`, class frequencies are uniform.
    """
    module = BeliefPropagation(len(h), len(h), **options)
    module.compatibility.copy_(torch.from_numpy(h))
    if counts is not None:
        more = torch.as_tensor(counts) + 1
        module.class_frequencies.copy_(more / more.sum())
    return module


def psi_of(module):
    h = module.compatibility.double().numpy()
    return 1 / len(h) + module.coupling * (h - 1 / len(h))


def beliefs_of(module, x, adj):
    return logits(module, x, operators_of(adj)).double().exp().numpy()


def marginals(adj, x, module):
    """Return the probabilities of each node, by summing over all labelings."""
    n, c = x.shape
    frequencies = module.class_frequencies.double().numpy()
    prior = module.class_prior * frequencies + (1 - module.class_prior) / c
    phi = np.array([row if row.any() else prior for row in x.numpy()])
    psi, total = psi_of(module), np.zeros((n, c))
    edges = list(zip(*sp.triu(adj).nonzero(), strict=True))
    for labels in itertools.product(range(c), repeat=n):
        weight = np.prod([phi[v, y] for v, y in enumerate(labels)])
        for u, v in edges:
            weight *= psi[labels[u], labels[v]]
        for v, y in enumerate(labels):
            total[v, y] += weight
    return total / total.sum(axis=1, keepdims=True)


@not_converged
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 7),
    coupling=st.sampled_from([1.0, 0.4]),
    class_prior=st.sampled_from([1.0, 0.3, 0.0]),
)
def test_on_trees_beliefs_are_the_exact_marginals(seed, n, coupling, class_prior):
    rng = np.random.default_rng(seed)
    tree = adjacency(n, [(int(rng.integers(v)), v) for v in range(1, n)])
    known = {int(v): int(rng.integers(3)) for v in rng.choice(n, n // 2, replace=False)}
    h = rng.random((3, 3)) + 0.02
    counts = [1, *rng.integers(n, size=2).tolist()]
    options = {"coupling": coupling, "class_prior": class_prior, **EXACT}
    module = build((h + h.T) / (h + h.T).sum(axis=1).max(), counts, **options)
    x = one_hot(n, known)
    exact = marginals(tree, x, module)
    np.testing.assert_allclose(beliefs_of(module, x, tree), exact, atol=2e-5)


def test_with_the_defaults_forests_and_cycles_cut_by_a_label_are_exact():
    forest = adjacency(7, [(0, 1), (1, 2), (3, 4), (3, 5)])
    for adj, labels, h in (
        (forest, {0: 1, 4: 2, 5: 0}, MIXED),
        (cycle(5), {0: 0}, ALIKE),
        (NAMED["no edges"], {0: 1}, MIXED),
    ):
        x, module = one_hot(adj.shape[0], labels, len(h)), build(h)
        exact = marginals(adj, x, module)
        np.testing.assert_allclose(beliefs_of(module, x, adj), exact, atol=1e-4)


def test_on_a_cycle_messages_converge_close_to_the_exact_marginals():
    # What is known enters the triangle from a tail, and goes around in it.
    graph = adjacency(4, [(0, 1), (1, 2), (2, 0), (0, 3)])
    x, module = one_hot(4, {3: 0}, 2), build(ALIKE)
    found, exact = beliefs_of(module, x, graph), marginals(graph, x, module)
    assert found[0, 0] > exact[0, 0] + 0.01  # overconfident
    assert (found.argmax(axis=1) == exact.argmax(axis=1)).all()
    for more in ({"steps": 2000, "tolerance": 1e-12}, {"damping": 0.0}):
        again = beliefs_of(build(ALIKE, **more), x, graph)
        np.testing.assert_allclose(again, found, atol=1e-4)


def test_messages_that_never_converge_give_a_warning():
    # Strong dislike within K4 and a tail with a label: no labeling suits all.
    graph = adjacency(5, [(u, v) for u in range(4) for v in range(u)] + [(0, 4)])
    module = build(np.array([[0.0, 1.0], [1.0, 0.0]]), damping=0.0, steps=30)
    with pytest.warns(
        H2GCNWarning, match=r"has not converged: after 30 steps messages still change"
    ):
        found = logits(module, one_hot(5, {4: 0}, 2), operators_of(graph))
    assert torch.isfinite(found).all()


def test_a_hub_of_two_thousand_does_not_underflow():
    n = 2001
    star = adjacency(n, [(0, v) for v in range(1, n)])
    known = {v: v % 2 for v in range(1, n - 100)}
    module = build(MIXED)
    found = logits(module, one_hot(n, known), operators_of(star)).double().numpy()
    # Exact on a star: leaves without a label say nothing, the others their row.
    joint = np.bincount(list(known.values()), minlength=3) @ np.log(psi_of(module))
    expected = joint - np.logaddexp.reduce(joint)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    assert found[0].min() < -200  # its product would be less than 1e-800
    leaf = np.exp(expected) @ psi_of(module)
    np.testing.assert_allclose(np.exp(found[-1]), leaf, atol=1e-5)
    # And all leaves of one class, with a compatibility of zeros and ones.
    x = one_hot(n, dict.fromkeys(range(1, 1900), 1), 2)
    found = logits(build(np.eye(2)), x, operators_of(star))
    assert torch.isfinite(found).all()
    assert (found[1900:].argmax(dim=1) == 1).all()


def test_a_hub_follows_the_majority_in_any_order():
    # Around node 0 its leaf 1, `held` labels of class 0, and nodes that each hear two
    # labels of one class.
    for h, held, order in itertools.product((0.9, 0.995), (0, 400), (1, -1)):
        counts = (400, 410) if not held else (0, 420)
        classes = [c for c in (0, 1) for _ in range(counts[c])][::order]
        middle, n = range(2, 2 + len(classes)), 2 + 3 * len(classes) + held
        edges = [(0, v) for v in (1, *middle, *range(n - held, n))]
        known = dict.fromkeys(range(n - held, n), 0)
        for leaf, m in zip(range(2 + len(classes), n - held, 2), middle, strict=True):
            edges += [(m, leaf), (m, leaf + 1)]
            known |= dict.fromkeys((leaf, leaf + 1), classes[m - 2])
        module = build(np.array([[h, 1 - h], [1 - h, h]]), class_prior=0.0)
        beliefs = beliefs_of(module, one_hot(n, known, 2), adjacency(n, edges))
        psi = psi_of(module)
        heard = psi @ (psi[:, 1] ** 2)  # from a node with two labels of class 1
        odds = (counts[1] - counts[0]) * np.log(heard[1] / heard[0])
        odds += held * np.log(psi[0, 1] / psi[0, 0])
        hub = 1 / (1 + np.exp(odds))
        np.testing.assert_allclose(beliefs[0], [hub, 1 - hub], atol=1e-5)
        np.testing.assert_allclose(beliefs[1], psi @ [hub, 1 - hub], atol=1e-5)


def test_a_training_node_keeps_its_label():
    star = adjacency(6, [(0, v) for v in range(1, 6)])
    x = one_hot(6, {0: 0, **dict.fromkeys(range(1, 6), 1)}, 2)
    found = logits(build(ALIKE), x, operators_of(star))
    assert found[0].exp().tolist() == pytest.approx([1, 1e-12], rel=1e-3)


def test_tied_classes_and_those_of_uninformed_nodes_are_equal():
    alike = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 5
    x, operators = one_hot(5, {1: 0, 3: 1}), operators_of(NAMED["path"])
    found = logits(build(alike), x, operators)
    assert float(found[2, 0]) == float(found[2, 1]) > float(found[2, 2])
    x, operators = one_hot(6, {0: 1}), operators_of(SIX)
    # A uniform H passes nothing on.
    found = logits(build(np.full((3, 3), 1 / 3)), x, operators)
    assert (found[1:] == found[1:].amax(dim=1, keepdim=True)).all()


def test_where_edges_say_nothing_the_frequent_class_is_predicted():
    # Classes that do not depend on edges: half of all nodes are of class 1.
    n, rng = 400, np.random.default_rng(0)
    operators = operators_of(random_adjacency(0, n, 4 / n))
    y = rng.choice(3, n, p=[0.3, 0.5, 0.2])
    x = one_hot(n, {v: y[v] for v in range(200)})
    for uniform in (False, True):
        for class_prior, low, high in ((1.0, 0.9, 1.0), (0.0, 0.0, 0.5)):
            module = BeliefPropagation(3, 3, class_prior=class_prior)
            train_module(module, x, operators, y, range(200))
            if uniform:
                module.compatibility.fill_(1 / 3)
            found = logits(module, x, operators)[200:].argmax(dim=1)
            assert low <= float((found == 1).float().mean()) <= high
