"""Compiled code that draws dropout masks; importing it loads numba.

numba's cache checks only the source file of the function that Python calls: a kernel
and the functions that it calls share a file, so that every change is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

__all__ = ["drop", "jit"]


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function with numba on its first call; it runs without the GIL.

    The machine code is cached beside the module or in the user's cache folder; if
    neither is writable, each process compiles again.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache
        return numba.njit(nogil=True)(function)


ONE = np.uint64(1)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
THIRTY_TWO = np.uint64(32)
HALF = 2**15
WORD = 32  # columns that share a random word


@jit
def hash64(word):  # type: ignore[no-untyped-def]
    """Return a 64-bit hash of a 64-bit word."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def drop(x, nodes, first, key, kept):  # type: ignore[no-untyped-def]
    """Zero the elements of x, [m, c], that dropout does not keep, in place.

    Column 0 of x is column `first` of the whole matrix. Each node and 32 columns share
    a random word. Where half of all elements are kept, one bit of the word decides;
    else 16 bits of a hash of word and column. Floats come as integers of their bits,
    which are all kept or none, and indices are unsigned: both let the compiler
    vectorize the loops.
    """
    half, below, width = kept == HALF, np.uint32(kept), x.shape[1]
    one, odd, odder = np.int32(1), np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
    fifteen, sixteen = np.uint32(15), np.uint32(16)
    for i in range(len(nodes)):
        row_hash = hash64(key + hash64(np.uint64(nodes[i]) + ONE))
        row, start = x[i], 0
        while start < width:
            column = first + start
            shift = column % WORD
            count = min(width - start, WORD - shift)
            word = hash64(row_hash + (np.uint64(column // WORD) + ONE) * GOLDEN)
            offset, random = np.uint64(start), np.uint32(word >> THIRTY_TWO)
            if half:
                bits = np.int32(random >> np.uint32(shift))
                if count == WORD:  # a constant length needs no remainder loop
                    for j in range(np.uint64(WORD)):
                        row[offset + j] &= np.int32(-((bits >> np.int32(j)) & one))
                else:
                    for j in range(np.uint64(count)):
                        row[offset + j] &= np.int32(-((bits >> np.int32(j)) & one))
            else:
                begin = random + np.uint32(shift) * odd
                for j in range(np.uint64(count)):
                    number = np.uint32(begin + np.uint32(np.uint32(j) * odd))
                    number = np.uint32((number ^ (number >> fifteen)) * odder)
                    number = np.uint32((number ^ (number >> sixteen)) * odd)
                    row[offset + j] &= -np.int32((number >> sixteen) < below)
            start += count
