"""Memory of huge pages that is used again and again."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from h2gcn.sparse.memory import private_pages

__all__ = ["kept_workspace", "workspace"]

HUGE_PAGE = 2**21

_LOCK = Lock()
_KEPT: list[NDArray[np.float32]] = []
"""The one that is kept for the next time, if there is one and it is not in use."""
_keepers = 0
"""How many there are for whom it is kept."""


@contextmanager
def kept_workspace() -> Iterator[None]:
    """Keep the memory that is lent, from one time to the next, until the end of this.

    Huge pages are slow to come by and quick to use.
    """
    global _keepers
    with _LOCK:
        _keepers += 1
    try:
        yield
    finally:
        with _LOCK:
            _keepers -= 1
            if not _keepers:
                _KEPT.clear()


@contextmanager
def workspace(count: int) -> Iterator[NDArray[np.float32]]:
    """Lend `count` numbers, not zeroed, of memory that was lent before if it is kept.

    The largest lot that was asked for is. Who asks while it is lent gets another.
    """
    with _LOCK:
        lot = _KEPT.pop() if _KEPT else None
    if lot is None or len(lot) < count:
        del lot  # not beside the larger one
        lot = _huge(count)
    try:
        yield lot[:count]
    finally:
        with _LOCK:
            if _KEPT and len(_KEPT[0]) < len(lot):
                _KEPT.pop()
            if _keepers and not _KEPT:
                _KEPT.append(lot)


def _huge(count: int) -> NDArray[np.float32]:
    """Return new memory, in huge pages where the system has them."""
    size = -(-4 * count // HUGE_PAGE) * HUGE_PAGE
    memory = private_pages(size + HUGE_PAGE)  # some of it to begin at a page
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them: small ones are only slower
            memory.madvise(mmap.MADV_HUGEPAGE)
    numbers = np.frombuffer(memory, dtype=np.float32)
    first = -numbers.ctypes.data % HUGE_PAGE // 4
    return numbers[first : first + size // 4]
