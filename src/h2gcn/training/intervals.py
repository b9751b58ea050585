"""How sure a score is: between what it would be on other nodes, or splits, like these.

Intervals of 95 %. Nodes count as if they were drawn one by one; where neighbours hang
together there is less in them than their number says, and intervals are a little too
narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, t

from h2gcn.training.metrics import (
    BINS,
    Probabilities,
    bin_numbers,
    log_losses,
    rarer_class,
    squared_errors,
)

__all__ = ["CONFIDENCE", "bootstrap", "mean_interval", "percentiles", "wilson"]

CONFIDENCE = 0.95
"""How often an interval holds what it is about."""

CELLS = 2**18
"""Nodes times draws that are added up at a time: what fits into a processor's cache."""


def wilson(hits: int, nodes: int) -> tuple[float, float] | None:
    """Return Wilson's interval of a share; None without nodes.

    Parameters
    ----------
    hits
        How often it came true.
    nodes
        Of how many.

    Examples
    --------
    >>> low, high = wilson(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    if not nodes:
        return None
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    share, pull = hits / nodes, z**2 / nodes
    middle = (share + pull / 2) / (1 + pull)
    reach = z * math.sqrt(share * (1 - share) / nodes + pull / (4 * nodes)) / (1 + pull)
    # At the ends the two are equal, but for the last bits.
    low = 0.0 if hits == 0 else middle - reach
    return low, 1.0 if hits == nodes else middle + reach


def mean_interval(values: ArrayLike, overlap: float = 0.0) -> tuple[float, float]:
    """Return the interval of the mean of some scores, or of their differences.

    Student's t; without at least two values it is unbounded. Splits of one graph share
    most of their training nodes, so that their scores vary less than those of new data
    would; Nadeau and Bengio (Machine Learning 52, 2003) add `overlap` to 1 / n for it.

    Parameters
    ----------
    values
        One for each run, [n].
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs.
    """
    given = np.asarray(values, dtype=np.float64)
    n = given.size
    if n < 2:
        return -math.inf, math.inf
    error = float(given.std(ddof=1)) * math.sqrt(1 / n + overlap)
    reach = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    mean = float(given.mean())
    return mean - reach, mean + reach


def percentiles(drawn: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return between what 95 of 100 draws lie; None where no draw has a value, [R]."""
    known = drawn[~np.isnan(drawn)]
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
    """Return what scores are on nodes that are drawn from these, with replacement.

    Parameters
    ----------
    y
        True class indices, [m], at least one.
    logits, probabilities
        What is said of each node, and with what probabilities, [m, C].
    resamples
        How often m nodes are drawn, R.
    seed
        The same seed draws the same nodes.

    Returns
    -------
    dict
        `macro_f1`, `roc_auc` (of two classes), `pr_auc`, `log_loss`, `brier` and
        `calibration_error`, [R], and `f1` of each class, [R, C]. NaN where a draw has
        no value, since a class is not among its nodes.
    """
    m, n_classes = probabilities.shape
    sums = _sums(y, logits, probabilities)
    curves = [_Curve(y == c, probabilities[:, c]) for c in range(n_classes)]
    order = None
    if n_classes == 2:
        order = _Curve(y == 1, logits[:, 1] - logits[:, 0])
        curves = [curves[rarer_class(np.bincount(y, minlength=2))]]
    found: dict[str, list[NDArray[np.float64]]] = {}
    for drawn in _draws(m, resamples, seed):
        totals = sums @ drawn
        off, cells = totals[2 : 2 + BINS], totals[2 + BINS :]
        f1, macro = _f1(cells.reshape(n_classes, n_classes, -1))
        part = {
            "log_loss": totals[0] / m,
            "brier": totals[1] / m,
            "calibration_error": np.abs(off).sum(axis=0) / m,
            "macro_f1": macro,
            "f1": f1.T,
            "pr_auc": _mean([curve.average_precision(drawn) for curve in curves]),
        }
        if order is not None:
            part["roc_auc"] = order.roc_auc(drawn)
        for name, values in part.items():
            found.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _draws(m: int, resamples: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Yield how often each node is in each draw, some draws at a time, [m, b]."""
    rng = np.random.default_rng(seed)
    size = max(CELLS // m, 1)
    for first in range(0, resamples, size):
        b = min(size, resamples - first)
        nodes = rng.integers(0, m, size=(b, m))
        places = nodes * b + np.arange(b)[:, None]
        counts = np.bincount(places.ravel(), minlength=m * b)
        yield counts.reshape(m, b).astype(np.int32)


def _sums(
    y: NDArray[np.int64], logits: NDArray[np.floating], probabilities: Probabilities
) -> sp.csr_array:
    """Return what is added up over nodes, a row each, [2 + BINS + C², m].

    The log-loss, the Brier score, by how much the largest probability is too large in
    each bin, and the cells of the confusion matrix.
    """
    m, n_classes = probabilities.shape
    nodes = np.arange(m)
    likeliest = probabilities.argmax(axis=1)
    top = probabilities[nodes, likeliest].astype(np.float64)
    rows = [
        (np.zeros(m, dtype=np.int64), log_losses(y, probabilities)),
        (np.ones(m, dtype=np.int64), squared_errors(y, probabilities)),
        (2 + bin_numbers(top), top - (likeliest == y)),
        (2 + BINS + y * n_classes + logits.argmax(axis=1), np.ones(m)),
    ]
    values = np.concatenate([value for _, value in rows])
    places = np.concatenate([place for place, _ in rows]), np.tile(nodes, len(rows))
    return sp.csr_array((values, places), shape=(2 + BINS + n_classes**2, m))


def _f1(
    confusions: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the F1 of each class, [C, b], and their mean, of confusions [C, C, b]."""
    hits = np.einsum("iib->ib", confusions)
    total = confusions.sum(axis=0) + confusions.sum(axis=1)
    f1 = np.full(hits.shape, np.nan)
    np.divide(2 * hits, total, out=f1, where=total > 0)
    return f1, _mean(list(f1))


def _mean(rows: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean of rows, what has no value left out, [b]."""
    values = np.stack(rows)
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    mean = np.full(values.shape[1], np.nan)
    np.divide(np.where(known, values, 0).sum(axis=0), count, out=mean, where=count > 0)
    return mean


class _Curve:
    """Nodes in the order of a score, to be weighted in many ways.

    Parameters
    ----------
    ones
        Which nodes are of the class, [m].
    scores
        How much each is said to be, [m].
    """

    def __init__(self, ones: NDArray[np.bool_], scores: NDArray[np.floating]) -> None:
        self._order = np.argsort(-scores, kind="stable")
        self._ones = ones[self._order]
        ranked = -scores[self._order]
        mine = ranked[self._ones]
        # Of each node of the class: how many have a higher score, and how many at
        # least its own; and how many of the class have.
        self._before = np.searchsorted(ranked, mine, side="left")
        self._until = np.searchsorted(ranked, mine, side="right")
        self._own = np.searchsorted(mine, mine, side="right")

    def average_precision(self, drawn: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the average precision of each draw; NaN without nodes, [b]."""
        ranked = drawn[self._order]
        mine = ranked[self._ones]
        if not len(mine):
            return np.full(drawn.shape[1], np.nan)
        hits = np.cumsum(mine, axis=0, dtype=np.int32)[self._own - 1]
        said = np.cumsum(ranked, axis=0, dtype=np.int32)[self._until - 1]
        precision = np.zeros(mine.shape)
        np.divide(hits, said, out=precision, where=said > 0)
        return _shares((mine * precision).sum(axis=0), mine.sum(axis=0))

    def roc_auc(self, drawn: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the area under the ROC curve of each draw; NaN of one class, [b]."""
        ranked = drawn[self._order]
        mine = ranked[self._ones]
        others = np.zeros((len(ranked) + 1, ranked.shape[1]), dtype=np.int64)
        np.cumsum(ranked * ~self._ones[:, None], axis=0, out=others[1:])
        total = others[-1]
        # Twice: those of other classes below, and half of those beside.
        below = 2 * total - others[self._before] - others[self._until]
        right = (mine * below).sum(axis=0) / 2
        return _shares(right, mine.sum(axis=0) * total)


def _shares(
    parts: NDArray[np.floating], wholes: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return parts of wholes; NaN where there is no whole, [b]."""
    shares = np.full(len(parts), np.nan)
    np.divide(parts, wholes, out=shares, where=wholes > 0)
    return shares
