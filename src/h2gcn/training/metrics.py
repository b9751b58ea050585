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
    "macro_f1",
    "per_class",
    "pr_auc",
    "rarer_class",
    "roc_auc",
    "score",
]

Probabilities = NDArray[np.floating]  # one per class, [m, C]; rows sum to one

METRICS = ("accuracy", "macro_f1", "roc_auc", "pr_auc")
OF_TWO_CLASSES = ("roc_auc", "pr_auc")  # they need nodes of both classes


def accuracy(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the fraction of nodes whose largest score is their class's."""
    return float((scores.argmax(axis=1) == y).mean()) if len(y) else float("nan")


class RankedNodes:
    """Nodes ranked by a score, for curves over any of them.

    Parameters
    ----------
    positive
        Which nodes are of the class, [m].
    scores
        Higher for nodes that are rather of the class, [m].
    """

    def __init__(self, positive: NDArray[np.bool_], scores: Probabilities) -> None:
        self._positive = positive
        levels, self._rank = np.unique(-scores, return_inverse=True)
        self._n_ranks = len(levels)

    def average_precision(self, nodes: NDArray[np.int64] | slice) -> float:
        """Return the mean precision at the ranks of the class; NaN without nodes."""
        hits, totals = self._counts(nodes)
        if not hits.any():
            return float("nan")
        precision = np.cumsum(hits) / np.maximum(np.cumsum(totals), 1)
        return float((hits * precision).sum() / hits.sum())

    def roc_auc(self, nodes: NDArray[np.int64] | slice) -> float:
        """Return the fraction of pairs in the right order; NaN of one class.

        A pair is a node of the class and another; equal scores count half.
        """
        hits, totals = self._counts(nodes)
        others = totals - hits
        n_pairs = int(hits.sum()) * int(others.sum())
        if not n_pairs:
            return float("nan")
        ranked_below = others.sum() - np.cumsum(others)
        return float((hits * (ranked_below + others / 2)).sum() / n_pairs)

    def _counts(
        self, nodes: NDArray[np.int64] | slice
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes of the class, and all nodes, by rank."""
        rank, positive = self._rank[nodes], self._positive[nodes]
        hits = np.bincount(rank[positive], minlength=self._n_ranks)
        return hits, np.bincount(rank, minlength=self._n_ranks)


ALL = slice(None)


def roc_auc(y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the area under the ROC curve of class 1 against class 0.

    NaN where one of the two classes is absent.
    """
    _check_two("roc_auc", scores)
    return RankedNodes(y == 1, scores[:, 1] - scores[:, 0]).roc_auc(ALL)


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
        return ranked.average_precision(ALL) if counts.all() else float("nan")
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
    if not len(y):
        return float("nan")
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.clip(true, MIN_PROBABILITY, 1.0)).mean())


def brier(y: NDArray[np.int64], probabilities: Probabilities) -> float:
    """Return the mean squared difference between probabilities and one-hot labels.

    For two classes that of class 1, from 0 to 1; for more the sum over all classes,
    from 0 to 2, as scikit-learn has it.
    """
    if not len(y):
        return float("nan")
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    squares = np.square(probabilities, dtype=np.float64).sum(axis=1)
    errors = squares - true**2 + (1 - true) ** 2
    return float(errors.mean() / (2 if probabilities.shape[1] == 2 else 1))


def average_precision(
    y: NDArray[np.int64], probabilities: Probabilities
) -> list[float]:
    """Return the average precision of each class against all others, [C].

    It is the area under the curve of precision over recall, summed by steps; always
    guessing gives the class's share of the nodes. NaN of a class without nodes.
    """
    n_classes = probabilities.shape[1]
    return [
        RankedNodes(y == c, probabilities[:, c]).average_precision(ALL)
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

    Of the larger one it says little: it is high whoever is told apart. Classes that no
    node is of are left out of the mean.
    """
    found = np.array(average_precision(y, probabilities))
    if len(found) == 2:
        return float(found[rarer_class(np.bincount(y, minlength=2))])
    return float(np.nanmean(found)) if len(y) else float("nan")
