"""The three theorems: by hand, against enumeration, and on random graphs."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, strategies as st
from sklearn.linear_model import LogisticRegression

from h2gcn import Graph, exact_rings, theory
from h2gcn.datasets import PRESETS, generate_graph
from h2gcn.datasets.synthetic import circular_compatibility
from h2gcn.exceptions import InputError
from h2gcn.experiments.theorems import leads_of, theory_result
from h2gcn.homophily.measures import edge_homophily, node_homophily
from support.cases import each
from support.graphs import NAMED, adjacency

with_and_without_loops = each("self_loops", [True, False])
SHARES, CLASSES = st.floats(0, 1), st.integers(2, 6)
DEGREES = st.floats(0.5, 20)


def labelled(adj: sp.csr_array, y: list[int] | np.ndarray) -> Graph:
    return Graph(x=np.ones((adj.shape[0], 1)), adj=adj, y=np.asarray(y))


# Theorem 1: closed forms


@each(
    ("homophily", "degree", "n_classes", "delta1", "delta2"),
    [
        (0.0, 20, 5, 4, 5),  # none of one's own class, 5 of each other
        (0.1, 20, 7, 0, 1),  # 2 and 3
        (0.1, 20, 5, 1.5, 2.5),  # 2 and 4.5
        (0.5, 4, 3, -2, -1),  # 2 and 1
        (1.0, 20, 5, -21, -20),
    ],
)
def test_perturbation_by_hand(
    homophily: float, degree: int, n_classes: int, delta1: float, delta2: float
) -> None:
    for expected, self_loops in ((delta1, True), (delta2, False)):
        needed = theory.perturbation_needed(
            homophily, degree, n_classes, self_loops=self_loops
        )
        assert needed == pytest.approx(expected, abs=1e-12)


@given(h=SHARES, d=DEGREES, c=CLASSES)
def test_closed_forms_are_those_the_paper_prints(h: float, d: float, c: int) -> None:
    delta1 = theory.perturbation_needed(h, d, c, self_loops=True)
    delta2 = theory.perturbation_needed(h, d, c, self_loops=False)
    assert delta1 == pytest.approx((-h * c * d - c + d + 1) / (c - 1), abs=1e-9)
    assert delta2 == pytest.approx((1 - h * c) * d / (c - 1), abs=1e-9)
    assert delta1 == pytest.approx(delta2 - 1)
    eye = np.eye(c, dtype=bool)
    if abs(delta1) > 1e-3:
        scale = (d + 1) * (c - 1 + (c * h - 1) * d)
        printed = np.where(eye, (c - 1) + (c - 2 + h) * d, (h - 1) * d) / scale
        weights = theory.optimal_weights(h, d, c, self_loops=True)
        assert np.allclose(weights, printed, rtol=1e-7)
    if abs(delta2) > 1e-3:
        printed = np.where(eye, -(c - 2 + h), 1 - h) / ((1 - h * c) * d)
        weights = theory.optimal_weights(h, d, c, self_loops=False)
        assert np.allclose(weights, printed, rtol=1e-7)


def test_no_weights_fit_where_the_paper_says_invertible() -> None:
    with pytest.raises(InputError, match=r"no optimal weights at h = 0\.5"):
        theory.optimal_weights(0.5, 4, 2, self_loops=False)


@given(h=SHARES, d=DEGREES, c=CLASSES)
def test_threshold_is_where_the_order_changes(h: float, d: float, c: int) -> None:
    threshold = theory.homophily_threshold(d, c)
    assume(abs(h - threshold) > 1e-9)
    delta1 = theory.perturbation_needed(h, d, c, self_loops=True)
    delta2 = theory.perturbation_needed(h, d, c, self_loops=False)
    assert (abs(delta1) < abs(delta2)) == (h < threshold)


def test_the_separate_layer_is_not_always_the_more_robust_one() -> None:
    """The paper's plot over the degree: "always" holds from degree 5 on."""
    for d in range(1, 51):
        delta1, delta2 = (
            abs(theory.perturbation_needed(0.1, d, 5, self_loops=self_loops))
            for self_loops in (True, False)
        )
        assert math.isclose(delta1, delta2) if d == 4 else (delta1 < delta2) == (d > 4)


# Theorem 1: constructed graphs, fitted layers, perturbed neighbourhoods


@given(h=SHARES, d=DEGREES, c=CLASSES)
def test_constructed_graph_meets_the_assumptions(h: float, d: float, c: int) -> None:
    adj, y = theory.regular_graph(h, d, c)
    assert (adj == adj.T).all()
    assert not adj.diagonal().any()
    assert adj.min() >= 0
    assert adj.max() <= 1
    counts = np.where(np.eye(c, dtype=bool)[y], h * d, (1 - h) * d / (c - 1))
    assert np.allclose(adj @ np.eye(c)[y], counts, atol=1e-9)
    assert len(set(np.bincount(y))) == 1


@each(("h", "d", "c"), [(0.1, 30, 4), (0.0, 8, 3), (1.0, 3, 2)])
def test_whole_neighbours_make_whole_edges(h: float, d: int, c: int) -> None:
    adj, y = theory.regular_graph(h, d, c)
    graph = labelled(sp.csr_array(adj), y)  # Graph refuses anything but 0 and 1
    assert (graph.degrees == d).all()
    assert node_homophily(graph) == pytest.approx(h)


@given(h=SHARES, d=DEGREES, c=CLASSES, self_loops=st.booleans(), chosen=st.data())
def test_perturbing_finds_the_closed_form(
    h: float, d: float, c: int, self_loops: bool, chosen: st.DataObject
) -> None:
    """Any node and any other class: the layer errs where the paper says it does."""
    needed = theory.perturbation_needed(h, d, c, self_loops=self_loops)
    assume(abs(needed) > 1e-3)  # nearer to singular, rounding decides
    adj, y = theory.regular_graph(h, d, c)
    node = chosen.draw(st.integers(0, len(y) - 1), label="node")
    other = chosen.draw(st.sampled_from([k for k in range(c) if k != y[node]]))
    weights = theory.fit_layer(adj, y, self_loops=self_loops)
    optimum = theory.optimal_weights(h, d, c, self_loops=self_loops)
    assert np.allclose(weights, optimum, rtol=1e-6, atol=1e-8 * abs(optimum).max())
    found = theory.smallest_perturbation(
        adj, y, weights, self_loops=self_loops, node=node, other=other
    )
    assert found == pytest.approx(needed, rel=1e-7)


@with_and_without_loops
@given(own=st.integers(0, 6), other=st.integers(0, 6), c=st.integers(2, 5))
def test_whole_edges_to_flip(self_loops: bool, own: int, other: int, c: int) -> None:
    """One edge more than |δ|, at which two classes are level."""
    degree = own + (c - 1) * other
    assume(degree > 0)
    adj, y = theory.regular_graph(own / degree, degree, c)
    weights = theory.fit_layer(adj, y, self_loops=self_loops)
    delta = other - own - self_loops
    flips = theory.edges_to_flip(adj, y, weights, self_loops=self_loops)
    if delta == 0 or delta == other:  # nothing fits; no further neighbour to lose
        assert flips is None
    else:
        assert flips == delta + np.sign(delta)


@each(("d", "c"), [(20, 5), (5, 2), (7.5, 4)])
def test_threshold_found_by_perturbing(d: float, c: int) -> None:
    threshold = theory.homophily_threshold(d, c)
    assert theory.found_threshold(d, c) == pytest.approx(threshold, abs=1e-8)


def test_no_threshold_where_the_degree_is_small() -> None:
    assert theory.homophily_threshold(1, 5) < 0
    assert theory.found_threshold(1, 5) == 0


@with_and_without_loops
@each(("h", "d", "c"), [(0.1, 20, 3), (0.4, 20, 5), (0.0, 6, 3)])
def test_cross_entropy_is_flipped_by_the_same_perturbation(
    self_loops: bool, h: float, d: int, c: int
) -> None:
    """The theorem's loss leaves nothing; a loss that always leaves some agrees."""
    adj, y = theory.regular_graph(h, d, c)
    aggregated = adj @ np.eye(c)[y] + self_loops * np.eye(c)[y]
    layer = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=2000)
    weights = layer.fit(aggregated, y).coef_.T
    found = theory.smallest_perturbation(adj, y, weights, self_loops=self_loops)
    needed = theory.perturbation_needed(h, d, c, self_loops=self_loops)
    assert found == pytest.approx(needed, rel=1e-4)


def test_a_perturbation_may_be_impossible() -> None:
    adj, y = theory.regular_graph(0.5, 4, 3)
    always_first = np.zeros((3, 3))
    always_first[:, 0] = 1
    # Two neighbours that cannot go make class 0 win whatever else is changed.
    found = theory.smallest_perturbation(adj, y, always_first, self_loops=False)
    assert math.isnan(found)


# Theorem 2


@given(h=SHARES, c=CLASSES)
def test_two_hops_are_homophily_dominant(h: float, c: int) -> None:
    squared = theory.two_hop_distribution(theory.uniform_compatibility(c, h))
    rho = (1 - h) / (c - 1)
    assert theory.is_homophily_dominant(squared)
    assert squared.sum(axis=1) == pytest.approx(np.ones(c))
    assert squared[0, 0] == pytest.approx(h**2 + (c - 1) * rho**2)
    assert squared[0, 0] - squared[0, 1] == pytest.approx((h - rho) ** 2, abs=1e-12)
    assert theory.is_homophily_dominant(theory.uniform_compatibility(c, h)) == (
        h >= 1 / c - 1e-12
    )


@given(h=SHARES, c=st.integers(2, 10))
def test_the_generators_matrix_is_dominant_too(h: float, c: int) -> None:
    squared = theory.two_hop_distribution(circular_compatibility(c, h))
    assert theory.is_homophily_dominant(squared)


def test_dominance_needs_symmetric_compatibility() -> None:
    """Everyone links to class 0: so it is two hops away, whoever one is."""
    p = np.array([[0.8, 0.2], [0.8, 0.2]])
    assert not theory.is_homophily_dominant(theory.two_hop_distribution(p))


@each("h", [0.0, 0.1, 0.7])
def test_two_hops_on_a_tree_are_exactly_p_squared(h: float) -> None:
    """All labelings of a small tree, weighted by their probability."""
    p = theory.uniform_compatibility(3, h)
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (4, 5)]
    ring = exact_rings(adjacency(6, edges), hops=2)[1].tocoo()
    joint = np.zeros((6, 6, 3, 3))
    for y in itertools.product(range(3), repeat=6):
        chance = math.prod([p[y[u], y[v]] for u, v in edges]) / 3
        for u, v in itertools.product(range(6), repeat=2):
            joint[u, v, y[u], y[v]] += chance
    for u, v in edges:
        assert np.allclose(joint[u, v] * 3, p)
        assert np.allclose(joint[v, u] * 3, p)
    for u, v in zip(ring.row, ring.col, strict=True):
        assert np.allclose(joint[u, v] * 3, theory.two_hop_distribution(p))


@each("h", [0.0, 0.1, 0.5, 0.9])
def test_two_hops_measured_on_trees(h: float) -> None:
    p = theory.uniform_compatibility(4, h)
    trees = [theory.broadcast_tree(800, p, seed=seed) for seed in range(30)]
    one_hop = [edge_homophily(tree) for tree in trees]
    two_hops = [theory.measured_two_hop(tree)[0] for tree in trees]
    for shares, expected in ((one_hop, h), (two_hops, (p @ p)[0, 0])):
        error = np.std(shares, ddof=1) / np.sqrt(len(shares))
        assert np.mean(shares) == pytest.approx(expected, abs=4 * error)


@each("h", [0.0, 0.1, 0.8])
def test_two_hops_measured_on_generated_graphs(h: float) -> None:
    """P² under heterophily, and the own class ahead under homophily as well."""
    p = theory.uniform_compatibility(5, h)
    shares = np.array(
        [
            theory.measured_two_hop(
                generate_graph(**PRESETS["syn-cora"], compatibility=p, seed=seed)
            )
            for seed in range(10)
        ]
    )
    own, other = shares.mean(axis=0)
    assert own + 4 * other == pytest.approx(1)
    assert own > other
    tolerance = 0.005 if h < 0.2 else 0.06  # hubs and triangles, see the module
    assert own == pytest.approx((p @ p)[0, 0], abs=tolerance)


@each(("h", "d"), [(0.3, 2.0), (0.0, 1.5), (0.6, 1.6)])
def test_block_model_against_all_graphs(h: float, d: float) -> None:
    """Three classes of two nodes: 2^15 graphs, weighted by their probability."""
    y = np.array([0, 0, 1, 1, 2, 2])
    pairs = np.array(list(itertools.combinations(range(6), 2)))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    chance = np.where(same, h * d, (1 - h) / 2 * d / 2)
    joined = np.array(list(itertools.product([False, True], repeat=15)))
    weight = np.where(joined, chance, 1 - chance).prod(axis=1)
    adj = np.zeros((len(joined), 6, 6))
    adj[:, pairs[:, 0], pairs[:, 1]] = adj[:, pairs[:, 1], pairs[:, 0]] = joined
    two_hops = (adj @ adj > 0) & (adj == 0)
    expected = (two_hops * weight[:, None, None]).sum(axis=0)[pairs[:, 0], pairs[:, 1]]
    own, other = theory.block_model_two_hop(3, h, d, 2)
    assert weight.sum() == pytest.approx(1)
    assert own == pytest.approx(expected[same].sum() / expected.sum())
    assert own + 2 * other == pytest.approx(1)


@given(h=SHARES, c=CLASSES, d=st.floats(0.5, 10))
def test_sparse_block_models_tend_to_p_squared(h: float, c: int, d: float) -> None:
    p = theory.uniform_compatibility(c, h)
    own, other = theory.block_model_two_hop(c, h, d, 1_000_000)
    assert own == pytest.approx((p @ p)[0, 0], abs=1e-4)
    assert other == pytest.approx((p @ p)[0, 1], abs=1e-4)


def test_dense_graphs_break_the_theorem() -> None:
    own, other = theory.block_model_two_hop(2, 0.7, 40, 40)
    assert own < other


def test_block_models_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"degree .*among 40 nodes"):
        theory.block_model_two_hop(2, 0.7, 80, 40)
    with pytest.raises(InputError, match=r"no two nodes .* at distance 2"):
        theory.block_model_two_hop(2, 1.0, 1, 2)


def test_pairs_at_distance_two_by_class() -> None:
    # A path of the labels 0 1 2 0: its pairs are 0–2 and 1–0.
    path = labelled(adjacency(4, [(0, 1), (1, 2), (2, 3)]), np.array([0, 1, 2, 0]))
    pairs = theory.two_hop_pairs(path)
    assert pairs.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    shares, errors = theory.two_hop_shares(np.stack([pairs, pairs]))
    assert shares.tolist() == [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]]
    assert errors.tolist() == [[0] * 3] * 3
    assert np.isnan(theory.two_hop_shares(pairs[None])[1]).all()


def test_a_class_without_pairs_has_no_shares() -> None:
    pairs = np.array([[[2, 0], [0, 0]]] * 2)
    shares, _ = theory.two_hop_shares(pairs)
    assert shares[0].tolist() == [1, 0]
    assert np.isnan(shares[1]).all()
    assert (leads_of(pairs).smallest, leads_of(pairs).behind) == (1.0, 0)


def test_the_error_of_a_lead_is_that_of_a_quotient_of_means() -> None:
    """Against the spread of the same lead over many draws of as many graphs."""
    rng = np.random.default_rng(0)
    chances = np.array([[0.2, 0.1], [0.1, 0.6]])
    pairs = rng.multinomial(100, chances.ravel(), size=(2000, 20)).reshape(-1, 20, 2, 2)
    found = [theory.two_hop_shares(graphs) for graphs in pairs]
    leads = np.array([shares[0, 0] - shares[0, 1] for shares, _ in found])
    errors = np.array([errors[0, 1] for _, errors in found])
    assert leads.mean() == pytest.approx(1 / 3, abs=0.005)
    assert np.median(errors) == pytest.approx(leads.std(), rel=0.1)


@each("h", [0.0, 0.2, 0.5, 0.9])
def test_each_class_leads_each_other_on_trees(h: float) -> None:
    p = theory.uniform_compatibility(4, h)
    trees = [theory.broadcast_tree(800, p, seed=seed) for seed in range(30)]
    pairs = np.stack([theory.two_hop_pairs(tree) for tree in trees])
    shares, errors = theory.two_hop_shares(pairs)
    squared = theory.two_hop_distribution(p)
    leads = shares.diagonal()[:, None] - shares
    assert shares.sum(axis=1) == pytest.approx(np.ones(4))
    expected = squared.diagonal()[:, None] - squared
    assert (abs(leads - expected) <= 4.5 * errors + 1e-12).all()
    assert leads_of(pairs).behind == 0


def test_one_class_behind_another_is_seen_where_the_mean_of_the_others_is_not() -> None:
    """Class 0 has its own less often around it than class 1, but than the mean not."""
    pairs = np.array([[[40, 50, 5], [50, 90, 10], [5, 10, 40]]] * 10)
    pairs = pairs + np.random.default_rng(0).integers(0, 3, size=pairs.shape)
    found = leads_of(pairs + pairs.transpose(0, 2, 1))
    own = np.trace(pairs.sum(axis=0)) / pairs.sum()
    assert own > (1 - own) / 2
    assert found.behind == 1
    assert found.smallest == found.shares[0, 0] - found.shares[0, 1] < -found.noise < 0


def test_two_joined_cliques_break_the_theorem() -> None:
    clique = np.ones((10, 10)) - np.eye(10)
    joined = np.block([[clique, np.eye(10)], [np.eye(10), clique]])
    graph = labelled(sp.csr_array(joined), np.repeat([0, 1], 10))
    assert edge_homophily(graph) == pytest.approx(0.9)
    assert theory.two_hop_distribution(theory.uniform_compatibility(2, 0.9))[0, 0] > 0.8
    assert theory.measured_two_hop(graph) == (0.0, 1.0)
    pairs = np.stack([theory.two_hop_pairs(graph)] * 2)
    assert (leads_of(pairs).behind, leads_of(pairs).smallest) == (2, -1.0)


# Theorem 3


def cut_size(adj: sp.csr_array, y: list[int]) -> int:
    """Count the edges between different labels."""
    return sum(y[u] != y[v] for u, v in zip(*adj.nonzero(), strict=True)) // 2


@st.composite
def two_labelings(draw: st.DrawFn, classes: int) -> tuple[sp.csr_array, np.ndarray]:
    """Draw a graph, connected or not, and two labelings, the smoother one last."""
    n = draw(st.integers(2, 9))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    adj = adjacency(n, draw(st.lists(st.sampled_from(pairs), min_size=1)))
    labels = st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)
    y = np.array(sorted([draw(labels), draw(labels)], key=lambda y: -cut_size(adj, y)))
    return adj, y


@given(case=two_labelings(2))
def test_smoothness_counts_edges_between_classes(
    case: tuple[sp.csr_array, np.ndarray],
) -> None:
    """Once for labels of 0 and 1 (the paper: twice), twice for one-hot rows."""
    adj, (y, _) = case
    between = cut_size(adj, y)
    rows = np.eye(2)[y]
    assert theory.smoothness(adj, y) == between
    assert theory.smoothness(adj, rows) == 2 * between
    expected = pytest.approx(edge_homophily(labelled(adj, y)))
    assert theory.homophily_of_signal(adj, y) == expected
    assert theory.homophily_of_signal(adj, rows) == expected


@given(case=two_labelings(2))
def test_less_homophily_has_more_energy_above_some_cut(
    case: tuple[sp.csr_array, np.ndarray],
) -> None:
    adj, (s, t) = case
    assume(cut_size(adj, s) > cut_size(adj, t))
    assert len(theory.higher_energy_cuts(adj, s, t))


@given(case=two_labelings(4))
def test_the_extension_to_one_hot_labels(
    case: tuple[sp.csr_array, np.ndarray],
) -> None:
    adj, y = case
    s, t = np.eye(4)[y]
    h_s, h_t = (edge_homophily(labelled(adj, labels)) for labels in y)
    assume(h_s < h_t - 1e-9)
    assert len(theory.higher_energy_cuts(adj, s, t))


@given(case=two_labelings(3))
def test_smoothness_is_energy_by_parts(case: tuple[sp.csr_array, np.ndarray]) -> None:
    """sᵀLs = Σ_M (λ_M − λ_{M−1}) E(M), the identity that proves the theorem."""
    adj, (y, _) = case
    rows = theory.one_hot(y)
    values, (energy,) = theory.energy_above_cuts(adj, rows)
    by_parts = (np.diff(values) * energy[1:]).sum()
    assert by_parts == pytest.approx(theory.smoothness(adj, rows), abs=1e-9)
    assert energy[0] == pytest.approx(len(y))


def test_energy_on_a_path_by_hand() -> None:
    """λ = 0, 1, 3 with (1, 1, 1)/√3, (1, 0, −1)/√2 and (1, −2, 1)/√6."""
    path = adjacency(3, [(0, 1), (1, 2)])
    values, (middle, end) = theory.energy_above_cuts(
        path, np.array([0, 1, 0]), np.array([0, 0, 1])
    )
    assert np.allclose(values, [0, 1, 3])
    assert np.allclose(middle, [1, 2 / 3, 2 / 3])
    assert np.allclose(end, [1, 2 / 3, 1 / 6])


def test_energy_at_distinct_cuts_does_not_depend_on_the_basis() -> None:
    """K4 has λ = 0, 4, 4, 4: of its three cuts only the first means anything."""
    values, (energy,) = theory.energy_above_cuts(NAMED["K4"], np.array([1, 0, 0, 0]))
    assert theory.distinct_cuts(values).tolist() == [1]
    assert energy[1] == pytest.approx(3 / 4)


def test_both_labelings_may_have_the_higher_energy() -> None:
    """The definition asks for one cut: it may hold both ways, and no converse does."""
    path, s, t = NAMED["path"], np.array([0, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 0])
    assert theory.homophily_of_signal(path, s) == 0.25
    assert theory.homophily_of_signal(path, t) == 0.5
    assert theory.higher_energy_cuts(path, s, t).tolist() == [3, 4]
    assert theory.higher_energy_cuts(path, t, s).tolist() == [2]


# The experiment


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    return theory_result("quick").to_json()


def test_result_is_plain_json(result: dict[str, object]) -> None:
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["experiment"] == "theory"
    with pytest.raises(InputError, match="did you mean 'quick'"):
        theory_result("quik")


def test_result_has_every_theorem(result: dict[str, list[dict[str, object]]]) -> None:
    assert [figure["name"] for figure in result["figures"]] == [
        "theorem-1-homophily",
        "theorem-1-classes",
        "theorem-1-degree",
        "theorem-2",
        "theorem-3",
        "theorem-3-one-hot",
    ]
    for table in result["tables"]:
        for row in table["rows"]:
            assert len(row["cells"]) == len(table["columns"])


def test_result_has_each_class_beside_each_other(
    result: dict[str, list[dict[str, Any]]],
) -> None:
    first, table = result["tables"][2:4]
    assert (first["name"], table["name"]) == ("theorem-2", "theorem-2-classes")
    rows = {
        row["name"]: [cell["mean"] for cell in row["cells"]] for row in table["rows"]
    }
    for name, (by_p, *measured) in rows.items():
        h = float(name.removeprefix("h = "))
        assert by_p == pytest.approx((h - (1 - h) / 4) ** 2, abs=1e-12)
        for smallest, noise, behind in (measured[:3], measured[3:]):
            assert behind == 0
            assert smallest >= -noise - 1e-12
            assert smallest > 0 or by_p < 0.02  # near h = 1/C all leads are small
    for matrices in table["matrices"].values():
        assert list(matrices) == list(rows)
        for matrix in matrices.values():
            shares = np.array(matrix, dtype=float)
            known = ~np.isnan(shares[:, 0])
            assert shares[known].sum(axis=1) == pytest.approx(np.ones(known.sum()))
    assert sum("no class is behind another" in note for note in result["notes"]) == 1
    lead = result["figures"][3]["series"][4]
    assert lead["mean"] == [means[1] for means in rows.values()]


def test_result_agrees_with_the_closed_forms(
    result: dict[str, list[dict[str, list[dict[str, list[float]]]]]],
) -> None:
    for figure in result["figures"][:3]:
        for line in figure["series"]:
            assert line["mean"] == pytest.approx(line["paper"], abs=1e-6)
    trees = result["figures"][3]["series"][0]
    errors = np.array(trees["std"]) / np.sqrt(len(trees["runs"][0]))
    assert (abs(np.subtract(trees["mean"], trees["paper"])) <= 4 * errors).all()
    for figure in result["figures"][4:]:
        less, more = (np.array(line["mean"]) for line in figure["series"])
        assert (less >= more - 1e-9).all()
        assert less.sum() > 3 * more.sum()
    for row in result["tables"][-1]["rows"]:
        assert row["cells"][0]["mean"] == 100
