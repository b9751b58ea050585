"""Scores of probabilities by hand, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from h2gcn.training import (
    ReliabilityBin,
    average_precision,
    brier,
    calibration_error,
    chance_error,
    class_bins,
    log_loss,
    pr_auc,
    reliability_bins,
)
from support.cases import each

NOBODY = np.zeros(0, dtype=np.int64)


def random_case(seed: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels in which all classes occur, and probabilities."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=60)]
    return y, rng.dirichlet(np.ones(n_classes), size=len(y))


# ---------------------------------------------------------------- log-loss and Brier


def test_log_loss_by_hand() -> None:
    shares = np.array([[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]])
    expected = (math.log(2) + math.log(4) + 0) / 3
    assert log_loss(np.array([0, 1, 1]), shares) == pytest.approx(expected)


def test_what_was_said_to_be_impossible_costs_much_and_not_all() -> None:
    loss = log_loss(np.array([0]), np.array([[0.0, 1.0]]))
    assert loss == pytest.approx(15 * math.log(10))


def test_brier_by_hand() -> None:
    two = np.array([[0.5, 0.5], [0.8, 0.2]])
    assert brier(np.array([0, 1]), two) == pytest.approx((0.25 + 0.64) / 2)
    three = np.array([[0.5, 0.3, 0.2]])
    assert brier(np.array([1]), three) == pytest.approx(0.25 + 0.49 + 0.04)


@each("n_classes", [2, 3, 5])
def test_log_loss_and_brier_are_scikit_learns(n_classes: int) -> None:
    y, shares = random_case(n_classes, n_classes)
    assert log_loss(y, shares) == pytest.approx(reference.log_loss(y, shares))
    if n_classes == 2:
        expected = reference.brier_score_loss(y, shares[:, 1])
    else:
        expected = ((shares - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean()
    assert brier(y, shares) == pytest.approx(expected)


def test_nothing_has_no_score() -> None:
    for score in (log_loss, brier, pr_auc):
        assert math.isnan(score(NOBODY, np.zeros((0, 3))))
    bins = reliability_bins(NOBODY, np.zeros((0, 3)))
    assert math.isnan(calibration_error(bins))
    assert math.isnan(chance_error(bins))


# --------------------------------------------------------- the area under precision


def test_average_precision_by_hand() -> None:
    y = np.array([1, 0, 1, 0])
    shares = np.array([0.9, 0.8, 0.7, 0.1])
    # The two of class 1 are found first and third: half of (1/1 + 2/3).
    found = average_precision(y, np.c_[1 - shares, shares])
    assert found[1] == pytest.approx((1 + 2 / 3) / 2)
    assert found[0] == pytest.approx((1 + 2 / 3) / 2)


@each("n_classes", [2, 4])
def test_pr_auc_is_scikit_learns(n_classes: int) -> None:
    y, shares = random_case(7, n_classes)
    expected = [
        reference.average_precision_score(y == c, shares[:, c])
        for c in range(n_classes)
    ]
    assert average_precision(y, shares) == pytest.approx(expected)
    whole = np.mean(expected)
    if n_classes == 2:  # of the rarer one
        whole = expected[int(np.bincount(y).argmin())]
    assert pr_auc(y, shares) == pytest.approx(whole)


def test_equal_probabilities_are_found_together() -> None:
    y, shares = random_case(3, 2)
    coarse = shares.round(1)
    expected = reference.average_precision_score(y == 1, coarse[:, 1])
    assert len(np.unique(coarse[:, 1])) < len(y)
    assert average_precision(y, coarse)[1] == pytest.approx(expected)


def test_a_class_without_nodes_has_no_area_and_does_not_count() -> None:
    y, shares = np.array([0, 1]), np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    found = average_precision(y, shares)
    assert found[:2] == [1.0, 1.0]
    assert math.isnan(found[2])
    assert pr_auc(y, shares) == 1.0


# ------------------------------------------------------------------------- bins


def test_bins_by_hand() -> None:
    shares = np.array([[0.5, 0.5], [0.6, 0.4], [0.3, 0.7], [1.0, 0.0]])
    bins = reliability_bins(np.array([0, 1, 1, 0]), shares, n_bins=2)
    # Exactly one half is in the first bin; of a tie the first class is said.
    assert bins == [
        ReliabilityBin(0.0, 0.5, 1, 0.5, 1.0),
        ReliabilityBin(0.5, 1.0, 3, pytest.approx(2.3 / 3), pytest.approx(2 / 3)),
    ]
    off = (0.5 + (2.3 - 2)) / 4
    assert calibration_error(bins) == pytest.approx(off)


def test_bins_of_a_class_by_hand() -> None:
    shares = np.array([[0.0, 1.0], [0.1, 0.9], [0.8, 0.2]])
    low, high = class_bins(np.array([1, 0, 0]), shares, 0, n_bins=2)
    assert (low.nodes, low.confidence, low.accuracy) == (2, pytest.approx(0.05), 0.5)
    assert (high.nodes, high.confidence, high.accuracy) == (1, 0.8, 1.0)


def test_an_empty_bin_has_no_shares() -> None:
    first = reliability_bins(np.array([0]), np.array([[0.9, 0.1]]))[0]
    assert first == ReliabilityBin(0.0, 1 / 15, 0, None, None)


@each("seed", range(3))
def test_the_calibration_error_is_that_of_its_definition(seed: int) -> None:
    y, shares = random_case(seed, 3)
    top, right = shares.max(axis=1), shares.argmax(axis=1) == y
    expected = 0.0
    for b in range(15):
        inside = (top > b / 15) & (top <= (b + 1) / 15)
        if inside.any():
            off = abs(top[inside].mean() - right[inside].mean())
            expected += inside.mean() * off
    assert calibration_error(reliability_bins(y, shares)) == pytest.approx(expected)


def test_perfect_probabilities_are_off_by_chance_alone() -> None:
    rng = np.random.default_rng(0)
    found, told = [], []
    for _ in range(200):
        share = rng.uniform(0.5, 1, size=300)
        y = (rng.random(300) < share).astype(np.int64)
        bins = reliability_bins(y, np.c_[1 - share, share])
        found.append(calibration_error(bins))
        told.append(chance_error(bins))
    assert np.mean(told) == pytest.approx(np.mean(found), rel=0.1)
