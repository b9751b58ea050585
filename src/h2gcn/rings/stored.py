"""Rings in files: made block by block, kept for the next time, read in sequence."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.io import cannot_read, plain_path, whole_file, write_whole
from h2gcn.rings.exact import ring_pattern, ring_sizes
from h2gcn.rings.kernels import row_blocks, row_starts
from h2gcn.sparse import gigabytes

__all__ = ["StoredRing", "store_ring"]

BLOCK = 2**24
"""Entries of a ring that are made together, about."""
READ = 2**26
"""Bytes of a file that are looked at together."""
FORMAT = 2


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
    The file takes four bytes an entry, and is whole or not there at all. One that is
    found is read once to compare it with its checksum; a damaged one is made again.

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
    file, starts_file = home / f"ring-{hop}.int32", home / f"ring-{hop}.starts.npy"
    notes = home / f"ring-{hop}.json"
    if not _is_whole(file, starts_file, notes):
        about = _write(adj, hop, file, starts_file)
        write_whole(notes, json.dumps(about).encode())
    starts = np.load(starts_file)
    if not starts[-1]:
        return StoredRing(np.zeros(0, dtype=np.int32), starts)
    # Copy on write: torch takes no memory that it may not write to.
    return StoredRing(np.memmap(file, dtype=np.int32, mode="c"), starts)


def _write(adj: CSR, hop: int, file: Path, starts_file: Path) -> dict[str, object]:
    """Write a ring; return what is noted of it once it is there."""
    sizes = ring_sizes(adj, hop)
    starts = row_starts(sizes)
    needed, free = 4 * int(starts[-1]), shutil.disk_usage(file.parent).free
    if needed > free:
        raise InputError(
            f"{file.parent}: ring {hop} takes {gigabytes(needed)}, but "
            f"{gigabytes(free)} are free on this disk"
        )
    checksum = 0
    with whole_file(file) as out:
        for first, last in row_blocks(sizes, BLOCK):
            nodes = np.arange(first, last)
            columns, _ = ring_pattern(adj, hop, nodes, sizes[first:last])
            part = columns.tobytes()
            checksum = zlib.crc32(part, checksum)
            out.write(part)
    stream = io.BytesIO()
    np.save(stream, starts)
    write_whole(starts_file, stream.getvalue())
    return {
        "format": FORMAT,
        "entries": int(starts[-1]),
        "columns_crc32": checksum,
        "starts_crc32": zlib.crc32(stream.getvalue()),
    }


def _is_whole(file: Path, starts: Path, notes: Path) -> bool:
    """Whether the files are there as they were written, and to their end."""
    try:
        if not notes.exists():  # they are written last
            return False
        for path in (file, starts, notes):
            plain_path(path)
        about = json.loads(notes.read_bytes())
        if (
            about["format"] == FORMAT
            and file.stat().st_size == 4 * about["entries"]
            and _crc32(starts) == about["starts_crc32"]
            and _crc32(file) == about["columns_crc32"]
        ):
            return True
    except FileNotFoundError:
        pass  # one of the others is gone
    except OSError as error:
        raise cannot_read(Path(error.filename or file), error) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # not the notes of a ring
    warnings.warn(
        f"{file}: is damaged, or of another version of h2gcn; it is made again",
        H2GCNWarning,
        stacklevel=3,
    )
    return False


def _crc32(file: Path) -> int:
    checksum = 0
    with file.open("rb", buffering=0) as stream:
        while part := stream.read(READ):
            checksum = zlib.crc32(part, checksum)
    return checksum


def _checksum(adj: CSR) -> str:
    digest = hashlib.sha256(adj.indptr.astype(np.int64).tobytes())
    digest.update(adj.indices.astype(np.int32).tobytes())
    return digest.hexdigest()[:16]
