"""How far pairs of rows are from each other, without a row for each pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from h2gcn.sparse.compiling import compiled

__all__ = ["pair_distances"]


def pair_distances(
    one: Tensor, other: Tensor, pairs: Tensor, weights: Tensor
) -> Tensor:
    r"""Return the weighted squared distances of pairs of rows, [m].

    .. math::
        z_{uv} = \sum_k w_k (a_{uk} - b_{vk})^2

    torch would write the differences, and their gradients, of all pairs; in memory, a
    compiled pass takes them pair by pair.

    Parameters
    ----------
    one, other
        a and b, [n, p], also the same.
    pairs
        u and v, columns of row numbers, [2, m].
    weights
        w, [p].
    """
    if _by_hand(one, other, weights):
        result: Tensor = _Distances.apply(one, other, pairs, weights)  # type: ignore[no-untyped-call]
        return result
    first, second = pairs
    apart = one.index_select(0, first) - other.index_select(0, second)
    return apart.square() @ weights


def _by_hand(*given: Tensor) -> bool:
    return all(t.dtype == torch.float32 and t.device.type == "cpu" for t in given)


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, one: Tensor, other: Tensor, pairs: Tensor, weights: Tensor
    ) -> Tensor:
        given = one.contiguous(), other.contiguous(), pairs, weights.contiguous()
        ctx.save_for_backward(*given)
        found = one.new_empty(pairs.shape[1])
        _write_distances(*(tensor.detach().numpy() for tensor in given), found.numpy())
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        one, other, pairs, weights = ctx.saved_tensors
        of_one, of_weights = torch.zeros_like(one), torch.zeros_like(weights)
        same = one.data_ptr() == other.data_ptr()
        of_other = of_one if same else torch.zeros_like(other)
        given = one, other, pairs, weights, grads[0], of_one, of_other, of_weights
        _add_gradients(*(tensor.detach().contiguous().numpy() for tensor in given))
        return of_one, None if same else of_other, None, of_weights


LANES = 16
"""Columns whose sums are kept apart: a processor adds so many together."""


@compiled
def _write_distances(one, other, pairs, weights, out):  # type: ignore[no-untyped-def]
    """Write the distance of each pair; columns are summed in an order of their own."""
    width = one.shape[1]
    whole = width - width % LANES
    sums = np.empty(LANES, one.dtype)
    for i in range(len(out)):
        u, v = pairs[0, i], pairs[1, i]
        total = one.dtype.type(0)
        if whole:
            sums[:] = 0
            for begun in range(0, whole, LANES):
                for j in range(LANES):
                    apart = one[u, begun + j] - other[v, begun + j]
                    sums[j] += apart * apart * weights[begun + j]
            for j in range(LANES):
                total += sums[j]
        for j in range(whole, width):
            apart = one[u, j] - other[v, j]
            total += apart * apart * weights[j]
        out[i] = total


@compiled
def _add_gradients(  # type: ignore[no-untyped-def]
    one, other, pairs, weights, grad, of_one, of_other, of_weights
):
    """Add what each pair says of its two rows and of the weights."""
    width = one.shape[1]
    for i in range(len(grad)):
        u, v = pairs[0, i], pairs[1, i]
        left, right = one[u], other[v]
        to_left, to_right, by = of_one[u], of_other[v], grad[i]
        for j in range(width):
            apart = left[j] - right[j]
            share = by * apart
            of_weights[j] += share * apart
            step = (share + share) * weights[j]
            to_left[j] += step
            to_right[j] -= step
