"""Dropout decided by a hash of a key, the row's node and the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

__all__ = ["Mask", "dropout", "dropout_linear", "sample_mask"]

CHOICES = 2**16  # an element is decided by 16 bits, so p is rounded to 1/65,536


class Mask(NamedTuple):
    """Which elements of a matrix dropout keeps; the backward pass computes it anew.

    A node's row is dropped alike whichever other rows are there.

    Parameters
    ----------
    key
        Drawn from torch's generator.
    nodes
        The node of each row, [m].
    keep
        How many of 65,536 numbers keep an element.
    """

    key: int
    nodes: NDArray[np.int64]
    keep: int

    @property
    def scale(self) -> float:
        """The factor of what is kept, so that the expectation is the input."""
        return CHOICES / self.keep

    def drop_(self, x: Tensor, first: int = 0) -> Tensor:
        """Set columns from `first` on, [m, c], to zero in place where not kept."""
        from h2gcn.sparse.kernels import drop

        bits = x.detach().numpy().view(f"i{x.element_size()}")
        drop(bits, self.nodes, first, np.uint64(self.key), self.keep)
        return x

    def rows(self, rows: slice) -> Mask:
        """Return the mask of some rows."""
        return self._replace(nodes=self.nodes[rows])


def sample_mask(p: float, nodes: Tensor | int) -> Mask | None:
    """Return a random mask for the rows of some nodes; None where all is kept.

    Parameters
    ----------
    p
        The dropped fraction, in [0, 1), rounded to 1/65,536.
    nodes
        The node of each row, [m], or the number of rows.
    """
    keep = max(1, round((1 - p) * CHOICES))
    if keep == CHOICES:
        return None
    ids = np.arange(nodes) if isinstance(nodes, int) else nodes.numpy()
    return Mask(int(torch.randint(2**63 - 1, ())), ids, keep)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Mask, x: Tensor) -> Tensor:
        ctx.mask = mask
        return mask.drop_((x * mask.scale).contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.mask.drop_((grads[0] * ctx.mask.scale).contiguous())


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Return x with elements set to zero with probability p, the others scaled up.

    Several times faster on a CPU than torch's own, which draws a number per element.
    """
    if not training or p == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, p)
    rows = x if x.dim() == 2 else x.reshape(1, -1)
    mask = sample_mask(p, len(rows))
    if mask is None:
        return x
    dropped: Tensor = _Dropout.apply(mask, rows)  # type: ignore[no-untyped-call]
    return dropped.view(x.shape)


def dropout_linear(
    blocks: Sequence[Tensor], weight: Tensor, p: float, nodes: Tensor | None = None
) -> Tensor:
    """Return dropout(B_1 ‖ B_2 ‖ …) W; a node's row is dropped alike in any batch.

    Parameters
    ----------
    blocks
        Side by side, [m, c_i] each.
    weight
        W, [Σ c_i, C].
    p
        The dropped fraction, in [0, 1).
    nodes
        The node of each row, [m]; None numbers the rows.
    """
    width = sum(block.shape[1] for block in blocks)
    if width != len(weight):
        raise ValueError(f"blocks of {width} columns do not match {len(weight)} rows")
    if p == 0 or weight.device.type != "cpu":
        return functional.dropout(torch.cat([*blocks], dim=1), p) @ weight
    mask = sample_mask(p, len(blocks[0]) if nodes is None else nodes)
    if mask is None:
        return torch.cat([*blocks], dim=1) @ weight
    result: Tensor = _DropoutLinear.apply(mask, weight, *blocks)  # type: ignore[no-untyped-call]
    return result


class _DropoutLinear(torch.autograd.Function):
    # The class dimension never comes last: MKL is several times slower there.
    @staticmethod
    def forward(ctx: Any, mask: Mask, weight: Tensor, *blocks: Tensor) -> Tensor:
        x = mask.drop_(torch.cat(blocks, dim=1))
        ctx.mask, ctx.widths = mask, [block.shape[1] for block in blocks]
        ctx.save_for_backward(x, weight)
        scaled = (weight * mask.scale).t().contiguous()
        return (scaled @ x.t()).t().contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        mask, grad = ctx.mask, grads[0] * ctx.mask.scale
        of_blocks, first = [], 0
        for part in weight.split(ctx.widths):
            of_blocks.append(mask.drop_(grad @ part.t(), first))
            first += len(part)
        return None, (grad.t() @ x).t(), *of_blocks
