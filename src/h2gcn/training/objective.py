"""What a step lowers, and how it moves the weights.

On small graphs both take longer to ask for than to compute: the cross-entropy and Adam
are here in fewer calls than torch's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.models import NodeModule

__all__ = [
    "CLASS_WEIGHTS",
    "OPTIMIZERS",
    "Adam",
    "class_weights",
    "make_optimizer",
    "node_loss",
]

CLASS_WEIGHTS = ("balanced",)
"""What `class_weight` takes, beside None."""


def class_weights(kind: str | None, labels: Tensor, train: Tensor) -> Tensor | None:
    """Return a weight for each class, [C], or None where every node has the same.

    Parameters
    ----------
    kind
        "balanced": the weights of each class have the same sum over the training
        nodes, and all of them the mean 1; or None.
    labels
        Class indices, [n].
    train
        The training nodes, [m].

    Examples
    --------
    >>> class_weights("balanced", torch.tensor([0, 0, 0, 1]), torch.arange(4))
    tensor([0.6667, 2.0000])
    """
    if kind is None:
        return None
    counts = torch.bincount(labels[train], minlength=int(labels.max()) + 1)
    present = torch.count_nonzero(counts)
    # One that training does not have matters to no step.
    return torch.where(counts > 0, len(train) / (present * counts.clamp(min=1)), 1.0)


def node_loss(
    logits: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    count: int | None = None,
) -> Tensor:
    """Return the mean cross-entropy of some nodes, by the weights of their classes.

    Parameters
    ----------
    logits
        [m, C].
    labels
        Class indices, [m].
    weights
        Of `class_weights`.
    count
        How many nodes the mean is of, where the others are elsewhere; None is m.
    """
    count = len(labels) if count is None else count
    if weights is None and count == len(labels):
        loss: Tensor = _CrossEntropy.apply(logits, labels)  # type: ignore[no-untyped-call]
        return loss
    losses = functional.cross_entropy(logits, labels, reduction="none")
    # To divide by the weights of a batch, and not by their mean over all nodes, would
    # take them away again where the batch has one class only.
    if weights is not None:
        losses = losses * weights[labels].to(losses.dtype)
    return losses.mean() if count == len(labels) else losses.sum() / count


class _CrossEntropy(torch.autograd.Function):
    """The mean cross-entropy, class by class; torch goes node by node."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        powers = logits.t().clone(memory_format=torch.contiguous_format)
        powers -= powers.amax(dim=0)
        own = powers.gather(0, labels[None])
        sums = powers.exp_().sum(dim=0)
        ctx.save_for_backward(powers, sums, labels)
        return (sums.log() - own).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        powers, sums, labels = ctx.saved_tensors
        each = grads[0] / len(labels)
        found = powers * (each / sums)
        found.scatter_add_(0, labels[None], -each.expand(1, len(labels)))
        return found.t(), None


class Adam(torch.optim.Adam):
    """torch's fused Adam, with the same bits, in a step that asks for less."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        del set_to_none
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step; the first one is torch's own, which makes the state."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not group["fused"] or any(not self.state[weight] for weight in weights):
                super().step(closure)
                return
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
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

    step.hooked = True  # type: ignore[attr-defined]


OPTIMIZERS: dict[str, type[torch.optim.Adam] | type[torch.optim.SGD]] = {
    "adam": Adam,
    "sgd": torch.optim.SGD,
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
