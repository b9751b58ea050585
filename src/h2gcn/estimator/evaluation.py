"""How good a fitted classifier is on given nodes, beside the simplest guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from h2gcn.estimator.classifier import NodeClassifier
from h2gcn.estimator.schema import match_labels
from h2gcn.graph import Graph
from h2gcn.training import confusion_matrix, macro_f1, roc_auc

__all__ = ["Evaluation", "Verdict", "evaluate", "mean_and_deviation"]

BALANCED = (
    "the classes were balanced in training: the probabilities are those of classes of "
    "equal size, far too high for rare ones; until they are calibrated, only their "
    "order counts"
)
"""What is told of the probabilities of a model with `class_weight="balanced"`."""


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


@dataclass(frozen=True)
class Verdict:
    """What whoever uses a model must be told of it.

    Parameters
    ----------
    no_better_than_majority
        Whether always guessing the largest class is right as often, or more often.
    remarks
        That, and what else must be known, each in a sentence.
    """

    no_better_than_majority: bool
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls, found: Sequence[Evaluation], nodes: str, class_weight: str | None
    ) -> Verdict:
        """Judge a model, by the mean where it was fitted more than once.

        Parameters
        ----------
        found
            Its scores, at least one.
        nodes
            What was scored, such as "test nodes".
        class_weight
            The parameter of training.
        """
        right = float(np.mean([one.accuracy for one in found]))
        guessed = float(np.mean([one.majority for one in found]))
        # Sums of the same shares in another order are equal.
        idle = round(right, 12) <= round(guessed, 12)
        remarks = [BALANCED] if class_weight == "balanced" else []
        if idle:
            remarks.insert(
                0,
                "by accuracy, the model is no better than always guessing the largest "
                f"class: {100 * right:.2f} % of the {nodes} are right, against "
                f"{100 * guessed:.2f} %",
            )
        return cls(idle, tuple(remarks))

    def to_json(self) -> dict[str, object]:
        """Return the fields by name, as what JSON can hold."""
        return asdict(self) | {"remarks": list(self.remarks)}


def mean_and_deviation(values: list[float]) -> dict[str, float | int | None]:
    """Return mean, sample standard deviation (None of one value) and number."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    mean = float(np.mean(values)) if values else None
    return {"mean": mean, "std": deviation, "n": len(values)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
