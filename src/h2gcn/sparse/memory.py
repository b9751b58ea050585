"""How much memory is available, and what glibc does with freed memory.

A training step allocates what the step before it freed. By default, glibc returns large
blocks to the system, which clears and maps them again, page by page. Programs own their
process and may keep these blocks; a library leaves its host's allocator alone.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from h2gcn.exceptions import InputError

__all__ = [
    "available_memory",
    "check_memory",
    "format_bytes",
    "limit_memory",
    "steady_memory",
    "tune_allocator",
]

_LIMIT: ContextVar[float] = ContextVar("_LIMIT", default=math.inf)  # bytes
CGROUP_ROOT, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available_memory() -> int:
    """Return the bytes that this process may still take."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = _own_cgroup()  # the limits of the groups around it hold too
    rooms = map(_available_in, [group, *group.parents])
    return max(0, min([free, *(room for room in rooms if room is not None)]))


def _own_cgroup() -> Path:
    """Return the path of this process's cgroup (v2) below the root, or "."."""
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            if line.startswith("0::/"):
                return Path(line.removeprefix("0::/"))
    return Path()


def _available_in(group: Path) -> int | None:
    """Return the bytes that a cgroup may still take; None without a limit."""
    folder = CGROUP_ROOT / group
    try:
        limit = int((folder / "memory.max").read_text())  # "max" is no number
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return limit - used + _page_cache(folder)


def _page_cache(folder: Path) -> int:
    """Return the bytes of a cgroup that the kernel frees when they are needed."""
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, size = line.partition(" ")
            if name == "inactive_file":
                return int(size)
    return 0


def check_memory(what: str, need: float) -> None:
    """Raise `InputError` if `what` needs more bytes than are available or allowed."""
    free, limit = available_memory(), _LIMIT.get()
    if need > min(free, limit):
        bound = f"{format_bytes(free)} are free"
        if limit < free:
            bound = f"memory_limit={limit / 1e9:g} allows {format_bytes(limit)}"
        raise InputError(
            f"{what} would take about {format_bytes(need)} of memory, and {bound}."
        )


@contextmanager
def limit_memory(limit: float | None) -> Iterator[None]:
    """Have `check_memory` allow at most `limit` gigabytes; None is no limit."""
    token = _LIMIT.set(math.inf if limit is None else limit * 1e9)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def format_bytes(count: float) -> str:
    """Return bytes as text, such as "1.5 GB"; a smaller number in a smaller unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -2, -3, -4  # malloc.h
KEPT = 256 * 2**20  # bytes
KEPT_IN_TRAINING = 1536 * 2**20
DEFAULT_MMAP_MAX = 65_536

_tuned: list[Callable[[int, int], int]] = []  # `mallopt`, once a program asked for it


def tune_allocator() -> None:
    """Keep up to 256 MB of freed memory, and let torch use huge pages.

    For programs, before torch makes its first tensor: products with large dense
    operands miss fewer pages.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, KEPT)
    mallopt(M_TOP_PAD, 64 * 2**20)
    _tuned[:] = [mallopt]


@contextmanager
def steady_memory() -> Iterator[None]:
    """Keep more freed memory while equal steps follow each other.

    Does nothing unless the program called `tune_allocator`.
    """
    for mallopt in _tuned:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, KEPT_IN_TRAINING)
    try:
        yield
    finally:
        for mallopt in _tuned:
            mallopt(M_MMAP_MAX, DEFAULT_MMAP_MAX)
            mallopt(M_TRIM_THRESHOLD, KEPT)
