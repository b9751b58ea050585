"""How much memory there is, large arrays, and what becomes of freed memory.

A training step takes what the step before it freed. glibc gives large pieces back to
the system each time, to be cleared and faulted in again, page by page. Programs, which
own their process, may keep it; a library leaves its host's allocator alone.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2gcn.exceptions import InputError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "available_memory",
    "check_room",
    "first_of",
    "gigabytes",
    "keep_freed_memory",
    "private_pages",
    "reserve",
    "room_within",
    "steady_memory",
]

_LIMIT: ContextVar[float] = ContextVar("_LIMIT", default=math.inf)
"""Bytes that `check_room` allows."""

LARGE = 2**24
"""Bytes from which an array gets pages of its own."""


CGROUP_ROOT, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available_memory() -> int:
    """Return the bytes that this process may still take."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = _own_cgroup()  # the limits of the groups around it hold too
    rooms = map(_room_in, [group, *group.parents])
    return max(0, min([free, *(room for room in rooms if room is not None)]))


def _own_cgroup() -> Path:
    """Return the path of this process's cgroup (v2) below the root of all, or "."."""
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            if line.startswith("0::/"):
                return Path(line.removeprefix("0::/"))
    return Path()


def _room_in(group: Path) -> int | None:
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


def check_room(what: str, need: float) -> None:
    """Refuse what would take more memory than there is, before any of it is made.

    Parameters
    ----------
    what
        What it is, such as "graph.npz: its features, 60 × 200,000,000,".
    need
        How many bytes it takes, about.
    """
    free, limit = available_memory(), _LIMIT.get()
    if need > min(free, limit):
        told = f"{gigabytes(free)} are free"
        if limit < free:
            told = f"memory_limit={limit / 1e9:g} allows {gigabytes(limit)}"
        raise InputError(
            f"{what} would take about {gigabytes(need)} of memory, and {told}."
        )


@contextmanager
def room_within(limit: float | None) -> Iterator[None]:
    """Have `check_room` allow no more than a limit, whatever is free.

    Parameters
    ----------
    limit
        In gigabytes, above 0; None is what is free.
    """
    token = _LIMIT.set(math.inf if limit is None else limit * 1e9)
    try:
        yield
    finally:
        _LIMIT.reset(token)


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
    import numpy as np  # late: programs ask for their memory before they load it

    size = count * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(count, dtype)
    return np.frombuffer(private_pages(size), dtype)


def first_of(array: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the first `count` numbers of an array of `reserve`, [count].

    The memory of the others is given back, where they have pages of their own.
    """
    pages = array.base
    if isinstance(pages, memoryview):
        pages = pages.obj
    end = -(-count * array.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    if isinstance(pages, mmap.mmap) and end < len(pages):
        with suppress(AttributeError, OSError):  # another system: it stays as it is
            pages.madvise(mmap.MADV_DONTNEED, end, len(pages) - end)
    return array[:count]


def private_pages(size: int) -> mmap.mmap:
    """Return memory of this process alone, not yet written."""
    private = getattr(mmap, "MAP_PRIVATE", None)
    flags = {} if private is None else {"flags": private | mmap.MAP_ANONYMOUS}
    return mmap.mmap(-1, size, **flags)


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -2, -3, -4
"""Names of glibc's malloc.h."""
KEPT = 256 * 2**20
"""Bytes that a program keeps."""
KEPT_IN_TRAINING = 1536 * 2**20
"""Bytes that it keeps from step to step."""
MAPPED_PIECES = 65_536
"""Pieces that may have pages of their own, by default."""

_tuned: list[Callable[[int, int], int]] = []
"""`mallopt` itself, once a program has asked for it."""


def keep_freed_memory() -> None:
    """Keep up to 256 MB of freed memory, and let torch use huge pages.

    For programs alone, and before torch makes its first tensor: a product with a dense
    operand that is larger than the cache misses fewer pages.
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
    """Keep more, and large pieces too, while steps that are all alike are made.

    Only in a program that has asked for it by `keep_freed_memory`. What comes before
    the steps takes pieces of other sizes, which would be kept and of no use.
    """
    if not _tuned:
        yield
        return
    (mallopt,) = _tuned
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, KEPT_IN_TRAINING)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, MAPPED_PIECES)
        mallopt(M_TRIM_THRESHOLD, KEPT)
