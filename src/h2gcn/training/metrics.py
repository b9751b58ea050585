"""Scores of predictions and of probabilities, and how sure each of them is.

They take the true class indices `y`, [m]. Those of probabilities take one for each
class, [m, C], whose rows sum to one; without nodes there is no value, and they return
NaN.

Intervals are of 95 %: what a score would be on other nodes, or splits, like these.
Nodes count as if they were drawn one by one; where neighbours hang together there is
less in them than their number says, and intervals are a little too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray

from h2gcn.exceptions import InputError

__all__ = [
    "BINS",
    "CONFIDENCE",
    "METRICS",
    "OF_TWO_CLASSES",
    "SPREAD",
    "TEMPERATURES",
    "ReliabilityBin",
    "accuracy",
    "average_precision",
    "bin_numbers",
    "bootstrap",
    "brier",
    "calibration_error",
    "chance_error",
    "class_bins",
    "confusion_matrix",
    "fit_temperature",
    "log_loss",
    "log_losses",
    "macro_f1",
    "mean_interval",
    "per_class",
    "percentiles",
    "pr_auc",
    "rarer_class",
    "reliability_bins",
    "roc_auc",
    "score",
    "softmax",
    "squared_errors",
    "wilson",
]

METRICS = ("accuracy", "macro_f1", "roc_auc", "pr_auc")
OF_TWO_CLASSES = ("roc_auc", "pr_auc")
"""Those that rank nodes: they have a value where both of two classes are."""


def accuracy(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the share of nodes whose largest score is their class's.

    Parameters
    ----------
    y
        True class indices, [m].
    scores
        Logits or probabilities, [m, C].
    """
    return float((scores.argmax(axis=1) == y).mean()) if len(y) else float("nan")


def roc_auc(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the area under the ROC curve of class 1 against class 0.

    NaN where one of the two classes is absent: there is no curve then. It is the share
    of pairs of both classes that are in the right order, equal ones counted half,
    found by ranks.
    """
    _check_two("roc_auc", scores)
    ones = y == 1
    n_ones = int(ones.sum())
    n_pairs = n_ones * (len(y) - n_ones)
    if not n_pairs:
        return float("nan")
    _, place, equal = np.unique(
        scores[:, 1] - scores[:, 0], return_inverse=True, return_counts=True
    )
    ranks = (np.cumsum(equal) - (equal - 1) / 2)[place]
    return float((ranks[ones].sum() - n_ones * (n_ones + 1) / 2) / n_pairs)


def _check_two(metric: str, scores: NDArray[np.float32]) -> None:
    if scores.shape[1] != 2:
        raise InputError(
            f"the metric {metric} is for two classes; this graph has {scores.shape[1]}."
        )


def score(metric: str, y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the score of a metric by name.

    Of "pr_auc" it is that of the rarer of two classes (see `pr_auc`), of logits too;
    NaN where one of them is absent.
    """
    if metric == "roc_auc":
        return roc_auc(y, scores)
    if metric == "pr_auc":
        _check_two(metric, scores)
        rare = rarer_class(counts := np.bincount(y, minlength=2))
        ahead = scores[:, rare] - scores[:, 1 - rare]
        return _average_precision(y == rare, ahead) if counts.all() else float("nan")
    if metric == "macro_f1":
        n_classes = scores.shape[1]
        return macro_f1(confusion_matrix(y, scores.argmax(axis=1), n_classes))
    return accuracy(y, scores)


def confusion_matrix(
    y: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int
) -> NDArray[np.int64]:
    """Return counts [C, C]: row = true class, column = predicted class."""
    pairs = np.bincount(y * n_classes + predicted, minlength=n_classes**2)
    return pairs.reshape(n_classes, n_classes)


def per_class(confusion: NDArray[np.int64]) -> list[dict[str, float | int | None]]:
    """Return `nodes`, `precision`, `recall` and `f1` of each class of a confusion.

    None where there is no value: the precision of a class that is never predicted,
    the recall of one that no node is of.

    Examples
    --------
    >>> per_class(np.array([[9, 0], [3, 0]]))[1]
    {'nodes': 3, 'precision': None, 'recall': 0.0, 'f1': 0.0}
    """
    hits, true, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)

    def share(of: int, whole: int) -> float | None:
        return float(of / whole) if whole else None

    return [
        {
            "nodes": int(n),
            "precision": share(hit, told),
            "recall": share(hit, n),
            "f1": share(2 * hit, n + told),
        }
        for hit, n, told in zip(hits, true, said, strict=True)
    ]


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 over the classes that occur, true or predicted."""
    hits = np.diag(confusion)
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    present = total > 0
    return float((2 * hits[present] / total[present]).mean()) if present.any() else 0.0


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
    return float(log_losses(y, probabilities).mean()) if len(y) else float("nan")


def log_losses(
    y: NDArray[np.int64], probabilities: Probabilities
) -> NDArray[np.float64]:
    """Return −log of what the true class of each node got, [m]."""
    given = probabilities[np.arange(len(y)), y].astype(np.float64)
    return np.asarray(-np.log(np.clip(given, LEAST, 1.0)))


def brier(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the mean squared difference between probabilities and what came true.

    For two classes that of class 1, from 0 to 1; for more the sum over all classes,
    from 0 to 2, as scikit-learn has it.
    """
    return float(squared_errors(y, probabilities).mean()) if len(y) else float("nan")


def squared_errors(
    y: NDArray[np.int64], probabilities: Probabilities
) -> NDArray[np.float64]:
    """Return the part that each node has in the Brier score, [m]."""
    given = probabilities[np.arange(len(y)), y].astype(np.float64)
    # The square of what others got, and of what is missing to 1.
    squares = np.square(probabilities, dtype=np.float64).sum(axis=1)
    off = squares - given**2 + (1 - given) ** 2
    return np.asarray(off / 2 if probabilities.shape[1] == 2 else off)


def average_precision(
    y: NDArray[np.int64], probabilities: Probabilities
) -> list[float]:
    """Return the average precision of each class against all others, [C].

    It is the area under the curve of precision over recall, summed by steps; always
    guessing gives the class's share of the nodes. NaN of a class without nodes.
    """
    return [
        _average_precision(y == c, probabilities[:, c])
        if (y == c).any()
        else float("nan")
        for c in range(probabilities.shape[1])
    ]


def _average_precision(of_class: NDArray[np.bool_], shares: Probabilities) -> float:
    """Return the mean over the nodes of a class of the precision at their share."""
    _, place, told = np.unique(-shares, return_inverse=True, return_counts=True)
    right = np.bincount(place[of_class], minlength=len(told))
    precision = np.cumsum(right) / np.cumsum(told)
    return float((right * precision).sum() / right.sum())


def rarer_class(counts: Sequence[int] | NDArray[np.integer]) -> int:
    """Return which of two classes has fewer nodes; 1 where both have as many.

    Examples
    --------
    >>> rarer_class([3, 90]), rarer_class([90, 3]), rarer_class([5, 5])
    (0, 1, 1)
    """
    first, second = counts
    return 0 if first < second else 1


def pr_auc(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the average precision of the rarer of two classes; of more, the mean.

    Of the larger one it says little: it is high whoever is told apart. Classes that no
    node is of are left out of the mean.
    """
    found = np.array(average_precision(y, probabilities))
    if len(found) == 2:
        return float(found[rarer_class(np.bincount(y, minlength=2))])
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


def bin_numbers(told: Probabilities, n_bins: int = BINS) -> NDArray[np.int64]:
    """Return in which of the bins from 0 to 1 each probability is, [m]."""
    place = np.clip(np.ceil(told.astype(np.float64) * n_bins) - 1, 0, n_bins - 1)
    return np.asarray(place, dtype=np.int64)


def _bins(
    told: Probabilities, came_true: NDArray[np.bool_], n_bins: int
) -> list[ReliabilityBin]:
    index = bin_numbers(told, n_bins)
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
    return _bin_mean(bins, [abs(one[1] - one[2]) for one in _filled(bins)])


def chance_error(bins: list[ReliabilityBin]) -> float:
    """Return what the calibration error of perfect probabilities would be, by chance.

    A bin of n nodes and confidence c has then an accuracy that differs from c by
    √(2c(1 − c)/πn) in the mean: few nodes never look well calibrated.
    """
    return _bin_mean(
        bins, [np.sqrt(2 * c * (1 - c) / (np.pi * n)) for n, c, _ in _filled(bins)]
    )


def _filled(bins: list[ReliabilityBin]) -> list[tuple[int, float, float]]:
    """Return nodes, confidence and accuracy of the bins that have nodes."""
    return [
        (one.nodes, min(one.confidence, 1.0), one.accuracy)
        for one in bins
        if one.confidence is not None and one.accuracy is not None
    ]


def _bin_mean(bins: list[ReliabilityBin], values: list[float]) -> float:
    """Return the mean of a value of each bin with nodes, weighted by them."""
    counts = [n for n, _, _ in _filled(bins)]
    return float(np.average(values, weights=counts)) if counts else float("nan")


TEMPERATURES = (0.05, 20.0)
"""The smallest and the largest temperature."""

SPREAD = 0.5
"""Standard deviation of the logarithm of temperatures, as expected without data.

A handful of nodes that are all right would ask for T = 0, since then the model seems to
be never wrong. With this prior (T within a factor of 2.7 in 95 % of cases) five such
nodes hardly move it, and a hundred have their way.
"""


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probabilities of logits, in 64 bits, of the same shape.

    Examples
    --------
    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    given = torch.from_numpy(np.ascontiguousarray(logits, dtype=np.float64))
    return torch.softmax(given, dim=-1).numpy()


def fit_temperature(logits: NDArray[np.floating], y: NDArray[np.int64]) -> float:
    """Return the temperature T with which softmax(logits / T) fits held-out nodes best.

    It has the smallest log-loss, summed over the nodes, with (log T)²/2s² added, the
    logarithm of a log-normal prior around 1 with the spread s = 0.5.

    Parameters
    ----------
    logits
        Of the held-out nodes, [m, C]; class weights are undone already.
    y
        Their classes, [m].

    Examples
    --------
    Of two classes, each node is three times as likely to be of the one it is said to
    be, so logits of log 9 are twice what they should be:

    >>> logits = np.tile([np.log(9.0), 0.0], (4000, 1))
    >>> round(fit_temperature(logits, np.arange(4000) % 4 // 3), 1)
    2.0
    """
    from scipy.optimize import minimize_scalar

    if not len(y) or not np.isfinite(logits).all():
        return 1.0
    z, nodes = logits.astype(np.float64), np.arange(len(y))

    def cost(log_t: float) -> float:
        cooled = torch.from_numpy(z / math.exp(log_t))
        loss = -torch.log_softmax(cooled, dim=1).numpy()[nodes, y].sum()
        return float(loss + log_t**2 / (2 * SPREAD**2))

    low, high = map(math.log, TEMPERATURES)
    found = minimize_scalar(
        cost, bounds=(low, high), method="bounded", options={"xatol": 1e-6}
    )
    # Where nothing is gained, nothing is changed.
    return math.exp(found.x) if found.fun < cost(0.0) else 1.0


# -------------------------------------------------------------------- how sure they are


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
    from scipy.stats import norm

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
    from scipy.stats import t

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
