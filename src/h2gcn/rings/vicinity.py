"""Who is near some nodes, found for these alone; what was counted is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR, Graph, grown_from, grown_matrix
from h2gcn.rings.exact import (
    drawn_pattern,
    exact_rings,
    ring_pattern,
    ring_scale,
    ring_sizes,
)
from h2gcn.sparse import Operator, row_starts

__all__ = ["RowOperator", "RowRule", "Vicinity", "distinct"]

BACK = {"ring": "ring", "out": "in", "in": "out"}
"""The way along which a node is seen by those that it sees."""

MARKED = 32
"""So many times fewer than all, some nodes are sorted rather than marked."""

Pattern = tuple[NDArray[np.integer], NDArray[np.int64]]
"""Columns of some rows, sorted in each, and where each row begins."""


@dataclass(frozen=True)
class RowRule:
    """How an operator's rows are made of a graph, each without any other.

    Parameters
    ----------
    way
        "ring" for distances, "out" and "in" for those along the edges and against them.
    hop
        The distance.
    scale
        "both" for D^-1/2 A D^-1/2, by the sizes of the rings of both nodes; "rows" for
        D^-1 A; "none" for A.
    self_loops
        Whether A has the identity added first.
    sign
        What all is multiplied with.
    """

    way: str = "ring"
    hop: int = 1
    scale: str = "both"
    self_loops: bool = False
    sign: float = 1.0


class Vicinity:
    """The neighbourhoods of one graph, for some nodes at a time.

    How many are in a ring is remembered for each node for which it was ever asked; of
    a graph that grew, it is what was known before, but for nodes so near to what is new
    that it may have changed.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    directed
        The directions of the edges, [n, n]; None where there are none.
    """

    def __init__(self, adj: CSR, directed: CSR | None = None) -> None:
        self.adj, self.directed = adj, directed
        self._found: dict[str, CSR] = {"ring": adj}
        self._sizes: dict[tuple[str, int], NDArray[np.int32]] = {}
        self._before: Callable[[], Vicinity | None] = _nothing
        self._touched = np.zeros(0, dtype=np.int64)
        self._own: dict[tuple[str, int], NDArray[np.bool_]] = {}

    @classmethod
    def of(cls, graph: Graph) -> Vicinity:
        """Return that of a graph, with what is remembered."""
        if graph not in _REMEMBERED:
            made = cls(graph.adj, graph.directed)
            growth = grown_from(graph)
            if growth is not None:
                made._follow(cls.of(growth.base), growth.touched)
            _REMEMBERED[graph] = made
        return _REMEMBERED[graph]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.adj.shape[0])

    def matrix(self, way: str) -> CSR:
        """Return who is one step away, binary and without loops, [n, n]."""
        if way not in self._found:
            if self.directed is None:
                found = self.adj
            elif way == "out":
                (found,) = exact_rings(self.directed, hops=1)
            else:
                found = CSR(self.matrix("out").T)
                found.sort_indices()
            self._found[way] = found
        return self._found[way]

    def pattern(self, way: str, hop: int, index: NDArray[np.int64]) -> Pattern:
        """Return who is at a distance of each of some nodes, and where each begins."""
        matrix = self.matrix(way)
        if hop > 1:
            sizes = self.sizes(way, hop, index)[index].astype(np.int64)
            return ring_pattern(matrix, hop, index, sizes)
        starts = row_starts(np.diff(matrix.indptr)[index].astype(np.int64))
        return matrix[index].indices, starts

    def sizes(
        self, way: str, hop: int, index: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Return how many are at a distance of each node, [n]; of `index` at least.

        Of other nodes it is -1 where nobody has asked before.
        """
        key = way, hop
        if key not in self._sizes:
            if hop == 1:
                degrees = np.diff(self.matrix(way).indptr).astype(np.int32)
                self._sizes[key] = degrees
            else:
                self._sizes[key] = np.full(self.n, -1, dtype=np.int32)
        sizes = self._sizes[key]
        if hop > 1:
            unknown = distinct(index[sizes[index] < 0], self.n)
            base = self._before()
            if base is not None and unknown.size:
                differ = self._differ(way, hop)[unknown]
                same, unknown = unknown[~differ], unknown[differ]
                sizes[same] = base.sizes(way, hop, same)[same]
            if unknown.size:
                sizes[unknown] = ring_sizes(self.matrix(way), hop, unknown)
        return sizes

    def learn_sizes(self, way: str, hop: int, sizes: NDArray[np.integer]) -> None:
        """Take what others counted for how many are at a distance of each node, [n]."""
        self._sizes[way, hop] = sizes.astype(np.int32)

    def ball(
        self,
        ways: tuple[str, ...],
        index: NDArray[np.int64],
        steps: int,
        most: float = np.inf,
    ) -> NDArray[np.int64] | None:
        """Return all nodes at most `steps` away, ascending; None if they are too many.

        Parameters
        ----------
        ways
            Along which of the matrices a step may go.
        index
            Where the steps begin.
        steps
            How many.
        most
            So many nodes may be found before the last step.
        """
        inside = np.zeros(self.n, dtype=bool)
        inside[index] = True
        fresh = np.flatnonzero(inside)
        count = len(fresh)
        for _ in range(steps):
            if count > most:
                return None
            before = inside.copy()
            for way in ways:
                inside[self.matrix(way)[fresh].indices] = True
            fresh = np.flatnonzero(inside ^ before)
            count += len(fresh)
            if not fresh.size:
                break
        return None if count > most else np.flatnonzero(inside)

    def work(self, way: str, hop: int, index: NDArray[np.int64] | None) -> float:
        """Return about what some rows of a ring cost, or all: walks, and the rows."""
        matrix = self.matrix(way)
        degrees = np.diff(matrix.indptr).astype(np.float64)
        if index is None:
            back = self.sizes(BACK[way], 1, np.zeros(0, dtype=np.int64))
            walks = back @ degrees if hop > 1 else degrees.sum()
            return float(walks) + self.n
        walks = (matrix[index] @ degrees if hop > 1 else degrees[index]).sum()
        return float(walks) + len(index)

    def _follow(self, base: Vicinity, touched: NDArray[np.int64]) -> None:
        """Ask that of the graph that this one grew out of, where nothing changed.

        It is kept for all graphs that grow out of the same one, and gone with it.
        """
        self._before, self._touched = ref(base), touched
        if self.directed is None or base.directed is None:
            if self.directed is not base.directed:
                self._before = _nothing
            return
        new = CSR(self.directed[touched])
        rows = touched[np.repeat(np.arange(len(touched)), np.diff(new.indptr))]
        kept = (rows != new.indices) & (new.data != 0)
        ends = rows[kept], new.indices[kept].astype(np.int64)
        for way in base._found.keys() & {"out", "in"}:
            there = ends if way == "out" else ends[::-1]
            self._found[way] = grown_matrix(base._found[way], *there, self.n)

    def _differ(self, way: str, hop: int) -> NDArray[np.bool_]:
        """Return whose ring may be another than before the graph grew, [n].

        A ring changes only where a walk to it takes a new edge: that of a node from
        which an end of one can be reached in fewer steps.
        """
        if (way, hop) not in self._own:
            near = self.ball((BACK[way],), self._touched, hop - 1)
            assert near is not None
            found = np.zeros(self.n, dtype=bool)
            found[near] = True
            self._own[way, hop] = found
        return self._own[way, hop]


def distinct(nodes: NDArray[np.integer], n: int) -> NDArray[np.int64]:
    """Return some nodes, each once and ascending: many are marked, few are sorted.

    Parameters
    ----------
    nodes
        In any order, [m].
    n
        How many nodes there are in all.
    """
    if MARKED * len(nodes) < n:
        ascending = np.sort(nodes).astype(np.int64, copy=False)
        return ascending[np.diff(ascending, prepend=-1) > 0]
    inside = np.zeros(n, dtype=bool)
    inside[nodes] = True
    return np.flatnonzero(inside)


def _nothing() -> None:
    """Return that there is nothing before."""


_REMEMBERED: WeakKeyDictionary[Graph, Vicinity] = WeakKeyDictionary()
"""Of each graph that is still in use."""


class RowOperator:
    """An operator of a graph whose rows are made when they are taken.

    Parameters
    ----------
    near
        Of the graph.
    rule
        How a row is made.
    cap
        At most so many entries in a row of a ring beyond the first, drawn as by
        `capped_ring`: by seed and node alone. None for all.
    seed
        Of the draw.
    """

    device = torch.device("cpu")

    def __init__(
        self, near: Vicinity, rule: RowRule, *, cap: int | None = None, seed: int = 0
    ) -> None:
        self._near, self._rule, self._seed = near, rule, seed
        self._cap = cap if rule.hop > 1 else None
        self.shape = (near.n, near.n)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.rows(np.arange(self._near.n)) @ dense

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return Operator(self.take(index), device=self.device)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        near, rule = self._near, self._rule
        columns, starts = near.pattern(rule.way, rule.hop, index)
        sizes = np.diff(starts)
        weight = np.ones(len(index), dtype=np.float32)
        if self._cap is not None:
            weight = (np.maximum(sizes, self._cap) / self._cap).astype(np.float32)
            columns, starts = drawn_pattern(
                columns, starts, index, self._cap, self._seed
            )
        own, values = self._scaled(index, sizes, weight, columns, np.diff(starts))
        shape = (len(index), near.n)
        matrix = CSR((values, columns, starts), shape=shape)
        if rule.self_loops:
            places = (np.arange(len(index)), index)
            ego = sp.coo_array((rule.sign * own, places), shape=shape)
            matrix = CSR(matrix + CSR(ego))
        return matrix

    def _scaled(
        self,
        index: NDArray[np.int64],
        sizes: NDArray[np.int64],
        weight: NDArray[np.float32],
        columns: NDArray[np.integer],
        lengths: NDArray[np.int64],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the entry of each node for itself, and the values of the rows.

        Parameters
        ----------
        index, sizes, weight
            The nodes, the true sizes of their rings, and what their rows are
            multiplied with, [m] each.
        columns, lengths
            Of the entries, and how many are in each row.
        """
        rule, near = self._rule, self._near
        loops = int(rule.self_loops)
        if rule.scale == "both":
            back = BACK[rule.way]
            near.sizes(back, rule.hop, index)
            known = near.sizes(back, rule.hop, columns) + loops
            row = ring_scale(sizes + loops)
            own = row * ring_scale(known[index])
            many = len(columns) > near.n
            if many:
                of = ring_scale(np.maximum(known, 0))[columns]
            else:
                of = ring_scale(known[columns])
            values = np.repeat(rule.sign * weight * row, lengths) * of
            return own, values.astype(np.float32)
        row = np.ones(len(index), dtype=np.float32)
        if rule.scale == "rows":
            row = (1 / np.maximum(sizes + loops, 1)).astype(np.float32)
        return row, np.repeat(rule.sign * weight * row, lengths).astype(np.float32)
