"""Rounds of products, each of all results of the one before, and what is read of them.

With rings A_1, A_2, … a round multiplies every block of the round before by each ring,
so that a block is a path of rings. A linear layer reads some rounds of some nodes.
Where its input is dropped, the blocks themselves are made (`dropped`); else it is moved
inside the products (`inner`, `outer`), whose matrices are then as wide as its result.

Both are written down twice: as torch differentiates them, for any operators, and by
hand for those in memory. By hand, products are written to where they belong and added
up there, and a whole pass is a few calls: on small graphs, calls take most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from h2gcn.sparse.apart import current_blocks, linear
from h2gcn.sparse.dropping import Draw, draw, dropout_linear
from h2gcn.sparse.operator import FOUR, LARGE, LinearMap, Operator

__all__ = ["Paths"]


@dataclass(frozen=True)
class Paths:
    """The paths of rings that a linear layer reads.

    Its weight has a block of p rows for each path: round by round, and in a round by
    the ring that is multiplied last, then the one before it, and so on.

    Parameters
    ----------
    n_rings
        How many rings there are.
    final
        The rounds that are read, ascending, at least one of them after the first.
    """

    n_rings: int
    final: tuple[int, ...]

    @property
    def depth(self) -> int:
        """How many rounds there are."""
        return self.final[-1]

    @cached_property
    def counts(self) -> list[int]:
        """How many paths each round has, read or not."""
        return [self.n_rings**k for k in range(self.depth + 1)]

    @cached_property
    def order(self) -> list[int]:
        """Where each block of the weight is among all paths, the first ring first.

        So the paths that begin with one ring stand side by side, ordered as those of
        the round before.
        """
        firsts = [0, *accumulate(self.counts)]
        return [
            firsts[k] + _reversed_digits(path, self.n_rings, k)
            for k in self.final
            for path in range(self.counts[k])
        ]

    def columns(self, width: int) -> dict[int, range]:
        """Return the first columns of the blocks of each round that is read.

        Parameters
        ----------
        width
            Of a block.
        """
        found, first = {}, 0
        for k in self.final:
            end = first + self.counts[k] * width
            found[k] = range(first, end, width)
            first = end
        return found

    def dropped(
        self,
        r: Tensor,
        weight: Tensor,
        probability: float,
        operators: Sequence[LinearMap],
        last: Sequence[LinearMap],
        index: Tensor | None,
        nodes: Tensor | None,
    ) -> Tensor:
        """Return dropout(R_0 ‖ R_1 ‖ …) W of some nodes, [m, C].

        Parameters
        ----------
        r
            R_0, [n, p].
        weight
            W, [paths · p, C].
        probability
            The dropped share, as of `dropout_linear`.
        operators
            The rings, [n, n] each.
        last
            Their rows for the nodes that are wanted, [m, n] each.
        index
            These nodes, [m]; None is all.
        nodes
            As of `dropout_linear`.
        """
        drawn = None
        if _in_memory(r, (*operators, *last)):
            drawn = draw(probability, len(r) if nodes is None else nodes)
        if drawn is None:
            read, level = self._before_last(r, operators, index)
            apart = current_blocks()
            if apart is not None and nodes is not None:
                drawn = draw(probability, nodes)
                if drawn is not None:
                    return apart.dropped(read, level, last, weight, drawn)
            made = [op @ block for op in last for block in level]
            return dropout_linear([*read, *made], weight, probability, nodes=nodes)
        result: Tensor = _Dropped.apply(  # type: ignore[no-untyped-call]
            r, weight, self, drawn, operators, last, index
        )
        return result

    def _before_last(
        self, r: Tensor, operators: Sequence[LinearMap], index: Tensor | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return what is read of rounds before the last, and all that it multiplies.

        Blocks of the nodes that are wanted, [m, p] each, and of all, [n, p] each.
        """
        level, read = [r], []
        for k in range(self.depth):
            if k:
                level = [op @ block for op in operators for block in level]
            if k in self.final:
                read += [_pick(block, index) for block in level]
        return read, level

    def inner(
        self, r: Tensor, weight: Tensor, operators: Sequence[LinearMap]
    ) -> tuple[Tensor, Tensor]:
        """Return (R_0 ‖ R_1 ‖ …) W up to the last product: what `outer` needs.

        Parameters
        ----------
        r, weight, operators
            As of `dropped`.

        Returns
        -------
        tuple
            What is read of the nodes themselves, [n, C'], and what each ring is to be
            multiplied with, side by side, [n, rings · C']; C' ≥ C.
        """
        if _in_memory(r, operators):
            found: tuple[Tensor, Tensor] = _Inner.apply(r, weight, self, operators)  # type: ignore[no-untyped-call]
            return found
        own, *levels = self._split(linear(r, self._by_path(weight, r.shape[1], 1)))
        total = levels.pop()
        while levels:
            total = levels.pop() + self._products(operators, total)
        return own, total

    def outer(
        self,
        own: Tensor,
        total: Tensor,
        last: Sequence[LinearMap],
        index: Tensor | None,
    ) -> Tensor:
        """Return the products with the last ring, and what nodes say of themselves.

        Parameters
        ----------
        own, total
            Of `inner`.
        last, index
            As of `dropped`.

        Returns
        -------
        Tensor
            [m, C'], the columns beyond C all zero.
        """
        if _in_memory(own, last):
            found: Tensor = _Outer.apply(own, total, last, index)  # type: ignore[no-untyped-call]
            return found
        return _pick(own, index) + self._products(last, total)

    def _products(self, operators: Sequence[LinearMap], total: Tensor) -> Tensor:
        parts = total.chunk(self.n_rings, dim=1)
        first, *others = (op @ part for op, part in zip(operators, parts, strict=True))
        return sum(others, first)

    def _by_path(self, weight: Tensor, width: int, multiple: int) -> Tensor:
        """Return W with its blocks side by side, in the order of paths.

        Blocks are C' columns, filled up to a multiple of some number; those of rounds
        that are not read are zero. [p, Σ counts · C']
        """
        blocks = weight.view(-1, width, weight.shape[1])
        filled = -(-weight.shape[1] // multiple) * multiple
        found = weight.new_zeros(width, sum(self.counts), filled)
        found[:, self.order, : weight.shape[1]] = blocks.transpose(0, 1)
        return found.view(width, -1)

    def _split(self, z: Tensor) -> list[Tensor]:
        """Return the columns of each round."""
        filled = z.shape[1] // sum(self.counts)
        return list(z.split([count * filled for count in self.counts], dim=1))


def _reversed_digits(number: int, base: int, digits: int) -> int:
    """Return the number whose digits are those of another from the last to the first.

    Examples
    --------
    >>> _reversed_digits(6, 2, 4)  # 0110 stays, as does 1001
    6
    >>> _reversed_digits(1, 3, 2)
    3
    """
    found = 0
    for _ in range(digits):
        number, digit = divmod(number, base)
        found = found * base + digit
    return found


def _in_memory(dense: Tensor, operators: Sequence[LinearMap]) -> bool:
    """Return whether products of all operators can be written to where they belong."""
    return dense.device.type == "cpu" and all(
        isinstance(op, Operator) and op.shape[1] < LARGE for op in operators
    )


def _pick(r: Tensor, index: Tensor | None) -> Tensor:
    return r if index is None else r.index_select(0, index)


def _add(r: Tensor, index: Tensor | None, grad: Tensor) -> None:
    """Add the gradient of `_pick` in place."""
    _ = r.add_(grad) if index is None else r.index_add_(0, index, grad)


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        r: Tensor,
        weight: Tensor,
        paths: Paths,
        drawn: Draw,
        operators: Sequence[Operator],
        last: Sequence[Operator],
        index: Tensor | None,
    ) -> Tensor:
        joined = r.new_empty(last[0].shape[0], len(weight))
        places = iter(joined.split(r.shape[1], dim=1))
        level = [r]
        for k in range(paths.depth):
            if k:
                level = [op.multiplied(block) for op in operators for block in level]
            for block in level if k in paths.final else ():
                next(places).copy_(_pick(block, index))
        for op in last:
            for block in level:
                op.write(block, next(places))
        ctx.paths, ctx.drawn, ctx.shape = paths, drawn, r.shape
        ctx.operators, ctx.last, ctx.index = operators, last, index
        turned = drawn.turned(weight)
        result = drawn.multiply(joined, turned)
        ctx.save_for_backward(turned, joined)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        turned, joined = ctx.saved_tensors
        paths, drawn, width = ctx.paths, ctx.drawn, ctx.shape[1]
        grad = grads[0].contiguous()
        of_weight = (grad.t() @ joined).t() * drawn.scale
        columns = paths.columns(width)

        def of_blocks(k: int) -> list[Tensor]:
            return [
                drawn.gradient(grad, turned, slice(first, first + width))
                for first in columns.get(k, ())
            ]

        found = of_blocks(paths.depth)
        for k in range(paths.depth, 0, -1):
            ops = ctx.last if k == paths.depth else ctx.operators
            below = [grad.new_empty(ctx.shape) for _ in range(paths.counts[k - 1])]
            for place, out in enumerate(below):
                for number, op in enumerate(ops):
                    given = found[number * len(below) + place]
                    op.write(given, out, add=number > 0, transposed=True)
            for out, own in zip(below, of_blocks(k - 1), strict=False):
                _add(out, ctx.index, own)
            found = below
        return (found[0], of_weight, None, None, None, None, None)


class _Inner(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        r: Tensor,
        weight: Tensor,
        paths: Paths,
        operators: Sequence[Operator],
    ) -> tuple[Tensor, Tensor]:
        by_path = paths._by_path(weight, r.shape[1], FOUR)
        own, *levels = paths._split(r @ by_path)
        total = levels.pop()
        while levels:
            longer, total = total, levels.pop().contiguous()
            parts = longer.chunk(len(operators), dim=1)
            for op, part in zip(operators, parts, strict=True):
                op.write(part.contiguous(), total, add=True)
        ctx.paths, ctx.operators, ctx.shape = paths, operators, weight.shape
        ctx.save_for_backward(r, by_path)
        return own.contiguous(), total.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        r, by_path = ctx.saved_tensors
        paths, operators = ctx.paths, ctx.operators
        whole = r.new_empty(len(r), by_path.shape[1])
        own, level, *levels = paths._split(whole)
        own.copy_(grads[0])
        level.copy_(grads[1])
        total = grads[1]
        for level in levels:
            total = total.contiguous()
            for op, part in zip(operators, level.chunk(len(operators), 1), strict=True):
                op.write(total, part, transposed=True)
            total = level
        blocks = (whole.t() @ r).view(sum(paths.counts), -1, r.shape[1])
        read = blocks[paths.order, : ctx.shape[1]].transpose(1, 2)
        return whole @ by_path.t().contiguous(), read.reshape(ctx.shape), None, None


class _Outer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        own: Tensor,
        total: Tensor,
        last: Sequence[Operator],
        index: Tensor | None,
    ) -> Tensor:
        ctx.last, ctx.index, ctx.rows = last, index, len(own)
        found = own.clone() if index is None else own.index_select(0, index)
        for op, part in zip(last, total.chunk(len(last), 1), strict=True):
            op.write(part.contiguous(), found, add=True)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, last = grads[0].contiguous(), ctx.last
        own = grad.new_zeros(ctx.rows, grad.shape[1])
        _add(own, ctx.index, grad)
        total = grad.new_empty(ctx.rows, len(last) * grad.shape[1])
        for op, part in zip(last, total.chunk(len(last), 1), strict=True):
            op.write(grad, part, transposed=True)
        return own, total, None, None
