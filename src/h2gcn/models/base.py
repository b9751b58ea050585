"""What the modules of several models share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.sparse import Operator, WeightedOperator, dropout
from h2gcn.training import NodeModule, Trainer


def _identity(r: Tensor) -> Tensor:
    return r


# σ by its name. Each works in place: a large graph leaves no room for a copy.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "elu": partial(functional.elu, inplace=True),
    "none": _identity,
}


class LabelModule(NodeModule):
    """A module whose `x` are the known labels, and that has no weights to train."""

    inputs = "labels"
    epochs = False

    def fit(self, trainer: Trainer) -> None:
        """Do nothing."""


def glorot(in_channels: int, *out_channels: int) -> nn.Parameter:
    """Return a weight as Glorot and Bengio draw it, [in_channels, out_channels].

    Of several widths, the blocks stand side by side, each drawn by itself.
    """
    weight = torch.empty(in_channels, sum(out_channels))
    for block in weight.split(out_channels, dim=1) if weight.numel() else ():
        nn.init.xavier_uniform_(block)
    return nn.Parameter(weight)


def uniform(bound: float, *shape: int) -> nn.Parameter:
    """Return a weight of some shape, drawn between -bound and bound."""
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def drop(
    x: Tensor | Operator, p: float, training: bool
) -> Tensor | Operator | WeightedOperator:
    """Return features with entries dropped; of sparse ones, the stored entries.

    Dropping a zero changes nothing, so both are the same dropout.
    """
    if not training or p == 0:
        return x
    return dropout(x, p) if isinstance(x, Tensor) else x.dropout(p)
