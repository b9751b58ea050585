"""State of a training run: all that epochs change, and copies to go on from."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from h2gcn.sparse import random_state, set_random_state
from h2gcn.training.stopping import Epoch, Rule

__all__ = ["Snapshot", "Tensors", "TrainingState"]

Tensors = dict[str, Tensor]
"""Tensors by name."""


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
        """Go on from a snapshot, instead of from the beginning."""
        self.model.load_state_dict(snapshot.weights)
        state: dict[int, Tensors] = {}
        for key, value in snapshot.optimiser.items():
            number, _, name = key.partition(".")
            # A copy, since steps change it, and what was read may not be aligned.
            state.setdefault(int(number), {})[name] = value.clone()
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        set_random_state(snapshot.random, self._device)
        for epoch in snapshot.history:  # shows them to the rule once more
            if self._rule(epoch).keep:
                self.best = epoch
        self.best_weights = snapshot.best_weights
        self.history, self.stopped = list(snapshot.history), snapshot.stopped
        self._start -= snapshot.seconds

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device
