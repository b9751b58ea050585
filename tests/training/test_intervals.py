"""Intervals: by hand, against other programs, and draw by draw."""

import math

import numpy as np
import pytest

from h2gcn.training import (
    average_precision,
    bootstrap,
    brier,
    calibration_error,
    confusion_matrix,
    log_loss,
    macro_f1,
    mean_interval,
    per_class,
    percentiles,
    pr_auc,
    rarer_class,
    reliability_bins,
    roc_auc,
    wilson,
)
from support.cases import each

Z = 1.959963984540054


def test_wilson_solves_its_equation():
    """Its ends are the fractions q that are z errors away from the observed one."""
    for hits, n in ((0, 1), (1, 1), (0, 7), (8, 10), (50, 100), (997, 1000), (9, 9)):
        share = hits / n
        a, b, c = 1 + Z**2 / n, -(2 * share + Z**2 / n), share**2
        assert wilson(hits, n) == pytest.approx(np.sort(np.roots([a, b, c])), abs=1e-9)


def test_wilson_by_hand():
    """With z² = 3.8415: (0.8 + 0.19207 ± 1.96 √(0.016 + 0.0096)) / 1.38415."""
    assert wilson(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-5)
    assert wilson(0, 5)[0] == 0.0
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 0) is None


def test_the_interval_of_a_mean():
    values = [0.8, 0.7, 0.9]
    # Student's t of two degrees of freedom: 4.3027; the deviation is 0.1.
    reach = 4.302653 * 0.1 * math.sqrt(1 / 3)
    assert mean_interval(values) == pytest.approx((0.8 - reach, 0.8 + reach), abs=1e-6)
    reach = 4.302653 * 0.1 * math.sqrt(1 / 3 + 0.25)
    expected = (0.8 - reach, 0.8 + reach)
    assert mean_interval(values, 0.25) == pytest.approx(expected, abs=1e-6)
    assert mean_interval([0.8], 0.25) == (-math.inf, math.inf)


def test_percentiles_leave_out_what_has_no_value():
    drawn = np.arange(101.0)
    assert percentiles(drawn) == pytest.approx((2.5, 97.5))
    assert percentiles(np.append(drawn, [np.nan] * 50)) == pytest.approx((2.5, 97.5))
    assert percentiles(np.full(3, np.nan)) is None


def said(n_classes, m, seed):
    """Return classes, logits and probabilities of few values, so that many are equal.

    What is said is not always the likeliest, as with class weights.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, m)
    z = np.round(rng.normal(size=(m, n_classes)) + np.eye(n_classes)[y])
    shares = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    logits = z + np.round(rng.normal(size=(m, n_classes)))
    return y, logits.astype(np.float32), shares.astype(np.float32)


@each(("n_classes", "m"), [(2, 12), (3, 10), (5, 9), (2, 1)])
def test_draws_are_those_of_scoring_one_after_the_other(n_classes, m):
    y, z, p = said(n_classes, m, seed=n_classes)
    found = bootstrap(y, z, p, resamples=60, seed=7)
    assert ("roc_auc" in found) == (n_classes == 2)
    undefined = 0
    rng = np.random.default_rng(7)
    for r in range(60):
        i = rng.integers(0, m, size=m)
        confusion = confusion_matrix(y[i], z[i].argmax(axis=1), n_classes)
        expected = {
            "macro_f1": macro_f1(confusion),
            "log_loss": log_loss(y[i], p[i]),
            "brier": brier(y[i], p[i]),
            "calibration_error": calibration_error(reliability_bins(y[i], p[i])),
            "pr_auc": pr_auc(y[i], p[i]),
        }
        if n_classes == 2:
            # That of the class which is the rarer one of all nodes, in every draw.
            rarer = rarer_class(np.bincount(y, minlength=2))
            expected["pr_auc"] = average_precision(y[i], p[i])[rarer]
            expected["roc_auc"] = roc_auc(y[i], z[i])
            undefined += math.isnan(expected["roc_auc"])
        for name, value in expected.items():
            assert found[name][r] == pytest.approx(value, abs=1e-6, nan_ok=True), name
        f1 = [row["f1"] for row in per_class(confusion)]
        expected_f1 = [math.nan if one is None else one for one in f1]
        assert found["f1"][r] == pytest.approx(expected_f1, nan_ok=True)
    assert undefined == {(2, 1): 60}.get((n_classes, m), 0)


def test_a_seed_draws_the_same_nodes():
    y, z, p = said(3, 20, seed=0)
    one, same, other = (
        bootstrap(y, z, p, resamples=5, seed=seed)["log_loss"] for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_a_class_that_no_node_is_of():
    y, z, p = np.array([0, 0, 1]), np.eye(3)[[0, 0, 1]], np.full((3, 3), 1 / 3)
    found = bootstrap(y, z, p, resamples=20, seed=0)
    assert np.isnan(found["f1"][:, 2]).all()
    assert not np.isnan(found["pr_auc"]).any()
    assert found["macro_f1"].tolist() == [1.0] * 20
