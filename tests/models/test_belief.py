"""BP against all labellings of small graphs, ZooBP against its linear system."""

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
from h2gcn.models.belief import (
    BeliefPropagation,
    LinBP,
    ZooBP,
    belief_operators,
    from_edges,
    project,
)
from h2gcn.models.cpgnn import plain_adjacency
from h2gcn.sparse import Operator, Target
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
GOLDEN = 0.6180339887498949
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""
MIXED = [[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]]
"""Symmetric and doubly stochastic; each class has another favourite."""
SKEWED = [[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.0, 0.4, 0.6]]
"""Rows that sum to one, and no more."""
EXACT = {"damping": 0.0, "tolerance": 0.0, "steps": 20}
not_settled = pytest.mark.filterwarnings(
    "ignore:belief propagation has not settled:h2gcn.exceptions.H2GCNWarning"
)
"""With no tolerance it never is, and is exact all the same."""


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in plain_adjacency(adj))


def linear_operators(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in belief_operators(adj))


def one_hot(n: int, labels: Mapping[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def random_tree(n: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return adjacency(n, [(int(rng.integers(v)), v) for v in range(1, n)])


def path(n: int) -> sp.csr_array:
    return adjacency(n, [(v, v + 1) for v in range(n - 1)])


def cycle(n: int) -> sp.csr_array:
    return adjacency(n, [(v, (v + 1) % n) for v in range(n)])


def marginals(
    adj: sp.csr_array,
    x: Tensor,
    psi: Matrix,
    prior: float = 1.0,
    others: Matrix | None = None,
) -> Matrix:
    """Return what each node is, by summing over all labellings of the graph.

    `others` is what nodes without a label are likely to be, before they hear of any.
    """
    n, c = x.shape
    phi = np.tile(np.full(c, 1 / c) if others is None else others, (n, 1))
    for node, row in enumerate(x.numpy()):
        if row.any():
            phi[node] = np.where(row > 0, prior, (1 - prior) / (c - 1))
    edges = list(zip(*sp.triu(adj).nonzero(), strict=True))
    total = np.zeros((n, c))
    for labels in itertools.product(range(c), repeat=n):
        weight = np.prod([phi[v, y] for v, y in enumerate(labels)])
        for u, v in edges:
            weight *= psi[labels[u], labels[v]]
        for v, y in enumerate(labels):
            total[v, y] += weight
    return total / total.sum(axis=1, keepdims=True)


def with_shares(module: Any, operators: Any, counts: list[int]) -> Any:
    """Return the module, told of so many training nodes in each class."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    nothing = torch.zeros(operators[0].shape[0], len(counts))
    module.initialise(nothing, operators, labels, torch.arange(len(labels)))
    return module


def psi_of(module: BeliefPropagation) -> Matrix:
    h = module.compatibility.double().numpy()
    return 1 / len(h) + module.coupling * (h - 1 / len(h))


def beliefs_of(module: BeliefPropagation, x: Tensor, adj: sp.csr_array) -> Matrix:
    return module(x, operators_of(adj)).double().exp().numpy()


BOTH = each(
    ("model", "operators"),
    [(BeliefPropagation, operators_of), (ZooBP, linear_operators)],
)


# --------------------------------------------------------------- belief propagation


@not_settled
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 7),
    prior=st.sampled_from([1.0, 0.8]),
    coupling=st.sampled_from([1.0, 0.4]),
)
def test_on_trees_beliefs_are_the_exact_marginals(
    seed: int, n: int, prior: float, coupling: float
) -> None:
    tree, rng = random_tree(n, seed), np.random.default_rng(seed)
    known = {int(v): int(rng.integers(3)) for v in rng.choice(n, n // 2, replace=False)}
    h = rng.random((3, 3)) + 0.02
    module = BeliefPropagation(
        3, 3, compatibility=h, prior=prior, coupling=coupling, **EXACT
    )
    x = one_hot(n, known)
    found = beliefs_of(module, x, tree)
    np.testing.assert_allclose(
        found, marginals(tree, x, psi_of(module), prior), atol=2e-5
    )


@not_settled
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 7),
    prior=st.sampled_from([1.0, 0.8]),
    class_prior=st.sampled_from([1.0, 0.3, 0.0]),
)
def test_on_trees_beliefs_are_exact_with_classes_that_are_not_as_common(
    seed: int, n: int, prior: float, class_prior: float
) -> None:
    tree, rng = random_tree(n, seed), np.random.default_rng(seed)
    known = {int(v): int(rng.integers(3)) for v in rng.choice(n, n // 3, replace=False)}
    h = rng.random((3, 3)) + 0.02
    module = BeliefPropagation(
        3, 3, compatibility=h, prior=prior, class_prior=class_prior, **EXACT
    )
    counts = [1, *rng.integers(n, size=2).tolist()]
    with_shares(module, operators_of(NAMED["no edges"]), counts)
    more = np.array(counts) + 1
    others = class_prior * more / more.sum() + (1 - class_prior) / 3
    x = one_hot(n, known)
    exact = marginals(tree, x, psi_of(module), prior, others)
    np.testing.assert_allclose(beliefs_of(module, x, tree), exact, atol=2e-5)


def test_with_the_defaults_a_tree_is_exact_up_to_the_tolerance() -> None:
    tree, x = random_tree(7, 3), one_hot(7, {0: 0, 5: 2})
    module = BeliefPropagation(3, 3, compatibility=MIXED)
    exact = marginals(tree, x, psi_of(module))
    np.testing.assert_allclose(beliefs_of(module, x, tree), exact, atol=1e-4)


def test_a_forest_is_exact_in_each_of_its_trees() -> None:
    forest = adjacency(7, [(0, 1), (1, 2), (3, 4), (3, 5)])
    x = one_hot(7, {0: 1, 4: 2, 5: 0})
    module = BeliefPropagation(3, 3, compatibility=MIXED)
    exact = marginals(forest, x, psi_of(module))
    np.testing.assert_allclose(beliefs_of(module, x, forest), exact, atol=1e-4)
    np.testing.assert_allclose(exact[6], 1 / 3)


def test_on_a_cycle_messages_settle_beside_the_exact_marginals() -> None:
    # What is known comes to the triangle from a tail, and goes around in it.
    graph, alike = adjacency(4, [(0, 1), (1, 2), (2, 0), (0, 3)]), [[4, 1], [1, 4]]
    x = one_hot(4, {3: 0}, 2)
    module = BeliefPropagation(2, 2, compatibility=alike)
    found = beliefs_of(module, x, graph)
    exact = marginals(graph, x, psi_of(module))
    assert np.abs(found - exact).max() > 0.01
    assert (found.argmax(axis=1) == exact.argmax(axis=1)).all()
    assert found[0, 0] > exact[0, 0]  # too sure
    # Settled: from there, further steps change nothing, and neither does damping.
    for more in ({"steps": 2000, "tolerance": 1e-12}, {"damping": 0.0}):
        again = BeliefPropagation(2, 2, compatibility=alike, **more)
        np.testing.assert_allclose(beliefs_of(again, x, graph), found, atol=1e-4)


def test_a_label_that_is_held_fast_cuts_a_cycle() -> None:
    x = one_hot(5, {0: 0}, 2)
    module = BeliefPropagation(2, 2, compatibility=[[4, 1], [1, 4]])
    exact = marginals(cycle(5), x, psi_of(module))
    np.testing.assert_allclose(beliefs_of(module, x, cycle(5)), exact, atol=1e-5)


def test_messages_that_never_settle_are_said() -> None:
    # Strong dislike around a square and its chord: no labelling suits all.
    x = one_hot(4, {0: 0}, 2)
    frustrated = NAMED["K4"]
    module = BeliefPropagation(
        2, 2, compatibility=[[0, 1], [1, 0]], damping=0.0, steps=30, prior=0.9
    )
    message = (
        r"belief propagation has not settled: after 30 steps messages still change by "
        r"up to \S+; a larger 'damping', a smaller 'coupling' or more 'steps' may help"
    )
    with pytest.warns(H2GCNWarning, match=message):
        logits = module(x, operators_of(frustrated))
    assert torch.isfinite(logits).all()


def test_a_hub_of_two_thousand_does_not_underflow() -> None:
    n, c = 2001, 3
    star = adjacency(n, [(0, v) for v in range(1, n)])
    known = {v: v % 2 for v in range(1, n - 100)}
    module = BeliefPropagation(c, c, compatibility=MIXED)
    logits = module(one_hot(n, known), operators_of(star)).double().numpy()
    counts = np.bincount(list(known.values()), minlength=c)
    # Exact on a star: leaves without a label say nothing, the others their row.
    joint = counts @ np.log(psi_of(module))
    expected = joint - np.logaddexp.reduce(joint)
    np.testing.assert_allclose(logits[0], expected, rtol=1e-5)
    assert logits[0].min() < -200  # its product would be less than 1e-800
    np.testing.assert_allclose(
        np.exp(logits[-1]), np.exp(expected) @ psi_of(module), atol=1e-5
    )


@each("h", [0.9, 0.995])
@each("counts", [(400, 410), (150, 160)])
@each("order", [1, -1])
def test_a_hub_hears_the_majority_in_any_order(
    h: float, counts: tuple[int, int], order: int
) -> None:
    # Around node 0 its leaf 1, and nodes that each hear two labels of one class.
    classes = [c for c in (0, 1) for _ in range(counts[c])][::order]
    middle = range(2, 2 + len(classes))
    n = 2 + 3 * len(classes)
    edges = [(0, 1), *((0, m) for m in middle)]
    known = {}
    for leaf, m in zip(range(2 + len(classes), n, 2), middle, strict=True):
        edges += [(m, leaf), (m, leaf + 1)]
        known |= dict.fromkeys((leaf, leaf + 1), classes[m - 2])
    alike = [[h, 1 - h], [1 - h, h]]
    module = BeliefPropagation(2, 2, compatibility=alike, class_prior=0.0)
    tree = adjacency(n, edges)
    beliefs = beliefs_of(module, one_hot(n, known, 2), tree)
    # By hand: ten more speak for class 1, each as much as two labels let it.
    psi = psi_of(module)
    each = psi @ (psi[:, 1] ** 2)
    odds = (counts[1] - counts[0]) * np.log(each[1] / each[0])
    hub = 1 / (1 + np.exp(odds))
    np.testing.assert_allclose(beliefs[0], [hub, 1 - hub], atol=1e-5)
    np.testing.assert_allclose(beliefs[1], psi @ [hub, 1 - hub], atol=1e-5)


def test_free_neighbours_outweigh_labels_that_are_held_fast() -> None:
    # 400 labels of class 0 at the hub, and 420 nodes that hear two of class 1 each.
    held, free = range(2, 402), range(402, 822)
    n = 822 + 2 * 420
    edges = [(0, 1), *((0, v) for v in (*held, *free))]
    known = dict.fromkeys(held, 0) | dict.fromkeys(range(822, n), 1)
    for leaf, m in zip(range(822, n, 2), free, strict=True):
        edges += [(m, leaf), (m, leaf + 1)]
    alike = [[0.9, 0.1], [0.1, 0.9]]
    module = BeliefPropagation(2, 2, compatibility=alike, class_prior=0.0)
    beliefs = beliefs_of(module, one_hot(n, known, 2), adjacency(n, edges))
    psi = psi_of(module)
    each = psi @ (psi[:, 1] ** 2)
    odds = 420 * np.log(each[1] / each[0]) + 400 * np.log(psi[0, 1] / psi[0, 0])
    hub = 1 / (1 + np.exp(odds))
    np.testing.assert_allclose(beliefs[0], [hub, 1 - hub], atol=1e-5)
    np.testing.assert_allclose(beliefs[1], psi @ [hub, 1 - hub], atol=1e-5)


def test_all_leaves_of_a_hub_may_be_of_one_class() -> None:
    star = adjacency(2001, [(0, v) for v in range(1, 2001)])
    x = one_hot(2001, dict.fromkeys(range(1, 1900), 1), 2)
    module = BeliefPropagation(2, 2, compatibility=[[1, 0], [0, 1]])
    logits = module(x, operators_of(star))
    assert torch.isfinite(logits).all()
    assert (logits[1900:].argmax(dim=1) == 1).all()


def test_a_training_node_keeps_its_label_unless_its_prior_is_soft() -> None:
    # Five neighbours say that node 0 is of class 1; its own label says 0.
    star = adjacency(6, [(0, v) for v in range(1, 6)])
    x = one_hot(6, {0: 0, **dict.fromkeys(range(1, 6), 1)}, 2)
    alike = [[9, 1], [1, 9]]
    fast = BeliefPropagation(2, 2, compatibility=alike)(x, operators_of(star))
    assert fast[0].exp().tolist() == pytest.approx([1, 1e-12], rel=1e-3)
    soft = BeliefPropagation(2, 2, compatibility=alike, prior=0.9)
    assert int(soft(x, operators_of(star))[0].argmax()) == 1


def test_classes_that_are_heard_equally_well_are_equal() -> None:
    x = one_hot(5, {1: 0, 3: 1})
    module = BeliefPropagation(3, 3, compatibility=[[3, 1, 1], [1, 3, 1], [1, 1, 3]])
    logits = module(x, operators_of(NAMED["path"]))
    assert float(logits[2, 0]) == float(logits[2, 1]) > float(logits[2, 2])


def test_nodes_that_no_label_reaches_have_equal_logits() -> None:
    x = one_hot(6, {0: 1})
    module = BeliefPropagation(3, 3, compatibility=MIXED)
    logits = module(x, operators_of(SIX))
    assert len(set(logits[5].tolist())) == 1
    assert (logits[:5].std(dim=1) > 1e-3).all()
    reached = module.reached(x, operators_of(SIX)).tolist()
    assert reached == [True] * 5 + [False]


@BOTH
@each("h", [None, [[1, 1], [1, 1]]])
def test_a_uniform_compatibility_passes_nothing_on(
    model: Any, operators: Any, h: list[list[float]] | None
) -> None:
    x, module = one_hot(6, {0: 0}, 2), model(2, 2, compatibility=h)
    logits = module(x, operators(SIX))
    assert int(logits[0].argmax()) == 0
    assert (logits[1:, 0] == logits[1:, 1]).all()
    assert module.reached(x, operators(SIX)).tolist() == [True] + [False] * 5


@BOTH
def test_the_compatibility_is_estimated_from_edges_between_training_nodes(
    model: Any, operators: Any
) -> None:
    labels, index = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 3])
    module = model(3, 3)
    x = one_hot(6, {0: 0, 1: 1, 2: 2, 3: 1})
    module.initialise(x, operators(SIX), labels, index)
    expected = from_edges(Operator(SIX, symmetric=True), labels, index, 3)
    np.testing.assert_allclose(module.compatibility, expected, atol=1e-6)
    assert module.compatibility.std() > 0.1
    again = model(3, 3)
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(x, operators(SIX)), module(x, operators(SIX)))
    assert not list(module.parameters())
    module.reset_parameters()
    np.testing.assert_allclose(module.compatibility, expected, atol=1e-6)


@each("model", [BeliefPropagation, ZooBP])
def test_a_given_compatibility_is_made_symmetric(model: Any) -> None:
    module = model(3, 3, compatibility=SKEWED)
    h = module.compatibility.double().numpy()
    expected = project(torch.tensor(SKEWED).clamp(min=1e-12))
    np.testing.assert_allclose(h, expected, atol=1e-6)
    np.testing.assert_allclose(h, h.T, atol=1e-7)
    np.testing.assert_allclose(h.sum(axis=1), 1, atol=1e-4)
    known = torch.tensor([0, 1])
    x = one_hot(6, {0: 0, 1: 1})
    module.initialise(x, linear_operators(SIX), known, known)
    np.testing.assert_allclose(module.compatibility, h, atol=1e-7)


@BOTH
def test_shares_of_the_classes_are_those_of_the_training_nodes_and_one_more(
    model: Any, operators: Any
) -> None:
    module = model(3, 3)
    np.testing.assert_allclose(module.class_shares, 1 / 3)
    with_shares(module, operators(NAMED["no edges"]), [2, 0, 1])
    np.testing.assert_allclose(module.class_shares, [3 / 6, 1 / 6, 2 / 6])


@BOTH
@each("h", [None, np.ones((3, 3))])
def test_where_edges_say_nothing_the_common_class_is_predicted(
    model: Any, operators: Any, h: Matrix | None
) -> None:
    # Classes that do not depend on edges: half of all nodes are of class 1.
    n, rng = 400, np.random.default_rng(0)
    upper = np.triu(rng.random((n, n)) < 4 / n, 1)
    graph = operators(sp.csr_array((upper | upper.T).astype(np.float32)))
    y = torch.from_numpy(rng.choice(3, n, p=[0.3, 0.5, 0.2]))
    known, unknown = torch.arange(200), torch.arange(200, n)
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)))

    def share_of_common_class(class_prior: float) -> float:
        module = model(3, 3, compatibility=h, class_prior=class_prior)
        module.initialise(x, graph, y[known], known)
        return float((module(x, graph)[unknown].argmax(dim=1) == 1).float().mean())

    assert share_of_common_class(1.0) > (0.9 if h is None else 0.999)
    assert share_of_common_class(0.0) < 0.5


@BOTH
def test_classes_that_are_as_common_are_equal_where_edges_say_nothing(
    model: Any, operators: Any
) -> None:
    module = model(3, 3, compatibility=[[3, 3, 1], [3, 3, 1], [1, 1, 5]])
    with_shares(module, operators(NAMED["no edges"]), [4, 4, 1])
    logits = module(one_hot(6, {}), operators(SIX))
    assert (logits[:, 0] == logits[:, 1]).all()
    assert (logits[:, 0] > logits[:, 2]).all()


@BOTH
def test_a_state_without_shares_of_the_classes_is_that_of_a_uniform_prior(
    model: Any, operators: Any
) -> None:
    before = model(3, 3, compatibility=MIXED, class_prior=0.0)
    state = {"compatibility": before.compatibility}
    module = model(3, 3)
    assert module.state_problem(state) is None
    assert module.state_problem({}) == "compatibility is missing"
    assert (
        module.state_problem({**state, "class_shares": torch.tensor([1.0, 0.0, 0.0])})
        == "class_shares has numbers that are not positive"
    )
    module.load_state_dict(state)
    x = one_hot(6, {0: 1, 2: 0})
    assert torch.equal(module(x, operators(SIX)), before(x, operators(SIX)))


def test_neighbours_that_differ_are_predicted() -> None:
    n = 40
    y = torch.arange(n) % 2
    known = torch.tensor([0, 1, 10, 11, 20, 21, 31, 32])
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)), 2)
    module = BeliefPropagation(2, 2)
    module.initialise(x, operators_of(cycle(n)), y[known], known)
    assert (module(x, operators_of(cycle(n))).argmax(dim=1) == y).all()


@BOTH
def test_renumbering_the_nodes_renumbers_the_logits(model: Any, operators: Any) -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((60, 60)) < 0.05, 1)
    graph = sp.csr_array((upper | upper.T).astype(np.float32))
    order = rng.permutation(60)
    x = one_hot(60, {v: v % 3 for v in range(0, 60, 4)})
    module = model(3, 3, compatibility=MIXED)
    logits = module(x, operators(graph))
    other = sp.csr_array(graph[order][:, order])
    permuted = module(x[order], operators(other))
    torch.testing.assert_close(permuted, logits[order], rtol=1e-4, atol=1e-4)
    index = np.array([7, 0, 7])
    some = module(x, operators(graph), Target.of(operators(graph), index))
    torch.testing.assert_close(some, logits[index])


def test_a_graph_without_edges_has_nothing_to_say() -> None:
    x, empty = one_hot(3, {0: 1}), adjacency(3, [])
    for module, operators in (
        (BeliefPropagation(3, 3, compatibility=MIXED), operators_of(empty)),
        (ZooBP(3, 3, compatibility=MIXED), linear_operators(empty)),
    ):
        logits = module(x, operators)
        assert int(logits[0].argmax()) == 1
        assert len(set(logits[1:].reshape(-1).tolist())) == 1


# ----------------------------------------------------------------------------- ZooBP


GRAPHS = {
    **NAMED,
    "six": SIX,
    "pair": path(2),
    "star": adjacency(9, [(0, v) for v in range(1, 9)]),
}


def bound(adj: sp.csr_array) -> float:
    """Return the e for which e + m e² = 1, m = max D / ρ²."""
    a = adj.toarray().astype(float)
    radius = np.abs(np.linalg.eigvalsh(a)).max()
    m = a.sum(axis=1).max() / radius**2 if radius else 0
    return float(max(np.roots([m, 1, -1]).real)) if m else 1.0


def epsilon_of(adj: sp.csr_array, h: Matrix, scale: float) -> float:
    """Return `scale` times the bound on ε, were it not at most 1."""
    radius = np.abs(np.linalg.eigvalsh(adj.toarray().astype(float))).max() or 1
    return float(scale * bound(adj) / (radius * np.linalg.norm(h - 1 / len(h), 2)))


def persona(adj: sp.csr_array, h: Matrix, epsilon: float) -> tuple[Matrix, Matrix]:
    """Return P and Q of the paper, with a row for each class of each node."""
    a = adj.toarray().astype(float)
    c = len(h)
    r = c * h - 1
    p = np.kron(a, epsilon / c * r)
    q = np.kron(np.diag(a.sum(axis=1)), (epsilon / c) ** 2 * r @ r.T)
    return p, q


@each("graph", GRAPHS)
@each("scale", [0.3, 0.9])
@each("counts", [None, [5, 0, 2]], ids=["uniform", "prior"])
def test_beliefs_are_the_solution_of_the_linear_system(
    graph: str, scale: float, counts: list[int] | None
) -> None:
    adj = GRAPHS[graph]
    n = adj.shape[0]
    x = one_hot(n, {0: 1, n - 1: 2})
    module = ZooBP(3, 3, compatibility=MIXED, scale=scale, steps=5000, tolerance=0.0)
    lead = np.zeros(3)
    if counts is not None:
        with_shares(module, linear_operators(adjacency(7, [])), counts)
        lead = np.array([6, 1, 3]) / 10 - 1 / 3
    epsilon = min(epsilon_of(adj, np.array(MIXED), scale), 1)
    p, q = persona(adj, np.array(MIXED), epsilon)
    labels = x.double().numpy()
    e = np.array([row - 1 / 3 if row.any() else epsilon * lead for row in labels])
    b = np.linalg.solve(np.eye(3 * n) - p + q, e.reshape(-1)).reshape(n, 3)
    logits = module(x, linear_operators(adj)).double().numpy()
    size = (b * logits).sum() / (b * b).sum()  # one number for the whole graph
    assert size > 0
    np.testing.assert_allclose(logits, size * b, atol=2e-4)


@each("scale", [0.5, 0.9, 0.99])
def test_zoobp_is_solved_as_it_comes(scale: float) -> None:
    x, operators = one_hot(40, {0: 0, 13: 1, 27: 2}), linear_operators(cycle(40))
    found = ZooBP(3, 3, compatibility=MIXED, scale=scale)(x, operators)
    module = ZooBP(3, 3, compatibility=MIXED, scale=scale, steps=10000, tolerance=0.0)
    np.testing.assert_allclose(found, module(x, operators), atol=2e-3)


def test_beliefs_that_have_not_settled_are_told() -> None:
    module = ZooBP(3, 3, compatibility=MIXED, scale=0.99, steps=100)
    message = (
        r"the beliefs have not settled: after 100 steps they still change by up to "
        r"\S+; a smaller 'scale' or more 'steps' may help"
    )
    with pytest.warns(H2GCNWarning, match=message):
        module(one_hot(40, {0: 0}), linear_operators(cycle(40)))


def test_compatibility_is_never_made_stronger_than_it_is() -> None:
    pair, weak = path(2), np.array([[0.52, 0.48], [0.48, 0.52]])
    assert epsilon_of(pair, weak, 0.5) > 5
    module = ZooBP(2, 2, compatibility=weak)
    logits = module(one_hot(2, {0: 0}, 2), linear_operators(pair))
    # What node 1 hears is H - 1/2 times what node 0 is, up to the echo.
    ratio = float(logits[1, 0] / logits[0, 0])
    assert ratio == pytest.approx(0.04, rel=0.01)


@each("graph", GRAPHS)
def test_the_iteration_converges_up_to_the_bound(graph: str) -> None:
    adj, h = GRAPHS[graph], np.array(MIXED)
    p, q = persona(adj, h, epsilon_of(adj, h, 0.999))
    assert np.abs(np.linalg.eigvals(p - q)).max(initial=0) < 1
    # The norms of both sum to one at the bound, as the sufficient condition says.
    p, q = persona(adj, h, epsilon_of(adj, h, 1.0))
    total = np.linalg.norm(p, 2) + np.linalg.norm(q, 2)
    assert total == pytest.approx(1 if adj.nnz else 0)


def test_the_bound_is_linbps_on_a_star_and_wider_elsewhere() -> None:
    star, k4 = GRAPHS["star"], NAMED["K4"]
    for adj, expected in ((star, GOLDEN), (k4, bound(k4))):
        module = ZooBP(3, 3, compatibility=MIXED)
        assert module._bound(linear_operators(adj)) == pytest.approx(expected, rel=1e-5)
    assert bound(k4) > GOLDEN + 0.1


@each("graph", ["six", "K4", "path"])
def test_with_one_type_of_edges_it_is_linbp_solved_for_the_same_epsilon(
    graph: str,
) -> None:
    adj = GRAPHS[graph]
    n = adj.shape[0]
    x, operators = one_hot(n, {0: 1, n - 1: 2}), linear_operators(adj)
    scale = 0.6
    same = scale * bound(adj) / GOLDEN
    assert same < 1
    zoo = ZooBP(3, 3, compatibility=MIXED, scale=scale, steps=2000, tolerance=0.0)
    lin = LinBP(3, 3, compatibility=MIXED, scale=same, steps=2000)
    torch.testing.assert_close(zoo(x, operators), lin(x, operators), atol=1e-4, rtol=0)
    # For another ε they are not the same, so the test can fail.
    other = LinBP(3, 3, compatibility=MIXED, scale=0.3 * same, steps=2000)
    assert (zoo(x, operators) - other(x, operators)).abs().max() > 1e-3


def test_a_loose_tolerance_ends_the_iteration_early() -> None:
    # Node 4 is three steps from node 1, and hears of it only in the third.
    x, operators = one_hot(6, {1: 1}), linear_operators(SIX)
    far = ZooBP(3, 3, compatibility=MIXED, steps=50)(x, operators)
    near = ZooBP(3, 3, compatibility=MIXED, tolerance=0.9)(x, operators)
    assert far[4].abs().max() > 0
    assert not near[4].any()


def test_beliefs_that_cancel_out_are_equal() -> None:
    # Node 2 hears of two classes equally well; only rounding could tell them apart.
    x = one_hot(5, {1: 0, 3: 1}, 2)
    module = ZooBP(2, 2, compatibility=[[1, 4], [4, 1]])
    logits = module(x, linear_operators(NAMED["path"]))
    assert float(logits[2, 0]) == float(logits[2, 1])
    assert float(logits[0, 0]) < float(logits[0, 1])


def test_what_is_heard_for_and_against_bounds_the_beliefs() -> None:
    x, operators = one_hot(6, {0: 1, 2: 0}), linear_operators(SIX)
    module = ZooBP(3, 3, compatibility=MIXED)
    labels = x - x.mean(dim=1, keepdim=True)
    beliefs = module._spread(labels, operators)
    heard = module._heard(labels, operators)
    assert (beliefs.norm(dim=1, keepdim=True) <= heard + 1e-6).all()


def test_a_far_node_is_not_levelled() -> None:
    long = path(30)
    logits = ZooBP(2, 2, compatibility=[[4, 1], [1, 4]], tolerance=0.0)(
        one_hot(30, {0: 1}, 2), linear_operators(long)
    )
    assert (logits[:, 1] > logits[:, 0]).all()


# --------------------------------------------------------------------------- options


@each(
    ("model", "options"),
    [
        (BeliefPropagation, {"in_channels": 5}),
        (ZooBP, {"in_channels": 5}),
        (BeliefPropagation, {"coupling": 0}),
        (BeliefPropagation, {"prior": 1.5}),
        (BeliefPropagation, {"class_prior": 2}),
        (ZooBP, {"class_prior": -1}),
        (BeliefPropagation, {"damping": 1}),
        (BeliefPropagation, {"steps": 0}),
        (BeliefPropagation, {"steps": 10_001}),
        (BeliefPropagation, {"tolerance": -1}),
        (ZooBP, {"scale": 1}),
        (ZooBP, {"steps": 0}),
        (ZooBP, {"steps": 10_001}),
        (ZooBP, {"tolerance": "no"}),
    ],
)
def test_bad_options_are_named(model: Any, options: dict[str, object]) -> None:
    with refused(**only(options)):
        model(**({"in_channels": 2, "out_channels": 2} | options))


@each(
    ("model", "matrix", "fields"),
    [
        (ZooBP, MIXED, {"words": "got shape (3, 3)"}),
        (BeliefPropagation, [[1, -1], [1, 1]], {"value": [[1.0, -1.0], [1.0, 1.0]]}),
    ],
)
def test_a_compatibility_that_cannot_be_is_named(
    model: Any, matrix: object, fields: dict[str, object]
) -> None:
    with refused(param="compatibility", **fields):
        model(2, 2, compatibility=matrix)
