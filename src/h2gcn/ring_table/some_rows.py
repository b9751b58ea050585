"""The rows of some nodes of a table, made without those of any other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR, Features
from h2gcn.ring_table.neighbourhoods import (
    DIRECTIONS,
    RINGS,
    extremes,
    multiply,
    shares,
)
from h2gcn.ring_table.recipe import Schema
from h2gcn.ring_table.table import WHOLE, LabelCounts, TableInput, TableMaker
from h2gcn.rings import RowOperator, RowRule, Vicinity, drawn_pattern
from h2gcn.sparse import Operator, to_tensor

__all__ = ["SomeRows", "table_rules"]

Index = NDArray[np.int64]


class SomeRows:
    """A table of which rows are made when they are asked for.

    Parameters
    ----------
    maker
        Of the graph; blocks that it has made are taken from it.
    near
        Of the same graph.
    schema
        Of this graph, or of the graph of training.
    features
        Gives the features of some nodes, scaled and in the schema's order, [m, F].
    key
        What tells these features apart from others of the graph.
    known
        Gives one-hot labels of some nodes, zero where they are not known, [m, C].
    device
        Where rows shall be.
    wanted
        Which nodes have more than their own features; others have zeros there. None is
        all. For models that look at the rest of a row for these nodes alone.
    """

    def __init__(
        self,
        maker: TableMaker,
        near: Vicinity,
        schema: Schema,
        features: Callable[[Index], Features],
        key: Hashable,
        known: Callable[[Index], Tensor],
        device: torch.device,
        wanted: Index | None = None,
    ) -> None:
        maker.check(schema)
        self._maker, self._near, self._schema = maker, near, schema
        self._features, self._key, self._known = features, key, known
        self._device, self._wanted = device, wanted
        self._patterns: dict[tuple[str, bytes], CSR] = {}
        self.shape = (near.n, schema.width)

    def rows(self, index: Index) -> TableInput:
        """Return the rows of some nodes, each once and ascending, [m, width]."""
        place: Index | None = None
        among = index
        if self._wanted is not None:
            among = np.intersect1d(index, self._wanted)
            place = np.searchsorted(index, among)
        blocks: dict[str, Tensor | Operator] = {}
        for block, width in zip(self._schema.blocks, self._schema.widths, strict=True):
            if block == "own" or place is None:
                blocks[block] = self._block(block, width, index)
                continue
            found = self._block(block, width, among)
            rows = torch.zeros(len(index), width, device=self._device)
            some = (
                found
                if isinstance(found, Tensor)
                else torch.from_numpy(found.scipy.toarray())
            )
            rows[torch.from_numpy(place).to(self._device)] = some
            blocks[block] = rows
        self._patterns.clear()
        none = torch.zeros(len(index), len(self._schema.classes), device=self._device)
        return TableInput(blocks, {}, none)

    def _block(self, block: str, width: int, index: Index) -> Tensor | Operator:
        kind, _, place = block.partition(".")
        if kind == "labels":
            return self._labels(place.split("-"), index)
        if kind == "edges":
            carried = self._maker.edges(self._schema.edge_columns, index)
            return to_tensor(carried, self._device)
        kept = self._maker.kept(block, width, self._key)
        values = self._values(block, width, index) if kept is None else kept[index]
        return to_tensor(values, self._device)

    def _values(self, block: str, width: int, index: Index) -> Features:
        kind, _, more = block.partition(".")
        if block == "own":
            return self._features(index)
        if block == "degrees":
            steps = ("ring1", "ring2", "out", "in")[:width]
            sizes = [self._near.sizes(*_way(step), index)[index] for step in steps]
            counts = [np.log1p(one.astype(np.int64)) for one in sizes]
            return np.stack(counts, axis=1).astype(np.float32)
        if kind == "adjacency":
            return self._rows({"all": "ring1"}.get(more, more), index)
        if kind in (*RINGS, *DIRECTIONS):
            return self._reduced(kind.split("-"), more or "mean", index)
        if kind.startswith("hop"):
            return self._reduced(["ring1"] * _count(kind, "hop"), more, index)
        loops = kind.startswith("loops")
        rule = RowRule(self_loops=loops)
        operator = RowOperator(self._near, rule)
        return self._power(operator, _count(kind, "loops" if loops else "power"), index)

    def _rows(self, step: str, index: Index) -> CSR:
        """Return who is one step away, or in a ring, [m, n]; ones, unless drawn."""
        key = step, index.tobytes()
        if key not in self._patterns:
            columns, starts = self._near.pattern(*_way(step), index)
            values = np.ones(len(columns), dtype=np.float32)
            cap, sizes = self._maker.ring_cap, np.diff(starts)
            if cap is not None and step in RINGS[1:]:
                # As `sampled_ring` draws them: each stands for as many as there are.
                seed = self._maker.seed
                columns, starts = drawn_pattern(columns, starts, index, cap, seed)
                stands_for = (np.maximum(sizes, cap) / cap).astype(np.float32)
                values = np.repeat(stands_for, np.diff(starts))
            shape = (len(index), self._near.n)
            self._patterns[key] = CSR((values, columns, starts), shape=shape)
        return self._patterns[key]

    def _reduced(self, steps: Sequence[str], reducer: str, index: Index) -> Features:
        """Return features of what is so many steps away, reduced at each of them."""
        if not steps:
            return self._features(index)
        matrix, members = _compact(self._rows(steps[0], index))
        x = self._reduced(steps[1:], reducer, members)
        if reducer in ("max", "min"):
            return extremes(matrix, x, reducer == "max")
        return _product(shares(matrix) if reducer == "mean" else matrix, x)

    def _power(self, operator: RowOperator, power: int, index: Index) -> Features:
        if not power:
            return self._features(index)
        matrix, members = _compact(operator.take(index))
        return _product(matrix, self._power(operator, power - 1, members))

    def _labels(self, steps: Sequence[str], index: Index) -> Tensor:
        """Return shares of the labels in a neighbourhood and their number, [m, C + 1].

        As `LabelCounts.of` the whole graph has them: in whole numbers.
        """
        first, members = _compact(self._rows(steps[0], index))
        matrices, ends = [first], members
        if len(steps) == 2:
            second, ends = _compact(self._rows(steps[1], members))
            matrices.append(second)
        everyone = np.union1d(ends, index)
        place = np.searchsorted(everyone, ends)
        last = matrices[-1]
        parts = (last.data, place[last.indices], last.indptr)
        matrices[-1] = CSR(parts, shape=(last.shape[0], len(everyone)))
        own = np.searchsorted(everyone, index)
        closed, many = torch.zeros(len(index)), False
        if len(steps) == 2:
            second = matrices[-1]
            reached = np.diff(second.indptr).astype(np.float64)
            many = bool((first @ reached).max(initial=0) > WHOLE)
            back = CSR(second.tocsc()[:, own].T)
            both = np.asarray(first.multiply(back).sum(axis=1), dtype=np.float32)
            closed = torch.from_numpy(both.reshape(-1))
        counts = LabelCounts(
            tuple(Operator(one, device=self._device) for one in matrices),
            closed.to(self._device),
            torch.from_numpy(own).to(self._device),
            many,
        )
        return counts.columns(self._known(everyone))


def table_rules(schema: Schema) -> tuple[int, int]:
    """Return how many steps follow one another in a table's blocks, and the last ring.

    Both 0 where no block looks beyond the node itself.
    """
    steps, hop = 0, 0
    for block in schema.blocks:
        kind, _, more = block.partition(".")
        name = more if kind == "labels" else kind
        if name in RINGS:
            steps, hop = max(steps, 1), max(hop, int(name[-1]))
        elif name in DIRECTIONS:
            steps, hop = max(steps, name.count("-") + 1), max(hop, 1)
        elif kind in ("degrees", "adjacency", "edges"):
            steps, hop = max(steps, 1), max(hop, 2 if kind == "degrees" else 1)
        elif kind != "own":
            count = int("".join(filter(str.isdecimal, kind)))
            steps, hop = max(steps, count), max(hop, 1)
    return steps, hop


def _way(step: str) -> tuple[str, int]:
    """Return way and distance of a ring or a direction."""
    return ("ring", int(step[-1])) if step in RINGS else (step, 1)


def _count(kind: str, name: str) -> int:
    return int(kind.removeprefix(name))


def _compact(matrix: CSR) -> tuple[CSR, Index]:
    """Return a matrix without its empty columns, and which are left, ascending."""
    inside = np.zeros(matrix.shape[1], dtype=bool)
    inside[matrix.indices] = True
    members = np.flatnonzero(inside)
    place = np.empty(matrix.shape[1], dtype=np.int32)  # read for members alone
    place[members] = np.arange(len(members), dtype=np.int32)
    parts = (matrix.data, place[matrix.indices], matrix.indptr)
    return CSR(parts, shape=(matrix.shape[0], len(members))), members


def _product(matrix: CSR, x: Features) -> Features:
    if not matrix.nnz:
        return np.zeros((matrix.shape[0], x.shape[1]), dtype=np.float32)
    return multiply(matrix, x)
