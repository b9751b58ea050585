"""Feature scaling: exact small examples, and what "auto" chooses."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from h2gcn.estimator import Scaler, choose_scaling, other_scalings
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features
from support.cases import each

ALL = np.arange(4)
X = np.array([[1, 0, 3], [0, 0, 0], [2, 2, 0], [0, 5, 0]], dtype=np.float32)


def features(x: np.ndarray, sparse: bool) -> Features:
    x = x.astype(np.float32)
    return CSR(x) if sparse else x


def dense(x: Features) -> np.ndarray:
    return x.toarray() if sp.issparse(x) else np.asarray(x)


# ----------------------------------------------------------------------------- rows


@each("sparse", [False, True])
def test_rows_are_divided_by_their_sums_and_zero_rows_stay_zero(sparse: bool) -> None:
    x = features(X, sparse)
    scaled = fit_scaler("rows", x, ALL)(x)
    assert sp.issparse(scaled) == sparse
    assert scaled.dtype == np.float32
    assert dense(scaled).tolist() == [
        [0.25, 0, 0.75],
        [0, 0, 0],
        [0.5, 0.5, 0],
        [0, 1, 0],
    ]


@each("sparse", [False, True])
def test_a_row_whose_entries_cancel_is_not_divided_by_zero(sparse: bool) -> None:
    scaled = Scaler("rows")(features(np.array([[1, -1], [3, 1]]), sparse))
    assert dense(scaled).tolist() == [[0, 0], [0.75, 0.25]]


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, (4, 3), elements=st.integers(0, 9)))
def test_rows_sum_to_one_or_zero(x: np.ndarray) -> None:
    for sparse in (False, True):
        sums = dense(Scaler("rows")(features(x, sparse))).sum(axis=1)
        np.testing.assert_allclose(sums, (x.sum(axis=1) > 0) * 1.0, rtol=1e-6)


# ------------------------------------------------------------------------- standard


def test_standard_by_hand() -> None:
    x = np.array([[1, 10], [3, 10], [5, 40]], dtype=np.float32)
    scaler = fit_scaler("standard", x, np.array([0, 1]))
    assert scaler.mean.tolist() == [2, 10]
    # The second column is constant in training: centred, not scaled.
    assert scaler.deviation.tolist() == [1, 1]
    assert scaler(x).tolist() == [[-1, 0], [1, 0], [3, 30]]
    assert scaler(x).dtype == np.float32


def test_standard_gives_the_training_rows_mean_0_and_deviation_1() -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(50, 4)) * [1, 10, 0.1, 3] + [0, 5, -1, 2]).astype(np.float32)
    train = np.arange(30)
    scaled = fit_scaler("standard", x, train)(x)[train]
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-4)


def test_only_the_training_rows_are_looked_at() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    other = x.copy()
    other[2:] = 1e6
    one, two = (fit_scaler("standard", v, np.array([0, 1])) for v in (x, other))
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.deviation, two.deviation)


def test_sparse_columns_of_mostly_zeros_are_scaled_but_not_centred() -> None:
    x = CSR(X)
    scaler = fit_scaler("standard", x, ALL)
    assert scaler.mean is not None
    # The last column has one entry in four rows; half of the others are filled.
    np.testing.assert_allclose(scaler.mean, [0.75, 1.75, 0], rtol=1e-6)
    np.testing.assert_allclose(scaler.deviation, X.std(axis=0), rtol=1e-6)
    scaled = scaler(x)
    assert isinstance(scaled, CSR)
    assert scaled.dtype == np.float32
    expected = (X - [0.75, 1.75, 0]) / X.std(axis=0)
    np.testing.assert_allclose(scaled.toarray(), expected, rtol=1e-5)


@each("fitted_sparse", [False, True])
def test_what_was_fitted_decides_not_the_layout_of_the_next_graph(
    fitted_sparse: bool,
) -> None:
    scaler = fit_scaler("standard", features(X, fitted_sparse), ALL)
    np.testing.assert_allclose(scaler(CSR(X)).toarray(), scaler(X), atol=1e-6)


@each(
    ("value", "sparse"),
    [
        *((0.0, False), (0.0, True), (1.0, False), (1.0, True), (0.1, False)),
        *((1e6, True), (-3.3, True)),
        (0.1, True),
        (1e6, False),
        (-3.3, False),
    ],
)
def test_constant_columns_are_not_scaled(value: float, sparse: bool) -> None:
    x = features(np.full((7, 1), value), sparse)
    scaler = fit_scaler("standard", x, np.arange(7))
    assert scaler.deviation.tolist() == [1]
    np.testing.assert_allclose(dense(scaler(x)), 0, atol=1e-6 * abs(value))


@each(("mean", "deviation"), [(40.7, 0.01), (2000, 1), (1e5, 10)], ids=str)
@each("sparse", [False, True])
def test_a_deviation_that_is_small_beside_the_mean_is_found(
    mean: float, deviation: float, sparse: bool
) -> None:
    """Check latitudes of one town, years of one decade, prices of one street."""
    rng = np.random.default_rng(0)
    x = (mean + deviation * rng.normal(size=(500, 1))).astype(np.float32)
    scaler = fit_scaler("standard", features(x, sparse), np.arange(500))
    expected = x.astype(np.float64).std(axis=0)
    np.testing.assert_allclose(scaler.deviation, expected, rtol=1e-2)


# ----------------------------------------------------------------------- none and auto


@each("sparse", [False, True])
def test_none_leaves_all_as_it_is(sparse: bool) -> None:
    x = features(X, sparse)
    assert fit_scaler("none", x, ALL)(x) is x


@each("kind", ["rows", "standard"])
@each("sparse", [False, True])
def test_scaling_leaves_its_input_alone(kind: str, sparse: bool) -> None:
    x = features(X, sparse)
    fit_scaler(kind, x, ALL)(x)
    np.testing.assert_array_equal(dense(x), X)


def bag_of_words() -> np.ndarray:
    return (np.random.default_rng(0).random((40, 20)) < 0.1) * 1.0


def one_hot() -> np.ndarray:
    return np.eye(5)[np.arange(40) % 5]


@each("sparse", [False, True])
@each(
    ("x", "chosen"),
    [
        (bag_of_words(), "rows"),
        (bag_of_words() * np.arange(1, 21), "rows"),
        (one_hot(), "rows"),
        (np.eye(4), "rows"),
        (np.zeros((4, 3)), "rows"),
        (np.random.default_rng(0).random((40, 5)), "standard"),
        (np.random.default_rng(0).normal(size=(40, 5)), "standard"),
        (bag_of_words() - 2 * np.eye(40, 20), "standard"),
        (np.c_[one_hot(), np.linspace(1e4, 9e4, 40)], "standard"),
        (np.c_[bag_of_words(), np.linspace(1e4, 9e4, 40)], "standard"),
    ],
    ids=[
        *("bag of words", "counts", "one-hot", "identity", "zeros"),
        *("dense", "signed", "sparse with a negative"),
        *("one-hot and income", "words and income"),
    ],
)
def test_auto_chooses_by_the_features(x: np.ndarray, chosen: str, sparse: bool) -> None:
    given = features(x, sparse)
    assert choose_scaling(given) == chosen
    assert fit_scaler("auto", given, np.arange(3)).kind == chosen


def test_what_else_is_worth_a_try() -> None:
    counts = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 2]], dtype=np.float32)
    assert other_scalings(counts) == ("none", "standard")
    assert other_scalings(counts - 1) == ("none",), "sums of such rows mean nothing"


def test_half_of_zeros_is_still_sparse() -> None:
    x = np.array([[1, 0, 2, 0], [0, 1, 0, 2]])
    assert choose_scaling(features(x, False)) == "rows"
    x[0, 1] = 1
    assert choose_scaling(features(x, False)) == "standard"


def test_auto_does_not_erase_a_lone_column() -> None:
    x = np.array([[0], [0], [5], [3]], dtype=np.float32)
    scaled = fit_scaler("auto", x, ALL)(x)
    assert scaled[2, 0] != scaled[3, 0]


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        InputError,
        match="^scaling must be one of 'auto', 'rows', 'standard', 'none', got "
        r"'row'; did you mean 'rows'\?",
    ):
        fit_scaler("row", X, ALL)


# ------------------------------------------------------------------- near the largest


@each("sparse", [False, True])
def test_sums_that_32_bits_cannot_hold_are_no_zeros(sparse: bool) -> None:
    x = features(np.array([[3e38, 3e38, 0], [1, 0, 3]]), sparse)
    scaled = fit_scaler("rows", x, np.arange(2))(x)
    np.testing.assert_allclose(dense(scaled), [[0.5, 0.5, 0], [0.25, 0, 0.75]], 1e-5)


def test_differences_that_32_bits_cannot_hold_are_finite() -> None:
    x = features(np.array([[3e38], [-3e38], [3e38], [3e38]]), False)
    scaled = fit_scaler("standard", x, ALL)(x)
    root = 3**0.5
    np.testing.assert_allclose(
        scaled[:, 0], [1 / root, -root, 1 / root, 1 / root], 1e-5
    )


def test_the_choice_is_made_of_numbers_that_are_finite() -> None:
    x = features(np.array([[3e38, 0, 0], [3e38, 0, 0], [0, 1, 0]]), False)
    assert choose_scaling(x) == "standard"
