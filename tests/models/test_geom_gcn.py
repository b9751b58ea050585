"""Geom-GCN: the layout by Isomap, the nine divisions, and the two layers on them."""

from itertools import product

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch

from h2gcn.models import geom_gcn
from h2gcn.models.geom_gcn import (
    DIVISIONS,
    GeometricMatrices,
    embed,
    latent_pairs,
    quadrants,
)
from h2gcn.sparse import dropout
from models.oracles import ACTIVATIONS
from support.graphs import NAMED, adjacency, make_graph, random_adjacency
from support.models import assert_close, logits, make, weights_of
from support.refusals import refused

UPPER_LEFT, UPPER_RIGHT, LOWER_LEFT, LOWER_RIGHT = range(4)
# A triangle with tails of one and of two edges: no symmetry at all.
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 5)])
GRAPHS = {
    **NAMED,
    "six": SIX,
    "random": random_adjacency(0, 15, 0.15),
    "dense": random_adjacency(2, 14, 0.4),
}


def matrix(graph):
    return sp.csr_array(nx.to_numpy_array(graph, dtype=np.float32))


def tree_and_more(n, edges, seed=0):
    """Return a random tree with some edges more: only leaves have the same place."""
    graph, rng = nx.random_labeled_tree(n, seed=seed), np.random.default_rng(seed)
    while graph.number_of_edges() < edges:
        graph.add_edge(*rng.choice(n, 2, replace=False).tolist())
    return matrix(graph)


def permuted(adj, order):
    return sp.csr_array(adj[order][:, order])


def test_a_connected_graph_is_embedded_as_isomap_does():
    from sklearn.manifold import Isomap

    for n, edges in ((14, 20), (260, 400)):  # dense and iterative eigensolvers
        adj = tree_and_more(n, edges, seed=3)
        lengths = np.where(adj.toarray() > 0, 1.0, 2.0)
        np.fill_diagonal(lengths, 0)
        isomap = Isomap(n_neighbors=None, radius=1, metric="precomputed")
        geodesics = nx.floyd_warshall_numpy(nx.from_scipy_sparse_array(adj))
        center = np.eye(n) - 1 / n
        values, vectors = np.linalg.eigh(-0.5 * center @ geodesics**2 @ center)
        scaling = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
        found, _ = embed(adj)
        assert ((found**3).sum(axis=0) > 0).all()
        assert found.std(axis=0).min() > 0.3
        for expected in (isomap.fit_transform(lengths), scaling):
            signs = np.sign((found * expected).sum(axis=0))
            np.testing.assert_allclose(found, signs * expected, atol=1e-8)
        order = np.random.default_rng(0).permutation(n)
        found_permuted, _ = embed(permuted(adj, order))
        np.testing.assert_allclose(found_permuted, found[order], atol=1e-8)


def test_each_component_is_embedded_on_its_own():
    one, other = tree_and_more(12, 15, seed=1), tree_and_more(9, 12, seed=2)
    union = sp.block_diag([one, np.zeros((1, 1)), other], format="csr")
    order = np.random.default_rng(0).permutation(22)
    place = np.argsort(order)
    coordinates, component = embed(permuted(sp.csr_array(union), order))
    for part, alone in ((place[:12], one), (place[13:], other)):
        assert len(set(component[part])) == 1
        np.testing.assert_allclose(coordinates[part], embed(alone)[0], atol=1e-9)
    assert len(set(component)) == 3
    assert not coordinates[place[12]].any()


def test_paths_are_lines_and_leaves_of_one_hub_fall_on_one_point():
    for n in (2, 7, 250):
        coordinates, _ = embed(matrix(nx.path_graph(n)))
        np.testing.assert_allclose(np.abs(np.diff(coordinates[:, 0])), 1, atol=1e-8)
        np.testing.assert_allclose(coordinates[:, 1], 0, atol=1e-5)
    leaves = [(0, leaf) for leaf in range(6, 11)]
    tails = adjacency(11, [(i, i + 1) for i in range(5)] + [(1, 4), *leaves])
    coordinates, _ = embed(tails)
    assert np.ptp(coordinates[6:], axis=0).max() < 1e-9
    assert not np.allclose(coordinates[6], coordinates[0])
    for n in (6, 250):
        assert np.isfinite(embed(matrix(nx.star_graph(n)))[0]).all()


def test_the_layout_does_not_depend_on_numpys_generator():
    adj, found = tree_and_more(230, 300), []
    for seed in (5, 6):
        np.random.seed(seed)  # noqa: NPY002
        before = np.random.get_state()[1].tobytes()  # noqa: NPY002
        found.append(embed(adj)[0].tobytes())
        assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002
    assert found[0] == found[1]


def pairs_by_loops(points, component, at_least):
    apart = {
        (u, v): float(np.linalg.norm(points[u] - points[v]))
        for v in range(len(points))
        for u in range(v)
        if component[u] == component[v]
    }
    rho = sorted(apart.values())[at_least - 1] if at_least else -1.0
    return sorted(pair for pair, d in apart.items() if d <= rho + 1e-8)


def test_latent_pairs_are_within_the_smallest_radius_that_gives_enough():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(60, 2)) * 3
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [5, 5]], dtype=float)
    doubles = np.repeat([[0.0, 0.0], [3.0, 3.0]], [6, 2], axis=0)
    cases = [(points, rng.integers(k, size=60), m) for k in (1, 3, 20) for m in (1, 40)]
    cases += [(square, np.zeros(5, dtype=int), m) for m in (1, 4, 5)]
    cases += [(doubles, np.zeros(8, dtype=int), 4)]
    cases += [(*embed(adj), adj.nnz // 2) for adj in GRAPHS.values()]
    for number, case in enumerate(cases):
        found = latent_pairs(*case)
        expected = pairs_by_loops(*case)
        assert sorted(map(tuple, found.tolist())) == expected, number
        assert len(found) >= case[2]
    assert len(latent_pairs(square, np.zeros(5, dtype=int), 1)) == 4  # ties all count


def test_ties_of_quadrants_go_right_and_up():
    for offset, relation in (
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
    ):
        points = np.array([[2.0, 3.0], [2.0 + offset[0], 3.0 + offset[1]]])
        found = quadrants(points, np.array([0]), np.array([1]))
        assert found.tolist() == [relation], offset
    points = np.random.default_rng(0).normal(size=(30, 2))
    nodes, seen = np.divmod(np.arange(900), 30)
    there, back = quadrants(points, nodes, seen), quadrants(points, seen, nodes)
    assert (there + back)[nodes != seen].tolist() == [3] * 870  # opposite ones


def divisions(adj):
    """Return the nine normalized divisions, pair by pair, from the layout."""
    (z, component), a = embed(adj), adj.toarray()
    latent = set(pairs_by_loops(z, component, adj.nnz // 2))
    binary = np.zeros((DIVISIONS, *a.shape))
    for v, u in np.ndindex(a.shape):
        near = (min(u, v), max(u, v)) in latent
        if u == v:
            binary[8, v, v] = 1
        elif near or a[v, u]:
            left, lower = z[u] < z[v] - 1e-8
            binary[4 * near + 2 * lower + (not left), v, u] = 1
    root = np.diag(binary.sum(axis=(0, 2)) ** -0.5)
    return [root @ m @ root for m in binary]


def test_matrices_are_the_divisions_of_both_neighborhoods():
    for title, adj in GRAPHS.items():
        matrices = GeometricMatrices()(adj)
        for found, expected in zip(matrices, divisions(adj), strict=True):
            assert found.dtype == np.float32
            assert found.has_sorted_indices
            assert found.data.all()
            assert_close(found.toarray(), expected, title)
        together = sum((m.toarray() > 0).astype(int) for m in matrices)
        np.testing.assert_array_equal(together, together.T)
        assert together.max() == 1
        assert together[adj.toarray() > 0].all()


def test_self_loops_and_stored_zeros_do_not_count_and_numbering_does_not_matter():
    rows, columns = SIX.nonzero()
    entries = np.r_[SIX.data, 1, 0, 0], (np.r_[rows, 0, 0, 4], np.r_[columns, 0, 4, 0])
    untidy = sp.csr_array(entries, shape=(6, 6))
    assert untidy.nnz == SIX.nnz + 3
    for adj, order in (
        (untidy, np.arange(6)),
        (SIX, np.random.default_rng(0).permutation(6)),
        (random_adjacency(1, 40, 0.1), np.random.default_rng(1).permutation(40)),
    ):
        matrices = GeometricMatrices()(SIX if adj is untidy else adj)
        changed = GeometricMatrices()(permuted(adj, order))
        for one, other in zip(changed, matrices, strict=True):
            expected = other.toarray()[order][:, order]
            np.testing.assert_array_equal(one.toarray(), expected)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_computed(monkeypatch):
    n = 100_000
    path = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], format="csr")
    monkeypatch.setattr(geom_gcn, "available_memory", lambda: 2_400_000_000)
    with refused(words="component of 100,000 nodes by Isomap, which needs 80.1 GB"):
        GeometricMatrices()(sp.csr_array(path))
    # Only the largest component counts.
    many = sp.csr_array(sp.block_diag([NAMED["path"]] * 300))
    needed = 8 * 5**2 + 1024 * 5
    monkeypatch.setattr(geom_gcn, "available_memory", lambda: needed)
    embed(many)
    monkeypatch.setattr(geom_gcn, "available_memory", lambda: needed - 1)
    with refused(words="component of 5 nodes"):
        embed(many)
    layout = np.zeros((101, 2)), np.zeros(101, dtype=int)
    monkeypatch.setattr(geom_gcn, "available_memory", lambda: 1_000_000)
    with refused(words="takes 5,050 pairs of nodes that Isomap puts close together"):
        latent_pairs(*layout, 100)
    monkeypatch.setattr(geom_gcn, "available_memory", lambda: 1_100_000)
    assert len(latent_pairs(*layout, 100)) == 5050


def test_the_matrices_take_the_memory_of_the_distances():
    import tracemalloc

    adj = tree_and_more(1200, 2000)
    GeometricMatrices()(adj)  # what is imported on first use is not counted
    tracemalloc.start()
    GeometricMatrices()(adj)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    needed = 8 * 1200**2 + 1024 * 1200
    assert 0.7 * needed < peak < 1.1 * needed


def formula(w, x, matrices, act, masks):
    """Return the logits: one map per division, then one sum per node."""
    first, second = (np.split(w[key], DIVISIONS, axis=1) for key in ("first", "second"))
    parts = [m @ (x * masks[0]) @ v for m, v in zip(matrices, first, strict=True)]
    hidden = act(np.hstack(parts)) * masks[1]
    parts = [m @ hidden @ v for m, v in zip(matrices, second, strict=True)]
    return np.mean(parts, axis=0)


def test_logits_are_those_of_the_formula_with_one_dropout_per_layer():
    for title, adj in GRAPHS.items():
        n = adj.shape[0]
        for act, share in (("relu", 0.0), ("none", 0.0), ("relu", 0.5)):
            options = {"activation": act, "dropout": share}
            module, x, operators = make("geom-gcn", make_graph(adj), **options)
            arguments = (
                weights_of(module),
                x.numpy(),
                [op.scipy.toarray().astype(float) for op in operators],
            )
            for training, nodes in product((False, True), (range(n), [n - 1, 0, 0])):
                torch.manual_seed(4)
                widths = (5, 8 * DIVISIONS) if training else ()
                masks = [dropout(torch.ones(n, w), share).numpy() for w in widths]
                expected = formula(*arguments, ACTIVATIONS[act], masks or (1.0, 1.0))
                torch.manual_seed(4)
                found = logits(module.train(training), x, operators, list(nodes))
                assert_close(found, expected[list(nodes)], title, options)
