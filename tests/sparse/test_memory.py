"""Memory: what is free, and arrays that take none until they are written."""

from pathlib import Path

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


MB = 10**6


@each(
    ("own", "limits", "expected"),
    [
        ("0::/", {".": (100, 60, 0)}, 40),
        ("0::/", {".": (100, 60, 50)}, 90),
        ("1:name=x:/\n0::/job/step", {"job/step": (100, 60, 10)}, 50),
        (
            "0::/job/step",
            {".": (30, 0, 0), "job": (20, 5, 0), "job/step": (90, 0, 0)},
            15,
        ),
        ("0::/job", {"job": (20, 25, 0)}, 0),
        ("4:memory:/job", {".": (100, 60, 0)}, 40),
        ("0::/gone/../../away", {".": (100, 60, 0)}, 40),
    ],
    ids=[
        "root",
        "page cache can be had back",
        "own group",
        "groups around it",
        "above its limit",
        "version 1",
        "outside of what can be seen",
    ],
)
def test_free_memory_is_within_the_limits_of_cgroups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    limits: dict[str, tuple[int, int, int]],
    expected: int,
) -> None:
    (tmp_path / "own").write_text(own + "\n")
    for group, (limit, used, cached) in limits.items():
        folder = tmp_path / "root" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit * MB}\n")
        (folder / "memory.current").write_text(f"{used * MB}\n")
        stat = f"anon 1\ninactive_file {cached * MB}\nactive_file 7\n"
        (folder / "memory.stat").write_text(stat)
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "CGROUP_ROOT", tmp_path / "root")
    assert available_memory() == expected * MB


@pytest.mark.parametrize("stat", [None, "", "odd", "inactive_file many\n"])
def test_a_limit_counts_without_a_word_on_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stat: str | None
) -> None:
    (tmp_path / "memory.max").write_text(f"{100 * MB}\n")
    (tmp_path / "memory.current").write_text(f"{60 * MB}\n")
    if stat is not None:
        (tmp_path / "memory.stat").write_text(stat)
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "none")
    monkeypatch.setattr(memory, "CGROUP_ROOT", tmp_path)
    assert available_memory() == 40 * MB


def test_groups_without_a_limit_take_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "none")
    monkeypatch.setattr(memory, "CGROUP_ROOT", tmp_path)
    assert available_memory() > 2**20


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
