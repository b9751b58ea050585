"""Belief propagation against sums over all labelings of small graphs."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models.belief_propagation import BeliefPropagation
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""
MIXED = np.array([[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]])
"""Symmetric and doubly stochastic; each class prefers another."""
ALIKE = np.array([[0.8, 0.2], [0.2, 0.8]])
EXACT = {"damping": 0.0, "tolerance": 0.0, "steps": 20}
not_converged = pytest.mark.filterwarnings(
    "ignore:belief propagation has not converged:h2gcn.exceptions.H2GCNWarning"
)
"""With no tolerance it never has, and is exact all the same."""


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(
        Operator(a, symmetric=True) for a in build_matrices([RowRule(norm="none")], adj)
    )


def one_hot(n: int, labels: Mapping[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def cycle(n: int) -> sp.csr_array:
    return adjacency(n, [(v, (v + 1) % n) for v in range(n)])


def made(h: Matrix, counts: Any = None, **options: Any) -> BeliefPropagation:
    """Return a module with a compatibility, and so many training nodes per class."""
    module = BeliefPropagation(len(h), len(h), **options)
    module.compatibility.copy_(torch.from_numpy(h))
    if counts is not None:
        more = torch.as_tensor(counts) + 1
        module.class_shares.copy_(more / more.sum())
    return module


def psi_of(module: BeliefPropagation) -> Matrix:
    h = module.compatibility.double().numpy()
    return 1 / len(h) + module.coupling * (h - 1 / len(h))


def beliefs_of(module: BeliefPropagation, x: Tensor, adj: sp.csr_array) -> Matrix:
    return module(x, Propagation(operators_of(adj))).double().exp().numpy()


def marginals(adj: sp.csr_array, x: Tensor, module: BeliefPropagation) -> Matrix:
    """Return what each node is, by summing over all labelings of the graph."""
    n, c = x.shape
    shares = module.class_shares.double().numpy()
    prior = module.class_prior * shares + (1 - module.class_prior) / c
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
def test_on_trees_beliefs_are_the_exact_marginals(
    seed: int, n: int, coupling: float, class_prior: float
) -> None:
    rng = np.random.default_rng(seed)
    tree = adjacency(n, [(int(rng.integers(v)), v) for v in range(1, n)])
    known = {int(v): int(rng.integers(3)) for v in rng.choice(n, n // 2, replace=False)}
    h = rng.random((3, 3)) + 0.02
    counts = [1, *rng.integers(n, size=2).tolist()]
    options = {"coupling": coupling, "class_prior": class_prior, **EXACT}
    module = made((h + h.T) / (h + h.T).sum(axis=1).max(), counts, **options)
    x = one_hot(n, known)
    exact = marginals(tree, x, module)
    np.testing.assert_allclose(beliefs_of(module, x, tree), exact, atol=2e-5)


def test_with_the_defaults_a_forest_is_exact_up_to_the_tolerance() -> None:
    forest = adjacency(7, [(0, 1), (1, 2), (3, 4), (3, 5)])
    x, module = one_hot(7, {0: 1, 4: 2, 5: 0}), made(MIXED)
    exact = marginals(forest, x, module)
    np.testing.assert_allclose(beliefs_of(module, x, forest), exact, atol=1e-4)
    np.testing.assert_allclose(exact[6], 1 / 3)


def test_on_a_cycle_messages_converge_beside_the_exact_marginals() -> None:
    # What is known comes to the triangle from a tail, and goes around in it.
    graph = adjacency(4, [(0, 1), (1, 2), (2, 0), (0, 3)])
    x, module = one_hot(4, {3: 0}, 2), made(ALIKE)
    found, exact = beliefs_of(module, x, graph), marginals(graph, x, module)
    assert found[0, 0] > exact[0, 0] + 0.01  # overconfident
    assert (found.argmax(axis=1) == exact.argmax(axis=1)).all()
    for more in ({"steps": 2000, "tolerance": 1e-12}, {"damping": 0.0}):
        again = beliefs_of(made(ALIKE, **more), x, graph)
        np.testing.assert_allclose(again, found, atol=1e-4)


def test_a_known_label_cuts_a_cycle() -> None:
    x, module = one_hot(5, {0: 0}, 2), made(ALIKE)
    exact = marginals(cycle(5), x, module)
    np.testing.assert_allclose(beliefs_of(module, x, cycle(5)), exact, atol=1e-5)


def test_messages_that_never_converge_are_told() -> None:
    # Strong dislike within K4 and a tail with a label: no labeling suits all.
    graph = adjacency(5, [(u, v) for u in range(4) for v in range(u)] + [(0, 4)])
    module = made(np.array([[0.0, 1.0], [1.0, 0.0]]), damping=0.0, steps=30)
    with pytest.warns(
        H2GCNWarning, match=r"has not converged: after 30 steps messages still change"
    ):
        logits = module(one_hot(5, {4: 0}, 2), Propagation(operators_of(graph)))
    assert torch.isfinite(logits).all()


def test_a_hub_of_two_thousand_does_not_underflow() -> None:
    n = 2001
    star = adjacency(n, [(0, v) for v in range(1, n)])
    known = {v: v % 2 for v in range(1, n - 100)}
    module = made(MIXED)
    logits = module(one_hot(n, known), Propagation(operators_of(star))).double().numpy()
    # Exact on a star: leaves without a label say nothing, the others their row.
    joint = np.bincount(list(known.values()), minlength=3) @ np.log(psi_of(module))
    expected = joint - np.logaddexp.reduce(joint)
    np.testing.assert_allclose(logits[0], expected, rtol=1e-5)
    assert logits[0].min() < -200  # its product would be less than 1e-800
    np.testing.assert_allclose(
        np.exp(logits[-1]), np.exp(expected) @ psi_of(module), atol=1e-5
    )
    # And all leaves of one class, with a compatibility of zeros and ones.
    x = one_hot(n, dict.fromkeys(range(1, 1900), 1), 2)
    logits = made(np.eye(2))(x, Propagation(operators_of(star)))
    assert torch.isfinite(logits).all()
    assert (logits[1900:].argmax(dim=1) == 1).all()


@each("h", [0.9, 0.995])
@each("held", [0, 400])
@each("order", [1, -1])
def test_a_hub_hears_the_majority_in_any_order(h: float, held: int, order: int) -> None:
    # Around node 0 its leaf 1, `held` labels of class 0, and nodes that each hear two
    # labels of one class.
    counts = (400, 410) if not held else (0, 420)
    classes = [c for c in (0, 1) for _ in range(counts[c])][::order]
    middle = range(2, 2 + len(classes))
    n = 2 + 3 * len(classes) + held
    edges = [(0, 1), *((0, m) for m in middle), *((0, v) for v in range(n - held, n))]
    known = dict.fromkeys(range(n - held, n), 0)
    for leaf, m in zip(range(2 + len(classes), n - held, 2), middle, strict=True):
        edges += [(m, leaf), (m, leaf + 1)]
        known |= dict.fromkeys((leaf, leaf + 1), classes[m - 2])
    module = made(np.array([[h, 1 - h], [1 - h, h]]), class_prior=0.0)
    beliefs = beliefs_of(module, one_hot(n, known, 2), adjacency(n, edges))
    psi = psi_of(module)
    heard = psi @ (psi[:, 1] ** 2)  # from a node with two labels of class 1
    odds = (counts[1] - counts[0]) * np.log(heard[1] / heard[0])
    odds += held * np.log(psi[0, 1] / psi[0, 0])
    hub = 1 / (1 + np.exp(odds))
    np.testing.assert_allclose(beliefs[0], [hub, 1 - hub], atol=1e-5)
    np.testing.assert_allclose(beliefs[1], psi @ [hub, 1 - hub], atol=1e-5)


def test_a_training_node_keeps_its_label() -> None:
    star = adjacency(6, [(0, v) for v in range(1, 6)])
    x = one_hot(6, {0: 0, **dict.fromkeys(range(1, 6), 1)}, 2)
    logits = made(ALIKE)(x, Propagation(operators_of(star)))
    assert logits[0].exp().tolist() == pytest.approx([1, 1e-12], rel=1e-3)


def test_ties_and_unreached_nodes_are_equal() -> None:
    alike = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 5
    logits = made(alike)(
        one_hot(5, {1: 0, 3: 1}), Propagation(operators_of(NAMED["path"]))
    )
    assert float(logits[2, 0]) == float(logits[2, 1]) > float(logits[2, 2])
    x, operators, module = one_hot(6, {0: 1}), operators_of(SIX), made(MIXED)
    logits = module(x, Propagation(operators))
    assert len(set(logits[5].tolist())) == 1
    assert (logits[:5].std(dim=1) > 1e-3).all()
    assert module.reached(x, Propagation(operators)).tolist() == [True] * 5 + [False]
    # Where H is uniform, or there is no edge, nothing is heard.
    uniform, empty = made(np.full((3, 3), 1 / 3)), operators_of(NAMED["no edges"])
    logits = uniform(x, Propagation(operators))
    assert uniform.reached(x, Propagation(operators)).tolist() == [True] + [False] * 5
    for rest in (logits[1:], module(one_hot(3, {0: 1}), Propagation(empty))[1:]):
        assert len(set(rest.reshape(-1).tolist())) == 1


@each("uniform", [False, True])
def test_where_edges_say_nothing_the_common_class_is_predicted(uniform: bool) -> None:
    # Classes that do not depend on edges: half of all nodes are of class 1.
    n, rng = 400, np.random.default_rng(0)
    upper = np.triu(rng.random((n, n)) < 4 / n, 1)
    graph = operators_of(sp.csr_array((upper | upper.T).astype(np.float32)))
    y = torch.from_numpy(rng.choice(3, n, p=[0.3, 0.5, 0.2]))
    known, unknown = torch.arange(200), torch.arange(200, n)
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)))
    for class_prior, low, high in ((1.0, 0.9, 1.0), (0.0, 0.0, 0.5)):
        module = BeliefPropagation(3, 3, class_prior=class_prior)
        module.initialise(x, Propagation(graph), y[known], known)
        if uniform:
            module.compatibility.fill_(1 / 3)
        common = (
            (module(x, Propagation(graph))[unknown].argmax(dim=1) == 1).float().mean()
        )
        assert low <= float(common) <= high


def test_neighbors_that_differ_are_predicted() -> None:
    n = 40
    y = torch.arange(n) % 2
    known = torch.tensor([0, 1, 10, 11, 20, 21, 31, 32])
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)), 2)
    module = BeliefPropagation(2, 2)
    module.initialise(x, Propagation(operators_of(cycle(n))), y[known], known)
    assert (module(x, Propagation(operators_of(cycle(n)))).argmax(dim=1) == y).all()


def test_renumbering_the_nodes_renumbers_the_logits() -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((60, 60)) < 0.05, 1)
    graph, order = sp.csr_array((upper | upper.T).astype(float)), rng.permutation(60)
    x, module = one_hot(60, {v: v % 3 for v in range(0, 60, 4)}), made(MIXED)
    logits = module(x, Propagation(operators_of(graph)))
    permuted = module(
        x[order], Propagation(operators_of(sp.csr_array(graph[order][:, order])))
    )
    torch.testing.assert_close(permuted, logits[order], rtol=1e-4, atol=1e-4)
    target = Propagation(operators_of(graph), torch.as_tensor(np.array([7, 0, 7])))
    torch.testing.assert_close(module(x, target), logits[[7, 0, 7]])


@each(
    "options",
    [
        {"in_channels": 5},
        {"coupling": 0},
        {"class_prior": 2},
        {"damping": 1},
        {"steps": 0},
        {"steps": 10_001},
        {"tolerance": -1},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        BeliefPropagation(**({"in_channels": 2, "out_channels": 2} | options))  # type: ignore[arg-type]
