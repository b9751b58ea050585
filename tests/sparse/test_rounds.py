"""Rounds by hand next to what torch differentiates, and products that are tiled."""

import itertools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import Operator, Paths, Sheet, Target, seeded
from h2gcn.sparse.operator import Products, TiledMatrix, csr_tensor, multiplier
from h2gcn.sparse.tiles import COLUMN, Groups, group_rows
from support.cases import each

NODES, WIDTH = 40, 16


def operators_of(n_rings: int, rows: np.ndarray | None = None) -> list[Operator]:
    """Return matrices that are not symmetric; rows are empty, all of the third.

    As in normalised rings, an entry is what its row has times what its column has.
    """
    found = []
    for ring in range(n_rings):
        rng = np.random.default_rng(ring)
        values = np.outer(*(0.2 + rng.random((2, NODES))))
        dense = values * (rng.random((NODES, NODES)) < 0.3)
        dense[ring::7] = 0
        dense *= ring != 2
        matrix = CSR(sp.csr_array(dense.astype(np.float32)))
        found.append(Operator(matrix if rows is None else CSR(matrix[rows])))
    return found


@each("classes", [1, 5, 8])
@each("probability", [0.0, 0.3, 0.5])
@each("some", [False, True], ids=["all", "some"])
@each("large", [False, True], ids=["small", "large"])
@each(("n_rings", "final"), [(2, (0, 1, 2)), (2, (0, 2)), (1, (1,)), (3, (0, 1, 3))])
def test_by_hand_is_what_torch_differentiates(
    n_rings: int,
    final: tuple[int, ...],
    large: bool,
    some: bool,
    probability: float,
    classes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if large:  # as from 65,536 nodes on, and in huge pages
        monkeypatch.setattr("h2gcn.sparse.rounds.LARGE", 1)
        monkeypatch.setattr("h2gcn.sparse.large.MANY_BYTES", 1)
    torch.manual_seed(0)
    paths = Paths(n_rings, final)
    blocks = sum(n_rings**k for k in final)
    r = torch.randn(NODES, WIDTH, requires_grad=True)
    weight = torch.randn(blocks * WIDTH, classes, requires_grad=True)
    rows = np.array([3, 39, 3, 0, 21, 7]) if some else np.arange(NODES)
    index = torch.from_numpy(rows) if some else None
    rings, last = operators_of(n_rings), operators_of(n_rings, rows)

    target = None if index is None else Target(index, tuple(last))
    sheet = Sheet(paths, rings)

    def by_hand() -> Tensor:
        return sheet.logits(r, weight, target, probability)

    def by_torch() -> Tensor:
        if probability:
            return paths.dropped(r, weight, probability, rings, target)
        return paths.outer(paths.inner(r, weight, rings), rings, target)

    def found(way: Callable[[], Tensor]) -> list[Tensor]:
        with seeded(4):
            logits = way()
        assert logits.shape == (len(rows), classes)
        grads = torch.autograd.grad(logits.square().sum(), [r, weight])
        return [logits.detach(), *grads]

    ours, again, theirs = found(by_hand), found(by_hand), found(by_torch)
    for one, other, expected in zip(ours, again, theirs, strict=True):
        assert torch.equal(one, other), "the same bits"
        scale = float(expected.abs().max())
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5 * scale)


@each("probability", [0.0, 0.5])
def test_gradients_of_an_earlier_pass_are_refused(probability: float) -> None:
    paths, rings = Paths(2, (0, 1, 2)), operators_of(2)
    sheet = Sheet(paths, rings)
    weight = torch.randn(7 * WIDTH, 3, requires_grad=True)

    def logits() -> Tensor:
        r = torch.randn(NODES, WIDTH, requires_grad=True)
        return sheet.logits(r, weight, None, probability)

    first, second = logits(), logits()
    second.sum().backward()
    for overwritten in (first, second):
        with pytest.raises(RuntimeError):
            overwritten.sum().backward()


@each("width", [1, 3, 4, 7, 8, 15, 16, 48, 64, 80, 128])
@each("threads", [1, 2])
@each("most", [0, 16, 64], ids=["rows", "sliced", "groups"])
def test_products_are_written_to_where_they_belong(
    width: int, threads: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.sparse.operator.SHARED", 1)
    if most:
        group_all(monkeypatch)
        monkeypatch.setattr("h2gcn.sparse.tiles.columns_at_once", lambda: most)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    one, other = operators_of(2)
    given = torch.randn(NODES, 2 * width)  # two matrices side by side
    dense = given[:, :width], given[:, width:]
    expected = [
        torch.from_numpy(op.scipy.toarray()) @ part
        for op, part in zip((one, other), dense, strict=True)
    ]
    matrices = [TiledMatrix(op.matrix) for op in (one, other)]  # type: ignore[arg-type]
    wide = torch.full((NODES, 3 * width), torch.nan)
    first, middle, last = wide.split(width, dim=1)
    Products(list(zip(matrices, dense, (middle, middle), strict=True))).write(width)
    torch.testing.assert_close(middle, sum(expected))
    assert wide.isnan().sum() == 2 * first.numel(), "nothing beside it is touched"
    Products(list(zip(matrices, dense, (middle, last), strict=True))).write(width)
    torch.testing.assert_close(middle, expected[0])
    torch.testing.assert_close(last, expected[1])
    Products([(matrices[0], dense[0], middle)], add=True).write(width)
    torch.testing.assert_close(middle, 2 * expected[0])
    open_ones = Products([(matrices[1], None, None)])
    for out in (middle, last):
        open_ones.write(width, dense[1], out)
        torch.testing.assert_close(out, expected[1])


def group_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rows in groups, whether that is worth it or not."""
    monkeypatch.setattr("h2gcn.sparse.operator.GROUPED", 0)
    monkeypatch.setattr("h2gcn.sparse.operator.ALIKE", 0.0)


def test_each_row_is_summed_alike_whoever_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("h2gcn.sparse.operator.SHARED", 1)
    (operator,) = operators_of(1)
    tiled, dense = TiledMatrix(operator.matrix), torch.randn(NODES, 64)  # type: ignore[arg-type]
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        found.append(tiled @ dense)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def dense_of(groups: Groups, shape: tuple[int, int]) -> np.ndarray:
    found = np.zeros(shape, dtype=np.float32)
    for group, (numbers, factors) in enumerate(
        zip(groups.rows, groups.factors, strict=True)
    ):
        part = slice(*groups.starts[group : group + 2])
        columns = groups.columns[part] & (2**COLUMN - 1)
        assert (np.diff(columns.astype(np.int64)) > 0).all()
        for place, (row, factor) in enumerate(zip(numbers, factors, strict=True)):
            having = (groups.columns[part] >> (COLUMN + place) & 1).astype(bool)
            found[row, columns[having]] = factor * groups.values[part][having]
    return found


@each("rows", [1, 4, 5, 7, NODES])
def test_groups_hold_every_entry_of_their_rows_once(rows: int) -> None:
    (operator,) = operators_of(1, np.arange(rows))
    matrix = operator.scipy
    parts = matrix.indptr, matrix.indices, matrix.data
    groups = group_rows(*parts, NODES, 0.0)
    assert groups is not None
    found = dense_of(groups, (rows, NODES))
    np.testing.assert_allclose(found, matrix.toarray(), rtol=1e-6)
    assert set(groups.rows.flat) == set(range(rows))


def test_factors_go_from_row_to_row() -> None:
    """Rows may have no columns in common but by way of others, or none at all."""
    chain = [[0, 0, 3, 0, 6, 0], [0, 0, 0, 0, 2, 1], [5, 7, 0, 0, 0, 0]]
    dense = np.array([*chain, [10, 14, 0, 0, 0, 4]], dtype=np.float32)
    for order in itertools.permutations(range(4)):
        matrix = sp.csr_array(dense[list(order)])
        parts = matrix.indptr, matrix.indices, matrix.data
        groups = group_rows(*parts, 6, 0.0)
        assert groups is not None
        np.testing.assert_allclose(dense_of(groups, (4, 6)), matrix.toarray(), 1e-6)
    apart = sp.csr_array(np.eye(6, dtype=np.float32)[:4])
    groups = group_rows(apart.indptr, apart.indices, apart.data, 6, 0.0)
    assert groups is not None
    assert (groups.factors == 1).all()


@each("value", [1.5, 0.0, np.nan])
def test_rows_that_differ_by_more_than_a_factor_are_not_grouped(value: float) -> None:
    matrix = sp.csr_array(np.ones((8, 30), dtype=np.float32))
    parts = matrix.indptr, matrix.indices, matrix.data
    assert group_rows(*parts, 30, 2.5) is not None
    matrix.data[100] = value
    assert group_rows(*parts, 30, 2.5) is None


def test_rows_are_grouped_where_they_are_alike() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.random((4, 300)) < 0.4  # each row is about one of four
    alike = kinds[rng.integers(4, size=100)] & (rng.random((100, 300)) < 0.95)
    unlike = rng.random((100, 300)) < 0.4
    for pattern, expected in ((alike, True), (unlike, False)):
        operator = Operator(CSR(sp.csr_array(pattern.astype(np.float32))))
        assert operator.tiles is not None
        assert (operator.tiles.groups is not None) == expected
        dense = torch.randn(300, 16)
        exact = torch.from_numpy(operator.scipy.toarray()) @ dense
        torch.testing.assert_close(operator.tiles @ dense, exact, rtol=0, atol=1e-4)


@each("width", [0, 1, 7, 16, 17])
def test_a_tiled_matrix_multiplies_whatever_the_width(width: int) -> None:
    (operator,) = operators_of(1)
    dense = torch.randn(NODES, width)
    expected = torch.from_numpy(operator.scipy.toarray() @ dense.numpy())
    tiled = TiledMatrix(operator.matrix)  # type: ignore[arg-type]
    torch.testing.assert_close(tiled @ dense, expected)
    torch.testing.assert_close(pickle.loads(pickle.dumps(tiled)) @ dense, expected)


def test_only_32_bits_are_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h2gcn.sparse.operator.SOME", 0)
    (operator,) = operators_of(1)
    plain = operator.matrix
    assert isinstance(plain, Tensor)
    assert isinstance(multiplier(plain), TiledMatrix)
    assert not TiledMatrix.can(plain.double())
    starts, columns = plain.crow_indices(), plain.col_indices()
    long = csr_tensor(starts.long(), columns.long(), plain.values(), plain.shape)
    assert not TiledMatrix.can(long)
    assert multiplier(long) is long
