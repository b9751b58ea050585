"""Confidence intervals of scores: Wilson's, Student's t, and the bootstrap.

They are of 95%: what a score would be on other nodes, or splits, like these. Nodes
count as independent; in a graph they are correlated, so the intervals are slightly too
narrow.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn.training.calibration import bin_index
from h2gcn.training.metrics import (
    Probabilities,
    RankedNodes,
    log_losses,
    macro_f1,
    per_class,
    rarer_class,
    squared_errors,
)

__all__ = ["CONFIDENCE", "bootstrap", "mean_interval", "percentiles", "wilson"]

CONFIDENCE = 0.95


def wilson(hits: int, nodes: int) -> tuple[float, float] | None:
    """Return Wilson's interval of the fraction hits / nodes; None without nodes.

    Examples
    --------
    >>> low, high = wilson(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    from scipy.stats import binomtest

    if not nodes:
        return None
    interval = binomtest(hits, nodes).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def mean_interval(values: ArrayLike, overlap: float = 0.0) -> tuple[float, float]:
    """Return the interval of the mean of some scores, or of their differences.

    Student's t; without at least two values it is unbounded. Splits of one graph share
    most of their training nodes, so that their scores vary less than those of new data
    would; Nadeau and Bengio (Machine Learning 52, 2003) add `overlap` to 1 / n for it.

    Parameters
    ----------
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs.
    """
    from scipy.stats import t

    scores = np.asarray(values, dtype=np.float64)
    n = scores.size
    if n < 2:
        return -math.inf, math.inf
    error = float(scores.std(ddof=1)) * math.sqrt(1 / n + overlap)
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    mean = float(scores.mean())
    return mean - half, mean + half


def percentiles(draws: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the interval that holds 95% of the draws that are not NaN, [R], if any."""
    known = draws[~np.isnan(draws)]
    if not known.size:
        return None
    ends = 100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2
    low, high = np.percentile(known, ends)
    return float(low), float(high)


def bootstrap(
    y: NDArray[np.int64],
    logits: NDArray[np.floating],
    probabilities: Probabilities,
    *,
    resamples: int,
    seed: int,
) -> dict[str, NDArray[np.float64]]:
    """Return the scores of nodes that are drawn from these with replacement.

    Parameters
    ----------
    y
        True class indices, [m], at least one.
    logits, probabilities
        [m, C] each.
    resamples
        How often m nodes are drawn, R.

    Returns
    -------
    dict
        `macro_f1`, `roc_auc` (of two classes), `pr_auc`, `log_loss`, `brier` and
        `calibration_error`, [R], and `f1` of each class, [R, C]. NaN where a draw has
        no value, since a class is not among its nodes.
    """
    m, n_classes = probabilities.shape
    nodes, likeliest = np.arange(m), probabilities.argmax(axis=1)
    cells = y * n_classes + logits.argmax(axis=1)  # of the confusion matrix
    losses, errors = log_losses(y, probabilities), squared_errors(y, probabilities)
    largest = probabilities[nodes, likeliest].astype(np.float64)
    bins, gaps = bin_index(largest), largest - (likeliest == y)
    by_class = [RankedNodes(y == c, probabilities[:, c]) for c in range(n_classes)]
    if n_classes == 2:
        by_margin = RankedNodes(y == 1, logits[:, 1] - logits[:, 0])
        by_class = [by_class[rarer_class(np.bincount(y, minlength=2))]]
    rng = np.random.default_rng(seed)
    draws: dict[str, list[object]] = {}
    for _ in range(resamples):
        counts = np.bincount(rng.integers(0, m, size=(m,)), minlength=m)
        totals = np.bincount(cells, weights=counts, minlength=n_classes**2)
        confusion = totals.reshape(n_classes, n_classes).astype(np.int64)
        f1 = [row["f1"] for row in per_class(confusion)]
        scores: dict[str, object] = {
            "log_loss": losses @ counts / m,
            "brier": errors @ counts / m,
            "calibration_error": np.abs(np.bincount(bins, gaps * counts)).sum() / m,
            "macro_f1": macro_f1(confusion),
            "f1": [math.nan if value is None else value for value in f1],
            "pr_auc": _mean([ranked.average_precision(counts) for ranked in by_class]),
        }
        if n_classes == 2:
            scores["roc_auc"] = by_margin.roc_auc(counts)
        for name, score in scores.items():
            draws.setdefault(name, []).append(score)
    return {name: np.array(values, dtype=float) for name, values in draws.items()}


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
