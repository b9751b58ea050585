"""Rows that threads share, cut out of a matrix and looked through for columns."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, get_ident
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn.graph import CSR
from h2gcn.sparse import Operator, rows as rows_module
from h2gcn.sparse.rows import (
    count_threads,
    in_order,
    in_threads,
    own_threads,
    row_starts,
    share_out,
    take_columns,
    take_rows,
)
from support.cases import each
from support.graphs import random_adjacency


def test_where_rows_begin() -> None:
    assert row_starts(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert row_starts(np.zeros(0, dtype=np.int64)).tolist() == [0]


def test_every_row_is_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "SMALL_WORK", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    for costs in (np.ones(100), np.array([1e6, 0, 0, 1]), np.array([3.0]), np.zeros(0)):
        done = np.zeros(len(costs), dtype=int)

        def work(part: slice, done: np.ndarray = done) -> None:
            done[part] += 1

        in_threads(work, costs)
        assert (done == 1).all()


@each(
    ("torch_threads", "asked", "cores", "expected"),
    [
        (1, "4", 4, 1),
        (3, "1", 1, 3),
        (None, "1", 4, 1),
        (None, "2", 4, 2),
        (None, "", 4, 4),
        (None, "0", 4, 4),
        (None, "4,2", 2, 2),
    ],
)
def test_as_many_threads_as_were_asked_for(
    torch_threads: int | None,
    asked: str,
    cores: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_module, "SMALL_WORK", 0)
    loaded = None
    if torch_threads is not None:
        loaded = SimpleNamespace(get_num_threads=lambda: torch_threads)
    monkeypatch.setitem(sys.modules, "torch", loaded)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    affinity = "os.sched_getaffinity"
    monkeypatch.setattr(affinity, lambda _: set(range(cores)), raising=False)
    helpers: list[int] = []

    def pool(count: int) -> ThreadPoolExecutor:
        helpers.append(count)
        return ThreadPoolExecutor(count)

    monkeypatch.setattr(rows_module, "_helpers", pool)
    done: list[slice] = []
    in_threads(done.append, np.ones(100))
    assert helpers == [expected - 1] * (expected - 1)
    assert sorted(i for part in done for i in range(100)[part]) == list(range(100))


def test_rows_keep_their_threads_whatever_torch_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    with own_threads():
        monkeypatch.setattr("torch.get_num_threads", lambda: 1)
        assert count_threads() == 3
        with own_threads():
            assert count_threads() == 3
        assert count_threads() == 3
    assert count_threads() == 1


def test_who_has_not_begun_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[slice] = []
    busy = Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(busy.wait)
        monkeypatch.setattr(rows_module, "_helpers", lambda _: pool)
        share_out(done.append, [slice(0, 1), slice(1, 3)], 2)
        assert done == [slice(0, 1), slice(1, 3)]
        busy.set()


def test_who_has_begun_is_waited_for() -> None:
    here, both, done = get_ident(), Barrier(2), []

    def work(part: slice) -> None:
        both.wait(timeout=300)  # each has a part; only a hang takes so long
        if get_ident() == here:
            raise ValueError("broken")
        done.append(part)

    with pytest.raises(ValueError, match="broken"):
        share_out(work, [slice(0, 1), slice(1, 3)], 2)
    assert len(done) == 1


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "SMALL_WORK", 0)

    def fail(_: slice) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_threads(fail, np.ones(100))


@st.composite
def matrices(draw: st.DrawFn) -> CSR:
    """Draw a sparse matrix, of which rows and columns may be empty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    drawn = rng.random(shape, dtype=np.float32) * (rng.random(shape) < share)
    return CSR(drawn.astype(np.float32))


def same(found: CSR, expected: CSR) -> bool:
    """Return whether two matrices are the same to the bit and the type."""
    expected.sort_indices()
    parts = [(m.indptr, m.indices, m.data) for m in (found, expected)]
    return found.shape == expected.shape and all(
        np.array_equal(one, other) and one.dtype == other.dtype
        for one, other in zip(*parts, strict=True)
    )


@given(matrices(), st.data(), st.integers(1, 3))
def test_rows_and_columns_are_those_of_the_matrix(
    matrix: CSR, data: st.DataObject, threads: int
) -> None:
    m, n = matrix.shape
    rows = data.draw(st.lists(st.integers(0, m - 1), max_size=30))
    columns = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    index, ascending = (np.array(i, dtype=np.int64) for i in (rows, columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MANY", 0)
        patch.setattr(rows_module, "SMALL_WORK", 0)
        patch.setattr("torch.get_num_threads", lambda: threads)
        assert same(take_rows(matrix, index), CSR(matrix[index]))
        assert same(take_columns(matrix, ascending), CSR(matrix[:, ascending]))


@each("n", [1, 63, 64, 130, 4097])
@each("threads", [1, 3])
def test_another_order_moves_rows_and_columns(
    n: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr(rows_module, "SMALL_WORK", 0)
    rng = np.random.default_rng(n)
    matrix = CSR(sp.random_array((n, n), density=0.05, rng=rng, dtype=np.float32))
    order = rng.permutation(n)
    expected = CSR(matrix[order][:, order])
    for many in (2**20, 0):
        monkeypatch.setattr(rows_module, "MANY", many)
        assert same(in_order(matrix, order), expected)


@each("n", [63, 64, 65, 130])
def test_columns_beyond_a_word_are_found(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "MANY", 0)
    matrix = CSR(np.random.default_rng(n).random((5, n), dtype=np.float32))
    for index in (np.arange(n), np.arange(0, n, 3), np.array([n - 1])):
        assert same(take_columns(matrix, index), CSR(matrix[:, index]))


@each("nodes", [[0, 2, 5, 11], [], [7, 3], [4, 4]])
def test_rows_of_a_symmetric_operator_have_their_transpose(
    nodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = random_adjacency(1)
    index = np.array(nodes, dtype=np.int64)
    for many in (2**20, 0):
        monkeypatch.setattr(rows_module, "MANY", many)
        part = Operator(ring, symmetric=True).rows(index)
        turned = part.transposed.to_dense()
        assert np.array_equal(turned.numpy().T, ring.toarray()[nodes])
