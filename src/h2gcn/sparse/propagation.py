"""What a module multiplies with: the matrices of a graph, and the rows it wants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from h2gcn.graph import CSR
from h2gcn.sparse.operator import LinearMap, Operator

__all__ = ["NO_GRAPH", "Propagation", "StepCache", "classify_first"]

T = TypeVar("T")
StepCache = dict[Hashable, Any]  # values that a validation leaves to the next step


class Propagation:
    """The propagation matrices of a graph, and its target nodes.

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
        return torch.cat([self.pick(h), *(rows @ h for rows in self.rows)], dim=1)

    def sum(self, own: Tensor | None, parts: Sequence[Tensor]) -> Tensor:
        """Return H_0 + A_1 H_1 + … of the target nodes, [m, c]; None is a zero H_0."""
        products = [rows @ part for rows, part in zip(self.rows, parts, strict=True)]
        products += [] if own is None else [self.pick(own)]
        return sum(products[1:], products[0])

    def cached(self, f: Callable[..., T], *args: object) -> T:
        """Return f(*args), kept from a validation to the training step that follows it.

        Without gradients the value is computed as with them, and kept; with gradients
        it is taken out. The owner of the cache clears it when weights change.
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


NO_GRAPH = Propagation(())


def classify_first(
    r: Tensor, weight: Tensor, matrices: Sequence[LinearMap], final: Sequence[int]
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """Return H_0 and (H_1, …) for which `Propagation.sum` is (R_0 ‖ R_1 ‖ … ‖ R_K) W.

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
    n_matrices, (p, n_classes) = len(matrices), (r.shape[1], weight.shape[1])
    n_paths = [n_matrices**k for k in final]
    by_path = []  # the matrix that multiplies first is the slowest index of the rows
    for k, block in zip(final, weight.split([p * n for n in n_paths]), strict=True):
        paths = block.view(*[n_matrices] * k, p, n_classes)
        by_path.append(paths.permute(*range(k)[::-1], k + 1, k).reshape(-1, p))
    products = linear(r, torch.cat(by_path))
    widths = [n * n_classes for n in n_paths]
    terms = dict(zip(final, products.split(widths, dim=1), strict=True))
    total = terms[final[-1]]
    for k in range(final[-1] - 1, 0, -1):
        parts = total.chunk(n_matrices, dim=1)
        inner = [op @ part for op, part in zip(matrices, parts, strict=True)]
        inner += [terms[k]] if k in terms else []
        total = sum(inner[1:], inner[0])
    return terms.get(0), total.chunk(n_matrices, dim=1)
