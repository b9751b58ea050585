"""Rings, directions and powers against breadth-first search and dense products."""

import pickle
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from h2gcn.graph import CSR
from h2gcn.ring_table.neighbourhoods import (
    DIRECTIONS,
    RINGS,
    Neighbourhoods,
    extremes,
    multiply,
)
from support.cases import each
from support.graphs import NAMED

SEEDS = range(6)


def arcs(seed: int, n: int = 14) -> np.ndarray:
    """Return a random directed graph, some edges both ways, some nodes alone."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n, n)) < (0.05, 0.12, 0.25)[seed % 3]
    dense |= dense.T & (rng.random((n, n)) < 0.3)
    np.fill_diagonal(dense, 0)
    dense[-1], dense[:, -1] = 0, 0
    return dense.astype(float)


def near(seed: int) -> tuple[Neighbourhoods, np.ndarray, np.ndarray]:
    """Return the neighbourhoods of a random graph, its edges, and its arcs."""
    directed = arcs(seed)
    adj = np.maximum(directed, directed.T)
    single = np.float32
    made = Neighbourhoods(CSR(adj.astype(single)), CSR(directed.astype(single)))
    return made, adj, directed


def distances(adj: np.ndarray) -> np.ndarray:
    """Return how far apart nodes are, by a search from each of them."""
    n = len(adj)
    found = np.full((n, n), -1)
    for start in range(n):
        found[start, start], front, steps = 0, [start], 0
        while front:
            steps += 1
            reached = {v for u in front for v in range(n) if adj[u, v]}
            front = [v for v in reached if found[start, v] < 0]
            found[start, front] = steps
    return found


def means(members: np.ndarray) -> np.ndarray:
    """Return a matrix whose rows are divided by their sums; empty ones stay."""
    return members / np.maximum(members.sum(axis=1, keepdims=True), 1)


def features(n: int, seed: int = 0, share: float = 0.6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < share)
    return x.astype(np.float32)


def close(found: np.ndarray | CSR, expected: np.ndarray) -> None:
    dense = found if isinstance(found, np.ndarray) else found.toarray()
    assert dense.dtype == np.float32
    np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-6)


forms = each("form", [np.asarray, CSR], ids=["dense", "sparse"])


@forms
@each("seed", SEEDS)
@each("ring", RINGS)
def test_rings_are_all_nodes_at_a_distance(
    ring: str, seed: int, form: Callable[..., CSR]
) -> None:
    made, adj, _ = near(seed)
    x, members = features(14), (distances(adj) == int(ring[-1])).astype(float)
    close(made.mean(ring, form(x)), means(members) @ x)
    close(made.sum(ring, form(x)), members @ x)
    assert made.sizes(ring).tolist() == members.sum(axis=1).tolist()


@forms
@each("seed", SEEDS)
@each("path", DIRECTIONS)
def test_directions_are_followed_step_by_step(
    path: str, seed: int, form: Callable[..., CSR]
) -> None:
    made, _, directed = near(seed)
    x = features(14)
    mean, total = np.eye(14), np.eye(14)
    for step in path.split("-"):
        matrix = directed if step == "out" else directed.T
        mean, total = mean @ means(matrix), total @ matrix
    close(made.mean(path, form(x)), mean @ x)
    close(made.sum(path, form(x)), total @ x)


def test_directions_of_a_triangle_by_hand() -> None:
    directed = CSR(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float32))
    adj = CSR(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    made = Neighbourhoods(adj, directed)
    x = np.array([[1.0], [2.0], [4.0]], dtype=np.float32)
    found = {path: made.mean(path, x).ravel().tolist() for path in DIRECTIONS}
    assert found == {
        "out": [2, 4, 2],
        "in": [0, 2.5, 2],
        "out-out": [4, 2, 4],
        "out-in": [2.5, 2, 2.5],
        "in-out": [0, 2, 4],
        "in-in": [0, 1, 2.5],
    }
    assert made.sizes("in").tolist() == [0, 2, 1]


def test_weights_and_loops_of_directions_do_not_count() -> None:
    adj = NAMED["path"]
    heavy = sp.csr_array(adj * 7) + sp.eye_array(5, format="csr")
    made = Neighbourhoods(adj, CSR(heavy.astype(np.float32)))
    assert made.has_directions
    np.testing.assert_array_equal(made.steps("out")[0].toarray(), adj.toarray())


def test_a_graph_without_directions_says_so() -> None:
    assert not Neighbourhoods(NAMED["path"]).has_directions


@forms
@each("self_loops", [False, True])
@each("k", [1, 2, 3])
@each("seed", SEEDS)
def test_powers_are_those_of_the_normalised_matrix(
    seed: int, k: int, self_loops: bool, form: Callable[..., CSR]
) -> None:
    made, adj, _ = near(seed)
    x = features(14)
    a = adj + np.eye(14) * self_loops
    degrees = a.sum(axis=1)
    scale = np.array([d**-0.5 if d else 0 for d in degrees])
    power = np.linalg.matrix_power(scale[:, None] * a * scale, k)
    close(made.power(k, form(x), self_loops=self_loops), power @ x)


@forms
@each("seed", SEEDS)
@each("largest", [False, True])
def test_extremes_are_those_of_the_members(
    seed: int, largest: bool, form: Callable[..., CSR]
) -> None:
    _, adj, _ = near(seed)
    x, pick = features(14), np.max if largest else np.min
    expected = np.zeros((14, 3))
    for node in range(14):
        if adj[node].any():
            expected[node] = pick(x[adj[node] > 0], axis=0)
    found = extremes(CSR(adj.astype(np.float32)), form(x), largest)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_empty_neighbourhoods_are_zero() -> None:
    made, x = Neighbourhoods(NAMED["no edges"]), np.ones((3, 2), dtype=np.float32)
    for ring in RINGS:
        assert not made.mean(ring, x).any()
    assert not extremes(NAMED["no edges"], x, largest=True).any()
    assert not made.power(2, x, self_loops=False).any()
    np.testing.assert_array_equal(made.power(2, x, self_loops=True), x)


def test_many_columns_are_multiplied_in_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(5, 300)).astype(np.float32)
    close(multiply(NAMED["star"], x), NAMED["star"].toarray() @ x)


def test_few_entries_stay_sparse_and_many_do_not() -> None:
    rows = CSR((np.ones(2, np.float32), ([0, 3], [5, 90])), shape=(5, 100))
    stays = multiply(NAMED["path"], rows)
    assert isinstance(stays, CSR)
    close(stays, NAMED["path"].toarray() @ rows.toarray())
    column = CSR((np.ones(20, np.float32), ([0] * 20, range(20))), shape=(5, 100))
    spread = multiply(NAMED["star"], column)  # from one node to all but itself
    assert isinstance(spread, np.ndarray)
    close(spread, NAMED["star"].toarray() @ column.toarray())


@each("cap", [None, 2])
@each("seed", SEEDS)
def test_rows_of_a_ring_travel_without_their_values(seed: int, cap: int | None) -> None:
    directed = arcs(seed)
    adj = CSR(np.maximum(directed, directed.T).astype(np.float32))
    found = Neighbourhoods(adj, cap=cap).find_rows("ring2", np.arange(len(directed)))
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.sizes, found.sizes)
    assert found.rows is not None
    assert again.rows is not None
    np.testing.assert_array_equal(again.rows.toarray(), found.rows.toarray())
    assert again.rows.dtype == found.rows.dtype
