"""Score cards: exact small cases, which nodes are scored, and what is said of them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.estimator import Evaluation, evaluate, render_scores
from h2gcn.estimator.evaluation import Estimate, GroupScores, _time_groups
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.training import wilson
from support.cases import each
from support.graphs import adjacency
from support.refusals import refused

N = 40
NAMES = np.array([f"n{i}" for i in range(N)])


def ring(**more: Any) -> Graph:
    """Return a ring of alternating classes, honest and fraud, three to one."""
    rng = np.random.default_rng(0)
    y = (np.arange(N) % 4 == 3).astype(int)
    x = rng.normal(size=(N, 3)) + 2 * y[:, None]
    edges = [(i, (i + 1) % N) for i in range(N)]
    facts = {"classes": ["honest", "fraud"], "node_ids": NAMES, "name": "ring"}
    return Graph(x=x, adj=adjacency(N, edges), y=y, **{**facts, **more})


SPLIT = Split(np.arange(16), np.arange(16, 28), np.arange(28, N))


@pytest.fixture(scope="module")
def clf() -> NodeClassifier:
    return NodeClassifier("mlp", epochs=20, random_state=0).fit(ring(), SPLIT)


# ------------------------------------------------------------------ numbers


def test_every_measure_of_a_small_case(
    clf: NodeClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight nodes, of which six are right; 2 of 3 of the rare class are found."""
    nodes = np.array([0, 1, 2, 4, 5, 3, 7, 11])  # five honest, three fraud
    logits = np.zeros((8, 2), dtype=np.float32)
    logits[:, 1] = [-4, -3, -2, -1, 1, -0.5, 2, 3]
    monkeypatch.setattr(
        clf, "predict_blocks", lambda *_: iter([(nodes, logits)]), raising=True
    )
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    monkeypatch.setattr(clf, "probabilities_of", lambda _: shares)
    card = clf.evaluate(ring(), nodes, resamples=200)
    assert (card.rule, card.nodes, card.resamples) == ("named", 8, 200)
    assert card.scores.confusion.tolist() == [[4, 1], [1, 2]]
    found = card.measures
    assert found["accuracy"].value == 6 / 8
    assert (found["accuracy"].low, found["accuracy"].high) == wilson(6, 8)
    assert found["accuracy"].floor == 5 / 8
    # F1 of honest is 8 / 10, of fraud 4 / 6; always honest has 10 / 13 and 0.
    assert found["macro_f1"].value == pytest.approx((8 / 10 + 4 / 6) / 2)
    assert found["macro_f1"].floor == pytest.approx(10 / 13 / 2)
    # Of 15 pairs one is in the wrong order.
    assert found["roc_auc"].value == pytest.approx(14 / 15)
    assert found["roc_auc"].floor == 0.5
    # The three are at places 1, 2 and 4.
    assert found["pr_auc"].value == pytest.approx((1 + 1 + 3 / 4) / 3)
    assert found["pr_auc"].floor == 3 / 8
    z = logits[:, 1].astype(float)
    p = 1 / (1 + np.exp(-z))
    true = np.array([0] * 5 + [1] * 3)
    given = np.where(true, p, 1 - p)
    assert found["log_loss"].value == pytest.approx(-np.log(given).mean())
    entropy = -(3 / 8 * math.log(3 / 8) + 5 / 8 * math.log(5 / 8))
    assert found["log_loss"].floor == pytest.approx(entropy)
    assert found["brier"].value == pytest.approx(((p - true) ** 2).mean())
    assert found["brier"].floor == pytest.approx(3 / 8 * 5 / 8)
    told = card.scores.probabilities
    assert found["calibration_error"].value == told.calibration_error
    assert found["calibration_error"].floor == told.chance_error
    honest, fraud = card.by_class
    assert (honest.name, honest.nodes, fraud.name, fraud.nodes) == (
        *("honest", 5),
        *("fraud", 3),
    )
    assert fraud.precision == Estimate(2 / 3, *wilson(2, 3))  # type: ignore[misc]
    assert fraud.recall == Estimate(2 / 3, *wilson(2, 3))  # type: ignore[misc]
    assert fraud.f1.value == pytest.approx(4 / 6)
    assert (card.guess, card.guess_why) == (
        "honest",
        "the largest class of what training saw",
    )
    for one in found.values():
        assert one.low <= one.value <= one.high  # type: ignore[operator]


def test_a_value_is_inside_of_its_interval() -> None:
    drawn = np.array([0.2, 0.3, 0.4])
    assert Estimate.drawn(0.1, drawn, 0.05) == Estimate(0.1, 0.1, 0.395, 0.05)
    assert Estimate.drawn(0.5, drawn).high == 0.5
    nothing = Estimate(None, floor=0.5)
    assert Estimate.drawn(None, drawn, 0.5) == nothing
    assert Estimate.drawn(0.5, np.full(2, np.nan)) == Estimate(0.5)
    assert Estimate.share(0, 0, 0.5) == Estimate(None)


def test_scores_are_those_of_evaluate(clf: NodeClassifier) -> None:
    graph = ring()
    card = clf.evaluate(graph)
    plain = evaluate(clf, graph, SPLIT.test)
    assert card.scores.accuracy == plain.accuracy == clf.score(graph)
    assert card.scores.probabilities.log_loss == plain.probabilities.log_loss
    assert {name: one.value for name, one in card.measures.items()} == plain.measures


def test_by_degree_counts_what_predict_says() -> None:
    """Not what is likeliest, which class weights may make another."""
    graph = ring()
    clf = NodeClassifier("mlp", epochs=20, class_weight="balanced", random_state=0)
    clf.fit(graph, SPLIT)
    card = clf.evaluate(graph)
    groups = {one.name: one for one in card.by_degree}
    assert {name: one.nodes for name, one in groups.items()} == {
        **{"0–1": 0, "2–4": 12},
        **{"5–15": 0, "16+": 0},
    }
    assert groups["2–4"].accuracy.value == card.scores.accuracy
    assert groups["16+"].accuracy == Estimate(None)
    assert groups["16+"].calibration_error is None


def test_the_floor_of_the_largest_class_is_that_of_training() -> None:
    """Not that of the nodes scored, which nobody knew before."""
    graph = ring()
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph, SPLIT)
    rare = np.flatnonzero(graph.y == 1)
    card = clf.evaluate(graph, [*rare[-3:], 0])
    assert (card.guess, card.measures["accuracy"].floor) == ("honest", 0.25)
    other = replace(graph, x=graph.x + 1, node_ids=[f"m{i}" for i in range(N)])
    card = clf.evaluate(other, [*rare[-3:], 0])
    assert card.guess_why == "the largest class of the validation nodes"
    assert card.guess == "honest"
    clf.calibration_ = None
    card = clf.evaluate(other, [*rare[-3:], 0])
    assert (card.guess, card.guess_why) == ("fraud", "the largest class of these nodes")
    assert card.scores.majority == 0.75


def test_a_judgement_goes_by_the_same_floor() -> None:
    y, z = np.array([0, 1, 1, 1]), np.eye(2, dtype=np.float32)[[0, 0, 1, 1]]
    found = Evaluation.of(y, z, z, np.zeros(4, dtype=int), 0)
    assert (found.accuracy, found.majority) == (0.75, 0.25)
    assert Evaluation.of(y, z, z, np.zeros(4, dtype=int)).majority == 0.75


# ------------------------------------------------------------------ which nodes


def test_what_training_saw_gets_no_credit() -> None:
    """A model that only knows its own nodes by heart looks no better than it is."""
    graph, known = ring(), np.concatenate([SPLIT.train, SPLIT.val])
    x = np.zeros((N, 2), dtype=np.float32)
    x[known, graph.y[known]] = 10.0
    told = replace(graph, x=x, feature_names=None)
    clf = NodeClassifier("mlp", epochs=60, scaling="none", random_state=0)
    clf.fit(told, SPLIT)
    card = clf.evaluate(told)
    assert (card.rule, card.nodes) == ("test", 12)
    assert card.scores.accuracy <= 0.75
    assert clf.evaluate(told, known).scores.accuracy == 1.0
    whole = clf.evaluate(told, all_nodes=True)
    assert (whole.rule, whole.nodes) == ("all", N)
    assert whole.scores.accuracy > card.scores.accuracy


def test_training_nodes_are_never_scored_by_default(clf: NodeClassifier) -> None:
    graph = ring()
    order = np.random.default_rng(1).permutation(N)
    mixed = Graph(
        x=graph.x[order],
        adj=graph.adj[order][:, order],
        y=graph.y[order],
        classes=graph.classes,
        node_ids=NAMES[order],
        name="mixed",
    )
    told = "28 nodes of mixed have ids that training saw, and are not scored, unless "
    with pytest.warns(H2GCNWarning, match=f"{told}all_nodes=True"):
        card = clf.evaluate(mixed)
    assert (card.rule, card.nodes) == ("unseen", 12)
    assert card.why == "labelled nodes whose ids training did not see"
    assert card.scores.confusion.sum() == 12
    with pytest.warns(H2GCNWarning, match=f"{told}'nodes' names them"):
        clf.score(mixed)
    new = replace(mixed, node_ids=[f"m{i}" for i in range(N)])
    card = clf.evaluate(new)
    assert (card.nodes, card.why) == (
        N,
        "all labelled nodes of another graph than that of fit",
    )


def test_without_test_nodes() -> None:
    graph = ring()
    few = Split(SPLIT.train, SPLIT.val, [])
    card = (
        NodeClassifier("mlp", epochs=2, random_state=0).fit(graph, few).evaluate(graph)
    )
    assert (card.rule, card.nodes) == ("unseen", 12)
    assert card.why == "labelled nodes that were neither training nor validation nodes"
    everyone = Split(np.arange(20), np.arange(20, N), [])
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph, everyone)
    told = "ring: training saw all labelled nodes; all_nodes=True scores them all the"
    with pytest.raises(InputError, match=told):
        clf.evaluate(graph)
    assert clf.evaluate(graph, all_nodes=True).nodes == N


def test_what_cannot_be_scored(clf: NodeClassifier) -> None:
    graph = ring()
    blank = replace(graph, y=np.full(N, -1), classes=None)
    with pytest.raises(InputError, match="ring: there is no labelled node to score by"):
        clf.evaluate(blank)
    with pytest.raises(InputError, match="ring: there is no labelled node to score by"):
        clf.evaluate(blank, all_nodes=True)
    some = replace(graph, y=np.where(np.arange(N) == 30, -1, graph.y))
    with pytest.raises(InputError, match="node n30 has no label to score by"):
        clf.evaluate(some, [29, 30])
    with pytest.raises(InputError, match=r"^nodes must name each node once"):
        clf.evaluate(graph, [1, 1])
    with pytest.raises(InputError, match="'nodes' and 'all_nodes' cannot both"):
        clf.evaluate(graph, [1], all_nodes=True)


@each(
    ("more", "fields"),
    [
        ({"all_nodes": "no"}, {"value": "no"}),
        ({"alpha": 1.0}, {"value": 1.0}),
        ({"resamples": 0}, {"value": 0}),
        ({"seed": -1}, {"value": -1}),
        ({"times": [1, 2]}, {"words": "40 nodes of ring, got shape (2,)"}),
        ({"times": ["x"] * N}, {"words": "<U1"}),
    ],
)
def test_what_is_refused(
    clf: NodeClassifier, more: dict[str, Any], fields: dict[str, Any]
) -> None:
    (param,) = more
    with refused(param=param, **fields):
        clf.evaluate(ring(), **more)


def test_labels_that_the_model_never_saw(clf: NodeClassifier) -> None:
    graph = ring()
    y = graph.y.copy()
    y[[30, 31, 32]] = 2
    new = replace(graph, y=y, classes=["honest", "fraud", "saint"])
    told = r"3 of 12 nodes have labels that the model never saw \('saint'\)"
    with pytest.warns(H2GCNWarning, match=told):
        card = clf.evaluate(new)
    assert card.nodes == 9
    assert card.never_seen == {"saint": 3}
    assert card.to_json()["never_seen"] == {"saint": 3}
    assert "3 nodes have the label saint" in render_scores(card)
    others = replace(graph, classes=["good", "bad"])
    told = "never saw any of the labels 'good', 'bad'; it knows 'honest', 'fraud'"
    with pytest.raises(InputError, match=told):
        clf.evaluate(others)


def test_one_class_has_no_curve(clf: NodeClassifier) -> None:
    card = clf.evaluate(ring(), [28, 29, 30])
    assert card.measures["roc_auc"] == Estimate(None, floor=0.5)
    assert card.measures["pr_auc"].value is None
    assert card.by_class[1].recall == Estimate(None)
    json.dumps(card.to_json(), allow_nan=False)
    assert "–" in render_scores(card)


# ------------------------------------------------------------------ time


def days(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[D]")


@each(
    ("times", "by", "names", "groups"),
    [
        (
            days("2024-03-31", "2024-01-02", "2024-04-01", "2024-01-30"),
            *("month", ["2024-01", "2024-03", "2024-04"], [1, 0, 2, 0]),
        ),
        (
            days("2023-01-01", "2024-12-31", "2023-03-31", "1969-12-31")[:3],
            *("quarter", ["2023 Q1", "2024 Q4"], [0, 1, 0]),
        ),
        (
            days("1969-12-31", "1979-06-01", "1970-01-01"),
            *("year", ["1969", "1970", "1979"], [0, 2, 1]),
        ),
        (
            days("1900-01-01", "2000-01-01", "2001-01-01", "2002-01-01"),
            "quantile",
            ["1900-01-01", "2000-01-01", "2001-01-01", "2002-01-01"],
            [0, 1, 2, 3],
        ),
        (
            np.array(["2024-01-01T10", "2024-01-01T11", "NaT"], dtype="datetime64[h]"),
            "quantile",
            ["2024-01-01 10:00:00", "2024-01-01 11:00:00", "(missing)"],
            [0, 1, 2],
        ),
        (np.array([2020, 2019, 2020]), "value", ["2019", "2020"], [1, 0, 1]),
        (np.array([0.5, np.nan, 2.0]), "value", ["0.5", "2", "(missing)"], [0, 2, 1]),
        (
            np.arange(20),
            *("quantile", ["0 to 4", "5 to 9", "10 to 14", "15 to 19"]),
            np.repeat(np.arange(4), 5).tolist(),
        ),
        # Nearly all are equal, and stay together.
        (
            np.array([0.0] * 30 + [*range(1, 13)]),
            *("quantile", ["0", "1 to 2", "3 to 12"], [0] * 30 + [1] * 2 + [2] * 10),
        ),
        (np.full(3, np.nan), "value", ["(missing)"], [0, 0, 0]),
    ],
)
def test_groups_by_time(
    times: np.ndarray, by: str, names: list[str], groups: list[int]
) -> None:
    found = _time_groups(times)
    assert (found[0], found[1]) == (by, names)
    assert found[2].tolist() == groups


def test_scores_by_time(clf: NodeClassifier) -> None:
    graph = ring()
    times = np.where(np.arange(N) < 34, 2023, 2024)
    card = clf.evaluate(graph, times=times)
    assert card.by_time is not None
    early, late = card.by_time.groups
    assert (early.name, early.nodes, late.name, late.nodes) == ("2023", 6, "2024", 6)
    logits = clf.predict_logits(graph, np.arange(28, 34))
    right = int((logits.argmax(axis=1) == graph.y[28:34]).sum())
    assert early.accuracy == Estimate.share(right, 6)
    shares = clf.predict_proba(graph, np.arange(28, 34))
    again = GroupScores.of("2023", graph.y[28:34], logits.argmax(axis=1), shares)
    assert again == early
    assert clf.evaluate(graph).by_time is None


# ------------------------------------------------------------------ sets


def test_coverage_is_that_of_predict_set(clf: NodeClassifier) -> None:
    graph = ring()
    card = clf.evaluate(graph, alpha=0.3)
    sets = clf.predict_set(graph, 0.3, SPLIT.test)
    covered = int(sets[np.arange(12), graph.y[SPLIT.test]].sum())
    assert card.sets.coverage == Estimate.share(covered, 12, 0.7)
    assert card.sets.mean_size == sets.sum(axis=1).mean()
    assert card.sets.nodes == 12
    # Those that training saw do not count, whoever is scored.
    assert clf.evaluate(graph, alpha=0.3, all_nodes=True).sets == card.sets


def test_where_sets_are_not_valid(clf: NodeClassifier) -> None:
    graph = ring()
    other = replace(graph, x=graph.x + 1, node_ids=[f"m{i}" for i in range(N)])
    found = clf.evaluate(other).sets
    assert (found.coverage, found.nodes) == (None, 0)
    assert (
        found.words
        == "this is not the graph of fit, where alone sets are known to cover"
    )
    found = clf.evaluate(graph, SPLIT.train).sets
    assert (found.coverage, found.words) == (None, "training saw all of these nodes")
    loose = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph, SPLIT)
    loose.calibration_ = None
    found = loose.evaluate(graph).sets
    assert found.words.startswith("the model does not have its validation nodes")
    # Twelve validation nodes cannot tell what 99 % is.
    found = clf.evaluate(graph, alpha=0.01).sets
    assert "12 held-out nodes are too few for sets of 99 %" in found.words
    assert found.coverage is not None
    assert found.coverage.value == 1.0


# ------------------------------------------------------------------ as JSON, saved


KEYS = {
    *("name", "dataset", "graph", "nodes", "rule", "why", "measures", "validation"),
    *("always_guessing", "intervals", "by_class", "by_degree", "by_time", "confusion"),
    *("probabilities", "sets", "never_seen", "no_better_than_majority", "remarks"),
    "version",
}


def test_as_json(clf: NodeClassifier) -> None:
    card = clf.evaluate(ring(), times=np.arange(N))
    told = json.loads(json.dumps(card.to_json(), allow_nan=False))
    assert set(told) == KEYS
    assert list(told["measures"]) == [
        *("accuracy", "macro_f1", "roc_auc", "pr_auc"),
        *("log_loss", "brier", "calibration_error"),
    ]
    for one in (*told["measures"].values(), told["by_class"][0]["f1"]):
        assert set(one) == {"value", "low", "high", "floor"}
    assert told["confusion"]["classes"] == ["honest", "fraud"]
    assert np.sum(told["confusion"]["counts"]) == 12
    assert told["by_time"]["by"] == "value"
    assert told["validation"] == {"metric": "accuracy", "score": clf.val_score_}
    assert repr(card).startswith("ScoreCard('mlp' on 'ring': accuracy ")


def test_three_classes_have_no_roc_curve() -> None:
    graph = replace(ring(), y=np.arange(N) % 3, classes=["a", "b", "c"])
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph)
    card = clf.evaluate(graph)
    assert "roc_auc" not in card.measures
    assert card.measures["pr_auc"].floor == pytest.approx(1 / 3)


@pytest.mark.filterwarnings("ignore:.*:h2gcn.exceptions.H2GCNWarning")
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("h2gcn-1", {"epochs": 3}),
        ("label-propagation", {}),
        ("boosted-trees", {}),
        ("auto", {"time_limit": 2}),
    ],
)
def test_a_saved_model_is_worth_the_same(
    tmp_path: Path, model: str, more: dict[str, Any]
) -> None:
    graph = ring()
    clf = NodeClassifier(model, random_state=0, **more).fit(graph, SPLIT)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.evaluate(graph).to_json() == clf.evaluate(graph).to_json()


def test_a_model_that_does_not_know_what_it_saw() -> None:
    loaded = NodeClassifier("mlp", epochs=2, random_state=0).fit(ring(), SPLIT)
    loaded.seen_ = None
    told = "saved without a word of which nodes it was trained on"
    with pytest.warns(H2GCNWarning, match=told):
        card = loaded.evaluate(ring())
    assert (card.rule, card.nodes) == ("unknown", N)
    assert card.sets.coverage is None


# ------------------------------------------------------------------ the page


def test_a_page_needs_nothing_else_and_escapes_names() -> None:
    graph = replace(ring(), name="<b>ring</b>")
    named = NodeClassifier("mlp", epochs=2, random_state=0)
    odd = replace(graph, classes=["<i>honest</i>", "fraud"])
    card = named.fit(odd, SPLIT).evaluate(odd, times=np.arange(N) // 20)
    page = render_scores(card)
    assert "<b>ring" not in page
    assert "&lt;b&gt;ring&lt;/b&gt;" in page
    assert "<i>" not in page
    assert "<script" not in page
    assert "src=" not in page
    assert 'href="' not in page
    for words in (
        *("12 nodes scored: the test nodes of the split", "By class", "By time"),
        *("By number of neighbours", "Confusion matrix", "prefers-color-scheme"),
        *("percentiles of 1,000 draws", "calibration error", "Sets of 90 %"),
    ):
        assert words in page, words
    assert page.count('class="whisker"') == 4 + 1 + 1  # areas; 2–4 neighbours; 2nd half
    assert page.count('class="reliability"') == 1
