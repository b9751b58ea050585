"""Constant sparse matrices times dense ones, differentiable in the dense one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from h2gcn.graph import CSR, Features
from h2gcn.sparse.core import split_core
from h2gcn.sparse.masks import dropout

__all__ = [
    "LinearMap",
    "Operator",
    "WeightedOperator",
    "product",
    "spmm",
    "to_tensor",
]


def spmm(indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Return S·B for a CSR matrix S, [m, n], and a dense B, [n, c].

    Each element is summed in the order of its row's entries, so it does not depend on
    threads, on other rows or on other columns.
    """
    if not (dense.shape[1] and len(indices)):
        return dense.new_zeros(len(indptr) - 1, dense.shape[1])
    return embedding_bag(
        indices,
        dense.detach().contiguous(),
        indptr,
        mode="sum",
        per_sample_weights=values.to(dense.dtype),
        include_last_offset=True,
    )


class LinearMap(Protocol):
    """What every propagation matrix can do, wherever its entries are."""

    device: torch.device

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __matmul__(self, dense: Tensor, /) -> Tensor:
        """Return the product with a dense matrix."""
        ...

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return some rows as a matrix."""
        ...

    def rows(self, index: NDArray[np.int64]) -> LinearMap:
        """Return some rows as an operator of their own."""
        ...


class _Sum(NamedTuple):
    """R + u vᵀ, for a sparse R, [m, n], and vectors u, [m], and v, [n]."""

    rest: Operator
    u: Tensor
    v: Tensor

    def multiply(self, dense: Tensor) -> Tensor:
        u, v = self.u.to(dense.dtype), self.v.to(dense.dtype)
        return self.rest.multiply(dense).addr_(u, v @ dense.detach())


class Multiplier(Protocol):
    """A matrix whose products, and those of its transpose, `product` differentiates."""

    @property
    def T(self) -> Multiplier:
        """The transpose."""
        ...

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix, without its gradient."""
        ...


def product(matrix: Multiplier, dense: Tensor) -> Tensor:
    """Return S·B; the gradient with respect to B is Sᵀ times that of the product."""
    result: Tensor = _Product.apply(matrix, dense)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Multiplier, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.multiply(dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.T.multiply(grads[0])


class _SparseMatrix(ABC):
    """A matrix whose product with B is differentiable in B."""

    parts: tuple[Tensor, Tensor, Tensor]  # indptr, indices, values

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abstractmethod
    def T(self) -> _SparseMatrix:
        """The transpose."""

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(self, dense)

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product without its gradient."""
        if len(dense) != self.shape[1]:
            raise ValueError(f"{len(dense)} rows do not match {self.shape[1]} columns")
        return spmm(*self.parts, dense)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row, [m]."""
        indptr, indices, values = self.parts
        ones = values.new_ones(self.shape[1], 1)
        return spmm(indptr, indices, values.square(), ones)[:, 0].sqrt()


class Operator(_SparseMatrix):
    """A constant sparse matrix S, float32; `S @ B` is differentiable in B.

    The gradient with respect to B is a product with the transpose, which is built
    once, on first use.

    Parameters
    ----------
    matrix
        The matrix, [m, n].
    symmetric
        Whether S = Sᵀ.
    device
        Where it lives.
    """

    def __init__(
        self,
        matrix: CSR,
        *,
        symmetric: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.scipy = _normal_form(matrix)
        self.symmetric, self.device = symmetric, torch.device(device)
        arrays = self.scipy.indptr, self.scipy.indices, self.scipy.data
        indptr, indices, values = (torch.from_numpy(a).to(device) for a in arrays)
        self.parts = indptr, indices, values
        self._faster: _Sum | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.scipy.shape

    def for_many_products(self) -> Operator:
        """Return the operator with its dense core split off, if it has one.

        See `split_core`: it takes long to find, and makes products faster.
        """
        if self._faster is not None or not self.symmetric:
            return self
        parts = split_core(self.scipy)
        if parts is None:
            return self
        result = Operator(self.scipy, symmetric=True, device=self.device)
        rest = Operator(parts[0], symmetric=True, device=self.device)
        u = torch.from_numpy(parts[1]).to(self.device)
        result._faster = _Sum(rest, u, u)
        return result

    @property
    def values(self) -> Tensor:
        """The stored entries, row by row, [nnz]."""
        return self.parts[2]

    @cached_property
    def T(self) -> Operator:
        """The transpose."""
        if self.symmetric:
            return self
        result = Operator(CSR(self.scipy.T), device=self.device)
        if self._faster is not None:
            rest, u, v = self._faster
            result._faster = _Sum(rest.T, v, u)
        return result

    @cached_property
    def transpose_order(self) -> Tensor:
        """The position in the matrix of each entry of the transpose, [nnz]."""
        position = np.arange(self.scipy.nnz)
        numbered = CSR((position, self.scipy.indices, self.scipy.indptr), self.shape)
        return torch.from_numpy(CSR(numbered.T).data).to(self.device)

    @cached_property
    def coo(self) -> tuple[Tensor, Tensor]:
        """The row and the column of each stored entry, [nnz] each."""
        indptr, indices, _ = self.parts
        rows = torch.arange(self.shape[0], device=self.device)
        return rows.repeat_interleave(indptr.diff()), indices.long()

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product without its gradient."""
        if self._faster is not None:
            return self._faster.multiply(dense)
        return super().multiply(dense)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        return CSR(self.scipy[index])

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        result = Operator(self.take(index), device=self.device)
        if self._faster is not None:
            rest, u, v = self._faster
            result._faster = _Sum(rest.rows(index), u[torch.from_numpy(index)], v)
        return result

    def with_values(self, values: Tensor) -> WeightedOperator:
        """Return an operator with the same pattern and other values, [nnz]."""
        return WeightedOperator(self, values)

    def dropout(self, p: float) -> WeightedOperator:
        """Return the operator with each entry dropped at random, the rest scaled."""
        return self.with_values(dropout(self.values, p))


class WeightedOperator(_SparseMatrix):
    """The pattern of an operator with other values, for one training step."""

    def __init__(self, pattern: Operator, values: Tensor) -> None:
        self._pattern = pattern
        self.parts = *pattern.parts[:2], values

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._pattern.shape

    @property
    def T(self) -> WeightedOperator:
        """The transpose."""
        values = self.parts[2].index_select(0, self._pattern.transpose_order)
        return WeightedOperator(self._pattern.T, values)


def _normal_form(matrix: CSR) -> CSR:
    """Return float32 values and sorted rows, with 32-bit indices where they fit."""
    if not matrix.has_sorted_indices:
        matrix = CSR(matrix.sorted_indices())  # the caller's stays as it is
    fits = max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max
    dtype = np.int32 if fits else np.int64
    parts = (
        matrix.data.astype(np.float32, copy=False),
        matrix.indices.astype(dtype, copy=False),
        matrix.indptr.astype(dtype, copy=False),
    )
    return CSR(parts, shape=matrix.shape)


def to_tensor(x: Features, device: torch.device | str = "cpu") -> Tensor | Operator:
    """Return features as what `x @ weight` works on: a tensor or an operator."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return Operator(x, device=device)
