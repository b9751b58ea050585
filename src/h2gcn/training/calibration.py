"""Calibration of probabilities: reliability bins, and the temperature of logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from h2gcn.training.metrics import Probabilities

__all__ = [
    "BINS",
    "PRIOR_STD",
    "TEMPERATURES",
    "ReliabilityBin",
    "bin_index",
    "calibration_error",
    "chance_error",
    "class_bins",
    "fit_temperature",
    "reliability_bins",
    "softmax",
]

BINS = 15  # of equal width


@dataclass(frozen=True)
class ReliabilityBin:
    """Nodes with about the same predicted probability.

    It is above `low` and at most `high`; 0 is in the first bin.
    """

    low: float
    high: float
    nodes: int
    confidence: float | None  # the mean predicted probability; None without nodes
    accuracy: float | None  # the fraction for which it came true; None without nodes


def reliability_bins(
    y: NDArray[np.int64], probabilities: Probabilities, n_bins: int = BINS
) -> list[ReliabilityBin]:
    """Sort nodes by their largest probability into bins of equal width from 0 to 1."""
    predicted = probabilities.argmax(axis=1)
    largest = probabilities[np.arange(len(y)), predicted]
    return _bins(largest, predicted == y, n_bins)


def class_bins(
    y: NDArray[np.int64], probabilities: Probabilities, index: int, n_bins: int = BINS
) -> list[ReliabilityBin]:
    """Sort nodes by their probability of class `index` into bins of equal width."""
    return _bins(probabilities[:, index], y == index, n_bins)


def bin_index(predicted: Probabilities, n_bins: int = BINS) -> NDArray[np.int64]:
    """Return the bin of each probability, [m]."""
    index = np.ceil(predicted.astype(np.float64) * n_bins) - 1
    return np.asarray(np.clip(index, 0, n_bins - 1), dtype=np.int64)


def _bins(
    predicted: Probabilities, is_true: NDArray[np.bool_], n_bins: int
) -> list[ReliabilityBin]:
    predicted = predicted.astype(np.float64)
    index = bin_index(predicted, n_bins)
    counts, sums, hits = (
        np.bincount(index, weights=weights, minlength=n_bins)
        for weights in (None, predicted, is_true.astype(np.float64))
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
    """Return the expected calibration error: the mean |confidence − accuracy| by nodes.

    Of `reliability_bins` it is the usual one, on the largest probability; of
    `class_bins` that of a class.
    """
    return _mean(bins, lambda _, confidence, accuracy: abs(confidence - accuracy))


def chance_error(bins: list[ReliabilityBin]) -> float:
    """Return the calibration error that perfect probabilities would have by chance.

    The accuracy of a bin of n nodes and confidence c then differs from c by
    √(2c(1 − c)/πn) in the mean: few nodes never look well calibrated.
    """
    return _mean(bins, lambda n, c, _: math.sqrt(2 * c * (1 - c) / (math.pi * n)))


def _mean(
    bins: list[ReliabilityBin], error: Callable[[int, float, float], float]
) -> float:
    """Return the mean error by nodes, given the nodes, confidence and accuracy."""
    total = sum(b.nodes for b in bins)
    weighted = sum(
        b.nodes * error(b.nodes, min(b.confidence, 1.0), b.accuracy)
        for b in bins
        if b.confidence is not None and b.accuracy is not None
    )
    return weighted / total if total else math.nan


TEMPERATURES = (0.05, 20.0)  # the smallest and the largest

# Standard deviation of the log-normal prior of temperatures. A handful of nodes that
# are all right would ask for T = 0; with this prior (T within a factor of 2.7 in 95% of
# cases) five such nodes hardly move it, and a hundred have their way.
PRIOR_STD = 0.5


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probabilities of logits in 64 bits, of the same shape.

    Examples
    --------
    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    values = torch.from_numpy(np.ascontiguousarray(logits, dtype=np.float64))
    return torch.softmax(values, dim=-1).numpy()


def fit_temperature(logits: NDArray[np.floating], y: NDArray[np.int64]) -> float:
    """Return the temperature T with which softmax(logits / T) fits held-out nodes best.

    It minimizes the log-loss summed over the nodes, plus (log T)²/2s², the logarithm of
    a log-normal prior around 1 with s = 0.5.

    Parameters
    ----------
    logits
        Of the held-out nodes, [m, C], with class weights undone.

    Examples
    --------
    Of two classes, each node is three times as likely to be of the predicted one, so
    logits of log 9 are twice too large:

    >>> logits = np.tile([np.log(9.0), 0.0], (4000, 1))
    >>> round(fit_temperature(logits, np.arange(4000) % 4 // 3), 1)
    2.0
    """
    from scipy.optimize import minimize_scalar

    if not len(y) or not np.isfinite(logits).all():
        return 1.0
    scores, labels = torch.from_numpy(logits.astype(np.float64)), torch.from_numpy(y)

    def cost(log_t: float) -> float:
        cooled = scores / math.exp(log_t)
        loss = functional.cross_entropy(cooled, labels, reduction="sum")
        return loss.item() + log_t**2 / (2 * PRIOR_STD**2)

    low, high = map(math.log, TEMPERATURES)
    result = minimize_scalar(
        cost, bounds=(low, high), method="bounded", options={"xatol": 1e-6}
    )
    # Where nothing is gained, nothing is changed.
    return math.exp(result.x) if result.fun < cost(0.0) else 1.0
