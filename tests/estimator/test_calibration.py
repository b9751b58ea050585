"""Probabilities become those of the data; labels stay those of the training."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn import Graph, NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import Calibration
from h2gcn.estimator.outputs import training_weights
from h2gcn.exceptions import InputError
from h2gcn.training import fit_temperature, log_loss
from support.cases import each
from support.graphs import adjacency

NODES = np.arange(4)


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def rare() -> Graph:
    """Return a ring of 600 nodes, one in ten of the rare class, hard to tell apart."""
    rng = np.random.default_rng(1)
    n = 600
    y = (np.arange(n) % 10 == 0).astype(int)
    x = rng.normal(size=(n, 3)) + y[:, None]
    return Graph(x=x, adj=adjacency(n, [(i, (i + 1) % n) for i in range(n)]), y=y)


# --------------------------------------------------------------------- class weights


def test_weights_are_undone_by_hand() -> None:
    # Balanced odds of 1 : 1, where class 1 weighed three times as much.
    logits = np.zeros((4, 2), dtype=np.float32)
    y = np.array([0, 0, 0, 1])
    found = Calibration.fit(logits, y, NODES, np.array([1.0, 3.0]))
    assert found.temperature == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(found(logits), [[0.75, 0.25]] * 4, rtol=1e-4)
    np.testing.assert_allclose(found.probabilities, found(logits))


def test_a_class_that_nobody_has_keeps_its_logit() -> None:
    logits = np.zeros((4, 3), dtype=np.float32)
    found = Calibration.fit(logits, np.array([0, 0, 0, 1]), NODES, np.array([1.0, 3.0]))
    assert found.offsets.tolist() == [0.0, math.log(3), 0.0]


def test_weights_are_those_of_training() -> None:
    y, train = np.array([0, 0, 0, 1, -1, 1]), np.arange(4)
    assert training_weights(None, y, train) is None
    found = training_weights("balanced", y, train)
    np.testing.assert_allclose(found, [4 / (2 * 3), 4 / (2 * 1)], rtol=1e-6)


def test_balanced_classes_are_likely_as_in_the_data(rare: Graph) -> None:
    settings = {"epochs": 100, "class_weight": "balanced", "random_state": 0}
    raw = NodeClassifier("mlp", calibrate=False, **settings).fit(rare)
    clf = NodeClassifier("mlp", **settings).fit(rare)
    test = clf.split_.test
    assert raw.predict_proba(rare, test)[:, 1].mean() > 0.25
    assert clf.predict_proba(rare, test)[:, 1].mean() == pytest.approx(0.1, abs=0.05)
    losses = [log_loss(rare.y[test], c.predict_proba(rare, test)) for c in (raw, clf)]
    assert losses[1] < losses[0] - 0.1
    # Decisions are as before: the rare class is said more often than it is likely.
    assert clf.predict(rare).tolist() == raw.predict(rare).tolist()
    assert clf.predict_logits(rare).tobytes() == raw.predict_logits(rare).tobytes()
    said, likely = clf.predict(rare), clf.predict_proba(rare).argmax(axis=1)
    assert (said == 1).sum() > (likely == 1).sum()


# ------------------------------------------------------------------- the classifier


def test_probabilities_are_those_of_the_formula(rare: Graph) -> None:
    clf = NodeClassifier("mlp", epochs=60, class_weight="balanced", random_state=0)
    clf.fit(rare)
    train, found = clf.split_.train, clf.calibration_
    counts = np.bincount(rare.y[train])
    weights = len(train) / (2 * counts)
    np.testing.assert_allclose(found.offsets, np.log(weights), rtol=1e-5)
    z = clf.predict_logits(rare).astype(float)
    expected = softmax((z - np.log(weights)) / found.temperature)
    np.testing.assert_allclose(clf.predict_proba(rare), expected, rtol=1e-4, atol=1e-7)
    assert clf.predict_proba(rare).dtype == np.float32
    held_out = clf.split_.val
    assert found.nodes.tolist() == held_out.tolist()
    assert found.y.tolist() == rare.y[held_out].tolist()
    np.testing.assert_allclose(found.probabilities, expected[held_out], rtol=1e-4)
    best = fit_temperature(z[held_out] - np.log(weights), found.y)
    assert found.temperature == pytest.approx(best, rel=1e-3)


@each("batch_size", [None, 50])
@each("model", ["h2gcn-1", "label-propagation"])
def test_every_model_is_calibrated(model: str, batch_size: int | None) -> None:
    if model == "label-propagation" and batch_size:
        return
    features = GaussianFeatures(3, 1.0)
    graph = generate_graph(n_nodes=300, n_classes=3, features=features, seed=0)
    clf = NodeClassifier(model, epochs=30, batch_size=batch_size, random_state=0)
    clf.fit(graph)
    assert clf.calibration_.temperature != 1.0
    val, test = clf.split_.val, clf.split_.test
    raw = softmax(clf.predict_logits(graph, val).astype(float))
    shares = clf.predict_proba(graph, val)
    assert log_loss(graph.y[val], shares) < log_loss(graph.y[val], raw)
    np.testing.assert_allclose(
        clf.probabilities_of(clf.predict_logits(graph, test)),
        clf.predict_proba(graph, test),
    )


def test_a_saved_model_is_calibrated(rare: Graph, tmp_path: Path) -> None:
    clf = NodeClassifier("mlp", epochs=20, class_weight="balanced", random_state=0)
    clf.fit(rare).save(tmp_path / "m")
    loaded = NodeClassifier.load(tmp_path / "m")
    assert loaded.predict_proba(rare).tobytes() == clf.predict_proba(rare).tobytes()
    for name in ("nodes", "probabilities", "y", "offsets"):
        one, other = (getattr(c.calibration_, name) for c in (clf, loaded))
        assert one.tolist() == other.tolist()
        assert one.dtype == other.dtype
    sets = [c.predict_set(rare, 0.2).tolist() for c in (clf, loaded)]
    assert sets[0] == sets[1]
    rules = [c.decide("macro_f1").gains.tolist() for c in (clf, loaded)]
    assert rules[0] == rules[1]


def test_a_model_without_calibration_gives_the_softmax(
    rare: Graph, tmp_path: Path
) -> None:
    clf = NodeClassifier("mlp", epochs=5, random_state=0).fit(rare)
    clf.calibration_ = None  # as models were before
    clf.save(tmp_path / "m")
    loaded = NodeClassifier.load(tmp_path / "m")
    assert loaded.calibration_ is None
    expected = softmax(clf.predict_logits(rare).astype(float))
    np.testing.assert_allclose(loaded.predict_proba(rare), expected, rtol=1e-5)
    for ask in (lambda: loaded.predict_set(rare), lambda: loaded.decide("macro_f1")):
        with pytest.raises(InputError, match="does not have its validation nodes"):
            ask()
    assert loaded.predict_set(rare, calibration=clf.split_.val).shape == (600, 2)
    rule = loaded.decide("macro_f1", graph=rare, nodes=clf.split_.val)
    assert rule.held_out >= rule.usual


def test_ctrl_c_while_calibrating_keeps_the_model(
    rare: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> Calibration:
        raise KeyboardInterrupt

    monkeypatch.setattr(Calibration, "fit", stop)
    clf = NodeClassifier("mlp", epochs=5, random_state=0).fit(rare)
    assert clf.interrupted_
    assert clf.calibration_ is None
    assert len(clf.history_) == 5
    assert clf.predict_proba(rare).shape == (600, 2)


def test_calibrate_is_a_truth_value(rare: Graph) -> None:
    with pytest.raises(InputError, match=r"^calibrate must be True or False"):
        NodeClassifier("mlp", calibrate="no").fit(rare)


def test_fitting_leaves_torchs_random_numbers_alone(rare: Graph) -> None:
    before = torch.get_rng_state()
    NodeClassifier("mlp", epochs=2, random_state=0).fit(rare)
    assert torch.equal(torch.get_rng_state(), before)
