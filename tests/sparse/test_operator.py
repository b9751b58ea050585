"""Products with sparse matrices: values, gradients, rows, dropout, samples."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.rings import normalise
from h2gcn.sparse import Operator, Target, operator as sparse_matrix
from h2gcn.sparse.operator import Strips, Triplets, to_tensor
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


def materialise(operator: Operator) -> Tensor:
    """Return the matrix behind an operator, through products alone."""
    return operator @ torch.eye(operator.shape[1])


def gradients(matrix: Operator | Tensor, dense: Tensor, outer: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad((matrix @ dense * outer).sum(), dense)
    return gradient


MATRICES = {
    "wide": (random_matrix(4, 7), False),
    "tall": (random_matrix(8, 5), False),
    "square": (random_matrix(6, 6), False),
    "symmetric": (normalise(NAMED["triangle with tail"]), True),
    "symmetric, unknown": (normalise(NAMED["triangle with tail"]), False),
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
    matrix = normalise(NAMED["star"])
    symmetric = Operator(matrix, symmetric=True)
    assert symmetric.transposed is symmetric.matrix
    other = Operator(matrix)
    assert other.transposed is not other.matrix
    assert other.transposed is other.transposed  # built once


def test_unsorted_and_double_precision_matrices_are_taken() -> None:
    unsorted = sp.csr_array(
        (np.array([2.0, 1.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])),
        shape=(2, 3),
    )
    operator = Operator(unsorted)
    assert materialise(operator).tolist() == [[1, 0, 2], [0, 3, 0]]
    assert [ends.tolist() for ends in operator.edges] == [[0, 0, 1], [0, 2, 1]]
    assert unsorted.indices.tolist() == [2, 0, 1]


# -------------------------------------------------------------------------- rows


@each("index", [[0], [3, 1], [2, 2, 0], []])
def test_rows_are_an_operator_of_their_own(index: list[int]) -> None:
    operator = Operator(normalise(NAMED["triangle with tail"]), symmetric=True)
    rows = operator.rows(np.array(index, dtype=np.int64))
    expected = dense_of(operator)[index]
    assert rows.shape == (len(index), 5)
    torch.testing.assert_close(materialise(rows), expected)
    # The rows of a symmetric matrix are not symmetric: their own transpose serves.
    b, outer = random_dense(5), random_dense(len(index), seed=4).detach()
    torch.testing.assert_close(gradients(rows, b, outer), gradients(expected, b, outer))


def test_target_of_cuts_the_same_rows_out_of_each_operator() -> None:
    operators = [
        Operator(normalise(NAMED[name]), symmetric=True) for name in ("path", "star")
    ]
    index = np.array([4, 0, 2])
    target = Target.of(operators, index)
    assert target.index.tolist() == [4, 0, 2]
    assert target.index.dtype == torch.int64
    assert len(target.operators) == 2
    for operator, rows in zip(operators, target.operators, strict=True):
        torch.testing.assert_close(materialise(rows), dense_of(operator)[index])


def test_target_of_no_operators_keeps_the_index() -> None:
    target = Target.of((), np.array([1, 0]))
    assert target.index.tolist() == [1, 0]
    assert target.operators == ()


# ----------------------------------------------------------------------- dropout


@each_matrix
def test_dropout_keeps_the_pattern_and_scales_the_rest(name: str) -> None:
    operator = operator_of(name)
    torch.manual_seed(0)
    dropped = materialise(operator.dropout(0.25))
    original = dense_of(operator)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], original[kept] / 0.75)


def test_dropout_drops_and_keeps_some() -> None:
    operator = Operator(random_matrix(20, 20))
    torch.manual_seed(0)
    kept = int((materialise(operator.dropout(0.5)) != 0).sum())
    assert 0.3 * operator.scipy.nnz < kept < 0.7 * operator.scipy.nnz


@each_matrix
def test_dropout_leaves_the_operator_as_it_was(name: str) -> None:
    operator = operator_of(name)
    before = dense_of(operator).clone()
    operator.dropout(0.9)
    torch.testing.assert_close(materialise(operator), before)


def test_dropout_is_unbiased() -> None:
    operator = Operator(random_matrix(5, 6))
    torch.manual_seed(0)
    draws = torch.stack([materialise(operator.dropout(0.5)) for _ in range(2000)])
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
    matrix = materialise(dropped)
    b = random_dense(operator.shape[1])
    outer = random_dense(operator.shape[0], seed=2).detach()
    torch.testing.assert_close(dropped @ b, matrix @ b)
    torch.testing.assert_close(
        gradients(dropped, b, outer), gradients(matrix, b, outer)
    )


@each_matrix
def test_dropout_of_nothing_changes_nothing(name: str) -> None:
    operator = operator_of(name)
    torch.testing.assert_close(materialise(operator.dropout(0.0)), dense_of(operator))


# ----------------------------------------------------------------------- samples


def row_means(lengths: list[int], n: int = 8) -> Operator:
    """Return means over the first 0, 1, … of n things, one row a length."""
    dense = np.zeros((len(lengths), n), dtype=np.float32)
    for row, length in zip(dense, lengths, strict=True):
        row[:length] = 1 / max(length, 1)
    return Operator(sp.csr_array(dense))


@each_matrix
@each("k", [1, 2, 3, 7])
def test_a_sample_keeps_k_entries_of_long_rows_and_all_of_short_ones(
    name: str, k: int
) -> None:
    operator = operator_of(name)
    original = dense_of(operator)
    lengths = (original != 0).sum(dim=1, keepdim=True)
    torch.manual_seed(0)
    sampled = materialise(operator.sample(k))
    kept = sampled != 0
    assert torch.equal(kept.sum(dim=1, keepdim=True), lengths.clamp(max=k))
    scaled = original * lengths / lengths.clamp(min=1, max=k)
    torch.testing.assert_close(sampled[kept], scaled[kept])
    short = lengths[:, 0] <= k
    assert torch.equal(sampled[short], original[short])


def test_a_sample_of_means_is_the_mean_over_the_sample() -> None:
    operator = row_means([0, 2, 3, 5, 8])
    torch.manual_seed(0)
    sampled = materialise(operator.sample(3))
    counts = (sampled != 0).sum(dim=1)
    assert counts.tolist() == [0, 2, 3, 3, 3]
    torch.testing.assert_close(sampled[1, :2], torch.full((2,), 1 / 2))
    for row in sampled[2:]:
        torch.testing.assert_close(row[row != 0], torch.full((3,), 1 / 3))


def test_every_subset_is_drawn_as_often() -> None:
    operator = row_means([5, 4, 5])
    torch.manual_seed(0)
    draws = 4000
    subsets: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        kept = (materialise(operator.sample(2))[2] != 0).nonzero().flatten()
        pair = tuple(kept.tolist())
        subsets[pair] = subsets.get(pair, 0) + 1
    assert len(subsets) == 10
    # Binomial with p = 1/10: five standard deviations either side.
    spread = 5 * (draws * 0.1 * 0.9) ** 0.5
    assert all(abs(count - draws / 10) < spread for count in subsets.values())


def test_rows_draw_apart_from_each_other() -> None:
    operator = row_means([8] * 40)
    torch.manual_seed(0)
    first = materialise(operator.sample(1)).argmax(dim=1)
    assert len(first.unique()) > 4


def test_a_sample_is_unbiased() -> None:
    operator = Operator(random_matrix(5, 6))
    torch.manual_seed(0)
    draws = torch.stack([materialise(operator.sample(1)) for _ in range(4000)])
    original = dense_of(operator)
    # An entry of a row of d is d times itself in 1 draw of d, else 0.
    lengths = (original != 0).sum(dim=1, keepdim=True)
    error = (draws.mean(dim=0) - original).abs()
    bound = 5 * original.abs() * ((lengths - 1).clamp(min=0) / 4000) ** 0.5
    assert (error <= bound + 1e-5).all()
    assert (lengths > 1).any()


def test_a_sample_is_drawn_anew_and_by_the_global_seed() -> None:
    operator = row_means([8] * 10)
    torch.manual_seed(5)
    one, two = (materialise(operator.sample(3)) for _ in range(2))
    torch.manual_seed(5)
    again = materialise(operator.sample(3))
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


@each_matrix
def test_a_sample_leaves_the_operator_as_it_was(name: str) -> None:
    operator = operator_of(name)
    before = dense_of(operator).clone()
    operator.sample(1)
    torch.testing.assert_close(materialise(operator), before)


@each_matrix
@each("k", [1, 2])
def test_the_gradient_is_that_of_the_matrix_as_it_was_sampled(
    name: str, k: int
) -> None:
    operator = operator_of(name)
    torch.manual_seed(3)
    sampled = operator.sample(k)
    matrix = materialise(sampled)
    b = random_dense(operator.shape[1])
    outer = random_dense(operator.shape[0], seed=2).detach()
    torch.testing.assert_close(sampled @ b, matrix @ b)
    torch.testing.assert_close(
        gradients(sampled, b, outer), gradients(matrix, b, outer)
    )


@each("index", [[3], [4, 1, 4], []])
def test_the_rows_of_a_target_can_be_sampled(index: list[int]) -> None:
    operator = row_means([0, 2, 3, 5, 8])
    rows = operator.rows(np.array(index, dtype=np.int64))
    torch.manual_seed(0)
    sampled = rows.sample(2)
    matrix = materialise(sampled)
    assert matrix.shape == (len(index), 8)
    assert (matrix != 0).sum(dim=1).tolist() == [2] * len(index)
    assert ((matrix != 0) <= (dense_of(operator)[index] != 0)).all()
    b, outer = random_dense(8), random_dense(len(index), seed=4).detach()
    torch.testing.assert_close(
        gradients(sampled, b, outer), gradients(matrix, b, outer)
    )


@each_matrix
def test_a_sample_larger_than_any_number_of_columns_is_everything(
    name: str,
) -> None:
    operator = operator_of(name)
    assert torch.equal(materialise(operator.sample(10**30)), dense_of(operator))


@each("k", [0, -1, 1.5, True])
def test_a_sample_of_nothing_is_refused(k: object) -> None:
    with pytest.raises(
        InputError,
        match=f"k must be an integer, at least 1, got {k}",
    ):
        row_means([2]).sample(k)


# ---------------------------------------------------------------- other products


def gathered_as(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """Return the operator as it would be where torch has no CSR product."""
    monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", ())
    other = Operator(operator.scipy, symmetric=operator.symmetric)
    assert isinstance(other.matrix, Triplets)
    return other


@each_matrix
def test_gathering_and_adding_gives_the_same_product(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = operator_of(name)
    gathered = gathered_as(operator, monkeypatch)
    b = random_dense(operator.shape[1])
    outer = random_dense(operator.shape[0], seed=2).detach()
    torch.testing.assert_close(gathered @ b, operator @ b)
    torch.testing.assert_close(
        gradients(gathered, b, outer), gradients(operator, b, outer)
    )


@each_matrix
def test_dropped_entries_are_gathered_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = gathered_as(operator_of(name), monkeypatch)
    torch.manual_seed(0)
    dropped = gathered.dropout(0.5)
    matrix = materialise(dropped)
    b = random_dense(gathered.shape[1])
    outer = random_dense(gathered.shape[0], seed=2).detach()
    torch.testing.assert_close(
        gradients(dropped, b, outer), gradients(matrix, b, outer)
    )


@each_matrix
def test_sampled_entries_are_gathered_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = operator_of(name)
    gathered = gathered_as(operator, monkeypatch)
    torch.manual_seed(0)
    expected = materialise(operator.sample(2))
    torch.manual_seed(0)
    sampled = gathered.sample(2)
    torch.testing.assert_close(materialise(sampled), expected)
    b = random_dense(gathered.shape[1])
    outer = random_dense(gathered.shape[0], seed=2).detach()
    torch.testing.assert_close(
        gradients(sampled, b, outer), gradients(expected, b, outer)
    )


def test_features_become_a_tensor_or_an_operator() -> None:
    matrix = random_matrix(5, 4)
    weight = random_dense(4).detach()
    stored, dense = to_tensor(matrix), to_tensor(matrix.toarray())
    assert isinstance(stored, Operator)
    assert isinstance(dense, Tensor)
    torch.testing.assert_close(stored @ weight, dense @ weight)


def test_few_long_rows_are_multiplied_strip_by_strip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("h2gcn.sparse.operator.STRIP", 8)
    monkeypatch.setattr("h2gcn.sparse.operator.STRIP_ENTRIES", 2)
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((37, 5)).astype(np.float32)
    dense[rng.random(dense.shape) < 0.3] = 0
    strips = Strips.of_transposed(CSR(dense))
    assert strips is not None
    given = torch.from_numpy(rng.standard_normal((37, 4)).astype(np.float32))
    expected = torch.from_numpy(dense.T) @ given
    torch.testing.assert_close(strips @ given, expected)
    # And so the gradient of a product with such a matrix.
    weight = torch.ones(5, 4, requires_grad=True)
    (Operator(CSR(dense)) @ weight * given).sum().backward()
    torch.testing.assert_close(weight.grad, expected)
    assert Strips.of_transposed(CSR(dense[:8])) is None, "one strip is the whole"
    assert Strips.of_transposed(CSR(np.eye(37, dtype=np.float32))) is None, "short"


@each("width", [1, 3, 8, 12, 63, 65])
def test_narrow_products_of_long_rows(width: int) -> None:
    rng = np.random.default_rng(width)
    matrix = rng.standard_normal((9, 200)).astype(np.float32)
    full = CSR(np.tile(matrix, (50, 1)))  # rows long enough to be worth eight columns
    given = torch.from_numpy(rng.standard_normal((200, width)).astype(np.float32))
    found = Operator(full) @ given
    assert found.is_contiguous()
    torch.testing.assert_close(found, torch.from_numpy(full.toarray()) @ given)


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
