"""Constant sparse matrices that multiply dense ones, quickly in both directions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR, Features

__all__ = ["Operator", "Target", "to_tensor"]

# Stated once, so that torch does not ask: the matrices come from scipy, sorted.
torch.sparse.check_sparse_tensor_invariants.disable()
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


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
        self.tensor = _to_torch(matrix, self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.scipy.shape

    @cached_property
    def transposed(self) -> Tensor:
        """The transpose as a torch CSR tensor."""
        if self.symmetric:
            return self.tensor
        return _to_torch(CSR(self.scipy.T), self.device)

    @cached_property
    def _transposed_order(self) -> Tensor:
        # Where each entry of the transpose stands in the matrix.
        places = np.arange(self.scipy.nnz)
        numbered = CSR((places, self.scipy.indices, self.scipy.indptr), self.shape)
        order = CSR(numbered.T).data
        return torch.from_numpy(order).to(self.device)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _product(self.tensor, lambda: self.transposed, dense)

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        return Operator(CSR(self.scipy[index]), device=self.device)

    def dropout(self, probability: float) -> DroppedOperator:
        """Return the operator with each entry dropped at random, the rest scaled."""
        return DroppedOperator(self, probability)


class DroppedOperator(Operator):
    """An operator some of whose entries were dropped; lives for one step."""

    def __init__(self, operator: Operator, probability: float) -> None:
        # Not Operator's: the pattern is shared, only the values are new.
        self.scipy, self.device = operator.scipy, operator.device
        self._operator = operator
        values = operator.tensor.values()
        self._values = torch.nn.functional.dropout(values, probability)

    def __matmul__(self, dense: Tensor) -> Tensor:
        tensor = _with_values(self._operator.tensor, self._values)
        return _product(tensor, self._transpose, dense)

    def _transpose(self) -> Tensor:
        order = self._operator._transposed_order
        return _with_values(self._operator.transposed, self._values[order])


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
    def of(cls, operators: Sequence[Operator], index: NDArray[np.int64]) -> Target:
        """Cut the rows `index` out of each operator."""
        device = operators[0].device if operators else torch.device("cpu")
        rows = tuple(op.rows(index) for op in operators)
        return cls(torch.from_numpy(index).to(device), rows)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, transpose: Any, dense: Tensor) -> Tensor:
        ctx.transpose = transpose
        return _multiply(tensor, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _multiply(ctx.transpose(), grads[0])


def _product(tensor: Tensor, transpose: Any, dense: Tensor) -> Tensor:
    result: Tensor = _Product.apply(tensor, transpose, dense)  # type: ignore[no-untyped-call]
    return result


def _multiply(tensor: Tensor, dense: Tensor) -> Tensor:
    dense = dense.contiguous()
    if dense.device.type in ("cpu", "cuda"):
        return tensor @ dense
    return gather_product(tensor, dense)


def gather_product(tensor: Tensor, dense: Tensor) -> Tensor:
    """Multiply by gathering and adding, where a device has no CSR product."""
    counts = tensor.crow_indices().diff()
    rows = torch.repeat_interleave(
        torch.arange(tensor.shape[0], device=dense.device), counts
    )
    terms = dense[tensor.col_indices().long()] * tensor.values()[:, None]
    zero = dense.new_zeros(tensor.shape[0], dense.shape[1])
    return zero.index_add_(0, rows, terms)


def _to_torch(matrix: CSR, device: torch.device) -> Tensor:
    matrix.sort_indices()
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr),
        torch.from_numpy(matrix.indices),
        torch.from_numpy(matrix.data.astype(np.float32, copy=False)),
        size=matrix.shape,
    ).to(device)


def _with_values(tensor: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        tensor.crow_indices(), tensor.col_indices(), values, size=tensor.shape
    )


def to_tensor(x: Features, device: torch.device | str = "cpu") -> Tensor | Operator:
    """Return features as what `x @ weight` works on: a tensor or an operator."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return Operator(x, device=device)
