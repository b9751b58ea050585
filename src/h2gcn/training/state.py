"""State of a training run: its epochs, the rule that stops it, copies to go on from."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from h2gcn.exceptions import InputError
from h2gcn.models import tensor_problem
from h2gcn.sparse import random_problem, random_state, set_random_state

__all__ = [
    "RULES",
    "Decision",
    "Epoch",
    "Rule",
    "Snapshot",
    "Tensors",
    "TrainingState",
    "make_rule",
    "optimizer_problem",
]


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


Tensors = dict[str, Tensor]
"""Tensors by name."""


def optimizer_problem(
    optimizer: torch.optim.Optimizer, found: Mapping[str, Tensor]
) -> str | None:
    """Return why tensors of a file are not the state of an optimizer, if so.

    Its steps write to them without a look at their shapes.

    Parameters
    ----------
    optimizer
        Adam, or plain gradient steps, with the weights that it is of.
    found
        By "number of the weight.name". A weight that no step has changed has none.
    """
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    wanted: dict[str, Tensor] = {}
    for number, weight in enumerate(weights):
        if isinstance(optimizer, torch.optim.Adam) and any(
            name.startswith(f"{number}.") for name in found
        ):
            wanted[f"{number}.step"] = torch.zeros(())
            wanted[f"{number}.exp_avg"] = wanted[f"{number}.exp_avg_sq"] = weight
    if problem := tensor_problem(found, wanted):
        return problem
    for name, tensor in found.items():
        if name.endswith(".step") and not (tensor >= 1 and tensor == tensor.round()):
            return f"{name} is not a number of steps"
        if name.endswith(".exp_avg_sq") and bool((tensor < 0).any()):
            return f"{name} has squares below 0"
    return None


@dataclass(frozen=True)
class Snapshot:
    """A training after a whole epoch; what comes later does not change it.

    Parameters
    ----------
    weights, best_weights
        The model's after the last epoch, and after the best one.
    optimiser
        The optimiser's state, by "number of the weight.name".
    random
        Torch's random state by type of device, "cpu" and the model's.
    history
        All epochs so far. What the stopping rule knows follows from them.
    stopped
        Whether the rule says that it is enough.
    seconds
        Spent so far.
    """

    weights: Tensors
    best_weights: Tensors
    optimiser: Tensors
    random: Tensors
    history: tuple[Epoch, ...]
    stopped: bool
    seconds: float


class TrainingState:
    """A model in training, with its optimiser, its rule and the best epoch so far.

    Parameters
    ----------
    model
        Its weights are those after the last epoch.
    optimiser
        Of these weights.
    rule
        Says which epoch is the best, and after which it is enough.
    spent
        Seconds of work before this.

    Attributes
    ----------
    history
        All epochs so far.
    best, best_weights
        The epoch to keep, and the model's weights after it.
    stopped
        Whether the rule says that it is enough.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        rule: Rule,
        spent: float = 0.0,
    ) -> None:
        self.model, self.optimiser = model, optimiser
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.best_weights: Tensors = {}
        self.stopped = False
        self._rule = rule
        self._start = time.perf_counter() - spent

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return time.perf_counter() - self._start

    def add(self, epoch: Epoch) -> None:
        """Take in an epoch that the model has just been through."""
        self.history.append(epoch)
        decision = self._rule(epoch)
        if decision.keep:
            # Copied first, so that Ctrl-C never pairs it with another epoch.
            weights = deepcopy(self.model.state_dict())
            self.best, self.best_weights = epoch, weights
        self.stopped = decision.stop

    def snapshot(self) -> Snapshot:
        """Return a copy of it all; only right between two epochs."""
        state = self.optimiser.state_dict()["state"]
        return Snapshot(
            weights=deepcopy(self.model.state_dict()),
            best_weights=self.best_weights,
            optimiser={
                f"{number}.{name}": value.clone()
                for number, values in state.items()
                for name, value in values.items()
            },
            random=random_state(self._device),
            history=tuple(self.history),
            stopped=self.stopped,
            seconds=self.seconds,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, instead of from the beginning.

        Raises
        ------
        InputError
            Where a tensor is not what the model, its optimiser or the generators
            take; nothing is changed then.
        """
        best = self._check(snapshot)
        self.model.load_state_dict(snapshot.weights)
        state: dict[int, Tensors] = {}
        for key, value in snapshot.optimiser.items():
            number, _, name = key.partition(".")
            # A copy, since steps change it, and what was read may not be aligned.
            state.setdefault(int(number), {})[name] = value.clone()
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        set_random_state(snapshot.random, self._device)
        self.best, self.best_weights = best, snapshot.best_weights
        self.history, self.stopped = list(snapshot.history), snapshot.stopped
        self._start -= snapshot.seconds

    def _check(self, snapshot: Snapshot) -> Epoch:
        """Return the best epoch of a snapshot if all of it fits."""
        state = self.model.state_dict()
        for group, problem in (
            ("weights", tensor_problem(snapshot.weights, state)),
            ("best_weights", tensor_problem(snapshot.best_weights, state)),
            ("optimiser", optimizer_problem(self.optimiser, snapshot.optimiser)),
            ("random", random_problem(snapshot.random, self._device)),
        ):
            if problem is not None:
                raise InputError(f"{group}.{problem}")
        best = None
        for epoch in snapshot.history:  # shows them to the rule once more
            if self._rule(epoch).keep:
                best = epoch
        if best is None:
            raise InputError("history has no epoch that is the best")
        return best

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device
