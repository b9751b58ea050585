"""What a step lowers: the cross-entropy of nodes, by the weights of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.sparse import compiled

__all__ = ["CLASS_WEIGHTS", "class_weights", "node_loss"]

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
    plain = logits.dtype == torch.float32 and logits.device.type == "cpu"
    if weights is None and count == len(labels) and plain:
        loss: Tensor = _CrossEntropy.apply(logits, labels)  # type: ignore[no-untyped-call]
        return loss
    losses = functional.cross_entropy(logits, labels, reduction="none")
    # To divide by the weights of a batch, and not by their mean over all nodes, would
    # take them away again where the batch has one class only.
    if weights is not None:
        losses = losses * weights[labels].to(losses.dtype)
    return losses.mean() if count == len(labels) else losses.sum() / count


class _CrossEntropy(torch.autograd.Function):
    """The mean cross-entropy, and its gradient in the same call."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        grad = logits.new_empty(logits.shape if wanted else (0, 0))
        mean = _cross_entropy(logits.detach().numpy(), labels.numpy(), grad.numpy())
        ctx.save_for_backward(grad)
        return logits.new_tensor(mean)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,) = ctx.saved_tensors
        return grad * grads[0], None


@compiled
def _cross_entropy(logits, labels, grad):  # type: ignore[no-untyped-def]
    """Return the mean cross-entropy, and write its gradient where there is room."""
    m, classes = logits.shape
    wanted, total = grad.shape[0] == m, 0.0
    for i in range(m):
        label = labels[i]
        if not 0 <= label < classes:
            raise IndexError("a label is not the number of a class")
        top = logits[i, 0]
        for j in range(1, classes):
            top = max(top, logits[i, j])
        powers = np.float32(0)
        for j in range(classes):
            power = np.exp(logits[i, j] - top)
            powers += power
            if wanted:
                grad[i, j] = power
        total += np.log(powers) + (top - logits[i, label])
        if wanted:
            each = np.float32(1) / (np.float32(m) * powers)
            for j in range(classes):
                grad[i, j] *= each
            grad[i, label] -= np.float32(1) / np.float32(m)
    return total / m if m else np.nan
