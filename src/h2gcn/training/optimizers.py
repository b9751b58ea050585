"""Optimizers by name: torch's own, without the compiler that they load.

torch has its optimizers ask its compiler to leave them alone, and loads it for that,
which takes longer than torch itself. Nothing is compiled here, so their methods are
taken as they were before they were wrapped. The steps are the same to the bit.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch

from h2gcn.models import NodeModule

__all__ = ["OPTIMIZERS", "make_optimizer"]

Kind = type[torch.optim.Adam] | type[torch.optim.SGD]


def _uncompiled(kind: Kind) -> Kind:
    """Return a kind of optimizer whose methods do not load torch's compiler."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain = {name: unwrap(getattr(kind, name)) for name in names}
    step = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), plain | {"step": step})


OPTIMIZERS: dict[str, Kind] = {
    "adam": _uncompiled(torch.optim.Adam),
    "sgd": _uncompiled(torch.optim.SGD),
}
"""What `optimizer` takes."""


def make_optimizer(
    name: str, model: NodeModule, learning_rate: float, l2: float
) -> torch.optim.Optimizer:
    """Return a new optimizer of a model's weights by its name.

    Parameters
    ----------
    name
        One of `OPTIMIZERS`.
    model
        `model.regularised()` names the weights that the penalty acts on.
    learning_rate
        The optimizer's.
    l2
        Weight w of the penalty w·‖W‖².
    """
    penalised = model.regularised()
    names = {id(weight) for weight in penalised}
    free = [weight for weight in model.parameters() if id(weight) not in names]
    # The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    groups: list[dict[str, Any]] = [{"params": penalised, "weight_decay": 2 * l2}]
    if free:
        groups.append({"params": free, "weight_decay": 0.0})
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    return OPTIMIZERS[name](groups, lr=learning_rate, fused=fused)
