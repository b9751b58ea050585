"""Scores of predictions and of probabilities.

They take the true class indices `y`, [m], and logits or probabilities, [m, C]. Without
nodes a score is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError

__all__ = [
    "METRICS",
    "OF_TWO_CLASSES",
    "RankedNodes",
    "accuracy",
    "average_precision",
    "brier",
    "confusion_matrix",
    "log_loss",
    "log_losses",
    "macro_f1",
    "per_class",
    "pr_auc",
    "rarer_class",
    "roc_auc",
    "score",
    "squared_errors",
]

Probabilities = NDArray[np.floating]  # one per class, [m, C]; rows sum to one

METRICS = ("accuracy", "macro_f1", "roc_auc", "pr_auc")
OF_TWO_CLASSES = ("roc_auc", "pr_auc")  # they need nodes of both classes


def accuracy(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the fraction of nodes whose largest score is their class's."""
    return float((scores.argmax(axis=1) == y).mean()) if len(y) else float("nan")


class RankedNodes:
    """Nodes ranked by a score, for curves over them or over resamples of them.

    Nodes of the class, which are `positive`, should have the higher scores, [m] each.
    """

    def __init__(self, positive: NDArray[np.bool_], scores: Probabilities) -> None:
        self._order = np.argsort(-scores, kind="stable")
        self._positive = positive[self._order]
        ranked = scores[self._order]
        # The last node of each rank, where equal scores share one.
        self._last = np.append(
            np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1
        )

    def average_precision(self, counts: NDArray[np.int64]) -> float:
        """Return the mean precision at the ranks of the class; NaN without nodes.

        `counts` says how often each node counts, [m].
        """
        hits, totals = self._cumulative(counts)
        if not len(hits) or not hits[-1]:
            return float("nan")
        precision = hits / np.maximum(totals, 1)
        return float((np.diff(hits, prepend=0) * precision).sum() / hits[-1])

    def roc_auc(self, counts: NDArray[np.int64]) -> float:
        """Return the fraction of pairs in the right order; NaN of one class.

        A pair is a node of the class and another; equal scores count half.
        """
        hits, totals = self._cumulative(counts)
        others = totals - hits
        if not len(hits) or not hits[-1] * others[-1]:
            return float("nan")
        below = others[-1] - others + np.diff(others, prepend=0) / 2
        right = (np.diff(hits, prepend=0) * below).sum()
        return float(right / (hits[-1] * others[-1]))

    def _cumulative(
        self, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return nodes of the class, and all nodes, down to each rank."""
        if not len(counts):
            return counts, counts
        ranked = counts[self._order]
        hits = np.cumsum(ranked * self._positive)
        return hits[self._last], np.cumsum(ranked)[self._last]


def roc_auc(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the area under the ROC curve of class 1 against class 0.

    NaN where one of the two classes is absent.
    """
    _check_two("roc_auc", scores)
    return RankedNodes(y == 1, scores[:, 1] - scores[:, 0]).roc_auc(_once(y))


def _once(y: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ones(len(y), dtype=np.int64)


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
        margin = scores[:, rare] - scores[:, 1 - rare]
        ranked = RankedNodes(y == rare, margin)
        return ranked.average_precision(_once(y)) if counts.all() else float("nan")
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
    hits, true = np.diag(confusion), confusion.sum(axis=1)
    predicted = confusion.sum(axis=0)

    def ratio(part: int, whole: int) -> float | None:
        return float(part / whole) if whole else None

    return [
        {
            "nodes": int(n),
            "precision": ratio(hit, n_predicted),
            "recall": ratio(hit, n),
            "f1": ratio(2 * hit, n + n_predicted),
        }
        for hit, n, n_predicted in zip(hits, true, predicted, strict=True)
    ]


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 over the classes that occur, true or predicted."""
    hits = np.diag(confusion)
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    present = total > 0
    return float((2 * hits[present] / total[present]).mean()) if present.any() else 0.0


MIN_PROBABILITY = 1e-15  # keeps logarithms finite


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
    """Return −log p of each node, [m]."""
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    return np.asarray(-np.log(np.clip(true, MIN_PROBABILITY, 1.0)))


def brier(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the mean squared difference between probabilities and one-hot labels.

    For two classes that of class 1, from 0 to 1; for more the sum over all classes,
    from 0 to 2, as scikit-learn has it.
    """
    return float(squared_errors(y, probabilities).mean()) if len(y) else float("nan")


def squared_errors(
    y: NDArray[np.int64], probabilities: Probabilities
) -> NDArray[np.float64]:
    """Return the part of each node in the Brier score, [m]."""
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    squares = np.square(probabilities, dtype=np.float64).sum(axis=1)
    errors = squares - true**2 + (1 - true) ** 2
    return np.asarray(errors / 2 if probabilities.shape[1] == 2 else errors)


def average_precision(
    y: NDArray[np.int64], probabilities: Probabilities
) -> list[float]:
    """Return the average precision of each class against all others, [C].

    It is the area under the curve of precision over recall, summed by steps; always
    guessing gives the class's share of the nodes. NaN of a class without nodes.
    """
    n_classes = probabilities.shape[1]
    return [
        RankedNodes(y == c, probabilities[:, c]).average_precision(_once(y))
        for c in range(n_classes)
    ]


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

    That of the larger class says little: it is always high. Classes without nodes are
    left out of the mean.
    """
    found = np.array(average_precision(y, probabilities))
    if len(found) == 2:
        return float(found[rarer_class(np.bincount(y, minlength=2))])
    return float(np.nanmean(found)) if len(y) else float("nan")
