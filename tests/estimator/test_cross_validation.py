"""Folds are disjoint, cover all labels, and are stratified; groups stay whole."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import h2gcn
from h2gcn import Graph, NodeClassifier, cross_validate
from h2gcn.estimator import CrossValidation, FoldScores, evaluate
from h2gcn.estimator.cross_validation import _splits
from h2gcn.exceptions import InputError
from h2gcn.training import mean_interval
from support.cases import each
from support.graphs import adjacency
from support.refusals import refused


def path_graph(y: list[int] | np.ndarray) -> Graph:
    """Return a path whose nodes have these classes."""
    n, y = len(y), np.asarray(y, dtype=np.int64)
    x = np.random.default_rng(0).normal(size=(n, 2)) + y[:, None]
    edges = [(i, i + 1) for i in range(n - 1)]
    return Graph(x=x, adj=adjacency(n, edges), y=y, name="path")


QUICK = NodeClassifier("mlp", epochs=2)


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(5, 17), min_size=2, max_size=4),
    unlabelled=st.integers(0, 5),
    folds=st.integers(2, 5),
    seed=st.integers(0, 1000),
)
def test_folds_are_disjoint_cover_all_and_are_stratified(
    counts: list[int], unlabelled: int, folds: int, seed: int
) -> None:
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts), [-1] * unlabelled])
    graph = path_graph(np.random.default_rng(seed).permutation(y))
    tests = []
    for split in _splits(graph, folds, 1, seed, None):
        whole = np.sort(np.concatenate([split.train, split.val, split.test]))
        assert whole.tolist() == graph.labelled.tolist()
        assert min(split.sizes) > 0
        tests.append(split.test)
        of_class = np.bincount(graph.y[split.test], minlength=len(counts))
        for count, found in zip(counts, of_class, strict=True):
            assert count // folds <= found <= -(-count // folds)
        assert set(graph.y[split.train]) == set(range(len(counts)))
    assert np.sort(np.concatenate(tests)).tolist() == graph.labelled.tolist()


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=6, max_size=15),
    folds=st.integers(3, 4),
    seed=st.integers(0, 1000),
)
def test_groups_are_never_torn_apart(sizes: list[int], folds: int, seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    graph = path_graph(
        np.random.default_rng(seed).permutation(np.arange(len(groups)) % 2)
    )
    tests = []
    for split in _splits(graph, folds, 1, seed, groups):
        parts = [set(groups[part]) for part in split.parts.values()]
        assert len(set.union(*parts)) == sum(map(len, parts)) == len(sizes)
        assert sum(split.sizes) == graph.n_nodes
        assert min(split.sizes) > 0
        tests.append(split.test)
    assert np.sort(np.concatenate(tests)).tolist() == list(range(graph.n_nodes))


def test_groups_of_the_graph_are_kept_whole() -> None:
    numbers = np.r_[np.repeat(np.arange(6), 5), -1, -1]
    graph = replace(path_graph(np.arange(32) % 2), groups=numbers)
    told = []
    cross_validate(graph, QUICK, folds=3, on_fold=lambda fold: told.append(fold.sizes))
    asked = []
    names = np.r_[numbers[:-2], 8, 9]
    cross_validate(
        graph,
        QUICK,
        folds=3,
        groups=names,
        on_fold=lambda fold: asked.append(fold.sizes),
    )
    assert told == asked
    assert {sizes[2] % 5 for sizes in told} <= {0, 1, 2}


def test_groups_are_dealt_so_that_classes_are_alike() -> None:
    """Eight groups of five, four of them of the second class, to four folds."""
    groups = np.repeat(np.arange(8), 5)
    graph = path_graph((groups >= 4).astype(int))
    for split in _splits(graph, 4, 1, 0, groups):
        assert np.bincount(graph.y[split.test]).tolist() == [5, 5]
        assert split.sizes == (20, 10, 10)


def test_a_group_that_is_nearly_all() -> None:
    graph = path_graph(np.arange(20) % 2)
    groups = ["all"] * 15 + list("abcde")
    told = "path: one of the groups is so large that a fold .* more than folds=2"
    with pytest.raises(InputError, match=told):
        cross_validate(graph, QUICK, folds=2, groups=groups)
    assert len(cross_validate(graph, QUICK, folds=3, groups=groups).folds) == 3


def test_each_fold_is_scored_by_who_did_not_see_it() -> None:
    graph = path_graph(np.arange(40) % 2)
    done: list[FoldScores] = []
    found = cross_validate(graph, QUICK, folds=4, seed=3, on_fold=done.append)
    assert found.folds == tuple(done)
    assert [(one.repeat, one.fold) for one in done] == [(0, i) for i in range(4)]
    said = np.empty(40, dtype=found.predictions.dtype)
    for number, split in enumerate(_splits(graph, 4, 1, 3, None)):
        one = NodeClassifier("mlp", epochs=2, random_state=3 + number)
        one.fit(graph, split)
        assert done[number].sizes == split.sizes == (22, 8, 10)
        assert done[number].measures == evaluate(one, graph, split.test).measures
        said[split.test] = one.predict(graph, split.test)
        np.testing.assert_allclose(
            found.probabilities[split.test],
            one.predict_proba(graph, split.test),
            atol=1e-6,
        )
    assert found.predictions.tolist() == said.tolist()
    assert found.nodes.tolist() == list(range(40))
    assert found.overlap == pytest.approx(10 / 22)


def test_a_seed_that_was_given_is_kept_and_the_estimator_left_alone() -> None:
    graph = path_graph(np.arange(30) % 2)
    own = NodeClassifier("mlp", epochs=2, random_state=5)
    once, again = (cross_validate(graph, own, folds=2) for _ in range(2))
    assert once.predictions.tolist() == again.predictions.tolist()
    assert not hasattr(own, "classes_")
    assert own.random_state == 5


def scores(values: list[float | None], repeats: int = 1) -> CrossValidation:
    """Return the result of folds with these accuracies."""
    count = len(values) // repeats
    folds = tuple(
        FoldScores(*divmod(i, count), (6, 2, 2), {"accuracy": value}, 0.1)
        for i, value in enumerate(values)
    )
    nodes = np.arange(10)
    labels = np.array(["a", "b"])
    shares = np.full((10, 2), 0.5, dtype=np.float32)
    said = labels[nodes % 2]
    return CrossValidation("mlp", "toy", labels, folds, nodes, said, shares, 2 / 6)


def test_mean_deviation_and_interval() -> None:
    found = scores([0.8, 0.7, 0.9])
    low, high = mean_interval([0.8, 0.7, 0.9], 2 / 6)
    # t of two degrees of freedom, the deviation 0.1, and 1/3 + 1/3.
    assert high == pytest.approx(0.8 + 4.302653 * 0.1 * math.sqrt(2 / 3), abs=1e-6)
    low, high = max(low, 0.0), min(high, 1.0)
    expected = {"mean": 0.8, "std": 0.1, "n": 3, "low": low, "high": high}
    assert found.summary == {"accuracy": pytest.approx(expected)}
    assert repr(found) == (
        "mlp on toy: 3 folds of 10 labelled nodes\n"
        f"  accuracy          0.800 ± 0.100  (95 %: {low:.3f} to {high:.3f})"
    )
    assert repr(scores([0.8, 0.7] * 2, 2)).startswith(
        "mlp on toy: 2 folds of 10 labelled nodes, 2 times\n"
    )


def test_folds_without_a_value_are_left_out() -> None:
    found = scores([0.8, None]).summary["accuracy"]
    assert found == {"mean": 0.8, "std": None, "n": 1, "low": None, "high": None}
    assert scores([None, None]).summary["accuracy"]["mean"] is None
    assert "no value" in repr(scores([None, None]))


def test_repeats_deal_anew_and_vote() -> None:
    graph = path_graph(np.arange(30) % 2)
    found = cross_validate(graph, QUICK, folds=2, repeats=3)
    assert [one.repeat for one in found.folds] == [0, 0, 1, 1, 2, 2]
    one, two = (
        [split.test.tolist() for split in _splits(graph, 2, 3, 0, None)][2 * i]
        for i in (0, 1)
    )
    assert one != two
    assert found.probabilities.sum(axis=1) == pytest.approx(np.ones(30), abs=1e-5)
    votes = np.zeros((30, 2))
    for number, split in enumerate(_splits(graph, 2, 3, 0, None)):
        clf = NodeClassifier("mlp", epochs=2, random_state=number).fit(graph, split)
        votes[split.test, clf.predict(graph, split.test)] += 1
    assert found.predictions.tolist() == votes.argmax(axis=1).tolist()


def test_as_json() -> None:
    graph = replace(path_graph(np.arange(30) % 2), classes=["no", "yes"])
    told = cross_validate(graph, QUICK, folds=2).to_json()
    told = json.loads(json.dumps(told, allow_nan=False))
    assert set(told) == {
        *("dataset", "model", "classes", "measures", "overlap", "folds", "nodes"),
        *("predictions", "version"),
    }
    assert set(told["predictions"]) <= {"no", "yes"}
    assert list(told["measures"]) == [
        *("accuracy", "macro_f1", "roc_auc", "pr_auc"),
        *("log_loss", "brier", "calibration_error"),
    ]
    assert told["folds"][1]["fold"] == 1


def test_what_would_see_all_labels_is_scored_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refit takes the test nodes to train on."""
    seen: list[bool] = []
    fit = NodeClassifier.fit

    def spy(self: NodeClassifier, *arguments: object, **more: object) -> NodeClassifier:
        seen.append(self.refit)
        self.set_params(model="mlp", epochs=1)
        return fit(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeClassifier, "fit", spy)
    graph = path_graph(np.arange(30) % 2)
    found = cross_validate(graph, NodeClassifier("auto", refit=True), folds=2)
    assert seen == [False, False]
    assert found.model == "auto"


def test_ctrl_c_leaves_no_half_result(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = NodeClassifier.fit

    def cut(self: NodeClassifier, *arguments: object) -> NodeClassifier:
        fit(self, *arguments)  # type: ignore[arg-type]
        self.interrupted_ = True
        return self

    monkeypatch.setattr(NodeClassifier, "fit", cut)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(path_graph(np.arange(30) % 2), QUICK, folds=2)


def test_it_stands_beside_the_others() -> None:
    assert h2gcn.cross_validate is cross_validate
    assert "cross_validate" in h2gcn.__all__


@each(
    ("more", "fields"),
    [
        ({"folds": 1}, {"value": 1}),
        ({"repeats": 0}, {"value": 0}),
        ({"seed": -1}, {"value": -1}),
        ({"on_fold": 3}, {"value": 3}),
        ({"estimator": "mlp"}, {"value": str}),
        ({"groups": [1, 2]}, {"words": "20 nodes of path, got shape (2,)"}),
    ],
)
def test_what_is_refused(more: dict[str, object], fields: dict[str, object]) -> None:
    graph = path_graph([0] * 15 + [1] * 5)
    (param,) = more
    with refused(param=param, **fields):
        cross_validate(graph, **more)  # type: ignore[arg-type]


@each(
    ("more", "words"),
    [
        ({"folds": 6}, "path: the class 1 has 5 nodes, too few for folds=6"),
        (
            {"groups": np.arange(20) % 2, "folds": 2},
            "the labelled nodes are of 2 groups; folds=2 needs at least 3",
        ),
    ],
)
def test_folds_need_nodes_and_groups(more: dict[str, object], words: str) -> None:
    graph = path_graph([0] * 15 + [1] * 5)
    with pytest.raises(InputError, match=words):
        cross_validate(graph, **more)  # type: ignore[arg-type]


def test_without_labels() -> None:
    with pytest.raises(InputError, match="path: there is no labelled node to cross-v"):
        cross_validate(path_graph([-1] * 5), QUICK)
    with pytest.raises(InputError, match="there is no labelled node to cross-v"):
        cross_validate(path_graph([-1] * 5), QUICK, groups=np.arange(5))
    with pytest.raises(InputError, match=r"^graph must be a Graph"):
        cross_validate("texas")  # type: ignore[arg-type]


def test_groups_that_have_no_text() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(InputError, match=r"^groups must be names or numbers"):
        cross_validate(path_graph(np.arange(20) % 2), QUICK, groups=[Mute()] * 20)


def test_no_interval_goes_beyond_what_a_score_can_be() -> None:
    found = cross_validate(path_graph([0, 1] * 15), QUICK, folds=3)
    folds = tuple(
        replace(fold, measures=dict.fromkeys(fold.measures, end))
        for fold, end in zip(found.folds, (0.0, 0.5, 1.0), strict=True)
    )
    for name, summary in replace(found, folds=folds).summary.items():
        assert summary["low"] == 0.0, name
        assert (summary["high"] > 1.0) == (name in ("log_loss", "brier")), name
