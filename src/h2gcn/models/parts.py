"""What modules share: activations, dropout of sparse features, checks of sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_integer
from h2gcn.sparse import DroppedOperator, Operator, dropout

__all__ = ["ACTIVATIONS", "MAX_WIDTH", "check_sizes", "drop", "pick"]

MAX_WIDTH = 65_536
"""Of a hidden layer; more is a slip of the keyboard."""


def _identity(r: Tensor) -> Tensor:
    return r


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "elu": partial(functional.elu, inplace=True),
    "none": _identity,
}
"""σ by its name. Each overwrites what it is given: a large graph leaves no room."""


def check_sizes(
    owner: str, in_channels: int, out_channels: int, hidden_channels: int
) -> None:
    """Raise where the width of a layer is not a sensible number."""
    check_integer(owner, "in_channels", in_channels, 1)
    check_integer(owner, "out_channels", out_channels, 1)
    check_integer(owner, "hidden_channels", hidden_channels, 1, MAX_WIDTH)


def drop(
    x: Tensor | Operator, probability: float, training: bool
) -> Tensor | Operator | DroppedOperator:
    """Return features with a share dropped; of sparse ones, the stored entries.

    To drop a zero changes nothing, so both are the same dropout.
    """
    if not training or probability == 0:
        return x
    if isinstance(x, Tensor):
        return dropout(x, probability)
    return x.dropout(probability)


def pick(r: Tensor, index: Tensor | slice) -> Tensor:
    """Return the target's rows of r; its gradient is quicker than that of r[index]."""
    return r if isinstance(index, slice) else r.index_select(0, index)
