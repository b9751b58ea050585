"""scikit-learn's contract over graphs: what `NodeClassifier` promises."""

import copy
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, roc_auc_score

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.estimator import check_split, resolve_device
from h2gcn.exceptions import H2GCNWarning, InputError, UndefinedMeasureWarning
from h2gcn.graph import CSR, stratified_split
from h2gcn.training import Epoch
from support.cases import each
from support.graphs import adjacency
from support.refusals import only, refused

N = 30
SPLITS = (
    Split(train=np.arange(0, 16), val=np.arange(16, 22), test=np.arange(22, 30)),
    Split(train=np.arange(14, 30), val=np.arange(8, 14), test=np.arange(0, 8)),
)


def ring_graph(n: int = N, *, n_classes: int = 2, seed: int = 0, **more: Any) -> Graph:
    """Return a ring of n nodes whose classes alternate, with easy features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    x = rng.normal(size=(n, 4)) + 3 * np.eye(4)[y % 4]
    edges = [(i, (i + 1) % n) for i in range(n)]
    options = {"x": x, "adj": adjacency(n, edges), "y": y, "name": "ring"}
    return Graph(**options | more)


def classifier(**options: Any) -> NodeClassifier:
    return NodeClassifier(**{"epochs": 5, "random_state": 0} | options)


# ---------------------------------------------------------------------- parameters


def test_parameters_are_stored_as_given_and_not_looked_at() -> None:
    odd = object()
    names = NodeClassifier().get_params()
    for name in names:
        assert getattr(NodeClassifier(**{name: odd}), name) is odd
    assert set(vars(NodeClassifier())) == set(names)


def test_the_defaults() -> None:
    assert NodeClassifier().get_params() == {
        "model": "h2gcn-1",
        "epochs": 2000,
        "patience": 100,
        "stopping": "score",
        "optimizer": "adam",
        "learning_rate": None,
        "l2": None,
        "dropout": None,
        "activation": None,
        "hidden_channels": None,
        "options": None,
        "scaling": "auto",
        "metric": "accuracy",
        "class_weight": None,
        "calibrate": True,
        "batch_size": None,
        "ring_cap": None,
        "memory_limit": None,
        "time_limit": None,
        "refit": False,
        "device": "auto",
        "random_state": None,
        "verbose": False,
    }


def test_none_is_the_models_own_value() -> None:
    paper = {
        "learning_rate": 0.01,
        "l2": 5e-4,
        "dropout": 0.5,
        "activation": "relu",
        "hidden_channels": 64,
        "options": {},
    }
    given = NodeClassifier().get_params()
    assert NodeClassifier().resolved_params() | {"verbose": False} == given | paper
    resolved = NodeClassifier("gat", l2=0.1, options={"heads": 2}).resolved_params()
    assert (resolved["l2"], resolved["learning_rate"]) == (0.1, 0.005)
    assert (resolved["dropout"], resolved["activation"]) == (0.6, "elu")
    assert resolved["options"] == {"heads": 2, "out_heads": 1}
    clf = classifier().fit(ring_graph())
    assert clf.params_ == clf.resolved_params()
    assert clf.dropout is None


def test_a_model_gets_the_options_it_is_given() -> None:
    clf = classifier(model="gcn", hidden_channels=7, options={"dropout": 0.2})
    module = clf.fit(ring_graph()).module_
    assert module.first.shape == (4, 7)
    assert module.dropout == 0.2
    assert (clf.params_["dropout"], clf.params_["hidden_channels"]) == (0.2, 7)
    assert clf.params_["options"] == {}
    assert clf.get_params()["options"] == {"dropout": 0.2}
    again = classifier().set_params(**clf.params_).fit(ring_graph())
    assert again.module_.dropout == 0.2


@each(
    ("name", "given", "option"),
    [("dropout", 0.1, 0.2), ("activation", "elu", "elu"), ("hidden_channels", 4, 8)],
)
def test_an_option_is_given_one_way_only(name: str, given: Any, option: Any) -> None:
    clf = classifier(**{name: given, "options": {name: option}})
    words = f"{given!r}, and {option!r} in 'options'"
    for use in (clf.check_params, clf.resolved_params, lambda: clf.fit(ring_graph())):
        with refused(param=name, words=words):
            use()


@each("model", ["label-propagation", "linbp", "bp", "zoobp", "decoupled-smoothing"])
def test_nodes_that_no_label_reaches_are_counted_aloud(model: str) -> None:
    edges = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6)]
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    graph = Graph(x=np.ones((8, 1)), adj=adjacency(8, edges), y=y)
    clf = classifier(model=model).fit(graph, Split(train=[0, 1], val=[2, 3], test=[4]))
    said = (
        "^4 nodes cannot be reached from any labelled one: what is predicted for them "
        "is a guess$"
    )
    with pytest.warns(H2GCNWarning, match=said):
        shares = clf.predict_proba(graph)
    np.testing.assert_allclose(shares[4:], 0.5, rtol=1e-6)
    with pytest.warns(H2GCNWarning, match="^1 node cannot be .* for it is a guess$"):
        clf.predict(graph, [0, 2, 7])
    clf.predict(graph, [0, 2, 3])  # a warning would be an error


@each(
    ("options", "message"),
    [
        (
            {"model": "gcn", "options": {"heads": 2}},
            r"the model gcn has no option 'heads'\. "
            r"Its options: activation, dropout, hidden_channels\.",
        ),
        (
            {"model": "gat", "options": {"head": 2}},
            r"the model gat has no option 'head'\. Did you mean 'heads'",
        ),
        (
            {"model": "sgc", "dropout": 0.5},
            r"the model sgc has no option 'dropout'\. Its options: power\.",
        ),
        (
            {"model": "label-propagation", "learning_rate": 0.1},
            r"the model label-propagation has no option 'learning_rate'\. Its options",
        ),
        (
            {"model": "h2gcn-2", "options": {"rounds": 3}},
            r"the model h2gcn-2 has no option 'rounds'\. Its options: activation",
        ),
    ],
)
def test_an_option_that_a_model_does_not_have_is_named(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        classifier(**options).fit(ring_graph())


def test_set_params_and_clone() -> None:
    clf = classifier().set_params(dropout=0.1, model="gcn").fit(ring_graph())
    cloned = clone(clf)
    assert cloned.get_params() == clf.get_params()
    assert (cloned.dropout, cloned.model) == (0.1, "gcn")
    assert set(vars(cloned)) == set(clf.get_params())
    with pytest.raises(InputError, match=r"no parameter 'droput'\. Did you mean 'drop"):
        clf.set_params(epochs=3, droput=0.1)
    assert clf.epochs == classifier().epochs  # all of them, or none


def test_repr_names_what_is_not_the_default() -> None:
    assert repr(NodeClassifier()) == "NodeClassifier()"
    assert repr(NodeClassifier("gcn", l2=0.1)) == "NodeClassifier(l2=0.1, model='gcn')"


@each(
    ("options", "rule", "hint"),
    [
        ({"dropout": 7}, "must be in [0, 1)", None),
        ({"hidden_channels": 0}, "must be an integer, at least 1", None),
        ({"activation": "tanh"}, "must be one of 'relu', 'elu', 'none'", None),
        ({"epochs": 0}, "must be an integer, at least 1", None),
        ({"patience": -1}, "must be an integer, at least 1", None),
        ({"learning_rate": 0.0}, "must be in (0, inf)", None),
        ({"l2": -1}, "must be in [0, inf)", None),
        ({"metric": "f1"}, "must be one of 'accuracy', 'macro_f1'", None),
        ({"optimizer": "adamw"}, "must be one of 'adam'", "did you mean 'adam'?"),
        ({"stopping": "lost"}, "must be one of 'score'", "did you mean 'loss'?"),
        ({"scaling": "standart"}, "must be one of", "did you mean 'standard'?"),
        ({"device": "gpu"}, "must be one of 'auto', 'cpu'", "did you mean 'cpu'?"),
    ],
)
def test_bad_parameters_fail_in_fit(
    options: dict[str, Any], rule: str, hint: str | None
) -> None:
    clf = classifier(**options)
    with refused(**only(options), hint=hint) as caught:
        clf.fit(ring_graph())
    assert caught.value.rule.startswith(rule)
    with pytest.raises(NotFittedError):
        clf.predict(ring_graph())


def test_an_unknown_model_fails_in_fit() -> None:
    clf = classifier(model="h2gcn-3")
    message = r"there is no model 'h2gcn-3'\. Did you mean 'h2gcn-"
    with pytest.raises(InputError, match=message):
        clf.fit(ring_graph())
    with pytest.raises(NotFittedError):
        clf.predict(ring_graph())


# ------------------------------------------------------------------------------ fit


@each(
    "use",
    [
        lambda clf, graph: clf.predict(graph),
        lambda clf, graph: clf.predict_proba(graph),
        lambda clf, graph: clf.predict_logits(graph),
        lambda clf, graph: clf.score(graph),
        lambda clf, _: clf.classes_of(np.eye(2)),
        lambda clf, _: clf.save("never-written"),
    ],
    ids=["predict", "predict_proba", "predict_logits", "score", "classes_of", "save"],
)
def test_nothing_works_before_fit(use: Any) -> None:
    with pytest.raises(NotFittedError, match="NodeClassifier instance is not fitted"):
        use(NodeClassifier(), ring_graph())


def test_fit_returns_the_classifier_itself() -> None:
    clf = classifier()
    assert clf.fit(ring_graph()) is clf


def test_what_was_learned_ends_in_an_underscore() -> None:
    clf = classifier().fit(ring_graph())
    learned = set(vars(clf)) - set(clf.get_params())
    public = {name for name in learned if not name.startswith("_")}
    assert all(name.endswith("_") for name in public)
    assert public >= {
        *("classes_", "n_features_in_", "feature_names_in_", "module_", "split_"),
        *("scaler_", "best_epoch_", "val_score_", "history_", "seconds_"),
        *("interrupted_", "seed_", "n_iter_"),
    }
    assert clf.n_features_in_ == 4
    assert clf.feature_names_in_ == ("0", "1", "2", "3")
    assert clf.classes_.tolist() == [0, 1]
    assert clf.n_iter_ == len(clf.history_) == 5
    assert clf.history_[clf.best_epoch_ - 1].val_score == clf.val_score_
    assert clf.interrupted_ is False


def test_fit_does_not_touch_the_parameters_or_the_graph() -> None:
    graph, clf = ring_graph(), classifier()
    params, x, y = clf.get_params(), graph.x.copy(), graph.y.copy()
    clf.fit(graph)
    assert clf.get_params() == params
    np.testing.assert_array_equal(graph.x, x)
    np.testing.assert_array_equal(graph.y, y)


def test_fit_forgets_what_was() -> None:
    names = ("a", "b", "c", "d")
    other = ring_graph(40, n_classes=3, seed=5, feature_names=names)
    fresh = classifier().fit(other)
    again = classifier().fit(ring_graph()).fit(other)
    assert again.classes_.tolist() == [0, 1, 2]
    assert again.feature_names_in_ == names
    assert again.history_ == fresh.history_
    logits = fresh.predict_logits(other)
    assert again.predict_logits(other).tobytes() == logits.tobytes()


def test_another_model_on_the_same_graph_takes_its_own_operators() -> None:
    graph = ring_graph()
    clf = classifier().fit(graph).set_params(model="gcn").fit(graph)
    fresh = classifier(model="gcn").fit(graph)
    logits = fresh.predict_logits(graph)
    assert clf.predict_logits(graph).tobytes() == logits.tobytes()


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    graph = ring_graph(splits=SPLITS)
    one, two, other = (
        classifier(random_state=seed).fit(graph).predict_logits(graph)
        for seed in (7, 7, 8)
    )
    assert one.tobytes() == two.tobytes()
    assert not np.array_equal(one, other)


def test_random_state_may_be_none_or_a_generator() -> None:
    graph = ring_graph()
    clf = classifier(random_state=None).fit(graph)
    assert clf.random_state is None
    assert 0 <= clf.seed_ < 2**31
    one, two = (
        classifier(random_state=np.random.RandomState(3)).fit(graph) for _ in range(2)
    )
    assert one.seed_ == two.seed_ == classifier(random_state=3).fit(graph).seed_


def test_the_global_generators_are_left_as_they_were() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    classifier().fit(ring_graph()).predict(ring_graph())
    assert torch.equal(torch.get_rng_state(), state)


def test_on_epoch_is_called_and_an_interrupt_keeps_the_best() -> None:
    seen: list[Epoch] = []

    def on_epoch(epoch: Epoch) -> None:
        seen.append(epoch)
        if epoch.number == 3:
            raise KeyboardInterrupt

    clf = classifier().fit(ring_graph(), on_epoch=on_epoch)
    assert clf.interrupted_
    assert clf.history_ == tuple(seen)
    assert clf.n_iter_ == 3
    assert clf.predict(ring_graph()).shape == (N,)


def test_parameters_reach_the_module_and_the_training() -> None:
    clf = classifier(
        model="h2gcn-2",
        hidden_channels=5,
        activation="none",
        dropout=0.25,
        epochs=40,
        patience=2,
    ).fit(ring_graph())
    assert clf.module_.classifier.shape == (7 * 5, 2)
    assert (clf.module_.activation, clf.module_.dropout) == ("none", 0.25)
    assert clf.n_iter_ < 40
    assert classifier(model="h2gcn-n2").fit(ring_graph()).module_.hops == (1,)


def test_score_uses_the_metric_of_the_fit() -> None:
    graph = ring_graph()
    nodes = np.flatnonzero(np.r_[graph.y[:-6] == 0, np.ones(6, dtype=bool)])
    clf = classifier(epochs=1).fit(graph)
    before = clf.score(graph, nodes)
    assert clf.set_params(metric="macro_f1").score(graph, nodes) == before
    clf = classifier(epochs=1, metric="macro_f1").fit(graph)
    assert clf.score(graph, nodes) != before, "they differ here"


def test_it_learns_and_the_metric_is_scored() -> None:
    graph = ring_graph(60)
    clf = classifier(epochs=60, metric="roc_auc").fit(graph)
    assert clf.score(graph) == 1.0
    assert classifier(epochs=60).fit(graph).score(graph) > 0.95


# --------------------------------------------------------------------------- splits


@each(("given", "used"), [(None, 0), (0, 0), (1, 1), (np.int64(1), 1), (SPLITS[1], 1)])
def test_a_split_is_given_by_number_or_itself(given: Any, used: int) -> None:
    clf = classifier().fit(ring_graph(splits=SPLITS), given)
    for part, index in SPLITS[used].parts.items():
        np.testing.assert_array_equal(clf.split_.parts[part], index)


def test_without_splits_the_labelled_nodes_are_split_by_class() -> None:
    y = np.arange(N) % 2
    y[[3, 8]] = -1
    clf = classifier().fit(ring_graph(y=y))
    expected = stratified_split(y, (0.6, 0.2, 0.2), clf.seed_)
    for part, index in expected.parts.items():
        np.testing.assert_array_equal(clf.split_.parts[part], index)
    assert sum(clf.split_.sizes) == N - 2
    assert clf.split_.sizes == (16, 6, 6)


@each("number", [2, -1, 99])
def test_a_split_that_is_not_there(number: int) -> None:
    with pytest.raises(
        InputError,
        match=rf"ring has 2 splits, numbered from 0; there is no split {number}",
    ):
        classifier().fit(ring_graph(splits=SPLITS), number)


def test_parts_that_overlap() -> None:
    split = Split(train=[0, 1, 2, 3], val=[3, 4], test=[2, 5])
    graph = ring_graph(node_ids=np.array([f"n{i}" for i in range(N)]))
    with pytest.raises(
        InputError, match=r"the split has 2 nodes in two parts, such as n2"
    ):
        classifier().fit(graph, split)


def test_a_part_that_repeats_a_node() -> None:
    with pytest.raises(InputError, match="split's 'train' part names a node twice"):
        classifier().fit(ring_graph(), Split(train=[0, 0, 1], val=[2, 3], test=[]))


@each("part", ["train", "val"])
def test_parts_that_are_empty(part: str) -> None:
    parts = {"train": [0, 1, 2, 3], "val": [4, 5], "test": [6]} | {part: []}
    with pytest.raises(
        InputError, match=rf"the split's '{part}' part holds no labelled node"
    ):
        classifier().fit(ring_graph(), Split(**parts))


def test_a_split_of_another_graph() -> None:
    with pytest.raises(InputError, match=r"the split names node 30, but ring has 30"):
        classifier().fit(ring_graph(), Split(train=[0, 1], val=[2], test=[30]))


def test_unlabelled_nodes_of_a_split_are_left_out_aloud() -> None:
    y = np.arange(N) % 2
    y[[1, 17, 25]] = -1
    with pytest.warns(
        H2GCNWarning, match="3 nodes of the split have no label and are left out"
    ):
        clf = classifier().fit(ring_graph(y=y), SPLITS[0])
    assert clf.split_.sizes == (15, 5, 7)
    assert (y[np.concatenate(list(clf.split_.parts.values()))] >= 0).all()


def test_a_part_without_labels_is_an_error_after_the_warning() -> None:
    y = np.arange(N) % 2
    y[16:22] = -1
    with (
        pytest.warns(H2GCNWarning, match="6 nodes"),
        pytest.raises(InputError, match="'val' part holds no labelled node"),
    ):
        check_split(ring_graph(y=y), SPLITS[0])


def test_a_class_that_is_missing_from_training_is_said_aloud() -> None:
    y = np.arange(N) % 2
    y[25:] = 2
    y[24] = 3
    graph = ring_graph(y=y, classes=np.array(["a", "b", "c", "d"]))
    with pytest.warns(
        H2GCNWarning,
        match="no training node is of class c, d: the model cannot learn it",
    ):
        clf = classifier().fit(graph, SPLITS[0])
    assert clf.predict_proba(graph).shape == (N, 4)


# --------------------------------------------------------- graphs that cannot be fitted


def test_a_graph_without_labels() -> None:
    with pytest.raises(
        InputError, match="ring: all labels are missing; nothing to learn from"
    ):
        classifier().fit(ring_graph(y=np.full(N, -1)))


def test_a_graph_of_one_class() -> None:
    y = np.where(np.arange(N) < 20, 1, -1)
    with pytest.raises(
        InputError,
        match="ring: at least two classes must have labels, got 'yes'",
    ):
        classifier().fit(ring_graph(y=y, classes=np.array(["no", "yes"])))


def test_a_graph_without_edges() -> None:
    with pytest.raises(InputError, match="ring: the graph has no edges"):
        classifier().fit(ring_graph(adj=CSR((N, N))))


def test_a_perceptron_needs_no_edges() -> None:
    graph = ring_graph(adj=CSR((N, N)))
    clf = classifier().set_params(model="mlp").fit(graph)
    assert clf.predict(graph).shape == (N,)


@each("metric", ["roc_auc", "pr_auc"])
def test_metrics_that_rank_are_for_two_classes(metric: str) -> None:
    with refused(param="metric", words=f"'{metric}' only for two classes; ring has 3"):
        classifier(metric=metric).fit(ring_graph(n_classes=3))


@each("device", ["cuda", "mps"])
def test_a_device_that_is_not_there(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with refused(param="device", words=f"'{device}', but torch finds no"):
        classifier(device=device).fit(ring_graph())


def test_auto_is_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")


# ----------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def fitted() -> tuple[NodeClassifier, Graph]:
    """Return a classifier of words, and its graph."""
    graph = ring_graph(
        n_classes=3, classes=np.array(["red", "green", "blue"]), splits=SPLITS
    )
    return classifier(epochs=30).fit(graph), graph


def test_predictions_are_labels(fitted: tuple[NodeClassifier, Graph]) -> None:
    clf, graph = fitted
    labels = clf.predict(graph)
    assert labels.shape == (N,)
    assert labels.dtype.kind == "U"
    assert set(labels) <= {"red", "green", "blue"}
    best = clf.predict_proba(graph).argmax(axis=1)
    assert labels.tolist() == [("red", "green", "blue")[c] for c in best]
    assert (labels == graph.classes[graph.y]).mean() > 0.8


def test_without_calibration_probabilities_are_the_softmax_of_the_logits(
    fitted: tuple[NodeClassifier, Graph],
) -> None:
    graph = fitted[1]
    clf = classifier(calibrate=False).fit(graph)
    probabilities, logits = clf.predict_proba(graph), clf.predict_logits(graph)
    assert probabilities.dtype == logits.dtype == np.float32
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    powers = np.exp(logits.astype(float))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


@each(
    "nodes",
    [[4, 0, 29], np.array([7, 7]), (3,), np.arange(N) % 4 == 1, []],
    ids=["list", "repeated", "tuple", "mask", "none"],
)
def test_nodes_choose_rows(fitted: tuple[NodeClassifier, Graph], nodes: Any) -> None:
    clf, graph = fitted
    chosen = np.asarray(nodes)
    rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(int)
    assert clf.predict(graph, nodes).tolist() == clf.predict(graph)[rows].tolist()
    for method in (clf.predict_logits, clf.predict_proba):
        np.testing.assert_allclose(
            method(graph, nodes), method(graph)[rows], rtol=1e-5, atol=1e-6
        )


def test_nodes_that_are_not_there(fitted: tuple[NodeClassifier, Graph]) -> None:
    clf, graph = fitted
    with pytest.raises(InputError, match="30"):
        clf.predict(graph, [0, N])


def test_score_is_the_share_of_right_labels(
    fitted: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = fitted
    right = clf.predict(graph) == graph.classes[graph.y]
    everyone = np.arange(N)
    assert clf.score(graph, everyone) == pytest.approx(right.mean())
    nodes = SPLITS[0].test
    assert clf.score(graph, nodes) == pytest.approx(right[nodes].mean())
    mask = np.isin(np.arange(N), nodes)
    assert clf.score(graph, mask) == clf.score(graph, nodes)


def test_score_leaves_unlabelled_nodes_out_unless_they_are_asked_for(
    fitted: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = fitted
    y = graph.y.copy()
    y[:10] = -1
    other = graph.x + 1  # and so another graph
    partly = ring_graph(x=other, y=y, classes=graph.classes)
    whole = ring_graph(x=other, y=graph.y, classes=graph.classes)
    assert clf.score(partly) == clf.score(whole, np.arange(10, N))
    with pytest.raises(InputError, match="ring: node 4 has no label to score by"):
        clf.score(partly, [20, 4])


def scored(clf: NodeClassifier, graph: Graph) -> list[int]:
    """Return the nodes that are scored where none are named."""
    found: list[int] = []
    predict = clf.predict_logits

    def spy(graph: Graph, nodes: np.ndarray) -> np.ndarray:
        found.extend(nodes.tolist())
        return predict(graph, nodes)

    clf.predict_logits = spy  # type: ignore[method-assign]
    clf.score(graph)
    del clf.predict_logits
    return found


NAMES = [f"n{i}" for i in range(N)]


def named(graph: Graph, **more: Any) -> Graph:
    return replace(graph, **{"node_ids": NAMES} | more)


def test_on_the_graph_of_fit_the_test_nodes_are_scored() -> None:
    graph = ring_graph(splits=SPLITS)
    clf = classifier().fit(graph)
    assert scored(clf, graph) == SPLITS[0].test.tolist()
    assert scored(clf, ring_graph()) == SPLITS[0].test.tolist(), "without its splits"
    few = Split(SPLITS[0].train, SPLITS[0].val, SPLITS[0].test[:2])
    assert scored(classifier().fit(graph, few), graph) == few.test.tolist()


def test_without_test_nodes_those_that_training_did_not_see_are_scored() -> None:
    graph = ring_graph()
    nobody = Split(SPLITS[0].train, SPLITS[0].val, [])
    rest = np.setdiff1d(np.arange(N), [*nobody.train, *nobody.val])
    assert scored(classifier().fit(graph, nobody), graph) == rest.tolist()
    everyone = Split(np.arange(20), np.arange(20, N), [])
    with pytest.raises(InputError, match="ring: training saw all labelled nodes; name"):
        classifier().fit(graph, everyone).score(graph)


def test_on_another_graph_all_labelled_nodes_are_scored() -> None:
    clf = classifier().fit(ring_graph(splits=SPLITS))
    assert scored(clf, ring_graph(x=ring_graph().x + 1)) == list(range(N))
    # Ids that training saw are those of its nodes, in any graph and any order.
    graph = named(ring_graph(splits=SPLITS))
    clf = classifier().fit(graph)
    other = named(ring_graph(x=graph.x + 1), node_ids=[f"m{i}" for i in range(N)])
    assert scored(clf, other) == list(range(N))
    later = named(ring_graph(x=graph.x + 1), node_ids=NAMES[::-1])
    seen = [*SPLITS[0].train, *SPLITS[0].val]
    told = f"{len(seen)} nodes of ring have ids that training saw, and are not scored"
    with pytest.warns(H2GCNWarning, match=told):
        found = scored(clf, later)
    assert found == [i for i in range(N) if N - 1 - i not in seen]


def test_labels_are_not_taken_for_nodes_or_splits(small_graph: Graph) -> None:
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(small_graph)
    with pytest.raises(InputError, match=r"^nodes must name each node once, to score"):
        clf.score(small_graph, small_graph.y)
    with pytest.raises(InputError, match=r"^split must be a Split, .* got ndarray"):
        clf.fit(small_graph, small_graph.y)


def test_score_by_roc_auc() -> None:
    graph = ring_graph(splits=SPLITS)
    clf = classifier(metric="roc_auc", epochs=2).fit(graph)
    test = SPLITS[0].test
    expected = roc_auc_score(graph.y[test], clf.predict_proba(graph, test)[:, 1])
    assert clf.score(graph) == pytest.approx(expected)


def test_score_by_pr_auc(small_graph: Graph) -> None:
    clf = NodeClassifier("h2gcn-1", metric="pr_auc", epochs=2, random_state=0)
    clf.fit(small_graph)
    test = clf.split_.test
    y = small_graph.y[test]
    rare = int(2 * y.sum() <= len(y))
    shares = clf.predict_proba(small_graph, test)[:, rare]
    assert clf.score(small_graph) == pytest.approx(
        average_precision_score(y == rare, shares)
    )


def test_a_score_without_a_value_is_not_nan_in_silence(small_graph: Graph) -> None:
    clf = NodeClassifier("mlp", epochs=2, metric="roc_auc", random_state=0)
    clf.fit(small_graph)
    with pytest.warns(UndefinedMeasureWarning, match="roc_auc has no value: the nodes"):
        assert np.isnan(clf.score(small_graph, np.flatnonzero(small_graph.y == 0)))


def test_validation_score_is_the_score_on_the_validation_nodes() -> None:
    graph = ring_graph(splits=SPLITS)
    clf = classifier(epochs=20).fit(graph)
    assert clf.score(graph, clf.split_.val) == pytest.approx(clf.val_score_)


@each(
    "duplicate",
    [
        lambda clf: pickle.loads(pickle.dumps(clf)),
        copy.deepcopy,
    ],
    ids=["pickle", "deepcopy"],
)
def test_a_fitted_classifier_can_be_copied(
    fitted: tuple[NodeClassifier, Graph], duplicate: Any
) -> None:
    clf, graph = fitted
    logits = clf.predict_logits(graph)
    assert duplicate(clf).predict_logits(graph).tobytes() == logits.tobytes()


def test_another_graph_has_its_own_nodes_and_edges(
    fitted: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = fitted
    order = np.random.default_rng(2).permutation(N)
    renumbered = Graph(
        x=graph.x[order],
        adj=CSR(graph.adj[order][:, order]),
        y=graph.y[order],
        classes=graph.classes,
    )
    np.testing.assert_allclose(
        clf.predict_logits(renumbered),
        clf.predict_logits(graph)[order],
        rtol=1e-4,
        atol=1e-5,
    )
    larger = ring_graph(45, n_classes=3, seed=4)
    assert clf.predict(larger).shape == (45,)
    # The first graph again, after another has been seen.
    assert clf.predict(graph).shape == (N,)


def test_columns_are_matched_by_name(fitted: tuple[NodeClassifier, Graph]) -> None:
    clf, graph = fitted
    mixed = Graph(
        x=graph.x[:, [2, 0, 3, 1]], adj=graph.adj, feature_names=("2", "0", "3", "1")
    )
    np.testing.assert_array_equal(clf.predict(mixed), clf.predict(graph))
    narrow = Graph(x=graph.x[:, :3], adj=graph.adj, name="narrow")
    message = (
        "narrow has 3 feature columns, the model was trained on 4: 1 missing ('3')"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        clf.predict(narrow)


def test_features_are_scaled_as_in_training(
    fitted: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = fitted
    assert clf.scaler_.kind == "standard"
    np.testing.assert_allclose(
        clf.scaler_.mean, graph.x[SPLITS[0].train].mean(axis=0), rtol=1e-5
    )
    moved = Graph(x=graph.x + 10, adj=graph.adj)
    assert np.abs(clf.predict_logits(moved) - clf.predict_logits(graph)).max() > 0.1


def test_sparse_features_do_for_dense_ones() -> None:
    x = (np.random.default_rng(0).random((N, 12)) < 0.2).astype(float)
    x[np.arange(N), np.arange(N) % 2] = 2
    dense, sparse = ring_graph(x=x, splits=SPLITS), ring_graph(x=CSR(x), splits=SPLITS)
    one, two = (
        classifier(dropout=0.0).fit(graph).predict_logits(graph)
        for graph in (dense, sparse)
    )
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_fit_and_a_prediction_wait_for_no_scikit_learn() -> None:
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from h2gcn import Graph, NodeClassifier, Split\n"
        "adj = np.roll(np.eye(8), 1, axis=1)\n"
        "graph = Graph(x=np.eye(8), adj=adj + adj.T, y=np.arange(8) % 2)\n"
        "split = Split([0, 1, 2, 3], [4, 5], [6, 7])\n"
        "clf = NodeClassifier('h2gcn-1', epochs=2, calibrate=False, random_state=0)\n"
        "clf.fit(graph, split).predict_proba(graph)\n"
        "heavy = ('sklearn', 'scipy.stats', 'scipy.optimize', 'pandas', 'pyarrow')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_it_is_a_classifier_that_takes_graphs() -> None:
    from sklearn.base import is_classifier

    assert is_classifier(NodeClassifier())
    with pytest.raises(InputError, match=r"must be a Graph; .* got ndarray"):
        classifier().fit(np.eye(3))
