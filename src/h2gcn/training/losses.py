"""What training minimises: the loss of nodes, each or each class of the same weight."""

from __future__ import annotations

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
