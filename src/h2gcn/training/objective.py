"""What a step lowers: the cross-entropy of nodes, by the weights of their classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

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
