"""Rounds of products with several operators, and a linear layer after the last."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from h2gcn.sparse.operator import LinearMap, Target

__all__ = ["classify_first", "concat_round", "sum_round"]


def concat_round(
    h: Tensor, operators: Sequence[LinearMap], target: Target | None = None
) -> Tensor:
    """Return h ‖ A_1 h ‖ A_2 h ‖ … of all nodes or of the target's, [m, (1 + r) c]."""
    if target is not None:
        return target.concat(h)
    return torch.cat([h, *(op @ h for op in operators)], dim=1)


def sum_round(
    h: Tensor, operators: Sequence[LinearMap], target: Target | None = None
) -> Tensor:
    """Return H_0 + A_1 H_1 + A_2 H_2 + … for h = H_0 ‖ H_1 ‖ …, [m, c]."""
    if target is not None:
        return target.sum(h)
    total, *parts = h.chunk(1 + len(operators), dim=1)
    for op, part in zip(operators, parts, strict=True):
        total = total + op @ part
    return total


def classify_first(
    r: Tensor, weight: Tensor, operators: Sequence[LinearMap], final: Sequence[int]
) -> Tensor:
    """Return what `sum_round` turns into (R_0 ‖ R_1 ‖ … ‖ R_K) W, [n, (1 + r) C].

    With R_k = A_1 R_{k-1} ‖ A_2 R_{k-1} ‖ …, the product is a sum over paths of
    matrices, Σ A_i A_j … (R_0 W_ij…). The weight is applied first, so that the
    matrices multiply C columns per path, and the sum is taken from the inside out.

    Parameters
    ----------
    r
        R_0, [n, p].
    weight
        W, a block of p rows for each path of each round in `final`.
    operators
        A_1, A_2, …, [n, n] each.
    final
        Which rounds W reads, ascending; the last one is K ≥ 1.
    """
    n_matrices, n_classes = len(operators), weight.shape[1]
    by_path = weight.view(-1, r.shape[1], n_classes).transpose(0, 1).flatten(1)
    widths = [n_matrices**k * n_classes for k in final]
    terms = dict(zip(final, (r @ by_path).split(widths, dim=1), strict=True))
    total = terms[final[-1]]
    for k in range(final[-1] - 1, 0, -1):
        parts = total.unflatten(1, (-1, n_matrices, n_classes)).unbind(2)
        products = [
            op @ part.flatten(1) for op, part in zip(operators, parts, strict=True)
        ]
        total = sum(products[1:], products[0])
        if k in terms:
            total = total + terms[k]
    own = terms.get(0, total.new_zeros(len(r), n_classes))
    return torch.cat([own, total], dim=1)
