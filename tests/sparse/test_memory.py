"""Memory: how much is available, what is refused, what the C library is asked."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest

from h2gcn.exceptions import InputError
from h2gcn.sparse import (
    available_memory,
    check_memory,
    format_bytes,
    limit_memory,
    memory,
    steady_memory,
    tune_allocator,
)
from support.cases import each

MB = 10**6
CACHE = "anon 1\ninactive_file {}\nactive_file 7\n"
CGROUPS = {  # own groups; memory.max, .current and .stat of each group; available
    "no limit": ("0::/", {".": ("max", 5, "")}, None),
    "root": ("0::/", {".": (100, 60, "")}, 40),
    "page cache can be freed": ("0::/", {".": (100, 60, CACHE.format(50 * MB))}, 90),
    "page cache unknown": ("0::/", {".": (100, 60, "inactive_file many\n")}, 40),
    "own group": ("1:name=x:/\n0::/a/b", {"a/b": (100, 60, "")}, 40),
    "parents": ("0::/a", {".": (30, 0, ""), "a": (20, 5, "")}, 15),
    "above its limit": ("0::/a", {"a": (20, 25, "")}, 0),
    "version 1": ("4:memory:/a", {".": (100, 60, "")}, 40),
    "outside the root": ("0::/gone/../../away", {".": (100, 60, "")}, 40),
}


@each("case", CGROUPS)
def test_available_memory_respects_cgroup_limits(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, limits, expected = CGROUPS[case]
    (tmp_path / "own").write_text(own + "\n")
    for group, (limit, used, stat) in limits.items():
        folder = tmp_path / "root" / group
        folder.mkdir(parents=True, exist_ok=True)
        size = limit if isinstance(limit, str) else limit * MB
        (folder / "memory.max").write_text(f"{size}\n")
        (folder / "memory.current").write_text(f"{used * MB}\n")
        if stat:
            (folder / "memory.stat").write_text(stat)
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "CGROUP_ROOT", tmp_path / "root")
    free = available_memory()
    assert type(free) is int
    assert 2**20 < free < 2**50 if expected is None else free == expected * MB


@each(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1640, "1.6 kB"), (2.5e12, "2,500.0 GB")],
)
def test_bytes_as_text(count: float, text: str) -> None:
    assert format_bytes(count) == text


@each(
    ("limit", "allowed", "bound"),
    [
        (None, 2e9, "2.0 GB are free"),
        (0.5, 5e8, "memory_limit=0.5 allows 500.0 MB"),
        (3, 2e9, "2.0 GB are free"),
    ],
)
def test_more_than_is_free_or_allowed_is_refused(
    limit: float | None, allowed: float, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 10**9)
    with limit_memory(limit):
        check_memory("it", allowed)
        with pytest.raises(InputError) as caught:
            check_memory("it", 6e9)
    assert caught.value.rule == f"it would take about 6.0 GB of memory, and {bound}."
    check_memory("it", 2e9)


def test_only_a_tuned_program_keeps_freed_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[int, int] = {}
    monkeypatch.setattr(memory, "_tuned", [])
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())  # not glibc
    tune_allocator()
    with steady_memory():
        assert options == {}
    library = SimpleNamespace(mallopt=options.__setitem__)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    tune_allocator()
    assert options[memory.M_TRIM_THRESHOLD] == memory.KEPT
    with steady_memory():
        assert options[memory.M_TRIM_THRESHOLD] == memory.KEPT_IN_TRAINING
        assert options[memory.M_MMAP_MAX] == 0
    assert options[memory.M_TRIM_THRESHOLD] == memory.KEPT
    assert options[memory.M_MMAP_MAX] == memory.DEFAULT_MMAP_MAX
