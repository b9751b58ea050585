"""Products with sparse matrices: values, gradients, rows, dropout."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, WeightedOperator, to_tensor
from support.cases import each
from support.graphs import NAMED


def random_matrix(m: int, n: int) -> CSR:
    """Return a sparse matrix with an empty row and an empty column."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.4)
    dense[1] = dense[:, 2] = 0
    return CSR(dense.astype(np.float32))


(TRIANGLE,) = build_matrices([RowRule()], NAMED["triangle with tail"])
MATRICES = {
    "wide": (random_matrix(4, 7), False),
    "tall": (random_matrix(8, 5), False),
    "symmetric": (TRIANGLE, True),
    "symmetric, unknown": (TRIANGLE, False),
    "empty": (CSR((4, 4), dtype=np.float32), True),
    "unsorted": (random_matrix(6, 7)[:, [6, 0, 5, 1, 4, 2, 3]], False),
}


@pytest.fixture(params=MATRICES)
def operator(request: pytest.FixtureRequest) -> Operator:
    matrix, symmetric = MATRICES[request.param]
    return Operator(matrix.copy(), symmetric=symmetric)


def dense_of(operator: Operator) -> Tensor:
    return torch.from_numpy(operator.scipy.toarray())


def assert_same_products(matrix: Operator | WeightedOperator, dense: Tensor) -> None:
    """Compare products, their gradients, and those of a product with the transpose."""
    assert matrix.shape == dense.shape
    b = torch.randn(dense.shape[1], 3, requires_grad=True)
    outer = torch.randn(len(dense), 3)
    torch.testing.assert_close(matrix @ b, dense @ b)
    torch.testing.assert_close(matrix.row_norms(), dense.norm(dim=1))
    for ours, theirs in (
        (matrix @ b * outer, dense @ b * outer),
        (matrix @ b, dense @ b),  # the gradient of its sum has strides of zero
        (matrix.T @ (matrix @ b) * b, dense.T @ (dense @ b) * b),
    ):
        torch.testing.assert_close(
            torch.autograd.grad(ours.sum(), b), torch.autograd.grad(theirs.sum(), b)
        )


def test_products_and_gradients_are_those_of_the_dense_matrix(
    operator: Operator,
) -> None:
    assert_same_products(operator, dense_of(operator))
    assert_same_products(operator.for_many_products(), dense_of(operator))
    for index in ([0], [3, 1], [2, 2, 0], []):
        rows = operator.rows(np.array(index, dtype=np.int64))
        assert_same_products(rows, dense_of(operator)[index])


@each("p", [0.0, 0.25, 0.75])
def test_dropped_entries_are_zero_in_products_and_gradients(
    operator: Operator, p: float
) -> None:
    before = dense_of(operator)
    dropped = operator.dropout(p)
    matrix = dropped @ torch.eye(operator.shape[1])
    torch.testing.assert_close(matrix[matrix != 0], before[matrix != 0] / (1 - p))
    assert_same_products(dropped, matrix)
    torch.testing.assert_close(operator @ torch.eye(operator.shape[1]), before)


def test_dropout_is_unbiased() -> None:
    operator = Operator(random_matrix(5, 6))
    torch.manual_seed(0)
    draws = [operator.dropout(0.5) @ torch.eye(6) for _ in range(2000)]
    # Each entry is 0 or twice itself: the standard error of the mean is |s|/√2000.
    error = (torch.stack(draws).mean(dim=0) - dense_of(operator)).abs()
    assert (error <= 5 * dense_of(operator).abs() / 2000**0.5).all()


def test_the_transpose_is_built_once() -> None:
    symmetric, other = Operator(TRIANGLE, symmetric=True), Operator(TRIANGLE)
    assert symmetric.T is symmetric
    assert other.T is other.T


def test_matrices_of_other_types_are_taken_and_left_as_they_are() -> None:
    unsorted = sp.csr_array(
        (np.array([2.0, 1.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])),
        shape=(2, 3),
    )
    operator = Operator(unsorted)
    assert dense_of(operator).tolist() == [[1, 0, 2], [0, 3, 0]]
    assert [ends.tolist() for ends in operator.coo] == [[0, 0, 1], [0, 2, 1]]
    assert unsorted.indices.tolist() == [2, 0, 1]

    wide = CSR(np.eye(3, dtype=np.float32))
    wide.indices, wide.indptr = np.arange(3), np.arange(4)
    operator = Operator(wide)
    assert operator.scipy.indices.dtype == operator.scipy.indptr.dtype == np.int32
    assert np.shares_memory(operator.scipy.data, wide.data)
    assert wide.indices.dtype == np.int64


@each("width", [1, 7, 16, 64, 130])
def test_an_element_depends_on_its_row_and_column_alone(width: int) -> None:
    matrix = CSR(sp.random_array((60, 40), density=0.3, dtype=np.float32, rng=0))
    dense = torch.randn(40, width)
    expected = Operator(matrix) @ dense
    for rows in ([3], [59, 0, 3], list(range(7, 31))):
        some = Operator(CSR(matrix[rows])) @ dense
        assert torch.equal(some, expected[rows])
    for columns in ([0], [width - 1], [*range(width // 2, width)]):
        assert torch.equal(Operator(matrix) @ dense[:, columns], expected[:, columns])


def test_threads_do_not_change_a_bit() -> None:
    matrix = CSR(sp.random_array((4000, 500), density=0.1, dtype=np.float32, rng=0))
    operator, dense = Operator(matrix), torch.randn(500, 16)
    torch.set_num_threads(1)
    alone = operator @ dense
    torch.set_num_threads(3)
    assert torch.equal(operator @ dense, alone)


def test_doubles_are_multiplied_as_doubles(operator: Operator) -> None:
    dense = torch.randn(operator.shape[1], 3, dtype=torch.float64)
    expected = dense_of(operator).double() @ dense
    torch.testing.assert_close(operator @ dense, expected, rtol=1e-14, atol=1e-14)
    assert (operator @ dense[:, :0]).shape == (operator.shape[0], 0)


def test_features_become_a_tensor_or_an_operator() -> None:
    matrix, weight = random_matrix(5, 4), torch.randn(4, 2)
    stored, dense = to_tensor(matrix), to_tensor(matrix.toarray())
    assert isinstance(stored, Operator)
    assert isinstance(dense, Tensor)
    torch.testing.assert_close(stored @ weight, dense @ weight)


def test_operands_with_other_rows_are_refused():
    operator = Operator(random_matrix(4, 7))
    for rows in (6, 8):
        with pytest.raises(ValueError, match=f"{rows} rows do not match 7 columns"):
            operator @ torch.ones(rows, 2)
