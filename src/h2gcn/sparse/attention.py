"""Weights of edges that are learnt: a softmax over each row, and weighted sums.

An `Operator` gives the pattern alone; the values on it are tensors [k, nnz], one row
for each of k heads, in the order of the operator's entries. Both functions are
differentiable in these values.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from h2gcn.sparse.operator import Matrix, Operator, Triplets, with_values

__all__ = ["row_softmax", "weighted_sums"]


def row_softmax(operator: Operator, scores: Tensor) -> Tensor:
    """Return the softmax of scores over the entries of each row.

    The largest score of a row is subtracted first, so that none is too large for
    the exponential.

    Parameters
    ----------
    operator
        The pattern, [m, n].
    scores
        Of each entry, [k, nnz].
    """
    row = operator.edges[0].expand_as(scores)
    shape = len(scores), operator.shape[0]
    with torch.no_grad():
        top = scores.new_full(shape, -math.inf).scatter_reduce(1, row, scores, "amax")
    powers = torch.exp(scores - top.gather(1, row))
    total = scores.new_zeros(shape).scatter_add(1, row, powers)
    return powers / total.gather(1, row)


def weighted_sums(operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
    r"""Return the sums over each row of what its columns hold, head by head.

    .. math::
        \text{out}_{ih} = \sum_j w_{hij}\, b_{jh}

    With the CSR pattern this is one sparse product a head, its gradient two: with
    the transposed pattern for `dense`, and dot products at the entries alone for
    `weights`. Nothing of size [nnz, d] is made.

    Parameters
    ----------
    operator
        The pattern, [m, n].
    weights
        Of each entry, [k, nnz].
    dense
        What is summed, [n, k, d].

    Returns
    -------
    Tensor
        [m, k, d].
    """
    if isinstance(operator.matrix, Triplets):
        rows, columns = operator.edges
        terms = dense[columns] * weights.T[:, :, None]
        sums = dense.new_zeros(operator.shape[0], *dense.shape[1:])
        return sums.index_add(0, rows, terms)
    result: Tensor = _WeightedSums.apply(operator, weights, dense)  # type: ignore[no-untyped-call]
    return result


class _WeightedSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(weights, dense)
        return _products(operator.matrix, weights, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        operator: Operator = ctx.operator
        weights, dense = ctx.saved_tensors
        turned = weights.index_select(1, operator.transposed_order)
        for_dense = _products(operator.transposed, turned, grads[0])
        for_weights = torch.stack(
            [
                torch.sparse.sampled_addmm(operator.matrix, g, b.T, beta=0.0).values()
                for g, b in zip(grads[0].unbind(1), dense.unbind(1), strict=True)
            ]
        )
        return None, for_weights, for_dense


def _products(pattern: Matrix, weights: Tensor, dense: Tensor) -> Tensor:
    """Return a sparse product for each head, side by side."""
    return torch.stack(
        [
            with_values(pattern, values) @ block
            for values, block in zip(weights, dense.unbind(1), strict=True)
        ],
        dim=1,
    )
