"""Who trains: one process, or several, each with some rows of one graph.

Each of several processes, a worker, has consecutive nodes: their features, and their
rows of every operator. A product needs the other side whole: what all workers have of
it is gathered, n × c numbers, and in the backward pass what each found for all of it is
added up by those whose nodes they are. The module sees neither: to it, the graph is
that of the worker's nodes. Weights are the same everywhere, since all draw them by one
seed, add up their gradients, and judge epochs by the logits of all validation nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from h2gcn.graph import CSR, Split
from h2gcn.models import NodeModule
from h2gcn.ring_table import Input
from h2gcn.sparse import LinearMap, Operator, Target
from h2gcn.training.batches import Feed, Subgraph, WholeGraph, make_feed

__all__ = ["ALONE", "Crew", "SpreadOperator", "Workers", "balanced"]


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

    def add_up(self, loss: Tensor, model: NodeModule) -> float:
        """Make each gradient the sum of everybody's, and return that of the losses."""
        del model
        return loss.item()

    def join(self, rows: Tensor) -> Tensor:
        """Return everybody's rows below each other."""
        return rows


ALONE = Crew()


class Workers(Crew):
    """One of several processes of a group of `torch.distributed`.

    Parameters
    ----------
    bounds
        The first node of each worker, and the number of all, ascending.

    Attributes
    ----------
    own
        The nodes that are here, ascending, [m].
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        assert len(bounds) == size + 1
        self.bounds = [int(bound) for bound in bounds]
        self.size, self.chief = size, rank == 0
        self.own = np.arange(self.bounds[rank], self.bounds[rank + 1])
        self.sent = 0
        self._rank = rank
        self._rows = [last - first for first, last in pairwise(self.bounds)]
        self._whole: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def arrange(self, split: Split) -> Split:
        """Return the split with its nodes in the order of their workers."""
        ends = self.bounds[1:]
        parts = {
            name: index[
                np.argsort(np.searchsorted(ends, index, "right"), kind="stable")
            ]
            for name, index in split.parts.items()
        }
        return Split(**parts)

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
        first, end = self.bounds[self._rank], self.bounds[self._rank + 1]
        return index[(index >= first) & (index < end)] - first

    def count(self, here: int, everywhere: int) -> int:
        """Return all nodes: a step is everybody's."""
        del here
        return everywhere

    def _counts(self, here: int) -> list[int]:
        found = torch.zeros(self.size, dtype=torch.int64)
        found[self._rank] = here
        dist.all_reduce(found)
        counts: list[int] = found.tolist()
        return counts

    def add_up(self, loss: Tensor, model: NodeModule) -> float:
        """Make each gradient the sum of everybody's, and return that of the losses."""
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        grads = [weight.grad for weight in weights if weight.grad is not None]
        together = torch.cat([loss.detach().view(1), *(g.flatten() for g in grads)])
        dist.all_reduce(together)
        self.sent += 2 * together.nbytes * (self.size - 1) // self.size
        total, *summed = together.split([1, *(g.numel() for g in grads)])
        for grad, values in zip(grads, summed, strict=True):
            grad.copy_(values.view_as(grad))
        return float(total)

    def join(self, rows: Tensor) -> Tensor:
        """Return everybody's rows, those of the first worker first."""
        return self._gather(rows.detach(), self._counts(len(rows)))

    def whole(self, part: Tensor) -> Tensor:
        """Return the rows of all nodes; `part` are those of the nodes that are here.

        Several products with one matrix gather it once.
        """
        found: Tensor | None = self._whole.get(part)
        if found is None:
            found = _Gathered.apply(part, self)  # type: ignore[no-untyped-call]
            self._whole[part] = found
        return found

    def _gather(self, part: Tensor, rows: Sequence[int]) -> Tensor:
        """Return everybody's rows, of which each has so many."""
        out = part.new_empty(sum(rows), *part.shape[1:])
        given = part.contiguous().repeat(self.size, *[1] * (part.dim() - 1))
        dist.all_to_all_single(out, given, list(rows), [len(part)] * self.size)
        self.sent += part.nbytes * (self.size - 1)
        return out

    def _scatter(self, whole: Tensor) -> Tensor:
        """Return the sum of what everybody has for the rows that are here."""
        here = self._rows[self._rank]
        out = whole.new_empty(self.size * here, *whole.shape[1:])
        given = whole.contiguous()
        dist.all_to_all_single(out, given, [here] * self.size, self._rows)
        self.sent += given.nbytes - given[self.own].nbytes
        return out.view(self.size, here, *whole.shape[1:]).sum(dim=0)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, workers: Workers) -> Tensor:
        ctx.workers = workers
        return workers._gather(part, workers._rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.workers._scatter(grads[0]), None


class SpreadOperator:
    """The rows of an operator that are a worker's, multiplied with what all have.

    Parameters
    ----------
    rows
        Its rows, [m, n].
    workers
        Who has the others.
    """

    def __init__(self, rows: Operator, workers: Workers) -> None:
        self._rows, self._workers = rows, workers
        self.device = rows.device

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and the columns that are here."""
        return self._rows.shape[0], len(self._workers.own)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._rows @ self._workers.whole(dense)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return some rows as a matrix, [len(index), n]."""
        return self._rows.take(index)

    def rows(self, index: NDArray[np.int64]) -> SpreadOperator:
        """Return some rows as an operator of their own."""
        return SpreadOperator(self._rows.rows(index), self._workers)


class _OwnNodes(WholeGraph):
    """The graph of a worker's nodes, every step of an epoch."""

    def __init__(
        self,
        workers: Workers,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
    ) -> None:
        def seen(index: NDArray[np.int64]) -> Subgraph:
            here = workers.here(index)
            nodes = workers.own[here]
            rows = tuple(operator.rows(here) for operator in operators)
            target = Target(torch.from_numpy(here), rows, torch.from_numpy(nodes))
            return Subgraph(x, operators, target, nodes)

        self._train, self._val = seen(split.train), seen(split.val)


def balanced(costs: NDArray[Any], size: int) -> list[int]:
    """Return the first node of each of `size` workers, and the number of all.

    Parameters
    ----------
    costs
        Of each node, [n].
    size
        How many workers.

    Examples
    --------
    >>> balanced(np.array([4, 1, 1, 2]), 2)
    [0, 1, 4]
    """
    ends = np.cumsum(np.asarray(costs, dtype=np.float64))
    total = ends[-1] if len(ends) else 0.0
    inner = np.searchsorted(ends, total * np.arange(1, size) / size)
    bounds = [0, *(int(place) + 1 for place in inner), len(ends)]
    found = np.minimum(np.maximum.accumulate(bounds), len(ends))
    return [int(bound) for bound in found]
