"""Sums over neighbors whose weights are learnt, several heads side by side.

They are written down twice: as torch differentiates them, for any device, and by hand
for patterns in memory, where scores, softmax and gradients are a few calls of compiled
kernels (`lanes`). By hand, a number for each entry and head is kept for the backward
pass, twice where weights are dropped; which are dropped follows from a key (`Draw`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.sparse.dropping import draw, dropout
from h2gcn.sparse.lanes import (
    LANES,
    make_score_gradients,
    make_shares,
    write_dots,
    write_scores,
    write_sums,
    write_turned,
)
from h2gcn.sparse.operator import (
    Matrix,
    Operator,
    TiledMatrix,
    row_softmax,
    weighted_sums,
)
from h2gcn.sparse.rows import SHARED, count_threads, equal_parts, share_out
from h2gcn.sparse.tiles import write_rows

__all__ = ["attend", "attention_bytes"]


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


def attention_bytes(heads: int) -> int:
    """Return the bytes that a training step holds for an entry of a pattern.

    By hand, four numbers for each head, filled up to vectors; torch has twelve.
    """
    return 32 + max(16 * (heads + -heads % LANES), 48 * heads)


class _Attention(torch.autograd.Function):
    """Numbers of entries and heads are [g, nnz, 8]: eight heads in a vector."""

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
        own, other, z = _to_lanes(own), _to_lanes(other), z.contiguous()
        pattern = _Pattern(operator.matrix)
        alpha = z.new_empty(len(own), pattern.entries, LANES)
        for mine, theirs, found in zip(own, other, alpha, strict=True):
            places = pattern.columns, *_addresses(mine, theirs, found)
            pattern.call(write_scores, *places, np.float32(slope))
        alpha.exp_()
        for found in alpha:
            pattern.call(make_shares, *_addresses(found))
        of_alpha, of_z = draw(probability, len(own)), draw(probability, len(z))
        weights, dropped = alpha, z
        if of_alpha is not None and of_z is not None:
            weights = alpha * (of_alpha.scale * of_z.scale)
            of_alpha.drop(weights.flatten(1))
            dropped = of_z.drop(z.flatten(1).clone()).view_as(z)
        ctx.operator, ctx.slope, ctx.draws = operator, slope, (of_alpha, of_z)
        ctx.save_for_backward(own, other, alpha, weights, dropped)
        return _sums(pattern, weights, dropped)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        own, other, alpha, weights, dropped = ctx.saved_tensors
        operator, grad = ctx.operator, grads[0].contiguous()
        of_alpha, of_z = ctx.draws
        scale = 1.0 if of_z is None else of_alpha.scale * of_z.scale
        pattern, turned = _Pattern(operator.matrix), _Pattern(operator.transposed)
        of_scores = _dots(pattern, grad, dropped)
        if of_alpha is not None:
            of_alpha.drop(of_scores.flatten(1))
        of_own, of_other = torch.empty_like(own), torch.empty_like(other)
        times = np.float32(scale), np.float32(scale * ctx.slope)
        for group in zip(own, other, alpha, of_scores, of_own, strict=True):
            places = pattern.columns, *_addresses(*group)
            pattern.call(make_score_gradients, *places, *times)
        (order,) = _addresses(operator.transposed_order)
        by_column = torch.empty_like(weights)
        for turning in zip(of_scores, weights, of_other, by_column, strict=True):
            turned.call(write_turned, order, *_addresses(*turning))
        for_z = _sums(turned, by_column, grad)
        if of_z is not None:
            of_z.drop(for_z.flatten(1))
        heads = dropped.shape[1]
        of_heads = (_from_lanes(found, heads) for found in (of_own, of_other))
        return None, *of_heads, for_z, None, None


class _Pattern:
    """A pattern's places in memory, and threads that share its rows.

    Parameters
    ----------
    matrix
        As `TiledMatrix.can` takes it.
    """

    def __init__(self, matrix: Matrix) -> None:
        assert isinstance(matrix, Tensor)
        self.matrix, self.entries = matrix, matrix._nnz()
        parts = matrix.crow_indices(), matrix.col_indices()
        self.starts, self.columns = _addresses(*parts)

    def call(self, kernel: Callable[..., None], *given: Any) -> None:
        """Have a kernel called for all rows, with where they begin and the rest."""
        self.share(lambda of: kernel(of.start, of.stop, self.starts, *given), LANES)

    def share(self, work: Callable[[slice], None], columns: int) -> None:
        """Have work done for all rows, in threads where there is enough of it."""
        threads = count_threads()
        if threads == 1 or self.entries * columns < SHARED * threads:
            work(slice(0, self.matrix.shape[0]))
        else:
            rows = equal_parts(self.matrix.crow_indices().numpy())
            share_out(work, rows, threads)


def _addresses(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


def _to_lanes(values: Tensor) -> Tensor:
    """Return numbers of heads, [k, n], as [g, n, 8], with zeros for heads that lack."""
    filled = functional.pad(values, (0, 0, 0, -len(values) % LANES))
    groups = filled.reshape(len(filled) // LANES, LANES, filled.shape[1])
    return groups.transpose(1, 2).contiguous()


def _from_lanes(lanes: Tensor, heads: int) -> Tensor:
    """Return what `_to_lanes` took."""
    return lanes.transpose(1, 2).flatten(0, 1)[:heads].contiguous()


def _sums(pattern: _Pattern, weights: Tensor, dense: Tensor) -> Tensor:
    """Return a sparse product for each head, side by side, [m, k, d]."""
    _, heads, width = dense.shape
    out = dense.new_empty(pattern.matrix.shape[0], heads, width)
    pitch, (given, found) = 4 * heads * width, _addresses(dense, out)
    if width == LANES and heads % LANES == 0:
        for group, values in enumerate(weights):
            at = 4 * LANES * width * group
            places = pattern.columns, *_addresses(values), given + at, pitch, found + at
            pattern.call(write_sums, *places)
        return out
    values, head = _from_lanes(weights, heads), np.arange(heads)
    table = np.zeros((heads, 8), dtype=np.int64)
    table[:, :2] = pattern.starts, pattern.columns
    table[:, 2] = values.data_ptr() + 4 * pattern.entries * head
    table[:, 3], table[:, 5] = given + 4 * width * head, found + 4 * width * head
    table[:, [4, 6]] = pitch
    pattern.share(
        lambda rows: write_rows(table, rows.start, rows.stop, width), heads * width
    )
    return out


def _dots(pattern: _Pattern, grad: Tensor, dense: Tensor) -> Tensor:
    """Return products of a row's and a column's heads at the entries, [g, nnz, 8]."""
    _, heads, width = dense.shape
    if width == LANES and heads % LANES == 0:
        out = dense.new_empty(heads // LANES, pattern.entries, LANES)
        pitch, (mine, theirs) = 4 * heads * width, _addresses(grad, dense)
        for group, found in enumerate(out):
            at = 4 * LANES * width * group
            places = pattern.columns, mine + at, theirs + at, pitch
            pattern.call(write_dots, *places, *_addresses(found))
        return out
    found = [
        torch.sparse.sampled_addmm(pattern.matrix, g, b.T, beta=0.0).values()
        for g, b in zip(grad.unbind(1), dense.unbind(1), strict=True)
    ]
    return _to_lanes(torch.stack(found))
