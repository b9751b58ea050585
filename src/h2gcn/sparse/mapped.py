"""Features that stay in their file, and are read a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import Features, row_slices
from h2gcn.sparse.masks import Mask, sample_mask
from h2gcn.sparse.operator import Operator

__all__ = ["Input", "MappedFeatures"]


class MappedFeatures:
    """Features in a memory-mapped file, or many rows, scaled as they are read.

    A module takes them for `x` as it takes an `Operator`. Each product and its gradient
    read all blocks of rows; at most one block is in memory.

    Parameters
    ----------
    values
        The mapped file, [n, F].
    scaler
        Fitted on the training nodes.
    device
        Where products are made.
    index
        The rows of the file to use, in this order; None is all.
    """

    def __init__(
        self,
        values: NDArray[np.float32],
        scaler: Callable[[Features], Features],
        device: torch.device | str = "cpu",
        index: NDArray[np.int64] | None = None,
    ) -> None:
        count = len(values) if index is None else len(index)
        self.shape, self.device = (count, values.shape[1]), torch.device(device)
        self._values, self._scaler, self._index = values, scaler, index
        self._mask: Mask | None = None

    def read(self, rows: slice) -> Tensor:
        """Return some rows in memory, scaled, entries dropped: always the same."""
        if self._index is not None:
            block = self._scaled(self._values[self._index[rows]])
        else:
            block = self._scaled(np.array(self._values[rows]))
        if self._mask is None:
            return block
        return self._mask.rows(rows).drop_((block * self._mask.scale).contiguous())

    def rows(self, index: NDArray[np.int64]) -> Tensor:
        """Return the rows `index`, scaled, [len(index), F]; no others are read."""
        wanted = index if self._index is None else self._index[index]
        return self._scaled(self._values[wanted]).to(self.device)

    def dropout(self, p: float) -> MappedFeatures:
        """Return the features with each entry dropped at random, the rest scaled."""
        result = copy(self)
        result._mask = sample_mask(p, self.shape[0])
        return result

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Return all rows in order, a block at a time."""
        for rows in row_slices(self.shape):
            yield rows, self.read(rows).to(self.device)

    def __matmul__(self, weight: Tensor) -> Tensor:
        product: Tensor = _BlockedProduct.apply(self, weight)  # type: ignore[no-untyped-call]
        return product

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row, [n]."""
        return torch.cat([block.norm(dim=1) for _, block in self.blocks()])

    def _scaled(self, values: NDArray[np.float32]) -> Tensor:
        scaled = self._scaler(values)
        assert isinstance(scaled, np.ndarray)
        return torch.from_numpy(scaled)


Input = Tensor | Operator | MappedFeatures  # what a module takes as x, [n, F]


class _BlockedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: MappedFeatures, weight: Tensor) -> Tensor:
        ctx.matrix = matrix
        return torch.cat([block @ weight for _, block in matrix.blocks()])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        matrix: MappedFeatures = ctx.matrix
        total = grads[0].new_zeros(matrix.shape[1], grads[0].shape[1])
        for rows, block in matrix.blocks():
            total.addmm_(block.T, grads[0][rows])
        return None, total
