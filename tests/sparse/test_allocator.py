"""What the C library is told, and when."""

import ctypes
from types import SimpleNamespace

import pytest

from h2gcn.sparse import keep_freed_memory, memory as allocator, steady_memory
from h2gcn.sparse.memory import KEPT, KEPT_IN_TRAINING, M_MMAP_MAX, M_TRIM_THRESHOLD


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return what a C library of ours has been told, option by option."""
    options: dict[int, int] = {}
    library = SimpleNamespace(mallopt=options.__setitem__)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(allocator, "_tuned", [])
    return options


def test_a_program_keeps_some(told: dict[int, int]) -> None:
    keep_freed_memory()
    assert told[M_TRIM_THRESHOLD] == KEPT
    assert M_MMAP_MAX not in told


def test_more_is_kept_in_training_alone(told: dict[int, int]) -> None:
    keep_freed_memory()
    with steady_memory():
        assert told[M_TRIM_THRESHOLD] == KEPT_IN_TRAINING
        assert told[M_MMAP_MAX] == 0
    assert told[M_TRIM_THRESHOLD] == KEPT
    assert told[M_MMAP_MAX] == allocator.MAPPED_PIECES


def test_a_library_tells_nothing(told: dict[int, int]) -> None:
    with steady_memory():
        pass
    assert told == {}


def test_another_c_library(told: dict[int, int], monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    keep_freed_memory()
    with steady_memory():
        pass
    assert told == {}
