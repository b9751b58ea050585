"""The rows of exact rings, compiled: breadth-first search with a bitmap at the end.

A row costs as much as the walks that lead into it. The last step is taken on a bitmap
of the nodes (125 kB for a million: it stays in the nearest cache) with a summary of
its words, so that the row comes out sorted without being sorted. Nothing is shared
between calls and Python's lock is given up: threads take rows of their own.
"""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["count_rows", "fill_rows"]

Indices = NDArray[np.int32]
Places = NDArray[np.int64]
Words = NDArray[np.uint64]

ONE = np.uint64(1)
LOW = np.uint64(63)
SIX = np.uint64(6)
TWELVE = np.uint64(12)
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
SHIFT = np.uint64(58)
ODD, PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
NIBBLES, BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
TWO, FOUR, TOP = np.uint64(2), np.uint64(4), np.uint64(56)


def _lowest_bits() -> NDArray[np.int64]:
    """Return which bit a product with the de Bruijn number stands for, [64]."""
    table = np.zeros(64, dtype=np.int64)
    for bit in range(64):
        table[((int(DE_BRUIJN) << bit) % 2**64) >> int(SHIFT)] = bit
    return table


LOWEST = _lowest_bits()


@numba.njit(nogil=True, cache=True)
def _search(starts, neighbours, node, hop, seen, queue):  # type: ignore[no-untyped-def]
    """Put all nodes nearer than `hop` into the queue; return where the last ring is."""
    seen[node] = node
    queue[0] = node
    first, last = 0, 1
    for _ in range(hop - 1):
        end = last
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = neighbours[at]
                if seen[reached] != node:
                    seen[reached] = node
                    queue[end] = reached
                    end += 1
        first, last = last, end
    return first, last


@numba.njit(nogil=True, cache=True)
def count_rows(starts, neighbours, nodes, hop, sizes):  # type: ignore[no-untyped-def]
    """Count the nodes at distance `hop` of each of `nodes` into `sizes`."""
    n = len(starts) - 1
    seen = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    bits = np.zeros(n // 64 + 1, np.uint64)
    for i in range(len(nodes)):
        first, last = _search(starts, neighbours, nodes[i], hop, seen, queue)
        for place in range(last):
            nearer = np.uint64(queue[place])
            bits[nearer >> SIX] |= ONE << (nearer & LOW)
        size = 0
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = np.uint64(neighbours[at])
                word = bits[reached >> SIX]
                more = word | (ONE << (reached & LOW))
                if word != more:
                    size += 1
                bits[reached >> SIX] = more
        sizes[i] = size
        for place in range(last):
            bits[np.uint64(queue[place]) >> SIX] = 0
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                bits[np.uint64(neighbours[at]) >> SIX] = 0


@numba.njit(nogil=True, cache=True)
def fill_rows(starts, neighbours, nodes, hop, row_starts, out):  # type: ignore[no-untyped-def]
    """Write the nodes at distance `hop` of each of `nodes`, sorted, into `out`.

    The row of nodes[i] is out[row_starts[i] : row_starts[i + 1]], as long as
    `count_rows` says.
    """
    n = len(starts) - 1
    seen = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    bits = np.zeros(n // 64 + 1, np.uint64)
    summary = np.zeros(n // 4096 + 1, np.uint64)
    for i in range(len(nodes)):
        first, last = _search(starts, neighbours, nodes[i], hop, seen, queue)
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = np.uint64(neighbours[at])
                bits[reached >> SIX] |= ONE << (reached & LOW)
                summary[reached >> TWELVE] |= ONE << ((reached >> SIX) & LOW)
        for place in range(last):
            nearer = np.uint64(queue[place])
            bits[nearer >> SIX] &= ~(ONE << (nearer & LOW))
        at = row_starts[i]
        for block in range(len(summary)):
            word = summary[block]
            if word == 0:
                continue
            summary[block] = 0
            while word != 0:
                lowest = word & (~word + ONE)
                place = block * 64 + LOWEST[(lowest * DE_BRUIJN) >> SHIFT]
                word ^= lowest
                x = bits[place]
                bits[place] = 0
                while x != 0:
                    bit = x & (~x + ONE)
                    out[at] = place * 64 + LOWEST[(bit * DE_BRUIJN) >> SHIFT]
                    at += 1
                    x ^= bit
