"""Compiled code and its cache; work that threads share."""

import os
import sys
import threading
from types import ModuleType
from unittest.mock import Mock

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from numba.core.dispatcher import Dispatcher

from h2gcn.rings import kernels as ring_kernels
from h2gcn.sparse import jit, kernels, run_in_threads, threads
from support.cases import each


@each("module", [kernels, ring_kernels])
def test_kernels_call_no_compiled_code_of_other_files(module: ModuleType) -> None:
    """The cache would not notice a change there: it looks at the kernel's own file."""
    names = vars(module)
    compiled = [one for one in names.values() if isinstance(one, Dispatcher)]
    assert compiled
    for kernel in compiled:
        for name in kernel.py_func.__code__.co_names:
            called = getattr(names.get(name), "py_func", kernel.py_func)
            assert called.__module__ == module.__name__


def test_without_a_folder_for_the_cache_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_folder = RuntimeError("cannot cache function: no locator available")
    monkeypatch.setattr(Dispatcher, "enable_caching", Mock(side_effect=no_folder))
    assert jit(lambda number: number + number)(2) == 4


@numba.njit
def _sum_prefetched(numbers, indices):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(len(indices)):
        ring_kernels.prefetch(numbers, indices[i])
        if 0 <= indices[i] < len(numbers):
            total += numbers[indices[i]]
    return total


def test_a_prefetch_changes_nothing_and_may_be_out_of_bounds() -> None:
    numbers = np.arange(10, dtype=np.int32)
    assert _sum_prefetched(numbers, np.array([3, 9, 1000, -5])) == 12
    assert np.array_equal(numbers, np.arange(10))


def use_threads(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(threads, "MIN_COST", 0)
    patch.setattr(threads, "count_threads", lambda: count)


@given(st.lists(st.integers(0, 10**6), max_size=40), st.integers(1, 4))
def test_every_row_is_done_once(costs: list[int], count: int) -> None:
    done = np.zeros(len(costs), dtype=int)

    def work(part: slice) -> None:
        done[part] += 1

    with pytest.MonkeyPatch.context() as patch:
        use_threads(patch, count)
        run_in_threads(work, np.array(costs, dtype=float))
    assert (done == 1).all()


def test_little_work_stays_in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count_threads", lambda: 4)
    calls = []
    run_in_threads(lambda part: calls.append((part, threading.get_ident())), np.ones(9))
    assert calls == [(slice(0, 9), threading.get_ident())]


def test_an_error_is_raised_and_no_thread_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_threads(monkeypatch, 3)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        run_in_threads(lambda part: 1 / (part.start == 0), np.ones(100))
    assert threading.active_count() == before


def test_as_many_threads_as_torch_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.count_threads() == torch.get_num_threads()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.count_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    if hasattr(os, "sched_getaffinity"):
        assert threads.count_threads() == len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_shares_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    use_threads(monkeypatch, 2)
    run_in_threads(lambda _: None, np.ones(100))
    child = os.fork()
    if not child:
        run_in_threads(lambda _: None, np.ones(100))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
