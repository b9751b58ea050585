"""LinBP against its formula, its closed form and the bounds on its convergence."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.belief import LinBP, belief_operators, spectral_radius
from h2gcn.models.label_propagation import LabelPropagation, normalised_adjacency
from h2gcn.sparse import Operator, Target
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
GOLDEN = 0.6180339887498949

# A square with a chord, a tail, and a node of its own.
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
STAR = adjacency(301, [(0, v) for v in range(1, 301)])
GRAPHS = {**NAMED, "six": SIX}
MIXED = [[0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.3, 0.1, 0.6]]
"""Symmetric and doubly stochastic; each class has another favourite."""
SKEWED = [[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.0, 0.4, 0.6]]
"""Rows that sum to one, and no more."""


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in belief_operators(adj))


def one_hot(n: int, labels: dict[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def radius_of(matrix: Matrix) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max(initial=0))


def coupling(adj: sp.csr_array, h: Matrix, scale: float, echo: bool) -> Matrix:
    """Return Ĥ = ε(H − 1/C) with ε as the class describes it."""
    residual = h - 1 / len(h)
    size = np.linalg.norm(residual, 2) * radius_of(adj.toarray().astype(float))
    return residual * scale * (GOLDEN if echo else 1) / size if size else 0 * residual


def beliefs_by_loops(
    adj: sp.csr_array, y: Matrix, h_hat: Matrix, steps: int, echo: bool
) -> Matrix:
    a = adj.toarray().astype(float)
    e = np.array([row - 1 / len(row) if row.any() else row for row in y])
    b = e
    for _ in range(steps):
        cancelled = np.diag(a.sum(axis=1)) @ b @ h_hat @ h_hat if echo else 0
        b = e + a @ b @ h_hat - cancelled
    return b


def over_typical_size(b: Matrix, y: Matrix, adj: sp.csr_array, steps: int) -> Matrix:
    walks = np.linalg.matrix_power(adj.toarray().astype(int) + np.eye(len(b)), steps)
    within_steps = (walks > 0) @ y.any(axis=1)
    sizes = b.std(axis=1)[within_steps & ~y.any(axis=1)]
    return b / sizes.mean() if sizes.any() else b


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("h", [MIXED, SKEWED], ids=["symmetric", "skewed"])
@each("echo", [True, False])
@each(("scale", "steps"), [(0.5, 10), (0.9, 1), (0.2, 3)])
def test_logits_are_the_beliefs_over_their_typical_size(
    adj: sp.csr_array, h: list[list[float]], echo: bool, scale: float, steps: int
) -> None:
    n = adj.shape[0]
    x, operators = one_hot(n, {0: 1, n - 1: 2}), operators_of(adj)
    y = x.double().numpy()
    h_hat = coupling(adj, np.array(h), scale, echo)
    beliefs = beliefs_by_loops(adj, y, h_hat, steps, echo)
    expected = over_typical_size(beliefs, y, adj, steps)
    module = LinBP(3, 3, compatibility=h, scale=scale, steps=steps, echo=echo)
    index = np.array([n - 1, 0, 0])
    target = Target.of(operators, index)
    for mode in (module.eval, module.train):
        mode()
        logits = module(x, operators)
        assert logits.dtype == torch.float32
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(module(x, operators, target), logits[index])


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("echo", [True, False])
def test_many_steps_give_the_closed_form(adj: sp.csr_array, echo: bool) -> None:
    n = adj.shape[0]
    x = one_hot(n, {0: 1, n - 1: 2})
    y, a = x.double().numpy(), adj.toarray().astype(float)
    h_hat = coupling(adj, np.array(MIXED), 0.9, echo)
    e = np.array([row - 1 / 3 if row.any() else row for row in y])
    # By rows, vec(A B Ĥ) is (A ⊗ Ĥᵀ) vec(B).
    system = np.eye(3 * n) - np.kron(a, h_hat.T)
    if echo:
        system += np.kron(np.diag(a.sum(axis=1)), (h_hat @ h_hat).T)
    limit = np.linalg.solve(system, e.reshape(-1)).reshape(n, 3)
    expected = over_typical_size(limit, y, adj, steps=n)
    module = LinBP(3, 3, compatibility=MIXED, scale=0.9, steps=300, echo=echo)
    logits = module(x, operators_of(adj))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@each("echo", [True, False])
@each(
    "h", [MIXED, [[0, 1, 0], [1, 0, 0], [0, 0, 1]], [[1, 0, 0], [1, 0, 0], [0, 1, 0]]]
)
def test_the_iteration_shrinks_up_to_the_bound(
    h: list[list[float]], echo: bool
) -> None:
    star = adjacency(13, [(0, v) for v in range(1, 13)])
    for graph in (*GRAPHS.values(), star):
        a = graph.toarray().astype(float)
        h_hat = coupling(graph, np.array(h, dtype=float), 0.999, echo)
        step = np.kron(a, h_hat.T)
        if echo:
            step -= np.kron(np.diag(a.sum(axis=1)), (h_hat @ h_hat).T)
        assert radius_of(step) < 1


def test_without_echo_the_bound_is_exact_for_a_symmetric_matrix() -> None:
    h_hat = coupling(SIX, np.array(MIXED), 1.0, echo=False)
    assert radius_of(np.kron(SIX.toarray(), h_hat)) == pytest.approx(1)


def test_the_typical_node_without_a_label_has_logits_of_unit_size() -> None:
    x = one_hot(6, {0: 1})
    logits = LinBP(3, 3, compatibility=MIXED)(x, operators_of(SIX))
    sizes = logits[1:5].std(dim=1, correction=0)
    assert float(sizes.mean()) == pytest.approx(1, rel=1e-5)
    assert sizes.max() > 1.1 * sizes.min()  # one number for all nodes


def test_a_node_whose_beliefs_cancel_counts_among_the_reached() -> None:
    # Node 2 hears of two classes equally well: zero, up to rounding.
    x, path = one_hot(5, {1: 0, 3: 1}, 2), NAMED["path"]
    logits = LinBP(2, 2, compatibility=[[1, 4], [4, 1]])(x, operators_of(path))
    sizes = logits.std(dim=1, correction=0)[[0, 2, 4]]
    assert sizes.tolist() == pytest.approx([1.5, 0, 1.5], abs=1e-5)


def test_nodes_that_no_label_reaches_have_equal_logits() -> None:
    logits = LinBP(3, 3, compatibility=MIXED)(one_hot(6, {0: 1}), operators_of(SIX))
    assert logits[5].tolist() == [0, 0, 0]
    assert (logits[:5].std(dim=1) > 0).all()
    module = LinBP(3, 3, compatibility=MIXED)
    assert module.reached(one_hot(6, {0: 1}), operators_of(SIX)).tolist() == [
        *5 * [True],
        False,
    ]


@each("labels", [{}, {0: 1, 1: 0, 2: 2, 3: 1, 4: 0, 5: 2}])
def test_beliefs_stay_as_they_are_where_no_node_or_every_node_has_a_label(
    labels: dict[int, int],
) -> None:
    x = one_hot(6, labels)
    h_hat = coupling(SIX, np.array(MIXED), 0.5, echo=True)
    expected = beliefs_by_loops(SIX, x.double().numpy(), h_hat, 10, echo=True)
    logits = LinBP(3, 3, compatibility=MIXED)(x, operators_of(SIX))
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_rows_are_the_senders_classes() -> None:
    # Next to class 0 is class 1, next to class 1 class 2, next to class 2 any.
    h = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]])
    edge = adjacency(2, [(0, 1)])
    module = LinBP(3, 3, compatibility=h, steps=1, echo=False)
    heard = [module(one_hot(2, {0: c}), operators_of(edge))[1] for c in range(2)]
    assert [int(logits.argmax()) for logits in heard] == [1, 2]


def test_neighbours_that_differ_are_predicted_where_label_propagation_fails() -> None:
    n = 40
    cycle = adjacency(n, [(i, (i + 1) % n) for i in range(n)])
    y = torch.arange(n) % 2
    known = torch.tensor([0, 1, 10, 11, 20, 21, 31, 32])
    x = one_hot(n, dict(zip(known.tolist(), y[known].tolist(), strict=True)), 2)
    module, operators = LinBP(2, 2), operators_of(cycle)
    module.initialise(x, operators, y[known], known)
    assert (module(x, operators).argmax(dim=1) == y).all()
    smooth = tuple(Operator(s, symmetric=True) for s in normalised_adjacency(cycle))
    assert (LabelPropagation(2, 2)(x, smooth).argmax(dim=1) == y).float().mean() < 0.8


@each("n", [30, 300])
def test_renumbering_the_nodes_renumbers_the_logits(n: int) -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((n, n)) < 4 / n, 1)
    graph, order = (
        sp.csr_array((upper | upper.T).astype(np.float32)),
        rng.permutation(n),
    )
    x = one_hot(n, {v: v % 3 for v in range(0, n, 4)})
    module = LinBP(3, 3, compatibility=MIXED)
    logits = module(x, operators_of(graph))
    permuted = module(x[order], operators_of(sp.csr_array(graph[order][:, order])))
    torch.testing.assert_close(permuted, logits[order], rtol=1e-5, atol=1e-5)


def test_sparse_labels_do_for_dense_ones() -> None:
    x, module = one_hot(6, {0: 0, 4: 1}), LinBP(3, 3, compatibility=MIXED)
    sparse = Operator(sp.csr_array(x.numpy()))
    operators = operators_of(SIX)
    torch.testing.assert_close(module(sparse, operators), module(x, operators))


# ------------------------------------------------------------------------ operators


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_operators_are_adjacency_and_degrees_over_the_spectral_radius(
    adj: sp.csr_array,
) -> None:
    a = adj.toarray().astype(float)
    radius = radius_of(a) or 1
    expected = a / radius, np.diag(a.sum(axis=1)) / radius**2
    for matrix, wanted in zip(belief_operators(adj), expected, strict=True):
        assert matrix.dtype == np.float32
        assert matrix.shape == adj.shape
        np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-6)
        np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)


def path(n: int) -> sp.csr_array:
    return adjacency(n, [(i, i + 1) for i in range(n - 1)])


@each(
    ("large", "radius"),
    [
        (STAR, 300**0.5),
        (path(400), 2 * np.cos(np.pi / 401)),
        (sp.csr_array(sp.block_diag([NAMED["K4"]] * 80, format="csr")), 3),
        (sp.csr_array(sp.block_diag([path(2)] * 200, format="csr")), 1),
        (sp.csr_array(sp.block_diag([STAR, path(2), path(9)], format="csr")), 300**0.5),
    ],
    ids=["star", "path", "K4s", "pairs", "star and paths"],
)
def test_the_spectral_radius_of_a_larger_graph(
    large: sp.csr_array, radius: float
) -> None:
    assert large.shape[0] > 256  # else all eigenvalues are computed
    found = spectral_radius(large)
    assert found == pytest.approx(radius, rel=1e-5)
    assert {float(spectral_radius(large)) for _ in range(5)} == {float(found)}


def test_a_larger_graph_without_edges_has_operators_of_zeros() -> None:
    for matrix in belief_operators(adjacency(300, [])):
        assert matrix.shape == (300, 300)
        assert not matrix.toarray().any()


# -------------------------------------------------------------------- compatibility


def test_the_compatibility_is_estimated_from_edges_between_training_nodes() -> None:
    from h2gcn.models.belief import from_edges

    labels, index = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 3])
    x = one_hot(6, {0: 0, 1: 1, 2: 2, 3: 1})
    module = LinBP(3, 3)
    assert module.compatibility.tolist() == torch.full((3, 3), 1 / 3).tolist()
    module.initialise(x, operators_of(SIX), labels, index)
    expected = from_edges(Operator(SIX, symmetric=True), labels, index, 3)
    np.testing.assert_allclose(module.compatibility, expected, atol=1e-6)
    assert module.compatibility.dtype == torch.float32
    assert module.compatibility.std() > 0.1
    h_hat = coupling(SIX, expected.numpy(), 0.5, echo=True)
    y = x.double().numpy()
    beliefs = beliefs_by_loops(SIX, y, h_hat, 10, echo=True)
    logits = module(x, operators_of(SIX))
    expected = over_typical_size(beliefs, y, SIX, 10)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_given_compatibility_is_kept_but_for_the_sums_of_its_rows() -> None:
    module = LinBP(2, 2, compatibility=np.array([[1, 3], [1, 1]]))
    assert module.compatibility.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    known = torch.tensor([0, 1])
    module.initialise(one_hot(6, {0: 0, 1: 1}, 2), operators_of(SIX), known, known)
    assert module.compatibility.tolist() == [[0.25, 0.75], [0.5, 0.5]]


@each("h", [None, [[1, 1], [1, 1]]])
def test_a_uniform_compatibility_passes_nothing_on(h: list[list[float]] | None) -> None:
    x = one_hot(6, {0: 0}, 2)
    logits = LinBP(2, 2, compatibility=h)(x, operators_of(SIX))
    assert logits[0].tolist() == [0.5, -0.5]
    assert not logits[1:].any()
    reached = LinBP(2, 2, compatibility=h).reached(x, operators_of(SIX))
    assert reached.tolist() == [True] + 5 * [False]


def test_rounding_is_not_taken_for_compatibility() -> None:
    h = np.full((3, 3), 1 / 3) + 1e-8 * np.eye(3)
    logits = LinBP(3, 3, compatibility=h)(one_hot(6, {0: 0}), operators_of(SIX))
    assert not logits[1:].any()


def test_the_compatibility_is_saved_with_the_state() -> None:
    one, two = LinBP(3, 3, compatibility=MIXED), LinBP(3, 3)
    assert list(one.state_dict()) == ["compatibility"]
    two.load_state_dict(one.state_dict())
    x, operators = one_hot(6, {0: 0}), operators_of(SIX)
    assert torch.equal(two(x, operators), one(x, operators))


def test_there_are_no_weights() -> None:
    module = LinBP(3, 3, compatibility=MIXED)
    module.reset_parameters()
    assert not list(module.parameters())
    assert module.regularised() == []
    np.testing.assert_allclose(module.compatibility, MIXED, rtol=1e-6)


@each(
    "options",
    [
        {"in_channels": 5},
        {"out_channels": 0},
        {"scale": 1},
        {"scale": 0.0},
        {"steps": 0},
        {"steps": 10_001},
        {"echo": "no"},
        {"echo": 1},
        {"compatibility": [[1, 2], [3]]},
        {"compatibility": "much"},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        LinBP(**({"in_channels": 2, "out_channels": 2} | options))


@each(
    ("matrix", "fields"),
    [
        (MIXED, {"words": "got shape (3, 3)"}),
        ([1, 2], {"words": "got shape (2,)"}),
        (0.5, {"words": "got shape ()"}),
        ([[1, 2], [3, -1]], {"value": [[1.0, 2.0], [3.0, -1.0]]}),
        ([[1, 2], [np.nan, 1]], {"value": [[1.0, 2.0], [float("nan"), 1.0]]}),
        ([[1, 2], [np.inf, 1]], {"value": [[1.0, 2.0], [float("inf"), 1.0]]}),
        ([[1, 2], [0, 0]], {"value": [[1.0, 2.0], [0.0, 0.0]]}),
    ],
)
def test_a_compatibility_that_cannot_be_is_named(
    matrix: object, fields: dict[str, object]
) -> None:
    with refused(param="compatibility", **fields):
        LinBP(2, 2, compatibility=matrix)
