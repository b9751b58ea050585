"""Sums over neighbours whose weights are learnt, several heads side by side.

They are written down twice: as torch differentiates them, for any device, and by hand
for patterns in memory, where scores, softmax and gradients are a few calls of compiled
kernels. By hand, a number for each entry and head is kept for the backward pass, twice
where weights are dropped; which ones are dropped follows from a key (`Draw`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.sparse.compiling import compiled
from h2gcn.sparse.dropping import draw, dropout
from h2gcn.sparse.operator import (
    SHARED,
    Matrix,
    Operator,
    TiledMatrix,
    row_softmax,
    weighted_sums,
)
from h2gcn.sparse.rows import count_threads, share_out

__all__ = ["attend"]


def attend(
    operator: Operator,
    own: Tensor,
    other: Tensor,
    z: Tensor,
    *,
    slope: float,
    probability: float = 0.0,
    by_hand: bool = True,
) -> Tensor:
    r"""Return sums over each row's entries, weighted by a softmax of their scores.

    For each head,

    .. math::
        \alpha_{i\cdot} = \mathrm{softmax}_j(\mathrm{LeakyReLU}(s_i + t_j)), \quad
        \text{out}_i = \sum_j \mathrm{drop}_p(\alpha_{ij})\, \mathrm{drop}_p(z_j)

    Parameters
    ----------
    operator
        The pattern, [m, n]; its values are not used.
    own
        s, [k, m].
    other
        t, [k, n].
    z
        What is summed, [n, k, d].
    slope
        Of LeakyReLU where its argument is negative, in [0, 1].
    probability
        p, in [0, 1).
    by_hand
        Whether compiled kernels are worth loading: in a training, not for one call.

    Returns
    -------
    Tensor
        [m, k, d].
    """
    if by_hand and TiledMatrix.can(operator.matrix) and z.dtype == torch.float32:
        result: Tensor = _Attention.apply(operator, own, other, z, slope, probability)  # type: ignore[no-untyped-call]
        return result
    rows, columns = operator.edges
    scores = own.index_select(1, rows) + other.index_select(1, columns)
    alpha = row_softmax(operator, functional.leaky_relu(scores, slope))
    alpha = dropout(alpha, probability)
    return weighted_sums(operator, alpha, dropout(z, probability))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        own: Tensor,
        other: Tensor,
        z: Tensor,
        slope: float,
        probability: float,
    ) -> Tensor:
        own, other, z = own.contiguous(), other.contiguous(), z.contiguous()
        heads, pattern = z.shape[1], operator.matrix
        starts, columns, entries = _parts(pattern)
        alpha = z.new_empty(heads, entries)
        given = starts, columns, own.numpy(), other.numpy(), np.float32(slope)
        _by_rows(write_scores, pattern, *given, alpha.numpy())
        alpha.exp_()
        _by_rows(make_shares, pattern, starts, alpha.numpy())
        of_alpha, of_z = draw(probability, heads), draw(probability, len(z))
        weights, dropped = alpha, z
        if of_alpha is not None and of_z is not None:
            weights = of_alpha.drop(alpha * (of_alpha.scale * of_z.scale))
            dropped = of_z.drop(z.flatten(1).clone()).view_as(z)
        ctx.operator, ctx.slope, ctx.draws = operator, slope, (of_alpha, of_z)
        ctx.save_for_backward(own, other, alpha, weights, dropped)
        return _sums(pattern, weights, dropped)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        own, other, alpha, weights, dropped = ctx.saved_tensors
        operator, grad = ctx.operator, grads[0].contiguous()
        pattern, turned = operator.matrix, operator.transposed
        of_alpha, of_z = ctx.draws
        scale = 1.0 if of_z is None else of_alpha.scale * of_z.scale
        starts, columns, _ = _parts(pattern)
        of_scores = _dots(pattern, grad, dropped)
        if of_alpha is not None:
            of_alpha.drop(of_scores)
        of_own, of_other = torch.empty_like(own), torch.empty_like(other)
        _by_rows(
            make_score_gradients,
            pattern,
            *(starts, columns, own.numpy(), other.numpy()),
            *(np.float32(scale), np.float32(scale * ctx.slope)),
            *(alpha.numpy(), of_scores.numpy(), of_own.numpy()),
        )
        order, by_column = operator.transposed_order.numpy(), torch.empty_like(weights)
        given = of_scores.numpy(), weights.numpy(), of_other.numpy(), by_column.numpy()
        _by_rows(write_turned, turned, _parts(turned)[0], order, *given)
        for_z = _sums(turned, by_column, grad)
        if of_z is not None:
            of_z.drop(for_z.flatten(1))
        return None, of_own, of_other, for_z, None, None


def _parts(pattern: Matrix) -> tuple[Any, Any, int]:
    """Return where rows begin, the columns of entries, and how many there are."""
    assert isinstance(pattern, Tensor)  # as `TiledMatrix.can` has found
    starts, columns = pattern.crow_indices().numpy(), pattern.col_indices().numpy()
    return starts, columns, len(columns)


def _by_rows(kernel: Callable[..., None], pattern: Matrix, *given: Any) -> None:
    """Have a kernel called for all rows of a pattern, some at a time in threads."""
    _shared(lambda rows: kernel(rows.start, rows.stop, *given), pattern, len(given[-1]))


def _shared(work: Callable[[slice], None], pattern: Matrix, columns: int) -> None:
    assert isinstance(pattern, Tensor)
    threads, rows = count_threads(), pattern.shape[0]
    if threads == 1 or pattern._nnz() * columns < SHARED * threads:
        work(slice(0, rows))
    else:
        share_out(work, TiledMatrix(pattern).parts, threads)


def _sums(pattern: Matrix, weights: Tensor, dense: Tensor) -> Tensor:
    """Return a sparse product for each head, side by side, [m, k, d]."""
    from h2gcn.sparse.tiles import HEAD, write_head_sums, write_rows

    assert isinstance(pattern, Tensor)
    _, heads, width = dense.shape
    out = dense.new_empty(pattern.shape[0], heads, width)
    if width == HEAD:
        _by_heads(write_head_sums, pattern, weights, dense, out)
        return out
    number = np.arange(heads)
    table = np.zeros((heads, 8), dtype=np.int64)
    table[:, :2] = _addresses(pattern)
    table[:, 2] = weights.data_ptr() + 4 * weights.shape[1] * number
    table[:, 3] = dense.data_ptr() + 4 * width * number
    table[:, 5] = out.data_ptr() + 4 * width * number
    table[:, [4, 6]] = 4 * heads * width
    _shared(
        lambda rows: write_rows(table, rows.start, rows.stop, width),
        pattern,
        heads * width,
    )
    return out


def _dots(pattern: Matrix, grad: Tensor, dense: Tensor) -> Tensor:
    """Return what a row's and a column's heads have in common, [k, nnz]."""
    from h2gcn.sparse.tiles import HEAD, write_head_dots

    starts, columns, entries = _parts(pattern)
    out = dense.new_empty(dense.shape[1], entries)
    if dense.shape[2] == HEAD:
        _by_heads(write_head_dots, pattern, out, dense, grad)
    else:
        given = starts, columns, grad.numpy(), dense.numpy(), out.numpy()
        _by_rows(write_dots, pattern, *given)
    return out


def _by_heads(
    kernel: Callable[..., None],
    pattern: Matrix,
    values: Tensor,
    dense: Tensor,
    rows: Tensor,
) -> None:
    """Have a kernel of `tiles` called for all rows of a pattern."""
    heads, width = dense.shape[1:]
    given = (
        *(heads, *_addresses(pattern)),
        *(values.data_ptr(), 4 * values.shape[1], dense.data_ptr(), rows.data_ptr()),
    )
    _shared(lambda of: kernel(of.start, of.stop, *given), pattern, heads * width)


def _addresses(pattern: Matrix) -> tuple[int, int]:
    """Return where a pattern's row starts and columns are."""
    assert isinstance(pattern, Tensor)
    return pattern.crow_indices().data_ptr(), pattern.col_indices().data_ptr()


@compiled
def write_scores(first, last, starts, columns, own, other, slope, out):  # type: ignore[no-untyped-def]
    """Write the score of each entry and head, less the largest of its row."""
    for h in range(len(out)):
        mine, theirs, found = own[h], other[h], out[h]
        for i in range(first, last):
            top = np.float32(-np.inf)
            begin, end = np.uint64(starts[i]), np.uint64(starts[i + 1])
            for e in range(begin, end):
                score = mine[i] + theirs[np.uint64(columns[e])]
                score = max(score, slope * score)
                found[e] = score
                top = max(top, score)
            for e in range(begin, end):
                found[e] -= top


@compiled
def make_shares(first, last, starts, powers):  # type: ignore[no-untyped-def]
    """Divide the powers of each row by their sum, in place."""
    for h in range(len(powers)):
        found = powers[h]
        for i in range(first, last):
            total = np.float32(0)
            begin, end = np.uint64(starts[i]), np.uint64(starts[i + 1])
            for e in range(begin, end):
                total += found[e]
            share = np.float32(1) / total if end > begin else total
            for e in range(begin, end):
                found[e] *= share


@compiled
def write_dots(first, last, starts, columns, grad, dense, out):  # type: ignore[no-untyped-def]
    """Write the product of a row of `grad` and one of `dense` for each entry and head.

    The heads of an entry come one after the other: their rows are side by side.
    """
    heads, width = np.uint64(dense.shape[1]), np.uint64(dense.shape[2])
    for i in range(first, last):
        rows = grad[i]
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            others = dense[np.uint64(columns[e])]
            for h in range(heads):
                total = np.float32(0)
                for c in range(width):
                    total += rows[h, c] * others[h, c]
                out[h, e] = total


@compiled
def make_score_gradients(  # type: ignore[no-untyped-def]
    first, last, starts, columns, own, other, above, below, alpha, given, of_own
):
    """Turn gradients of shares into those of s + t, in place, and sum them by row.

    They count `above` times where s + t is positive, and else `below` times.
    """
    for h in range(len(given)):
        mine, theirs, shares, found = own[h], other[h], alpha[h], given[h]
        for i in range(first, last):
            mean, total = np.float32(0), np.float32(0)
            begin, end = np.uint64(starts[i]), np.uint64(starts[i + 1])
            for e in range(begin, end):
                mean += shares[e] * found[e]
            for e in range(begin, end):
                positive = mine[i] + theirs[np.uint64(columns[e])] > 0
                times = above if positive else below
                found[e] = shares[e] * (found[e] - mean) * times
                total += found[e]
            of_own[h, i] = total


@compiled
def write_turned(first, last, starts, order, of_scores, weights, of_other, out):  # type: ignore[no-untyped-def]
    """Sum gradients by column, and write weights in the order of the transpose."""
    for h in range(len(out)):
        scores, values, found = of_scores[h], weights[h], out[h]
        for j in range(first, last):
            total = np.float32(0)
            for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                place = np.uint64(order[e])
                total += scores[place]
                found[e] = values[place]
            of_other[h, j] = total
