"""NodeClassifier("auto"): several models that answer as one."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import h2gcn.auto.contest
import h2gcn.estimator.automatic
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.auto import Choice, Leaderboard, Member, Progress, choose
from h2gcn.estimator.parameters import _ITS_OWN
from h2gcn.estimator.saved_model import MANIFEST, MEMBERS, WEIGHTS
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.training import confusion_matrix, macro_f1, signed
from support.cases import each
from support.graphs import adjacency

NET = {"epochs": 30, "patience": 30, "stopping": "loss"}
CHEAP = (
    Member("logistic", "logistic", "own", {"options": {"table": "ego"}}, False),
    Member("label-propagation", "label-propagation", "labels of neighbours"),
    Member("mlp", "mlp", "own", NET, False),
)
"""Members that are fitted in a moment."""


SHARES = {"logistic": 0.5, "label-propagation": 0.3, "mlp": 0.2}
"""Their weights: who is really chosen may hang on a processor."""


def all_answer(
    found: Mapping[str, Any], y: Any, metric: str = "log_loss", seed: int = 0
) -> Choice:
    """Choose all members."""
    choice = replace(choose(found, y, metric, seed), weights=SHARES)
    return choice.among(found)


def portfolio(monkeypatch: pytest.MonkeyPatch, *members: Member) -> None:
    """Have "auto" try no others than these, and all of them answer."""
    monkeypatch.setattr(
        h2gcn.estimator.automatic, "find_portfolio", lambda *_: members or CHEAP
    )
    monkeypatch.setattr(h2gcn.auto.contest, "choose", all_answer)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tests fit few members, unless they ask for others."""
    portfolio(monkeypatch)


def ring(n: int = 90, classes: int = 3, *, noise: float = 1.0, seed: int = 0) -> Graph:
    """Return a ring in which every third node is alike, with features that tell."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = noise * rng.normal(size=(n, 4)) + 1.5 * np.eye(classes, 4)[y]
    edges = [(i, (i + step) % n) for i in range(n) for step in (1, classes)]
    ids = [f"p{i}" for i in range(n)]
    return Graph(x=x, adj=adjacency(n, edges), y=y, name="ring", node_ids=ids)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return the graph of the classifier."""
    return ring()


@pytest.fixture(scope="module")
def clf(graph: Graph) -> NodeClassifier:
    """Return a fitted classifier whose members all answer."""
    with pytest.MonkeyPatch.context() as patch:
        portfolio(patch)
        return NodeClassifier("auto", random_state=0).fit(graph)


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# ------------------------------------------------------------------------- the contract


def test_what_a_fit_leaves(clf: NodeClassifier, graph: Graph) -> None:
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.split_.sizes == (54, 18, 18)
    board = clf.leaderboard_
    assert {row.name: row.weight for row in board.rows} == SHARES
    assert {one.name: one.weight for one in clf.members_} == SHARES
    assert (board.nodes, board.folds, board.chosen_by) == (72, 5, "log_loss")
    assert clf.offsets_.tolist() == [0.0, 0.0, 0.0]
    assert clf.module_ is None
    assert not clf.interrupted_
    assert sorted(clf.calibration_.nodes) == sorted(
        np.concatenate([clf.split_.train, clf.split_.val])
    )
    assert clf.score(graph) == pytest.approx(
        (clf.predict(graph, clf.split_.test) == graph.y[clf.split_.test]).mean()
    )
    assert clf.score(graph) > 0.5


def test_logits_are_those_of_the_mean(clf: NodeClassifier, graph: Graph) -> None:
    mean = sum(
        one.weight
        * softmax(one.classifier.predict_logits(graph).astype(float) / one.temperature)
        for one in clf.members_
    )
    logits = clf.predict_logits(graph)
    np.testing.assert_allclose(logits, np.log(mean), rtol=1e-4, atol=1e-6)
    shares = clf.predict_proba(graph)
    expected = softmax(np.log(mean) / clf.calibration_.temperature)
    np.testing.assert_allclose(shares, expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert clf.predict(graph).tolist() == mean.argmax(axis=1).tolist()


@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")  # few nodes
@pytest.mark.parametrize("model", ["auto", "logistic", "boosted-trees"])
@pytest.mark.parametrize("per_class", [1, 2, 3])
def test_fit_where_no_class_has_three_training_nodes(
    per_class: int, model: str
) -> None:
    whole = ring(120, 20)
    y = np.where(np.arange(120) < 20 * per_class, np.arange(120) % 20, -1)
    graph = Graph(x=np.eye(120), adj=whole.adj, y=y)
    fitted = NodeClassifier(model, random_state=0).fit(graph)
    assert np.isfinite(fitted.predict_proba(graph)).all()


def test_some_nodes_are_as_all_nodes(clf: NodeClassifier, graph: Graph) -> None:
    some = np.array([7, 3, 50])
    whole = clf.predict_proba(graph)
    np.testing.assert_allclose(clf.predict_proba(graph, some), whole[some], rtol=1e-4)
    assert clf.predict_logits(graph, np.array([], dtype=int)).shape == (0, 3)


def test_blocks_of_members_are_brought_together(
    clf: NodeClassifier, graph: Graph
) -> None:
    whole = clf.predict_logits(graph)
    nodes, parts = zip(*clf.predict_blocks(graph, block_size=7), strict=True)
    assert all(len(part) <= 7 for part in nodes)
    assert np.concatenate(nodes).tolist() == list(range(90))
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)


def test_moving_it_moves_its_members(clf: NodeClassifier, graph: Graph) -> None:
    clf = copy.deepcopy(clf)
    whole = clf.predict_logits(graph)
    # What has no epochs has no batches: its nodes come all at once, others by eleven.
    clf.move("cpu", batch_size=11, memory_limit=4.0)
    sizes = {one.name: one.classifier.params_["batch_size"] for one in clf.members_}
    assert {one.classifier.params_["memory_limit"] for one in clf.members_} == {4.0}
    assert sizes == {"logistic": None, "label-propagation": None, "mlp": 11}
    np.testing.assert_allclose(clf.predict_logits(graph), whole, rtol=1e-4, atol=1e-5)
    assert clf.params_["batch_size"] == 11


def test_sets_and_decisions(clf: NodeClassifier, graph: Graph) -> None:
    sets = clf.predict_set(graph, 0.1)
    assert sets.shape == (90, 3)
    test = clf.split_.test
    assert sets[test, graph.y[test]].mean() > 0.6
    rule = clf.decide("macro_f1")
    assert set(clf.predict(graph, decision=rule)) <= {0, 1, 2}
    assert "72 held-out nodes" in clf.coverage_words(0.1)


def test_the_same_seed_gives_the_same(clf: NodeClassifier, graph: Graph) -> None:
    again = NodeClassifier("auto", random_state=0).fit(graph)
    assert again.predict_logits(graph).tobytes() == clf.predict_logits(graph).tobytes()


def test_progress_is_told(graph: Graph) -> None:
    told: list[Progress] = []
    NodeClassifier("auto", random_state=0).fit(graph, on_progress=told.append)
    names = list(dict.fromkeys(at.member for at in told))
    assert names == [*(member.name for member in CHEAP), "those that answer"]


def test_parameters_and_clones(clf: NodeClassifier) -> None:
    assert clone(clf).get_params() == clf.get_params()
    asked = {"model": "auto", "time_limit": 9.0, "refit": True, "metric": "macro_f1"}
    again = clone(NodeClassifier(**asked))
    assert asked.items() <= again.get_params().items()


def test_parameters_reach_members(graph: Graph) -> None:
    clf = NodeClassifier(
        "auto", scaling="none", memory_limit=3.0, device="cpu", random_state=0
    ).fit(graph)
    for one in clf.members_:
        params = one.classifier.params_
        assert (params["memory_limit"], params["device"]) == (3.0, "cpu")
        assert one.classifier.scaler_.kind == "none"


def test_its_own_defaults_are_those_of_the_classifier() -> None:
    signature = inspect.signature(NodeClassifier.__init__).parameters
    assert {name: signature[name].default for name in _ITS_OWN} == dict(_ITS_OWN)


OF_MEMBERS = [
    ("epochs", 10),
    ("patience", None),
    ("stopping", "loss"),
    ("optimizer", "sgd"),
    ("learning_rate", 0.1),
    ("l2", 0.0),
    ("dropout", 0.5),
    ("activation", "elu"),
    ("hidden_channels", 8),
    ("options", {"heads": 4}),
    ("class_weight", "balanced"),
    ("batch_size", 8),
]


@each(("name", "value"), OF_MEMBERS)
def test_what_each_member_has_for_itself_is_refused(
    graph: Graph, name: str, value: Any
) -> None:
    assert name in _ITS_OWN
    with pytest.raises(InputError) as error:
        NodeClassifier("auto", **{name: value}).fit(graph)
    assert str(error.value) == (
        f"{name} does not go with model 'auto': each member has its own; "
        "name one model to set it"
    )


def test_every_refusal_is_tried() -> None:
    assert {name for name, _ in OF_MEMBERS} == set(_ITS_OWN)


def test_other_mistakes(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="time_limit mu"):
        NodeClassifier("auto", time_limit=0).fit(graph)
    with pytest.raises(InputError, match=r"^time_limit is for model 'auto'"):
        NodeClassifier("mlp", time_limit=5).fit(graph)
    with pytest.raises(InputError, match=r"^refit is for model 'auto'"):
        NodeClassifier("mlp", refit=True).fit(graph)
    with pytest.raises(InputError, match="'checkpoint' is for one model"):
        NodeClassifier("auto").fit(graph, checkpoint=tmp_path / "state")
    with pytest.raises(InputError, match=r"two classes; ring has 3"):
        NodeClassifier("auto", metric="roc_auc").fit(graph)


# ------------------------------------------------------------------------ the bad input


def labelled(y: list[int], **more: Any) -> Graph:
    n = len(y)
    x = np.random.default_rng(0).normal(size=(n, 3))
    edges = [(i, (i + 1) % n) for i in range(n)]
    return Graph(**{"x": x, "adj": adjacency(n, edges), "y": y, "name": "odd"} | more)


@each(
    ("graph", "said"),
    [
        (
            labelled([0] * 20),
            "odd: at least two classes must have labels, got '0'",
        ),
        (labelled([-1] * 20), "odd: all labels are missing; nothing to learn from."),
        (
            labelled([0, 1] * 10, x=np.ones((20, 2)), adj=adjacency(20, [])),
            "odd: no edges, and no features that tell nodes apart; there is nothing to",
        ),
        (
            labelled([0, 1] * 10, x=sp.csr_array((20, 2)), adj=adjacency(20, [])),
            "odd: no edges, and no features that tell nodes apart; there is nothing to",
        ),
    ],
    ids=["one class", "no labels", "nothing to look at", "nothing in a sparse matrix"],
)
def test_nothing_can_be_learned(graph: Graph, said: str) -> None:
    with pytest.raises(InputError) as error:
        NodeClassifier("auto").fit(graph)
    assert str(error.value).startswith(said)


def test_nan_is_refused_where_it_comes_in() -> None:
    x = np.ones((20, 2))
    x[3, 1] = np.nan
    with pytest.raises(InputError, match=r"^x must be finite, got nan in row 3, col"):
        labelled([0, 1] * 10, x=x)


@pytest.mark.parametrize("rare", [1, 2])
def test_a_class_of_few_nodes(rare: int) -> None:
    graph = labelled([0, 1] * 15 + [2] * rare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        clf = NodeClassifier("auto", random_state=0).fit(graph)
    shares = clf.predict_proba(graph)
    assert shares.shape == (30 + rare, 3)
    assert np.isfinite(shares).all()


def test_without_edges_it_is_a_table() -> None:
    graph = ring()
    bare = Graph(x=graph.x, adj=adjacency(90, []), y=graph.y)
    with pytest.MonkeyPatch.context() as patch:
        portfolio(patch, CHEAP[0], CHEAP[2])
        clf = NodeClassifier("auto", random_state=0).fit(bare)
    assert clf.score(bare) > 0.6
    assert clf.leaderboard_.graph == ""


def test_no_time_at_all_the_first_answers(graph: Graph) -> None:
    clf = NodeClassifier("auto", time_limit=1e-9, random_state=0).fit(graph)
    assert [one.name for one in clf.members_] == ["logistic"]
    assert [row.note for row in clf.leaderboard_.rows] == [
        "cut short, as its time was up",
        *("no time was left for it", "no time was left for it"),
    ]
    assert clf.predict(graph).shape == (90,)


def test_a_member_that_does_not_fit_in_memory_is_named(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Member("large", "h2gcn-1", "all", {"memory_limit": 1e-7})
    portfolio(monkeypatch, large, *CHEAP)
    clf = NodeClassifier("auto", random_state=0).fit(graph)
    last = clf.leaderboard_.rows[-1]
    assert last.name == "large"
    assert "memory" in last.note


# ------------------------------------------------------------------- metrics and labels


def rare_graph() -> Graph:
    """Return 300 nodes of which one in ten is of the rare class, hard to tell."""
    rng = np.random.default_rng(1)
    y = (np.arange(300) % 10 == 0).astype(int)
    x = rng.normal(size=(300, 3)) + y[:, None]
    edges = [(i, (i + 1) % 300) for i in range(300)]
    return Graph(x=x, adj=adjacency(300, edges), y=y)


def test_macro_f1_is_decided_for() -> None:
    graph = rare_graph()
    clf = NodeClassifier("auto", metric="macro_f1", random_state=0).fit(graph)
    # Members are compared by their probabilities; what is said is for macro-F1.
    assert clf.leaderboard_.chosen_by == "log_loss"
    assert clf.leaderboard_.metric == "macro_f1"
    assert clf.offsets_[1] > clf.offsets_[0], "the rare class is said more often"
    # What is said is the largest of the probabilities with the factors.
    mean = sum(
        one.weight
        * softmax(one.classifier.predict_logits(graph).astype(float) / one.temperature)
        for one in clf.members_
    )
    expected = (mean * np.exp(clf.offsets_)).argmax(axis=1)
    assert clf.predict(graph).tolist() == expected.tolist()
    assert (clf.predict(graph) == 1).sum() > (mean.argmax(axis=1) == 1).sum()
    # Probabilities are those of the data all the same.
    assert clf.predict_proba(graph)[:, 1].mean() == pytest.approx(0.1, abs=0.05)
    temperature = clf.calibration_.temperature
    np.testing.assert_allclose(
        clf.predict_proba(graph), softmax(np.log(mean) / temperature), rtol=1e-3
    )
    plain = NodeClassifier("auto", random_state=0).fit(graph)
    test = clf.split_.test

    def found(one: NodeClassifier) -> float:
        said = one.predict(graph, test)
        return macro_f1(confusion_matrix(graph.y[test], said, 2))

    assert found(clf) >= found(plain)
    assert clf.score(graph) == pytest.approx(found(clf))


@pytest.mark.parametrize("metric", ["roc_auc", "pr_auc"])
def test_what_ranks_is_chosen_by(metric: str) -> None:
    graph = rare_graph()
    clf = NodeClassifier("auto", metric=metric, random_state=0).fit(graph)
    assert clf.leaderboard_.chosen_by == metric
    if metric == "roc_auc":
        assert clf.leaderboard_.majority == 0.5
    assert clf.score(graph) > max(0.6, clf.leaderboard_.majority)
    assert clf.offsets_.tolist() == [0.0, 0.0]


def test_uncalibrated_is_the_mean_itself(graph: Graph) -> None:
    clf = NodeClassifier("auto", calibrate=False, random_state=0).fit(graph)
    assert clf.calibration_.temperature == 1.0
    expected = softmax(clf.predict_logits(graph).astype(float))
    np.testing.assert_allclose(clf.predict_proba(graph), expected, rtol=1e-4)


# ---------------------------------------------------------------------- fitted on all


def test_those_that_answer_are_fitted_on_all_labels(
    clf: NodeClassifier, graph: Graph
) -> None:
    before = clf
    clf = NodeClassifier("auto", refit=True, random_state=0).fit(graph)
    assert [(one.name, one.weight, one.temperature) for one in clf.members_] == [
        (one.name, one.weight, one.temperature) for one in before.members_
    ]
    for one, old in zip(clf.members_, before.members_, strict=True):
        assert one.classifier.split_.train.tolist() == graph.labelled.tolist()
        assert one.classifier.best_epoch_ == old.classifier.best_epoch_
    # What is known of them is from before, and nothing is left to score by.
    assert clf.val_score_ == before.val_score_
    rows = [(r.name, r.log_loss, r.weight) for r in clf.leaderboard_.rows]
    assert rows == [(r.name, r.log_loss, r.weight) for r in before.leaderboard_.rows]
    with pytest.raises(InputError, match="training saw all labelled nodes"):
        clf.score(graph)
    assert clf.params_["refit"] is True
    assert clf.split_.test.tolist() == before.split_.test.tolist()


def test_unlabelled_nodes_are_left_for_prediction() -> None:
    graph = ring()
    y = np.where(np.arange(90) % 4, graph.y, -1)
    part = Graph(x=graph.x, adj=graph.adj, y=y)
    clf = NodeClassifier("auto", refit=True, random_state=0).fit(part)
    for one in clf.members_:
        assert not (one.classifier.split_.train % 4 == 0).any()
    assert (clf.predict(part) == graph.y).mean() > 0.5


def test_ctrl_c_leaves_them_as_they_were(
    clf: NodeClassifier, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    clf = copy.deepcopy(clf)
    logits = clf.predict_logits(graph)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeClassifier, "fit_checked", stop)
    clf.fit_on_all(graph)
    assert clf.interrupted_
    assert clf.params_["refit"] is False
    assert clf.predict_logits(graph).tobytes() == logits.tobytes()
    assert clf.score(graph) > 0.5, "its test nodes are still unseen"


def test_refit_as_auto_forgets_the_logits_of_the_model_before(graph: Graph) -> None:
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph)
    nodes = np.arange(5)
    clf.remember(graph, nodes, np.full((5, 3), 7.0, dtype=np.float32))
    assert (clf.predict_logits(graph, nodes) == 7).all()
    clf.set_params(model="auto", epochs=NodeClassifier().epochs).fit(graph)
    assert not (clf.predict_logits(graph, nodes) == 7).any()


def test_only_auto_and_only_its_graph(clf: NodeClassifier, graph: Graph) -> None:
    with pytest.raises(InputError, match="'fit_on_all' is for model 'auto'"):
        NodeClassifier("mlp", epochs=2).fit(graph).fit_on_all(graph)
    with pytest.raises(InputError, match="not the graph of fit, on whose labelled"):
        clf.fit_on_all(ring(60))


# ------------------------------------------------------------------------ other graphs


def test_another_graph_with_the_same_columns(
    clf: NodeClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ring(60, seed=5)
    strangers = Graph(
        x=other.x,
        adj=other.adj,
        y=other.y,
        name="strangers",
        node_ids=[f"q{i}" for i in range(60)],
    )
    told = r"strangers is not the graph of fit, and only there label-propagation can an"
    with pytest.warns(H2GCNWarning, match=told):
        logits = clf.predict_logits(strangers)
    rest = [one for one in clf.members_ if one.name != "label-propagation"]
    whole = sum(one.weight for one in rest)
    mean = sum(
        one.weight
        / whole
        * softmax(
            one.classifier.predict_logits(strangers).astype(float) / one.temperature
        )
        for one in rest
    )
    np.testing.assert_allclose(logits, np.log(mean), rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(
        clf, "members_", tuple(o for o in clf.members_ if o not in rest)
    )
    with pytest.raises(InputError, match=r"none of those .* is in this graph"):
        clf.predict(strangers)


def test_columns_that_are_missing_are_a_mistake_for_all(clf: NodeClassifier) -> None:
    other = ring()
    few = Graph(x=other.x[:, :3], adj=other.adj, y=other.y)
    with pytest.raises(InputError, match="3 feature columns, the model was trained on"):
        clf.predict(few)


def test_nodes_out_of_reach_are_left_to_the_others(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 91
    x = np.vstack([graph.x, graph.x[:1]])
    edges = adjacency(n, [(i, (i + s) % 90) for i in range(90) for s in (1, 3)])
    apart = Graph(x=x, adj=edges, y=np.append(graph.y, -1))
    clf = NodeClassifier("auto", random_state=0).fit(apart)
    with warnings.catch_warnings():
        warnings.simplefilter("error", H2GCNWarning)
        clf.predict(apart)
    portfolio(monkeypatch, CHEAP[1])
    alone = NodeClassifier("auto", random_state=0).fit(apart)
    with pytest.warns(H2GCNWarning, match="1 node cannot be reached"):
        alone.predict(apart)


# ------------------------------------------------------------------------- saved models


@pytest.fixture
def saved(clf: NodeClassifier, tmp_path: Path) -> Path:
    """Return the folder of a saved classifier."""
    clf.save(tmp_path / "model")
    return tmp_path / "model"


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest, and sign it anew as someone with bad intentions would."""
    manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    del manifest["sha256"]
    change(manifest)
    (path / MANIFEST).write_bytes(signed(manifest))


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_there_and_back(
    clf: NodeClassifier, graph: Graph, tmp_path: Path, metric: str
) -> None:
    if clf.metric != metric:
        clf = NodeClassifier("auto", metric=metric, random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    same = NodeClassifier.load(tmp_path / "model")
    for what in ("predict_logits", "predict_proba", "predict_set"):
        one, two = (getattr(c, what)(graph) for c in (clf, same))
        assert one.tobytes() == two.tobytes(), what
    assert same.leaderboard_ == clf.leaderboard_
    assert isinstance(same.leaderboard_, Leaderboard)
    assert same.offsets_.tolist() == clf.offsets_.tolist()
    assert same.score(graph) == clf.score(graph)
    assert same.model == "auto"
    assert [one.name for one in same.members_] == [one.name for one in clf.members_]
    # And once more over itself.
    same.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    assert again.predict_logits(graph).tobytes() == clf.predict_logits(graph).tobytes()


def test_what_is_saved(saved: Path, clf: NodeClassifier) -> None:
    files = sorted(str(p.relative_to(saved)) for p in saved.rglob("*") if p.is_file())
    members = [f"{MEMBERS}/{i}-{one.name}" for i, one in enumerate(clf.members_)]
    expected = [
        f"{folder}/{name}" for folder in members for name in (MANIFEST, WEIGHTS)
    ]
    assert files == sorted([MANIFEST, WEIGHTS, *expected])


def test_a_model_takes_the_place_of_an_auto(saved: Path, graph: Graph) -> None:
    NodeClassifier("mlp", epochs=2, random_state=0).fit(graph).save(saved)
    assert not (saved / MEMBERS).exists()
    assert NodeClassifier.load(saved).members_ == ()


@pytest.mark.parametrize("file", [MANIFEST, WEIGHTS])
def test_damaged_members_are_refused(saved: Path, file: str) -> None:
    victim = next((saved / MEMBERS).iterdir()) / file
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(bytes(content))
    with pytest.raises(InputError) as error:
        NodeClassifier.load(saved)
    assert str(error.value).startswith(f"{victim}: ")


@pytest.mark.parametrize("file", [MANIFEST, WEIGHTS])
def test_lost_members_are_refused(saved: Path, file: str) -> None:
    victim = next((saved / MEMBERS).iterdir()) / file
    victim.unlink()
    with pytest.raises(InputError) as error:
        NodeClassifier.load(saved)
    assert str(victim) in str(error.value)


def test_another_model_in_the_place_of_a_member_is_refused(
    saved: Path, graph: Graph
) -> None:
    victim = next((saved / MEMBERS).iterdir())
    NodeClassifier("mlp", epochs=2, random_state=7).fit(graph).save(victim)
    with pytest.raises(InputError) as error:
        NodeClassifier.load(saved)
    assert str(error.value) == f"{victim / MANIFEST}: is not the member that was saved"


@pytest.mark.parametrize(
    "folder", ["../other", "/tmp/other", "0-a/../..", "", "..", "0-mlp\n", 3]
)
def test_members_are_read_from_nowhere_else(
    saved: Path, graph: Graph, folder: Any
) -> None:
    other = saved.parent / "other"
    NodeClassifier("mlp", epochs=2, random_state=7).fit(graph).save(other)
    known = hashlib.sha256((other / MANIFEST).read_bytes()).hexdigest()
    edit(
        saved,
        lambda m: m["members"][0].update(folder=folder, manifest_sha256=known),
    )
    with pytest.raises(
        InputError, match=r"bundle\.json: members\.0\.folder must be text"
    ):
        NodeClassifier.load(saved)


# --------------------------------------------------------------------- a real contest


def web(n: int = 700, classes: int = 4, seed: int = 0) -> Graph:
    """Return pages of which those of a class link to those of the next.

    Features say hardly anything: a twentieth of them is of their class.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    x = rng.normal(size=(n, 6)) + 0.15 * np.eye(classes, 6)[y]
    ends = []
    for node in range(n):
        following = np.flatnonzero(y == (y[node] + 1) % classes)
        ends += [(node, other) for other in rng.choice(following, 3, replace=False)]
    rows, columns = np.array(ends).T
    one_way = sp.csr_array((np.ones(len(ends), np.float32), (rows, columns)), (n, n))
    both = one_way + one_way.T
    both.data[:] = 1
    return Graph(x=x, adj=both, directed=one_way, y=y, name="web")


def test_classes_that_link_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # as it is for everybody
    graph = web()
    nodes = np.random.default_rng(1).permutation(graph.n_nodes)
    split = Split(nodes[:300], nodes[300:400], nodes[400:])
    clf = NodeClassifier("auto", time_limit=20.0, random_state=0).fit(graph, split)
    alone = NodeClassifier("h2gcn-1", epochs=100, random_state=0).fit(graph, split)
    assert clf.score(graph) > 0.9
    assert clf.score(graph) > alone.score(graph) + 0.2
