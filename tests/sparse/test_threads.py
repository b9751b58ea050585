"""Rows that threads share."""

import os
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from h2gcn.sparse import run_in_threads, threads
from h2gcn.sparse.threads import count_threads


def shared(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(threads, "MIN_COST", 0)
    patch.setattr(threads, "count_threads", lambda: count)


@given(st.lists(st.integers(0, 10**6), max_size=40), st.integers(1, 4))
def test_every_row_is_done_once(costs: list[int], count: int) -> None:
    done = np.zeros(len(costs), dtype=int)

    def work(part: slice) -> None:
        done[part] += 1

    with pytest.MonkeyPatch.context() as patch:
        shared(patch, count)
        run_in_threads(work, np.array(costs, dtype=float))
    assert (done == 1).all()


def test_little_work_stays_in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count_threads", lambda: 4)
    calls = []

    def work(part: slice) -> None:
        calls.append((part, threading.current_thread()))

    run_in_threads(work, np.ones(9))
    assert calls == [(slice(0, 9), threading.main_thread())]


def test_an_error_is_raised_and_no_thread_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared(monkeypatch, 3)
    before = threading.active_count()

    def fail(part: slice) -> None:
        if part.start > 0:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_in_threads(fail, np.ones(100))
    assert threading.active_count() == before


def test_as_many_threads_as_torch_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_threads() == torch.get_num_threads()
    monkeypatch.delitem(__import__("sys").modules, "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert count_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    if hasattr(os, "sched_getaffinity"):
        assert count_threads() == len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_shares_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shared(monkeypatch, 2)
    run_in_threads(lambda _: None, np.ones(100))
    child = os.fork()
    if not child:
        run_in_threads(lambda _: None, np.ones(100))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
