"""Blocks of rows, and threads that share them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from h2gcn.rings import exact
from h2gcn.rings.exact import in_threads, narrow, row_blocks, row_starts


def test_where_rows_begin() -> None:
    assert row_starts(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert row_starts(np.zeros(0, dtype=np.int64)).tolist() == [0]


def test_every_row_is_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "SMALL_WORK", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    for costs in (np.ones(100), np.array([1e6, 0, 0, 1]), np.array([3.0]), np.zeros(0)):
        done = np.zeros(len(costs), dtype=int)

        def work(part: slice, done: np.ndarray = done) -> None:
            done[part] += 1

        in_threads(work, costs)
        assert (done == 1).all()


@pytest.mark.parametrize(
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
    monkeypatch.setattr(exact, "SMALL_WORK", 0)
    loaded = None
    if torch_threads is not None:
        loaded = SimpleNamespace(get_num_threads=lambda: torch_threads)
    monkeypatch.setitem(sys.modules, "torch", loaded)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    affinity = "os.sched_getaffinity"
    monkeypatch.setattr(affinity, lambda _: set(range(cores)), raising=False)
    started: list[int] = []

    def pool(threads: int) -> ThreadPoolExecutor:
        started.append(threads)
        return ThreadPoolExecutor(threads)

    monkeypatch.setattr(exact, "ThreadPoolExecutor", pool)
    own: list[bool] = []
    main = get_ident()
    in_threads(lambda _: own.append(get_ident() == main), np.ones(100))
    assert started == ([] if expected == 1 else [expected])
    assert all(own) == (expected == 1)


def test_indices_are_narrow_where_they_can_be() -> None:
    indices = np.array([0, 5])
    assert narrow(indices, 2**31 - 1).dtype == np.int32
    assert narrow(indices, 2**31) is indices
    small = indices.astype(np.int32)
    assert narrow(small, 5) is small


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "SMALL_WORK", 0)

    def fail(_: slice) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_threads(fail, np.ones(100))


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 50))
def test_blocks_cover_the_rows_in_order(sizes: list[int], entries: int) -> None:
    blocks = row_blocks(np.array(sizes, dtype=np.int64), entries)
    covered = [row for first, last in blocks for row in range(first, last)]
    assert covered == list(range(len(sizes)))
    # A block exceeds what was asked for by no more than its last row.
    assert all(sum(sizes[a : b - 1]) <= entries for a, b in blocks if b - a > 1)
