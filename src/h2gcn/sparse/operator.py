"""Constant sparse matrices that multiply dense ones, quickly in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer
from h2gcn.graph import CSR, Features
from h2gcn.sparse.csr import (
    Matrix,
    Multiplies,
    Triplets,
    product,
    row_norms,
    to_matrix,
    with_values,
)
from h2gcn.sparse.dropping import dropout
from h2gcn.sparse.large_product import multiplier

__all__ = [
    "DroppedOperator",
    "LinearMap",
    "Operator",
    "SampledOperator",
    "Target",
    "Triplets",
    "to_tensor",
]


class LinearMap(Protocol):
    """What every operator can do, wherever its entries are."""

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


KEYS = 2**31
"""How many random numbers there are to sort the entries of a row by."""


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
    def places(self) -> tuple[Tensor, Tensor]:
        """Each entry's place in its row, and the row's length, [nnz] each."""
        lengths = np.diff(self.scipy.indptr).astype(np.int64)
        starts = np.repeat(self.scipy.indptr[:-1], lengths)
        within = np.arange(len(starts)) - starts
        place, length = (
            torch.from_numpy(numbers.astype(np.int64)).to(self.device)
            for numbers in (within, np.repeat(lengths, lengths))
        )
        return place, length

    @cached_property
    def _forward(self) -> Multiplies:
        return multiplier(self.matrix)

    @cached_property
    def _backward(self) -> Multiplies:
        return self._forward if self.symmetric else multiplier(self.transposed)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(self._forward, lambda: self._backward, dense)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        return CSR(self.scipy[index])

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return Operator(self.take(index), device=self.device)

    def dropout(self, probability: float) -> DroppedOperator:
        """Return the operator with each entry dropped at random, the rest scaled."""
        return DroppedOperator(self, probability)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row, [m]."""
        return row_norms(self.matrix, self.shape[1])

    def sample(self, k: int) -> SampledOperator:
        """Return the operator with at most `k` entries of each row, drawn at random."""
        check_integer("Operator.sample", "k", k, 1)
        return SampledOperator(self, min(k, self.shape[1]))


class DroppedOperator:
    """An operator some of whose entries were dropped; lives for one step."""

    def __init__(self, operator: Operator, probability: float) -> None:
        self._operator = operator
        values = operator.matrix.values()
        self._values = dropout(values, probability)
        self.shape = operator.shape

    def __matmul__(self, dense: Tensor) -> Tensor:
        matrix = with_values(self._operator.matrix, self._values)
        return product(matrix, self._transpose, dense)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row as it was dropped, [m]."""
        matrix = with_values(self._operator.matrix, self._values)
        return row_norms(matrix, self.shape[1])

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
        row, (place, length) = operator.edges[0], operator.places
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
    operators: tuple[LinearMap, ...]

    @classmethod
    def of(
        cls,
        operators: Sequence[LinearMap],
        index: NDArray[np.int64],
        device: torch.device | str = "cpu",
    ) -> Target:
        """Cut the rows `index` out of each operator."""
        rows = tuple(op.rows(index) for op in operators)
        return cls(torch.from_numpy(index).to(device), rows)


def to_tensor(x: Features, device: torch.device | str = "cpu") -> Tensor | Operator:
    """Return features as what `x @ weight` works on: a tensor or an operator."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return Operator(x, device=device)
