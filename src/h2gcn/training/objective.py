"""What training minimises, and the optimizer that does it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.models import NodeModule

__all__ = [
    "CLASS_WEIGHTS",
    "OPTIMIZERS",
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


def node_loss(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean cross-entropy of some nodes, by the weights of their classes.

    Parameters
    ----------
    logits
        [m, C].
    labels
        Class indices, [m].
    weights
        Of `class_weights`.
    """
    if weights is None:
        return functional.cross_entropy(logits, labels)
    losses = functional.cross_entropy(logits, labels, reduction="none")
    # To divide by the weights of a batch, and not by their mean over all nodes, would
    # take them away again where the batch has one class only.
    return (losses * weights[labels].to(losses.dtype)).mean()


OPTIMIZERS: dict[str, type[torch.optim.Adam] | type[torch.optim.SGD]] = {
    "adam": torch.optim.Adam,
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
