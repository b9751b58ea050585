"""Scores of predictions and probabilities: by hand, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from h2gcn.exceptions import InputError
from h2gcn.training import (
    average_precision,
    brier,
    confusion_matrix,
    log_loss,
    macro_f1,
    per_class,
    pr_auc,
    roc_auc,
)
from h2gcn.training.metrics import METRICS, accuracy, score

NO_NODES = np.zeros(0, dtype=np.int64)


def random_scores(seed, n_classes):
    """Return labels in which all classes occur, and scores with ties."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=40)]
    # Quarters: equal in single precision where they are equal in double.
    scores = (4 * rng.normal(size=(len(y), n_classes))).round().astype(np.float32) / 4
    return y, scores


def random_probabilities(seed, n_classes):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=60)]
    return y, rng.dirichlet(np.ones(n_classes), size=len(y))


def softmax(logits):
    powers = np.exp(logits.astype(float))
    return powers / powers.sum(axis=1, keepdims=True)


def test_accuracy():
    scores = np.array([[1, 0, 0], [0, 2, 1], [0, 0, 3], [5, 4, 0]], dtype=np.float32)
    assert accuracy(np.array([0, 1, 2, 0]), scores) == 1.0
    assert accuracy(np.array([0, 2, 2, 1]), scores) == 0.5
    assert accuracy(np.array([1, 0, 0, 2]), scores) == 0.0
    ties = np.ones((2, 2), dtype=np.float32)
    assert accuracy(np.array([0, 1]), ties) == 0.5, "a tie goes to the first class"
    assert math.isnan(accuracy(NO_NODES, np.empty((0, 3))))
    for seed in range(5):
        y, scores = random_scores(seed, 4)
        expected = reference.accuracy_score(y, scores.argmax(axis=1))
        assert accuracy(y, scores) == pytest.approx(expected)


def test_roc_auc():
    y, rank = np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 2.0, 4.0])
    # Of the four pairs of a 1 and a 0, three are in order.
    assert roc_auc(y, np.c_[np.zeros(4), rank]) == 0.75
    assert roc_auc(y, np.c_[rank, np.zeros(4)]) == 0.25
    assert roc_auc(y, np.c_[rank, rank + y]) == 1.0
    for seed in range(10):
        y, scores = random_scores(seed, 2)
        expected = reference.roc_auc_score(y, softmax(scores)[:, 1].round(6))
        assert roc_auc(y, scores) == pytest.approx(expected)
    for label in (0, 1):
        assert math.isnan(roc_auc(np.full(4, label), np.eye(4, 2)))


def test_confusion_matrix_and_macro_f1():
    y, predicted = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 2])
    confusion = confusion_matrix(y, predicted, 3)
    assert confusion.tolist() == [[1, 1, 0], [0, 2, 1], [0, 0, 0]]
    assert confusion_matrix(NO_NODES, NO_NODES, 2).tolist() == [[0, 0], [0, 0]]
    # F1 = 2·hits / (true + predicted): 2/3 and 4/6; a wrong guess is a class of 0.
    assert macro_f1(confusion) == pytest.approx((2 / 3 + 4 / 6 + 0) / 3)
    assert macro_f1(np.diag([3, 4, 0])) == 1.0, "a class that never occurs"
    assert macro_f1(np.zeros((3, 3), dtype=int)) == 0.0
    for n_classes in range(2, 7):
        y, scores = random_scores(n_classes, n_classes)
        predicted = scores.argmax(axis=1)
        confusion = confusion_matrix(y, predicted, n_classes)
        expected = reference.confusion_matrix(y, predicted)
        np.testing.assert_array_equal(confusion, expected)
        f1 = reference.f1_score(y, predicted, average="macro", zero_division=0)
        assert macro_f1(confusion) == pytest.approx(f1)


def test_per_class():
    y, predicted = np.random.default_rng(0).integers(0, 4, (2, 200))
    rows = per_class(confusion_matrix(y, predicted, 4))
    expected = reference.precision_recall_fscore_support(y, predicted)
    for key, values in zip(
        ("precision", "recall", "f1", "nodes"), expected, strict=True
    ):
        np.testing.assert_allclose([row[key] for row in rows], values)
    (never, absent, _) = per_class(np.array([[0, 0, 2], [0, 0, 0], [0, 1, 3]]))
    assert never == {"nodes": 2, "precision": None, "recall": 0.0, "f1": 0.0}
    assert absent == {"nodes": 0, "precision": 0.0, "recall": None, "f1": 0.0}


def test_average_precision_and_pr_auc():
    y, first = np.array([1, 0, 1, 0]), np.array([0.1, 0.2, 0.3, 0.9])
    # The two of class 1 are ranked first and third: half of (1/1 + 2/3).
    found = average_precision(y, np.c_[first, 1 - first])
    assert found == pytest.approx([(1 + 2 / 3) / 2] * 2)
    for n_classes, decimals in ((2, 9), (2, 1), (4, 9)):  # one decimal gives ties
        y, shares = random_probabilities(7, n_classes)
        shares = shares.round(decimals)
        expected = [
            reference.average_precision_score(y == c, shares[:, c])
            for c in range(n_classes)
        ]
        assert average_precision(y, shares) == pytest.approx(expected)
        mean = np.mean(expected)
        if n_classes == 2:
            mean = expected[int(np.bincount(y).argmin())]  # of the rarer class
        assert pr_auc(y, shares) == pytest.approx(mean)
    y, shares = np.array([0, 1]), np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    assert average_precision(y, shares)[:2] == [1.0, 1.0]
    assert math.isnan(average_precision(y, shares)[2]), "no nodes of the class"
    assert pr_auc(y, shares) == 1.0


def test_score_by_name():
    assert METRICS == ("accuracy", "macro_f1", "roc_auc", "pr_auc")
    y, scores = random_scores(0, 2)
    assert score("accuracy", y, scores) == accuracy(y, scores) != roc_auc(y, scores)
    assert score("roc_auc", y, scores) == roc_auc(y, scores)
    y, scores = np.array([0, 0, 1, 2]), np.eye(3, dtype=np.float32)[[0, 1, 1, 1]]
    assert score("macro_f1", y, scores) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    for seed in range(5):
        rng, rare = np.random.default_rng(seed), seed % 2
        y = np.where(rng.random(60) < 0.2, rare, 1 - rare)
        logits = rng.normal(size=(60, 2)).astype(np.float32)
        margin = logits[:, rare] - logits[:, 1 - rare]
        expected = reference.average_precision_score(y == rare, margin)
        assert score("pr_auc", y, logits) == pytest.approx(expected)
        assert score("pr_auc", y, softmax(logits)) == pytest.approx(expected)
    assert math.isnan(score("pr_auc", np.zeros(3, int), np.eye(3, 2)))
    for metric in ("roc_auc", "pr_auc"):
        for n_classes in (1, 3):
            with pytest.raises(
                InputError, match=f"{metric} is for two classes; this .* {n_classes}"
            ):
                score(metric, np.array([0, 0]), np.ones((2, n_classes)))


def test_log_loss_and_brier():
    shares = np.array([[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]])
    expected = (math.log(2) + math.log(4) + 0) / 3
    assert log_loss(np.array([0, 1, 1]), shares) == pytest.approx(expected)
    impossible = log_loss(np.array([0]), np.array([[0.0, 1.0]]))
    assert impossible == pytest.approx(15 * math.log(10)), "much, and not infinite"
    two = np.array([[0.5, 0.5], [0.8, 0.2]])
    assert brier(np.array([0, 1]), two) == pytest.approx((0.25 + 0.64) / 2)
    three = np.array([[0.5, 0.3, 0.2]])
    assert brier(np.array([1]), three) == pytest.approx(0.25 + 0.49 + 0.04)
    for n_classes in (2, 3, 5):
        y, shares = random_probabilities(n_classes, n_classes)
        assert log_loss(y, shares) == pytest.approx(reference.log_loss(y, shares))
        expected = ((shares - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean()
        if n_classes == 2:
            expected = reference.brier_score_loss(y, shares[:, 1])
        assert brier(y, shares) == pytest.approx(expected)
    for undefined in (log_loss, brier, pr_auc):
        assert math.isnan(undefined(NO_NODES, np.zeros((0, 3))))
