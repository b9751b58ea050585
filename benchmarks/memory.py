"""The largest memory of a process or of a call."""

import ctypes
import mmap
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PIECE = 2**28
"""Bytes that are taken together."""


def peak_gigabytes() -> float:
    """Return the largest memory that this process has had, since `reset_peak`."""
    status = _status()
    if "VmHWM" in status:
        return status["VmHWM"]
    unit = 1 if platform.system() == "Darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def reset_peak() -> bool:
    """Forget the largest memory so far; return whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_increase(function: Callable[[], Any]) -> float | None:
    """Return by how many gigabytes a call exceeds the memory before it."""
    _give_back()
    if not reset_peak():
        return None
    before = _status()["VmRSS"]
    function()
    return max(0.0, peak_gigabytes() - before)


def take_and_free(size: int, threads: int) -> float:
    """Take memory once and free it; return the seconds that it took.

    A virtual machine may leave free memory to its host, which gives it again page by
    page when it is wanted. What is taken right after this is there already.
    """

    def touch(_: int) -> mmap.mmap:
        memory = mmap.mmap(-1, PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        view = (ctypes.c_char * PIECE).from_buffer(memory)
        ctypes.memset(view, 1, PIECE)
        return memory

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(touch, range(-(-size // PIECE))))
    return time.perf_counter() - start


def _give_back() -> None:
    """Have the allocator return what is free: reusing that would not be counted."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status() -> dict[str, float]:
    """Return what Linux says of the memory of this process, in gigabytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return {}
    memory = (line.split() for line in lines if line.endswith("kB"))
    return {name.rstrip(":"): int(kilobytes) / 1e6 for name, kilobytes, _ in memory}


def in_a_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function in a process of its own, so that its peak memory is its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
