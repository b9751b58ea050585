"""What the C library does with freed memory: gives it back, or keeps it for later.

A training step takes what the step before it freed. glibc gives large pieces back to
the system each time, to be cleared and faulted in again, page by page. For programs,
which own their process; a library leaves its host's allocator alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["keep_freed_memory", "steady_memory"]

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
    """Have the C library keep freed memory in this program, up to 256 MB of it."""
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
