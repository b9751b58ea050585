"""What a training step sees: the whole graph, or the receptive field of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.features import FeatureTable, Input
from h2gcn.graph import CSR, Split, slices
from h2gcn.sparse import NO_GRAPH, LinearMap, Operator, Propagation, StepCache

__all__ = [
    "Batches",
    "FullBatch",
    "HasRows",
    "MiniBatches",
    "Subgraph",
    "TakesRows",
    "own_rows",
    "receptive_field",
    "reorder",
    "reordering_helps",
]


ALL = slice(None)  # of a process that holds the whole graph


class HasRows(Protocol):
    """An input that can return some of its rows."""

    shape: tuple[int, int]

    def rows(self, index: NDArray[np.int64], /) -> Input:
        """Return the rows of some nodes, each once and ascending."""


class TakesRows(Protocol):
    """A matrix that can return some of its rows."""

    def take(self, index: NDArray[np.int64], /) -> CSR:
        """Return some rows as a matrix."""


class Subgraph(NamedTuple):
    """Arguments of a module, and the nodes that its logits are of.

    `members` are all nodes of a receptive field, ascending, [k].
    """

    x: Input
    graph: Propagation
    nodes: NDArray[np.int64]  # by their index in the whole graph, [m]
    members: NDArray[np.int64] | None = None


def receptive_field(
    x: Input | HasRows,
    matrices: Sequence[TakesRows],
    nodes: NDArray[np.int64],
    hops: int,
    device: torch.device,
) -> Subgraph:
    """Return the subgraph that the logits of some nodes depend on.

    In each hop, the rows of the nodes that the last hop reached are taken from each
    matrix, each row once. Rows of the nodes reached last stay empty: they change only
    other nodes' logits.

    Parameters
    ----------
    nodes
        [m]; in any order, also repeated.
    hops
        How many products with matrices follow one another in the module.

    Returns
    -------
    Subgraph
        With k nodes in ascending order: x [k, F], matrices [k, k] and the
        target's rows [m, k].
    """
    inside = np.zeros(x.shape[0], dtype=bool)
    inside[nodes] = True
    frontier = np.flatnonzero(inside)
    expanded = [np.zeros(0, dtype=np.int64)]
    rows: list[list[CSR]] = [[] for _ in matrices]
    for _ in range(hops):
        before = inside.copy()
        for matrix, chunks in zip(matrices, rows, strict=True):
            chunk = matrix.take(frontier)
            inside[chunk.indices] = True
            chunks.append(chunk)
        expanded.append(frontier)
        frontier = np.flatnonzero(inside ^ before)

    members = np.flatnonzero(inside)
    position = np.empty(len(inside), dtype=np.int32)  # read for members alone
    position[members] = np.arange(len(members), dtype=np.int32)
    filled = np.concatenate(expanded)
    # The stacked row of each member; the last one is empty.
    row = np.full(len(members), len(filled))
    row[position[filled]] = np.arange(len(filled))
    # A single product is the target's: the matrices among the members are not used.
    inner = row if hops > 1 else np.full_like(row, len(filled))
    index = position[nodes].astype(np.int64)
    square, of_target = [], []
    for chunks in rows:
        stacked = _stack(chunks, position, len(members))
        chunks.clear()  # no row is held in more forms than the next matrix needs
        square.append(Operator(CSR(stacked[inner]), device=device))
        of_target.append(Operator(CSR(stacked[row[index]]), device=device))
    local, names = (torch.from_numpy(i).to(device) for i in (index, nodes))
    graph = Propagation(square, local, names, rows=of_target)
    return Subgraph(_rows(x, members), graph, nodes, members)


def _stack(chunks: list[CSR], position: NDArray[np.int32], n_columns: int) -> CSR:
    """Stack the chunks and an empty row, with renumbered columns."""
    empty = CSR((1, len(position)), dtype=np.float32)
    stacked = CSR(sp.vstack([*chunks, empty], format="csr"))
    data = stacked.data, position[stacked.indices], stacked.indptr
    return CSR(data, shape=(stacked.shape[0], n_columns))


def _rows(x: Input | HasRows, index: NDArray[np.int64]) -> Input:
    if isinstance(x, Tensor):
        return x[torch.from_numpy(index).to(x.device)]
    return x.rows(index)


class FullBatch:
    """One step per epoch, of all training nodes in the rows of this process.

    Parameters
    ----------
    own
        The nodes whose rows `x` and `matrices` are; by default all.
    cache
        What a validation leaves to the next step, see `Propagation.cached`.
    """

    def __init__(
        self,
        x: Input,
        matrices: Sequence[LinearMap],
        split: Split,
        *,
        own: slice = ALL,
        cache: StepCache | None = None,
    ) -> None:
        position = None
        if reordering_helps(x, matrices):
            x, matrices, position = reorder(x, matrices)
        matrices = tuple(  # one object: the cache tells arguments by identity
            op.for_many_products() if isinstance(op, Operator) else op
            for op in matrices
        )
        # Consecutive rows that are close to each other read the same neighbors.
        places = split.train if position is None else position[split.train]
        train = split.train[np.argsort(places, kind="stable")]
        self._train, self._val = (
            own_rows(x, matrices, index, own, position=position, cache=cache)
            for index in (train, split.val)
        )

    def steps(self, epoch: int) -> Iterator[Subgraph]:
        """Return the one step of an epoch."""
        del epoch
        yield self._train

    def validation(self) -> Iterator[Subgraph]:
        """Return the rows for all validation nodes."""
        yield self._val


def own_rows(
    x: Input,
    matrices: Sequence[LinearMap],
    index: NDArray[np.int64],
    own: slice = ALL,
    *,
    position: NDArray[np.int64] | None = None,
    cache: StepCache | None = None,
) -> Subgraph:
    """Return the rows of a process, for those of some nodes that are its own.

    Parameters
    ----------
    position
        The row of each node, [n], where they are not in order.
    """
    if isinstance(x, FeatureTable) and not matrices:
        return Subgraph(x.rows(index), NO_GRAPH, index)
    rows = index if position is None else position[index]
    if own != ALL:
        index = index[(index >= own.start) & (index < own.stop)]
        rows = index - own.start
    # Dropout goes by the numbers of nodes in the whole graph.
    local, node_ids = (torch.from_numpy(nodes).to(x.device) for nodes in (rows, index))
    return Subgraph(x, Propagation(matrices, local, node_ids, cache=cache), index)


MAX_REORDERED_ENTRIES = 2**24  # of all matrices: a second copy takes memory
MAX_REORDERED_DENSITY = 1 / 16  # above it, neighbors are everywhere in any order


def reordering_helps(x: Input, matrices: Sequence[LinearMap]) -> bool:
    """Return whether products are faster where neighbors are close in memory."""
    symmetric = [op for op in matrices if isinstance(op, Operator) and op.symmetric]
    if not symmetric or len(symmetric) < len(matrices):
        return False
    if not isinstance(x, Tensor | Operator) or x.device.type != "cpu":
        return False
    entries, n = [op.scipy.nnz for op in symmetric], x.shape[0]
    is_sparse = max(entries) < MAX_REORDERED_DENSITY * n * n
    return is_sparse and sum(entries) <= MAX_REORDERED_ENTRIES


def reorder(
    x: Input, matrices: Sequence[LinearMap]
) -> tuple[Input, tuple[LinearMap, ...], NDArray[np.int64]]:
    """Renumber the nodes by reverse Cuthill-McKee, so that neighbors are close.

    A product reads the rows of a node's neighbors; close by, they are still in the
    cache from the node before.

    Returns
    -------
    tuple
        Features and matrices in the new order, and the new number of each node, [n].
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    plain = [op.scipy for op in matrices if isinstance(op, Operator)]
    order = reverse_cuthill_mckee(plain[0], symmetric_mode=True).astype(np.int64)
    # A symmetric matrix: rows in the new order, transposed, have columns in that order.
    reordered = tuple(
        Operator(CSR(CSR(CSR(m[order]).T)[order]), symmetric=True) for m in plain
    )
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return _rows(x, order), reordered, position


class MiniBatches:
    """A few training nodes per step, with their receptive field.

    In every epoch the training nodes are shuffled, by a generator of seed and epoch
    alone, and split into batches of `batch_size` or one less. Validation nodes are
    taken in order, as many at a time.
    """

    def __init__(
        self,
        x: Input,
        matrices: Sequence[LinearMap],
        split: Split,
        batch_size: int,
        hops: int,
        seed: int,
    ) -> None:
        self._x, self._matrices, self._split = x, matrices, split
        self._batch_size, self._hops, self._seed = batch_size, hops, seed

    def steps(self, epoch: int) -> Iterator[Subgraph]:
        """Return a subgraph for each batch; together their nodes are `train`."""
        rng = np.random.default_rng((self._seed, epoch))
        train = rng.permutation(self._split.train)
        # Of one size: a step of the few that are left over would count as much.
        for batch in np.array_split(train, -(-len(train) // self._batch_size)):
            yield self._subgraph(batch)

    def validation(self) -> Iterator[Subgraph]:
        """Return the subgraphs of the validation nodes."""
        val = self._split.val
        for part in slices(len(val), self._batch_size):
            yield self._subgraph(val[part])

    def _subgraph(self, nodes: NDArray[np.int64]) -> Subgraph:
        x = self._x
        return receptive_field(x, self._matrices, nodes, self._hops, x.device)


Batches: TypeAlias = FullBatch | MiniBatches
