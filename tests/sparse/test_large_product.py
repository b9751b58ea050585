"""Products with large dense matrices, against torch's own; the memory they use."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.sparse import LaidOut, Operator, large as memory, operator as large_product
from h2gcn.sparse.large import RowSums, Whole, kept_workspace
from h2gcn.sparse.memory import HUGE_PAGE
from h2gcn.sparse.operator import LargeMatrix, multiplier, to_matrix
from support.cases import each

CPU = torch.device("cpu")


def random_matrix(rows: int, columns: int, density: float, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(
        sp.random_array((rows, columns), density=density, rng=rng, dtype=np.float32)
    )


def large(matrix: sp.csr_array) -> LargeMatrix:
    return LargeMatrix(to_matrix(matrix, CPU))  # type: ignore[arg-type]


@given(
    st.integers(1, 30),
    st.integers(1, 40),
    st.floats(0, 1),
    st.integers(0, 99),
    st.sampled_from([1, 5, large_product.WIDE, 33, 64]),
)
def test_products_are_torchs(
    rows: int, columns: int, density: float, seed: int, width: int
) -> None:
    matrix = random_matrix(rows, columns, density, seed)
    dense = torch.randn(columns, width)
    expected = to_matrix(matrix, CPU) @ dense
    torch.testing.assert_close(large(matrix) @ dense, expected, rtol=1e-5, atol=1e-5)


def test_doubles_are_left_to_torch() -> None:
    matrix = random_matrix(20, 60, 0.5, 1).astype(np.float32)
    plain = to_matrix(matrix, CPU)
    doubled = LargeMatrix(plain.double())  # type: ignore[union-attr]
    dense = torch.randn(60, 40, dtype=torch.float64)
    assert torch.equal(doubled @ dense, plain.double() @ dense)  # type: ignore[union-attr]


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, dense = large(random_matrix(400, 333, 0.2, 0)), torch.randn(333, 64)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    first = matrix @ dense
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(matrix @ dense, first)


def test_only_large_matrices_on_the_processor_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_product, "LARGE", 60)
    matrix = random_matrix(20, 60, 0.9, 1)
    assert isinstance(multiplier(to_matrix(matrix, CPU)), LargeMatrix)
    few_columns = to_matrix(matrix[:, :59], CPU)
    assert multiplier(few_columns) is few_columns
    triplets = to_matrix(matrix, torch.device("meta"))
    assert multiplier(triplets) is triplets


@each("symmetric", [False, True])
def test_an_operator_has_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, symmetric: bool
) -> None:
    half = random_matrix(60, 60, 0.9, 2)
    matrix = sp.csr_array(half + half.T) if symmetric else half
    plain = Operator(matrix, symmetric=symmetric)
    dense = torch.randn(60, 40, requires_grad=True)
    weight = torch.randn(60, 40)
    (expected,) = torch.autograd.grad(((plain @ dense) * weight).sum(), dense)
    monkeypatch.setattr(large_product, "LARGE", 10)
    other = Operator(matrix, symmetric=symmetric)
    product = other @ dense
    (gradient,) = torch.autograd.grad((product * weight).sum(), dense)
    assert isinstance(other._forward, LargeMatrix)
    assert isinstance(other._backward, LargeMatrix)
    torch.testing.assert_close(product, plain @ dense, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-5)


def address(whole: Whole) -> int:
    return whole.numbers.data_ptr()


@pytest.fixture
def all_in_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MANY_BYTES", 0)


@pytest.mark.usefixtures("all_in_huge_pages")
def test_pages_that_are_kept_are_used_again() -> None:
    with kept_workspace():
        first = Whole(100, 10)
        assert first.numbers.shape == (100, 16)
        place = address(first)
        assert place % HUGE_PAGE == 0
        first.numbers[:] = 1
        del first
        second = Whole(10, 3)
        assert address(second) == place
        assert not second.numbers[:, 3:].any()  # those that are filled up
        del second
    assert not memory._KEPT


@pytest.mark.usefixtures("all_in_huge_pages")
def test_nothing_is_kept_unless_someone_keeps_it() -> None:
    Whole(100, 10)
    assert not memory._KEPT
    with kept_workspace():
        with kept_workspace():
            Whole(8, 1)
        assert len(memory._KEPT) == 1  # the outer one still does
    assert not memory._KEPT


@pytest.mark.usefixtures("all_in_huge_pages")
def test_what_is_in_use_is_not_given_to_others() -> None:
    with kept_workspace():
        one, other = Whole(8, 1), Whole(8, 1)
        one.numbers[:, 0], other.numbers[:, 0] = 1, 2
        assert one.numbers.sum() == 8
        del one, other
        assert len(memory._KEPT) == 2  # as many as were in use at one time


@pytest.mark.usefixtures("all_in_huge_pages")
def test_larger_pages_take_the_place_of_those_that_are_kept() -> None:
    rows = HUGE_PAGE // 16
    with kept_workspace():
        for count in (8, rows, 8):
            Whole(count, 16)
        assert [len(lot) for lot in memory._KEPT] == [16 * rows]


@pytest.mark.usefixtures("all_in_huge_pages")
def test_a_dense_matrix_needs_no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("mmap.MADV_HUGEPAGE", raising=False)
    assert Whole.of(torch.ones(8, 2)).numbers.sum() == 16


@pytest.mark.usefixtures("all_in_huge_pages")
@each(("model", "free"), [("h2gcn-nonlinear", True), ("h2gcn-1", False)])
def test_training_keeps_pages_no_longer_than_it_takes(
    model: str, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_product, "LARGE", 1)
    kept = []
    ring = np.roll(np.eye(6), 1, axis=0)
    split = Split(np.arange(4), np.array([4]), np.array([5]))
    adj, x = sp.csr_array(ring + ring.T), np.eye(6, dtype=np.float32)
    graph = Graph(x=x, adj=adj, y=np.arange(6) % 2, splits=(split,))
    NodeClassifier(model, epochs=2).fit(
        graph, on_epoch=lambda _: kept.append(bool(memory._KEPT))
    )
    assert kept == [free, free], "between products, or in use from step to step"
    assert not memory._KEPT


@each("width", [1, 10, 16, 64, 70])
def test_a_row_of_a_product_does_not_depend_on_the_others(width: int) -> None:
    matrix = random_matrix(50, 30, 0.2, 0)
    dense = torch.randn(30, width, generator=torch.Generator().manual_seed(1))
    whole = Whole.of(dense)
    found = RowSums(matrix).times(whole)
    expected = matrix.astype(np.float64) @ dense.double().numpy()
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    for rows in (np.arange(7, 31), np.array([3, 48]), np.arange(0)):
        assert torch.equal(
            RowSums(sp.csr_array(matrix[rows])).times(whole), found[rows]
        )


def test_large_matrices_alone_are_in_huge_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dense = torch.arange(60.0).view(20, 3)
    small = Whole.of(dense).numbers.clone()
    monkeypatch.setattr(memory, "MANY_BYTES", 0)
    whole = Whole.of(dense)
    assert whole.numbers.data_ptr() % HUGE_PAGE == 0
    assert torch.equal(small, whole.numbers)
    assert small.shape == (20, 16)


def test_more_entries_than_32_bits_count_are_multiplied_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matrix, dense = random_matrix(30, 20, 0.4, 7), torch.randn(20, 16)
    expected = RowSums(matrix).times(Whole.of(dense))
    cut = memory._addressed
    monkeypatch.setattr(memory, "_addressed", lambda starts: cut(starts, most=40))
    assert torch.equal(RowSums(matrix).times(Whole.of(dense)), expected)


@each("width", [1, 7, 64])
def test_a_matrix_that_is_laid_out_is_multiplied_column_by_column(width: int) -> None:
    matrix = random_matrix(50, 40, 0.2, 3)
    dense = np.random.default_rng(4).normal(size=(40, width)).astype(np.float32)
    pieces = [
        (slice(0, 15), dense[:15]),
        (slice(15, 40), np.asfortranarray(dense[15:])),
    ]
    found = LaidOut.of((40, width), pieces).times(matrix)
    np.testing.assert_allclose(found, matrix @ dense, rtol=1e-5, atol=1e-6)
    for column in range(width):
        alone = dense[:, column : column + 1]
        laid = LaidOut.of((40, 1), [(slice(0, 40), alone)])
        np.testing.assert_array_equal(laid.times(matrix)[:, 0], found[:, column])


def test_some_rows_laid_out_multiply_like_all() -> None:
    matrix = random_matrix(20, 40, 0.1, 3)
    dense = np.random.default_rng(4).normal(size=(40, 24)).astype(np.float32)
    seen = np.unique(matrix.indices).astype(np.int64)
    assert len(seen) < 40
    expected = LaidOut.of((40, 24), [(slice(0, 40), dense)]).times(matrix)
    rows = [(slice(0, len(seen)), dense[seen])]
    laid = LaidOut.of((len(seen), 24), rows, seen)
    np.testing.assert_array_equal(laid.times(matrix), expected)
    assert laid.among(matrix).shape == (20, len(seen))
