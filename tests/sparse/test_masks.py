"""Dropout: fractions, expectations, masks by node and column, gradients."""

import pytest
import torch
from torch import Tensor

from h2gcn.sparse import dropout, dropout_linear, sample_mask
from h2gcn.training import seeded
from support.cases import each
from support.dropout import mask_of


@each("p", [0.1, 0.5, 0.9])
def test_elements_are_kept_with_their_probability_and_scaled(p: float) -> None:
    with seeded(0):
        dropped = dropout(torch.ones(400, 500), p)
    kept = dropped != 0
    error = 5 * (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(float(kept.float().mean()) - (1 - p)) < error
    expected = torch.where(kept, 1 / (1 - p), 0.0)
    torch.testing.assert_close(dropped, expected, rtol=1e-4, atol=0)


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
        another = dropout(torch.ones_like(x), 0.4)
    assert torch.equal(gradient, mask)
    assert mask.dtype == torch.float64
    assert x.numel() < 10 or not torch.equal(mask, another)
    assert dropout(x, 0.4, training=False) is x


@each("p", [0.0, 1e-9, 1e-6])
def test_a_fraction_below_the_smallest_drops_nothing(p: float) -> None:
    x, weight = torch.randn(40, 6), torch.randn(6, 2)
    assert dropout(x, p) is x
    assert sample_mask(p, 40) is None
    torch.testing.assert_close(dropout_linear([x], weight, p), x @ weight)


@each("p", [0.3, 0.5, 0.9])
@each("widths", [(5,), (40, 3), (1, 32, 70)])
def test_a_dropped_product_is_that_of_the_masked_blocks(
    widths: tuple[int, ...], p: float
) -> None:
    nodes = torch.tensor([4, 0, 123_456_789_012, 7, 7])
    blocks = [torch.randn(5, width, requires_grad=True) for width in widths]
    weight = torch.randn(sum(widths), 3, requires_grad=True)
    outer, mask = torch.randn(5, 3), None

    def run(product: Tensor) -> list[Tensor]:
        gradients = torch.autograd.grad((product * outer).sum(), [weight, *blocks])
        return [product, *gradients]

    with seeded(2):
        ours = run(dropout_linear(blocks, weight, p, nodes))
    with seeded(2):
        mask = mask_of(nodes, sum(widths), p)
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


def test_a_mask_cuts_rows_and_columns() -> None:
    mask = sample_mask(0.5, 20)
    assert mask is not None
    whole = mask.drop_(torch.ones(20, 40))
    assert torch.equal(mask.rows(slice(5, 9)).drop_(torch.ones(4, 40)), whole[5:9])
    assert torch.equal(mask.drop_(torch.ones(20, 7), 33), whole[:, 33:])
    assert mask.scale == 2


def test_widths_that_do_not_match_are_refused():
    for p in (0.0, 0.5):
        with pytest.raises(ValueError, match="blocks of 8 columns do not match 4 rows"):
            dropout_linear([torch.ones(3, 8)], torch.ones(4, 2), p)
