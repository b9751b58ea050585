"""Scores by hand, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from h2gcn.exceptions import InputError
from h2gcn.training import confusion_matrix, macro_f1, per_class, roc_auc
from h2gcn.training.metrics import METRICS, accuracy, score
from support.cases import each


def random_case(seed: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels in which all classes occur, and scores of them with ties."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=40)]
    # Quarters: equal in single precision where they are equal in double.
    scores = (4 * rng.normal(size=(len(y), n_classes))).round().astype(np.float32) / 4
    return y, scores


# ------------------------------------------------------------------------- accuracy


def test_accuracy_by_hand() -> None:
    scores = np.array([[1, 0, 0], [0, 2, 1], [0, 0, 3], [5, 4, 0]], dtype=np.float32)
    assert accuracy(np.array([0, 1, 2, 0]), scores) == 1.0
    assert accuracy(np.array([0, 2, 2, 1]), scores) == 0.5
    assert accuracy(np.array([1, 0, 0, 2]), scores) == 0.0


def test_a_tie_goes_to_the_first_class() -> None:
    assert accuracy(np.array([0, 1]), np.ones((2, 2), dtype=np.float32)) == 0.5


def test_accuracy_of_nothing_is_nan() -> None:
    assert math.isnan(accuracy(np.array([], dtype=int), np.empty((0, 3))))


@each("seed", range(5))
def test_accuracy_is_scikit_learns(seed: int) -> None:
    y, scores = random_case(seed, 4)
    expected = reference.accuracy_score(y, scores.argmax(axis=1))
    assert accuracy(y, scores) == pytest.approx(expected)


# -------------------------------------------------------------------------- roc_auc


def test_roc_auc_by_hand() -> None:
    y = np.array([0, 0, 1, 1])
    rank = np.array([1.0, 3.0, 2.0, 4.0])
    # Of the four pairs of a 1 and a 0, three are in order.
    assert roc_auc(y, np.c_[np.zeros(4), rank]) == 0.75
    assert roc_auc(y, np.c_[rank, np.zeros(4)]) == 0.25
    assert roc_auc(y, np.c_[rank, rank + y]) == 1.0


@each("seed", range(10))
def test_roc_auc_is_scikit_learns(seed: int) -> None:
    y, scores = random_case(seed, 2)
    powers = np.exp(scores.astype(float))
    probability = powers[:, 1] / powers.sum(axis=1)
    expected = reference.roc_auc_score(y, probability.round(6))
    assert roc_auc(y, scores) == pytest.approx(expected)


@each("label", [0, 1])
def test_roc_auc_of_one_class_is_nan(label: int) -> None:
    assert math.isnan(roc_auc(np.full(4, label), np.eye(4, 2)))


@each("n_classes", [1, 3])
def test_roc_auc_is_for_two_classes(n_classes: int) -> None:
    with pytest.raises(
        InputError,
        match=rf"the metric roc_auc is for two classes; this graph has {n_classes}\.",
    ):
        roc_auc(np.array([0, 0]), np.ones((2, n_classes)))


def test_score_goes_by_name() -> None:
    y, scores = random_case(0, 2)
    assert METRICS == ("accuracy", "macro_f1", "roc_auc", "pr_auc")
    assert score("accuracy", y, scores) == accuracy(y, scores)
    assert score("roc_auc", y, scores) == roc_auc(y, scores)
    assert accuracy(y, scores) != roc_auc(y, scores)


# ---------------------------------------------------------- confusion and macro F1


def test_confusion_by_hand() -> None:
    y = np.array([0, 0, 1, 1, 1])
    predicted = np.array([0, 1, 1, 1, 2])
    expected = [[1, 1, 0], [0, 2, 1], [0, 0, 0]]
    assert confusion_matrix(y, predicted, 3).tolist() == expected
    nothing = np.array([], dtype=int)
    assert confusion_matrix(nothing, nothing, 2).tolist() == [[0, 0], [0, 0]]


@each("seed", range(5))
def test_confusion_and_macro_f1_are_scikit_learns(seed: int) -> None:
    n_classes = 2 + seed
    y, scores = random_case(seed, n_classes)
    predicted = scores.argmax(axis=1)
    confusion = confusion_matrix(y, predicted, n_classes)
    np.testing.assert_array_equal(confusion, reference.confusion_matrix(y, predicted))
    expected = reference.f1_score(y, predicted, average="macro", zero_division=0)
    assert macro_f1(confusion) == pytest.approx(expected)


def test_macro_f1_by_hand() -> None:
    # F1 = 2·hits / (true + predicted): 2/3 and 4/6; a wrong guess is a class of 0.
    confusion = np.array([[1, 1, 0], [0, 2, 1], [0, 0, 0]])
    assert macro_f1(confusion) == pytest.approx((2 / 3 + 4 / 6 + 0) / 3)
    assert macro_f1(np.diag([3, 4])) == 1.0


def test_a_class_that_never_occurs_does_not_count() -> None:
    assert macro_f1(np.diag([3, 4, 0])) == 1.0
    y, predicted = np.array([0, 0, 1]), np.array([0, 1, 1])
    expected = reference.f1_score(y, predicted, average="macro")
    assert macro_f1(confusion_matrix(y, predicted, 5)) == pytest.approx(expected)


def test_macro_f1_of_nothing_is_zero() -> None:
    assert macro_f1(np.zeros((3, 3), dtype=int)) == 0.0


def test_each_class_by_itself_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, predicted = rng.integers(0, 4, (2, 200))
    found = per_class(confusion_matrix(y, predicted, 4))
    expected = reference.precision_recall_fscore_support(y, predicted)
    for key, values in zip(
        ("precision", "recall", "f1", "nodes"), expected, strict=True
    ):
        np.testing.assert_allclose([row[key] for row in found], values)


def test_a_class_that_is_not_there_has_no_share() -> None:
    (never, absent, _) = per_class(np.array([[0, 0, 2], [0, 0, 0], [0, 1, 3]]))
    assert never == {"nodes": 2, "precision": None, "recall": 0.0, "f1": 0.0}
    assert absent == {"nodes": 0, "precision": 0.0, "recall": None, "f1": 0.0}


def test_macro_f1_is_a_metric_by_name() -> None:
    y, scores = np.array([0, 0, 1, 2]), np.eye(3, dtype=np.float32)[[0, 1, 1, 1]]
    assert score("macro_f1", y, scores) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_pr_auc_is_of_the_rarer_class() -> None:
    from h2gcn.training import average_precision, pr_auc

    y = np.array([0, 1, 1, 1, 0, 1])
    rng = np.random.default_rng(0)
    first = rng.random(6)
    shares = np.stack([first, 1 - first], axis=1)
    assert pr_auc(y, shares) == average_precision(y, shares)[0]
    assert pr_auc(1 - y, shares) == average_precision(1 - y, shares)[1]


# --------------------------------------------------------------------------- pr_auc


@each("seed", range(5))
@each("rare", [0, 1])
def test_pr_auc_chooses_by_the_rarer_class(seed: int, rare: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(60) < 0.2, rare, 1 - rare)
    logits = rng.normal(size=(60, 2)).astype(np.float32)
    ahead = logits[:, rare] - logits[:, 1 - rare]
    expected = reference.average_precision_score(y == rare, ahead)
    assert score("pr_auc", y, logits) == pytest.approx(expected)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert score("pr_auc", y, shares) == pytest.approx(expected)


def test_pr_auc_as_a_metric_is_for_two_classes_that_are_there() -> None:
    assert math.isnan(score("pr_auc", np.zeros(3, int), np.eye(3, 2)))
    with pytest.raises(
        InputError, match=r"the metric pr_auc is for two classes; this graph has 3\."
    ):
        score("pr_auc", np.array([0, 1]), np.ones((2, 3)))
