"""Features that stay in their file, and are read a block of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import Features, row_slices
from h2gcn.sparse.masks import sample_mask
from h2gcn.sparse.operator import Operator

__all__ = ["DroppedFeatures", "Input", "MappedFeatures"]


class _InBlocks(ABC):
    """A matrix that is there in blocks of rows only, and is a factor like any other.

    Parameters
    ----------
    shape
        n and F.
    device
        Where products are made.
    """

    def __init__(self, shape: tuple[int, int], device: torch.device) -> None:
        self.shape = shape
        self.device = device

    @abstractmethod
    def read(self, rows: slice) -> Tensor:
        """Return some rows in memory, the same ones each time."""

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


class MappedFeatures(_InBlocks):
    """Features in a memory-mapped file, or many rows, scaled as they are read.

    A module takes them for `x` as it takes an `Operator`: of the matrix itself, never
    more than a block is in memory.

    Parameters
    ----------
    values
        The mapped file, [n, F].
    scaler
        Fitted on the training nodes.
    device
        Where products are made.
    index
        Which rows of it; None is all.
    """

    def __init__(
        self,
        values: NDArray[np.float32],
        scaler: Callable[[Features], Features],
        device: torch.device | str = "cpu",
        index: NDArray[np.int64] | None = None,
    ) -> None:
        count = len(values) if index is None else len(index)
        super().__init__((count, values.shape[1]), torch.device(device))
        self._values, self._scaler, self._index = values, scaler, index

    def read(self, rows: slice) -> Tensor:
        """Return some rows, scaled."""
        if self._index is not None:
            return self._scaled(self._values[self._index[rows]])
        return self._scaled(np.array(self._values[rows]))

    def rows(self, index: NDArray[np.int64]) -> Tensor:
        """Return the rows `index`, scaled, [len(index), F]; no others are read."""
        wanted = index if self._index is None else self._index[index]
        return self._scaled(self._values[wanted]).to(self.device)

    def dropout(self, probability: float) -> DroppedFeatures:
        """Return the features with each entry dropped at random, the rest scaled."""
        return DroppedFeatures(self, probability)

    def _scaled(self, values: NDArray[np.float32]) -> Tensor:
        scaled = self._scaler(values)
        assert isinstance(scaled, np.ndarray)
        return torch.from_numpy(scaled)


class DroppedFeatures(_InBlocks):
    """Features some of whose entries were dropped; lives for one step.

    Each product, and its gradient, reads the blocks anew and drops the same entries.
    """

    def __init__(self, features: MappedFeatures, p: float) -> None:
        super().__init__(features.shape, features.device)
        self._features = features
        self._mask = sample_mask(p, features.shape[0])

    def read(self, rows: slice) -> Tensor:
        """Return some rows with entries dropped."""
        block, mask = self._features.read(rows), self._mask
        if mask is None:
            return block
        own = mask._replace(nodes=mask.nodes[rows])
        return own.drop_((block * mask.scale).contiguous())


Input = Tensor | Operator | MappedFeatures
"""What a module takes as x, [n, F]."""


class _BlockedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: _InBlocks, weight: Tensor) -> Tensor:
        ctx.matrix = matrix
        result = weight.new_empty(matrix.shape[0], weight.shape[1])
        for rows, block in matrix.blocks():
            torch.matmul(block, weight, out=result[rows])
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        matrix: _InBlocks = ctx.matrix
        total = grads[0].new_zeros(matrix.shape[1], grads[0].shape[1])
        for rows, block in matrix.blocks():
            total.addmm_(block.T, grads[0][rows])
        return None, total
