"""Blocks of rows, and threads that share them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h2gcn import row_work
from h2gcn.row_work import in_threads, row_blocks, row_starts


def test_where_rows_begin() -> None:
    assert row_starts(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert row_starts(np.zeros(0, dtype=np.int64)).tolist() == [0]


def test_every_row_is_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_work, "SMALL_WORK", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    for costs in (np.ones(100), np.array([1e6, 0, 0, 1]), np.array([3.0]), np.zeros(0)):
        done = np.zeros(len(costs), dtype=int)

        def work(part: slice, done: np.ndarray = done) -> None:
            done[part] += 1

        in_threads(work, costs)
        assert (done == 1).all()


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_work, "SMALL_WORK", 0)

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
