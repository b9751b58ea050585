"""Probabilities by class and by degree."""

import json

import numpy as np
import pytest

from h2gcn.estimator import ProbabilityScores
from h2gcn.training import calibration_error, class_bins, log_loss, reliability_bins

Y = np.array([0, 1, 1, 0, 2])
SHARES = np.array(
    [
        [0.7, 0.2, 0.1],
        [0.3, 0.6, 0.1],
        [0.5, 0.4, 0.1],
        [0.9, 0.1, 0.0],
        [0.1, 0.8, 0.1],
    ]
)


def test_by_degree() -> None:
    found = ProbabilityScores.of(Y, SHARES, np.array([0, 1, 4, 2, 15]))
    few, some, more, many = found.by_degree
    assert [one.name for one in found.by_degree] == ["0–1", "2–4", "5–15", "16+"]
    assert (few.nodes, few.confidence, few.accuracy) == (2, pytest.approx(0.65), 1.0)
    assert (some.nodes, some.confidence, some.accuracy) == (2, pytest.approx(0.7), 0.5)
    assert (more.nodes, more.confidence, more.accuracy) == (1, pytest.approx(0.8), 0.0)
    # 0.7 and 0.6 are in bins of their own, and were right.
    assert few.calibration_error == pytest.approx((0.3 + 0.4) / 2)
    assert (many.nodes, many.confidence, many.calibration_error) == (0, None, None)


def test_by_class() -> None:
    found = ProbabilityScores.of(Y, SHARES, np.zeros(5, dtype=int))
    for c, one in enumerate(found.by_class):
        assert one.nodes == (c == Y).sum()
        assert one.confidence == pytest.approx(SHARES[:, c].mean())
        assert one.accuracy == pytest.approx((c == Y).mean())
        expected = calibration_error(class_bins(Y, SHARES, c))
        assert one.calibration_error == pytest.approx(expected)


def test_in_all() -> None:
    found = ProbabilityScores.of(Y, SHARES, np.zeros(5, dtype=int))
    assert found.log_loss == log_loss(Y, SHARES)
    assert list(found.bins) == reliability_bins(Y, SHARES)
    assert found.calibration_error == calibration_error(list(found.bins))


def test_the_area_of_all_classes() -> None:
    two = ProbabilityScores.of(np.array([0, 1, 0]), SHARES[:3, :2], np.zeros(3))
    assert two.mean_pr_auc == two.pr_auc[1]
    found = ProbabilityScores.of(np.array([0, 1, 1]), SHARES[:3], np.zeros(3))
    assert found.pr_auc[2] is None
    assert found.mean_pr_auc == pytest.approx(np.mean(found.pr_auc[:2]))


def test_as_json() -> None:
    y = np.array([0, 1])
    found = ProbabilityScores.of(y, SHARES[:2], np.zeros(2, dtype=int))
    told = json.loads(json.dumps(found.to_json(["a", "b", "c"]), allow_nan=False))
    assert told["pr_auc"] == {"a": 1.0, "b": 1.0, "c": None}
    assert [one["name"] for one in told["by_class"]] == ["a", "b", "c"]
    assert told["bins"][0] == {
        **{"low": 0.0, "high": pytest.approx(1 / 15)},
        **{"nodes": 0, "confidence": None, "accuracy": None},
    }
