"""Compatibility matrices against the same sums written out with loops."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

from h2gcn.models.compatibility import from_edges, from_neighbors, project
from h2gcn.sparse import Operator
from support.graphs import SIX, random_adjacency


def scaled(matrix, rounds=3000):
    """Divide columns, then rows, by their sums, again and again."""
    m = matrix.copy()
    for _ in range(rounds):
        for j in range(len(m)):
            m[:, j] /= m[:, j].sum() or 1
        for i in range(len(m)):
            m[i] /= m[i].sum() or 1
    return m


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def test_a_projection_is_symmetric_and_doubly_stochastic():
    rng = np.random.default_rng(0)
    for n_classes in (1, 2, 5):
        matrix = rng.random((n_classes, n_classes)) + 0.05
        given = torch.from_numpy(matrix.copy()).float().requires_grad_()
        result = project(given)
        assert result.dtype == torch.float64
        assert not result.requires_grad
        np.testing.assert_array_equal(result, result.T)
        np.testing.assert_allclose(result.sum(dim=1), 1, atol=1e-10)
        np.testing.assert_allclose(result, symmetric(scaled(matrix, 300)), atol=1e-6)
        np.testing.assert_array_equal(given.detach(), matrix.astype(np.float32))


def test_matrices_without_a_doubly_stochastic_scaling_are_projected_by_their_limit():
    for matrix in (
        [[0.0, 1, 1], [1, 0, 0], [1, 0, 0]],  # rows 1 and 2 have column 0 alone
        [[1.0, 1], [1, 0]],  # the corner goes to zero as 1/rounds
        [[2.0, 0], [0, 0]],  # a row and a column of zeros
    ):
        expected = symmetric(scaled(np.array(matrix)))
        result = project(torch.tensor(matrix))
        np.testing.assert_allclose(result, expected, atol=1e-10)


def known_of(n, y, index, n_classes):
    known = torch.zeros(n, n_classes)
    for node in index:
        known[node, y[node]] = 1
    return known


def edges(adj, y, index, n_classes):
    known = known_of(adj.shape[0], y, index, n_classes)
    return from_edges(Operator(adj, symmetric=True), known).numpy()


def test_edges_between_training_nodes_are_counted_and_projected():
    for seed in range(5):
        rng, adj = np.random.default_rng(seed), random_adjacency(seed, 40, 0.2)
        y, index = rng.integers(4, size=40), rng.permutation(40)[:25]
        counts, a = np.zeros((4, 4)), adj.toarray()
        for u in index:
            for v in index:
                counts[y[u], y[v]] += a[u, v]
        assert (counts.sum(axis=1) > 0).all()
        expected = symmetric(scaled(counts + 0.01 * counts.mean()))
        for factor in (1, 7):  # a multiple of the matrix has the same fractions
            result = edges(sp.csr_array(adj / factor), y, index, 4)
            np.testing.assert_allclose(result, expected, atol=1e-6)


def test_a_class_without_a_training_edge_is_uniform_and_the_others_are_not():
    # Class 2 has the lone node 5 only; 0 and 1 alternate.
    result = edges(SIX, [0, 1, 0, 1, 0, 2], [0, 1, 3, 5], 3)
    np.testing.assert_allclose(result[2], 1 / 3)
    np.testing.assert_allclose(result[:, 2], 1 / 3)
    counts = np.array([[0, 2], [2, 0]]) + 0.01
    expected = symmetric(scaled(counts)) * 2 / 3
    np.testing.assert_allclose(result[:2, :2], expected, atol=1e-6)
    for index in ([], [1], [1, 3]):  # no edge at all
        result = edges(SIX, [0, 1, 2, 1, 0, 2], index, 3)
        np.testing.assert_allclose(result, 1 / 3)


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.02, 0.1, 0.5]))
def test_any_edges_give_a_symmetric_doubly_stochastic_matrix(seed, n_classes, density):
    rng = np.random.default_rng(seed)
    y, index = rng.integers(n_classes, size=30), rng.permutation(30)[:12]
    result = edges(random_adjacency(seed, 30, density), y, index, n_classes)
    np.testing.assert_allclose(result, result.T, atol=1e-12)
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-6)
    assert (result >= 0).all()


def neighbors(adj, beliefs, y, index):
    known = known_of(adj.shape[0], y, index, beliefs.shape[1])
    beliefs = torch.from_numpy(beliefs.astype(np.float32))
    return from_neighbors(Operator(adj, symmetric=True), beliefs, known).numpy()


def neighbor_means(adj, beliefs, y, index):
    """Return the mean beliefs around the training nodes of each class, or NaN."""
    a, c = adj.toarray(), beliefs.shape[1]
    rows = np.full((c, c), np.nan)
    for label in range(c):
        nodes = [v for v in index if y[v] == label and a[v].any()]
        if nodes:
            rows[label] = np.mean([beliefs[a[v] > 0].mean(0) for v in nodes], axis=0)
    return rows


def test_rows_are_the_mean_beliefs_around_the_training_nodes_of_a_class():
    for seed in range(4):
        rng, adj = np.random.default_rng(seed), random_adjacency(seed, 30, 0.15)
        beliefs = rng.dirichlet(np.ones(3), size=30)
        y, index = rng.permutation(np.arange(30) % 3), rng.permutation(30)[:12]
        means = neighbor_means(adj, beliefs, y, index)
        assert not np.isnan(means).any()
        result = neighbors(adj, beliefs, y, index)
        np.testing.assert_allclose(result, symmetric(scaled(means)), atol=1e-6)


def test_missing_rows_are_filled_with_columns_and_with_what_they_lack():
    y, index = [0, 1, 2, 3, 0, 0], [0, 1]
    for c in (3, 4):
        beliefs = np.random.default_rng(0).dirichlet(np.ones(c), size=6)
        h = neighbor_means(SIX, beliefs, y, index)
        assert np.isnan(h[2:]).all()
        h[2:, :2] = h[:2, 2:].T
        h[2:, 2:] = (1 - h[2:, :2].sum(axis=1, keepdims=True)) / (c - 2)
        assert (h > 0).all()
        result = neighbors(SIX, beliefs, y, index)
        np.testing.assert_allclose(result, symmetric(scaled(h)), atol=1e-6)


def test_no_fraction_is_negative_where_a_filled_row_exceeds_one():
    # Both seen classes have mostly class 2 around them: its row is filled with 1.6.
    result = neighbors(SIX, np.tile([0.1, 0.1, 0.8], (6, 1)), [0, 1], [0, 1])
    h = np.array([[0.1, 0.1, 0.8], [0.1, 0.1, 0.8], [0.8, 0.8, 0]])
    np.testing.assert_allclose(result, symmetric(scaled(h)), atol=1e-6)
    assert (result >= 0).all()


def test_without_neighbors_every_class_is_uniform():
    beliefs = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    for index in ([], [5]):
        result = neighbors(SIX, beliefs, [0] * 6, index)
        np.testing.assert_allclose(result, 1 / 3)
