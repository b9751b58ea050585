"""LinBP and ZooBP against their linear systems and the bounds on convergence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning
from h2gcn.models import build_model
from h2gcn.models.compatibility import from_edges
from h2gcn.models.label_propagation import LabelPropagation
from h2gcn.models.linbp import BeliefMatrices, LinBP, spectral_radius
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
GOLDEN = 0.6180339887498949
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""
STAR = adjacency(301, [(0, v) for v in range(1, 301)])
PAIR = adjacency(2, [(0, 1)])
GRAPHS = {**NAMED, "six": SIX, "pair": PAIR}
MIXED = np.array([[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]])
"""Symmetric and doubly stochastic; each class prefers another."""


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in BeliefMatrices()(adj))


def path(n: int) -> sp.csr_array:
    return adjacency(n, [(v, v + 1) for v in range(n - 1)])


def cycle(n: int) -> sp.csr_array:
    return adjacency(n, [(v, (v + 1) % n) for v in range(n)])


def one_hot(n: int, labels: Mapping[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def linbp(h: Any = MIXED, **options: Any) -> LinBP:
    module = build_model("linbp", len(h), len(h), options)
    module.compatibility.copy_(torch.as_tensor(h))
    return module


def zoobp(h: Any = MIXED, **options: Any) -> LinBP:
    module = build_model("zoobp", len(h), len(h), options)
    module.compatibility.copy_(torch.as_tensor(h))
    return module


def radius_of(matrix: Matrix) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max(initial=0))


def graph_bound(adj: sp.csr_array) -> float:
    """Return the e for which e + m e² = 1, m = max D / ρ²."""
    a = adj.toarray().astype(float)
    radius = radius_of(a)
    m = (a**2).sum(axis=1).max() / radius**2 if radius else 0
    return float(max(np.roots([m, 1, -1]).real)) if m else 1.0


def epsilon_of(adj: sp.csr_array, h: Matrix, e: float) -> float:
    size = np.linalg.norm(h - 1 / len(h), 2) * radius_of(adj.toarray().astype(float))
    return float(e / size) if size else 0.0


def step_of(adj: sp.csr_array, h_hat: Matrix) -> Matrix:
    """Return the matrix of A B Ĥ − D B Ĥ², for B row after row."""
    a = adj.toarray().astype(float)
    degrees = np.diag((a**2).sum(axis=1))
    return np.kron(a, h_hat.T) - np.kron(degrees, (h_hat @ h_hat).T)


def explicit(y: Matrix, prior: Matrix | float = 0.0) -> Matrix:
    return np.where(y.any(axis=1, keepdims=True), y - 1 / y.shape[1], prior)


def scaled(beliefs: Matrix, y: Matrix) -> Matrix:
    """Divide beliefs by the root mean square of those without a label."""
    size = np.sqrt((beliefs[~y.any(axis=1)] ** 2).mean())
    return beliefs / size if size else beliefs


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each(("scale", "steps"), [(0.5, 10), (0.9, 1), (0.2, 3)])
def test_logits_are_the_beliefs_after_some_steps_over_their_size(
    adj: sp.csr_array, scale: float, steps: int
) -> None:
    n = adj.shape[0]
    x, operators = one_hot(n, {0: 1, n - 1: 2}), operators_of(adj)
    y = x.double().numpy()
    h_hat = epsilon_of(adj, MIXED, scale * GOLDEN) * (MIXED - 1 / 3)
    beliefs, step = explicit(y).reshape(-1), step_of(adj, h_hat)
    for _ in range(steps):
        beliefs = explicit(y).reshape(-1) + step @ beliefs
    expected = beliefs.reshape(n, 3)
    if n > 2:  # else every node has a label
        expected = scaled(expected, y)
    module = linbp(scale=scale, steps=steps)
    logits = module(x, Propagation(operators))
    assert logits.dtype == torch.float32
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    index = np.array([n - 1, 0, 0])
    target = Propagation(operators, torch.as_tensor(index))
    np.testing.assert_array_equal(module(x, target), logits[index])
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, Propagation(operators)), logits)


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("scale", [0.3, 0.9])
@each("counts", [None, [5, 0, 2]], ids=["uniform", "prior"])
def test_zoobp_is_the_solution_of_its_linear_system(
    adj: sp.csr_array, scale: float, counts: list[int] | None
) -> None:
    # P and Q of the paper, with R = C H − 1 and a row for each class of each node.
    n, a = adj.shape[0], adj.toarray().astype(float)
    x = one_hot(n, {0: 1})
    module = zoobp(scale=scale, steps=5000, tolerance=0.0)
    lead = np.zeros(3)
    if counts is not None:
        more = np.array(counts) + 1
        module.class_shares.copy_(torch.from_numpy(more / more.sum()))
        lead = more / more.sum() - 1 / 3
    epsilon = min(epsilon_of(adj, MIXED, scale * graph_bound(adj)) or 1, 1)
    r = 3 * MIXED - 1
    p = np.kron(a, epsilon / 3 * r)
    q = np.kron(np.diag(a.sum(axis=1)), (epsilon / 3) ** 2 * r @ r.T)
    if not adj.nnz:  # ε is then that of an edge of weight one
        epsilon = min(scale / np.linalg.norm(MIXED - 1 / 3, 2), 1)
    e = explicit(x.double().numpy(), epsilon * lead)
    b = np.linalg.solve(np.eye(3 * n) - p + q, e.reshape(-1)).reshape(n, 3)
    expected = scaled(b, x.double().numpy())
    np.testing.assert_allclose(
        module(x, Propagation(operators_of(adj))), expected, atol=2e-4
    )


def test_both_converge_up_to_their_bound() -> None:
    star = adjacency(13, [(0, v) for v in range(1, 13)])
    for adj in (*GRAPHS.values(), star):
        for h in (MIXED, np.eye(3), np.eye(3)[[1, 0, 2]]):
            for bound in (GOLDEN, graph_bound(adj)):
                epsilon = epsilon_of(adj, h, 0.999 * bound)
                assert radius_of(step_of(adj, epsilon * (h - 1 / 3))) < 1
    # The norms of P and Q sum to one at ZooBP's: its sufficient condition.
    h_hat = epsilon_of(SIX, MIXED, graph_bound(SIX)) * (MIXED - 1 / 3)
    p, q = np.kron(SIX.toarray(), h_hat), np.kron(np.eye(6) * 3, h_hat @ h_hat)
    assert np.linalg.norm(p, 2) + np.linalg.norm(q, 2) == pytest.approx(1)
    assert graph_bound(star) == pytest.approx(GOLDEN)
    assert graph_bound(NAMED["K4"]) > GOLDEN + 0.1


@each("graph", ["six", "K4", "path"])
def test_zoobp_is_linbp_solved_for_the_same_epsilon(graph: str) -> None:
    adj = GRAPHS[graph]
    x, operators = one_hot(adj.shape[0], {0: 1, 2: 2}), operators_of(adj)
    same = 0.6 * graph_bound(adj) / GOLDEN
    zoo = zoobp(scale=0.6, steps=2000, tolerance=0.0)(x, Propagation(operators))
    torch.testing.assert_close(
        zoo, linbp(scale=same, steps=2000)(x, Propagation(operators)), atol=1e-4, rtol=0
    )
    other = linbp(scale=0.3 * same, steps=2000)(x, Propagation(operators))
    assert (zoo - other).abs().max() > 1e-3


def test_zoobp_is_solved_to_its_tolerance() -> None:
    x, operators = one_hot(40, {0: 0, 13: 1, 27: 2}), operators_of(cycle(40))
    for scale in (0.5, 0.9, 0.99):
        exact = zoobp(scale=scale, steps=10_000, tolerance=0.0)(
            x, Propagation(operators)
        )
        torch.testing.assert_close(
            zoobp(scale=scale)(x, Propagation(operators)), exact, atol=2e-3, rtol=0
        )
    with pytest.warns(H2GCNWarning, match="beliefs have not converged: after 100 st"):
        zoobp(scale=0.99, steps=100)(x, Propagation(operators))
    # Node 4 is three steps from node 1: a loose tolerance ends before it hears.
    loose = zoobp(tolerance=0.9)(one_hot(6, {1: 1}), Propagation(operators_of(SIX)))
    assert not loose[4].any()


def test_zoobps_epsilon_is_at_most_one() -> None:
    weak = np.array([[0.52, 0.48], [0.48, 0.52]])
    logits = zoobp(weak, class_prior=0.0)(
        one_hot(2, {0: 0}, 2), Propagation(operators_of(PAIR))
    )
    # Node 1 hears H − 1/2 times what node 0 is, up to the echo.
    assert float(logits[1, 0] / logits[0, 0]) == pytest.approx(0.04, rel=0.01)


def test_unreached_nodes_have_equal_logits() -> None:
    x, operators = one_hot(6, {0: 1}), operators_of(SIX)
    for module in (linbp(), zoobp(class_prior=0.0)):
        logits = module(x, Propagation(operators))
        assert logits[5].tolist() == [0, 0, 0]
        assert (logits[:5].std(dim=1) > 0).all()
        assert module.reached(x, Propagation(operators)).tolist() == 5 * [True] + [
            False
        ]
    # A uniform H, up to rounding, passes nothing on.
    for h in (np.full((3, 3), 1 / 3), np.full((3, 3), 1 / 3) + 1e-8 * np.eye(3)):
        module = linbp(h)
        np.testing.assert_allclose(
            module(x, Propagation(operators))[0], [-1 / 3, 2 / 3, -1 / 3]
        )
        assert not module(x, Propagation(operators))[1:].any()
        assert module.reached(x, Propagation(operators)).tolist() == [True] + 5 * [
            False
        ]


def test_ties_are_exact_and_far_nodes_are_told() -> None:
    x = one_hot(5, {1: 0, 3: 1})
    alike = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 5
    logits = zoobp(alike)(x, Propagation(operators_of(NAMED["path"])))
    assert float(logits[2, 0]) == float(logits[2, 1]) > float(logits[2, 2])
    far = zoobp(np.array([[0.8, 0.2], [0.2, 0.8]]), tolerance=0.0)
    logits = far(one_hot(30, {0: 1}, 2), Propagation(operators_of(path(30))))
    assert (logits[:, 1] > logits[:, 0]).all()


def test_neighbors_that_differ_are_predicted_where_label_propagation_fails() -> None:
    n = 40
    y = torch.arange(n) % 2
    known = torch.tensor([0, 1, 10, 11, 20, 21, 31, 32])
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)), 2)
    for model in ("linbp", "zoobp"):
        module = build_model(model, 2, 2, {})
        module.initialise(x, Propagation(operators_of(cycle(n))), y[known], known)
        assert (module(x, Propagation(operators_of(cycle(n)))).argmax(dim=1) == y).all()
    smooth = tuple(
        Operator(s, symmetric=True) for s in build_matrices([RowRule()], cycle(n))
    )
    assert (
        LabelPropagation(2, 2)(x, Propagation(smooth)).argmax(dim=1) == y
    ).float().mean() < 0.8


def test_renumbering_the_nodes_renumbers_the_logits() -> None:
    for n in (30, 300):
        rng = np.random.default_rng(0)
        upper = np.triu(rng.random((n, n)) < 4 / n, 1)
        graph = sp.csr_array((upper | upper.T).astype(np.float32))
        order = rng.permutation(n)
        x = one_hot(n, {v: v % 3 for v in range(0, n, 4)})
        other = operators_of(sp.csr_array(graph[order][:, order]))
        for module in (linbp(), zoobp()):
            logits = module(x, Propagation(operators_of(graph)))
            torch.testing.assert_close(
                module(x[order], Propagation(other)),
                logits[order],
                rtol=1e-4,
                atol=1e-4,
            )


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("weighted", [False, True])
def test_operators_are_adjacency_and_squares_over_the_spectral_radius(
    adj: sp.csr_array, weighted: bool
) -> None:
    a = adj.toarray().astype(float) * (
        1 + (np.add.outer(np.arange(adj.shape[0]), np.arange(adj.shape[0])) % 3)
        if weighted
        else 1
    )
    radius = radius_of(a) or 1
    expected = a / radius, np.diag((a**2).sum(axis=1)) / radius**2
    made = BeliefMatrices()(sp.csr_array(a.astype(np.float32)))
    for matrix, wanted in zip(made, expected, strict=True):
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-5)
        np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)


def test_the_spectral_radius_of_a_larger_graph() -> None:
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


def test_the_state_is_estimated_from_training_nodes() -> None:
    labels, index = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 3])
    x, operators = one_hot(6, {0: 0, 1: 1, 2: 2, 3: 1}), operators_of(SIX)
    module = LinBP(3, 3)
    assert module.compatibility.tolist() == torch.full((3, 3), 1 / 3).tolist()
    module.initialise(x, Propagation(operators), labels, index)
    expected = from_edges(Operator(SIX, symmetric=True), labels, index, 3)
    np.testing.assert_allclose(module.compatibility, expected, atol=1e-6)
    np.testing.assert_allclose(module.class_shares, [2 / 7, 3 / 7, 2 / 7])
    again = LinBP(3, 3)
    state = module.state_dict()
    assert again.state_problem(state) is None
    again.load_state_dict(state)
    assert torch.equal(
        again(x, Propagation(operators)), module(x, Propagation(operators))
    )
    state["class_shares"] = torch.tensor([1.0, 0.0, 0.0])
    problem = "class_shares has numbers that are not positive"
    assert again.state_problem(state) == problem
    assert not list(module.parameters())


@each(
    "options",
    [
        {"in_channels": 5},
        {"out_channels": 0},
        {"scale": 1},
        {"scale": 0.0},
        {"class_prior": -1},
        {"steps": 0},
        {"steps": 10_001},
        {"tolerance": "no"},
        {"graph_bound": 1},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        LinBP(**({"in_channels": 2, "out_channels": 2} | options))  # type: ignore[arg-type]
