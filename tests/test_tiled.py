"""Products a block of columns at a time, against torch's own."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from h2gcn import tiled
from h2gcn.sparse import Operator
from h2gcn.sparse_matrix import to_matrix
from h2gcn.tiled import Tiled, tile

CPU = torch.device("cpu")


def random_matrix(rows: int, columns: int, density: float, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(
        sp.random_array((rows, columns), density=density, rng=rng, dtype=np.float32)
    )


@given(
    st.integers(1, 30),
    st.integers(1, 40),
    st.floats(0, 1),
    st.integers(0, 99),
    st.integers(1, 3),
)
def test_products_are_torchs(
    rows: int, columns: int, density: float, seed: int, threads: int
) -> None:
    matrix = to_matrix(random_matrix(rows, columns, density, seed), CPU)
    dense = torch.randn(columns, tiled.WIDE + seed % 7)
    before, block = torch.get_num_threads(), tiled.BLOCK
    torch.set_num_threads(threads)
    tiled.BLOCK = 7
    try:
        ours = Tiled(matrix) @ dense  # type: ignore[arg-type]
    finally:
        tiled.BLOCK = block
        torch.set_num_threads(before)
    torch.testing.assert_close(ours, matrix @ dense, rtol=1e-5, atol=1e-5)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "BLOCK", 50)
    matrix = Tiled(to_matrix(random_matrix(400, 333, 0.2, 0), CPU))  # type: ignore[arg-type]
    dense = torch.randn(333, 64)
    first = matrix @ dense
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(matrix @ dense, first)


def test_only_what_gains_by_it_is_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "BLOCK", 10)
    full = random_matrix(20, 60, 0.9, 1)
    assert isinstance(tile(to_matrix(full, CPU)), Tiled)
    few_columns = to_matrix(full[:, :20], CPU)
    assert tile(few_columns) is few_columns
    few_entries = to_matrix(random_matrix(20, 60, 0.1, 1), CPU)
    assert tile(few_entries) is few_entries
    triplets = to_matrix(full, torch.device("meta"))
    assert tile(triplets) is triplets


def test_narrow_matrices_are_left_to_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiled, "BLOCK", 10)
    matrix = to_matrix(random_matrix(20, 60, 0.9, 1), CPU)
    narrow = torch.randn(60, 3)
    assert torch.equal(Tiled(matrix) @ narrow, matrix @ narrow)  # type: ignore[arg-type]


@pytest.mark.parametrize("symmetric", [False, True])
def test_an_operator_that_is_tiled_has_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, symmetric: bool
) -> None:
    half = random_matrix(60, 60, 0.9, 2)
    matrix = sp.csr_array(half + half.T) if symmetric else half
    plain = Operator(matrix, symmetric=symmetric)
    dense = torch.randn(60, 40, requires_grad=True)
    weight = torch.randn(60, 40)
    (expected,) = torch.autograd.grad(((plain @ dense) * weight).sum(), dense)
    monkeypatch.setattr(tiled, "BLOCK", 10)
    cut = Operator(matrix, symmetric=symmetric)
    product = cut @ dense
    (gradient,) = torch.autograd.grad((product * weight).sum(), dense)
    assert isinstance(cut._forward, Tiled)
    assert isinstance(cut._backward, Tiled)
    torch.testing.assert_close(product, plain @ dense, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-5)
