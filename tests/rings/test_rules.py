"""Propagation matrices by their rules: all rows at once, and one by one."""

from itertools import product

import numpy as np
import pytest

from h2gcn.graph import CSR
from h2gcn.models import MODELS
from h2gcn.rings import (
    ComputedOperator,
    NeighborIndex,
    RowRule,
    build_matrices,
    exact_rings,
)
from support.graphs import random_adjacency

RULES = [
    RowRule(direction, hop, scale, self_loops, sign)
    for direction, hop, scale, self_loops, sign in product(
        ("ring", "out", "in"), (1, 2), ("both", "rows", "none"), (False, True), (1, -1)
    )
    if direction == "ring" or hop == 1
]


def directed() -> CSR:
    rng = np.random.default_rng(1)
    dense = (rng.random((14, 14)) < 0.2).astype(np.float32)
    np.fill_diagonal(dense, 0)
    return CSR(dense)


def by_hand(rule: RowRule, ring: np.ndarray) -> np.ndarray:
    """Return a matrix in double precision."""
    a = ring + np.eye(len(ring)) * rule.self_loops
    with np.errstate(divide="ignore"):
        rows, columns = (
            np.nan_to_num(1 / a.sum(axis=axis), posinf=0) for axis in (1, 0)
        )
    if rule.scale == "both":
        a = np.sqrt(rows)[:, None] * a * np.sqrt(columns)
    if rule.scale == "rows":
        a = rows[:, None] * a
    return rule.sign * a


def test_all_rows_and_some_are_those_of_the_formula() -> None:
    along = directed()
    symmetric = CSR(((along + along.T) > 0).astype(np.float32))
    index = NeighborIndex(symmetric, along)
    nodes = np.array([3, 13, 0, 3])
    for rule in RULES:
        base = symmetric if rule.direction == "ring" else along
        (*_, ring) = exact_rings(base, hops=rule.hop)
        dense = ring.toarray().astype(float)
        expected = by_hand(rule, dense.T if rule.direction == "in" else dense)
        (matrix,) = build_matrices([rule], base)
        assert matrix.has_sorted_indices
        np.testing.assert_allclose(
            matrix.toarray(), expected, atol=1e-6, err_msg=str(rule)
        )
        some = ComputedOperator(index, rule).take(nodes).toarray()
        np.testing.assert_allclose(some, expected[nodes], atol=1e-6, err_msg=str(rule))
        if rule.symmetric:
            np.testing.assert_allclose(expected, expected.T)


def test_edge_weights_are_the_entries_of_the_first_ring_alone() -> None:
    weights = random_adjacency(2, 14, 0.3).astype(np.float32)
    weights.data[:] = np.arange(1, weights.nnz + 1)
    weights = CSR(weights + weights.T)
    first, second = exact_rings(weights, hops=2)
    for scale, self_loops in product(("both", "rows", "none"), (False, True)):
        rules = [RowRule("ring", hop, scale, self_loops) for hop in (2, 1)]
        far, near = build_matrices(rules, weights)
        dense = weights.toarray().astype(float)
        np.testing.assert_allclose(near.toarray(), by_hand(rules[1], dense), rtol=1e-5)
        dense = second.toarray().astype(float)
        np.testing.assert_allclose(far.toarray(), by_hand(rules[0], dense), rtol=1e-5)
    assert first.nnz == weights.nnz


def test_self_loops_of_directions_do_not_count_and_no_rule_is_no_matrix() -> None:
    along = directed()
    looped = along.copy().tolil()
    looped.setdiag(1)
    rules = [RowRule("out"), RowRule("in", scale="rows")]
    for one, other in zip(
        build_matrices(rules, along), build_matrices(rules, CSR(looped)), strict=True
    ):
        np.testing.assert_array_equal(one.toarray(), other.toarray())
    assert build_matrices((), along) == ()


@pytest.mark.parametrize("name", ["gcn", "gat", "dir-gnn", "acm-gcn", "h2gcn-2"])
def test_the_callers_matrix_stays_as_it_is(name: str) -> None:
    adj = random_adjacency(2, 14, 0.3)
    untidy = CSR((adj.data, adj.indices[::-1].copy(), adj.indptr), shape=adj.shape)
    before = untidy.indices.copy(), untidy.data.copy()
    MODELS[name].build_matrices(untidy)
    np.testing.assert_array_equal(untidy.indices, before[0])
    np.testing.assert_array_equal(untidy.data, before[1])
