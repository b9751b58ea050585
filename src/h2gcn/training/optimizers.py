"""Optimizers by name: torch's own, without the compiler that they load.

torch has its optimizers ask its compiler to leave them alone, and loads it for that,
which takes longer than torch itself. Nothing is compiled here, so their methods are
taken as they were before they were wrapped. On small graphs a step takes longer to ask
for than to compute: Adam's goes to torch's fused kernel by itself. The steps are the
same to the bit.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch

from h2gcn.models import NodeModule

__all__ = ["OPTIMIZERS", "make_optimizer"]

Kind = type[torch.optim.Adam] | type[torch.optim.SGD]


class Adam(torch.optim.Adam):
    """torch's fused Adam, with the same bits, in a step that asks for less."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        del set_to_none
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step; the first one is torch's own, which makes the state."""
        moved = []
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not group["fused"] or any(not self.state[weight] for weight in weights):
                unwrap(torch.optim.Adam.step)(self, closure)
                return
            moved.append((group, weights))
        for group, weights in moved:
            states = [self.state[weight] for weight in weights]
            steps = [state["step"] for state in states]
            if not weights:
                continue
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                weights,
                [weight.grad for weight in weights],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    step.hooked = True  # type: ignore[attr-defined]  # torch wraps it in a profile


def _uncompiled(kind: Kind) -> Kind:
    """Return a kind of optimizer whose methods do not load torch's compiler."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain = {name: unwrap(getattr(kind, name)) for name in names}
    step = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), plain | {"step": step})


OPTIMIZERS: dict[str, Kind] = {
    "adam": _uncompiled(Adam),
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
