"""Sums over neighbors whose weights are learned, several heads side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, leaky_relu

from h2gcn.sparse.masks import dropout
from h2gcn.sparse.operator import Operator, spmm

__all__ = ["attend", "attention_bytes", "row_softmax", "weighted_sums"]


def attend(
    operator: Operator,
    source: Tensor,
    neighbor: Tensor,
    z: Tensor,
    *,
    slope: float,
    p: float = 0.0,
) -> Tensor:
    """Return sums over each row's entries, weighted by a softmax of their scores.

    For each head,

        α_i· = softmax_j(LeakyReLU(s_i + t_j)),   out_i = Σ_j drop(α_ij) drop(z_j)

    Parameters
    ----------
    operator
        The pattern, [m, n]; its values are not used.
    source, neighbor, z
        s, [m, k], t, [n, k], and z, [n, k, d]. The result is [m, k, d].
    slope
        Of LeakyReLU where its argument is negative, in [0, 1].
    p
        The dropped fraction, in [0, 1).
    """
    scores: Tensor = _PairSums.apply(operator, source, neighbor)  # type: ignore[no-untyped-call]
    alpha = dropout(row_softmax(operator, leaky_relu(scores, slope)), p)
    return weighted_sums(operator, alpha, dropout(z.flatten(1), p).view_as(z))


def attention_bytes(heads: int) -> int:
    """Return the bytes that a training step holds for an entry of the pattern."""
    return 32 + 48 * heads


def row_softmax(operator: Operator, scores: Tensor) -> Tensor:
    """Return the softmax of scores, [nnz, k], over the entries of each row."""
    result: Tensor = _RowSoftmax.apply(operator, scores)  # type: ignore[no-untyped-call]
    return result


def weighted_sums(operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
    """Return Σ_j w_ij b_j, [m, k, d], for weights [nnz, k] and b = dense, [n, k, d]."""
    result: Tensor = _WeightedSums.apply(operator, weights, dense)  # type: ignore[no-untyped-call]
    return result


class _PairSums(torch.autograd.Function):
    """The scores s_i + t_j of each entry, [nnz, k]."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, s: Tensor, t: Tensor) -> Tensor:
        ctx.operator = operator
        rows, columns = operator.coo
        return s.index_select(0, rows).add_(t.index_select(0, columns))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        operator, (grad,) = ctx.operator, grads
        return None, _row_sums(operator, grad), _column_sums(operator, grad)


class _RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, scores: Tensor) -> Tensor:
        rows, _ = operator.coo
        top = _reduce_rows(operator, scores, "max")
        powers = scores.sub(top.index_select(0, rows)).exp_()
        alpha = powers.div_(_row_sums(operator, powers).index_select(0, rows))
        ctx.operator = operator
        ctx.save_for_backward(alpha)
        return alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (alpha,), (rows, _) = ctx.saved_tensors, ctx.operator.coo
        grad = alpha * grads[0]
        mean = _row_sums(ctx.operator, grad).index_select(0, rows)
        return None, grad.sub_(alpha * mean)


class _WeightedSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(weights, dense)
        return _products(operator, weights, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        operator, (grad,) = ctx.operator, grads
        weights, dense = ctx.saved_tensors
        transposed = weights.index_select(0, operator.transpose_order)
        of_dense = _products(operator.T, transposed, grad)
        return None, _pair_products(operator, grad, dense), of_dense


def _products(operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
    """Return one sparse product for each head, side by side, [m, k, d]."""
    indptr, indices, _ = operator.parts
    heads = zip(weights.t().contiguous(), dense.unbind(1), strict=True)
    return torch.stack([spmm(indptr, indices, *head) for head in heads], dim=1)


def _pair_products(operator: Operator, left: Tensor, right: Tensor) -> Tensor:
    """Return a_i · b_j of each entry and head, [nnz, k], for [m, k, d], [n, k, d]."""
    rows, columns = operator.coo
    chunk = max(1, 2**20 // max(left.shape[1] * left.shape[2], 1))
    return torch.cat(
        [
            (left.index_select(0, i) * right.index_select(0, j)).sum(dim=2)
            for i, j in zip(rows.split(chunk), columns.split(chunk), strict=True)
        ]
    )


def _column_sums(operator: Operator, values: Tensor) -> Tensor:
    """Return the sums of values, [nnz, k], over the entries of each column, [n, k]."""
    return _reduce_rows(operator.T, values, "sum", operator.transpose_order)


def _row_sums(operator: Operator, values: Tensor) -> Tensor:
    return _reduce_rows(operator, values, "sum")


def _reduce_rows(
    operator: Operator, values: Tensor, mode: str, order: Tensor | None = None
) -> Tensor:
    """Return the sums or maxima of values, [nnz, k], over each row, [m, k]."""
    indptr = operator.parts[0].long()
    if not len(values):
        return values.new_zeros(len(indptr) - 1, values.shape[1])
    if order is None:
        order = torch.arange(len(values), device=values.device)
    return embedding_bag(order, values, indptr, mode=mode, include_last_offset=True)
