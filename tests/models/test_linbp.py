"""LinBP and ZooBP against their linear systems and the bounds on convergence."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models import build_model
from h2gcn.models.compatibility import from_edges
from h2gcn.models.linbp import BeliefMatrices, spectral_radius
from h2gcn.sparse import Operator
from support.fits import train_module
from support.graphs import (
    NAMED,
    SIX,
    adjacency,
    cycle,
    one_hot,
    random_adjacency,
)
from support.models import logits

GOLDEN = 0.6180339887498949
STAR = adjacency(301, [(0, v) for v in range(1, 301)])
PAIR = adjacency(2, [(0, 1)])
GRAPHS = {**NAMED, "six": SIX, "pair": PAIR}
MIXED = np.array([[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]])
"""Symmetric and doubly stochastic; each class prefers another."""


def operators_of(adj):
    return tuple(Operator(a, symmetric=True) for a in BeliefMatrices()(adj))


def path(n):
    return adjacency(n, [(v, v + 1) for v in range(n - 1)])


def build(name, h=MIXED, **options):
    module = build_model(name, len(h), len(h), options)
    module.compatibility.copy_(torch.as_tensor(h))
    return module


def radius_of(matrix):
    return float(np.abs(np.linalg.eigvals(matrix)).max(initial=0))


def graph_bound(adj):
    """Return the e for which e + m e² = 1, m = max D / ρ²."""
    a = adj.toarray().astype(float)
    radius = radius_of(a)
    m = (a**2).sum(axis=1).max() / radius**2 if radius else 0
    return max(np.roots([m, 1, -1]).real) if m else 1.0


def epsilon_of(adj, h, e):
    size = np.linalg.norm(h - 1 / len(h), 2) * radius_of(adj.toarray().astype(float))
    return e / size if size else 0.0


def step_of(adj, h_hat):
    """Return the matrix of A B Ĥ − D B Ĥ², for B row after row."""
    a = adj.toarray().astype(float)
    degrees = np.diag((a**2).sum(axis=1))
    return np.kron(a, h_hat.T) - np.kron(degrees, (h_hat @ h_hat).T)


def explicit(y, prior=0.0):
    return np.where(y.any(axis=1, keepdims=True), y - 1 / y.shape[1], prior)


def scaled(beliefs, y):
    """Divide beliefs by the root mean square of those without a label."""
    rest = beliefs[~y.any(axis=1)]
    size = np.sqrt((rest**2).mean()) if len(rest) else 0
    return beliefs / size if size else beliefs


def test_linbp_takes_some_steps_of_its_iteration():
    for title, adj in GRAPHS.items():
        n = adj.shape[0]
        x, operators = one_hot(n, {0: 1, n - 1: 2}), operators_of(adj)
        y = x.double().numpy()
        for scale, steps in ((0.5, 10), (0.9, 1), (0.2, 3)):
            h_hat = epsilon_of(adj, MIXED, scale * GOLDEN) * (MIXED - 1 / 3)
            start, step = explicit(y).reshape(-1), step_of(adj, h_hat)
            beliefs = start
            for _ in range(steps):
                beliefs = start + step @ beliefs
            expected = scaled(beliefs.reshape(n, 3), y)
            found = logits(build("linbp", scale=scale, steps=steps), x, operators)
            np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=title)


def test_zoobp_is_the_solution_of_its_linear_system():
    # P and Q of the paper, with R = C H − 1 and a row for each class of each node.
    shares = np.array([6, 1, 3]) / 10
    for title, adj in GRAPHS.items():
        n, a = adj.shape[0], adj.toarray().astype(float)
        x, operators = one_hot(n, {0: 1}), operators_of(adj)
        for scale, lead in ((0.3, 0), (0.9, 0), (0.3, shares - 1 / 3)):
            module = build("zoobp", scale=scale, steps=300, tolerance=0.0)
            module.class_frequencies.copy_(torch.as_tensor(lead + 1 / 3))
            epsilon = min(epsilon_of(adj, MIXED, scale * graph_bound(adj)) or 1, 1)
            r = 3 * MIXED - 1
            p = np.kron(a, epsilon / 3 * r)
            q = np.kron(np.diag(a.sum(axis=1)), (epsilon / 3) ** 2 * r @ r.T)
            if not adj.nnz:  # ε is then that of an edge of weight one
                epsilon = min(scale / np.linalg.norm(MIXED - 1 / 3, 2), 1)
            e = explicit(x.double().numpy(), epsilon * lead)
            b = np.linalg.solve(np.eye(3 * n) - p + q, e.reshape(-1)).reshape(n, 3)
            expected, found = (
                scaled(b, x.double().numpy()),
                logits(module, x, operators),
            )
            np.testing.assert_allclose(found, expected, atol=2e-4, err_msg=title)


def test_zoobp_is_solved_to_its_tolerance():
    x, operators = one_hot(40, {0: 0, 13: 1, 27: 2}), operators_of(cycle(40))
    for scale in (0.5, 0.9, 0.99):
        exact = build("zoobp", scale=scale, steps=2000, tolerance=0.0)
        torch.testing.assert_close(
            logits(build("zoobp", scale=scale), x, operators),
            logits(exact, x, operators),
            atol=2e-3,
            rtol=0,
        )
    with pytest.warns(H2GCNWarning, match="beliefs have not converged: after 100 st"):
        logits(build("zoobp", scale=0.99, steps=100), x, operators)
    # Node 4 is three steps from node 1: a loose tolerance ends before it hears.
    loose = logits(build("zoobp", tolerance=0.9), one_hot(6, {1: 1}), operators_of(SIX))
    assert not loose[4].any()


def test_epsilon_of_zoobp_is_at_most_one():
    weak = np.array([[0.52, 0.48], [0.48, 0.52]])
    module = build("zoobp", weak, class_prior=0.0)
    found = logits(module, one_hot(2, {0: 0}, 2), operators_of(PAIR))
    # Node 1 receives H − 1/2 times the belief of node 0, up to the echo.
    assert float(found[1, 0] / found[0, 0]) == pytest.approx(0.04, rel=0.01)


def test_a_uniform_compatibility_passes_nothing_on():
    x, operators = one_hot(6, {0: 1}), operators_of(SIX)
    for noise in (0, 1e-8):  # of rounding
        found = logits(build("linbp", 1 / 3 + noise * np.eye(3)), x, operators)
        np.testing.assert_allclose(found[0], [-1 / 3, 2 / 3, -1 / 3])
        assert not found[1:].any()


def test_ties_are_exact_and_far_nodes_are_not_tied():
    alike = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 5
    x, operators = one_hot(5, {1: 0, 3: 1}), operators_of(NAMED["path"])
    found = logits(build("zoobp", alike), x, operators)
    assert float(found[2, 0]) == float(found[2, 1]) > float(found[2, 2])
    far = build("zoobp", np.array([[0.8, 0.2], [0.2, 0.8]]), tolerance=0.0)
    found = logits(far, one_hot(30, {0: 1}, 2), operators_of(path(30)))
    assert (found[:, 1] > found[:, 0]).all()


def test_renumbering_the_nodes_of_a_large_graph_renumbers_the_logits():
    graph = random_adjacency(0, 300, 4 / 300)
    order = np.random.default_rng(0).permutation(300)
    x = one_hot(300, {v: v % 3 for v in range(0, 300, 4)})
    other = operators_of(sp.csr_array(graph[order][:, order]))
    for name in ("linbp", "zoobp"):
        expected = logits(build(name), x, operators_of(graph))[order]
        found = logits(build(name), x[order], other)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_matrices_are_adjacency_and_squares_over_the_spectral_radius():
    for adj in GRAPHS.values():
        nodes = np.arange(adj.shape[0])
        for weights in (1, 1 + np.add.outer(nodes, nodes) % 3):
            a = adj.toarray().astype(float) * weights
            radius = radius_of(a) or 1
            expected = a / radius, np.diag((a**2).sum(axis=1)) / radius**2
            found = BeliefMatrices()(sp.csr_array(a.astype(np.float32)))
            for matrix, wanted in zip(found, expected, strict=True):
                assert matrix.dtype == np.float32
                np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-5)
                np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)


def test_the_spectral_radius_of_a_large_graph_is_always_the_same():
    for large, radius in (
        (STAR, 300**0.5),
        (path(400), 2 * np.cos(np.pi / 401)),
        (sp.block_diag([NAMED["K4"]] * 80), 3),
        (sp.block_diag([PAIR] * 200), 1),
        (sp.block_diag([STAR, PAIR, path(9)]), 300**0.5),
    ):
        assert large.shape[0] > 256  # else all eigenvalues are computed
        found = {float(spectral_radius(sp.csr_array(large))) for _ in range(3)}
        assert len(found) == 1
        assert found.pop() == pytest.approx(radius, rel=1e-5)
    for matrix in BeliefMatrices()(adjacency(300, [])):
        assert not matrix.toarray().any()


def test_the_state_is_estimated_from_training_nodes():
    y, index = np.array([0, 1, 2, 1, 0, 0]), [0, 1, 2, 3]
    x, module = one_hot(6, {v: y[v] for v in index}), build_model("linbp", 3, 3, {})
    assert module.compatibility.tolist() == torch.full((3, 3), 1 / 3).tolist()
    train_module(module, x, operators_of(SIX), y, index)
    expected = from_edges(Operator(SIX, symmetric=True), x)
    np.testing.assert_allclose(module.compatibility, expected, atol=1e-6)
    np.testing.assert_allclose(module.class_frequencies, [2 / 7, 3 / 7, 2 / 7])
    assert not list(module.parameters())
