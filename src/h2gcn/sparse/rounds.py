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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from h2gcn.sparse.apart import current_blocks, linear
from h2gcn.sparse.dropping import Draw, draw, dropout_linear
from h2gcn.sparse.operator import (
    FOUR,
    LinearMap,
    Operator,
    Target,
    selection,
    write_products,
)

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
    def order(self) -> Tensor:
        """Where each block of the weight is among all paths, the first ring first.

        So the paths that begin with one ring stand side by side, ordered as those of
        the round before.
        """
        firsts = [0, *accumulate(self.counts)]
        places = [
            firsts[k] + _reversed_digits(path, self.n_rings, k)
            for k in self.final
            for path in range(self.counts[k])
        ]
        return torch.tensor(places)

    def by_round(self, blocks: Sequence[Tensor] | Tensor) -> list[Sequence[Tensor]]:
        """Return the blocks of each round, none of those that are not read.

        Parameters
        ----------
        blocks
            As the weight has them.
        """
        found: list[Sequence[Tensor]] = []
        first = 0
        for k, count in enumerate(self.counts):
            last = first + count if k in self.final else first
            found.append(blocks[first:last])  # type: ignore[arg-type]
            first = last
        return found

    def dropped(
        self,
        r: Tensor,
        weight: Tensor,
        probability: float,
        operators: Sequence[LinearMap],
        target: Target | None,
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
        target
            The nodes, with their rows of the rings; None is all.
        """
        drawn, nodes = None, None if target is None else target.names
        last = _last(r, operators, target)
        if last is not None:
            drawn = draw(probability, len(r) if nodes is None else nodes)
        if drawn is None:
            read, level = self._before_last(r, operators, target)
            ends = operators if target is None else target.operators
            apart = current_blocks()
            if apart is not None and nodes is not None:
                drawn = draw(probability, nodes)
                if drawn is not None:
                    return apart.dropped(read, level, ends, weight, drawn)
            made = [op @ block for op in ends for block in level]
            return dropout_linear([*read, *made], weight, probability, nodes=nodes)
        result: Tensor = _Dropped.apply(r, weight, self, drawn, operators, last)  # type: ignore[no-untyped-call]
        return result

    def _before_last(
        self, r: Tensor, operators: Sequence[LinearMap], target: Target | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return what is read of rounds before the last, and all that it multiplies.

        Blocks of the nodes that are wanted, [m, p] each, and of all, [n, p] each.
        """
        level, read = [r], []
        for k in range(self.depth):
            if k:
                level = [op @ block for op in operators for block in level]
            if k in self.final:
                read += [_pick(block, target) for block in level]
        return read, level

    def inner(
        self,
        r: Tensor,
        weight: Tensor,
        operators: Sequence[LinearMap],
        *,
        by_hand: bool = True,
    ) -> Tensor:
        """Return (R_0 ‖ R_1 ‖ …) W up to the last product: what `outer` needs.

        Parameters
        ----------
        r, weight, operators
            As of `dropped`.
        by_hand
            Whether compiled kernels are worth loading: in a training, not for one call.

        Returns
        -------
        Tensor
            What is read of the nodes themselves, and what each ring is to be multiplied
            with, side by side, [n, (1 + rings) · C']; C' ≥ C.
        """
        if by_hand and _in_memory(r, operators):
            found: Tensor = _Inner.apply(r, weight, self, operators)  # type: ignore[no-untyped-call]
            return found
        own, *levels = self._split(linear(r, self._by_path(weight, r.shape[1], 1)))
        total = levels.pop()
        while levels:
            total = levels.pop() + self._products(operators, total)
        return torch.cat([own, total], dim=1)

    def outer(
        self,
        inner: Tensor,
        operators: Sequence[LinearMap],
        target: Target | None,
        *,
        by_hand: bool = True,
    ) -> Tensor:
        """Return the products with the last ring, and what nodes say of themselves.

        Parameters
        ----------
        inner
            Of `inner`.
        operators, target
            As of `dropped`.
        by_hand
            As of `inner`.

        Returns
        -------
        Tensor
            [m, C'], the columns beyond C all zero.
        """
        last = _last(inner, operators, target) if by_hand else None
        if last is not None:
            found: Tensor = _Outer.apply(inner, last)  # type: ignore[no-untyped-call]
            return found
        own, total = inner.tensor_split([inner.shape[1] // (1 + self.n_rings)], dim=1)
        ends = operators if target is None else target.operators
        return _pick(own, target) + self._products(ends, total)

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
        order = self.order.to(weight.device)
        found[:, :, : weight.shape[1]].index_copy_(1, order, blocks.transpose(0, 1))
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
    return dense.dtype == torch.float32 and all(
        isinstance(op, Operator) and op.tiles is not None for op in operators
    )


def _last(
    dense: Tensor, operators: Sequence[LinearMap], target: Target | None
) -> list[Operator] | None:
    """Return what gives the rows of some nodes: their own, and those of each ring.

    None where not all of it is in memory.
    """
    ends = operators if target is None else target.operators
    if not (_in_memory(dense, operators) and _in_memory(dense, ends)):
        return None
    n = len(dense)
    own = selection(np.arange(n), n) if target is None else target.own
    return [own, *(op for op in ends if isinstance(op, Operator))]


def _pick(r: Tensor, target: Target | None) -> Tensor:
    return r if target is None else r.index_select(0, target.index)


def _write(
    operators: Sequence[Operator],
    dense: Iterable[Tensor],
    out: Iterable[Tensor],
    *,
    add: bool = False,
    turned: bool = False,
) -> None:
    """Write the products of operators, or of their transposes, as `write_products`."""
    matrices = [op.turned_tiles if turned else op.tiles for op in operators]
    products = zip(matrices, dense, out, strict=True)
    write_products(list(products), add=add)  # type: ignore[arg-type]


class _Dropped(torch.autograd.Function):
    """Rounds are [paths, n, p]; what is read of them [m, paths · p], side by side.

    The last operators are the nodes' own rows, then those of each ring.
    """

    @staticmethod
    def forward(
        ctx: Any,
        r: Tensor,
        weight: Tensor,
        paths: Paths,
        drawn: Draw,
        operators: Sequence[Operator],
        last: Sequence[Operator],
    ) -> Tensor:
        rings, depth = len(operators), paths.depth
        joined = r.new_empty(last[0].shape[0], len(weight))
        places = paths.by_round(joined.split(r.shape[1], dim=1))
        level = r.contiguous()[None]
        for k in range(depth):
            if k:
                below, level = level, r.new_empty(rings * len(level), *r.shape)
                for number, block in enumerate(below):
                    places_of = level[number :: len(below)]
                    _write(operators, [block] * rings, places_of)
            for number, block in enumerate(level):
                out = list(places[k][number : number + 1])
                ops = list(last[: len(out)])
                if k == depth - 1:  # only the wanted rows of the last round
                    ops += last[1:]
                    out += list(places[depth][number :: len(level)])
                if ops:
                    _write(ops, [block] * len(ops), out)
        ctx.paths, ctx.drawn, ctx.shape = paths, drawn, r.shape
        ctx.operators, ctx.last = operators, last
        turned = drawn.turned(weight)
        result = drawn.multiply(joined, turned)
        ctx.save_for_backward(turned, joined)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        turned, joined = ctx.saved_tensors
        paths, drawn, (n, width) = ctx.paths, ctx.drawn, ctx.shape
        own, *ends = ctx.last
        grad = grads[0].contiguous()
        of_weight = (grad.t() @ joined).t() * drawn.scale
        # Nobody asks for what was read again: its gradient takes its place.
        blocks = joined.view(-1, len(joined), width)
        drawn.gradients(grad, turned, blocks)
        read = paths.by_round(blocks)
        above, ops = read[paths.depth], ends
        for k in range(paths.depth - 1, -1, -1):
            level = grad.new_empty(paths.counts[k], n, width)
            for number, out in enumerate(level):
                given = list(above[number :: len(level)])
                mine = list(read[k][number : number + 1])
                matrices = [*[own] * len(mine), *ops]
                _write(matrices, mine + given, [out] * len(matrices), turned=True)
            above, ops = level, ctx.operators
        return above[0], of_weight, None, None, None, None


class _Inner(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        r: Tensor,
        weight: Tensor,
        paths: Paths,
        operators: Sequence[Operator],
    ) -> Tensor:
        by_path = paths._by_path(weight, r.shape[1], FOUR)
        whole, rings = r @ by_path, len(operators)
        own, *levels = paths._split(whole)
        found = whole[:, : own.shape[1] + levels[0].shape[1]].contiguous()
        levels[0] = found[:, own.shape[1] :]
        for longer, level in pairwise(reversed(levels)):
            # Rows that lie close are read more quickly: a copy is worth it.
            parts = longer.unflatten(1, (rings, -1)).transpose(0, 1).contiguous()
            _write(operators, parts, [level] * rings, add=True)
        ctx.paths, ctx.operators, ctx.shape = paths, operators, weight.shape
        ctx.save_for_backward(r, by_path)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        r, by_path = ctx.saved_tensors
        paths, operators, rings = ctx.paths, ctx.operators, len(ctx.operators)
        whole = r.new_empty(len(r), by_path.shape[1])
        whole[:, : grads[0].shape[1]] = grads[0]
        _, *levels = paths._split(whole)
        for level, longer in pairwise(levels):
            given = [level.contiguous()] * rings
            _write(operators, given, longer.chunk(rings, 1), turned=True)
        blocks = (whole.t() @ r).view(sum(paths.counts), -1, r.shape[1])
        read = blocks.index_select(0, paths.order)[:, : ctx.shape[1]].transpose(1, 2)
        return whole @ by_path.t(), read.reshape(ctx.shape), None, None


class _Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: Tensor, last: Sequence[Operator]) -> Tensor:
        """Return the sum of all products; the nodes' own rows are the first of them."""
        ctx.last, ctx.shape, count = last, inner.shape, len(last)
        found = inner.new_empty(last[0].shape[0], inner.shape[1] // count)
        _write(last, inner.chunk(count, 1), [found] * count)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, count = grads[0].contiguous(), len(ctx.last)
        found = grad.new_empty(ctx.shape)
        _write(ctx.last, [grad] * count, found.chunk(count, 1), turned=True)
        return found, None
