"""What a training has done so far: epochs, best weights, and stages to replay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.training.module import NodeModule, tensor_problem
from h2gcn.training.seeding import random_problem, random_state, set_random_state
from h2gcn.training.stopping import Epoch, StoppingRule

__all__ = ["GROUPS", "STAGE_GROUPS", "Journal", "Snapshot", "Stage", "Tensors"]

Tensors = dict[str, Tensor]

GROUPS = ("weights", "best_weights", "optimizer", "random")  # tensors of a snapshot
STAGE_GROUPS = ("weights", "random")


@dataclass(frozen=True)
class Stage:
    """A finished stage of a training, with the state after it."""

    epochs: int  # of all stages up to its end
    limit: int  # the epochs or steps that it was allowed
    weights: Tensors
    random: Tensors


@dataclass(frozen=True)
class Snapshot:
    """A copy of a training after an epoch."""

    stages: tuple[Stage, ...]  # the finished ones; the last epoch is of the next one
    weights: Tensors
    best_weights: Tensors
    optimizer: Tensors  # by "index of the parameter.name"
    random: Tensors  # torch's states by type of device: "cpu" and the module's
    history: tuple[Epoch, ...]  # the state of the stopping rule follows from it
    stopped: bool  # whether the rule has stopped the stage
    seconds: float
    source: str = ""  # where it was read from, for messages

    def groups(self) -> Iterator[tuple[str, Tensors]]:
        """Return all tensors by name, those of a stage as "stages.0.weights"."""
        for group in GROUPS:
            yield group, getattr(self, group)
        for i, stage in enumerate(self.stages):
            for group in STAGE_GROUPS:
                yield f"stages.{i}.{group}", getattr(stage, group)


class Journal:
    """The epochs and the finished stages of a training.

    `keep` is the rule that says which epochs to keep. A training goes on from a
    `snapshot`: finished stages are replayed without a step.
    """

    def __init__(
        self, module: NodeModule, keep: StoppingRule, snapshot: Snapshot | None
    ) -> None:
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.best_weights: Tensors = {}  # the module's state after the best epoch
        self.begin = 0  # epochs before this stage
        self._module, self._keep, self._snapshot = module, keep, snapshot
        self._stages: list[Stage] = []
        self._ended: Stage | None = None
        self._start = time.perf_counter()
        if snapshot is not None:
            self._start -= snapshot.seconds
            if problem := _snapshot_problem(snapshot, module):
                self._refuse(problem)

    @property
    def seconds(self) -> float:
        """Spent so far, with those of the snapshot."""
        return time.perf_counter() - self._start

    def add(self, epoch: Epoch) -> None:
        """Add an epoch, and keep the weights if it is the best."""
        if self._keep(epoch).keep:
            # Copied first, so that Ctrl-C never pairs them with another epoch.
            self.best, self.best_weights = epoch, _copy_state(self._module)
        self.history.append(epoch)

    def enter(self, limit: int) -> bool:
        """Begin the next stage; return False if the snapshot has it finished.

        Then the weights and the random state are those after the stage.
        """
        if self._ended is not None:
            self._stages.append(self._ended)
        self._ended, self.begin = None, len(self.history)
        if self._snapshot is None or len(self._stages) >= len(self._snapshot.stages):
            return True
        stage = self._snapshot.stages[len(self._stages)]
        if stage.limit != limit:
            number = len(self._stages) + 1
            self._refuse(
                f"with other epochs, stage {number} would have {limit} steps, and it "
                f"ended after {stage.limit}"
            )
        self._module.load_state_dict(stage.weights)
        set_random_state(stage.random, self._device)
        if stage.epochs > self.begin:
            self._replay(stage.epochs)
            self.best_weights = stage.weights  # a stage with epochs ends with the best
        self._ended = stage
        return False

    def leave(self, limit: int) -> None:
        """Note that the stage has ended."""
        weights, random = _copy_state(self._module), random_state(self._device)
        self._ended = Stage(len(self.history), limit, weights, random)

    def resume(
        self, optimizer: torch.optim.Optimizer, rule: StoppingRule, limit: int
    ) -> bool:
        """Go to where the snapshot is in this stage; return whether it has stopped."""
        snapshot = self._snapshot
        if snapshot is None or len(self._stages) > len(snapshot.stages):
            return False
        if len(snapshot.history) - self.begin > limit:
            self._refuse(f"it is at epoch {len(snapshot.history)}, beyond the limit")
        if problem := _optimizer_problem(optimizer, snapshot.optimizer):
            self._refuse(f"optimizer.{problem}")
        self._replay(len(snapshot.history))
        for epoch in self.history[self.begin :]:
            rule(replace(epoch, number=epoch.number - self.begin))
        if self.best is None:
            self._refuse("no epoch of its history is the best")
        self._module.load_state_dict(snapshot.weights)
        self.best_weights = snapshot.best_weights
        _load_optimizer(optimizer, snapshot.optimizer)
        set_random_state(snapshot.random, self._device)
        return snapshot.stopped

    def snapshot(self, optimizer: torch.optim.Optimizer, stopped: bool) -> Snapshot:
        """Return a copy of the training, between two epochs."""
        state = optimizer.state_dict()["state"]
        return Snapshot(
            stages=tuple(self._stages),
            weights=_copy_state(self._module),
            best_weights=self.best_weights,
            optimizer={
                f"{index}.{name}": value.clone()
                for index, values in state.items()
                for name, value in values.items()
            },
            random=random_state(self._device),
            history=tuple(self.history),
            stopped=stopped,
            seconds=self.seconds,
        )

    def _replay(self, end: int) -> None:
        """Add the snapshot's epochs up to one, without their weights."""
        assert self._snapshot is not None
        for epoch in self._snapshot.history[len(self.history) : end]:
            if self._keep(epoch).keep:
                self.best = epoch
            self.history.append(epoch)

    @property
    def _device(self) -> torch.device:
        return next(self._module.parameters()).device

    def _refuse(self, why: str) -> NoReturn:
        assert self._snapshot is not None
        raise InputError(f"{self._snapshot.source}: cannot go on: {why}")


def _copy_state(module: NodeModule) -> Tensors:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    state: defaultdict[int, Tensors] = defaultdict(dict)
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        # A copy, since steps change it, and what was read may not be aligned.
        state[int(index)][name] = value.clone()
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _snapshot_problem(snapshot: Snapshot, module: NodeModule) -> str | None:
    """Return why a snapshot does not fit a module, but for the optimizer."""
    state, device = module.state_dict(), next(module.parameters()).device
    ends = [0, *(stage.epochs for stage in snapshot.stages)]
    if ends != sorted(ends) or ends[-1] >= len(snapshot.history):
        return "stages do not match the history"
    for name, tensors in snapshot.groups():
        problem = None
        if name.endswith("weights"):
            problem = tensor_problem(tensors, state)
        elif name.endswith("random"):
            problem = random_problem(tensors, device)
        if problem:
            return f"{name}.{problem}"
    return None


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
