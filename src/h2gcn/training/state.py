"""The state of a training: what a checkpoint holds, and how to go on from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from h2gcn.exceptions import InputError
from h2gcn.models import tensor_problem
from h2gcn.training.seeding import random_problem, random_state, set_random_state
from h2gcn.training.stopping import Epoch, StoppingRule

__all__ = ["Snapshot", "Tensors", "TrainingState"]

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Snapshot:
    """A copy of a training after an epoch.

    Parameters
    ----------
    weights, best_weights
        The model's after the last epoch, and after the best one.
    prepared
        What the model prepared for the phase of the last epoch.
    optimizer
        The optimizer's state, by "index of the weight.name".
    random
        torch's random state by type of device, "cpu" and the model's.
    history
        All epochs so far. The state of the stopping rule follows from them.
    stopped
        Whether the rule has stopped the training.
    seconds
        Spent so far.
    """

    weights: Tensors
    best_weights: Tensors
    prepared: Tensors
    optimizer: Tensors
    random: Tensors
    history: tuple[Epoch, ...]
    stopped: bool
    seconds: float


class TrainingState:
    """A model in training, with its optimizer, its rule and the best epoch so far.

    Parameters
    ----------
    model
        Its weights are those after the last epoch.
    optimizer
        Of these weights.
    rule
        Chooses the best epoch and the last.
    spent
        Seconds of earlier work.

    Attributes
    ----------
    history
        All epochs so far.
    best, best_weights
        The epoch to keep, and the model's weights after it.
    prepared
        What the model prepared for its phase, see `NodeModule.prepare`.
    stopped
        Whether the rule has stopped the training.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        rule: StoppingRule,
        spent: float = 0.0,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.best_weights: Tensors = {}
        self.prepared: Tensors = {}
        self.stopped = False
        self._rule = rule
        self._start = time.perf_counter() - spent

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return time.perf_counter() - self._start

    def add(self, epoch: Epoch) -> None:
        """Add an epoch that the model has just been trained for."""
        self.history.append(epoch)
        decision = self._rule(epoch)
        if decision.keep:
            # Copied first, so that Ctrl-C never pairs it with another epoch.
            self.best, self.best_weights = epoch, self._weights()
        self.stopped = decision.stop

    def _weights(self) -> Tensors:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def snapshot(self) -> Snapshot:
        """Return a copy of the state, between two epochs."""
        state = self.optimizer.state_dict()["state"]
        return Snapshot(
            weights=self._weights(),
            best_weights=self.best_weights,
            prepared=self.prepared,
            optimizer={
                f"{index}.{name}": value.clone()
                for index, values in state.items()
                for name, value in values.items()
            },
            random=random_state(self._device),
            history=tuple(self.history),
            stopped=self.stopped,
            seconds=self.seconds,
        )

    def restore(
        self, snapshot: Snapshot, probe: Callable[[], object] = lambda: None
    ) -> None:
        """Go on from a snapshot of a training of the same model.

        Raises `InputError` where a tensor is not what the model, the optimizer, the
        generators or the steps take; `probe` is called last, and fails where
        `prepared` does not fit the steps.
        """
        best = self._check(snapshot)
        self.model.load_state_dict(snapshot.weights)
        state: dict[int, Tensors] = {}
        for key, value in snapshot.optimizer.items():
            index, _, name = key.partition(".")
            # A copy, since steps change it, and what was read may not be aligned.
            state.setdefault(int(index), {})[name] = value.clone()
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        set_random_state(snapshot.random, self._device)
        self.best, self.best_weights = best, snapshot.best_weights
        self.history, self.stopped = list(snapshot.history), snapshot.stopped
        self.prepared = {n: t.to(self._device) for n, t in snapshot.prepared.items()}
        self._start -= snapshot.seconds
        try:
            probe()
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
            raise InputError(
                "prepared is not what the steps of the phase need"
            ) from None

    def _check(self, snapshot: Snapshot) -> Epoch:
        """Return the best epoch of a snapshot if all of it fits."""
        state = self.model.state_dict()
        for group, problem in (
            ("weights", tensor_problem(snapshot.weights, state)),
            ("best_weights", tensor_problem(snapshot.best_weights, state)),
            ("prepared", tensor_problem(snapshot.prepared, snapshot.prepared)),
            ("optimizer", _optimizer_problem(self.optimizer, snapshot.optimizer)),
            ("random", random_problem(snapshot.random, self._device)),
        ):
            if problem is not None:
                raise InputError(f"{group}.{problem}")
        best = None
        for epoch in snapshot.history:  # brings the rule to its state, too
            if self._rule(epoch).keep:
                best = epoch
        if best is None:
            raise InputError("history has no epoch that is the best")
        return best


def _optimizer_problem(
    optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]
) -> str | None:
    """Return why tensors are not the state of an optimizer, which would not check."""
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    expected: dict[str, Tensor] = {}
    for index, weight in enumerate(weights):
        # A weight that no step has changed has no state.
        has_state = any(name.startswith(f"{index}.") for name in state)
        if isinstance(optimizer, torch.optim.Adam) and has_state:
            expected[f"{index}.step"] = torch.zeros(())
            expected[f"{index}.exp_avg"] = expected[f"{index}.exp_avg_sq"] = weight
    if problem := tensor_problem(state, expected):
        return problem
    for name, tensor in state.items():
        if name.endswith(".step") and not (tensor >= 1 and tensor == tensor.round()):
            return f"{name} is not a number of steps"
        if name.endswith(".exp_avg_sq") and bool((tensor < 0).any()):
            return f"{name} has squares below 0"
    return None
