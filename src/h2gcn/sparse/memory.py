"""How much memory there is, and large arrays that take none until they are written."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["available_memory", "gigabytes", "private_pages", "reserve"]

LARGE = 2**24
"""Bytes from which an array gets pages of its own."""


def available_memory() -> int:
    """Return the bytes that this process may still take."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:  # a container's limit, where there is one
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))


def gigabytes(count: float) -> str:
    """Return bytes as text, such as "1.5 GB"; a smaller number in a smaller unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


def reserve(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of `count` numbers, not yet written.

    numpy asks for huge pages, which a virtual machine may take long to find.
    """
    size = count * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(count, dtype)
    return np.frombuffer(private_pages(size), dtype)


def private_pages(size: int) -> mmap.mmap:
    """Return memory of this process alone, not yet written."""
    private = getattr(mmap, "MAP_PRIVATE", None)
    flags = {} if private is None else {"flags": private | mmap.MAP_ANONYMOUS}
    return mmap.mmap(-1, size, **flags)
