"""What a training step sees: the whole graph, or the subgraph of a batch of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR, Split, slices
from h2gcn.models import NodeModule
from h2gcn.ring_table import Input, TableInput
from h2gcn.sparse import LinearMap, Operator, Target, in_order

__all__ = [
    "Feed",
    "HasRows",
    "MiniBatches",
    "Subgraph",
    "TakesRows",
    "WholeGraph",
    "gather",
    "make_feed",
]


class HasRows(Protocol):
    """An input of which some rows can be had, whatever becomes of the others."""

    shape: tuple[int, int]

    def rows(self, index: NDArray[np.int64], /) -> Input:
        """Return the rows of some nodes, each once and ascending."""
        ...


class TakesRows(Protocol):
    """An operator of which some rows can be had."""

    def take(self, index: NDArray[np.int64], /) -> CSR:
        """Return some rows as a matrix."""
        ...


class Subgraph(NamedTuple):
    """A part of a graph, as a module is called with it, and the nodes it answers for.

    Parameters
    ----------
    x
        Features of the nodes of the subgraph.
    operators
        The operators among them.
    target
        Which of them are wanted; None is all.
    nodes
        The same as numbers of the graph, [m].
    """

    x: Input
    operators: Sequence[LinearMap]
    target: Target | None
    nodes: NDArray[np.int64]


def gather(
    x: Input | HasRows,
    operators: Sequence[TakesRows],
    nodes: NDArray[np.int64],
    reach: int,
    device: torch.device,
) -> Subgraph:
    """Return what some nodes' logits depend on, as a smaller graph.

    Step by step outwards, `reach` times, the rows of the nodes that the last step
    brought in are taken from each operator, each row once. What is left out of the
    smaller graph, and the rows of those brought in last, which stay empty, can change
    only other nodes' logits.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        Of the whole graph, [n, n] each.
    nodes
        Whose logits are wanted, [m]; in any order, also repeatedly.
    reach
        How many products with operators follow one another in the module.
    device
        Where the subgraph shall be.

    Returns
    -------
    Subgraph
        With k nodes, in ascending order: x [k, F], operators [k, k], target [m, k].
    """
    inside = np.zeros(x.shape[0], dtype=bool)
    inside[nodes] = True
    fresh = np.flatnonzero(inside)
    steps: list[NDArray[np.int64]] = []
    taken: list[list[CSR]] = []
    for _ in range(reach):
        rows = [operator.take(fresh) for operator in operators]
        steps.append(fresh)
        taken.append(rows)
        before = inside.copy()
        _mark(inside, rows)
        fresh = np.flatnonzero(inside ^ before)

    members = np.flatnonzero(inside)
    place = np.empty(len(inside), dtype=np.int32)  # read for members alone
    place[members] = np.arange(len(members), dtype=np.int32)
    filled = np.concatenate([np.zeros(0, dtype=np.int64), *steps])
    # Which row of the stacked ones is a member's; the last one is empty.
    row = np.full(len(members), len(filled))
    row[place[filled]] = np.arange(len(filled))
    # One product is the target's alone: the operators among the members are not used.
    inner = row if reach > 1 else np.full_like(row, len(filled))
    at = place[nodes].astype(np.int64)
    among, wanted = [], []
    for _ in operators:
        # Off the list, so that no row is held in more forms than the next one needs.
        stacked = _stack([rows.pop(0) for rows in taken], place, len(members))
        among.append(Operator(CSR(stacked[inner]), device=device))
        wanted.append(Operator(CSR(stacked[row[at]]), device=device))
        del stacked
    index, names = (torch.from_numpy(i).to(device) for i in (at, nodes))
    target = Target(index, tuple(wanted), names)
    return Subgraph(_rows(x, members), among, target, nodes)


def _mark(inside: NDArray[np.bool_], rows: list[CSR]) -> None:
    """Set the columns of all rows."""
    for matrix in rows:
        inside[matrix.indices] = True


def _stack(blocks: list[CSR], place: NDArray[np.int32], n_columns: int) -> CSR:
    """Return the blocks and an empty row below each other, columns renumbered."""
    empty = CSR((1, len(place)), dtype=np.float32)
    stacked = CSR(sp.vstack([*blocks, empty], format="csr"))
    blocks.clear()
    parts = stacked.data, place[stacked.indices], stacked.indptr
    return CSR(parts, shape=(stacked.shape[0], n_columns))


def _rows(x: Input | HasRows, index: NDArray[np.int64]) -> Input:
    if isinstance(x, Tensor):
        return x[torch.from_numpy(index).to(x.device)]
    return x.rows(index)


class Feed(Protocol):
    """Gives what each training step sees, epoch by epoch."""

    def steps(self, epoch: int) -> Iterator[Subgraph]:
        """Return what the steps of an epoch see; together, all of `train`."""
        ...

    def validation(self) -> Iterator[Subgraph]:
        """Return subgraphs whose nodes are, in order, those of `val`."""
        ...


class WholeGraph:
    """One step an epoch: every training node, the operators as they are.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        The model's operators of the graph, [n, n] each.
    split
        Its `train` and `val` parts are used.
    device
        Where the model is.
    renumber
        Whether the nodes may have other numbers here, so that neighbours are close to
        each other in memory; see `renumbered`.
    """

    def __init__(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        device: torch.device,
        *,
        renumber: bool = False,
    ) -> None:
        place = None
        if renumber and worth_renumbering(x, operators):
            x, operators, place = renumbered(x, operators)
        # Rows that are close to each other ask for the same neighbours.
        close = split.train if place is None else place[split.train]
        train = split.train[np.argsort(close, kind="stable")]
        self._train, self._val = (
            _whole(x, operators, index, device, place) for index in (train, split.val)
        )

    def steps(self, epoch: int) -> Iterator[Subgraph]:
        """Return the whole graph, for all training nodes."""
        del epoch
        yield self._train

    def validation(self) -> Iterator[Subgraph]:
        """Return the whole graph, for all validation nodes."""
        yield self._val


def _whole(
    x: Input,
    operators: Sequence[LinearMap],
    index: NDArray[np.int64],
    device: torch.device,
    place: NDArray[np.int64] | None,
) -> Subgraph:
    """Return all of a graph, for some nodes; of a table, their rows are enough."""
    if isinstance(x, TableInput) and not operators:
        return Subgraph(x.rows(index), operators, None, index)
    if place is None:
        return Subgraph(x, operators, Target.of(operators, index, device), index)
    target = Target.of(operators, place[index], device)
    names = torch.from_numpy(index).to(device)
    return Subgraph(x, operators, replace(target, nodes=names), index)


MANY_ENTRIES = 2**24
"""Of all operators, above which a second copy of them takes too much memory."""
FULL = 1 / 16
"""Of all pairs, from which on every row is everywhere, and no order helps."""


def worth_renumbering(x: Input, operators: Sequence[LinearMap]) -> bool:
    """Return whether products are quicker where neighbours have numbers close by.

    Parameters
    ----------
    x, operators
        Of the whole graph.
    """
    here = [op for op in operators if isinstance(op, Operator) and op.symmetric]
    if not here or len(here) < len(operators) or isinstance(x, TableInput):
        return False
    if not isinstance(x, Tensor | Operator) or x.device.type != "cpu":
        return False
    entries, n = [op.scipy.nnz for op in here], x.shape[0]
    return sum(entries) <= MANY_ENTRIES and max(entries) < FULL * n * n


FEW_ENTRIES = 2**22
"""Of all operators, up to which a second copy is kept for the next training."""


class _Moved(NamedTuple):
    """Operators in another order.

    Parameters
    ----------
    origins
        Those that they were made of, while these are in use.
    operators, order, place
        In the new order; the node at each place, and each node's place, [n].
    """

    origins: list[ReferenceType[LinearMap]]
    operators: list[Operator]
    order: NDArray[np.int64]
    place: NDArray[np.int64]


_MOVED: WeakKeyDictionary[LinearMap, _Moved] = WeakKeyDictionary()
"""By the first of those that they were made of: splits of a graph share it."""


def renumbered(
    x: Input, operators: Sequence[LinearMap]
) -> tuple[Input, Sequence[LinearMap], NDArray[np.int64]]:
    """Return a graph whose neighbours are close to each other, and where each node is.

    By the order of Cuthill and McKee, reversed: breadth first, from a node at the rim.
    A product reads the rows of a node's neighbours; close by, they are still in the
    cache from the node before.

    Parameters
    ----------
    x, operators
        As of `worth_renumbering`.

    Returns
    -------
    tuple
        Both in the new order, and the new number of each node, [n].
    """
    moved = _MOVED.get(operators[0])
    if moved is None or [origin() for origin in moved.origins] != [*operators]:
        moved = _moved(operators)
        if sum(op.scipy.nnz for op in moved.operators) <= FEW_ENTRIES:
            _MOVED[operators[0]] = moved
    return _rows(x, moved.order), moved.operators, moved.place


def _moved(operators: Sequence[LinearMap]) -> _Moved:
    """Find an order, and bring operators into it."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    matrices = [op.scipy for op in operators if isinstance(op, Operator)]
    order = reverse_cuthill_mckee(matrices[0], symmetric_mode=True).astype(np.int64)
    found = [Operator(in_order(m, order), symmetric=True) for m in matrices]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return _Moved([ref(op) for op in operators], found, order, place)


class MiniBatches:
    """A few training nodes a step, each with no more of the graph than it needs.

    In every epoch the training nodes are shuffled, by a generator of seed and epoch
    alone, and cut into batches of one size or one less. Validation nodes are taken in
    order, as many at a time.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        The model's operators of the graph, [n, n] each.
    split
        Its `train` and `val` parts are used.
    batch_size
        At most so many nodes a step.
    reach
        The module's; see `gather`.
    device
        Where the model is.
    seed
        Of the order.
    """

    def __init__(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        batch_size: int,
        reach: int,
        device: torch.device,
        seed: int,
    ) -> None:
        self._x, self._operators, self._split = x, operators, split
        self._batch_size, self._reach, self._device = batch_size, reach, device
        self._seed = seed

    def steps(self, epoch: int) -> Iterator[Subgraph]:
        """Return a subgraph for each batch."""
        train = np.random.default_rng((self._seed, epoch)).permutation(
            self._split.train
        )
        # Of one size: a step for the few that are left over would count as much.
        n_batches = -(-len(train) // self._batch_size)
        for batch in np.array_split(train, n_batches):
            yield self._subgraph(batch)

    def validation(self) -> Iterator[Subgraph]:
        """Return the subgraphs of the validation nodes."""
        val = self._split.val
        for part in slices(len(val), self._batch_size):
            yield self._subgraph(val[part])

    def _subgraph(self, nodes: NDArray[np.int64]) -> Subgraph:
        return gather(self._x, self._operators, nodes, self._reach, self._device)


def make_feed(
    model: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    split: Split,
    batch_size: int | None,
    seed: int,
) -> Feed:
    """Return the whole graph, or batches of it where a `batch_size` is given."""
    device = next(model.parameters()).device
    if batch_size is None:
        renumber = model.renumbers
        return WholeGraph(x, operators, split, device, renumber=renumber)
    assert model.reach is not None  # a model without it is given no batches
    return MiniBatches(x, operators, split, batch_size, model.reach, device, seed)
