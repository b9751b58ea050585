"""How good a fitted classifier is on given nodes, beside the simplest guess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from h2gcn.estimator.classifier import NodeClassifier
from h2gcn.estimator.schema import match_labels
from h2gcn.graph import Graph
from h2gcn.training import confusion_matrix, macro_f1, roc_auc

__all__ = ["Evaluation", "evaluate", "mean_and_deviation"]


@dataclass(frozen=True)
class Evaluation:
    """Scores on some labelled nodes.

    Parameters
    ----------
    nodes
        How many nodes were scored.
    accuracy, macro_f1
        Fractions of 1.
    roc_auc
        For two classes, else None.
    majority
        Accuracy of always guessing the most frequent class of these nodes.
    confusion
        Counts [C, C]: row = true class, column = predicted class.
    """

    nodes: int
    accuracy: float
    macro_f1: float
    roc_auc: float | None
    majority: float
    confusion: NDArray[np.int64]


def evaluate(
    classifier: NodeClassifier, graph: Graph, nodes: NDArray[np.int64]
) -> Evaluation:
    """Score a fitted classifier on labelled nodes of a graph.

    Parameters
    ----------
    classifier
        Fitted.
    graph
        The graph of `fit`, or another.
    nodes
        Their indices, [m], at least one.
    """
    y = match_labels(graph, nodes, classifier.classes_)
    n_classes = len(classifier.classes_)
    confusion = np.zeros((n_classes, n_classes), dtype=np.int64)
    ranked: list[NDArray[np.float32]] = []  # what the area under the curve needs whole
    done = 0
    for block, logits in classifier.predict_blocks(graph, nodes):
        true = y[done : done + len(block)]
        confusion += confusion_matrix(true, logits.argmax(axis=1), n_classes)
        if n_classes == 2:
            ranked.append(logits)
        done += len(block)
    area = roc_auc(y, np.concatenate(ranked)) if ranked else float("nan")
    return Evaluation(
        nodes=len(nodes),
        accuracy=float(np.trace(confusion) / len(nodes)),
        macro_f1=macro_f1(confusion),
        roc_auc=_or_none(area),
        majority=float(np.bincount(y).max() / len(y)),
        confusion=confusion,
    )


def mean_and_deviation(values: list[float]) -> dict[str, float | int | None]:
    """Return mean, sample standard deviation (None of one value) and number."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    mean = float(np.mean(values)) if values else None
    return {"mean": mean, "std": deviation, "n": len(values)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
