"""Compatibility matrices against the same sums written out with loops."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from h2gcn.models.compatibility import from_edges, from_neighbors, project, sinkhorn
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import adjacency

Matrix = NDArray[np.float64]

# 0-1-2-3-0 is a square with the chord 0-2; 4 hangs on 3; 5 is alone.
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])


def operator(adj: sp.csr_array) -> Operator:
    return Operator(adj, symmetric=True)


def random_adjacency(n: int, p: float, seed: int) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


def scaled(matrix: Matrix, turns: int = 3000) -> Matrix:
    """Divide columns, then rows, by their sums, again and again."""
    m = matrix.copy()
    for _ in range(turns):
        for j in range(len(m)):
            m[:, j] /= m[:, j].sum() or 1
        for i in range(len(m)):
            m[i] /= m[i].sum() or 1
    return m


def symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2


@each("n_classes", [1, 2, 5])
def test_rows_and_columns_are_scaled_until_they_sum_to_one(n_classes: int) -> None:
    matrix = np.random.default_rng(0).random((n_classes, n_classes)) + 0.1
    result = sinkhorn(torch.from_numpy(matrix)).numpy()
    np.testing.assert_allclose(result.sum(axis=0), 1, atol=1e-10)
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_allclose(result, scaled(matrix, 200), atol=1e-10)


def test_rows_are_scaled_last() -> None:
    # Rows 1 and 2 have nothing but column 0: no scaling gives both their due.
    matrix = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    result = sinkhorn(torch.from_numpy(matrix)).numpy()
    np.testing.assert_allclose(result, [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]])


def test_the_iteration_ends_only_when_all_entries_stand_still() -> None:
    # The limit is the identity turned round; the corner goes to it as 1/turns.
    result = sinkhorn(torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_allclose(result, scaled(np.array([[1.0, 1], [1, 0]])), atol=1e-10)
    assert 0 < result[0, 0] < 1e-3


def test_a_row_or_column_of_zeros_stays() -> None:
    result = sinkhorn(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    assert result.tolist() == [[1, 0], [0, 0]]


def test_scaling_is_in_double_precision_and_leaves_its_input_alone() -> None:
    matrix = torch.tensor([[1.0, 3.0], [2.0, 5.0]], requires_grad=True)
    result = sinkhorn(matrix)
    assert result.dtype == torch.float64
    assert not result.requires_grad
    assert matrix.tolist() == [[1, 3], [2, 5]]


def test_a_projection_is_symmetric_and_doubly_stochastic() -> None:
    matrix = np.random.default_rng(1).random((4, 4)) + 0.05
    result = project(torch.from_numpy(matrix)).numpy()
    np.testing.assert_array_equal(result, result.T)
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_allclose(result, symmetric(scaled(matrix, 300)), atol=1e-10)


def counted(adj: sp.csr_array, y: list[int], index: list[int], c: int) -> Matrix:
    """Return e(i, j) over the edges whose ends are both in `index`."""
    a, counts = adj.toarray(), np.zeros((c, c))
    for u in index:
        for v in index:
            counts[y[u], y[v]] += a[u, v]
    return counts


def edges(adj: sp.csr_array, y: list[int], index: list[int], c: int) -> Matrix:
    labels = torch.tensor([y[v] for v in index], dtype=torch.int64)
    nodes = torch.tensor(index, dtype=torch.int64)
    return from_edges(operator(adj), labels, nodes, c).numpy()


@each("seed", range(5))
def test_random_edges_are_counted_and_projected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    adj = random_adjacency(40, 0.2, seed)
    y = rng.integers(4, size=40).tolist()
    index = rng.permutation(40)[:25].tolist()
    counts = counted(adj, y, index, 4)
    assert (counts.sum(axis=1) > 0).all()
    expected = symmetric(scaled(counts + 0.01 * counts.mean()))
    np.testing.assert_allclose(edges(adj, y, index, 4), expected, atol=1e-6)


def test_a_multiple_of_the_adjacency_gives_the_same() -> None:
    y, index = [0, 1, 2, 1, 0, 2], [0, 1, 2, 3]
    np.testing.assert_allclose(
        edges(sp.csr_array(SIX / 7), y, index, 3), edges(SIX, y, index, 3), atol=1e-6
    )


def test_a_class_without_a_training_edge_is_uniform_and_the_others_are_not() -> None:
    # Class 2 has the lone node 5 only; 0 and 1 alternate.
    y, index = [0, 1, 0, 1, 0, 2], [0, 1, 3, 5]
    result = edges(SIX, y, index, 3)
    np.testing.assert_allclose(result[2], 1 / 3)
    np.testing.assert_allclose(result[:, 2], 1 / 3)
    counts = np.array([[0, 2], [2, 0]]) + 0.01
    expected = symmetric(scaled(counts)) * 2 / 3
    np.testing.assert_allclose(result[:2, :2], expected, atol=1e-6)
    np.testing.assert_allclose(result.sum(axis=1), 1)
    assert result[0, 1] > 0.6 > 0.05 > result[0, 0]


@each("index", [[], [1], [1, 3]])
def test_without_training_edges_every_class_is_uniform(index: list[int]) -> None:
    result = edges(SIX, [0, 1, 2, 1, 0, 2], index, 3)
    np.testing.assert_allclose(result, np.full((3, 3), 1 / 3))


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.02, 0.1, 0.5]))
def test_any_edges_give_a_symmetric_doubly_stochastic_matrix(
    seed: int, n_classes: int, density: float
) -> None:
    rng = np.random.default_rng(seed)
    adj = random_adjacency(30, density, seed)
    y = rng.integers(n_classes, size=30).tolist()
    result = edges(adj, y, rng.permutation(30)[:12].tolist(), n_classes)
    np.testing.assert_allclose(result, result.T, atol=1e-12)
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-6)
    assert (result >= 0).all()


def neighbours(
    adj: sp.csr_array, beliefs: Matrix, labels: list[int], index: list[int]
) -> Matrix:
    return from_neighbors(
        operator(adj),
        torch.from_numpy(beliefs.astype(np.float32)),
        torch.tensor(labels, dtype=torch.int64),
        torch.tensor(index, dtype=torch.int64),
    ).numpy()


def neighbour_means(
    adj: sp.csr_array, beliefs: Matrix, labels: list[int], index: list[int]
) -> Matrix:
    """Return the mean beliefs around the training nodes of each class, or NaN."""
    a = adj.toarray()
    rows = []
    for c in range(beliefs.shape[1]):
        around = [
            beliefs[a[v] > 0].mean(axis=0)
            for v, label in zip(index, labels, strict=True)
            if label == c and a[v].any()
        ]
        rows.append(
            np.mean(around, axis=0) if around else np.full(len(beliefs[0]), np.nan)
        )
    return np.array(rows)


def random_beliefs(n: int, c: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).dirichlet(np.ones(c), size=n)


@each("seed", range(4))
def test_rows_are_the_mean_beliefs_around_a_classs_training_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    adj = random_adjacency(30, 0.15, seed)
    beliefs = random_beliefs(30, 3, seed)
    index = rng.permutation(30)[:12].tolist()
    labels = [i % 3 for i in range(12)]
    expected = symmetric(scaled(neighbour_means(adj, beliefs, labels, index)))
    np.testing.assert_allclose(
        neighbours(adj, beliefs, labels, index), expected, atol=1e-6
    )


def test_the_row_of_a_class_without_training_nodes_is_its_column() -> None:
    beliefs = random_beliefs(6, 3)
    h = neighbour_means(SIX, beliefs, [0, 1], [0, 1])
    assert np.isnan(h[2]).all()
    h[2, :2] = h[:2, 2]
    h[2, 2] = max(0, 1 - h[2, :2].sum())
    result = neighbours(SIX, beliefs, [0, 1], [0, 1])
    np.testing.assert_allclose(result, symmetric(scaled(h)), atol=1e-6)


def test_entries_that_stay_missing_share_what_the_row_lacks() -> None:
    beliefs = random_beliefs(6, 4)
    h = neighbour_means(SIX, beliefs, [0, 1], [0, 1])
    for row in (2, 3):
        h[row, :2] = h[:2, row]
        h[row, 2:] = (1 - h[row, :2].sum()) / 2
    assert (h > 0).all()
    result = neighbours(SIX, beliefs, [0, 1], [0, 1])
    np.testing.assert_allclose(result, symmetric(scaled(h)), atol=1e-6)


def test_no_share_is_negative_where_a_filled_row_exceeds_one() -> None:
    # Both seen classes have mostly class 2 around them: its row is filled with 1.6.
    beliefs = np.tile([0.1, 0.1, 0.8], (6, 1))
    result = neighbours(SIX, beliefs, [0, 1], [0, 1])
    h = np.array([[0.1, 0.1, 0.8], [0.1, 0.1, 0.8], [0.8, 0.8, 0]])
    np.testing.assert_allclose(result, symmetric(scaled(h)), atol=1e-6)
    assert (result >= 0).all()


@each("index", [[], [5]])
def test_without_neighbours_every_class_is_uniform(index: list[int]) -> None:
    result = neighbours(SIX, random_beliefs(6, 3), [0] * len(index), index)
    np.testing.assert_allclose(result, np.full((3, 3), 1 / 3))
