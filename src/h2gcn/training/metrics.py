"""Scores of predictions, one function each."""

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError

__all__ = ["METRICS", "accuracy", "confusion_matrix", "macro_f1", "per_class"]
__all__ += ["roc_auc", "score"]

METRICS = ("accuracy", "macro_f1", "roc_auc")


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
    from scipy.stats import rankdata

    if scores.shape[1] != 2:
        raise InputError(
            f"the metric roc_auc is for two classes; this graph has {scores.shape[1]}."
        )
    ones = y == 1
    n_ones = int(ones.sum())
    n_pairs = n_ones * (len(y) - n_ones)
    if not n_pairs:
        return float("nan")
    ranks = rankdata(scores[:, 1] - scores[:, 0])
    return float((ranks[ones].sum() - n_ones * (n_ones + 1) / 2) / n_pairs)


def score(metric: str, y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the score of a metric by name."""
    if metric == "roc_auc":
        return roc_auc(y, scores)
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
