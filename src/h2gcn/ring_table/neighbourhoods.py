"""Who is near a node: rings by distance, neighbours by direction, walks of two."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from h2gcn.graph import CSR, Features, Graph, slices
from h2gcn.rings import is_weighted, ring_rows, ring_sizes
from h2gcn.sparse import Operator, spmm

__all__ = [
    "DIRECTIONS",
    "RINGS",
    "Neighbourhoods",
    "RingRows",
    "column_slices",
    "extremes",
    "multiply",
    "shares",
]

RINGS = ("ring1", "ring2", "ring3")
DIRECTIONS = ("out", "in", "out-out", "out-in", "in-out", "in-in")
"""Where edges lead to and come from, in one step or in two."""

COLUMNS = 128
"""How many columns are aggregated together."""
SPARSE_COST = 16
"""How much dearer an entry is in a product of two sparse matrices."""
FULL = 0.1
"""The share of entries from which on a matrix is better dense."""


@dataclass(frozen=True, eq=False)
class RingRows:
    """Rows of a ring beyond the first, found or drawn.

    Parameters
    ----------
    sizes
        How many are in the ring of each of some nodes, [m].
    rows
        Who is, [m, n]: ones, and where they are drawn, for how many each stands. None
        where they were only counted.
    """

    sizes: NDArray[np.int64]
    rows: CSR | None = None

    def __reduce__(self) -> tuple[Callable[..., RingRows], tuple[Any, ...]]:
        """Travel with one value for each row: all of its entries are alike."""
        rows = self.rows
        if rows is None:
            return RingRows, (self.sizes,)
        filled = np.diff(rows.indptr) > 0
        alike = np.ones(len(filled), dtype=rows.dtype)
        alike[filled] = rows.data[rows.indptr[:-1][filled]]
        return _unpacked, (self.sizes, alike, rows.indices, rows.indptr, rows.shape)

    @classmethod
    def joined(cls, parts: Sequence[RingRows]) -> RingRows:
        """Return the rows of several lots of nodes below each other."""
        sizes = np.concatenate([part.sizes for part in parts])
        rows = [part.rows for part in parts if part.rows is not None]
        whole = CSR(sp.vstack(rows, format="csr")) if rows else None
        return cls(sizes, whole)


def _unpacked(
    sizes: NDArray[np.int64],
    alike: NDArray[np.float32],
    columns: NDArray[np.int32],
    starts: NDArray[np.integer],
    shape: tuple[int, int],
) -> RingRows:
    values = np.repeat(alike, np.diff(starts))
    return RingRows(sizes, CSR((values, columns, starts), shape=shape))


class Neighbourhoods:
    """The neighbourhoods of one graph by name, each found once.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    directed
        The directions of the edges, [n, n]; None where there are none.
    weights, directed_weights
        The two with what pairs weigh, which counts in means, sums and powers; None
        where all count alike. Who is near, and how many they are, does not change.
    cap
        At most so many members of a ring beyond the first, drawn, of which each
        stands for as many as there are in truth; None is all.
    seed
        Of the draw.
    """

    def __init__(
        self,
        adj: CSR,
        directed: CSR | None = None,
        weights: CSR | None = None,
        directed_weights: CSR | None = None,
        *,
        cap: int | None = None,
        seed: int = 0,
    ) -> None:
        self.adj = adj
        self._weights = weights
        self._directed_weights = directed_weights
        self._cap, self._seed = cap, seed
        self.has_directions = directed is not None
        self._directed = directed
        self._found: dict[str, CSR] = {}
        self._some: tuple[str, dict[str, RingRows]] = "", {}

    @classmethod
    def of(
        cls, graph: Graph, *, cap: int | None = None, seed: int = 0
    ) -> Neighbourhoods:
        """Return those of a graph."""
        return cls(
            graph.adj,
            graph.directed,
            graph.weights,
            graph.directed_weights,
            cap=cap,
            seed=seed,
        )

    def steps(self, name: str) -> tuple[CSR, ...]:
        """Return the binary matrices whose product counts the walks to its members.

        One for a ring or a direction, two for a walk of two steps. Of a ring that is
        drawn, an entry counts for more than one.
        """
        return tuple(self._matrix(step) for step in name.split("-"))

    def _matrix(self, name: str) -> CSR:
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> CSR:
        if name == "ring1":
            return self.adj
        if name in RINGS:
            k, seed = self._cap, self._seed
            return ring_rows(self.adj, int(name[-1]), max_neighbors=k, seed=seed)[0]
        out = _binary(self.adj if self._directed is None else self._directed)
        if name == "out":
            return out
        back = CSR(out.T)
        back.sort_indices()
        return back

    def rows(self, name: str, nodes: NDArray[np.int64]) -> CSR:
        """Return the rows of some nodes of a ring or direction, [m, n].

        Those asked for last are kept, and no others are made.
        """
        if name not in RINGS[1:] or name in self._found:
            return CSR(self._matrix(name)[nodes])
        kept = self._kept(nodes).get(name)
        if kept is None or kept.rows is None:
            kept = self.find_rows(name, nodes)
            self.learn(name, nodes, kept)
        assert kept.rows is not None
        return kept.rows

    def find_rows(
        self, name: str, nodes: NDArray[np.int64], *, counted: bool = False
    ) -> RingRows:
        """Return the rows of some nodes of a ring beyond the first; none are kept.

        Parameters
        ----------
        name
            Of the ring.
        nodes
            Whose rows.
        counted
            Whether their sizes are all that is wanted.
        """
        hop = int(name[-1])
        if counted:
            return RingRows(ring_sizes(self.adj, hop, nodes))
        k, seed = self._cap, self._seed
        rows, sizes = ring_rows(self.adj, hop, nodes, max_neighbors=k, seed=seed)
        return RingRows(sizes, rows)

    def learn(self, name: str, nodes: NDArray[np.int64], found: RingRows) -> None:
        """Take rows of a ring that were found elsewhere; those of others are let go.

        Parameters
        ----------
        name
            Of the ring.
        nodes
            Whose rows they are.
        found
            The rows.
        """
        self._kept(nodes)[name] = found

    def knows(self, name: str, nodes: NDArray[np.int64], *, counted: bool) -> bool:
        """Return whether rows of a ring, or their sizes alone, need not be found."""
        kept = self._kept(nodes).get(name)
        return kept is not None and (counted or kept.rows is not None)

    def _kept(self, nodes: NDArray[np.int64]) -> dict[str, RingRows]:
        """Return what is kept of some nodes' rings; of others it is let go."""
        digest = hashlib.blake2b(nodes.tobytes()).hexdigest()
        if self._some[0] != digest:
            self._some = digest, {}
        return self._some[1]

    def _weighted_steps(
        self, name: str, nodes: NDArray[np.int64] | None = None
    ) -> tuple[CSR, ...]:
        """Return the matrices of `steps` with what pairs weigh, if they weigh.

        Of the first, the one that is multiplied last, only the rows of `nodes`.
        """
        if nodes is not None:
            first, *others = name.split("-")
            if first in RINGS[1:]:  # steps that have no weights, and are not two
                return (self.rows(first, nodes),)
            last = CSR(self._weighted_steps(first)[0][nodes])
            return last, *(self._weighted_steps(step)[0] for step in others)
        found = {"ring1": self._weights, "out": self._directed_weights}
        if self._directed_weights is not None and "in" in name.split("-"):
            back = CSR(self._directed_weights.T)
            back.sort_indices()
            found["in"] = back
        steps = zip(name.split("-"), self.steps(name), strict=True)
        pairs = [(found.get(step), plain) for step, plain in steps]
        return tuple(plain if own is None else own for own, plain in pairs)

    def sizes(
        self, name: str, nodes: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return how many members the ring or direction of all nodes has, or of some.

        Parameters
        ----------
        name
            Of the ring or direction.
        nodes
            Whose; None is all, [n].
        """
        if name not in RINGS[1:]:
            starts = self.steps(name)[0].indptr
            first, last = starts[:-1], starts[1:]
            if nodes is not None:
                first, last = first[nodes], last[nodes]
            return (last - first).astype(np.int64)
        if nodes is None:  # counted, not built
            return ring_sizes(self.adj, int(name[-1]))
        kept = self._kept(nodes).get(name)
        found = self.find_rows(name, nodes, counted=True) if kept is None else kept
        return found.sizes

    def mean(
        self, name: str, x: Features, nodes: NDArray[np.int64] | None = None
    ) -> Features:
        """Return the mean of features over a neighbourhood, zero where it is empty.

        Over a walk of two steps it is the mean of means.

        Parameters
        ----------
        name
            Of the neighbourhood.
        x
            Of all nodes, [n, F].
        nodes
            Whose neighbourhoods; None is all.
        """
        last, *before = self._weighted_steps(name, nodes)
        for step in reversed(before):
            x = multiply(shares(step), x)
        return multiply(shares(last), x)

    def sum(
        self, name: str, x: Features, nodes: NDArray[np.int64] | None = None
    ) -> Features:
        """Return the sum of features over a neighbourhood; parameters as of `mean`."""
        last, *before = self._weighted_steps(name, nodes)
        for step in reversed(before):
            x = multiply(step, x)
        return multiply(last, x)

    def members(
        self, name: str, node: int, *, mean: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return of whom a node's mean (or sum) is made, and how much of each, [m]."""
        nodes, weights = np.array([node]), np.ones(1)
        for step in self._weighted_steps(name):
            rows = CSR(step[nodes]).astype(np.float64)
            sums = rows.sum(axis=1)
            spread = weights / np.where(sums > 0, sums, 1) if mean else weights
            found = CSR(sp.csr_array(spread[None, :]) @ rows)
            found.sort_indices()
            nodes, weights = found.indices.astype(np.int64), found.data
        return nodes, weights

    def power_members(
        self, k: int, node: int, *, self_loops: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the entries of a node's row of Âᵏ: nodes and weights, [m] each."""
        adj = self.adj if self._weights is None else self._weights
        scale = _power_scale(adj, extra=1 if self_loops else 0)
        nodes, weights = np.array([node]), np.ones(1)
        for _ in range(k):
            rows = CSR(adj[nodes]).astype(np.float64)
            heard = weights * scale[nodes]
            found = CSR(sp.csr_array(heard[None, :]) @ rows).toarray()[0]
            if self_loops:
                found[nodes] += heard
            found *= scale
            nodes = np.flatnonzero(found)
            weights = found[nodes]
        return nodes, weights

    def power(
        self,
        k: int,
        x: Features,
        *,
        self_loops: bool,
        nodes: NDArray[np.int64] | None = None,
    ) -> Features:
        """Return Âᵏx, Â = D⁻¹ᐟ²AD⁻¹ᐟ² (of A + I with self-loops), along edges' ends.

        Of all nodes, or of some of them.
        """
        adj = self.adj if self._weights is None else self._weights
        if self_loops:
            adj = CSR(adj + sp.eye_array(adj.shape[0], dtype=np.float32, format="csr"))
        scale = _power_scale(adj)
        rows = np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr))
        values = (scale[rows] * scale[adj.indices] * adj.data).astype(np.float32)
        operator = CSR((values, adj.indices, adj.indptr), shape=adj.shape)
        for _ in range(k - 1):
            x = multiply(operator, x)
        return multiply(operator if nodes is None else CSR(operator[nodes]), x)


def _power_scale(adj: CSR, extra: int = 0) -> NDArray[np.float64]:
    """Return 1/√d of each node, d what its pairs weigh and `extra`; 0 for none, [n]."""
    degrees = np.asarray(adj.sum(axis=1, dtype=np.float64)) + extra
    scale = np.zeros(len(degrees))
    np.power(degrees, -0.5, out=scale, where=degrees > 0)
    return scale


def _binary(matrix: CSR) -> CSR:
    """Return ones where a matrix has entries, none on the diagonal."""
    ones = matrix.has_canonical_format and bool((matrix.data == 1).all())
    if ones and not matrix.diagonal().any():
        return matrix
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = (rows != matrix.indices) & (matrix.data != 0)
    found = CSR(
        (np.ones(int(kept.sum()), np.float32), (rows[kept], matrix.indices[kept])),
        shape=matrix.shape,
    )
    found.sort_indices()
    return found


def shares(matrix: CSR) -> CSR:
    """Return a matrix with rows that sum to one."""
    sizes = np.diff(matrix.indptr)
    if is_weighted(matrix):
        sums = np.repeat(matrix.sum(axis=1), sizes)
        values = (matrix.data / sums).astype(np.float32)
        return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    values = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def multiply(matrix: CSR, x: Features) -> Features:
    """Return a sparse matrix times features, in blocks of columns.

    Sparse features stay sparse while that is the cheaper way. The product of a row with
    dense ones depends on no other row or column, to the bit.
    """
    if not isinstance(x, np.ndarray):
        if x.nnz * SPARSE_COST < x.shape[0] * x.shape[1]:
            found = CSR(matrix @ x)
            found.sort_indices()
            full = found.nnz > FULL * found.shape[0] * max(found.shape[1], 1)
            return found.toarray() if full else found
        x = x.toarray()
    result = np.empty((matrix.shape[0], x.shape[1]), dtype=np.float32)
    operator = Operator(matrix)
    for first in range(0, x.shape[1], COLUMNS):
        part = np.array(x[:, first : first + COLUMNS], dtype=np.float32, order="C")
        product = spmm(*operator.parts, torch.from_numpy(part))
        result[:, first : first + COLUMNS] = product.numpy()
    return result


def column_slices(width: int) -> Iterator[slice]:
    """Return columns of dense features that are multiplied together."""
    yield from slices(width, COLUMNS)


def extremes(matrix: CSR, x: Features, largest: bool) -> NDArray[np.float32]:
    """Return the largest (or smallest) of each column over the entries of each row.

    Zero where a row is empty.
    """
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    dense = np.ascontiguousarray(dense, dtype=np.float32)
    result = np.zeros((matrix.shape[0], dense.shape[1]), dtype=np.float32)
    sign = np.float32(1 if largest else -1)
    from h2gcn.ring_table.kernels import write_extremes

    write_extremes(matrix.indptr, matrix.indices, dense, sign, result)
    return result
