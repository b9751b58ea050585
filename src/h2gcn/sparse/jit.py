"""Compiled functions: without Python's lock, kept on disk where that is possible."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function that is compiled when it is first called.

    What was compiled is kept beside the module, or in the user's cache folder; where
    neither can be written, each process compiles anew.
    """
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place for the cache
        return numba.njit(**options)(function)
