"""Reliability bins by hand, and temperatures against a grid."""

import math

import numpy as np
import pytest

from h2gcn.training import (
    ReliabilityBin,
    calibration_error,
    chance_error,
    class_bins,
    fit_temperature,
    log_loss,
    reliability_bins,
    softmax,
)
from h2gcn.training.calibration import PRIOR_STD, TEMPERATURES


def test_bins_by_hand():
    shares = np.array([[0.5, 0.5], [0.6, 0.4], [0.3, 0.7], [1.0, 0.0]])
    bins = reliability_bins(np.array([0, 1, 1, 0]), shares, n_bins=2)
    # Exactly one half is in the first bin; a tie goes to the first class.
    assert bins == [
        ReliabilityBin(0.0, 0.5, 1, 0.5, 1.0),
        ReliabilityBin(0.5, 1.0, 3, pytest.approx(2.3 / 3), pytest.approx(2 / 3)),
    ]
    assert calibration_error(bins) == pytest.approx((0.5 + (2.3 - 2)) / 4)
    shares = np.array([[0.0, 1.0], [0.1, 0.9], [0.8, 0.2]])
    low, high = class_bins(np.array([1, 0, 0]), shares, 0, n_bins=2)
    assert (low.nodes, low.confidence, low.accuracy) == (2, pytest.approx(0.05), 0.5)
    assert (high.nodes, high.confidence, high.accuracy) == (1, 0.8, 1.0)
    first = reliability_bins(np.array([0]), np.array([[0.9, 0.1]]))[0]
    assert first == ReliabilityBin(0.0, 1 / 15, 0, None, None)
    empty = reliability_bins(np.zeros(0, dtype=np.int64), np.zeros((0, 3)))
    assert math.isnan(calibration_error(empty))
    assert math.isnan(chance_error(empty))


def test_calibration_error_is_that_of_its_definition():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=60)
        shares = rng.dirichlet(np.ones(3), size=60)
        top, right = shares.max(axis=1), shares.argmax(axis=1) == y
        expected = 0.0
        for b in range(15):
            inside = (top > b / 15) & (top <= (b + 1) / 15)
            if inside.any():
                error = abs(top[inside].mean() - right[inside].mean())
                expected += inside.mean() * error
        assert calibration_error(reliability_bins(y, shares)) == pytest.approx(expected)


def test_perfect_probabilities_are_off_by_chance_alone():
    rng = np.random.default_rng(0)
    errors, expected = [], []
    for _ in range(200):
        share = rng.uniform(0.5, 1, size=300)
        y = (rng.random(300) < share).astype(np.int64)
        bins = reliability_bins(y, np.c_[1 - share, share])
        errors.append(calibration_error(bins))
        expected.append(chance_error(bins))
    assert np.mean(expected) == pytest.approx(np.mean(errors), rel=0.1)


def sampled(n, scale):
    """Return logits that are `scale` times those that the labels are drawn by."""
    rng = np.random.default_rng(0)
    true = 2 * rng.normal(size=(n, 3))
    edges = softmax(true).cumsum(axis=1)
    y = (rng.random((n, 1)) > edges[:, :2]).sum(axis=1)
    return scale * true, y


def test_temperature_is_what_logits_are_too_large_by():
    for scale in (0.25, 1.0, 4.0):
        logits, y = sampled(20_000, scale)
        assert fit_temperature(logits, y) == pytest.approx(scale, rel=0.05)


def test_temperature_is_the_best_of_a_grid():
    logits, y = sampled(200, 3.0)

    def cost(t):
        loss = len(y) * log_loss(y, softmax(logits / t))
        return loss + math.log(t) ** 2 / (2 * PRIOR_STD**2)

    fitted = fit_temperature(logits, y)
    best = min(np.exp(np.linspace(*map(math.log, TEMPERATURES), 2000)), key=cost)
    assert fitted == pytest.approx(best, rel=0.01)
    assert cost(fitted) <= cost(best) + 1e-6


def test_temperature_of_few_nodes_stays_near_one():
    right = np.tile([3.0, 0.0], (5, 1))
    assert 0.8 < fit_temperature(right, np.zeros(5, dtype=int)) < 1
    assert 1 < fit_temperature(right, np.ones(5, dtype=int)) < 20
    many = np.tile([0.1, 0.0], (5000, 1))
    assert fit_temperature(many, np.zeros(5000, dtype=int)) < 0.1
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int)) == 1.0
    assert fit_temperature(np.zeros((9, 3)), np.zeros(9, dtype=int)) == 1.0
    assert fit_temperature(np.array([[np.nan, 0.0]]), np.array([1])) == 1.0
