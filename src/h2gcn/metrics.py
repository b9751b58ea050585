"""Scores of predictions, one function each."""

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError

__all__ = ["METRICS", "accuracy", "confusion_matrix", "macro_f1", "roc_auc", "score"]

METRICS = ("accuracy", "roc_auc")


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

    NaN where one of the two classes is absent: there is no curve then.
    """
    from sklearn.metrics import roc_auc_score

    if scores.shape[1] != 2:
        raise InputError(
            f"the metric roc_auc is for two classes; this graph has {scores.shape[1]}."
        )
    if len(np.unique(y)) < 2:
        return float("nan")
    return float(roc_auc_score(y, scores[:, 1] - scores[:, 0]))


def score(metric: str, y: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Return the score of a metric by name."""
    return roc_auc(y, scores) if metric == "roc_auc" else accuracy(y, scores)


def confusion_matrix(
    y: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int
) -> NDArray[np.int64]:
    """Return counts [C, C]: row = true class, column = predicted class."""
    pairs = np.bincount(y * n_classes + predicted, minlength=n_classes**2)
    return pairs.reshape(n_classes, n_classes)


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 over the classes that occur, true or predicted."""
    hits = np.diag(confusion)
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    present = total > 0
    return float((2 * hits[present] / total[present]).mean()) if present.any() else 0.0
