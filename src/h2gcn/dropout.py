"""Dropout, several times faster than torch's own on a processor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["dropout"]

CHOICES = 2**16
"""How finely a share can be told: an element is decided by 16 random bits."""


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """Return x with each element zero at the given probability, the others scaled up.

    torch draws a whole number in double precision for each element, which costs more
    than the products around it. Here one draw of 64 bits decides four elements. The
    probability is rounded to 1/65,536, and the scale belongs to the rounded one, so
    that the expectation is x.

    Parameters
    ----------
    x
        Of any shape.
    probability
        The dropped share, in [0, 1).
    training
        Whether to drop at all.
    """
    if not training or probability == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, probability)
    kept = max(1, round((1 - probability) * CHOICES))
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    mask = (bits < kept - CHOICES // 2).to(x.dtype)
    return x * mask.mul_(CHOICES / kept)
