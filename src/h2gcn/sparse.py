"""Constant sparse matrices that multiply dense ones, quickly in both directions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer
from h2gcn.graph import CSR, Features

__all__ = [
    "DroppedOperator",
    "Operator",
    "SampledOperator",
    "Target",
    "Triplets",
    "to_tensor",
]

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")

CSR_DEVICES = ("cpu", "cuda")
"""Where torch has a product of CSR tensors."""
KEYS = 2**31
"""How many random numbers there are to sort the entries of a row by."""


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


class Operator:
    """A sparse matrix S of which only products S·B with dense B are taken.

    S itself is never differentiated. The gradient with respect to B is Sᵀ·G, for
    which torch would transpose S at every step; here the transpose is built once,
    on first use, and a symmetric S is its own.

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
        self.scipy = matrix
        self.symmetric = symmetric
        self.device = torch.device(device)
        self.matrix = to_matrix(matrix, self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.scipy.shape

    @cached_property
    def transposed(self) -> Matrix:
        """The transpose, in the same form."""
        if self.symmetric:
            return self.matrix
        return to_matrix(CSR(self.scipy.T), self.device)

    @cached_property
    def transposed_order(self) -> Tensor:
        """Where each entry of the transpose stands in the matrix, [nnz]."""
        places = np.arange(self.scipy.nnz)
        numbered = CSR((places, self.scipy.indices, self.scipy.indptr), self.shape)
        order = CSR(numbered.T).data
        return torch.from_numpy(order).to(self.device)

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The row and the column of each stored entry, [nnz] each."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.scipy.indptr))
        columns = self.scipy.indices.astype(np.int64)
        return (
            torch.from_numpy(rows).to(self.device),
            torch.from_numpy(columns).to(self.device),
        )

    @cached_property
    def places(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each entry's row, its place in that row, and the row's length, [nnz] each."""
        lengths = np.diff(self.scipy.indptr).astype(np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(rows)) - self.scipy.indptr[rows]
        row, place, length = (
            torch.from_numpy(numbers.astype(np.int64)).to(self.device)
            for numbers in (rows, within, lengths[rows])
        )
        return row, place, length

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _product(self.matrix, lambda: self.transposed, dense)

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return Operator(CSR(self.scipy[index]), device=self.device)

    def dropout(self, probability: float) -> DroppedOperator:
        """Return the operator with each entry dropped at random, the rest scaled."""
        return DroppedOperator(self, probability)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row, [m]."""
        return _row_norms(self.matrix, self.shape[1])

    def sample(self, k: int) -> SampledOperator:
        """Return the operator with at most `k` entries of each row, drawn at random."""
        check_integer("Operator.sample", "k", k, 1)
        return SampledOperator(self, min(k, self.shape[1]))


class DroppedOperator:
    """An operator some of whose entries were dropped; lives for one step."""

    def __init__(self, operator: Operator, probability: float) -> None:
        self._operator = operator
        values = operator.matrix.values()
        self._values = torch.nn.functional.dropout(values, probability)
        self.shape = operator.shape

    def __matmul__(self, dense: Tensor) -> Tensor:
        matrix = with_values(self._operator.matrix, self._values)
        return _product(matrix, self._transpose, dense)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row as it was dropped, [m]."""
        matrix = with_values(self._operator.matrix, self._values)
        return _row_norms(matrix, self.shape[1])

    def _transpose(self) -> Matrix:
        order = self._operator.transposed_order
        return with_values(
            self._operator.transposed, self._values.index_select(0, order)
        )


class SampledOperator(DroppedOperator):
    """An operator with at most k entries of each row; lives for one step.

    In a row of d > k entries, k are drawn without replacement, all alike, and scaled
    by d/k; the others become zero. So each row's product is right on average, and
    where all entries of a row are 1/d, as in a mean over neighbours, those drawn are
    1/k: the mean over the sample. Rows of at most k entries stay as they are.

    Parameters
    ----------
    operator
        The operator, [m, n].
    k
        How many entries a row keeps.
    """

    def __init__(self, operator: Operator, k: int) -> None:
        self._operator = operator
        self.shape = operator.shape
        values = operator.matrix.values()
        row, place, length = operator.places
        keys = torch.randint(KEYS, row.shape, device=row.device)
        # The rows are whole numbers of KEYS apart: what is sorted stays in its row,
        # and the entry that comes p-th there is drawn if p < k.
        order = (row * KEYS + keys).argsort()
        drawn = torch.zeros_like(values)
        drawn[order] = (place < k).to(values.dtype)
        self._values = values * drawn * (length / length.clamp(max=k))


@dataclass(frozen=True)
class Target:
    """The nodes whose logits are wanted, and the operators' rows for them.

    Parameters
    ----------
    index
        The nodes, [m].
    operators
        The rows of each operator, [m, n].
    """

    index: Tensor
    operators: tuple[Operator, ...]

    @classmethod
    def of(
        cls,
        operators: Sequence[Operator],
        index: NDArray[np.int64],
        device: torch.device | str = "cpu",
    ) -> Target:
        """Cut the rows `index` out of each operator."""
        rows = tuple(op.rows(index) for op in operators)
        return cls(torch.from_numpy(index).to(device), rows)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, matrix: Matrix, transpose: Callable[[], Matrix], dense: Tensor
    ) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose() @ grads[0].contiguous()


def _product(matrix: Matrix, transpose: Callable[[], Matrix], dense: Tensor) -> Tensor:
    result: Tensor = _Product.apply(matrix, transpose, dense)  # type: ignore[no-untyped-call]
    return result


def to_matrix(matrix: CSR, device: torch.device) -> Matrix:
    """Return a scipy matrix on a device: CSR where torch can multiply that."""
    matrix.sort_indices()
    values = torch.from_numpy(matrix.data.astype(np.float32, copy=False))
    if device.type in CSR_DEVICES:
        return _csr(
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
    return _csr(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)


def _row_norms(matrix: Matrix, columns: int) -> Tensor:
    squares = matrix.values().square()
    sums = with_values(matrix, squares) @ squares.new_ones(columns, 1)
    return sums[:, 0].sqrt()


def _csr(
    starts: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int]
) -> Tensor:
    # What comes from scipy is sorted and in range: nothing to check at every step.
    return torch.sparse_csr_tensor(
        starts, columns, values, size=tuple(shape), check_invariants=False
    )


def to_tensor(x: Features, device: torch.device | str = "cpu") -> Tensor | Operator:
    """Return features as what `x @ weight` works on: a tensor or an operator."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return Operator(x, device=device)
