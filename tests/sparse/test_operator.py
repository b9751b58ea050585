"""Products with sparse matrices: values, gradients, rows, dropout."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, to_tensor
from support.cases import each
from support.graphs import NAMED


def random_matrix(m: int, n: int, seed: int = 0) -> sp.csr_array:
    """Return a sparse matrix with an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.4)
    dense[1] = 0
    dense[:, 2] = 0
    return sp.csr_array(dense.astype(np.float32))


def random_dense(n: int, columns: int = 3, seed: int = 1) -> Tensor:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, columns)).astype(np.float32)
    return torch.from_numpy(values).requires_grad_()


def materialize(operator: Operator) -> Tensor:
    """Return the matrix behind an operator, through products alone."""
    return operator @ torch.eye(operator.shape[1])


def gradients(matrix: Operator | Tensor, dense: Tensor, outer: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad((matrix @ dense * outer).sum(), dense)
    return gradient


(TAILED,) = build_matrices([RowRule()], NAMED["triangle with tail"])
MATRICES = {
    "wide": (random_matrix(4, 7), False),
    "tall": (random_matrix(8, 5), False),
    "square": (random_matrix(6, 6), False),
    "symmetric": (TAILED, True),
    "symmetric, unknown": (TAILED, False),
    "empty": (sp.csr_array((4, 4), dtype=np.float32), True),
    "unsorted": (random_matrix(6, 7)[:, [6, 0, 5, 1, 4, 2, 3]], False),
}


each_matrix = each("name", MATRICES)


def operator_of(name: str) -> Operator:
    """Return one of the matrices above as an operator."""
    matrix, symmetric = MATRICES[name]
    return Operator(matrix.copy(), symmetric=symmetric)


def dense_of(operator: Operator) -> Tensor:
    return torch.from_numpy(operator.scipy.toarray())


# ---------------------------------------------------------------------- products


@each_matrix
def test_the_product_is_the_dense_one(name: str) -> None:
    operator = operator_of(name)
    b = random_dense(operator.shape[1])
    product = operator @ b
    assert product.shape == (operator.shape[0], 3)
    assert product.dtype == torch.float32
    torch.testing.assert_close(product, dense_of(operator) @ b)


@each_matrix
def test_the_gradient_is_the_dense_one(name: str) -> None:
    operator = operator_of(name)
    b = random_dense(operator.shape[1])
    outer = random_dense(operator.shape[0], seed=2).detach()
    torch.testing.assert_close(
        gradients(operator, b, outer), gradients(dense_of(operator), b, outer)
    )


@each_matrix
def test_the_gradient_passes_through_two_products(name: str) -> None:
    operator = operator_of(name)
    b = random_dense(operator.shape[1])
    back = Operator(sp.csr_array(operator.scipy.T))
    dense = dense_of(operator)
    outer = random_dense(operator.shape[1], seed=2).detach()
    ours = torch.autograd.grad((back @ (operator @ b) * outer).sum(), b)
    theirs = torch.autograd.grad((dense.T @ (dense @ b) * outer).sum(), b)
    torch.testing.assert_close(ours, theirs)


def test_a_dense_operand_may_be_a_view() -> None:
    operator = Operator(random_matrix(4, 7))
    wide = random_dense(3, 7).detach()
    torch.testing.assert_close(operator @ wide.T, dense_of(operator) @ wide.T)
    b = random_dense(7)
    # A sum has an expanded gradient, all strides zero.
    (gradient,) = torch.autograd.grad((operator @ b).sum(), b)
    torch.testing.assert_close(gradient, dense_of(operator).T @ torch.ones(4, 3))


def test_a_symmetric_operator_is_its_own_transpose() -> None:
    (matrix,) = build_matrices([RowRule()], NAMED["star"])
    symmetric = Operator(matrix, symmetric=True)
    assert symmetric.T is symmetric
    other = Operator(matrix)
    assert other.T is other.T  # built once
    torch.testing.assert_close(materialize(other.T), materialize(symmetric))


def test_unsorted_and_double_precision_matrices_are_taken() -> None:
    unsorted = sp.csr_array(
        (np.array([2.0, 1.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])),
        shape=(2, 3),
    )
    operator = Operator(unsorted)
    assert materialize(operator).tolist() == [[1, 0, 2], [0, 3, 0]]
    assert [ends.tolist() for ends in operator.coo] == [[0, 0, 1], [0, 2, 1]]
    assert unsorted.indices.tolist() == [2, 0, 1]


# -------------------------------------------------------------------------- rows


@each("index", [[0], [3, 1], [2, 2, 0], []])
def test_rows_are_an_operator_of_their_own(index: list[int]) -> None:
    operator = Operator(TAILED, symmetric=True)
    rows = operator.rows(np.array(index, dtype=np.int64))
    expected = dense_of(operator)[index]
    assert rows.shape == (len(index), 5)
    torch.testing.assert_close(materialize(rows), expected)
    # The rows of a symmetric matrix are not symmetric: their own transpose serves.
    b, outer = random_dense(5), random_dense(len(index), seed=4).detach()
    torch.testing.assert_close(gradients(rows, b, outer), gradients(expected, b, outer))


# ----------------------------------------------------------------------- dropout


@each_matrix
def test_dropout_keeps_the_pattern_and_scales_the_rest(name: str) -> None:
    operator = operator_of(name)
    torch.manual_seed(0)
    dropped = materialize(operator.dropout(0.25))
    original = dense_of(operator)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], original[kept] / 0.75)


def test_dropout_drops_and_keeps_some() -> None:
    operator = Operator(random_matrix(20, 20))
    torch.manual_seed(0)
    kept = int((materialize(operator.dropout(0.5)) != 0).sum())
    assert 0.3 * operator.scipy.nnz < kept < 0.7 * operator.scipy.nnz


@each_matrix
def test_dropout_leaves_the_operator_as_it_was(name: str) -> None:
    operator = operator_of(name)
    before = dense_of(operator).clone()
    operator.dropout(0.9)
    torch.testing.assert_close(materialize(operator), before)


def test_dropout_is_unbiased() -> None:
    operator = Operator(random_matrix(5, 6))
    torch.manual_seed(0)
    draws = torch.stack([materialize(operator.dropout(0.5)) for _ in range(2000)])
    # Each entry is 0 or twice itself: the standard error of the mean is |s|/√2000.
    error = (draws.mean(dim=0) - dense_of(operator)).abs()
    assert (error <= 5 * dense_of(operator).abs() / 2000**0.5).all()


@each_matrix
@each("probability", [0.3, 0.7])
def test_the_gradient_is_that_of_the_matrix_as_it_was_dropped(
    name: str, probability: float
) -> None:
    operator = operator_of(name)
    torch.manual_seed(3)
    dropped = operator.dropout(probability)
    matrix = materialize(dropped)
    b = random_dense(operator.shape[1])
    outer = random_dense(operator.shape[0], seed=2).detach()
    torch.testing.assert_close(dropped @ b, matrix @ b)
    torch.testing.assert_close(
        gradients(dropped, b, outer), gradients(matrix, b, outer)
    )


@each_matrix
def test_dropout_of_nothing_changes_nothing(name: str) -> None:
    operator = operator_of(name)
    torch.testing.assert_close(materialize(operator.dropout(0.0)), dense_of(operator))


# ------------------------------------------------------------------- independence


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


def test_doubles_are_multiplied_as_doubles() -> None:
    operator = Operator(random_matrix(6, 7))
    dense = random_dense(7).detach().double()
    expected = dense_of(operator).double() @ dense
    torch.testing.assert_close(operator @ dense, expected, rtol=1e-14, atol=1e-14)


# ------------------------------------------------------------------------- others


def test_features_become_a_tensor_or_an_operator() -> None:
    matrix = random_matrix(5, 4)
    weight = random_dense(4).detach()
    stored, dense = to_tensor(matrix), to_tensor(matrix.toarray())
    assert isinstance(stored, Operator)
    assert isinstance(dense, Tensor)
    torch.testing.assert_close(stored @ weight, dense @ weight)


def test_a_matrix_without_entries_gives_zeros() -> None:
    empty = Operator(CSR((3, 4), dtype=np.float32))
    assert torch.equal(empty @ torch.full((4, 2), 7.0), torch.zeros(3, 2))
    assert (empty @ torch.zeros(4, 0)).shape == (3, 0)


def test_wide_indices_are_narrowed_and_values_shared() -> None:
    matrix = CSR(np.eye(3, dtype=np.float32))
    wide = CSR((matrix.data, np.arange(3), np.arange(4)), shape=(3, 3))
    wide.indices, wide.indptr = np.arange(3), np.arange(4)
    operator = Operator(wide)
    assert operator.scipy.indices.dtype == operator.scipy.indptr.dtype == np.int32
    assert np.shares_memory(operator.scipy.data, wide.data)
    assert wide.indices.dtype == np.int64, "what was given stays"
