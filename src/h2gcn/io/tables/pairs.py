"""The adjacency matrix of edges that are listed in files, larger than the memory.

An edge becomes a number for each of its two directions, whose order is that of rows and
columns of the matrix. The numbers are dealt out to files by ranges of rows, so that
each fits into memory, is sorted there and written behind the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import slices
from h2gcn.io.store import ArrayFile, ArraySlices

__all__ = ["FILES", "WORK", "PairCounts", "write_adjacency"]

BLOCK = 2**21
"""Edges that are looked at together."""
WORK = 40
"""Bytes that a number takes while its file is sorted and written."""
FILES = 256
"""Files that the numbers are dealt out to, about, at most: all are open at a time."""


@dataclass(frozen=True)
class PairCounts:
    """What a list of edges came to.

    Parameters
    ----------
    entries
        Of the symmetric matrix.
    one_way
        Pairs with their directions, each once; without directions, pairs.
    """

    entries: int
    one_way: int


def write_adjacency(
    source: ArraySlices,
    target: ArraySlices,
    n: int,
    folder: Path,
    scratch: Path,
    memory: int,
    *,
    undirected: bool,
    progress: Callable[[int, int], None],
) -> PairCounts:
    """Write `indptr`, `indices` of the symmetric matrix, and `out_*` with directions.

    Parameters
    ----------
    source, target
        Nodes that each edge joins, [m] each; the two differ.
    n
        How many nodes there are.
    folder, scratch
        Where the matrices go, and what is needed meanwhile.
    memory
        Bytes that may be used.
    undirected
        Whether (u, v) and (v, u) are the same; then there is no `out_*`.
    progress
        Called with how much is done, and of how much.
    """
    m = len(source)
    bits = max(int(n - 1).bit_length(), 1)
    degrees = np.zeros(n, dtype=np.int64)
    # A count of all nodes is made for each block, so that no block has fewer edges.
    for part in slices(m, max(BLOCK, n // 2)):
        for end in (source, target):
            degrees += np.bincount(end[part], minlength=n)
        progress(part.stop, 4 * m)
    most = max(memory // WORK, BLOCK, 2 * m // FILES)
    starts = _ranges(degrees, most, bits)
    files = [scratch / f"pairs-{number}.bin" for number in range(len(starts))]

    def dealt(done: int) -> None:
        progress(m + done, 4 * m)

    _deal_out(source, target, starts, bits, files, dealt)
    wide = 2 * m > np.iinfo(np.int32).max
    kind = np.int64 if wide else np.int32
    sizes = np.zeros(n + 1, dtype=np.int64)
    out_sizes = np.zeros(n + 1, dtype=np.int64)
    ends = [*starts[1:].tolist(), n]
    with ExitStack() as stack:
        indices = stack.enter_context(ArrayFile(folder / "indices.npy", kind))
        out = stack.enter_context(ArrayFile(folder / "out_indices.npy", kind))
        done = 0
        for number, (first, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
            keys = np.fromfile(files[number], dtype=np.int64)
            files[number].unlink()
            keys.sort()
            done += len(keys)
            for forward, rows, columns in _distinct(keys, bits):
                counted = np.bincount(rows, minlength=end - first)
                if forward:
                    out.append(columns)
                    out_sizes[first + 1 : end + 1] += counted
                else:
                    indices.append(columns)
                    sizes[first + 1 : end + 1] += counted
            progress(2 * m + done, 4 * m)
            del keys
    np.cumsum(sizes, out=sizes)
    np.cumsum(out_sizes, out=out_sizes)
    entries, one_way = int(sizes[-1]), int(out_sizes[-1])
    if undirected:
        one_way = entries // 2
    _finish(folder, "", sizes, kind)
    if undirected or one_way == entries:
        (folder / "out_indices.npy").unlink()
    else:
        _finish(folder, "out_", out_sizes, kind)
    return PairCounts(entries, one_way)


def _ranges(degrees: NDArray[np.int64], most: int, bits: int) -> NDArray[np.int64]:
    """Return where ranges of rows begin that have at most so many entries, or one row.

    Nor are they longer than numbers of 64 bits have room for, beside a column.
    """
    longest = 2 ** min(62 - bits, 40)
    ends = np.cumsum(degrees)
    starts, at, before = [], 0, 0
    while at < len(degrees):
        starts.append(at)
        to = int(np.searchsorted(ends, before + most, side="right"))
        at = min(max(to, at + 1), at + longest)
        before = int(ends[at - 1])
    return np.array(starts, dtype=np.int64)


def _deal_out(
    source: ArraySlices,
    target: ArraySlices,
    starts: NDArray[np.int64],
    bits: int,
    files: list[Path],
    progress: Callable[[int], None],
) -> None:
    """Write both directions of each edge as a number to the file of its row."""
    with ExitStack() as stack:
        streams = [stack.enter_context(file.open("wb")) for file in files]
        for part in slices(len(source), BLOCK):
            ends = source[part], target[part]
            for backward in (0, 1):
                rows, columns = ends[backward], ends[1 - backward]
                which = np.searchsorted(starts, rows, side="right") - 1
                keys = ((rows - starts[which]) << bits) | columns
                keys = (keys << 1) | backward
                if len(files) == 1:
                    streams[0].write(keys.data)
                    continue
                small = which.astype(np.uint16)
                keys = keys[np.argsort(small, kind="stable")]
                counts = np.bincount(which, minlength=len(files))
                begin = 0
                for stream, count in zip(streams, counts.tolist(), strict=True):
                    stream.write(keys[begin : begin + count].data)
                    begin += count
            progress(part.stop)


def _distinct(
    keys: NDArray[np.int64], bits: int
) -> Iterator[tuple[bool, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows and columns of sorted numbers, each pair once, in blocks.

    First of both directions together, then of those that go forward alone.
    """
    mask = (1 << bits) - 1
    for part in slices(len(keys), BLOCK):
        before = keys[part.start - 1] if part.start else np.int64(-1)
        these = keys[part]
        earlier = np.concatenate([[before], these[:-1]])
        for forward in (False, True):
            new = these >> 1 != earlier >> 1
            if forward:
                new = (these & 1 == 0) & (these != earlier)
            pairs = these[new] >> 1
            yield forward, pairs >> bits, pairs & mask


def _finish(folder: Path, prefix: str, ends: NDArray[np.int64], kind: type) -> None:
    """Write where rows begin, in 32 bits where these are enough, and so the columns."""
    fits = int(ends[-1]) <= np.iinfo(np.int32).max
    final = np.int32 if fits else np.int64
    with ArrayFile(folder / f"{prefix}indptr.npy", final) as file:
        for part in slices(len(ends), BLOCK):
            file.append(ends[part])
    columns = folder / f"{prefix}indices.npy"
    if final is kind:
        return
    wide = np.load(columns, mmap_mode="r")
    narrow = columns.with_suffix(".narrow")
    with ArrayFile(narrow, final) as file:
        for part in slices(len(wide), BLOCK):
            file.append(wide[part])
    narrow.replace(columns)
