"""Distances of pairs of rows: by hand as torch differentiates them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from h2gcn.sparse import pair_distances, pairs as module


def tensors(n: int, m: int, width: int, seed: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    one, other = (torch.randn(n, width, generator=rng) for _ in range(2))
    ends = torch.randint(n, (2, m), generator=rng)
    return [one, other, ends, torch.randn(width, generator=rng)]


def test_it_is_the_formula() -> None:
    one = torch.tensor([[1.0, 2.0], [0.0, 4.0], [3.0, 3.0]])
    pairs = torch.tensor([[0, 2, 1], [1, 0, 1]])
    found = pair_distances(one, one, pairs, torch.tensor([1.0, 10.0]))
    assert found.tolist() == [1 + 40, 4 + 10, 0]


def gradients(
    made: Callable[..., torch.Tensor], parts: list[torch.Tensor], same: bool
) -> list[torch.Tensor]:
    one, other, ends, weights = (part.clone() for part in parts)
    for part in (one, other, weights):
        part.requires_grad_()
    z = made(one, one if same else other, ends, weights)
    (z * torch.linspace(-1, 1, len(z), dtype=z.dtype)).sum().backward()
    grads = [part.grad for part in (one, other, weights) if part.grad is not None]
    return [z.detach(), *grads]


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 9),
    m=st.integers(0, 40),
    width=st.integers(1, 70),
    same=st.booleans(),
    seed=st.integers(0, 99),
)
def test_by_hand_is_as_torch_says(
    n: int, m: int, width: int, same: bool, seed: int
) -> None:
    parts = tensors(n, m, width, seed)
    exact = [part.double() if part.is_floating_point() else part for part in parts]
    found = gradients(pair_distances, parts, same)
    expected = gradients(pair_distances, exact, same)  # not of 32 bits: by torch
    assert len(found) == (3 if same else 4)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_sides_that_are_not_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, ends, weights = tensors(6, 20, 8, 0)
    apart = [torch.stack([part, part], 2)[:, :, 0] for part in (one, other)]
    found = pair_distances(*apart, ends, weights.view(1, -1)[0])
    monkeypatch.setattr(module, "_by_hand", lambda *_: False)
    expected = pair_distances(one, other, ends, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
