"""Dropout: fractions, expectations, masks by node and column, gradients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from h2gcn.sparse import dropout, dropout_linear, sample_mask
from h2gcn.training import seeded
from support.cases import each
from support.dropout import mask_of

CELLS = 200_000


@each("p", [0.1, 0.5, 0.9])
def test_the_fraction_and_the_expectation(p: float) -> None:
    with seeded(0):
        dropped = dropout(torch.ones(400, CELLS // 400), p)
    kept = dropped != 0
    error = 5 * (p * (1 - p) / CELLS) ** 0.5
    assert abs(float(kept.float().mean()) - (1 - p)) < error
    torch.testing.assert_close(
        dropped[kept],
        torch.full((1,), 1 / (1 - p)).expand(int(kept.sum())),
        rtol=1e-4,
        atol=0,
    )


def test_neighboring_elements_are_independent() -> None:
    with seeded(1):
        kept = (dropout(torch.ones(1000, 100), 0.5) != 0).float() - 0.5
    for first, second in [
        (kept[:, :-1], kept[:, 1:]),
        (kept[:-1], kept[1:]),
        (kept[:, :-32], kept[:, 32:]),
    ]:
        assert abs(float((first * second).mean())) < 5 * 0.25 / first.numel() ** 0.5


@each("shape", [(7, 5), (11,), (2, 3, 4), (0, 3), (3, 0)])
def test_the_gradient_is_that_of_the_mask(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    with seeded(3):
        (gradient,) = torch.autograd.grad(dropout(x, 0.4).sum(), x)
    with seeded(3):
        mask = dropout(torch.ones_like(x), 0.4)
    assert torch.equal(gradient, mask)
    assert mask.dtype == torch.float64


def test_a_seed_repeats_it_and_evaluation_has_none() -> None:
    x = torch.randn(30, 20)
    with seeded(5):
        first, second = dropout(x, 0.5), dropout(x, 0.5)
    with seeded(5):
        assert torch.equal(dropout(x, 0.5), first)
    assert not torch.equal(first, second)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x


@each("p", [1e-9, 1e-6])
def test_a_fraction_below_the_smallest_drops_nothing(p: float) -> None:
    x, weight = torch.randn(40, 6), torch.randn(6, 2)
    assert dropout(x, p) is x
    assert sample_mask(p, 40) is None
    torch.testing.assert_close(dropout_linear([x], weight, p), x @ weight)


@each("p", [0.0, 0.3, 0.5, 0.9])
@each("widths", [(5,), (40, 3), (1, 32, 70)])
def test_dropping_before_a_product(widths: tuple[int, ...], p: float) -> None:
    nodes = torch.tensor([4, 0, 123_456_789_012, 7, 7])
    blocks = [torch.randn(5, width, requires_grad=True) for width in widths]
    weight = torch.randn(sum(widths), 3, requires_grad=True)
    outer = torch.randn(5, 3)

    def run(product: Tensor) -> list[Tensor]:
        return [
            product,
            *torch.autograd.grad((product * outer).sum(), [weight, *blocks]),
        ]

    with seeded(2):
        ours = run(dropout_linear(blocks, weight, p, nodes))
    with seeded(2):
        mask = mask_of(nodes, sum(widths), p) if p else torch.ones(5, sum(widths))
    theirs = run((torch.cat(blocks, dim=1) * mask) @ weight)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_node_is_dropped_alike_in_any_batch() -> None:
    x, weight = torch.randn(50, 40), torch.randn(40, 4)
    nodes = torch.randperm(1000)[:50]
    with seeded(1):
        all_rows = dropout_linear([x], weight, 0.5, nodes)
    for batch in (torch.tensor([7]), torch.arange(10, 40), torch.tensor([3, 3, 1])):
        with seeded(1):
            some = dropout_linear([x[batch]], weight, 0.5, nodes[batch])
        torch.testing.assert_close(some, all_rows[batch])


def test_many_rows_are_dropped_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(700, 12), torch.randn(12, 3, requires_grad=True)

    def run() -> tuple[Tensor, Tensor]:
        with seeded(4):
            product = dropout_linear([x], weight, 0.5)
        return product, torch.autograd.grad(product.square().sum(), weight)[0]

    whole = run()
    monkeypatch.setattr("h2gcn.sparse.masks.CHUNK", 120)
    for one, other in zip(run(), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_the_numerical_one() -> None:
    blocks = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in "ab"]
    weight = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)

    def product(*given: Tensor) -> Tensor:
        with seeded(7):
            return dropout_linear(given[1:], given[0], 0.5)

    assert torch.autograd.gradcheck(product, (weight, *blocks))


def test_a_mask_cuts_rows_and_columns() -> None:
    with seeded(0):
        mask = sample_mask(0.5, 20)
    assert mask is not None
    whole = mask.drop_(torch.ones(20, 40))
    assert torch.equal(mask.rows(slice(5, 9)).drop_(torch.ones(4, 40)), whole[5:9])
    assert torch.equal(mask.drop_(torch.ones(20, 7), 33), whole[:, 33:])
    assert mask.scale == 2
    assert np.array_equal(mask.nodes, np.arange(20))
