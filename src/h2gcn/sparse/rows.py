"""Rows of sparse matrices that threads share: cut out, and looked through for columns.

Nothing is summed: whoever takes a row, and in whatever order, finds the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import CSR
from h2gcn.sparse.compiling import compiled, count_bits, lowest_bit
from h2gcn.sparse.memory import reserve

__all__ = [
    "SHARED",
    "count_threads",
    "equal_parts",
    "in_order",
    "in_threads",
    "own_threads",
    "parts_between",
    "row_starts",
    "share_out",
    "sorted_csr",
    "take_columns",
    "take_rows",
]

MANY = 2**20
"""Entries from which on threads and compiled code are worth it."""


def take_rows(matrix: CSR, index: NDArray[np.integer]) -> CSR:
    """Return the rows `index` of a matrix, [len(index), n].

    Parameters
    ----------
    matrix
        [m, n], sorted in each row.
    index
        In any order, also repeatedly.
    """
    if matrix.nnz < MANY:
        return CSR(matrix[index])
    starts = row_starts(np.diff(matrix.indptr)[index])

    def copy(part: slice, columns: NDArray[Any], values: NDArray[Any]) -> None:
        given = matrix.indptr, matrix.indices, matrix.data
        _copy_rows(*given, index[part], columns, values)

    return _written(copy, starts, matrix, (len(index), matrix.shape[1]))


def take_columns(matrix: CSR, index: NDArray[np.integer]) -> CSR:
    """Return the columns `index` of a matrix, [m, len(index)].

    Of a symmetric matrix they are the transpose of the rows `index`, found without
    moving an entry to another row.

    Parameters
    ----------
    matrix
        [m, n], sorted in each row.
    index
        Ascending.
    """
    if matrix.nnz < MANY:
        return CSR(matrix[:, index])
    words, before = _ranks(index, matrix.shape[1])
    lengths = np.diff(matrix.indptr)
    sizes = np.zeros(matrix.shape[0], dtype=np.int64)

    def count(part: slice) -> None:
        starts = matrix.indptr[part.start : part.stop + 1]
        _count_columns(starts, matrix.indices, words, sizes[part])

    in_threads(count, lengths)

    def copy(part: slice, columns: NDArray[Any], values: NDArray[Any]) -> None:
        given = matrix.indptr[part.start : part.stop + 1], matrix.indices, matrix.data
        _copy_columns(*given, words, before, columns, values)

    return _written(copy, row_starts(sizes), matrix, (matrix.shape[0], len(index)))


def in_order(matrix: CSR, order: NDArray[np.int64]) -> CSR:
    """Return a matrix with rows and columns in another order, sorted, [n, n].

    Parameters
    ----------
    matrix
        [n, n].
    order
        Which row and column is the first, and so on, [n].
    """
    if matrix.nnz < MANY:
        moved = CSR(matrix[order][:, order])
        moved.sort_indices()
        return moved
    place = np.empty(len(order), dtype=matrix.indices.dtype)
    place[order] = np.arange(len(order))
    starts = row_starts(np.diff(matrix.indptr)[order])

    def copy(part: slice, columns: NDArray[Any], values: NDArray[Any]) -> None:
        given = matrix.indptr, matrix.indices, matrix.data
        _copy_moved(*given, order[part], place, columns, values)

    return _written(copy, starts, matrix, matrix.shape)


def _ranks(
    index: NDArray[np.integer], n: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return a bit for each of n numbers, set if it is in `index`, and how many before.

    For a million they take 190 kB, which a cache near the processor holds; the place of
    each in `index` would take 4 MB.

    Returns
    -------
    tuple
        Words of 64 bits, and how many bits are set in the words before each.
    """
    wanted = np.zeros(-(-n // 64) * 64, dtype=bool)
    wanted[index] = True
    words = np.packbits(wanted, bitorder="little").view("<u8")
    counts = wanted.reshape(-1, 64).sum(axis=1)
    return words, (np.cumsum(counts) - counts).astype(np.int32)


def _written(
    write: Callable[[slice, NDArray[Any], NDArray[Any]], None],
    starts: NDArray[np.int64],
    like: CSR,
    shape: tuple[int, int],
) -> CSR:
    """Return a matrix whose rows are written by threads, each to its place.

    Parameters
    ----------
    write
        Is given some rows, and the columns and values of these to be written.
    starts
        Of the rows, [m + 1].
    like
        What has the types of its parts.
    shape
        [m, n].
    """
    columns = reserve(int(starts[-1]), like.indices.dtype)
    values = reserve(int(starts[-1]), like.data.dtype)

    def fill(part: slice) -> None:
        own = slice(starts[part.start], starts[part.stop])
        write(part, columns[own], values[own])

    in_threads(fill, np.diff(starts))
    return sorted_csr(values, columns, starts.astype(like.indptr.dtype), shape)


def sorted_csr(
    values: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    shape: tuple[int, int],
) -> CSR:
    """Return a matrix of its parts, of which it is known that each row is sorted.

    scipy would look through all of them to find out.
    """
    matrix = CSR((values, columns, starts), shape=shape)
    matrix.has_sorted_indices = True
    return matrix


@compiled
def _copy_rows(starts, columns, values, index, out, out_values):  # type: ignore[no-untyped-def]
    """Write the rows `index` one after the other."""
    to = 0
    for i in range(len(index)):
        for at in range(starts[index[i]], starts[index[i] + 1]):
            out[to] = columns[at]
            out_values[to] = values[at]
            to += 1


ONE, LOW = np.uint64(1), np.uint64(63)
SIX, TWELVE = np.uint64(6), np.uint64(12)


@compiled
def _count_columns(starts, columns, words, sizes):  # type: ignore[no-untyped-def]
    """Count the wanted columns of each row."""
    for i in range(len(sizes)):
        size = np.uint64(0)
        for at in range(starts[i], starts[i + 1]):
            column = np.uint64(columns[at])
            size += (words[column >> SIX] >> (column & LOW)) & ONE
        sizes[i] = size


@compiled
def _copy_columns(starts, columns, values, words, before, out, out_values):  # type: ignore[no-untyped-def]
    """Write the wanted columns by their place among all wanted, row after row.

    Each is written, and written over if it is not wanted: whether it is, the processor
    cannot guess.
    """
    to = 0
    for at in range(starts[0], starts[-1]):
        if to == len(out):
            break
        column = np.uint64(columns[at])
        word, bit = words[column >> SIX], ONE << (column & LOW)
        out[to] = before[column >> SIX] + count_bits(word & (bit - ONE))
        out_values[to] = values[at]
        to += (word & bit) != 0


@compiled
def _copy_moved(starts, columns, values, order, place, out, out_values):  # type: ignore[no-untyped-def]
    """Write the rows `order` one after the other, each sorted by its columns' places.

    Places are set in a bitmap with a summary of its words, and read off from there.
    """
    n = len(place)
    bits, summary = np.zeros(n // 64 + 1, np.uint64), np.zeros(n // 4096 + 1, np.uint64)
    held = np.empty(n, values.dtype)
    to = 0
    for i in range(len(order)):
        first, last = np.int64(len(summary)), np.int64(0)
        for at in range(starts[order[i]], starts[order[i] + 1]):
            new = np.uint64(place[columns[at]])
            held[new] = values[at]
            bits[new >> SIX] |= ONE << (new & LOW)
            summary[new >> TWELVE] |= ONE << ((new >> SIX) & LOW)
            own = np.int64(new >> TWELVE)
            first, last = min(first, own), max(last, own)
        for block in range(first, last + 1):
            words = summary[block]
            summary[block] = 0
            while words != 0:
                at = block * 64 + lowest_bit(words)
                words &= words - ONE
                word = bits[at]
                bits[at] = 0
                while word != 0:
                    column = at * 64 + lowest_bit(word)
                    word &= word - ONE
                    out[to] = column
                    out_values[to] = held[column]
                    to += 1


# ---------------------------------------------------------------------- rows in threads

SMALL_WORK = 2_000_000
"""Costs below which one thread is as quick as several."""
SHARED = 2**22
"""Entries times columns of a product that are enough work for a thread."""
TASKS = 16
"""Parts of the rows of a product that threads take."""


def row_starts(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where rows of the given sizes begin, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def in_threads(work: Callable[[slice], None], costs: NDArray[Any]) -> None:
    """Call `work` on slices of rows that cost about the same, side by side.

    Parameters
    ----------
    work
        Gives up Python's lock, or threads would wait for each other.
    costs
        Of each row, [m]; a unit is some nanoseconds.
    """
    total = np.cumsum(costs + 1)
    threads = count_threads()
    if threads == 1 or not len(total) or total[-1] < SMALL_WORK:
        work(slice(0, len(costs)))
        return
    ends = np.searchsorted(total, np.linspace(0, total[-1], 8 * threads + 1)[1:-1])
    share_out(work, parts_between(ends, len(costs)), threads)


def parts_between(ends: NDArray[np.int64], n_rows: int) -> list[slice]:
    """Return the slices of rows that end there, the last one at the end of all."""
    found = sorted({0, *ends.tolist(), n_rows})
    return [slice(*pair) for pair in pairwise(found)]


def equal_parts(starts: NDArray[np.integer]) -> list[slice]:
    """Cut rows, which begin there, into TASKS parts of as many entries each."""
    bounds = np.linspace(0, starts[-1], TASKS + 1)[1:-1]
    return parts_between(np.searchsorted(starts, bounds), len(starts) - 1)


def share_out(
    work: Callable[[slice], None], parts: Sequence[slice], threads: int
) -> None:
    """Call `work` on each part, in this thread and in others that are kept for it.

    Each takes the next part when it is done with one, and who has not begun when none
    is left is not waited for: where other programs have the processor, that is hardly
    slower than to do it all here.

    Parameters
    ----------
    work
        As of `in_threads`.
    parts
        Which rows each is.
    threads
        How many, this one among them.
    """
    left = iter(parts)

    def take() -> None:
        for part in left:  # one thread at a time has Python's lock
            work(part)

    helpers = [_helpers(threads - 1).submit(take) for _ in range(threads - 1)]
    try:
        take()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count)


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)


_ASKED = local()
"""For each thread: how many it has, where that is not what torch says."""


@contextmanager
def own_threads() -> Iterator[None]:
    """Let rows keep the threads that they have now, whatever torch is told meanwhile.

    For torch's work on small matrices, one thread is quicker than several, and yet
    there may be a large sparse one among them.
    """
    before = getattr(_ASKED, "count", None)
    _ASKED.count = count_threads()
    try:
        yield
    finally:
        _ASKED.count = before


def count_threads() -> int:
    """Return how many threads share rows: as many as torch uses, where it is loaded."""
    asked_for: int | None = getattr(_ASKED, "count", None)
    if asked_for is not None:
        return asked_for
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
