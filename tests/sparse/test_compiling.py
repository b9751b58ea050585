"""Functions that are compiled when they are first called: who is told, and when."""

from pathlib import Path
from typing import Any

import numba
import pytest

from h2gcn.sparse import compiled, told_of_compiling


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


def double(number: Any) -> Any:
    """Return twice a number."""
    return number + number


def test_the_first_call_of_each_kind_is_told() -> None:
    told: list[bool] = []
    twice = compiled(double)
    with told_of_compiling(told.append):
        assert twice(2) == 4
        assert told == [True]
        assert twice(3) == 6
        assert told == [True]
        assert twice(1.5) == 3.0
        assert told == [True, True]


def test_what_was_kept_is_not_compiled_again() -> None:
    told: list[bool] = []
    compiled(double)(2)
    with told_of_compiling(told.append):
        assert compiled(double)(3) == 6
    assert told == []


def test_nobody_is_told_before_or_after() -> None:
    told: list[bool] = []
    with told_of_compiling(told.append):
        pass
    assert compiled(double)(2) == 4
    assert told == []


def test_what_others_compile_is_not_told() -> None:
    told: list[bool] = []
    with told_of_compiling(told.append):
        compiled(double)(2)
        assert numba.njit(double)(2.5) == 5.0
    assert told == [True]


def test_without_a_place_each_program_compiles_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    njit = numba.njit

    def nowhere(*, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", nowhere)
    told: list[bool] = []
    with told_of_compiling(told.append):
        assert compiled(double)(2) == 4
    assert told == [False]
