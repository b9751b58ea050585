"""The neighborhoods of some nodes of a graph, and operators made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR, Graph, grown_from, grown_matrix
from h2gcn.rings.rings import (
    exact_rings,
    inverse_sqrt,
    ring_rows,
    ring_sizes,
    row_blocks,
    scale_entries,
)
from h2gcn.rings.rules import RowRule
from h2gcn.sparse import Operator

__all__ = ["ComputedOperator", "NeighborIndex", "distinct"]

OPPOSITE = {"ring": "ring", "out": "in", "in": "out"}
SORTED_FRACTION = 1 / 32  # of all nodes: up to here, sorting finds the distinct ones
BLOCK_ENTRIES = 2**23  # of an operator whose rows are multiplied together

Index = NDArray[np.int64]


class NeighborIndex:
    """The neighborhoods of one graph; the sizes of rings are computed once per node.

    An extended graph takes them from its base, except for nodes so near to a new one
    that their ring may have changed.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    directed
        The directions of the edges, [n, n]; None if there are none.
    """

    def __init__(self, adj: CSR, directed: CSR | None = None) -> None:
        self.adj, self.directed = adj, directed
        self._matrices: dict[str, CSR] = {"ring": adj}
        self._sizes: dict[tuple[str, int], NDArray[np.int32]] = {}
        self._base: Callable[[], NeighborIndex | None] = lambda: None
        self._touched = np.zeros(0, dtype=np.int64)
        self._changed: dict[tuple[str, int], NDArray[np.bool_]] = {}

    @classmethod
    def from_graph(cls, graph: Graph) -> NeighborIndex:
        """Return the index of a graph, the same one as long as the graph is in use."""
        if graph not in _INDEXES:
            index = cls(graph.adj, graph.directed)
            growth = grown_from(graph)
            if growth is not None:
                index._extend(cls.from_graph(growth.base), growth.touched)
            _INDEXES[graph] = index
        return _INDEXES[graph]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.adj.shape[0])

    def matrix(self, direction: str) -> CSR:
        """Return who is one step away, binary and without loops, [n, n]."""
        if direction not in self._matrices:
            if self.directed is None:
                matrix = self.adj
            elif direction == "out":
                (matrix,) = exact_rings(self.directed, hops=1)
            else:
                matrix = CSR(self.matrix("out").T)
                matrix.sort_indices()
            self._matrices[direction] = matrix
        return self._matrices[direction]

    def rows(
        self, direction: str, hop: int, nodes: Index, **options: Any
    ) -> tuple[CSR, NDArray[np.int64]]:
        """Return what `ring_rows` returns of some nodes, with its options."""
        rows, sizes = ring_rows(self.matrix(direction), hop, nodes, **options)
        self._known_sizes(direction, hop)[nodes] = sizes
        return rows, sizes

    def sizes(
        self, direction: str, hop: int, nodes: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Return the size of each node's ring, [n]: of `nodes`, and of others -1.

        Sizes of others that are known already are not -1.
        """
        sizes = self._known_sizes(direction, hop)
        if len(nodes) > self.n and (sizes >= 0).all():
            return sizes
        unknown = distinct(nodes[sizes[nodes] < 0], self.n)
        base = self._base()
        if base is not None and unknown.size:
            changed = self._find_changed(direction, hop)[unknown]
            same, unknown = unknown[~changed], unknown[changed]
            sizes[same] = base.sizes(direction, hop, same)[same]
        if unknown.size:
            sizes[unknown] = ring_sizes(self.matrix(direction), hop, unknown)
        return sizes

    def set_sizes(self, direction: str, hop: int, sizes: NDArray[np.integer]) -> None:
        """Store the size of each node's ring, [n], as others have counted them."""
        self._sizes[direction, hop] = sizes.astype(np.int32)

    def within(
        self,
        directions: tuple[str, ...],
        nodes: Index,
        steps: int,
        max_nodes: float = np.inf,
    ) -> Index | None:
        """Return the nodes at most `steps` away along any direction, ascending.

        It is None if there are more than `max_nodes` before the last step.
        """
        inside = np.zeros(self.n, dtype=bool)
        inside[nodes] = True
        fresh = np.flatnonzero(inside)
        count = len(fresh)
        for _ in range(steps):
            if count > max_nodes:
                return None
            before = inside.copy()
            for direction in directions:
                inside[self.matrix(direction)[fresh].indices] = True
            fresh = np.flatnonzero(inside ^ before)
            count += len(fresh)
            if not fresh.size:
                break
        return None if count > max_nodes else np.flatnonzero(inside)

    def cost(self, direction: str, hop: int, nodes: Index | None) -> float:
        """Return about what rows of a ring (default all) cost: their walks, and one."""
        matrix = self.matrix(direction)
        degrees = np.diff(matrix.indptr).astype(np.float64)
        if nodes is not None:
            walks = matrix[nodes] @ degrees if hop > 1 else degrees[nodes]
            return float(walks.sum()) + len(nodes)
        arriving = self._known_sizes(OPPOSITE[direction], 1)
        return float(arriving @ degrees if hop > 1 else degrees.sum()) + self.n

    def _known_sizes(self, direction: str, hop: int) -> NDArray[np.int32]:
        key = direction, hop
        if key not in self._sizes:
            self._sizes[key] = np.full(self.n, -1, dtype=np.int32)
            if hop == 1:
                self._sizes[key][:] = np.diff(self.matrix(direction).indptr)
        return self._sizes[key]

    def _extend(self, base: NeighborIndex, touched: Index) -> None:
        """Look up in the index of the base what did not change since.

        The base is kept by whoever holds its graph.
        """
        self._touched = touched
        if self.directed is None or base.directed is None:
            if self.directed is base.directed:
                self._base = ref(base)
            return
        self._base = ref(base)
        new = CSR(self.directed[touched])
        rows = touched[np.repeat(np.arange(len(touched)), np.diff(new.indptr))]
        kept = (rows != new.indices) & (new.data != 0)
        ends = rows[kept], new.indices[kept].astype(np.int64)
        for direction in base._matrices.keys() & {"out", "in"}:
            there = ends if direction == "out" else ends[::-1]
            matrix = grown_matrix(base._matrices[direction], *there, self.n)
            self._matrices[direction] = matrix

    def _find_changed(self, direction: str, hop: int) -> NDArray[np.bool_]:
        """Return whose ring may differ from the one in the base, [n].

        A ring changes only if a walk to it takes a new edge: it belongs to a node from
        which an end of one can be reached in fewer steps.
        """
        key = direction, hop
        if key not in self._changed:
            near = self.within((OPPOSITE[direction],), self._touched, hop - 1)
            self._changed[key] = np.zeros(self.n, dtype=bool)
            self._changed[key][near] = True
        return self._changed[key]


_INDEXES: WeakKeyDictionary[Graph, NeighborIndex] = WeakKeyDictionary()


def distinct(nodes: NDArray[np.integer], n: int) -> Index:
    """Return some of n nodes, each once and ascending."""
    if len(nodes) < SORTED_FRACTION * n:
        return np.unique(nodes).astype(np.int64, copy=False)
    inside = np.zeros(n, dtype=bool)
    inside[nodes] = True
    return np.flatnonzero(inside)


class ComputedOperator:
    """An operator of a graph whose rows are computed each time they are needed.

    Parameters
    ----------
    index
        Of the graph.
    rule
        What a row is.
    max_neighbors, seed
        How rings beyond the first are sampled, see `ring_rows`; default not.
    nodes
        Which of the graph's rows it has, [m]; default all.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        index: NeighborIndex,
        rule: RowRule,
        *,
        max_neighbors: int | None = None,
        seed: int = 0,
        nodes: Index | None = None,
    ) -> None:
        self._index, self._rule, self._seed = index, rule, seed
        self._max_neighbors = max_neighbors if rule.hop > 1 else None
        self._nodes = np.arange(index.n) if nodes is None else nodes
        self.shape = (len(self._nodes), index.n)

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _ComputedProduct.apply(self, dense)  # type: ignore[no-untyped-call]
        return product

    def rows(self, index: Index) -> ComputedOperator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return ComputedOperator(
            self._index,
            self._rule,
            max_neighbors=self._max_neighbors,
            seed=self._seed,
            nodes=self._nodes[index],
        )

    def take(self, index: Index) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        rule, n, loops = self._rule, self._index.n, int(self._rule.self_loops)
        rows, sizes = self._index.rows(
            rule.direction,
            rule.hop,
            self._nodes[index],
            max_neighbors=self._max_neighbors,
            seed=self._seed,
            self_loops=rule.self_loops,
        )
        if rule.scale == "both":
            factors, columns = inverse_sqrt(sizes + loops), np.zeros(n, np.float32)
            members = rows.indices if rows.nnz < n else np.arange(n)
            known = self._index.sizes(OPPOSITE[rule.direction], rule.hop, rows.indices)
            columns[members] = inverse_sqrt(known[members] + loops)
        else:
            factors, columns = np.ones(len(index), np.float32), np.ones(n, np.float32)
        if rule.scale == "rows":
            factors = (1 / np.maximum(sizes + loops, 1)).astype(np.float32)
        scale_entries(rows, np.float32(rule.sign) * factors, columns)
        return rows

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix, [m, c], in blocks of rows."""
        product = dense.new_empty(self.shape[0], dense.shape[1])
        for part in self._blocks():
            rows = self.take(np.arange(part.start, part.stop))
            product[part] = Operator(rows) @ dense
        return product

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Return the product of the transpose with a dense matrix [m, c], [n, c]."""
        product = dense.new_zeros(self.shape[1], dense.shape[1])
        for part in self._blocks():
            rows = self.take(np.arange(part.start, part.stop))
            product += torch.from_numpy(rows.T @ dense[part].numpy())
        return product

    def _blocks(self) -> Iterator[slice]:
        rule = self._rule
        sizes = self._index.sizes(rule.direction, rule.hop, self._nodes)[self._nodes]
        if self._max_neighbors is not None:
            sizes = np.minimum(sizes, self._max_neighbors)
        for first, last in row_blocks(sizes + 1, BLOCK_ENTRIES):
            yield slice(first, last)


class _ComputedProduct(torch.autograd.Function):
    """A product whose rows are computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, operator: ComputedOperator, dense: Tensor) -> Tensor:
        ctx.operator = operator
        return operator.multiply(dense.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.operator.multiply_transposed(grads[0])
