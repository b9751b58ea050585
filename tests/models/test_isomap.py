"""The layout of a graph in the plane: Isomap, who is near, and on which side."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from networkx.algorithms.isomorphism import GraphMatcher
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from h2gcn.exceptions import InputError
from h2gcn.models import geom_gcn as geometry
from h2gcn.models.geom_gcn import (
    RELATIONS,
    Embedding,
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


def automorphisms(adj: sp.csr_array) -> int:
    graph = nx.from_scipy_sparse_array(adj)
    return sum(1 for _ in GraphMatcher(graph, graph).isomorphisms_iter())


def without_symmetry(n: int = 14, edges: int = 20) -> list[sp.csr_array]:
    """Return connected graphs that no renumbering but the identity leaves alone."""
    graphs = (connected_graph(n, edges, seed) for seed in range(40))
    found = [adj for adj in graphs if automorphisms(adj) == 1]
    assert len(found) >= 5
    return found[:5]


def classical_scaling(adj: sp.csr_array) -> tuple[Matrix, Matrix]:
    """Return all eigenvalues, falling, and the scaled eigenvectors of −D²/2."""
    d = nx.floyd_warshall_numpy(nx.from_scipy_sparse_array(adj))
    n = len(d)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ np.square(d) @ centre)
    values, vectors = values[::-1], vectors[:, ::-1]
    return values, vectors * np.sqrt(np.maximum(values, 0))


def assert_same_up_to_sign(ours: Matrix, theirs: Matrix, atol: float = 1e-8) -> None:
    for axis, other in zip(ours.T, theirs.T, strict=True):
        sign = np.sign(axis @ other)
        np.testing.assert_allclose(axis, sign * other, atol=atol)


SYMMETRIC = {
    "path": nx.path_graph(7),
    "long path": nx.path_graph(250),
    "pair": nx.path_graph(2),
    "cycle": nx.cycle_graph(7),
    "long cycle": nx.cycle_graph(250),
    "star": nx.star_graph(6),
    "middling star": nx.star_graph(150),
    "large star": nx.star_graph(250),
    "K5": nx.complete_graph(5),
    "grid": nx.grid_2d_graph(4, 4),
    "oblong": nx.grid_2d_graph(3, 5),
    "cube": nx.hypercube_graph(3),
    "tree": nx.balanced_tree(2, 3),
    "barbell": nx.barbell_graph(4, 3),
    "two hubs": nx.Graph([(0, 1), *((0, i) for i in range(2, 7)), (1, 7), (1, 8)]),
    "Petersen": nx.petersen_graph(),
}


# ------------------------------------------------------------------------- embedding


@each(("n", "edges"), [(14, 20), (260, 400)])
def test_a_connected_graph_is_embedded_as_isomap_does(n: int, edges: int) -> None:
    from sklearn.manifold import Isomap

    adj = connected_graph(n, edges, seed=3)
    lengths = np.where(adj.toarray() > 0, 1.0, 2.0)
    np.fill_diagonal(lengths, 0)
    isomap = Isomap(
        n_neighbors=None, radius=1, n_components=2, metric="precomputed"
    ).fit_transform(lengths)
    ours = embed(adj).coordinates
    assert ours.std(axis=0).min() > 0.3
    assert_same_up_to_sign(ours, isomap)


def test_coordinates_are_the_leading_axes_of_classical_scaling() -> None:
    for adj in without_symmetry():
        layout = embed(adj)
        assert_same_up_to_sign(layout.coordinates, classical_scaling(adj)[1][:, :2])
        assert_same_up_to_sign(layout.bearings, layout.coordinates)


def test_each_component_is_embedded_on_its_own() -> None:
    one, other = connected_graph(12, 15, seed=1), connected_graph(9, 9, seed=2)
    order = np.random.default_rng(0).permutation(22)
    union = sp.block_diag([one, np.zeros((1, 1)), other], format="csr")
    layout = embed(sp.csr_array(sp.csr_array(union)[order][:, order]))
    place = np.argsort(order)
    for part, alone in ((slice(0, 12), one), (slice(13, 22), other)):
        nodes = place[part]
        assert len(set(layout.component[nodes])) == 1
        np.testing.assert_allclose(
            layout.bearings[nodes], embed(alone).bearings, atol=1e-9
        )
    assert len(set(layout.component)) == 3
    assert not layout.coordinates[place[12]].any()


def test_a_path_is_a_line_of_steps_without_direction() -> None:
    layout = embed(NAMED["path"])
    line = layout.coordinates[:, 0]
    np.testing.assert_allclose(line * np.sign(line[4]), np.arange(-2, 3), atol=1e-9)
    assert not layout.coordinates[:, 1].any()
    assert not layout.bearings.any()


def test_a_path_with_a_branch_at_one_end_has_a_direction() -> None:
    layout = embed(adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5)]))
    x = layout.bearings[:, 0]
    assert (np.diff(x[:4]) > 0).all() or (np.diff(x[:4]) < 0).all()
    np.testing.assert_allclose(np.abs(x), np.abs(layout.coordinates[:, 0]))


def test_two_nodes_are_a_step_apart_without_direction() -> None:
    layout = embed(adjacency(2, [(0, 1)]))
    np.testing.assert_allclose(np.sort(layout.coordinates[:, 0]), [-0.5, 0.5])
    assert not layout.coordinates[:, 1].any()
    assert not layout.bearings.any()


@each("n", [1, 3])
def test_isolated_nodes_lie_at_the_origin(n: int) -> None:
    layout = embed(adjacency(n, []))
    assert not layout.coordinates.any()
    assert not layout.bearings.any()
    assert len(set(layout.component)) == n


@each("graph", [nx.star_graph(5), nx.complete_graph(4)], ids=str)
def test_axes_that_are_one_of_many_are_left_out(graph: nx.Graph) -> None:
    values, _ = classical_scaling(matrix(graph))
    assert values[0] == pytest.approx(values[2])
    assert not embed(matrix(graph)).coordinates.any()


def test_a_second_axis_that_is_one_of_many_is_left_out() -> None:
    adj = matrix(SYMMETRIC["two hubs"])
    values, axes = classical_scaling(adj)
    assert values[0] > values[1] + 1
    assert values[1] == pytest.approx(values[2])
    layout = embed(adj)
    assert_same_up_to_sign(layout.coordinates[:, :1], axes[:, :1])
    assert not layout.coordinates[:, 1].any()
    assert layout.bearings[:, 0].any()  # five leaves on one side, two on the other


def test_a_plane_that_may_be_rotated_has_distances_but_no_directions() -> None:
    adj = matrix(nx.cycle_graph(8))
    layout, (_, axes) = embed(adj), classical_scaling(adj)
    np.testing.assert_allclose(
        cdist(layout.coordinates, layout.coordinates),
        cdist(axes[:, :2], axes[:, :2]),
        atol=1e-9,
    )
    assert not layout.bearings.any()


def test_leaves_of_one_hub_fall_on_one_point() -> None:
    leaves = [(0, leaf) for leaf in range(6, 11)]
    layout = embed(adjacency(11, [(i, i + 1) for i in range(5)] + [(1, 4), *leaves]))
    np.testing.assert_allclose(
        layout.coordinates[6:], np.tile(layout.coordinates[6], (5, 1)), atol=1e-9
    )
    assert not np.allclose(layout.coordinates[6], layout.coordinates[0])


@each("seed", range(3))
def test_axes_point_the_same_way_however_nodes_are_numbered(seed: int) -> None:
    for adj in [*without_symmetry(), connected_graph(230, 300, seed)]:
        order = np.random.default_rng(seed).permutation(adj.shape[0])
        layout = embed(adj)
        permuted = embed(sp.csr_array(adj[order][:, order]))
        assert np.abs(layout.bearings).max(axis=0).min() > 0
        np.testing.assert_allclose(permuted.bearings, layout.bearings[order], atol=1e-9)


def neighbourhoods(adj: sp.csr_array) -> tuple[set[tuple[int, int]], Matrix]:
    """Return the latent pairs, and where every node lies, seen from every other."""
    n = adj.shape[0]
    layout = embed(adj)
    pairs = {(int(u), int(v)) for u, v in latent_pairs(layout, adj.nnz // 2)}
    nodes, seen = np.divmod(np.arange(n * n), n)
    return pairs, quadrants(layout, nodes, seen).reshape(n, n).astype(float)


def assert_renumbering_renumbers(adj: sp.csr_array, seed: int) -> None:
    pairs, sides = neighbourhoods(adj)
    order = np.random.default_rng(seed).permutation(adj.shape[0])
    new_pairs, new_sides = neighbourhoods(sp.csr_array(adj[order][:, order]))
    old = {tuple(sorted((int(order[u]), int(order[v])))) for u, v in new_pairs}
    assert old == pairs
    np.testing.assert_array_equal(new_sides, sides[order][:, order])


@each("symmetric", [matrix(edges) for edges in SYMMETRIC.values()], ids=SYMMETRIC)
@each("seed", range(3))
def test_renumbering_a_symmetric_graph_renumbers_everything(
    symmetric: sp.csr_array, seed: int
) -> None:
    assert_renumbering_renumbers(symmetric, seed)


def test_renumbering_any_small_connected_graph_renumbers_everything() -> None:
    small = [g for g in nx.graph_atlas_g() if 2 <= len(g) <= 6 and nx.is_connected(g)]
    assert len(small) == 1 + 2 + 6 + 21 + 112
    for graph in small:
        assert_renumbering_renumbers(matrix(graph), seed=len(graph))


def test_embedding_leaves_numpys_generator_alone_and_does_not_hear_of_it() -> None:
    adj = connected_graph(230, 300)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tobytes()  # type: ignore[union-attr]  # noqa: NPY002
    first = embed(adj)
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[union-attr]  # noqa: NPY002
    np.random.seed(6)  # noqa: NPY002
    assert embed(adj).coordinates.tobytes() == first.coordinates.tobytes()


# ------------------------------------------------------------------------ latent pairs


def random_layout(n: int, components: int, seed: int = 0) -> Embedding:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 2)) * 3
    return Embedding(points, points, rng.integers(components, size=n))


def pairs_by_loops(layout: Embedding, at_least: int) -> set[tuple[int, int]]:
    n = len(layout.coordinates)
    apart = {
        (u, v): float(np.linalg.norm(layout.coordinates[u] - layout.coordinates[v]))
        for v in range(n)
        for u in range(v)
        if layout.component[u] == layout.component[v]
    }
    rho = sorted(apart.values())[at_least - 1]
    return {pair for pair, d in apart.items() if d <= rho + layout.tolerance}


def as_set(pairs: NDArray[np.int64]) -> set[tuple[int, int]]:
    found = {(int(u), int(v)) for u, v in pairs}
    assert len(found) == len(pairs)  # each once
    return found


@each("components", [1, 3, 20])
@each("at_least", [1, 7, 40])
def test_latent_pairs_are_those_within_the_smallest_radius_that_gives_enough(
    components: int, at_least: int
) -> None:
    layout = random_layout(60, components)
    found = as_set(latent_pairs(layout, at_least))
    assert found == pairs_by_loops(layout, at_least)
    assert len(found) == at_least  # no two distances are equal here
    assert all(u < v for u, v in found)


def test_all_pairs_can_be_wanted() -> None:
    layout = random_layout(12, 1)
    assert len(latent_pairs(layout, 66)) == 66


def test_pairs_at_the_radius_itself_all_count() -> None:
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [5, 5]], dtype=float)
    layout = Embedding(square, square, np.zeros(5, dtype=np.int64))
    sides = {(0, 1), (0, 2), (1, 3), (2, 3)}
    for at_least in (1, 4):
        assert as_set(latent_pairs(layout, at_least)) == sides
    assert as_set(latent_pairs(layout, 5)) == sides | {(0, 3), (1, 2)}


def test_nodes_on_one_point_are_all_neighbours() -> None:
    points = np.zeros((8, 2))
    points[6:] = 3
    layout = Embedding(points, points, np.zeros(8, dtype=np.int64))
    found = as_set(latent_pairs(layout, 4))
    assert found == {(u, v) for v in range(6) for u in range(v)} | {(6, 7)}


def test_neighbours_are_looked_for_within_components_only() -> None:
    points = np.zeros((4, 2))
    points[3] = 0.5
    layout = Embedding(points, points, np.array([0, 1, 0, 1]))
    assert as_set(latent_pairs(layout, 1)) == {(0, 2)}
    assert as_set(latent_pairs(layout, 2)) == {(0, 2), (1, 3)}


def test_no_pairs_are_no_pairs() -> None:
    assert latent_pairs(embed(NAMED["no edges"]), 0).shape == (0, 2)


@each("named_adj", NAMED.values(), ids=NAMED)
def test_on_average_as_many_neighbours_as_in_the_graph(named_adj: sp.csr_array) -> None:
    layout, edges = embed(named_adj), named_adj.nnz // 2
    pairs = latent_pairs(layout, edges)
    assert len(pairs) >= edges
    if edges:
        assert as_set(pairs) == pairs_by_loops(layout, edges)


def test_on_a_path_the_latent_neighbours_are_the_neighbours() -> None:
    assert as_set(latent_pairs(embed(NAMED["path"]), 4)) == {
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
    }


def test_noise_of_the_last_digits_changes_nothing() -> None:
    leaves = [(0, leaf) for leaf in range(30, 36)]
    tree = connected_graph(30, 40, seed=4)
    rows, columns = tree.nonzero()
    edges = [*zip(rows.tolist(), columns.tolist(), strict=True), *leaves]
    adj = adjacency(36, edges)
    layout = embed(adj)
    wanted = latent_pairs(layout, adj.nnz // 2)
    nodes, seen = np.divmod(np.arange(36 * 36), 36)
    for seed in range(5):
        noise = 1e-12 * np.random.default_rng(seed).normal(size=(36, 2))
        noisy = Embedding(
            layout.coordinates + noise, layout.bearings + noise, layout.component
        )
        found = latent_pairs(noisy, adj.nnz // 2)
        assert as_set(found) == as_set(wanted)
        np.testing.assert_array_equal(
            quadrants(noisy, nodes, seen), quadrants(layout, nodes, seen)
        )


# --------------------------------------------------------------------------- quadrants


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
    layout = Embedding(points, points, np.zeros(2, dtype=np.int64))
    seen = quadrants(layout, np.array([0]), np.array([1]))
    assert seen.tolist() == [relation]


def test_seen_from_the_other_end_a_quadrant_is_the_opposite_one() -> None:
    layout = random_layout(30, 1)
    nodes, seen = np.divmod(np.arange(900), 30)
    there, back = quadrants(layout, nodes, seen), quadrants(layout, seen, nodes)
    assert RELATIONS == ("upper left", "upper right", "lower left", "lower right")
    np.testing.assert_array_equal((there + back)[nodes != seen], 3)


# ------------------------------------------------------------------------------ memory


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
    layout = embed(matrix(nx.star_graph(100)))
    with pytest.raises(
        InputError,
        match=r"^geom-gcn finds 5,050 pairs of nodes that Isomap puts close together; "
        r"they need 0\.0 GB, but 0\.0 GB are free\. Instead, use h2gcn-1",
    ):
        latent_pairs(layout, 100, available=1_000_000)
    assert len(latent_pairs(layout, 100, available=1_100_000)) == 5050


def test_the_search_does_not_hold_many_more_pairs_than_are_wanted() -> None:
    layout = random_layout(500, 1)
    wanted = 600
    room = 2 * wanted * geometry.BYTES_PER_PAIR
    assert len(latent_pairs(layout, wanted, available=room)) == wanted
