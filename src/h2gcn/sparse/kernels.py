"""Compiled code that draws dropout masks; importing it loads numba.

numba's cache looks at the file of the function that Python calls, and at no other:
what a kernel calls is in the same file as the kernel, so that no change goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

__all__ = ["drop", "jit"]


def jit(function: Callable[..., Any]) -> Any:
    """Return a function as numba compiles it when it is first called, without the GIL.

    The machine code is cached beside the module or in the user's cache folder; if
    neither can be written, each process compiles anew.
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
    """Return a 64-bit word whose every bit depends on every bit of the given one."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def drop(blocks, nodes, first, key, kept):  # type: ignore[no-untyped-def]
    """Make elements of some rows zero that are not kept, in place.

    Their columns are those from `first` on of the matrix that is dropped, in blocks of
    as many, [b, m, c]. Each node and
    32 columns have a word of their own. Where half of all elements are kept, a bit of
    it decides; else 16 bits of a number that is made of word and column. Numbers are
    given as integers of their bits, which are all kept or none, and places as unsigned
    ones: so eight or more are done together.
    """
    half, below, width = kept == HALF, np.uint32(kept), blocks.shape[2]
    one, odd, odder = np.int32(1), np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
    fifteen, sixteen = np.uint32(15), np.uint32(16)
    for b in range(len(blocks)):
        rows, begun = blocks[b], first + b * width
        for i in range(len(nodes)):
            own = hash64(key + hash64(np.uint64(nodes[i]) + ONE))
            row, done = rows[i], 0
            while done < width:
                column = begun + done
                place = column % WORD
                many = min(width - done, WORD - place)
                word = hash64(own + (np.uint64(column // WORD) + ONE) * GOLDEN)
                at, drawn = np.uint64(done), np.uint32(word >> THIRTY_TWO)
                if half:
                    bits = np.int32(drawn >> np.uint32(place))
                    if many == WORD:  # a number that is known: nothing is left over
                        for j in range(np.uint64(WORD)):
                            row[at + j] &= np.int32(-((bits >> np.int32(j)) & one))
                    else:
                        for j in range(np.uint64(many)):
                            row[at + j] &= np.int32(-((bits >> np.int32(j)) & one))
                else:
                    begin = drawn + np.uint32(place) * odd
                    for j in range(np.uint64(many)):
                        number = np.uint32(begin + np.uint32(np.uint32(j) * odd))
                        number = np.uint32((number ^ (number >> fifteen)) * odder)
                        number = np.uint32((number ^ (number >> sixteen)) * odd)
                        row[at + j] &= -np.int32((number >> sixteen) < below)
                done += many
