"""What a checkpoint holds of a training, and whether a stored one fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from h2gcn.training.module import NodeModule, tensor_problem
from h2gcn.training.seeding import random_problem
from h2gcn.training.stopping import Epoch

__all__ = ["Snapshot", "Stage", "Tensors", "optimizer_problem", "snapshot_problem"]

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Stage:
    """A finished stage of a training, to be replayed without a step.

    Parameters
    ----------
    epochs
        Epochs of all stages up to its end.
    limit
        The epochs or steps that it was allowed.
    weights, random
        The module's state and the random state after it.
    """

    epochs: int
    limit: int
    weights: Tensors
    random: Tensors


@dataclass(frozen=True)
class Snapshot:
    """A copy of a training after an epoch.

    Parameters
    ----------
    stages
        Those that are finished; the last epoch belongs to the next one.
    weights, best_weights
        The module's state after the last epoch, and after the best one.
    optimizer
        Its state, by "index of the parameter.name".
    random
        torch's random state by type of device: "cpu" and the module's.
    history
        All epochs. The state of the stopping rule follows from them.
    stopped
        Whether the rule has stopped the stage.
    seconds
        Spent so far.
    source
        Where it was read from, for messages.
    """

    stages: tuple[Stage, ...]
    weights: Tensors
    best_weights: Tensors
    optimizer: Tensors
    random: Tensors
    history: tuple[Epoch, ...]
    stopped: bool
    seconds: float
    source: str = ""


def snapshot_problem(snapshot: Snapshot, module: NodeModule) -> str | None:
    """Return why a snapshot does not fit a module, if so; but for the optimizer."""
    state, device = module.state_dict(), next(module.parameters()).device
    ends = [0, *(stage.epochs for stage in snapshot.stages)]
    if ends != sorted(ends) or ends[-1] >= len(snapshot.history):
        return "stages do not match the history"
    groups = {"weights": snapshot.weights, "best_weights": snapshot.best_weights}
    random = {"random": snapshot.random}
    for i, stage in enumerate(snapshot.stages):
        groups[f"stages.{i}.weights"] = stage.weights
        random[f"stages.{i}.random"] = stage.random
    for name, tensors in groups.items():
        if problem := tensor_problem(tensors, state):
            return f"{name}.{problem}"
    for name, states in random.items():
        if problem := random_problem(states, device):
            return f"{name}.{problem}"
    return None


def optimizer_problem(
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
