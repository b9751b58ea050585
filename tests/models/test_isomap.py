"""The layout of a graph in the plane: Isomap, who is near, and on which side."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.models import geom_gcn as geometry
from h2gcn.models.geom_gcn import (
    RELATIONS,
    check_isomap_memory,
    embed,
    isomap_bytes,
    latent_pairs,
    quadrants,
)
from support.cases import each
from support.graphs import NAMED, adjacency

Matrix = NDArray[np.float64]
UPPER_LEFT, UPPER_RIGHT, LOWER_LEFT, LOWER_RIGHT = range(4)
ONE_COMPONENT = np.zeros(60, dtype=np.int64)


def matrix(graph: nx.Graph) -> sp.csr_array:
    return sp.csr_array(nx.to_numpy_array(graph, dtype=np.float32))


def connected_graph(n: int, edges: int, seed: int = 0) -> sp.csr_array:
    """Return a random tree with some edges more: no node has a double but leaves."""
    graph = nx.random_labeled_tree(n, seed=seed)
    rng = np.random.default_rng(seed)
    while graph.number_of_edges() < edges:
        u, v = rng.choice(n, 2, replace=False)
        graph.add_edge(int(u), int(v))
    return matrix(graph)


def classical_scaling(adj: sp.csr_array) -> tuple[Matrix, Matrix]:
    """Return all eigenvalues, falling, and the scaled eigenvectors of −D²/2."""
    d = nx.floyd_warshall_numpy(nx.from_scipy_sparse_array(adj))
    n = len(d)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ np.square(d) @ centre)
    values, vectors = values[::-1], vectors[:, ::-1]
    return values, vectors * np.sqrt(np.maximum(values, 0))


def assert_same_up_to_sign(ours: Matrix, theirs: Matrix) -> None:
    for axis, other in zip(ours.T, theirs.T, strict=True):
        sign = np.sign(axis @ other)
        np.testing.assert_allclose(axis, sign * other, atol=1e-8)


@each(("n", "edges"), [(14, 20), (260, 400)])
def test_a_connected_graph_is_embedded_as_isomap_does(n: int, edges: int) -> None:
    from sklearn.manifold import Isomap

    adj = connected_graph(n, edges, seed=3)
    lengths = np.where(adj.toarray() > 0, 1.0, 2.0)
    np.fill_diagonal(lengths, 0)
    isomap = Isomap(
        n_neighbors=None, radius=1, n_components=2, metric="precomputed"
    ).fit_transform(lengths)
    ours, _ = embed(adj)
    assert ours.std(axis=0).min() > 0.3
    assert_same_up_to_sign(ours, isomap)
    assert_same_up_to_sign(ours, classical_scaling(adj)[1][:, :2])
    assert ((ours**3).sum(axis=0) > 0).all()


def test_axes_point_the_same_way_however_nodes_are_numbered() -> None:
    for seed in range(3):
        for n, edges in ((14, 20), (230, 300)):
            adj = connected_graph(n, edges, seed)
            order = np.random.default_rng(seed).permutation(n)
            permuted, _ = embed(sp.csr_array(adj[order][:, order]))
            np.testing.assert_allclose(permuted, embed(adj)[0][order], atol=1e-8)


def test_each_component_is_embedded_on_its_own() -> None:
    one, other = connected_graph(12, 15, seed=1), connected_graph(9, 12, seed=2)
    order = np.random.default_rng(0).permutation(22)
    union = sp.block_diag([one, np.zeros((1, 1)), other], format="csr")
    coordinates, component = embed(sp.csr_array(sp.csr_array(union)[order][:, order]))
    place = np.argsort(order)
    for part, alone in ((slice(0, 12), one), (slice(13, 22), other)):
        nodes = place[part]
        assert len(set(component[nodes])) == 1
        np.testing.assert_allclose(coordinates[nodes], embed(alone)[0], atol=1e-9)
    assert len(set(component)) == 3
    assert not coordinates[place[12]].any()


def test_paths_are_lines_and_leaves_of_one_hub_fall_on_one_point() -> None:
    for n in (2, 7, 250):
        coordinates, _ = embed(matrix(nx.path_graph(n)))
        np.testing.assert_allclose(np.abs(np.diff(coordinates[:, 0])), 1, atol=1e-8)
        np.testing.assert_allclose(coordinates[:, 1], 0, atol=1e-5)
    leaves = [(0, leaf) for leaf in range(6, 11)]
    tails = adjacency(11, [(i, i + 1) for i in range(5)] + [(1, 4), *leaves])
    coordinates, _ = embed(tails)
    np.testing.assert_allclose(
        coordinates[6:], np.tile(coordinates[6], (5, 1)), atol=1e-9
    )
    assert not np.allclose(coordinates[6], coordinates[0])
    for star in (6, 250):
        assert np.isfinite(embed(matrix(nx.star_graph(star)))[0]).all()


def test_embedding_leaves_numpys_generator_alone_and_does_not_depend_on_it() -> None:
    adj = connected_graph(230, 300)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tobytes()  # type: ignore[union-attr]  # noqa: NPY002
    first, _ = embed(adj)
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[union-attr]  # noqa: NPY002
    np.random.seed(6)  # noqa: NPY002
    assert embed(adj)[0].tobytes() == first.tobytes()


def random_points(n: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).normal(size=(n, 2)) * 3


def pairs_by_loops(
    points: Matrix, component: NDArray[np.int64], at_least: int
) -> set[tuple[int, int]]:
    apart = {
        (u, v): float(np.linalg.norm(points[u] - points[v]))
        for v in range(len(points))
        for u in range(v)
        if component[u] == component[v]
    }
    rho = sorted(apart.values())[at_least - 1]
    return {pair for pair, d in apart.items() if d <= rho + 1e-8}


def as_set(pairs: NDArray[np.int64]) -> set[tuple[int, int]]:
    found = {(int(u), int(v)) for u, v in pairs}
    assert len(found) == len(pairs)  # each once
    return found


@each("components", [1, 3, 20])
@each("at_least", [1, 7, 40])
def test_latent_pairs_are_those_within_the_smallest_radius_that_gives_enough(
    components: int, at_least: int
) -> None:
    points = random_points(60)
    component = np.random.default_rng(1).integers(components, size=60)
    found = as_set(latent_pairs(points, component, at_least))
    assert found == pairs_by_loops(points, component, at_least)
    assert len(found) == at_least  # no two distances are equal here
    assert all(u < v for u, v in found)


def test_pairs_at_the_radius_itself_all_count() -> None:
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [5, 5]], dtype=float)
    sides = {(0, 1), (0, 2), (1, 3), (2, 3)}
    for at_least in (1, 4):
        found = latent_pairs(square, ONE_COMPONENT[:5], at_least)
        assert as_set(found) == sides
    found = latent_pairs(square, ONE_COMPONENT[:5], 5)
    assert as_set(found) == sides | {(0, 3), (1, 2)}
    assert len(latent_pairs(random_points(12), ONE_COMPONENT[:12], 66)) == 66
    points = np.zeros((8, 2))
    points[6:] = 3
    found = as_set(latent_pairs(points, ONE_COMPONENT[:8], 4))
    assert found == {(u, v) for v in range(6) for u in range(v)} | {(6, 7)}
    assert latent_pairs(*embed(NAMED["no edges"]), 0).shape == (0, 2)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_on_average_as_many_neighbors_as_in_the_graph(named_adj: sp.csr_array) -> None:
    layout, edges = embed(named_adj), named_adj.nnz // 2
    pairs = latent_pairs(*layout, edges)
    assert len(pairs) >= edges
    if edges:
        assert as_set(pairs) == pairs_by_loops(*layout, edges)


@each(
    ("where", "relation"),
    [
        ((-1, 1), UPPER_LEFT),
        ((1, 1), UPPER_RIGHT),
        ((-1, -1), LOWER_LEFT),
        ((1, -1), LOWER_RIGHT),
        ((0, 1), UPPER_RIGHT),
        ((0, -1), LOWER_RIGHT),
        ((1, 0), UPPER_RIGHT),
        ((-1, 0), UPPER_LEFT),
        ((0, 0), UPPER_RIGHT),
        ((-1e-13, -1e-13), UPPER_RIGHT),
    ],
)
def test_ties_go_right_and_up(where: tuple[float, float], relation: int) -> None:
    points = np.array([[2.0, 3.0], [2.0 + where[0], 3.0 + where[1]]])
    seen = quadrants(points, np.array([0]), np.array([1]))
    assert seen.tolist() == [relation]


def test_seen_from_the_other_end_a_quadrant_is_the_opposite_one() -> None:
    points = random_points(30)
    nodes, seen = np.divmod(np.arange(900), 30)
    there, back = quadrants(points, nodes, seen), quadrants(points, seen, nodes)
    assert RELATIONS == ("upper left", "upper right", "lower left", "lower right")
    np.testing.assert_array_equal((there + back)[nodes != seen], 3)


def test_a_graph_that_does_not_fit_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 100_000
    path = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], format="csr")
    monkeypatch.setattr(geometry, "available_memory", lambda: 2_400_000_000)
    with pytest.raises(
        InputError,
        match=r"^geom-gcn embeds the graph by Isomap, which needs 80\.1 GB for the "
        r"100,000 nodes of the largest connected component; here it can do up to "
        r"17,25\d nodes\. Instead, use h2gcn-1, gcn or mlp",
    ):
        check_isomap_memory(sp.csr_array(path))


@each("limit", [10**6, 2_400_000_000, 24 * 10**9])
def test_the_bound_that_is_named_is_the_largest_that_fits(limit: int) -> None:
    n = 10**5
    path = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    with pytest.raises(InputError) as caught:
        check_isomap_memory(path, available=limit)
    fits = int(str(caught.value).split("up to ")[1].split(" ")[0].replace(",", ""))
    assert isomap_bytes(fits) <= limit < isomap_bytes(fits + 1)


def test_only_the_largest_component_counts() -> None:
    many = sp.csr_array(sp.block_diag([NAMED["path"]] * 300))
    check_isomap_memory(many, available=isomap_bytes(5))
    with pytest.raises(InputError, match=r"for the 5 nodes of the largest"):
        check_isomap_memory(many, available=isomap_bytes(5) - 1)


def test_the_forecast_of_memory_is_the_size_of_the_distances() -> None:
    import tracemalloc

    adj = connected_graph(1200, 2000)
    embed(adj)  # what is imported on first use is not counted
    tracemalloc.start()
    embed(adj)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * isomap_bytes(1200) < peak < 1.1 * isomap_bytes(1200)


def test_too_many_nodes_on_one_point_are_refused() -> None:
    layout = np.zeros((101, 2)), np.zeros(101, dtype=np.int64)
    with pytest.raises(
        InputError,
        match=r"^geom-gcn finds 5,050 pairs of nodes that Isomap puts close together; "
        r"they need 0\.0 GB, but 0\.0 GB are free\. Instead, use h2gcn-1",
    ):
        latent_pairs(*layout, 100, available=1_000_000)
    assert len(latent_pairs(*layout, 100, available=1_100_000)) == 5050


def test_the_search_does_not_hold_many_more_pairs_than_are_wanted() -> None:
    points = random_points(500)
    wanted = 600
    room = 2 * wanted * geometry.BYTES_PER_PAIR
    found = latent_pairs(points, np.zeros(500, dtype=np.int64), wanted, available=room)
    assert len(found) == wanted
