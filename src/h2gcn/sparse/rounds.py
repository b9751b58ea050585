"""Rounds of products, each of all results of the one before, and what is read of them.

With rings A_1, A_2, … a round multiplies every block of the round before by each ring,
so that a block is a path of rings. A linear layer reads some rounds of some nodes.
Where its input is dropped, the blocks themselves are made (`dropped`); else it is moved
inside the products (`inner`, `outer`), whose matrices are then as wide as its result.

Both are written down twice: as torch differentiates them, for any operators (`Paths`),
and by hand for those in memory (`Sheet`). By hand, products are written to where they
belong and added up there, and where that is, is found once for all steps of a training:
a pass is a few calls. On small graphs, calls take most of the time; on large ones, what
would be added up afterwards takes the memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from h2gcn.sparse.dropping import Draw, draw, dropout_linear
from h2gcn.sparse.large import LANES, Room
from h2gcn.sparse.operator import (
    FOUR,
    LARGE,
    LinearMap,
    Operator,
    Products,
    Target,
    TiledMatrix,
    selection,
)

__all__ = ["Paths", "Sheet"]


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
        nodes = None if target is None else target.names
        read, level = self._before_last(r, operators, target)
        ends = operators if target is None else target.operators
        made = [op @ block for op in ends for block in level]
        return dropout_linear([*read, *made], weight, probability, nodes=nodes)

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
        self, r: Tensor, weight: Tensor, operators: Sequence[LinearMap]
    ) -> Tensor:
        """Return (R_0 ‖ R_1 ‖ …) W up to the last product: what `outer` needs.

        Parameters
        ----------
        r, weight, operators
            As of `dropped`.

        Returns
        -------
        Tensor
            What is read of the nodes themselves, and what each ring is to be multiplied
            with, side by side, [n, (1 + rings) · C].
        """
        by_path = self._by_path(weight, r.shape[1])
        own, *levels = (r @ by_path).split(
            [count * weight.shape[1] for count in self.counts], dim=1
        )
        total = levels.pop()
        while levels:
            total = levels.pop() + self._products(operators, total)
        return torch.cat([own, total], dim=1)

    def outer(
        self, inner: Tensor, operators: Sequence[LinearMap], target: Target | None
    ) -> Tensor:
        """Return the products with the last ring, and what nodes say of themselves.

        Parameters
        ----------
        inner
            Of `inner`.
        operators, target
            As of `dropped`.

        Returns
        -------
        Tensor
            [m, C].
        """
        own, total = inner.tensor_split([inner.shape[1] // (1 + self.n_rings)], dim=1)
        ends = operators if target is None else target.operators
        return _pick(own, target) + self._products(ends, total)

    def _products(self, operators: Sequence[LinearMap], total: Tensor) -> Tensor:
        parts = total.chunk(self.n_rings, dim=1)
        first, *others = (op @ part for op, part in zip(operators, parts, strict=True))
        return sum(others, first)

    def _by_path(self, weight: Tensor, width: int) -> Tensor:
        """Return W with its blocks side by side, in the order of paths.

        Those of rounds that are not read are zero. [p, Σ counts · C]
        """
        blocks = weight.view(-1, width, weight.shape[1]).transpose(0, 1)
        found = weight.new_zeros(width, sum(self.counts), weight.shape[1])
        order = self.order.to(weight.device)
        return found.index_copy_(1, order, blocks).view(width, -1)


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


def _pick(r: Tensor, target: Target | None) -> Tensor:
    return r if target is None else r.index_select(0, target.index)


# ---------------------------------------------------------------------------- by hand


Back = Callable[[Tensor], Tensor]
Origin = tuple[Tensor, Back]
"""A weight, and what makes its gradient of that of what was made of it."""


class Sheet:
    """Where the rounds of one graph are computed, and which products are written where.

    What a pass needs is laid out when it is first asked for. The memory is used again:
    a pass overwrites what the one before has left, so that gradients are those of the
    last one, and taken once.

    Parameters
    ----------
    paths
        Which are read.
    operators
        The rings, [n, n] each, that `fits`.
    """

    def __init__(self, paths: Paths, operators: Sequence[LinearMap]) -> None:
        self.paths, self.operators = paths, operators
        self.rings = [op for op in operators if isinstance(op, Operator)]
        self.turn = 0
        self._rooms = [Room(0)]
        self._passes: dict[tuple[bool, int], tuple[Target | None, _Pass]] = {}
        self._inner: _Inner | None = None

    @staticmethod
    def fits(
        weight: Tensor, operators: Sequence[LinearMap], target: Target | None
    ) -> bool:
        """Return whether all of it is in memory, so that products can be written."""
        ends = () if target is None else target.operators
        return weight.dtype == torch.float32 and all(
            isinstance(op, Operator) and op.tiles is not None
            for op in (*operators, *ends)
        )

    def logits(
        self,
        r: Tensor,
        weight: Tensor,
        target: Target | None,
        probability: float,
        origin: Origin | None = None,
    ) -> Tensor:
        """Return dropout(R_0 ‖ R_1 ‖ …) W of some nodes, [m, C].

        Without dropout, all but the last product is there already if it was made of the
        very same R_0 before: then the weights have not changed either.

        Parameters
        ----------
        r, weight, target
            As of `Paths.dropped`.
        probability
            The dropped share, 0 for none.
        origin
            Another weight that R_0 was made of, where torch has not seen how, and the
            gradient of it, given that of R_0, which it may overwrite.
        """
        nodes = len(r) if target is None else target.names
        drawn = draw(probability, nodes) if probability else None
        shape = r.shape[1], weight.shape[1]
        work = self._pass(target, shape, drawn is not None)
        first, back = (None, None) if origin is None else origin
        found: Tensor = _ByHand.apply(  # type: ignore[no-untyped-call]
            r.contiguous(), weight, first, back, work, drawn
        )
        return found

    def _pass(
        self, target: Target | None, shape: tuple[int, int], dropped: bool
    ) -> _Pass:
        key = dropped, id(target)
        if key not in self._passes:
            if len(self._passes) == MANY_PASSES:
                self._passes.clear()
            n = self.rings[0].shape[0]
            ends = self.operators if target is None else target.operators
            own = selection(np.arange(n), n) if target is None else target.own
            last = [own, *(op for op in ends if isinstance(op, Operator))]
            made: _Pass
            if dropped:
                made = _Dropped(self, last, shape)
            else:
                if self._inner is None:
                    self._inner = _Inner(self, shape)
                made = _Plain(self, self._inner, last)
            self._passes[key] = target, made  # with whom its number stays its own
        return self._passes[key][1]

    def lay_out(self, *shapes: tuple[int, ...]) -> list[Tensor]:
        """Return matrices one after the other, where other passes have theirs."""
        sizes = [-(-prod(shape) // LINE) * LINE for shape in shapes]
        if sum(sizes) > len(self._rooms[-1].numbers):
            self._rooms.append(Room(sum(sizes)))  # passes before have the others
        places = self._rooms[-1].numbers[: sum(sizes)].split(sizes)
        return [
            place[: prod(shape)].view(shape)
            for place, shape in zip(places, shapes, strict=True)
        ]


LINE = 16
"""Numbers that a processor fetches together: a matrix begins with one of the first."""
MANY_PASSES = 8
"""That a sheet has laid out; a training has two."""


class _ByHand(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        r: Tensor,
        weight: Tensor,
        first: Tensor | None,
        back: Back | None,
        work: _Pass,
        drawn: Draw | None,
    ) -> Tensor:
        del first  # its gradient is asked for
        ctx.work, ctx.r, ctx.drawn, ctx.back = work, r, drawn, back
        logits = work.forward(r, weight, drawn)
        ctx.turn = work.sheet.turn
        return logits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        sheet = ctx.work.sheet
        if sheet.turn != ctx.turn:
            raise RuntimeError("what gradients need of this pass was overwritten")
        sheet.turn += 1
        of_r, of_weight = ctx.work.backward(grads[0], ctx.r, ctx.drawn)
        if ctx.back is None:  # where it is now, the next pass has another
            return of_r.clone(), of_weight, None, None, None, None
        return None, of_weight, ctx.back(of_r), None, None, None


class _Pass(ABC):
    """Logits of some nodes, and their gradients.

    Parameters
    ----------
    sheet
        Of the graph.
    """

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    @abstractmethod
    def forward(self, r: Tensor, weight: Tensor, drawn: Draw | None) -> Tensor:
        """Return the logits, [m, C]."""

    @abstractmethod
    def backward(
        self, grad: Tensor, r: Tensor, drawn: Draw | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of R_0, until the next pass, and of W."""


def _tiles(operators: Sequence[Operator], *, turned: bool = False) -> list[TiledMatrix]:
    """Return the matrices, or their transposes, as products take them."""
    found = [op.turned_tiles if turned else op.tiles for op in operators]
    return [tiles for tiles in found if tiles is not None]


class _Inner:
    """All products but the last, without dropout, and their gradients.

    Blocks have C' columns, C filled up to a multiple of four, or of what is fetched of
    memory at once where they are larger than the cache. A round is cut by the ring that
    comes first, [rings, n, c], where rows lie close: the next product reads them more
    quickly. The gradients of all paths are side by side, [n, paths · C'].

    Parameters
    ----------
    sheet
        Of the graph.
    shape
        p and C.

    Attributes
    ----------
    found
        What the last product needs: what is read of the nodes themselves, and what each
        ring is to be multiplied with, [n, (1 + rings) · C'].
    grads
        Of that, the first columns of those of all paths.
    """

    def __init__(self, sheet: Sheet, shape: tuple[int, int]) -> None:
        paths, (width, classes) = sheet.paths, shape
        rings, n = sheet.rings, sheet.rings[0].shape[0]
        self.sheet, self.width, self.classes = sheet, width, classes
        lanes = FOUR if n < LARGE else LANES
        self.filled = filled = -(-classes // lanes) * lanes
        ends = [filled * count for count in paths.counts]
        self._by_path = torch.zeros(width, sum(paths.counts), filled)
        first, *later = self._by_path.view(width, -1).split(
            [sum(ends[:2]), *ends[2:]], dim=1
        )
        self._room = Room(n * sum(ends[:2]))
        self.found = self._room.numbers.view(n, sum(ends[:2]))
        self._own = first
        # Blocks and gradients are never needed at the same time.
        every, *given = sheet.lay_out((n, sum(ends)), *((n, end) for end in ends[1:-1]))
        cut = [(len(rings), n, end // len(rings)) for end in ends[2:]]
        levels = sheet.lay_out(*cut)
        self._later = [
            (weights.unflatten(1, (len(rings), -1)).transpose(0, 1), level)
            for weights, level in zip(later, levels, strict=True)
        ]
        tiles, turned = _tiles(rings), _tiles(rings, turned=True)
        places = [[self.found[:, filled:]], *(list(level) for level in levels)]
        self._products = []
        for level, above in zip(places, levels, strict=False):
            each = level[0].shape[1]
            made = [
                (tile, part, out)
                for tile, dense in zip(tiles, above, strict=True)
                for part, out in zip(dense.split(each, 1), level, strict=True)
            ]
            self._products.append((Products(made, add=True), each))
        self.every = every
        rounds = every.split(ends, dim=1)
        self.grads = every[:, : sum(ends[:2])]
        self._back = []
        for rows, level, above in zip(given, rounds[1:], rounds[2:], strict=False):
            outs = above.chunk(len(rings), 1)
            back = [(t, rows, out) for t, out in zip(turned, outs, strict=True)]
            self._back.append((rows, level, Products(back)))
        self._made_of: Callable[[], Tensor | None] = lambda: None

    def forward(self, r: Tensor, weight: Tensor) -> None:
        """Make `found`, if it is not there."""
        if self._made_of() is r:
            return
        blocks = weight.view(-1, self.width, self.classes).transpose(0, 1)
        places = self._by_path[:, :, : self.classes]
        places.index_copy_(1, self.sheet.paths.order, blocks)
        torch.mm(r, self._own, out=self.found)
        for weights, level in self._later:
            torch.bmm(r.expand(len(level), *r.shape), weights, out=level)
        for products, each in reversed(self._products):
            products.write(each)
        self._made_of = ref(r)
        self.sheet.turn += 1

    def backward(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of R_0 and of W, of those in `grads`."""
        for rows, level, products in self._back:
            rows.copy_(level)
            products.write(rows.shape[1])
        of_r = self.every @ self._by_path.view(self.width, -1).t()
        blocks = (self.every.t() @ r).view(-1, self.filled, self.width)
        read = blocks.index_select(0, self.sheet.paths.order)[:, : self.classes]
        return of_r, read.transpose(1, 2).reshape(-1, self.classes)


class _Plain(_Pass):
    """Without dropout: products are as wide as the classes.

    Parameters
    ----------
    sheet
        Of the graph.
    inner
        All but the last product.
    last
        What gives the rows of the nodes: their own, and those of each ring, [m, n].
    """

    def __init__(self, sheet: Sheet, inner: _Inner, last: Sequence[Operator]) -> None:
        super().__init__(sheet)
        self._inner, self._last = inner, last
        self._room: Room | None = None
        parts = inner.found.chunk(len(last), 1)
        products = [
            (t, part, None) for t, part in zip(_tiles(last), parts, strict=True)
        ]
        self._products = Products(products)
        self._shape = last[0].shape[0], inner.filled

    @cached_property
    def _back(self) -> tuple[Tensor, Products]:
        """The gradient of logits, filled up, and the products with it."""
        self._room = Room(prod(self._shape))
        grad = self._room.numbers.view(self._shape).zero_()
        outs = self._inner.grads.chunk(len(self._last), 1)
        turned = _tiles(self._last, turned=True)
        products = [(t, grad, out) for t, out in zip(turned, outs, strict=True)]
        return grad, Products(products)

    def forward(self, r: Tensor, weight: Tensor, drawn: Draw | None) -> Tensor:
        """Return the logits, [m, C]."""
        del drawn
        self._inner.forward(r, weight)
        logits = torch.empty(self._shape)
        self._products.write(self._inner.filled, out=logits)
        return logits[:, : self._inner.classes]

    def backward(
        self, grad: Tensor, r: Tensor, drawn: Draw | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of R_0 and of W."""
        del drawn
        filled, products = self._back
        filled[:, : self._inner.classes] = grad
        products.write(self._inner.filled)
        return self._inner.backward(r)


class _Dropped(_Pass):
    """With dropout: rounds are [paths, n, p], what is read of them [m, paths · p].

    Parameters
    ----------
    sheet
        Of the graph.
    last
        As of `_Plain`.
    shape
        p and C.
    """

    def __init__(
        self, sheet: Sheet, last: Sequence[Operator], shape: tuple[int, int]
    ) -> None:
        super().__init__(sheet)
        paths, rings, (width, _) = sheet.paths, sheet.rings, shape
        depth, counts, (m, n) = paths.depth, paths.counts, last[0].shape
        read = sum(counts[k] for k in paths.final)
        joined, *levels = sheet.lay_out(
            (m, read * width), *((count, n, width) for count in counts[1:depth])
        )
        self._joined = joined
        # What products read anywhere in it; its gradient takes its place.
        self._room = Room(n * width) if n >= LARGE else None
        tiles, ends = _tiles(rings), _tiles(last)
        places = paths.by_round(joined.split(width, dim=1))
        below: Sequence[Tensor | None] = [None]  # R_0, which is given
        self._rounds, of_nodes = [], []
        for k in range(depth):
            for number, block in enumerate(below):
                of_nodes += [(ends[0], block, o) for o in places[k][number:][:1]]
                if k == depth - 1:  # only the wanted rows of the last round
                    outs = places[depth][number :: len(below)]
                    last_ones = zip(ends[1:], outs, strict=True)
                    of_nodes += [(tile, block, out) for tile, out in last_ones]
            if k < depth - 1:
                made = [
                    (tile, block, levels[k][ring * len(below) + number])
                    for number, block in enumerate(below)
                    for ring, tile in enumerate(tiles)
                ]
                self._rounds.append(Products(made))
                below = list(levels[k])
        self._of_nodes = Products(of_nodes)
        # Nobody asks for blocks again: their gradients take their place.
        self._blocks = joined.view(-1, m, width)
        self._back = self._gradients(levels, last)

    def _gradients(
        self, levels: Sequence[Tensor], last: Sequence[Operator]
    ) -> list[Products]:
        """Return the products that give the gradients of rounds, the last one first."""
        paths = self.sheet.paths
        own, *turned = _tiles(last, turned=True)
        read = paths.by_round(self._blocks)
        above, found = list(read[paths.depth]), []
        for k in range(paths.depth - 1, -1, -1):
            places: Sequence[Tensor | None] = list(levels[k - 1]) if k else [None]
            made = []
            for number, out in enumerate(places):
                made += [(own, mine, out) for mine in read[k][number:][:1]]
                given = above[number :: len(places)]
                made += [(t, g, out) for t, g in zip(turned, given, strict=True)]
            found.append(Products(made))
            above = [place for place in places if place is not None]
            turned = _tiles(self.sheet.rings, turned=True)
        return found

    def forward(self, r: Tensor, weight: Tensor, drawn: Draw | None) -> Tensor:
        """Return the logits, [m, C]."""
        assert drawn is not None
        self.sheet.turn += 1
        if self._room is not None:
            r = self._room.numbers.view(r.shape).copy_(r)
        for products in self._rounds:
            products.write(r.shape[1], r)
        self._of_nodes.write(r.shape[1], r)
        self._turned = drawn.turned(weight)
        return drawn.multiply(self._joined, self._turned)

    def backward(
        self, grad: Tensor, r: Tensor, drawn: Draw | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of R_0 and of W."""
        assert drawn is not None
        grad = grad.contiguous()
        of_weight = (grad.t() @ self._joined).t() * drawn.scale
        drawn.gradients(grad, self._turned, self._blocks)
        room = self._room
        of_r = torch.empty_like(r) if room is None else room.numbers.view(r.shape)
        for products in self._back:
            products.write(r.shape[1], out=of_r)
        return of_r, of_weight
