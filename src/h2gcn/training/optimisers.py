"""The optimisers of the programs, with an L2 penalty on a part of the weights."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["OPTIMIZERS", "find_optimiser"]

OPTIMIZERS: dict[str, type[torch.optim.Adam] | type[torch.optim.SGD]] = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}
"""What `optimizer` takes."""


def find_optimiser(
    name: str, model: nn.Module, learning_rate: float, l2: float
) -> torch.optim.Optimizer:
    """Return a fresh optimiser of a model's weights by its name.

    Parameters
    ----------
    name
        One of `OPTIMIZERS`.
    model
        `model.regularised()` names the weights that the penalty acts on.
    learning_rate
        The optimiser's.
    l2
        Weight w of the penalty w·‖W‖².
    """
    penalised = model.regularised()  # type: ignore[operator]
    names = {id(weight) for weight in penalised}
    free = [weight for weight in model.parameters() if id(weight) not in names]
    # The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    groups = [{"params": penalised, "weight_decay": 2 * l2}]
    if free:
        groups.append({"params": free, "weight_decay": 0.0})
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    return OPTIMIZERS[name](groups, lr=learning_rate, fused=fused)
