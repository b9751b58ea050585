"""The neighborhoods of some nodes of a graph, and the sizes of its rings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import CSR, Graph, grown_from
from h2gcn.rings.rings import exact_rings, ring_rows, ring_sizes

OPPOSITE = {"ring": "ring", "out": "in", "in": "out"}

Index = NDArray[np.int64]


class NeighborIndex:
    """The neighborhoods of one graph; the sizes of rings are computed once per node.

    An extended graph takes them from its base, except near a new node, where rings may
    have changed.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    weights, directed_weights
        Edge weights in the pattern of `adj` and `directed`; None if all are one.
    """

    def __init__(
        self,
        adj: CSR,
        directed: CSR | None = None,
        *,
        weights: CSR | None = None,
        directed_weights: CSR | None = None,
    ) -> None:
        self.adj, self.directed = adj, directed
        self._weights, self._directed_weights = weights, directed_weights
        self._matrices: dict[str, CSR] = {"ring": adj}
        self._sizes: dict[tuple[str, int], NDArray[np.int32]] = {}
        self._base: Callable[[], NeighborIndex | None] = lambda: None
        self._touched = np.zeros(0, dtype=np.int64)
        self._changed: dict[tuple[str, int], NDArray[np.bool_]] = {}

    @classmethod
    def from_graph(cls, graph: Graph) -> NeighborIndex:
        """Return the index of a graph, the same one as long as the graph is in use."""
        if graph not in _INDEXES:
            index = cls(
                graph.adj,
                graph.directed,
                weights=graph.weights,
                directed_weights=graph.directed_weights,
            )
            growth = grown_from(graph)
            if growth and (graph.directed is None) == (growth.base.directed is None):
                # Weak: an extended graph does not keep its base alive.
                index._base = ref(cls.from_graph(growth.base))
                index._touched = growth.touched
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

    def weights(self, direction: str) -> CSR | None:
        """Return the weights of the edges of `matrix`, None if all are one."""
        if direction == "ring":
            return self._weights
        weights = self._directed_weights
        return weights if weights is None or direction == "out" else CSR(weights.T)

    def rows(
        self, direction: str, hop: int, nodes: Index | None = None, **options: Any
    ) -> tuple[CSR, NDArray[np.int64]]:
        """Return what `ring_rows` returns of some nodes, or all, with its options."""
        rows, sizes = ring_rows(self.matrix(direction), hop, nodes, **options)
        chosen = slice(None) if nodes is None else nodes
        self._known_sizes(direction, hop)[chosen] = sizes
        return rows, sizes

    def sizes(
        self, direction: str, hop: int, nodes: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Return ring sizes, [n]: of `nodes`; of others -1 unless known."""
        sizes = self._known_sizes(direction, hop)
        if len(nodes) > self.n and (sizes >= 0).all():
            return sizes
        unknown = np.unique(nodes[sizes[nodes] < 0]).astype(np.int64, copy=False)
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

        None if there are more than `max_nodes`.
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
        """Return about what rows of a ring (default all) cost: walks and rows."""
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

    def _find_changed(self, direction: str, hop: int) -> NDArray[np.bool_]:
        """Return whose ring may differ from the one in the base, [n].

        A ring changes only if a walk to it takes a new edge: its node reaches an end of
        a new edge in fewer steps.
        """
        key = direction, hop
        if key not in self._changed:
            near = self.within((OPPOSITE[direction],), self._touched, hop - 1)
            self._changed[key] = np.zeros(self.n, dtype=bool)
            self._changed[key][near] = True
        return self._changed[key]


_INDEXES: WeakKeyDictionary[Graph, NeighborIndex] = WeakKeyDictionary()
