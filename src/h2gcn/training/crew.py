"""Who trains: one process, or several, each with some rows of one graph.

Each of several processes, a worker, has consecutive nodes: their features, and their
rows of every operator. A product needs the other side whole: what all workers have of
it is gathered, n × c numbers. So is the gradient of a product, which is then multiplied
with the worker's rows of the transpose: those that it has, where an operator is
symmetric. The module sees neither: to it, the graph is that of the worker's nodes.

The nodes are cut into blocks, which depend on the graph alone, and a worker has whole
blocks. Whatever is computed of a node is computed with its block, and sums over blocks
are exact, so that their order does not matter. So all workers have the same weights,
and the same as any other number of workers has, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from h2gcn.graph import CSR, Split
from h2gcn.models import NodeModule
from h2gcn.ring_table import Input
from h2gcn.sparse import (
    Draw,
    LinearMap,
    Operator,
    RowSums,
    Target,
    Whole,
    aligned,
    in_blocks,
    pieces,
    take_columns,
    take_rows,
)
from h2gcn.training.batches import Feed, Subgraph, WholeGraph, make_feed
from h2gcn.training.objective import node_loss

__all__ = [
    "ALONE",
    "Crew",
    "SpreadOperator",
    "Workers",
    "balanced",
    "count_blocks",
    "cut_nodes",
]


class Crew:
    """One process that has the whole graph."""

    chief = True
    """Whether this process speaks for all: writes files, tells how it goes."""
    sent = 0
    """Bytes that left this process so far."""

    def arrange(self, split: Split) -> Split:
        """Return the split with its nodes in the order in which they are joined."""
        return split

    def feed(
        self,
        model: NodeModule,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        batch_size: int | None,
        seed: int,
    ) -> Feed:
        """Return what each step sees, for the nodes that are this process's."""
        return make_feed(model, x, operators, split, batch_size, seed)

    def here(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some nodes that are here, by their numbers here."""
        return index

    def count(self, here: int, everywhere: int) -> int:
        """Return of how many nodes a step is: of some that are here, or of all."""
        del everywhere
        return here

    def at_work(self) -> AbstractContextManager[None]:
        """Have products of rows and weights made as this crew makes them."""
        return in_blocks(None)

    def loss(
        self,
        logits: Tensor,
        nodes: NDArray[np.int64],
        labels: Tensor,
        weights: Tensor | None,
        count: int,
    ) -> Tensor:
        """Return the mean loss of all nodes that a step is of.

        Parameters
        ----------
        logits
            Of those that are here, [m, C].
        nodes
            Which they are, [m].
        labels, weights
            As of `node_loss`.
        count
            Of `count`.
        """
        del nodes
        return node_loss(logits, labels, weights, count)

    def join(self, rows: Tensor) -> Tensor:
        """Return everybody's rows below each other."""
        return rows


ALONE = Crew()


ROWS = 32
"""A block begins at a multiple of so many nodes: its rows then begin where memory is
aligned, whoever has them."""
DOZEN = 12
"""Blocks come by the dozen, which two, three, four and six workers share out evenly."""
NODES = 2**16
"""For each so many nodes there are a dozen, but for the fewest."""
MOST_BLOCKS = 20 * DOZEN


def count_blocks(n_nodes: int) -> int:
    """Return into how many blocks the nodes of a graph are cut, at most."""
    many = DOZEN * max(1, n_nodes // NODES)
    return max(1, min(many, MOST_BLOCKS, n_nodes // ROWS))


def cut_nodes(costs: NDArray[Any]) -> list[int]:
    """Return the first node of each block, and the number of all.

    Parameters
    ----------
    costs
        Of each node, [n].
    """
    return balanced(costs, count_blocks(len(costs)), ROWS)


class Workers(Crew):
    """One of several processes of a group of `torch.distributed`.

    Parameters
    ----------
    blocks
        The first node of each block, and the number of all, ascending. Each worker has
        as many blocks as the others, or one more.

    Attributes
    ----------
    bounds
        The first node of each worker, and the number of all.
    own
        The nodes that are here, ascending, [m].
    rank, size
        Which worker this is, and how many there are.
    """

    def __init__(self, blocks: Sequence[int]) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        ends = [worker * (len(blocks) - 1) // size for worker in range(size + 1)]
        self.bounds = [int(blocks[end]) for end in ends]
        self.size, self.chief = size, rank == 0
        self.own = np.arange(self.bounds[rank], self.bounds[rank + 1])
        self.sent = 0
        self.rank = rank
        self._blocks = np.asarray(blocks)
        self._cuts = self._blocks[ends[rank] : ends[rank + 1] + 1]
        self._rows = [last - first for first, last in pairwise(self.bounds)]
        self._wholes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._sparse: WeakKeyDictionary[Operator, list[Operator]] = WeakKeyDictionary()

    def arrange(self, split: Split) -> Split:
        """Return the split with its nodes in ascending order."""
        return Split(**{name: np.sort(index) for name, index in split.parts.items()})

    def feed(
        self,
        model: NodeModule,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        batch_size: int | None,
        seed: int,
    ) -> Feed:
        """Return the graph of the nodes that are here."""
        del model, seed
        assert batch_size is None
        return _OwnNodes(self, x, operators, split)

    def here(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some nodes that are here, by their numbers here."""
        first, end = self.bounds[self.rank], self.bounds[self.rank + 1]
        return index[(index >= first) & (index < end)] - first

    def count(self, here: int, everywhere: int) -> int:
        """Return all nodes: a step is everybody's."""
        del here
        return everywhere

    def at_work(self) -> AbstractContextManager[None]:
        """Have rows multiplied with weights block by block."""
        return in_blocks(self)

    def loss(
        self,
        logits: Tensor,
        nodes: NDArray[np.int64],
        labels: Tensor,
        weights: Tensor | None,
        count: int,
    ) -> Tensor:
        """Return the mean loss of everybody's nodes."""
        self._wholes.clear()  # they have been multiplied
        parts = self.parts(torch.from_numpy(nodes))
        losses = [
            node_loss(rows, labels[place], weights, count)
            for rows, place in zip(pieces(logits, parts), parts, strict=True)
        ]
        found: Tensor = _Total.apply(self, *losses)  # type: ignore[no-untyped-call]
        return found

    @torch.no_grad()
    def logits(
        self,
        model: NodeModule,
        x: Input,
        operators: Sequence[LinearMap],
        index: NDArray[np.int64],
    ) -> Tensor:
        """Return the logits of some nodes, ascending, of all workers, [m, C].

        Parameters
        ----------
        model, x, operators
            As of `train`.
        index
            The nodes, [m].
        """
        model.eval()
        seen = self.seen(x, operators, index)
        with self.at_work():
            return self.join(model(seen.x, seen.operators, seen.target))

    def seen(
        self, x: Input, operators: Sequence[LinearMap], index: NDArray[np.int64]
    ) -> Subgraph:
        """Return the graph of the nodes that are here, for some of all nodes."""
        here = self.here(index)
        nodes = self.own[here]
        rows = tuple(operator.rows(here) for operator in operators)
        target = Target(torch.from_numpy(here), rows, torch.from_numpy(nodes))
        return Subgraph(x, operators, target, nodes)

    # ------------------------------------------------------------ blocks and their sums

    def parts(self, nodes: Tensor | None) -> list[slice]:
        """Return where the blocks are among the rows of some nodes; at least one."""
        places = self._cuts - self._cuts[0]
        if nodes is not None:
            places = np.searchsorted(nodes.numpy(), self._cuts)
        return [slice(*ends) for ends in pairwise(places.tolist())] or [slice(0, 0)]

    def rows_of(self, x: Operator) -> list[Operator]:
        """Return the blocks of a sparse matrix with a row for each node here."""
        found = self._sparse.get(x)
        if found is None:
            parts = self.parts(None)
            found = [x.rows(np.arange(part.start, part.stop)) for part in parts]
            self._sparse[x] = found
        return found

    def shared(self, weight: Tensor, count: int) -> Sequence[Tensor]:
        """Return a weight so many times; its gradient is the sum of all blocks'."""
        found: Sequence[Tensor] = _Shared.apply(weight, count, self)  # type: ignore[no-untyped-call]
        return found

    def dropped(
        self,
        read: Sequence[Tensor],
        level: Sequence[Tensor],
        last: Sequence[SpreadOperator],
        weight: Tensor,
        drawn: Draw,
    ) -> Tensor:
        """Return a dropped last round times a weight; see `h2gcn.sparse`'s `Blocks`."""
        wholes = [self.whole(block) for block in level]
        given = self, drawn, last, wholes, weight, *read, *level
        result: Tensor = _LastDropped.apply(*given)  # type: ignore[no-untyped-call]
        return result

    def gradients(
        self,
        grad: Tensor,
        last: Sequence[SpreadOperator],
        turned: Tensor,
        columns: Sequence[slice],
        drawn: Draw,
    ) -> list[Tensor]:
        """Return the gradient of each block that a dropped last round multiplies.

        Parameters
        ----------
        grad
            Of the product with the weight, for the nodes that are here, [m, C].
        last
            The operators of the round.
        turned
            Of `Draw.turned`.
        columns
            Of the weight, for each block of the round: by operator, then by factor.
        drawn
            What is kept of the rows that are here.
        """
        everyone = drawn._replace(nodes=last[0].nodes)
        bounds = np.searchsorted(everyone.nodes, self._blocks).tolist()
        parts = [slice(*ends) for ends in pairwise(bounds)]
        joined = self.join(grad, last[0].counts)
        each = [*zip(parts, aligned(joined, parts), strict=True)]
        n_factors = len(columns) // len(last)
        found: list[Tensor] = []
        for place, at in enumerate(columns):
            whole = Whole(len(everyone.nodes), at.stop - at.start)
            for part, own in each:
                rows = everyone.of(part).gradient(own, turned, at)
                whole.numbers[part, : whole.width] = rows
            operator, factor = divmod(place, n_factors)
            made = last[operator].turned.times(whole)
            if operator:
                found[factor] += made
            else:
                found.append(made)
        return found

    def total(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the sum of what all workers have, the same in whatever order.

        Each number is rounded to a multiple of some power of two, 2⁻⁴⁴ of the largest,
        so that no sum of doubles is rounded.

        Parameters
        ----------
        parts
            Of one shape; at most as many as there are blocks and workers.
        """
        found = torch.zeros(parts[0].shape, dtype=torch.float64)
        if not found.numel():
            return torch.zeros_like(parts[0])
        ends = [torch.stack(part.detach().aminmax()) for part in parts]
        largest = torch.cat(ends).abs().max()
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        # Numbers of this size have no bits for less than what is wanted.
        rounder = 1.5 * 2.0 ** (math.frexp(float(largest))[1] + SPARE_BITS)
        for part in parts:
            rounded = part.detach().double()
            rounded += rounder
            rounded -= rounder
            found += rounded
        dist.all_reduce(found)
        self.sent += 2 * (found.nbytes + 4) * (self.size - 1) // self.size
        return found.to(parts[0].dtype)

    # --------------------------------------------------------------------- what is told

    def _counts(self, here: int) -> list[int]:
        found = torch.zeros(self.size, dtype=torch.int64)
        found[self.rank] = here
        dist.all_reduce(found)
        counts: list[int] = found.tolist()
        return counts

    def join(self, rows: Tensor, counts: Sequence[int] | None = None) -> Tensor:
        """Return everybody's rows, those of the first worker first.

        Parameters
        ----------
        rows
            Those that are here.
        counts
            How many each worker has, where that is known.
        """
        self._wholes.clear()
        part = rows.detach().contiguous()
        counts = self._counts(len(part)) if counts is None else counts
        out = part.new_empty(sum(counts), *part.shape[1:])
        self._gather(part, counts, out)
        return out

    def whole(self, part: Tensor, counts: Sequence[int] | None = None) -> Whole:
        """Return everybody's rows, to be multiplied; of one matrix they come once.

        Parameters
        ----------
        part
            Of the nodes that are here, or of some of them, [m, c].
        counts
            How many rows each worker has; None is one for each of its nodes.
        """
        found: Whole | None = self._wholes.get(part)
        if found is None:
            rows = self._rows if counts is None else counts
            found = Whole(sum(rows), part.shape[1])
            given, numbers = part.detach().contiguous(), found.numbers
            if numbers.shape[1] == part.shape[1]:
                self._gather(given, rows, numbers)
            else:
                out = given.new_empty(sum(rows), found.width)
                self._gather(given, rows, out)
                numbers[:, : found.width] = out
            self._wholes[part] = found
        return found

    def _gather(self, part: Tensor, rows: Sequence[int], out: Tensor) -> None:
        """Write everybody's rows, of which each has so many."""
        places, waiting = out.split(list(rows)), []
        for worker, place in enumerate(places):
            if worker == self.rank:
                place.copy_(part)
                continue
            if len(part):
                waiting.append(dist.isend(part, worker))
            if len(place):
                waiting.append(dist.irecv(place, worker))
        for one in waiting:
            assert one is not None  # this process is of the group
            one.wait()
        self.sent += part.nbytes * (self.size - 1)

    def transposed(self, rows: CSR) -> CSR:
        """Return the rows of the transpose that are here, [m, n].

        Parameters
        ----------
        rows
            Those of the matrix, [m, n].
        """
        turned = CSR(rows.T)
        counts = np.diff(turned.indptr[self.bounds]).tolist()
        # Of one type everywhere: scipy's depends on how many there are.
        lengths = self._swap(np.diff(turned.indptr).astype(np.int64), self._rows)
        columns = self._swap(turned.indices.astype(np.int32), counts)
        values = self._swap(turned.data, counts)
        found = [
            CSR((of, at, np.append(0, np.cumsum(sizes))), shape=(len(self.own), width))
            for of, at, sizes, width in zip(
                values, columns, lengths, self._rows, strict=True
            )
        ]
        return CSR(sp.hstack(found, format="csr"))

    def _swap(self, values: NDArray[Any], counts: Sequence[int]) -> list[NDArray[Any]]:
        """Give each worker so many values, and return what each gave."""
        given, sizes = torch.from_numpy(values), torch.tensor(counts)
        theirs = torch.empty_like(sizes)
        dist.all_to_all_single(theirs, sizes)
        out = given.new_empty(int(theirs.sum()))
        dist.all_to_all_single(out, given, theirs.tolist(), sizes.tolist())
        return [part.numpy() for part in out.split(theirs.tolist())]


SPARE_BITS = 8
"""A double has 52: 44 are left of the largest number, if 2⁸ of them are added."""


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, count: int, workers: Workers
    ) -> tuple[Tensor, ...]:
        ctx.workers = workers
        return tuple(weight.view_as(weight) for _ in range(count))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.workers.total(grads), None, None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, workers: Workers, *parts: Tensor) -> Tensor:
        ctx.count = len(parts)
        return workers.total(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(grads[0] for _ in range(ctx.count))


class SpreadOperator:
    """The rows of an operator that are a worker's, multiplied with what all have.

    Parameters
    ----------
    rows
        Its rows, [m, n].
    workers
        Who has the others.
    turned
        The rows of its transpose, [m, n]; None where it is symmetric.
    index
        Which of the rows are multiplied, [k]; None is all.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        rows: CSR,
        workers: Workers,
        *,
        turned: CSR | None = None,
        index: NDArray[np.int64] | None = None,
    ) -> None:
        self._all, self._turned = rows, turned
        self._workers, self._index = workers, index

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and the columns that are here."""
        rows = self._all.shape[0] if self._index is None else len(self._index)
        return rows, len(self._workers.own)

    @cached_property
    def _forward(self) -> RowSums:
        index = self._index
        return RowSums(self._all if index is None else take_rows(self._all, index))

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """The nodes whose rows are multiplied, of all workers, ascending."""
        workers = self._workers
        if self._index is None:
            return np.arange(workers.bounds[-1])
        return workers.join(torch.from_numpy(workers.own[self._index])).numpy()

    @cached_property
    def counts(self) -> list[int]:
        """How many of them each worker has."""
        counts: list[int] = np.diff(
            np.searchsorted(self.nodes, self._workers.bounds)
        ).tolist()
        return counts

    @cached_property
    def turned(self) -> RowSums:
        """The rows of the transpose, of these nodes' columns."""
        turned = self._all if self._turned is None else self._turned
        if self._index is not None:
            return RowSums(take_columns(turned, self.nodes))
        return self._forward if self._turned is None else RowSums(turned)

    def __matmul__(self, dense: Tensor) -> Tensor:
        whole = self._workers.whole(dense)
        result: Tensor = _SpreadProduct.apply(dense, whole, self)  # type: ignore[no-untyped-call]
        return result

    def multiplied(self, whole: Whole) -> Tensor:
        """Return the product with what all have, [k, c]."""
        return self._forward.times(whole)

    def gradient(self, grad: Tensor) -> Tensor:
        """Return the gradient of a factor's rows here, of the product's, [k, c]."""
        return self.turned.times(self._workers.whole(grad, self.counts))

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return some rows as a matrix, [len(index), n]."""
        return take_rows(
            self._all, index if self._index is None else self._index[index]
        )

    def rows(self, index: NDArray[np.int64]) -> SpreadOperator:
        """Return some rows as an operator of their own; ascending."""
        own = index if self._index is None else self._index[index]
        return SpreadOperator(self._all, self._workers, turned=self._turned, index=own)


class _SpreadProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, dense: Tensor, whole: Whole, operator: SpreadOperator
    ) -> Tensor:
        del dense  # is among what all have
        ctx.operator = operator
        return operator.multiplied(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.operator.gradient(grads[0]), None, None


class _LastDropped(torch.autograd.Function):
    """The last round, dropped, times a weight.

    The gradient of a block of it follows from that of the product, which has no more
    columns than there are classes: that is gathered, and everybody makes the other.
    """

    @staticmethod
    def forward(
        ctx: Any,
        workers: Workers,
        drawn: Draw,
        last: Sequence[SpreadOperator],
        wholes: Sequence[Whole],
        weight: Tensor,
        *given: Tensor,
    ) -> Tensor:
        read = given[: len(given) - len(wholes)]
        made = [op.multiplied(whole) for op in last for whole in wholes]
        blocks, turned = [*read, *made], drawn.turned(weight)
        ctx.workers, ctx.drawn, ctx.last, ctx.n_read = workers, drawn, last, len(read)
        ctx.save_for_backward(weight, *blocks)
        parts = workers.parts(torch.from_numpy(drawn.nodes))
        found = [
            drawn.of(part).product([block[part] for block in blocks], turned)
            for part in parts
        ]
        return torch.cat(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, *blocks = ctx.saved_tensors
        workers, drawn, turned = ctx.workers, ctx.drawn, ctx.drawn.turned(weight)
        width, grad = blocks[0].shape[1], grads[0].contiguous()
        parts = workers.parts(torch.from_numpy(drawn.nodes))
        each = [*zip(parts, aligned(grad, parts), strict=True)]
        of_weight = workers.total(
            [
                drawn.of(part).weight_gradient(own, [block[part] for block in blocks])
                for part, own in each
            ]
        )
        starts = range(0, width * len(blocks), width)
        columns = [slice(start, start + width) for start in starts]
        of_read = [
            torch.cat([drawn.of(part).gradient(own, turned, at) for part, own in each])
            for at in columns[: ctx.n_read]
        ]
        of_level = workers.gradients(
            grad, ctx.last, turned, columns[ctx.n_read :], drawn
        )
        return (None, None, None, None, of_weight, *of_read, *of_level)


class _OwnNodes(WholeGraph):
    """The graph of a worker's nodes, every step of an epoch."""

    def __init__(
        self,
        workers: Workers,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
    ) -> None:
        self._train = workers.seen(x, operators, split.train)
        self._val = workers.seen(x, operators, split.val)


def balanced(costs: NDArray[Any], size: int, multiple: int = 1) -> list[int]:
    """Return the first node of each of `size` parts, and the number of all.

    Parameters
    ----------
    costs
        Of each node, [n].
    size
        How many parts.
    multiple
        Of which each first node is one.

    Examples
    --------
    >>> balanced(np.array([4, 1, 1, 2]), 2)
    [0, 1, 4]
    """
    ends = np.cumsum(np.asarray(costs, dtype=np.float64))
    total = ends[-1] if len(ends) else 0.0
    inner = 1 + np.searchsorted(ends, total * np.arange(1, size) / size)
    inner = (inner + multiple // 2) // multiple * multiple
    found = np.minimum(np.maximum.accumulate([0, *inner, len(ends)]), len(ends))
    return [int(bound) for bound in found]
