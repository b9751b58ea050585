"""Memory: what is free, and arrays that take none until they are written."""

import numpy as np
import pytest

from h2gcn.exceptions import InputError
from h2gcn.sparse import (
    available_memory,
    check_room,
    first_of,
    gigabytes,
    memory,
    reserve,
    room_within,
)
from support.cases import each


def test_free_memory_is_a_plausible_number_of_bytes() -> None:
    free = available_memory()
    assert type(free) is int
    assert 2**20 < free < 2**50


@each(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1640, "1.6 kB"),
        (5e6, "5.0 MB"),
        (1.49e8, "149.0 MB"),
        (1.5e9, "1.5 GB"),
        (2.5e12, "2,500.0 GB"),
    ],
)
def test_bytes_as_text(count: float, text: str) -> None:
    assert gigabytes(count) == text


@each("count", [0, 1, 1000, memory.LARGE // 4 + 3])
@each("dtype", [np.int32, np.float32, np.int64])
def test_reserved_arrays_can_be_written(count: int, dtype: type) -> None:
    array = reserve(count, dtype)
    assert array.shape == (count,)
    assert array.dtype == dtype
    array[:] = 7
    assert (array == 7).all()


def test_what_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2_000_000)
    check_room("a graph", 2_000_000)
    with pytest.raises(InputError) as refused:
        check_room("a graph", 3_000_000_000)
    assert str(refused.value) == (
        "a graph would take about 3.0 GB of memory, and 2.0 MB are free."
    )


def test_room_is_what_is_free_or_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 10**9)
    check_room("it", 2e9)
    with pytest.raises(InputError) as caught:
        check_room("it", 3e9)
    assert str(caught.value) == (
        "it would take about 3.0 GB of memory, and 2.0 GB are free."
    )
    with room_within(0.5):
        check_room("it", 5e8)
        with pytest.raises(InputError) as caught:
            check_room("it", 6e8)
    assert str(caught.value) == (
        "it would take about 600.0 MB of memory, and memory_limit=0.5 allows 500.0 MB."
    )
    with room_within(None):
        check_room("it", 1e9)


@each("count", [0, 1, 5000, memory.LARGE // 4 + 3])
@each("size", [6000, memory.LARGE // 4 + 3])
def test_the_first_of_an_array_are_what_they_were(count: int, size: int) -> None:
    array = reserve(size, np.int32)
    array[:] = np.arange(size)
    assert np.array_equal(first_of(array, count), np.arange(min(count, size)))


def test_an_array_that_is_nobodys_pages_keeps_its_memory() -> None:
    array = np.arange(10_000)
    assert np.array_equal(first_of(array, 3), [0, 1, 2])
    assert array[-1] == 9999
