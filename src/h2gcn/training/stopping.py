"""Stopping rules: which epoch's weights to keep, and when to stop."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["RULES", "Decision", "Epoch", "StoppingRule", "make_rule"]


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch."""

    number: int  # from 1
    loss: float  # of the training nodes, with dropout
    val_score: float  # the metric on the validation nodes
    val_loss: float  # cross-entropy; under "loss-mean" with the penalty


class Decision(NamedTuple):
    """Whether to keep this epoch's weights, and whether to stop after it."""

    keep: bool
    stop: bool


StoppingRule = Callable[[Epoch], Decision]  # called once per epoch, in order


class _Patience:
    """Stops `patience` epochs after the last improvement; None never stops."""

    def __init__(self, patience: int | None) -> None:
        self._patience, self._improved = patience, 0

    def _decide(self, epoch: Epoch, *, keep: bool, improved: bool) -> Decision:
        if improved:
            self._improved = epoch.number
        waited = epoch.number - self._improved
        return Decision(keep, self._patience is not None and waited >= self._patience)


class BestScore(_Patience):
    """H2GCN's and MixHop's: keep the best score, the latest on a tie.

    Stop when the score has not risen for `patience` epochs.
    """

    _best = -math.inf

    def __call__(self, epoch: Epoch) -> Decision:
        keep, improved = epoch.val_score >= self._best, epoch.val_score > self._best
        self._best = max(self._best, epoch.val_score)
        return self._decide(epoch, keep=keep, improved=improved)


class Plateau(_Patience):
    """Keep the best score, the latest on a tie, as training to the end does.

    Stop when no epoch was as good for `patience` epochs, and for as many as there were
    up to the last that was.
    """

    _best = -math.inf

    def __call__(self, epoch: Epoch) -> Decision:
        keep = epoch.val_score >= self._best
        self._best = max(self._best, epoch.val_score)
        decision = self._decide(epoch, keep=keep, improved=keep)
        waited = epoch.number - self._improved
        return Decision(keep, decision.stop and waited >= self._improved)


class BestLoss(_Patience):
    """Keep the least validation loss; stop when it has not fallen for `patience`."""

    _best = math.inf

    def __call__(self, epoch: Epoch) -> Decision:
        keep = epoch.val_loss < self._best
        if keep:
            self._best = epoch.val_loss
        return self._decide(epoch, keep=keep, improved=keep)


class MeanLoss:
    """GCN's: keep the last weights.

    Stop when the validation loss is above its mean over the `patience` epochs before.
    """

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._losses: deque[float] = deque(maxlen=patience or 1)

    def __call__(self, epoch: Epoch) -> Decision:
        # GCN's program counts epochs from 0 and waits until one is beyond the window.
        is_full = self._patience is not None and epoch.number > self._patience + 1
        mean = sum(self._losses) / max(len(self._losses), 1)
        self._losses.append(epoch.val_loss)
        return Decision(keep=True, stop=is_full and epoch.val_loss > mean)


class LossOrScore(_Patience):
    """GAT's: keep the weights when neither loss nor score is worse than ever.

    Stop when both have been worse for `patience` epochs in a row.
    """

    _score, _loss = -math.inf, math.inf

    def __call__(self, epoch: Epoch) -> Decision:
        score, loss = epoch.val_score >= self._score, epoch.val_loss <= self._loss
        self._score = max(self._score, epoch.val_score)
        self._loss = min(self._loss, epoch.val_loss)
        return self._decide(epoch, keep=score and loss, improved=score or loss)


RULES: dict[str, Callable[[int | None], StoppingRule]] = {
    "score": BestScore,
    "settled": Plateau,
    "loss": BestLoss,
    "loss-mean": MeanLoss,
    "loss-or-score": LossOrScore,
}


def make_rule(stopping: str, patience: int | None) -> StoppingRule:
    """Return a new rule by its name, one of `RULES`."""
    return RULES[stopping](patience)
