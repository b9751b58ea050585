"""Rounds of products: side by side, summed, and with the classifier first."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import (
    LinearMap,
    Operator,
    Target,
    classify_first,
    concat_round,
    sum_round,
)
from support.cases import each

N, P, CLASSES = 12, 5, 3
INDICES = [[0], [11, 3, 3, 0], [], [*range(N)]]


class Wrapped:
    """An operator whose entries nobody sees."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self.device = operator, operator.device
        self.shape = operator.shape

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._operator @ dense

    def take(self, index: np.ndarray) -> CSR:
        return self._operator.take(index)

    def rows(self, index: np.ndarray) -> LinearMap:
        return Wrapped(self._operator.rows(index))


def matrices(count: int) -> list[CSR]:
    return [
        CSR(sp.random_array((N, N), density=0.3, dtype=np.float32, rng=seed))
        for seed in range(count)
    ]


def operators(count: int, hidden: bool = False) -> list[LinearMap]:
    found = [Operator(matrix) for matrix in matrices(count)]
    return [Wrapped(op) for op in found] if hidden else [*found]


def dense(count: int) -> list[Tensor]:
    eye = torch.eye(N)
    return [eye, *(torch.from_numpy(m.toarray()) for m in matrices(count))]


def with_gradient(out: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    outer = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad((out * outer).sum(), h)
    return out, gradient


@each("hidden", [False, True])
@each("count", [1, 2, 3])
@each("index", [*INDICES, None])
def test_a_round_side_by_side_and_summed(
    index: list[int] | None, count: int, hidden: bool
) -> None:
    ops = operators(count, hidden)
    target = None if index is None else Target.of(ops, np.array(index, dtype=np.int64))
    rows = slice(None) if index is None else index
    h = torch.randn(N, P, requires_grad=True)
    ours = with_gradient(concat_round(h, ops, target), h)
    theirs = with_gradient(torch.cat([m[rows] @ h for m in dense(count)], dim=1), h)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)

    parts = torch.randn(N, (1 + count) * CLASSES, requires_grad=True)
    ours = with_gradient(sum_round(parts, ops, target), parts)
    chunks = parts.chunk(1 + count, dim=1)
    total = sum(m[rows] @ c for m, c in zip(dense(count), chunks, strict=True))
    assert isinstance(total, Tensor)
    for one, other in zip(ours, with_gradient(total, parts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@each("final", [(0, 1), (1,), (0, 1, 2), (0, 2), (2,), (1, 2), (0, 1, 2, 3), (3,)])
@each("count", [1, 2, 3])
def test_the_classifier_may_come_first(count: int, final: tuple[int, ...]) -> None:
    ops, r = operators(count), torch.randn(N, P, requires_grad=True)
    rounds = [r]
    for _ in range(final[-1]):
        blocks = [m @ rounds[-1] for m in dense(count)[1:]]
        rounds.append(torch.cat(blocks, dim=1))
    joined = torch.cat([rounds[k] for k in final], dim=1)
    weight = torch.randn(joined.shape[1], CLASSES)
    first = sum_round(classify_first(r, weight, ops, final), ops)
    for one, other in zip(
        with_gradient(first, r), with_gradient(joined @ weight, r), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_target_numbers_its_nodes_within_a_part_of_a_graph() -> None:
    index, names = np.array([3, 1]), torch.tensor([30, 10])
    ops = operators(2)
    target = Target.of(ops, index, node_ids=names)
    assert target.index.tolist() == [3, 1]
    assert target.node_ids.tolist() == [30, 10]
    assert Target.of(ops, index).node_ids.tolist() == [3, 1]
    h = torch.randn(N, P)
    assert torch.equal(target.pick(h), h[[3, 1]])
