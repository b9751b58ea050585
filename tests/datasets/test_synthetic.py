"""Synthetic graphs: the law they are drawn by, their counts, their features."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

from h2gcn import Graph
from h2gcn.datasets import (
    PRESETS,
    BenchmarkFeatures,
    GaussianFeatures,
    generate_graph,
    synthetic,
)
from h2gcn.datasets.synthetic import (
    circular_compatibility,
    generate_edges,
)
from h2gcn.exceptions import InputError

FEW = GaussianFeatures(n_features=4)


def measured_compatibility(graph: Graph) -> np.ndarray:
    """Return the classes that the neighbours of each class are of, in shares."""
    rows, cols = graph.adj.nonzero()
    counts = np.zeros((graph.n_classes, graph.n_classes))
    np.add.at(counts, (graph.y[rows], graph.y[cols]), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def measured_homophily(graph: Graph) -> float:
    rows, cols = graph.adj.nonzero()
    return float(np.mean(graph.y[rows] == graph.y[cols]))


# The compatibility matrix.


def test_five_classes_halve_with_distance():
    h = circular_compatibility(5, 0.4)
    np.testing.assert_allclose(h[0], [0.4, 0.2, 0.1, 0.1, 0.2])
    for i in range(5):
        np.testing.assert_allclose(h[i], np.roll(h[0], i))


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_rows_sum_to_one(n_classes, homophily):
    h = circular_compatibility(n_classes, homophily)
    np.testing.assert_allclose(h.sum(axis=1), 1)
    assert (h.diagonal() == homophily).all()
    np.testing.assert_allclose(h, h.T)
    if n_classes == 2:
        np.testing.assert_allclose(h[0, 1], 1 - homophily)


def test_compatibility_arguments_are_checked():
    with pytest.raises(InputError, match=r"^n_classes .*at least 2, got 1"):
        circular_compatibility(1, 0.5)
    with pytest.raises(InputError, match=r"^homophily must be in \[0, 1\], got 1.2"):
        circular_compatibility(3, 1.2)


# The law of attachment, against all the graphs it can give.


def all_graphs(labels, h, m, start) -> dict[frozenset, float]:
    """Return every edge set with its probability, straight from the rule.

    Each history is followed in turn, over every ordered draw without replacement:
    exponential in time, and plain.
    """
    chained = bool((np.asarray(h) > 0).all())
    states = {frozenset(): 1.0}
    for u in range(len(labels)):
        following: Counter = Counter()
        for edges, chance in states.items():
            if u < start and (u < 2 or chained):
                links = frozenset([(u, u - 1)] if u >= 2 else [])
                following[edges | links] += chance
                continue
            degree = Counter(v for edge in edges for v in edge)
            weight = {v: h[labels[u]][labels[v]] * max(degree[v], 1) for v in range(u)}
            weight = {v: w for v, w in weight.items() if w > 0}
            count = min(1 if u < start else m, len(weight))
            for draw in permutations(weight, count):
                p, left = chance, sum(weight.values())
                for v in draw:
                    p *= weight[v] / left
                    left -= weight[v]
                following[edges | {(u, v) for v in draw}] += p
        states = dict(following)
    return states


LAWS = {
    "chained start": ([0, 1, 1, 0, 1, 0], [[0.2, 0.8], [0.7, 0.3]], 2, 3),
    "no chain": ([0, 0, 1, 2, 1, 0], [[0, 2, 1], [1, 0, 1], [3, 1, 0]], 2, 4),
    "short start": ([0, 1, 0, 1, 0], [[0.9, 0.1], [0.5, 0.5]], 3, 1),
}


@pytest.mark.parametrize("patience", [64, 0])
@pytest.mark.parametrize("law", LAWS)
def test_graphs_come_with_the_probability_of_the_rule(law, patience, monkeypatch):
    # No patience: what is drawn after the first repeated node comes from the list.
    monkeypatch.setattr(synthetic._Urns, "patience", patience)
    labels, h, m, start = LAWS[law]
    expected = all_graphs(labels, h, m, start)
    assert sum(expected.values()) == pytest.approx(1)
    n_draws = 2500
    seen: Counter = Counter()
    for seed in range(n_draws):
        edges = generate_edges(
            labels, compatibility=h, edges_per_node=m, start_nodes=start, seed=seed
        )
        seen[frozenset(map(tuple, edges.tolist()))] += 1
    assert set(seen) <= set(expected)
    often = [graph for graph, p in expected.items() if p * n_draws >= 5]
    f_exp = [expected[graph] * n_draws for graph in often]
    f_obs = [seen[graph] for graph in often]
    rare = n_draws - sum(f_exp)
    if rare > 1e-6:
        f_exp.append(rare)
        f_obs.append(n_draws - sum(f_obs))
    assert chisquare(f_obs, f_exp).pvalue > 0.001


def test_a_node_links_to_all_where_there_are_few():
    edges = generate_edges(
        [0, 0, 1, 1, 0],
        compatibility=np.eye(2),
        edges_per_node=3,
        start_nodes=2,
    )
    assert sorted(edges.tolist()) == [[3, 2], [4, 0], [4, 1]]


def test_weights_too_small_to_be_met_do_not_hold_up_a_draw():
    edges = generate_edges(
        [0, 1, 1, 0],
        compatibility=[[1, 1e-300], [1e-300, 1]],
        edges_per_node=3,
        start_nodes=3,
    )
    assert sorted(edges.tolist()) == [[2, 1], [3, 0], [3, 1], [3, 2]]


# Whole graphs.


@pytest.mark.parametrize("homophily", [0.0, 0.1, 0.5, 0.9])
def test_syn_cora_counts(homophily):
    graph = generate_graph(**PRESETS["syn-cora"], homophily=homophily, features=FEW)
    assert (graph.n_nodes, graph.n_edges, graph.n_classes) == (1490, 2968, 5)
    assert np.bincount(graph.y).tolist() == [298] * 5


@pytest.mark.parametrize("seed", range(3))
def test_counts_at_full_homophily(seed):
    one, other = (
        generate_graph(**PRESETS[name], homophily=1, features=FEW, seed=seed)
        for name in ("syn-cora", "syn-products")
    )
    # Each class begins with a node that finds none of its own, and so does one
    # more where the second node is of the class of the first.
    assert one.n_edges in (2964, 2965)
    assert other.n_edges in (59639, 59640)


def test_syn_products_counts():
    graph = generate_graph(**PRESETS["syn-products"], features=FEW)
    assert (graph.n_nodes, graph.n_edges, graph.n_classes) == (10000, 59648, 10)
    assert np.bincount(graph.y).tolist() == [1000] * 10


def test_the_default_start_and_uneven_classes():
    graph = generate_graph(n_nodes=101, n_classes=3, edges_per_node=4, features=FEW)
    assert graph.n_edges == 10 + 89 * 4
    assert np.bincount(graph.y).tolist() == [34, 34, 33]


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_homophily_is_what_was_asked(homophily):
    graph = generate_graph(n_nodes=3000, homophily=homophily, features=FEW, seed=1)
    found = measured_homophily(graph)
    if homophily in (0, 1):
        assert found == homophily
    else:
        assert found == pytest.approx(homophily, abs=0.03)


def test_near_classes_are_met_twice_as_often():
    graph = generate_graph(
        n_nodes=10_000, edges_per_node=5, homophily=0.1, features=FEW
    )
    h = measured_compatibility(graph)
    near = np.mean([h[i, (i + 1) % 5] + h[i, i - 1] for i in range(5)])
    far = np.mean([h[i, (i + 2) % 5] + h[i, i - 2] for i in range(5)])
    assert near / far == pytest.approx(2, abs=0.1)


def test_a_matrix_of_ones_own():
    # Rows and columns sum to 1, so the urns stay level; a neighbour may be the
    # earlier or the later node, so the symmetric part is what can be measured.
    h = np.array([[0.1, 0.7, 0.2], [0.3, 0.2, 0.5], [0.6, 0.1, 0.3]])
    graph = generate_graph(
        n_nodes=6000,
        n_classes=3,
        edges_per_node=4,
        compatibility=7 * h,
        features=FEW,
    )
    np.testing.assert_allclose(
        measured_compatibility(graph), (h + h.T) / 2, atol=0.03, rtol=0
    )
    assert graph.name == "synthetic-custom"


def test_degrees_are_heavy_tailed():
    graph = generate_graph(n_nodes=3000, homophily=0.3, features=FEW)
    assert graph.degrees.max() > 10 * graph.degrees.mean()
    assert np.median(graph.degrees) < graph.degrees.mean()


def test_the_seed_decides():
    one, same, other = (
        generate_graph(n_nodes=300, features=FEW, seed=seed) for seed in (4, 4, 5)
    )
    assert (one.adj != same.adj).nnz == 0
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.y, same.y)
    np.testing.assert_array_equal(one.splits[0].train, same.splits[0].train)
    assert (one.adj != other.adj).nnz
    assert not np.array_equal(one.y, other.y)
    assert not np.array_equal(one.x, other.x)


def test_nodes_are_the_same_at_every_homophily():
    low, high, dense = (
        generate_graph(n_nodes=300, features=FEW, seed=2, **options)
        for options in (
            {"homophily": 0.1},
            {"homophily": 1.0},
            {"homophily": 0.7, "edges_per_node": 6},
        )
    )
    for graph in (high, dense):
        np.testing.assert_array_equal(low.y, graph.y)
        np.testing.assert_array_equal(low.x, graph.x)
        for part, nodes in low.splits[0].parts.items():
            np.testing.assert_array_equal(nodes, graph.splits[0].parts[part])
        assert (low.adj != graph.adj).nnz


def test_one_split_of_a_quarter_a_quarter_and_a_half():
    (split,) = generate_graph(n_nodes=2000, features=FEW).splits
    assert split.sizes == (500, 500, 1000)


def test_the_first_arrivals_hold_every_class_alike():
    y = np.random.default_rng(0).permutation(np.arange(60) % 4)
    order = synthetic._arrival_order(y, 3, np.random.default_rng(1))
    assert sorted(order) == list(range(60))
    assert np.bincount(y[order[:12]]).tolist() == [3] * 4


def test_arrivals_of_a_class_do_not_come_in_runs():
    # Of two nodes each of two classes, the second is of the class of the first in
    # one order of three; so it is among the four that follow.
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    rng = np.random.default_rng(0)
    orders = np.array([y[synthetic._arrival_order(y, 2, rng)] for _ in range(3000)])
    assert np.mean(orders[:, 0] == orders[:, 1]) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean(orders[:, 4] == orders[:, 5]) == pytest.approx(1 / 3, abs=0.03)


def test_names():
    assert generate_graph(n_nodes=50, homophily=0.25).name == "synthetic-h0.25"
    assert generate_graph(n_nodes=50, name="mine").name == "mine"


# Features.


def test_gaussian_features_lie_around_their_class_means():
    y = np.repeat([0, 1, 2], 4000)
    x, names = GaussianFeatures(n_features=50, separation=3).draw(
        y, np.random.default_rng(0)
    )
    assert names is None
    assert x.dtype == np.float32
    means = np.stack([x[y == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 3, atol=0.1)
    np.testing.assert_allclose((x - means[y]).std(axis=0), 1, atol=0.05)


def test_a_class_of_several_kinds_has_a_mean_for_each():
    y = np.repeat([0, 1], 5000)
    # So far apart that the nodes of a kind are those that are near to each other.
    source = GaussianFeatures(n_features=50, separation=100, kinds=3)
    x, _ = source.draw(y, np.random.default_rng(0))
    for c in (0, 1):
        left, sizes = x[y == c], []
        while len(left):
            near = np.linalg.norm(left - left[0], axis=1) < 50
            mean = left[near].mean(axis=0)
            assert np.linalg.norm(mean) == pytest.approx(100, abs=1)
            np.testing.assert_allclose((left[near] - mean).std(axis=0), 1, atol=0.1)
            sizes.append(int(near.sum()))
            left = left[~near]
        assert len(sizes) == 3
        assert min(sizes) > 1500


def test_one_kind_is_what_it_was_before_there_were_several():
    y = np.array([0, 1, 1, 2])
    rng = np.random.default_rng(5)
    means = rng.standard_normal((3, 4))
    means *= 2 / np.linalg.norm(means, axis=1, keepdims=True)
    expected = rng.standard_normal((4, 4), dtype=np.float32)
    expected += means.astype(np.float32)[y]
    x, _ = GaussianFeatures(4, 2.0).draw(y, np.random.default_rng(5))
    np.testing.assert_array_equal(x, expected)


def lender(sizes: list[int], *, sparse: bool) -> Graph:
    """Return a graph whose node v has v + 1 as its first feature."""
    y = np.append(np.repeat(np.arange(len(sizes)), sizes), -1)
    n = len(y)
    x = np.column_stack([np.arange(1, n + 1), np.zeros(n)])
    return Graph(
        x=sp.csr_array(x) if sparse else x,
        adj=sp.csr_array((n, n)),
        y=y,
        classes=np.array(list("abcdefgh")[: len(sizes)]),
        feature_names=("number", "nothing"),
        name="lender",
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_benchmark_rows_are_lent_once_to_the_class_of_their_rank(sparse):
    source = lender([40, 90, 33, 60], sparse=sparse)
    graph = generate_graph(
        n_nodes=101, n_classes=3, features=BenchmarkFeatures(source), seed=3
    )
    assert sp.issparse(graph.x) is sparse
    assert graph.feature_names == ("number", "nothing")
    dense = graph.x.toarray() if sparse else graph.x
    rows = dense[:, 0].astype(int) - 1
    assert len(set(rows)) == 101
    # Largest to largest: classes 0, 1, 2 take the rows of b, d, a.
    np.testing.assert_array_equal(source.y[rows], np.array([1, 3, 0])[graph.y])


def test_what_a_benchmark_cannot_lend():
    with pytest.raises(InputError, match=r"'lender' has 2 classes, but .* has 5"):
        generate_graph(
            n_nodes=20, features=BenchmarkFeatures(lender([20, 20], sparse=True))
        )
    message = "class 'a' of 'lender' has 9 nodes, but class 1 of .* needs 10"
    with pytest.raises(InputError, match=message):
        generate_graph(
            n_nodes=20,
            n_classes=2,
            features=BenchmarkFeatures(lender([9, 30], sparse=True)),
        )


# Mistakes.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 1}, "^n_classes .*at least 2, got 1"),
        ({"homophily": -0.1}, r"^homophily must be in \[0, 1\], got -0.1"),
        ({"homophily": float("nan")}, r"^homophily must be in \[0, 1\], got nan"),
        ({"edges_per_node": 0}, "^edges_per_node .*at least 1, got 0"),
        ({"start_nodes": 0}, "^start_nodes .*at least 1, got 0"),
        ({"n_nodes": 10.5}, "^n_nodes must be an integer, at least 1, got 10.5"),
        ({"n_nodes": 19, "start_nodes": 20}, "start_nodes = 20 .* got 19"),
        ({"n_nodes": 9, "start_nodes": 5}, "edges_per_node · n_classes = 10, got 9"),
        ({"seed": -1}, "^seed .*at least 0, got -1"),
        ({"features": "gaussian"}, "features .*FeatureSource.* got 'gaussian'"),
        ({"compatibility": [[1, 2]]}, r"the shape \(5, 5\), got shape \(1, 2\)"),
        ({"compatibility": np.eye(4)}, r"the shape \(5, 5\), got shape \(4, 4\)"),
        ({"compatibility": -np.eye(5)}, "finite numbers, at least 0, got -1.0"),
        ({"compatibility": np.full((5, 5), np.nan)}, "finite numbers.* got nan"),
        ({"compatibility": np.full((5, 5), np.inf)}, "finite numbers.* got inf"),
        ({"compatibility": np.diag([1, 1, 0, 1, 1])}, "positive sum .* row 2 is all"),
        ({"compatibility": [["a"]]}, "a matrix of numbers"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(InputError, match=message):
        generate_graph(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compatibility": [[1, 2]]}, r"must be square, got shape \(1, 2\)"),
        ({"compatibility": 1.0}, r"must be square, got shape \(\)"),
        ({"labels": [0, 2]}, "^labels .*from 0 to 1, got"),
        ({"labels": [0, -1]}, "^labels .*from 0 to 1, got"),
        ({"labels": [0.0, 1.0]}, "^labels .*integers"),
        ({"labels": []}, "^labels .*integers"),
        ({"edges_per_node": 1.5}, "^edges_per_node .*at least 1, got 1.5"),
        ({"start_nodes": 3}, "^start_nodes .*at most 2, got 3"),
        ({"seed": "x"}, "^seed .*got 'x'"),
    ],
)
def test_mistakes_with_edges_are_named(options, message):
    given = {
        "labels": [0, 1],
        "compatibility": [[1, 1], [1, 1]],
        "edges_per_node": 1,
        "start_nodes": 1,
    } | options
    with pytest.raises(InputError, match=message):
        generate_edges(given.pop("labels"), **given)


def test_gaussian_arguments_are_checked():
    with pytest.raises(InputError, match=r"^n_features .*at least 1, got 0"):
        GaussianFeatures(n_features=0)
    with pytest.raises(InputError, match=r"^separation .*\[0, inf\), got -1"):
        GaussianFeatures(separation=-1)
    with pytest.raises(InputError, match=r"^kinds .*at least 1, got 0"):
        GaussianFeatures(kinds=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"n_nodes": 10**12},
            "generate_graph: a graph of 1,000,000,000,000 nodes would take about "
            r"1,440,000\.0 GB of memory, and .* are free\.",
        ),
        (
            {"n_nodes": 10**9, "features": GaussianFeatures(65_536)},
            r"a graph of 1,000,000,000 nodes would take about 786,672\.0 GB",
        ),
        ({"n_classes": 10**7}, "a matrix of 10,000,000 classes would take about 2,400"),
    ],
)
def test_graphs_that_memory_cannot_hold_are_not_begun(
    given: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        generate_graph(**given)
