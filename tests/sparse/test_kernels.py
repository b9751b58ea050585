"""Compiled code: what its cache notices, and where there is no cache."""

from types import ModuleType
from unittest.mock import Mock

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from h2gcn.rings import kernels as ring_kernels
from h2gcn.sparse import jit, kernels
from support.cases import each


@each("module", [kernels, ring_kernels])
def test_kernels_call_no_compiled_code_of_other_files(module: ModuleType) -> None:
    """The cache would not notice a change there: it looks at the kernel's own file."""
    names = vars(module)
    compiled = [one for one in names.values() if isinstance(one, Dispatcher)]
    assert compiled
    for kernel in compiled:
        assert kernel.py_func.__module__ == module.__name__
        for name in kernel.py_func.__code__.co_names:
            called = getattr(names.get(name), "py_func", None)
            assert called is None or called.__module__ == module.__name__


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
