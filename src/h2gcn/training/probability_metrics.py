"""How good probabilities are: pure functions from arrays to numbers.

All of them take the true class indices `y`, [m], and a probability for each class,
[m, C], whose rows sum to one. Without nodes there is no value, and they return NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BINS",
    "ReliabilityBin",
    "average_precision",
    "brier",
    "calibration_error",
    "chance_error",
    "class_bins",
    "log_loss",
    "pr_auc",
    "reliability_bins",
]

BINS = 15
"""Bins of equal width in which probabilities are compared with what came true."""

LEAST = 1e-15
"""What a probability counts as at least, so that its logarithm is finite."""

Probabilities = NDArray[np.floating]
"""A probability for each class, [m, C]."""


def log_loss(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the mean of −log p over nodes, where p is what their true class got.

    Examples
    --------
    >>> round(log_loss(np.array([0, 1]), np.array([[0.5, 0.5], [0.75, 0.25]])), 4)
    1.0397
    """
    if not len(y):
        return float("nan")
    given = probabilities[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.clip(given, LEAST, 1.0)).mean())


def brier(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the mean squared difference between probabilities and what came true.

    For two classes that of class 1, from 0 to 1; for more the sum over all classes,
    from 0 to 2, as scikit-learn has it.
    """
    if not len(y):
        return float("nan")
    given = probabilities[np.arange(len(y)), y].astype(np.float64)
    # The square of what others got, and of what is missing to 1.
    squares = np.square(probabilities, dtype=np.float64).sum(axis=1)
    off = (squares - given**2 + (1 - given) ** 2).mean()
    return float(off / 2 if probabilities.shape[1] == 2 else off)


def average_precision(
    y: NDArray[np.int64], probabilities: Probabilities
) -> list[float]:
    """Return the average precision of each class against all others, [C].

    It is the area under the curve of precision over recall, summed by steps; always
    guessing gives the class's share of the nodes. NaN of a class without nodes.
    """
    from sklearn.metrics import average_precision_score

    return [
        float(average_precision_score(y == c, probabilities[:, c]))
        if (y == c).any()
        else float("nan")
        for c in range(probabilities.shape[1])
    ]


def pr_auc(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the average precision of class 1 of two; of more, the mean of classes.

    Classes that no node is of are left out of the mean.
    """
    found = np.array(average_precision(y, probabilities))
    if len(found) == 2:
        return float(found[1])
    return float(np.nanmean(found)) if len(y) else float("nan")


@dataclass(frozen=True)
class ReliabilityBin:
    """Nodes of which about the same probability was told.

    Parameters
    ----------
    low, high
        Its probabilities are above `low` and at most `high`; 0 is in the first bin.
    nodes
        How many nodes there are.
    confidence
        The mean probability that was told; None without nodes.
    accuracy
        The share of which it came true; None without nodes.
    """

    low: float
    high: float
    nodes: int
    confidence: float | None
    accuracy: float | None


def reliability_bins(
    y: NDArray[np.int64], probabilities: Probabilities, n_bins: int = BINS
) -> list[ReliabilityBin]:
    """Sort nodes by their largest probability into bins of equal width.

    Parameters
    ----------
    y, probabilities
        [m] and [m, C].
    n_bins
        Number of bins from 0 to 1.
    """
    said = probabilities.argmax(axis=1)
    top = probabilities[np.arange(len(y)), said]
    return _bins(top, said == y, n_bins)


def class_bins(
    y: NDArray[np.int64], probabilities: Probabilities, index: int, n_bins: int = BINS
) -> list[ReliabilityBin]:
    """Sort nodes by their probability of one class into bins of equal width.

    Parameters
    ----------
    y, probabilities
        [m] and [m, C].
    index
        The class; it comes true for its nodes.
    n_bins
        Number of bins from 0 to 1.
    """
    return _bins(probabilities[:, index], y == index, n_bins)


def _bins(
    told: Probabilities, came_true: NDArray[np.bool_], n_bins: int
) -> list[ReliabilityBin]:
    place = np.clip(np.ceil(told.astype(np.float64) * n_bins) - 1, 0, n_bins - 1)
    index = place.astype(np.int64)
    counts, sums, hits = (
        np.bincount(index, weights=weights, minlength=n_bins)
        for weights in (None, told.astype(np.float64), came_true.astype(np.float64))
    )
    return [
        ReliabilityBin(
            low=b / n_bins,
            high=(b + 1) / n_bins,
            nodes=int(counts[b]),
            confidence=float(sums[b] / counts[b]) if counts[b] else None,
            accuracy=float(hits[b] / counts[b]) if counts[b] else None,
        )
        for b in range(n_bins)
    ]


def calibration_error(bins: list[ReliabilityBin]) -> float:
    """Return the expected calibration error: by how much the bins are off, by nodes.

    It is the mean of |confidence − accuracy| over bins, weighted by their nodes. Of
    `reliability_bins` it is the usual one, on the largest probability; of
    `class_bins` that of a class.
    """
    return _mean(bins, [abs(one[1] - one[2]) for one in _filled(bins)])


def chance_error(bins: list[ReliabilityBin]) -> float:
    """Return what the calibration error of perfect probabilities would be, by chance.

    A bin of n nodes and confidence c has then an accuracy that differs from c by
    √(2c(1 − c)/πn) in the mean: few nodes never look well calibrated.
    """
    return _mean(
        bins, [np.sqrt(2 * c * (1 - c) / (np.pi * n)) for n, c, _ in _filled(bins)]
    )


def _filled(bins: list[ReliabilityBin]) -> list[tuple[int, float, float]]:
    """Return nodes, confidence and accuracy of the bins that have nodes."""
    return [
        (one.nodes, min(one.confidence, 1.0), one.accuracy)
        for one in bins
        if one.confidence is not None and one.accuracy is not None
    ]


def _mean(bins: list[ReliabilityBin], values: list[float]) -> float:
    """Return the mean of a value of each bin with nodes, weighted by them."""
    counts = [n for n, _, _ in _filled(bins)]
    return float(np.average(values, weights=counts)) if counts else float("nan")
