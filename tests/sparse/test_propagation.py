"""Rounds of products: side by side, summed, and with the classifier first."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import (
    LinearMap,
    Operator,
    Propagation,
    StepCache,
    classify_first,
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
    target = None if index is None else torch.tensor(index, dtype=torch.int64)
    graph = Propagation(ops, target)
    rows = slice(None) if index is None else index
    h = torch.randn(N, P, requires_grad=True)
    ours = with_gradient(graph.last(h), h)
    theirs = with_gradient(torch.cat([m[rows] @ h for m in dense(count)], dim=1), h)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)

    parts = torch.randn(N, (1 + count) * CLASSES, requires_grad=True)
    own, *others = chunks = parts.chunk(1 + count, dim=1)
    ours = with_gradient(graph.sum(own, others), parts)
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
    first = Propagation(ops).sum(*classify_first(r, weight, ops, final))
    for one, other in zip(
        with_gradient(first, r), with_gradient(joined @ weight, r), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_rows_are_those_of_the_target_nodes() -> None:
    ops, index, names = operators(2), torch.tensor([3, 1]), torch.tensor([30, 10])
    graph = Propagation(ops, index)
    assert torch.equal(graph.node_ids, index)
    assert Propagation(ops, index, names).node_ids.tolist() == [30, 10]
    h = torch.randn(N, P)
    assert torch.equal(graph.pick(h), h[[3, 1]])
    for op, rows in zip(ops, graph.rows, strict=True):
        torch.testing.assert_close(rows @ h, (op @ h)[[3, 1]])
    whole = graph.whole
    assert whole.index is whole.node_ids is None
    assert whole.rows == whole.matrices == tuple(ops)
    assert whole.pick(h) is h
    assert Propagation(ops, index, rows=ops).rows == tuple(ops)
    none = Propagation((), index)
    assert none.rows == ()
    assert torch.equal(none.pick(h), h[[3, 1]])
    assert torch.equal(none.last(h), h[[3, 1]])


def test_a_validation_leaves_what_it_computed_to_the_next_step() -> None:
    calls: list[str] = []
    weight = torch.ones(1, requires_grad=True)

    def double(x: Tensor) -> Tensor:
        calls.append("double")
        return 2 * x * weight

    def triple(x: Tensor) -> Tensor:
        calls.append("triple")
        return 3 * x * weight

    cache: StepCache = {}
    train, val = (Propagation((), torch.tensor([i]), cache=cache) for i in range(2))
    one, other = torch.ones(2), torch.ones(2)
    with torch.no_grad():
        kept = val.cached(double, one)
        assert val.cached(double, one) is kept
        assert val.cached(double, other) is not kept
        assert val.cached(triple, one) is not kept
    assert calls == ["double", "double", "triple"]
    assert train.cached(double, one) is kept
    (gradient,) = torch.autograd.grad(kept.sum(), weight)
    assert gradient.item() == 4
    assert train.cached(double, one) is not kept, "a graph serves one backward pass"
    with torch.no_grad():
        again = val.cached(double, one)
        cache.clear()
        assert val.cached(double, one) is not again
        without = Propagation(())
        assert without.cached(double, one) is not without.cached(double, one)
