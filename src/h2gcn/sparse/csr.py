"""Sparse matrices as torch multiplies them, given the transpose for the gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from h2gcn.graph import CSR

__all__ = [
    "Matrix",
    "Multiplies",
    "Triplets",
    "csr_tensor",
    "product",
    "row_norms",
    "to_matrix",
    "with_values",
]

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")

CSR_DEVICES = ("cpu", "cuda")
"""Where torch has a product of CSR tensors."""


@dataclass(frozen=True)
class Triplets:
    """A sparse matrix as plain tensors, for devices without a CSR product.

    Parameters
    ----------
    rows, columns, entries
        Of each stored entry, [nnz].
    n_rows
        Number of rows of the matrix.
    """

    rows: Tensor
    columns: Tensor
    entries: Tensor
    n_rows: int

    def values(self) -> Tensor:
        """Return the entries, as CSR tensors call them."""
        return self.entries

    def __matmul__(self, dense: Tensor) -> Tensor:
        terms = dense[self.columns] * self.entries[:, None]
        return dense.new_zeros(self.n_rows, dense.shape[1]).index_add_(
            0, self.rows, terms
        )


Matrix = Tensor | Triplets


class Multiplies(Protocol):
    """Whatever has a product with a dense matrix."""

    def __matmul__(self, dense: Tensor, /) -> Tensor:
        """Return the product."""
        ...


class _CsrProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, matrix: Multiplies, transpose: Callable[[], Multiplies], dense: Tensor
    ) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose() @ grads[0].contiguous()


def product(
    matrix: Multiplies, transpose: Callable[[], Multiplies], dense: Tensor
) -> Tensor:
    """Return matrix·dense; the gradient asks for the transpose when it needs it."""
    result: Tensor = _CsrProduct.apply(matrix, transpose, dense)  # type: ignore[no-untyped-call]
    return result


def to_matrix(matrix: CSR, device: torch.device) -> Matrix:
    """Return a scipy matrix on a device: CSR where torch can multiply that."""
    matrix.sort_indices()
    values = torch.from_numpy(matrix.data.astype(np.float32, copy=False))
    if device.type in CSR_DEVICES:
        return csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            values,
            matrix.shape,
        ).to(device)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return Triplets(
        torch.from_numpy(rows).to(device),
        torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        values.to(device),
        matrix.shape[0],
    )


def with_values(matrix: Matrix, values: Tensor) -> Matrix:
    """Return a matrix of the same pattern with other values, [nnz]."""
    if isinstance(matrix, Triplets):
        return Triplets(matrix.rows, matrix.columns, values, matrix.n_rows)
    return csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)


def row_norms(matrix: Matrix, columns: int) -> Tensor:
    """Return the Euclidean length of each row, [m], of a matrix [m, columns]."""
    squares = matrix.values().square()
    sums = with_values(matrix, squares) @ squares.new_ones(columns, 1)
    return sums[:, 0].sqrt()


def csr_tensor(
    starts: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int]
) -> Tensor:
    """Return a CSR tensor of its parts: row starts, columns and values."""
    # What comes from scipy is sorted and in range: nothing to check at every step.
    return torch.sparse_csr_tensor(
        starts, columns, values, size=tuple(shape), check_invariants=False
    )
