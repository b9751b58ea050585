"""Dropout: shares, scale, gradient, seeds."""

import pytest
import torch

from h2gcn.sparse import dropout, dropout_linear, seeded
from support.cases import each
from support.dropping import mask_of

SHAPE = (400, 251)  # no multiple of four


@each("probability", [0.1, 0.5, 0.6, 0.85, 0.999])
def test_share_and_expectation(probability: float) -> None:
    with seeded(0):
        dropped = dropout(torch.ones(SHAPE), probability)
    n = dropped.numel()
    kept = (dropped != 0).double().mean().item()
    error = 4 * (probability * (1 - probability) / n) ** 0.5
    assert kept == pytest.approx(1 - probability, abs=error)
    values = dropped[dropped != 0]
    assert values.unique().numel() == 1
    assert values[0].item() == pytest.approx(1 / (1 - probability), rel=0.02)
    # The scale belongs to the rounded share, so that nothing is lost on average.
    sixteenth = round((1 - probability) * 2**16)
    assert values[0].item() == pytest.approx(2**16 / sixteenth)


def test_every_place_is_decided_by_itself() -> None:
    with seeded(1):
        masks = torch.stack([dropout(torch.ones(9), 0.5) != 0 for _ in range(4000)])
    shares = masks.double().mean(dim=0)
    assert (shares - 0.5).abs().max() < 0.04
    correlation = torch.corrcoef(masks.double().T).fill_diagonal_(0)
    assert correlation.abs().max() < 0.08


def test_gradient_is_that_of_the_mask() -> None:
    x = torch.randn(7, 3, requires_grad=True)
    with seeded(2):
        dropout(x, 0.5).sum().backward()
    with seeded(2):
        mask = dropout(torch.ones(7, 3), 0.5)
    assert x.grad is not None
    assert torch.equal(x.grad, mask)


def test_a_seed_repeats_it_and_evaluation_has_none() -> None:
    x = torch.randn(50, 4)
    with seeded(3):
        first, second = dropout(x, 0.3), dropout(x, 0.3)
    with seeded(3):
        again = dropout(x, 0.3)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert dropout(x, 0.3, training=False) is x
    assert dropout(x, 0.0) is x
    assert dropout(torch.ones(0, 4), 0.5).shape == (0, 4)


def test_doubles_stay_doubles() -> None:
    assert dropout(torch.ones(5, dtype=torch.float64), 0.5).dtype == torch.float64


@each("probability", [0.4, 0.5])
@each("rows", [0, 1, 5, 37])
@each("widths", [(4,), (3, 5), (2, 0, 6), (20, 70, 9)])
def test_dropping_and_multiplying_block_by_block(
    rows: int,
    widths: tuple[int, ...],
    probability: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("h2gcn.sparse.dropping.CHUNK", 40)  # several chunks
    blocks = [torch.randn(rows, width, requires_grad=True) for width in widths]
    weight = torch.randn(sum(widths), 3, requires_grad=True)
    grad, nodes = torch.randn(rows, 3), torch.randperm(50)[:rows]
    with seeded(5):
        result = dropout_linear(blocks, weight, probability, nodes=nodes)
    with seeded(5):
        mask = mask_of(nodes, sum(widths), probability)
    expected = (torch.cat(blocks, dim=1) * mask) @ weight
    torch.testing.assert_close(result, expected)
    ours = torch.autograd.grad(result, [weight, *blocks], grad)
    theirs = torch.autograd.grad(expected, [weight, *blocks], grad)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@each("probability", [0.1, 0.5, 0.6, 0.85])
def test_the_share_that_is_dropped_before_a_product(probability: float) -> None:
    block, weight = torch.ones(1, 251), torch.eye(251)
    with seeded(0):
        drops = [dropout_linear([block], weight, probability) for _ in range(2000)]
    masks = torch.cat(drops) != 0
    error = 4.5 * (probability * (1 - probability) / masks.numel()) ** 0.5
    assert masks.double().mean().item() == pytest.approx(1 - probability, abs=error)
    correlation = torch.corrcoef(masks.double().T).fill_diagonal_(0)
    assert correlation.abs().max() < 0.12, "columns are dropped one without the other"
    assert (masks.double().mean(0) - (1 - probability)).abs().max() < 0.06


def test_a_node_is_dropped_alike_whoever_else_is_there() -> None:
    block, weight = torch.randn(30, 80), torch.eye(80)
    nodes = torch.tensor([29, 3, 17])
    for probability in (0.3, 0.5):
        with seeded(4):
            every = dropout_linear([block], weight, probability)
        with seeded(4):
            some = dropout_linear([block[nodes]], weight, probability, nodes=nodes)
        assert torch.equal(every[nodes], some)
        with seeded(5):
            others = dropout_linear([block], weight, probability)
        assert not torch.equal(every, others)
        assert ((every != 0).sum(1).unique().numel()) > 1, "rows are not alike"


def test_without_dropout_it_is_a_product() -> None:
    blocks, weight = [torch.randn(5, 2), torch.randn(5, 3)], torch.randn(5, 4)
    expected = torch.cat(blocks, dim=1) @ weight
    assert torch.equal(dropout_linear(blocks, weight, 0.0), expected)
    assert torch.equal(dropout_linear(blocks, weight, 0.5, training=False), expected)


def test_numerical_gradient() -> None:
    blocks = [torch.randn(6, 2, dtype=torch.float64, requires_grad=True)]
    weight = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def function(block: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with seeded(6):
            return dropout_linear([block], weight, 0.5)

    assert torch.autograd.gradcheck(function, (*blocks, weight))


@each("probability", [1e-12, 1e-6, 7e-6])
def test_a_share_too_small_to_tell_drops_nothing(probability: float) -> None:
    x, weight = torch.randn(50, 4), torch.randn(4, 2)
    assert dropout(x, probability) is x
    assert torch.equal(dropout_linear([x], weight, probability), x @ weight)
