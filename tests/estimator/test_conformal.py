"""Prediction sets: by hand, and that they cover what was asked for."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator import (
    aps_scores,
    coverage_range,
    coverage_words,
    draws,
    prediction_sets,
    quantile,
)
from h2gcn.estimator.outputs import fewest_nodes
from h2gcn.exceptions import H2GCNWarning, InputError
from support.cases import each


def cloud(n: int, seed: int = 0, *, name: str = "cloud") -> Graph:
    """Return nodes on a ring in three classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = rng.normal(size=(n, 2)) + 1.2 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    ends = np.arange(n)
    adj = sp.csr_array((np.ones(n), (ends, (ends + 1) % n)), shape=(n, n))
    return Graph(x=x, adj=adj + adj.T, y=y, name=name)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return the graph of the classifier."""
    return cloud(500)


@pytest.fixture(scope="module")
def clf(graph: Graph) -> NodeClassifier:
    """Return a fitted classifier."""
    return NodeClassifier("mlp", epochs=60, random_state=0).fit(graph)


# ---------------------------------------------------------------------- by hand


def test_scores_by_hand() -> None:
    shares = np.array([[0.5, 0.125, 0.375], [0.25, 0.25, 0.5]])
    found = aps_scores(shares, np.array([0.0, 1.0]))
    # What is likelier, and none or all of its own; of equal ones the first is likelier.
    assert found.tolist() == [[0.0, 0.875, 0.5], [0.75, 1.0, 0.5]]


def test_scores_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    shares, parts = rng.dirichlet(np.ones(5), size=40), rng.random(40)
    found = aps_scores(shares, parts)
    for p, u, row in zip(shares, parts, found, strict=True):
        expected = [p[p > p[c]].sum() + u * p[c] for c in range(5)]
        np.testing.assert_allclose(row, expected)


@each(
    ("m", "alpha", "rank"), [(19, 0.1, 18), (9, 0.1, 9), (10, 0.5, 6), (99, 0.01, 99)]
)
def test_the_quantile_counts_the_node_that_is_asked_about(
    m: int, alpha: float, rank: int
) -> None:
    scores = np.random.default_rng(0).permutation(np.arange(1.0, m + 1))
    assert quantile(scores, alpha) == rank


def test_of_too_few_nodes_it_is_infinite() -> None:
    assert quantile(np.arange(8.0), 0.1) == math.inf
    assert quantile(np.zeros(0), 0.5) == math.inf
    assert [fewest_nodes(alpha) for alpha in (0.1, 0.05, 0.5, 0.3)] == [9, 19, 1, 3]


def test_sets_by_hand() -> None:
    shares = np.array([[0.5, 0.3, 0.2], [0.9, 0.06, 0.04]])
    parts = np.array([0.5, 0.9])
    # Scores: 0.25, 0.65, 0.9 and 0.81, 0.954, 0.996.
    sets = prediction_sets(shares, parts, 0.7)
    assert sets.tolist() == [[True, True, False], [False, False, False]]
    filled = prediction_sets(shares, parts, 0.7, allow_empty=False)
    assert filled.tolist() == [[True, True, False], [True, False, False]]
    assert prediction_sets(shares, parts, math.inf).all()


def test_a_node_has_its_own_number() -> None:
    nodes = np.arange(100_000)
    found = draws(nodes, 3)
    assert found.min() >= 0
    assert found.max() < 1
    some = np.array([70, 5, 5])
    assert draws(some, 3).tolist() == found[some].tolist()
    assert (draws(nodes, 4) != found).mean() > 0.99
    # Uniform, and no node tells of the next, nor one seed of another.
    shares = np.bincount((10 * found).astype(int), minlength=10) / len(nodes)
    np.testing.assert_allclose(shares, 0.1, atol=0.005)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(found, draws(nodes, 4))[0, 1]) < 0.02


# --------------------------------------------------------------------- coverage


@each("alpha", [0.05, 0.1, 0.3])
@each("sharpness", [0.3, 1.0, 3.0])
def test_sets_cover_what_was_asked_for_whatever_the_model_is_worth(
    alpha: float, sharpness: float
) -> None:
    rng = np.random.default_rng(int(100 * alpha))
    m, n, times = 200, 500, 60
    covered = []
    for repeat in range(times):
        true = rng.dirichlet(np.full(4, 0.5), size=m + n)
        y = (rng.random((m + n, 1)) > true.cumsum(axis=1)[:, :3]).sum(axis=1)
        told = true**sharpness + 1e-9
        told /= told.sum(axis=1, keepdims=True)
        parts = draws(np.arange(m + n), repeat)
        own = aps_scores(told[:m], parts[:m])[np.arange(m), y[:m]]
        sets = prediction_sets(told[m:], parts[m:], quantile(own, alpha))
        covered.append(sets[np.arange(n), y[m:]].mean())
    rank = math.ceil(round((m + 1) * (1 - alpha), 9))
    share = rank / (m + 1)
    # Of one repeat: by its held-out nodes (Beta), and by its n nodes (binomial).
    variance = share * (1 - share) * (1 / (m + 2) + 1 / n)
    assert abs(np.mean(covered) - share) < 4 * math.sqrt(variance / times)
    low, high = coverage_range(m, alpha)
    slack = 2 * math.sqrt(share * (1 - share) / n)
    inside = [low - slack <= one <= high + slack for one in covered]
    assert np.mean(inside) > 0.9


def test_how_well_the_coverage_is_known() -> None:
    rng = np.random.default_rng(0)
    ranked = np.sort(rng.random((20_000, 59)), axis=1)[:, 53]  # ⌈60 · 0.9⌉ = 54th
    expected = np.quantile(ranked, [0.025, 0.975])
    np.testing.assert_allclose(coverage_range(59, 0.1), expected, atol=0.005)
    assert coverage_range(3, 0.1) == (1.0, 1.0)


def test_it_is_told_in_words(clf: NodeClassifier) -> None:
    assert coverage_words(1000, 0.05) == (
        "sets of 95 % by 1,000 held-out nodes: they cover 94 to 96 % of nodes like "
        "those"
    )
    assert coverage_words(5, 0.1) == (
        "5 held-out nodes are too few for sets of 90 %: every class is in every set; "
        "it takes at least 9"
    )
    assert coverage_words(1, 0.1).startswith("1 held-out node is too few")
    m = clf.split_.val.size
    assert clf.coverage_words(0.2) == coverage_words(m, 0.2)


# ------------------------------------------------------------------ the classifier


def test_sets_of_a_classifier(clf: NodeClassifier, graph: Graph) -> None:
    sets = clf.predict_set(graph, 0.1)
    assert sets.shape == (500, 3)
    assert sets.dtype == bool
    val = clf.split_.val
    shares, parts = clf.predict_proba(graph), draws(np.arange(500), clf.seed_)
    scores = aps_scores(shares, parts)
    threshold = quantile(scores[val, graph.y[val]], 0.1)
    # Those at the threshold itself are as the last bits are.
    far = np.abs(scores - threshold) > 1e-5
    assert (sets == (scores <= threshold))[far].all()
    some = [40, 3, 17]
    assert clf.predict_set(graph, 0.1, some).tolist() == sets[some].tolist()
    larger = clf.predict_set(graph, 0.02)
    assert (larger >= sets).all()
    assert larger.sum() > sets.sum()
    assert clf.predict_set(graph, 0.6, allow_empty=False).any(axis=1).all()
    assert not clf.predict_set(graph, 0.6).any(axis=1).all()


def test_sets_cover_nodes_that_training_did_not_see() -> None:
    covered, asked = 0, 0
    for seed in range(6):
        graph = cloud(600, seed)
        clf = NodeClassifier("mlp", epochs=40, random_state=seed).fit(graph)
        test = clf.split_.test
        sets = clf.predict_set(graph, 0.1, test)
        covered += int(sets[np.arange(len(test)), graph.y[test]].sum())
        asked += len(test)
    # 720 nodes, by 6 times 120 held-out ones: about ±1.6 points, and twice that.
    assert abs(covered / asked - 0.9) < 0.045


def test_another_graph_must_bring_labels(clf: NodeClassifier) -> None:
    other = cloud(400, 5, name="other")
    with pytest.raises(
        InputError, match=r"other: not the graph of fit, .* 'calibration'"
    ):
        clf.predict_set(other)
    held_out, rest = np.arange(200), np.arange(200, 400)
    sets = clf.predict_set(other, 0.1, rest, calibration=held_out)
    covered = sets[np.arange(200), other.y[rest]].mean()
    assert abs(covered - 0.9) < 4 * math.sqrt(0.09 * 2 / 200)


def test_too_few_nodes_to_set_sets_by_are_told(
    clf: NodeClassifier, graph: Graph
) -> None:
    with pytest.warns(H2GCNWarning, match="5 held-out nodes are too few"):
        assert clf.predict_set(graph, 0.1, calibration=np.arange(5)).all()


@each("alpha", [0, 1, -0.1, "a", None])
def test_a_share_that_is_none(clf: NodeClassifier, graph: Graph, alpha: object) -> None:
    with pytest.raises(InputError, match=r"^alpha must be in \(0, 1\)"):
        clf.predict_set(graph, alpha)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^alpha must be in \(0, 1\)"):
        clf.coverage_words(alpha)  # type: ignore[arg-type]


def test_mistakes_with_calibration_nodes(clf: NodeClassifier, graph: Graph) -> None:
    with pytest.raises(InputError, match="held-out nodes must be named once each"):
        clf.predict_set(graph, calibration=[1, 1])
    blank = Graph(x=graph.x, adj=graph.adj, y=np.where(np.arange(500) < 9, -1, graph.y))
    with pytest.raises(InputError, match="node 3 has no label"):
        clf.predict_set(blank, calibration=[3])
