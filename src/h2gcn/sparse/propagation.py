"""What a module multiplies with: the matrices of a graph, and the rows it wants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse.operator import LinearMap, Operator

__all__ = ["NO_GRAPH", "Propagation", "StepCache", "classify_first"]

T = TypeVar("T")
StepCache = dict[Hashable, Any]  # values that a validation leaves to the next step


class Propagation:
    """The propagation matrices of a graph, and the nodes whose logits are wanted.

    Parameters
    ----------
    matrices
        A_1, A_2, … A_r, [n, n] each.
    index
        The target nodes, [m]; None is all nodes in order.
    node_ids
        Their numbers in the whole graph, where `index` numbers the nodes of a subgraph,
        [m]; by default `index`.
    rows
        The target's rows of each matrix, [m, n]; by default they are cut out of the
        matrices on first use.
    cache
        Where `cached` keeps values, None for nowhere.
    """

    def __init__(
        self,
        matrices: Sequence[LinearMap],
        index: Tensor | None = None,
        node_ids: Tensor | None = None,
        *,
        rows: Sequence[LinearMap] | None = None,
        cache: StepCache | None = None,
    ) -> None:
        self.matrices, self.index = tuple(matrices), index
        self.node_ids = index if node_ids is None else node_ids
        self.cache = cache
        self._rows = rows

    @cached_property
    def rows(self) -> tuple[LinearMap, ...]:
        """The target's rows of each matrix, [m, n]."""
        if self._rows is not None:
            return tuple(self._rows)
        if self.index is None:
            return self.matrices
        index = self.index.cpu().numpy()
        return tuple(matrix.rows(index) for matrix in self.matrices)

    @cached_property
    def whole(self) -> Propagation:
        """The same matrices, with all nodes as targets."""
        return self if self.index is None else Propagation(self.matrices)

    def pick(self, h: Tensor) -> Tensor:
        """Return h of the target nodes, [m, c]."""
        return h if self.index is None else self._selection(len(h)) @ h

    def last(self, h: Tensor) -> Tensor:
        """Return h ‖ A_1 h ‖ A_2 h ‖ … of the target nodes, [m, (1 + r) c]."""
        if self.index is None or self._stacked is None:
            blocks = [self.pick(h), *(rows @ h for rows in self.rows)]
            return torch.cat(blocks, dim=1)
        width = (1 + len(self.rows)) * h.shape[1]
        return (self._stacked @ h).view(len(self.index), width)

    def sum(self, h: Tensor) -> Tensor:
        """Return H_0 + A_1 H_1 + … of the target nodes for h = H_0 ‖ H_1 ‖ …."""
        n_parts = 1 + len(self.rows)
        if self.index is not None and self._interleaved is not None:
            return self._interleaved @ h.reshape(n_parts * len(h), -1)
        own, *parts = h.chunk(n_parts, dim=1)
        total = self.pick(own)
        for rows, part in zip(self.rows, parts, strict=True):
            total = total + rows @ part
        return total

    def cached(self, f: Callable[..., T], *args: object) -> T:
        """Return f(*args), kept from a validation to the training step that follows it.

        Without gradients the value is computed as with them, and kept; with gradients
        it is taken out. Whoever owns the cache clears it when weights change.
        """
        if self.cache is None:
            return f(*args)
        key = (f, *map(id, args))
        if torch.is_grad_enabled():
            return self.cache.pop(key) if key in self.cache else f(*args)
        if key not in self.cache:
            with torch.enable_grad():
                self.cache[key] = f(*args)
        value: T = self.cache[key]
        return value

    def _selection(self, n: int) -> Operator:
        """Return the target's rows of I, whose product has a fast gradient, [m, n]."""
        if self._identity_rows is None or self._identity_rows.shape[1] != n:
            assert self.index is not None
            m = len(self.index)
            ones, indptr = np.ones(m, dtype=np.float32), np.arange(m + 1)
            rows = CSR((ones, self.index.cpu().numpy(), indptr), shape=(m, n))
            self._identity_rows = Operator(rows, device=self.index.device)
        return self._identity_rows

    _identity_rows: Operator | None = None

    def _blocks(self) -> list[CSR] | None:
        """Return the target's rows of I, A_1, A_2, …, if they are in memory."""
        given = self.matrices if self._rows is None else self._rows
        operators = [op for op in given if isinstance(op, Operator)]
        if not operators or len(operators) < len(given):
            return None
        if self._rows is not None:
            rows = [op.scipy for op in operators]
        else:
            assert self.index is not None
            index = self.index.cpu().numpy()
            rows = [op.take(index) for op in operators]
        return [self._selection(rows[0].shape[1]).scipy, *rows]

    @cached_property
    def _stacked(self) -> Operator | None:
        """The rows of I, A_1, A_2, … below each other, node by node, [(1 + r) m, n].

        The product is h ‖ A_1 h ‖ …, which need not be copied together.
        """
        blocks = self._blocks()
        if blocks is None:
            return None
        order = np.arange(len(blocks) * blocks[0].shape[0]).reshape(len(blocks), -1)
        stacked = CSR(sp.vstack(blocks, format="csr"))
        del blocks  # as large as the result
        return Operator(CSR(stacked[order.T.ravel()]), device=self.matrices[0].device)

    @cached_property
    def _interleaved(self) -> Operator | None:
        """The rows of I, A_1, … beside each other, column by column, [m, (1 + r) n].

        The product is a sum of products, which need not be added up.
        """
        blocks = self._blocks()
        if blocks is None:
            return None
        count, (m, n) = len(blocks), blocks[0].shape
        dtype = np.int32 if count * n <= np.iinfo(np.int32).max else np.int64
        spread = [
            CSR((a.data, a.indices.astype(dtype) * count + i, a.indptr), (m, count * n))
            for i, a in enumerate(blocks)
        ]
        matrix = CSR(sum(spread[1:], spread[0]))
        return Operator(matrix, device=self.matrices[0].device)


NO_GRAPH = Propagation(())


def classify_first(
    r: Tensor, weight: Tensor, matrices: Sequence[LinearMap], final: Sequence[int]
) -> Tensor:
    """Return what `Propagation.sum` turns into (R_0 ‖ R_1 ‖ … ‖ R_K) W, [n, (1 + r) C].

    With R_k = A_1 R_{k-1} ‖ A_2 R_{k-1} ‖ …, the product is a sum over paths of
    matrices, Σ A_i A_j … (R_0 W_ij…). The weight is applied first, so that the
    matrices multiply C columns per path, and the sum is taken from the inside out.

    Parameters
    ----------
    r
        R_0, [n, p].
    weight
        W, a block of p rows for each path of each round in `final`.
    matrices
        A_1, A_2, …, [n, n] each.
    final
        Which rounds W reads, ascending; the last one is K ≥ 1.
    """
    n_matrices, n_classes = len(matrices), weight.shape[1]
    by_path = weight.view(-1, r.shape[1], n_classes).transpose(0, 1).flatten(1)
    widths = [n_matrices**k * n_classes for k in final]
    terms = dict(zip(final, (r @ by_path).split(widths, dim=1), strict=True))
    total = terms[final[-1]]
    for k in range(final[-1] - 1, 0, -1):
        parts = total.unflatten(1, (-1, n_matrices, n_classes)).unbind(2)
        products = [
            op @ part.flatten(1) for op, part in zip(matrices, parts, strict=True)
        ]
        total = sum(products[1:], products[0])
        if k in terms:
            total = total + terms[k]
    own = terms.get(0, total.new_zeros(len(r), n_classes))
    return torch.cat([own, total], dim=1)
