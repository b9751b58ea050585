"""Training one model in several processes, each with consecutive rows of the graph.

A process holds its rows of the features and of each propagation matrix. Before a
product it gathers the dense operand from all processes; the backward pass adds up the
gradients of the gathered rows and returns each process its own. The module sees
neither. Loss and gradients are summed over the processes: all keep the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.features import Input
from h2gcn.graph import CSR
from h2gcn.sparse import LinearMap, Operator
from h2gcn.training.batches import ALL, own_rows
from h2gcn.training.module import NodeModule

__all__ = [
    "SINGLE",
    "Communicator",
    "RowParallelOperator",
    "TorchGroup",
    "predict_rows",
    "row_bounds",
]

_T = TypeVar("_T")


class Communicator:
    """What the processes of one training exchange: here one with the whole graph.

    Attributes
    ----------
    own
        The consecutive nodes whose rows this process holds.
    bytes_sent
        Bytes that this process has sent so far.
    """

    rank, size, own, bytes_sent = 0, 1, ALL, 0

    def all_gather(self, rows: Tensor) -> Tensor:
        """Concatenate the rows of all processes by rank; differentiable."""
        return rows

    def all_reduce(self, x: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        return x

    def broadcast(self, value: _T) -> _T:
        """Return the value that rank 0 has; it is pickled."""
        return value


SINGLE = Communicator()


class TorchGroup(Communicator):
    """The default process group of `torch.distributed`.

    Parameters
    ----------
    bounds
        The first node of each process, and the number of nodes; see `row_bounds`.
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.own = slice(bounds[self.rank], bounds[self.rank + 1])
        self.bytes_sent = 0

    def all_gather(self, rows: Tensor) -> Tensor:
        gathered: Tensor = _AllGather.apply(rows, self)  # type: ignore[no-untyped-call]
        return gathered

    def all_reduce(self, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        self.bytes_sent += 2 * x.nbytes * (self.size - 1) // self.size
        return x

    def broadcast(self, value: _T) -> _T:
        values: list[Any] = [value]
        dist.broadcast_object_list(values)
        result: _T = values[0]
        return result

    def _counts(self, n_rows: int) -> list[int]:
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = n_rows
        dist.all_reduce(counts)
        result: list[int] = counts.tolist()
        return result

    def _gather(self, rows: Tensor, counts: list[int]) -> Tensor:
        gathered = rows.new_empty(sum(counts), *rows.shape[1:])
        chunks = gathered.split(counts)
        chunks[self.rank].copy_(rows)
        pending = [
            dist.broadcast(chunk, source, async_op=True)
            for source, chunk in enumerate(chunks)
            if chunk.numel()
        ]
        for work in pending:
            assert work is not None  # this process is in the group
            work.wait()
        self.bytes_sent += rows.nbytes * (self.size - 1)
        return gathered

    def _reduce_scatter(self, rows: Tensor, counts: list[int]) -> Tensor:
        """Sum [Σ m_i, …] over all processes; return the own m_i rows."""
        own = counts[self.rank]
        received = rows.new_empty(self.size * own, *rows.shape[1:])
        dist.all_to_all_single(received, rows, [own] * self.size, counts)
        self.bytes_sent += rows.nbytes - received.nbytes // self.size
        return received.view(self.size, own, *rows.shape[1:]).sum(dim=0)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: TorchGroup) -> Tensor:
        ctx.group, ctx.counts = group, group._counts(len(rows))
        return group._gather(rows, ctx.counts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.group._reduce_scatter(grads[0].contiguous(), ctx.counts), None


class RowParallelOperator:
    """Rows A[own] of a propagation matrix, multiplied with rows from all processes.

    Parameters
    ----------
    local
        The rows of this process, or some of them, [m, n].
    comm
        Gathers the dense operand: `A @ r` takes r[own] and returns [m, c].
    """

    device = torch.device("cpu")

    def __init__(self, local: CSR | LinearMap, comm: Communicator) -> None:
        self.local = Operator(local) if isinstance(local, CSR) else local
        self.comm = comm

    @property
    def shape(self) -> tuple[int, int]:
        """Its rows, and the rows of a dense operand in this process."""
        n_rows, n = self.local.shape
        return n_rows, len(range(n)[self.comm.own])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.local @ self.comm.all_gather(dense)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return some of the rows as a matrix, [len(index), n]."""
        return self.local.take(index)

    def rows(self, index: NDArray[np.int64]) -> RowParallelOperator:
        """Return some of the rows as an operator."""
        return RowParallelOperator(self.local.rows(index), self.comm)


@torch.no_grad()
def predict_rows(
    model: NodeModule,
    x: Input,
    matrices: Sequence[LinearMap],
    index: NDArray[np.int64],
    comm: Communicator,
) -> Tensor:
    """Return the logits of any nodes of the graph in every process, [len(index), C].

    `x` and `matrices` are the rows of this process; the rest is the same in all.
    """
    nodes, inverse = np.unique(index, return_inverse=True)
    part = own_rows(x, matrices, nodes, comm.own)
    model.eval()
    logits = comm.all_gather(model(part.x, part.graph))
    return logits[torch.from_numpy(inverse)]


def row_bounds(costs: NDArray[Any], size: int) -> list[int]:
    """Cut consecutive nodes into `size` parts of about the same cost.

    Returns the first node of each part, and the number of nodes.

    Examples
    --------
    >>> row_bounds(np.array([4, 1, 1, 2]), 2)
    [0, 1, 4]
    """
    totals = np.cumsum(np.asarray(costs, dtype=np.float64))
    total = totals[-1] if len(totals) else 0.0
    inner = 1 + np.searchsorted(totals, total * np.arange(1, size) / size)
    bounds = np.maximum.accumulate([0, *inner, len(totals)])
    return [int(bound) for bound in np.minimum(bounds, len(totals))]
