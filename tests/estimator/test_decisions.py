"""Decisions: by hand, and against trying everything."""

from itertools import product

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator import DecisionRule, choose_decision
from h2gcn.exceptions import InputError
from h2gcn.training import confusion_matrix, macro_f1
from support.cases import each
from support.graphs import adjacency
from support.refusals import refused

SHARES = np.array([[0.6, 0.4], [0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.95, 0.05]])
Y = np.array([1, 0, 1, 1, 0])


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a ring of 400 nodes, one in eight of the rare class."""
    rng = np.random.default_rng(1)
    n = 400
    y = (np.arange(n) % 8 == 0).astype(int)
    x = rng.normal(size=(n, 3)) + y[:, None]
    adj = adjacency(n, [(i, (i + 1) % n) for i in range(n)])
    return Graph(x=x, adj=adj, y=y, classes=np.array(["honest", "fraud"]))


@pytest.fixture(scope="module")
def clf(graph: Graph) -> NodeClassifier:
    """Return a fitted classifier."""
    return NodeClassifier("mlp", epochs=60, random_state=0).fit(graph)


def f1(y: np.ndarray, said: np.ndarray, index: int) -> float:
    hits = ((y == index) & (said == index)).sum()
    return 2 * hits / ((y == index).sum() + (said == index).sum())


# ------------------------------------------------------------------------ by hand


def test_f1_of_a_class_by_hand() -> None:
    rule = choose_decision("f1", SHARES, Y, index=1)
    # Between 0.3, the last of class 1, and 0.1, the first of the others.
    assert rule.threshold == pytest.approx(0.2)
    assert rule(SHARES).tolist() == Y.tolist()
    assert rule.held_out == 1.0
    assert rule.usual == pytest.approx(2 * 1 / (1 + 3))


def test_the_rest_is_the_best_of_the_others() -> None:
    shares = np.array([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3], [0.1, 0.4, 0.5]])
    rule = choose_decision("f1", shares, np.array([1, 2, 0]), index=0)
    assert rule.threshold == 0.0  # all of them: one in three is right, none else
    rule = DecisionRule("f1", np.eye(3), singled=0, threshold=0.6)
    assert rule(shares).tolist() == [1, 2, 2]


@each("seed", range(8))
def test_no_threshold_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=40).round(1)  # with ties
    y = rng.integers(3, size=40)
    rule = choose_decision("f1", shares, y, index=2)
    said = rule(shares)
    assert f1(y, said, 2) == pytest.approx(rule.held_out)
    tried = [
        f1(y, np.where(shares[:, 2] >= t, 2, 0), 2) for t in np.linspace(0, 1, 201)[:-1]
    ]
    assert rule.held_out == pytest.approx(max(tried))


def test_probabilities_that_are_all_the_same_are_one_side_of_a_threshold() -> None:
    for share in (0.0, 0.5):
        shares = np.tile([1 - share, share], (4, 1))
        rule = choose_decision("f1", shares, np.array([0, 1, 0, 0]), index=1)
        assert rule(shares).tolist() == [1, 1, 1, 1]
        assert rule.held_out == pytest.approx(2 / 5)


def test_top_by_hand() -> None:
    rule = choose_decision("top", SHARES, Y, index=1, k=2)
    assert rule(SHARES).tolist() == [1, 0, 0, 1, 0]
    assert not rule.by_rows
    assert rule(SHARES[:1]).tolist() == [1]
    same = np.full((4, 2), 0.5)
    assert rule(same).tolist() == [1, 1, 0, 0]
    assert choose_decision("costs", SHARES, Y, costs=np.eye(2)).by_rows


def test_costs_by_hand() -> None:
    rule = DecisionRule.from_costs([[0, 1], [4, 0]])
    # To say 1 costs p0, to say 0 costs 4 p1: from a fifth on, 1 is said.
    assert rule(SHARES).tolist() == [1, 0, 1, 1, 0]
    assert rule.held_out is None


def test_the_expected_cost_is_the_smallest() -> None:
    rng = np.random.default_rng(0)
    costs, shares = rng.random((4, 4)), rng.dirichlet(np.ones(4), size=50)
    said = DecisionRule.from_costs(costs)(shares)
    for p, c in zip(shares, said, strict=True):
        expected = [sum(p[t] * costs[t, s] for t in range(4)) for s in range(4)]
        assert expected[c] == pytest.approx(min(expected))


def test_macro_f1_by_hand() -> None:
    rule = choose_decision("macro_f1", SHARES, Y)
    assert rule(SHARES).tolist() == Y.tolist()
    assert rule.held_out == 1.0
    usual = macro_f1(confusion_matrix(Y, SHARES.argmax(axis=1), 2))
    assert rule.usual == pytest.approx(usual)


def test_where_nothing_is_gained_the_likeliest_class_stays() -> None:
    rule = choose_decision("macro_f1", SHARES, SHARES.argmax(axis=1))
    assert rule.gains.tolist() == np.eye(2).tolist()


@each("seed", range(6))
def test_macro_f1_is_near_the_best_of_all_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = np.array([0.8, 0.15, 0.05])
    y = np.r_[0, 1, 2, rng.choice(3, size=80, p=prior)]
    shares = prior * np.exp(1.5 * (np.eye(3)[y] + rng.normal(size=(83, 3))))
    shares /= shares.sum(axis=1, keepdims=True)
    rule = choose_decision("macro_f1", shares, y)
    assert macro_f1(confusion_matrix(y, rule(shares), 3)) == pytest.approx(
        rule.held_out
    )
    grid = np.exp(np.linspace(-4, 4, 25))
    tried = [
        macro_f1(confusion_matrix(y, (shares * [1, a, b]).argmax(axis=1), 3))
        for a, b in product(grid, grid)
    ]
    assert rule.held_out > max(tried) - 0.04
    assert rule.held_out > rule.usual


# ------------------------------------------------------------------ the classifier


def test_a_classifier_predicts_by_a_decision(clf: NodeClassifier, graph: Graph) -> None:
    shares, val = clf.predict_proba(graph), clf.split_.val
    for rule in (clf.decide("macro_f1"), clf.decide("f1", label="fraud")):
        assert rule.held_out >= rule.usual
        expected = clf.classes_[rule(shares)]
        assert clf.predict(graph, decision=rule).tolist() == expected.tolist()
    rule = clf.decide("f1", label="fraud")
    said = (clf.predict(graph, val, decision=rule) == "fraud").astype(int)
    assert f1(graph.y[val], said, 1) == pytest.approx(rule.held_out)
    top = clf.predict(graph, decision=clf.decide("top", label="fraud", k=7))
    assert set(np.flatnonzero(top == "fraud")) == set(np.argsort(-shares[:, 1])[:7])
    costs = clf.predict(graph, decision=clf.decide("costs", costs=[[0, 9], [0, 9]]))
    assert set(costs) == {"honest"}
    assert clf.predict(graph).tolist() == clf.predict(graph, decision=None).tolist()


def test_other_nodes_to_choose_by(clf: NodeClassifier, graph: Graph) -> None:
    nodes = clf.split_.test
    rule = clf.decide("f1", label="fraud", graph=graph, nodes=nodes)
    said = (clf.predict(graph, nodes, decision=rule) == "fraud").astype(int)
    assert f1(graph.y[nodes], said, 1) == pytest.approx(rule.held_out)


# ------------------------------------------------------------------------- mistakes


@each(
    ("arguments", "fields"),
    [
        ({"kind": "f2"}, {"param": "kind", "value": "f2"}),
        ({"kind": "top", "index": 1, "k": 0}, {"param": "k", "value": 0}),
        ({"kind": "costs", "costs": np.eye(3)}, {"param": "costs", "value": 3}),
        (
            {"kind": "costs", "costs": [[1, 2]]},
            {"param": "costs", "words": "shape (1, 2)"},
        ),
        (
            {"kind": "costs", "costs": [[1, 2], [3]]},
            {"param": "costs", "words": "square table of numbers"},
        ),
        (
            {"kind": "costs", "costs": [[1, np.nan], [0, 0]]},
            {"param": "costs", "words": "finite"},
        ),
    ],
    ids=str,
)
def test_mistakes(arguments: dict[str, object], fields: dict[str, object]) -> None:
    with refused(**fields):
        choose_decision(probabilities=SHARES, y=Y, **arguments)  # type: ignore[arg-type]


@each(
    ("arguments", "words"),
    [
        ({"kind": "f1"}, "a decision for f1 needs a class"),
        ({"kind": "top", "index": 1}, "a decision for top needs 'k'"),
        ({"kind": "costs"}, "a decision for costs needs 'costs'"),
        ({"kind": "macro_f1", "k": 3}, "for macro_f1 does not go with 'k'"),
        ({"kind": "f1", "index": 1, "costs": [[1]]}, "does not go with 'costs'"),
    ],
    ids=str,
)
def test_a_kind_takes_what_it_needs(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        choose_decision(probabilities=SHARES, y=Y, **arguments)  # type: ignore[arg-type]


def test_nothing_to_choose_by() -> None:
    with pytest.raises(InputError, match="no held-out node to choose for macro_f1 by"):
        choose_decision("macro_f1", np.zeros((0, 2)), np.zeros(0, dtype=int))
    with pytest.raises(InputError, match="no held-out node is of the class that F1"):
        choose_decision("f1", SHARES, np.zeros(5, dtype=int), index=1)
    with pytest.raises(InputError, match=r"for 2 classes, got .* shape \(5, 3\)"):
        DecisionRule.from_costs(np.eye(2))(np.zeros((5, 3)))


def test_mistakes_with_a_classifier(clf: NodeClassifier, graph: Graph) -> None:
    with pytest.raises(InputError, match=r"no class 'frod'\. Did you mean 'fraud'"):
        clf.decide("f1", label="frod")
    with pytest.raises(InputError, match="'graph' and 'nodes' go together"):
        clf.decide("macro_f1", graph=graph)
