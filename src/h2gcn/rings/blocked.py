"""Normalised rings that are never whole in memory: in a file, or computed when needed.

D^-1/2 S D^-1/2 with binary S needs no values: the dense side is scaled before and the
result after the product, so an entry is no more than its column.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.rings.exact import ring_pattern, ring_scale, ring_sizes
from h2gcn.rings.kernels import row_blocks
from h2gcn.sparse import csr_tensor, product

__all__ = ["BlockedRing", "ComputedRing", "RingSource"]

BLOCK = 2**23
"""Entries that are multiplied at once, about."""


class RingSource(Protocol):
    """Gives the rows of a symmetric, binary ring."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        ...

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        ...


class ComputedRing:
    """A ring whose rows are computed each time they are asked for.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 2.
    """

    def __init__(self, adj: CSR, *, hop: int = 2) -> None:
        self._adj, self._hop = adj, hop

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        return ring_sizes(self._adj, self._hop)

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        return ring_pattern(self._adj, self._hop, index, self.sizes[index])


class BlockedRing:
    """The normalised ring of a graph, or some rows of it, multiplied block by block.

    Parameters
    ----------
    source
        Where its rows come from.
    self_loops
        Whether each node is in its own ring too.
    index
        Which rows; None for all.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        source: RingSource,
        *,
        self_loops: bool = False,
        index: NDArray[np.int64] | None = None,
    ) -> None:
        self._source, self._self_loops = source, self_loops
        self._scale = ring_scale(source.sizes + self_loops)
        n = len(self._scale)
        self._nodes = np.arange(n) if index is None else index
        self._whole = index is None
        self.shape = (len(self._nodes), n)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(_Forward(self), lambda: _Transposed(self), dense)

    def rows(self, index: NDArray[np.int64]) -> BlockedRing:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        nodes = self._nodes[index]
        return BlockedRing(self._source, self_loops=self._self_loops, index=nodes)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        nodes, shape = self._nodes[index], (len(index), self.shape[1])
        columns, starts = self._source.pattern(nodes)
        values = np.repeat(self._scale[nodes], np.diff(starts)) * self._scale[columns]
        matrix = CSR((values, columns, starts), shape=shape)
        if self._self_loops:
            places = (np.arange(len(nodes)), nodes)
            ego = sp.coo_array((self._scale[nodes] ** 2, places), shape=shape)
            matrix = CSR(matrix + CSR(ego))
        return matrix

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the rows' product with a dense matrix [n, c], [m, c]."""
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale * dense
        result = dense.new_empty(self.shape[0], dense.shape[1])
        for places, columns, starts in self._blocks():
            block = csr_tensor(
                torch.from_numpy(starts.astype(np.int32)),
                torch.from_numpy(columns),
                dense.new_ones(len(columns)),
                (len(places), self.shape[1]),
            )
            result[places] = block @ scaled
        nodes = torch.from_numpy(self._nodes)
        if self._self_loops:
            result += scaled[nodes]
        return result.mul_(scale[nodes])

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Return the product of the rows' transpose with a dense matrix [m, c], [n, c].

        The whole ring is symmetric, and multiplies faster than rows are scattered:
        where these are many, it multiplies zeros in the other rows' places.
        """
        if self._whole:
            return self.multiply(dense)
        sizes, nodes = self._source.sizes, torch.from_numpy(self._nodes)
        if 2 * sizes[self._nodes].sum() > sizes.sum():
            padded = dense.new_zeros(self.shape[1], dense.shape[1])
            padded.index_add_(0, nodes, dense)
            whole = BlockedRing(self._source, self_loops=self._self_loops)
            return whole.multiply(padded)
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale[nodes] * dense
        result = dense.new_zeros(self.shape[1], dense.shape[1])
        for places, columns, starts in self._blocks():
            ones = np.ones(len(columns), dtype=self._scale.dtype)
            shape = (self.shape[1], len(places))
            block = sp.csc_array((ones, columns, starts), shape=shape)
            result += torch.from_numpy(block @ scaled[places].numpy())
        if self._self_loops:
            result.index_add_(0, nodes, scaled)
        return result.mul_(scale)

    def _blocks(
        self,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
        """Return the rows, some at a time, in the order in which the source has them.

        Of each block, the places of its rows among all, their columns, and where each
        row begins.
        """
        order = np.argsort(self._nodes, kind="stable")
        nodes = self._nodes[order]
        for first, last in row_blocks(self._source.sizes[nodes], BLOCK):
            yield order[first:last], *self._source.pattern(nodes[first:last])


class _Forward:
    """A blocked ring's product, for autograd."""

    def __init__(self, ring: BlockedRing) -> None:
        self._ring = ring

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply(dense)


class _Transposed(_Forward):
    """The product of its transpose, for gradients."""

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply_transposed(dense)
