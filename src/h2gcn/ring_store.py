"""Rings in files: made block by block, kept for the next time, read in sequence."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn._files import whole_file, write_whole
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.memory import gigabytes
from h2gcn.rings import ring_pattern, ring_sizes
from h2gcn.row_work import row_blocks, row_starts

__all__ = ["StoredRing", "store_ring"]

BLOCK = 2**24
"""Entries of a ring that are made together, about."""
FORMAT = 1


@dataclass(frozen=True)
class StoredRing:
    """The pattern of a ring in a file.

    Parameters
    ----------
    columns
        The columns of all entries, row by row, mapped from the file, [nnz].
    starts
        Where each row begins, [n + 1].
    """

    columns: NDArray[np.int32]
    starts: NDArray[np.int64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        return np.diff(self.starts)

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        sizes, begin = self.sizes[index], self.starts[index]
        starts = row_starts(sizes)
        if len(index) and (np.diff(index) == 1).all():  # as they lie in the file
            place = slice(begin[0], begin[0] + starts[-1])
            return np.asarray(self.columns[place]), starts
        places = np.repeat(begin - starts[:-1], sizes) + np.arange(starts[-1])
        return np.asarray(self.columns[places]), starts


def store_ring(adj: CSR, folder: Path, *, hop: int = 2) -> StoredRing:
    """Return ring `hop` of a graph from its file, which is made if it is not there.

    Each graph has a folder of its own in `folder`, named by a checksum of its edges.
    The file takes four bytes an entry, and is whole or not there at all.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    folder
        Where the rings of graphs are kept.
    hop
        The distance, at least 2.
    """
    home = folder / _checksum(adj)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used ({error.strerror})") from None
    file, notes = home / f"ring-{hop}.int32", home / f"ring-{hop}.json"
    starts_file = home / f"ring-{hop}.starts.npy"
    if not _is_whole(file, notes, starts_file):
        starts = _write(adj, hop, file)
        about = {
            "format": FORMAT,
            "entries": int(starts[-1]),
            "starts": _digest(starts),
        }
        with whole_file(starts_file) as out:
            np.save(out, starts)
        write_whole(notes, json.dumps(about).encode())
    starts = np.load(starts_file)
    if not starts[-1]:
        return StoredRing(np.zeros(0, dtype=np.int32), starts)
    # Copy on write: torch takes no memory that it may not write to.
    return StoredRing(np.memmap(file, dtype=np.int32, mode="c"), starts)


def _write(adj: CSR, hop: int, file: Path) -> NDArray[np.int64]:
    sizes = ring_sizes(adj, hop)
    starts = row_starts(sizes)
    needed, free = 4 * int(starts[-1]), shutil.disk_usage(file.parent).free
    if needed > free:
        raise InputError(
            f"{file.parent}: ring {hop} takes {gigabytes(needed)}, but "
            f"{gigabytes(free)} are free on this disk"
        )
    with whole_file(file) as out:
        for first, last in row_blocks(sizes, BLOCK):
            nodes = np.arange(first, last)
            columns, _ = ring_pattern(adj, hop, nodes, sizes[first:last])
            out.write(columns.tobytes())
    return starts


def _is_whole(file: Path, notes: Path, starts: Path) -> bool:
    """Whether the file is one that was written to its end."""
    if not (file.is_file() and notes.is_file() and starts.is_file()):
        return False
    try:
        about = json.loads(notes.read_text(encoding="utf-8"))
        return bool(
            about["format"] == FORMAT
            and file.stat().st_size == 4 * about["entries"]
            and about["starts"] == _digest(np.load(starts))
        )
    except (ValueError, KeyError, TypeError, EOFError, OSError):
        return False


def _digest(starts: NDArray[np.int64]) -> str:
    return hashlib.sha256(starts.tobytes()).hexdigest()


def _checksum(adj: CSR) -> str:
    digest = hashlib.sha256(adj.indptr.astype(np.int64).tobytes())
    digest.update(adj.indices.astype(np.int32).tobytes())
    return digest.hexdigest()[:16]
