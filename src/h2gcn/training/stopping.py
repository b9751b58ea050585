"""Stopping rules: when training ends, and which epoch's weights are kept."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["RULES", "Decision", "Epoch", "Rule", "make_rule"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave.

    Parameters
    ----------
    number
        From 1.
    loss
        Of the training nodes, while dropout acts.
    val_score
        The metric on the validation nodes.
    val_loss
        Cross entropy of the validation nodes; under "loss-mean" with the penalty.
    """

    number: int
    loss: float
    val_score: float
    val_loss: float


class Decision(NamedTuple):
    """Whether to keep this epoch's weights, and whether to stop after it."""

    keep: bool
    stop: bool


class Rule(Protocol):
    """Looks at one epoch after the other."""

    def __call__(self, epoch: Epoch) -> Decision:
        """Return what to do after an epoch."""
        ...


class BestScore:
    """H2GCN's and MixHop's: keep the best score, the latest of them on a tie.

    Stop when the score has not risen for `patience` epochs.
    """

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._best, self._risen = -math.inf, 0

    def __call__(self, epoch: Epoch) -> Decision:
        keep = epoch.val_score >= self._best
        if epoch.val_score > self._best:
            self._best, self._risen = epoch.val_score, epoch.number
        waited = epoch.number - self._risen
        return Decision(keep, self._patience is not None and waited >= self._patience)


class BestLoss:
    """Keep the least validation loss; stop when it has not fallen for `patience`."""

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._best, self._fallen = math.inf, 0

    def __call__(self, epoch: Epoch) -> Decision:
        keep = epoch.val_loss < self._best
        if keep:
            self._best, self._fallen = epoch.val_loss, epoch.number
        waited = epoch.number - self._fallen
        return Decision(keep, self._patience is not None and waited >= self._patience)


class MeanLoss:
    """GCN's: keep the last weights.

    Stop when the validation loss is above its mean over the `patience` epochs before.
    """

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._losses: deque[float] = deque(maxlen=patience or 1)

    def __call__(self, epoch: Epoch) -> Decision:
        # The program counts epochs from 0 and waits until one is beyond the window.
        full = self._patience is not None and epoch.number > self._patience + 1
        mean = sum(self._losses) / max(len(self._losses), 1)
        self._losses.append(epoch.val_loss)
        return Decision(keep=True, stop=full and epoch.val_loss > mean)


class LossOrScore:
    """GAT's: keep the weights when neither loss nor score is worse than ever.

    Stop when both have been worse for `patience` epochs in a row.
    """

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._score, self._loss, self._waited = -math.inf, math.inf, 0

    def __call__(self, epoch: Epoch) -> Decision:
        score, loss = epoch.val_score >= self._score, epoch.val_loss <= self._loss
        self._score = max(self._score, epoch.val_score)
        self._loss = min(self._loss, epoch.val_loss)
        self._waited = 0 if score or loss else self._waited + 1
        stop = self._patience is not None and self._waited >= self._patience
        return Decision(score and loss, stop)


RULES: dict[
    str, type[BestScore] | type[BestLoss] | type[MeanLoss] | type[LossOrScore]
] = {
    "score": BestScore,
    "loss": BestLoss,
    "loss-mean": MeanLoss,
    "loss-or-score": LossOrScore,
}
"""What `stopping` takes."""


def make_rule(stopping: str, patience: int | None) -> Rule:
    """Return a new rule by its name."""
    return RULES[stopping](patience)
