"""How good probabilities are on some nodes: in all, by class and by degree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.training import (
    ReliabilityBin,
    average_precision,
    brier,
    calibration_error,
    chance_error,
    class_bins,
    log_loss,
    reliability_bins,
)

__all__ = ["DEGREES", "GroupCalibration", "ProbabilityScores"]

DEGREES = ((0, 1), (2, 4), (5, 15), (16, None))
"""Fewest and most neighbours of each group of nodes; None is any number."""


@dataclass(frozen=True)
class GroupCalibration:
    """Probabilities of a group of nodes, or of a class, against what came true.

    Parameters
    ----------
    name
        The class's index, or the degrees, such as "2–4".
    nodes
        How many nodes there are: of a class its own, of a degree those of it.
    confidence
        The mean probability that was told: of the class over all nodes, or, for
        degrees, the largest of each node. None without nodes.
    accuracy
        The share of which it came true; None without nodes.
    calibration_error
        The expected calibration error; None without nodes.
    chance_error
        What that of perfect probabilities would be by chance.
    """

    name: int | str
    nodes: int
    confidence: float | None
    accuracy: float | None
    calibration_error: float | None
    chance_error: float | None

    @classmethod
    def of(
        cls, name: int | str, nodes: int, bins: list[ReliabilityBin]
    ) -> GroupCalibration:
        """Sum up the bins of a group."""
        total = sum(one.nodes for one in bins)
        told = sum(one.nodes * (one.confidence or 0.0) for one in bins)
        true = sum(one.nodes * (one.accuracy or 0.0) for one in bins)
        return cls(
            name,
            nodes,
            told / total if total else None,
            true / total if total else None,
            calibration_error(bins) if total else None,
            chance_error(bins) if total else None,
        )


@dataclass(frozen=True)
class ProbabilityScores:
    """How good the probabilities of some labelled nodes are.

    Parameters
    ----------
    log_loss
        The mean of −log of what the true class got; log C where nothing is known.
    brier
        The mean squared difference from what came true.
    calibration_error
        By how much the largest probability differs from how often it comes true, in
        the mean over 15 bins of equal width.
    chance_error
        What that of perfect probabilities would be by chance, on so many nodes.
    pr_auc
        Average precision of each class against the others; None without nodes of it.
    bins
        The bins of the calibration error.
    by_class
        Probabilities of each class over all nodes, [C].
    by_degree
        Largest probabilities of nodes with few and with many neighbours.
    """

    log_loss: float
    brier: float
    calibration_error: float
    chance_error: float
    pr_auc: tuple[float | None, ...]
    bins: tuple[ReliabilityBin, ...]
    by_class: tuple[GroupCalibration, ...]
    by_degree: tuple[GroupCalibration, ...]

    @classmethod
    def of(
        cls,
        y: NDArray[np.int64],
        probabilities: NDArray[np.floating],
        degrees: NDArray[np.integer],
    ) -> ProbabilityScores:
        """Score probabilities.

        Parameters
        ----------
        y
            Classes of the nodes, [m], at least one.
        probabilities
            [m, C].
        degrees
            How many neighbours each node has, [m].
        """
        bins = reliability_bins(y, probabilities)
        areas = average_precision(y, probabilities)
        classes = range(probabilities.shape[1])
        by_degree = []
        for low, high in DEGREES:
            inside = (degrees >= low) & (degrees <= (np.inf if high is None else high))
            name = f"{low}+" if high is None else f"{low}–{high}"
            group = reliability_bins(y[inside], probabilities[inside])
            by_degree.append(GroupCalibration.of(name, int(inside.sum()), group))
        return cls(
            log_loss=log_loss(y, probabilities),
            brier=brier(y, probabilities),
            calibration_error=calibration_error(bins),
            chance_error=chance_error(bins),
            pr_auc=tuple(None if np.isnan(area) else area for area in areas),
            bins=tuple(bins),
            by_class=tuple(
                GroupCalibration.of(
                    c, int((y == c).sum()), class_bins(y, probabilities, c)
                )
                for c in classes
            ),
            by_degree=tuple(by_degree),
        )

    @property
    def mean_pr_auc(self) -> float | None:
        """The area of class 1 of two; of more, the mean of the classes with nodes."""
        if len(self.pr_auc) == 2:
            return self.pr_auc[1]
        known = [area for area in self.pr_auc if area is not None]
        return float(np.mean(known)) if known else None

    def to_json(self, classes: list[str]) -> dict[str, Any]:
        """Return all as what JSON can hold; classes by their names, [C]."""
        named = [
            asdict(one) | {"name": name}
            for one, name in zip(self.by_class, classes, strict=True)
        ]
        return {
            "log_loss": self.log_loss,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "chance_error": self.chance_error,
            "pr_auc": dict(zip(classes, self.pr_auc, strict=True)),
            "bins": [asdict(one) for one in self.bins],
            "by_class": named,
            "by_degree": [asdict(one) for one in self.by_degree],
        }
