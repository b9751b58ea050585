"""Attention by hand against what torch differentiates, and against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.sparse import Operator, attend, attention
from h2gcn.sparse.lanes import LANES
from support.cases import each
from support.dropping import mask_of

SLOPE = 0.2


def pattern(m: int = 30, n: int = 40) -> Operator:
    """Return a pattern with rows of many lengths, one of them empty."""
    rng = np.random.default_rng(2)
    dense = rng.random((m, n)) < np.linspace(0.02, 0.9, m)[:, None]
    dense[3] = False
    dense[:, 5] = False
    return Operator(sp.csr_array(dense.astype(np.float32)))


def given(operator: Operator, heads: int, width: int) -> tuple[Tensor, ...]:
    """Return scores of rows and of columns, and what is summed."""
    (m, n), draw = operator.shape, torch.Generator().manual_seed(1)
    shapes = (heads, m), (heads, n), (n, heads, width)
    return tuple(
        torch.randn(shape, generator=draw).requires_grad_() for shape in shapes
    )


def with_gradients(out: Tensor, of: tuple[Tensor, ...]) -> list[Tensor]:
    outer = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
    return [out, *torch.autograd.grad(out, of, outer)]


def dense_attention(
    operator: Operator, own: Tensor, other: Tensor, z: Tensor, mask: Tensor
) -> Tensor:
    """Return the sums, with matrices [k, m, n] of scores."""
    there = torch.from_numpy(operator.scipy.toarray() > 0)
    scores = functional.leaky_relu(own[:, :, None] + other[:, None], SLOPE)
    powers = torch.exp(scores) * there
    alpha = powers / powers.sum(dim=2, keepdim=True).clamp(min=1e-30)
    return torch.einsum("kmn,nkd->mkd", alpha * mask, z)


SIZES = [(8, 8), (3, 8), (17, 8), (1, 10), (3, 4), (2, 16), (4, 1)]
"""Heads and their widths."""


@each(("heads", "width"), SIZES)
def test_both_ways_are_the_dense_formula(heads: int, width: int) -> None:
    operator = pattern()
    parts = given(operator, heads, width)
    expected = with_gradients(dense_attention(operator, *parts, torch.ones(())), parts)
    for by_hand in (True, False):
        out = attend(operator, *parts, slope=SLOPE, by_hand=by_hand)
        for ours, theirs in zip(with_gradients(out, parts), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        assert not out[3].any()


@each("probability", [0.5, 0.6])
@each(("heads", "width"), [(8, 8), (2, 10)])
def test_weights_and_what_is_summed_are_dropped(
    heads: int, width: int, probability: float
) -> None:
    operator = pattern()
    own, other, z = parts = given(operator, heads, width)
    n, matrix = operator.shape[1], operator.scipy
    torch.manual_seed(6)
    groups = -(-heads // LANES)
    drawn = mask_of(torch.arange(groups), LANES * matrix.nnz, probability)
    of_entries = drawn.view(groups, -1, LANES).transpose(1, 2).flatten(0, 1)[:heads]
    of_z = mask_of(torch.arange(n), heads * width, probability)
    rows, columns = operator.edges
    mask = torch.zeros(heads, *operator.shape)
    mask[:, rows, columns] = of_entries
    dropped = z * of_z.view(z.shape)
    expected = dense_attention(operator, own, other, dropped, mask)
    torch.manual_seed(6)
    ours = attend(operator, *parts, slope=SLOPE, probability=probability)
    for found, wanted in zip(
        with_gradients(ours, parts), with_gradients(expected, parts), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@each("by_hand", [True, False])
def test_what_is_dropped_is_right_on_average(by_hand: bool) -> None:
    operator = pattern(4, 6)
    parts = tuple(part.detach() for part in given(operator, 2, 8))
    expected = attend(operator, *parts, slope=SLOPE)
    torch.manual_seed(0)
    found = [
        attend(operator, *parts, slope=SLOPE, probability=0.3, by_hand=by_hand)
        for _ in range(4000)
    ]
    mean = torch.stack(found).mean(dim=0)
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.05)


@each("size", [1e4, -1e4])
def test_scores_of_any_size_have_a_finite_softmax(size: float) -> None:
    operator = pattern()
    own, other, z = given(operator, 2, 8)
    parts = (size * own.detach()).requires_grad_(), other, z
    by_hand, by_torch = (
        with_gradients(attend(operator, *parts, slope=SLOPE, by_hand=way), parts)
        for way in (True, False)
    )
    for ours, theirs in zip(by_hand, by_torch, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_what_is_no_number_stays_none() -> None:
    operator = pattern()
    own, other, z = given(operator, 2, 8)
    other = other.detach().clone()
    other[:, 7] = float("nan")
    rows, columns = operator.edges
    with torch.no_grad():
        out = attend(operator, own, other, z, slope=SLOPE)
    assert out[rows[columns == 7]].isnan().all()


def test_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = pattern(300, 200)
    for heads, width in [(8, 8), (2, 3)]:
        parts = given(operator, heads, width)

        def run(parts: tuple[Tensor, ...] = parts) -> list[Tensor]:
            torch.manual_seed(0)
            out = attend(operator, *parts, slope=SLOPE, probability=0.2)
            return with_gradients(out, parts)

        alone = run()
        monkeypatch.setattr(attention, "SHARED", 1)
        monkeypatch.setattr(attention, "count_threads", lambda: 3)
        for one, several in zip(alone, run(), strict=True):
            assert torch.equal(one, several)
        monkeypatch.undo()
