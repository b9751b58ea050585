"""What a propagation matrix is, row by row; and operators whose rows are not stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.rings.neighbors import OPPOSITE, Index, NeighborIndex
from h2gcn.rings.rings import exact_rings, is_weighted, ring_rows, row_blocks
from h2gcn.sparse import Operator, product

SCALED_ENTRIES = 2**20  # that are scaled at a time, so that factors take no memory
BLOCK_ENTRIES = 2**23  # of computed rows that are multiplied together


@dataclass(frozen=True)
class RowRule:
    """A propagation matrix: how each row is made of a graph, without the other rows.

    The norm is "sym" for D^-1/2 A D^-1/2, with the sizes of both nodes' rings; "row"
    for D^-1 A; or "none" for A.
    """

    direction: str = (
        "ring"  # "out" and "in": distances along the edges and against them
    )
    hop: int = 1  # the distance
    norm: str = "sym"
    self_loops: bool = False  # add I to A first: Kipf's Â, the paper's NS variants
    sign: float = 1.0  # a factor of all entries
    weighted: bool = True  # take edge weights, if any, as the entries of the first ring

    @property
    def symmetric(self) -> bool:
        """Whether the matrix is symmetric on every graph."""
        return self.direction == "ring" and self.norm != "row"

    def rows(
        self,
        index: NeighborIndex,
        nodes: Index | None = None,
        *,
        max_neighbors: int | None = None,
        seed: int = 0,
    ) -> CSR:
        r"""Return rows of the matrix, [m, n], float32 and sorted.

        An entry is :math:`a_{uv} / \sqrt{d_u d_v}` ("sym") or :math:`a_{uv} / d_u`
        ("row"). The sums d are those of whole rings, even if a row is a sample. Empty
        rows stay zero.

        Parameters
        ----------
        nodes
            [m], in any order, also repeatedly; default all.
        max_neighbors, seed
            How to sample rings beyond the first, see `ring_rows`; default not.
        """
        first = self.hop == 1
        weights = index.weights(self.direction) if first and self.weighted else None
        if weights is not None:
            rows, _ = ring_rows(weights, 1, nodes, self_loops=self.self_loops)
            sums = rows.sum(axis=1, dtype=np.float64)
        else:
            rows, sizes = index.rows(
                self.direction,
                self.hop,
                nodes,
                max_neighbors=None if first else max_neighbors,
                seed=seed,
                self_loops=self.self_loops,
            )
            sums = sizes + self.self_loops
        if self.norm == "sym":
            columns = self._column_factors(index, weights, rows)
            _scale(rows, self.sign * np.sqrt(_inverse(sums)), columns)
        else:
            factors = _inverse(sums) if self.norm == "row" else np.ones(len(sums))
            _scale(rows, self.sign * factors)
        return rows

    def _column_factors(
        self, index: NeighborIndex, weights: CSR | None, rows: CSR
    ) -> NDArray[np.float32]:
        """Return 1/√d of each node, [n]; of few rows, only of the nodes in them."""
        if weights is None:
            sums = index.sizes(OPPOSITE[self.direction], self.hop, rows.indices)
        else:
            sums = weights.sum(axis=0, dtype=np.float64)
        members = rows.indices if rows.nnz < index.n else np.arange(index.n)
        factors = np.zeros(index.n, np.float32)
        factors[members] = np.sqrt(_inverse(sums[members] + self.self_loops))
        return factors


def build_matrices(rules: Sequence[RowRule], adj: CSR) -> tuple[CSR, ...]:
    """Return all rows of some matrices of a graph, [n, n] each.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n]: ones, or edge weights. For rings it is symmetric; for
        directions, row i has the nodes that i points to. Self-loops do not count.
    """
    if not rules:
        return ()
    (first,) = exact_rings(adj, hops=1)
    weights = CSR(adj.multiply(first)) if is_weighted(adj) else None
    index = NeighborIndex(first, first, weights=weights, directed_weights=weights)
    return tuple(rule.rows(index) for rule in rules)


@dataclass(frozen=True, eq=False)
class ComputedOperator:
    """An operator whose rows are computed each time, by `RowRule.rows`."""

    index: NeighborIndex
    rule: RowRule
    max_neighbors: int | None = None
    seed: int = 0
    nodes: Index | None = None  # the graph's rows that it has, [m]; None for all

    device: ClassVar[torch.device] = torch.device("cpu")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n = self.index.n
        return n if self.nodes is None else len(self.nodes), n

    @property
    def T(self) -> _Transposed:
        """The transpose, for the gradient."""
        return _Transposed(self)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(self, dense)

    def take(self, index: Index) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        nodes, k = self.rows(index).nodes, self.max_neighbors
        return self.rule.rows(self.index, nodes, max_neighbors=k, seed=self.seed)

    def rows(self, index: Index) -> ComputedOperator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return replace(self, nodes=index if self.nodes is None else self.nodes[index])

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product without its gradient."""
        products = [Operator(rows).multiply(dense) for _, rows in self.blocks()]
        return torch.cat([dense.new_zeros(0, dense.shape[1]), *products])

    def blocks(self) -> Iterator[tuple[slice, CSR]]:
        """Yield the rows in blocks of about `BLOCK_ENTRIES`."""
        nodes = np.arange(self.index.n) if self.nodes is None else self.nodes
        sizes = self.index.sizes(self.rule.direction, self.rule.hop, nodes)[nodes]
        for first, last in row_blocks(sizes + 1, BLOCK_ENTRIES):
            yield slice(first, last), self.take(np.arange(first, last))


@dataclass(frozen=True)
class _Transposed:
    T: ComputedOperator

    def multiply(self, dense: Tensor) -> Tensor:
        result = dense.new_zeros(self.T.shape[1], dense.shape[1])
        for part, rows in self.T.blocks():
            result += torch.from_numpy(rows.T @ dense[part].numpy())
        return result


def _inverse(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return 1/d of each number d, 0 if d is not positive."""
    inverse = np.zeros(len(sums))
    np.divide(1.0, sums, out=inverse, where=sums > 0)
    return inverse


def _scale(
    matrix: CSR,
    row_factors: NDArray[np.float64],
    column_factors: NDArray[np.float32] | None = None,
) -> None:
    """Multiply each entry, in place, by factors of its row [m] and its column [n]."""
    row_factors = row_factors.astype(np.float32)
    lengths = np.diff(matrix.indptr)
    for first, last in row_blocks(lengths, SCALED_ENTRIES):
        entries = slice(matrix.indptr[first], matrix.indptr[last])
        factors = np.repeat(row_factors[first:last], lengths[first:last])
        if column_factors is not None:
            factors *= column_factors[matrix.indices[entries]]
        matrix.data[entries] *= factors
