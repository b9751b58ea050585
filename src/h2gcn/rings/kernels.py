"""Rows of exact rings, compiled, in blocks that threads share: a search by breadth.

A row costs as much as the walks that lead into it. The last step is taken on a bitmap
of the nodes (125 kB for a million: it stays in the nearest cache) with a summary of
its words, so that the row comes out sorted without being sorted. Nothing is shared
between calls and Python's lock is given up: threads take rows of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.sparse import compiled

__all__ = [
    "count_rows",
    "draw_rows",
    "fill_rows",
    "in_threads",
    "narrow",
    "row_blocks",
    "row_starts",
]

Indices = NDArray[np.int32]
Places = NDArray[np.int64]
Words = NDArray[np.uint64]

ONE = np.uint64(1)
LOW = np.uint64(63)
SIX = np.uint64(6)
TWELVE = np.uint64(12)
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
SHIFT = np.uint64(58)
THIRTY_TWO, GOLDEN = np.uint64(32), np.uint64(0x9E3779B97F4A7C15)


def _lowest_bits() -> NDArray[np.int64]:
    """Return which bit a product with the de Bruijn number stands for, [64]."""
    table = np.zeros(64, dtype=np.int64)
    for bit in range(64):
        table[((int(DE_BRUIJN) << bit) % 2**64) >> int(SHIFT)] = bit
    return table


LOWEST = _lowest_bits()


@compiled
def _search(starts, neighbours, node, hop, mark, seen, queue):  # type: ignore[no-untyped-def]
    """Put all nodes nearer than `hop` into the queue; return where the last ring is."""
    seen[node] = mark
    queue[0] = node
    first, last = 0, 1
    for _ in range(hop - 1):
        end = last
        for place in range(first, last):
            for at in range(starts[queue[place]], starts[queue[place] + 1]):
                reached = neighbours[at]
                if seen[reached] != mark:
                    seen[reached] = mark
                    queue[end] = reached
                    end += 1
        first, last = last, end
    return first, last


@compiled
def count_rows(starts, neighbours, nodes, hop, sizes):  # type: ignore[no-untyped-def]
    """Count the nodes at distance `hop` of each of `nodes` into `sizes`."""
    n = len(starts) - 1
    seen = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    bits = np.zeros(n // 64 + 1, np.uint64)
    for i in range(len(nodes)):
        first, last = _search(starts, neighbours, nodes[i], hop, i, seen, queue)
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


@compiled
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
        first, last = _search(starts, neighbours, nodes[i], hop, i, seen, queue)
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


@compiled
def _mix(word):  # type: ignore[no-untyped-def]
    """Return a 64-bit word whose every bit depends on every bit of the given one."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def draw_rows(row_starts, columns, nodes, cap, seed, out_starts, out):  # type: ignore[no-untyped-def]
    """Write at most `cap` columns of each row, drawn by seed and node, into `out`.

    Each column of a row gets a random number; those with the `cap` smallest are kept,
    sorted. Only numbers below a limit that somewhat more than `cap` should pass are
    compared; where too few pass, all are.
    """
    longest = 1
    for i in range(len(nodes)):
        longest = max(longest, row_starts[i + 1] - row_starts[i])
    keys = np.empty(longest, np.uint64)
    everything = np.uint64(0xFFFFFFFF)
    for i in range(len(nodes)):
        first, last = row_starts[i], row_starts[i + 1]
        size, to = last - first, out_starts[i]
        if size <= cap:
            out[to : to + size] = columns[first:last]
            continue
        own = _mix(np.uint64(seed) + _mix(np.uint64(nodes[i]) + ONE))
        share = (cap + 5 * np.sqrt(cap) + 5) / size
        limit = np.uint64(share * 4294967296.0) if share < 1 else everything
        kept = 0
        while True:
            for at in range(first, last):
                column = np.uint64(columns[at])
                number = _mix(own + (column + ONE) * GOLDEN) >> THIRTY_TWO
                if number <= limit:
                    keys[kept] = number << THIRTY_TWO | column
                    kept += 1
            if kept >= cap:
                break
            limit, kept = everything, 0
        keys[:kept].sort()
        for place in range(cap):
            keys[place] &= everything
        keys[:cap].sort()
        for place in range(cap):
            out[to + place] = keys[place]


SMALL_WORK = 2_000_000
"""Costs below which one thread is as quick as several."""


def row_starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where rows of the given sizes begin, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def narrow(indices: NDArray[Any], largest: int) -> NDArray[Any]:
    """Return indices in 32 bits if numbers up to `largest` can be, else as they are."""
    fits = largest <= np.iinfo(np.int32).max
    return indices.astype(np.int32, copy=False) if fits else indices


def row_blocks(sizes: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Cut rows of the given sizes into blocks [first, last) of about `entries`."""
    starts = row_starts(sizes)
    bounds = np.searchsorted(starts, np.arange(entries, starts[-1], entries)).tolist()
    return list(pairwise(sorted({0, *bounds, len(sizes)})))


def in_threads(work: Callable[[slice], None], costs: NDArray[Any]) -> None:
    """Call `work` on slices of rows that cost about the same, side by side.

    As many threads as torch uses, where it is loaded: one where one was asked for.

    Parameters
    ----------
    work
        Gives up Python's lock, or threads would wait for each other.
    costs
        Of each row, [m]; a unit is some nanoseconds.
    """
    total = np.cumsum(costs + 1)
    threads = _count_threads()
    if threads == 1 or not len(total) or total[-1] < SMALL_WORK:
        work(slice(0, len(costs)))
        return
    bounds = np.linspace(0, total[-1], 8 * threads + 1)[1:-1]
    ends = sorted({0, *np.searchsorted(total, bounds).tolist(), len(costs)})
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(*pair) for pair in pairwise(ends)]))


def _count_threads() -> int:
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
