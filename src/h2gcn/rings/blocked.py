"""Normalised rings that are never whole in memory: in a file, or computed when needed.

D^-1/2 S D^-1/2 with binary S needs no values: the dense side is scaled before and the
result after the product, so an entry is no more than its column. A file is made block
by block, kept for the next time, and read in sequence.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.io import cannot_read, plain_path, whole_file, write_whole
from h2gcn.rings.exact import (
    ring_pattern,
    ring_scale,
    ring_sizes,
    row_blocks,
    row_starts,
)
from h2gcn.sparse import csr_tensor, gigabytes, product

__all__ = [
    "BlockedRing",
    "ComputedRing",
    "RingSource",
    "StoredRing",
    "store_ring",
]

BLOCK = 2**23
"""Entries that are multiplied at once, about."""
STORED_BLOCK = 2**24
"""Entries of a ring that are made together, about."""
READ = 2**26
"""Bytes of a file that are looked at together."""
FORMAT = 2


class RingSource(Protocol):
    """Gives the rows of a symmetric, binary ring."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        ...

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        ...


class ComputedRing:
    """A ring whose rows are computed each time they are asked for.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 2.
    """

    def __init__(self, adj: CSR, *, hop: int = 2) -> None:
        self._adj, self._hop = adj, hop

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        return ring_sizes(self._adj, self._hop)

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        return ring_pattern(self._adj, self._hop, index, self.sizes[index])


class BlockedRing:
    """The normalised ring of a graph, or some rows of it, multiplied block by block.

    Parameters
    ----------
    source
        Where its rows come from.
    self_loops
        Whether each node is in its own ring too.
    index
        Which rows; None for all.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        source: RingSource,
        *,
        self_loops: bool = False,
        index: NDArray[np.int64] | None = None,
    ) -> None:
        self._source, self._self_loops = source, self_loops
        self._scale = ring_scale(source.sizes + self_loops)
        n = len(self._scale)
        self._nodes = np.arange(n) if index is None else index
        self._whole = index is None
        self.shape = (len(self._nodes), n)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(_Forward(self), lambda: _Transposed(self), dense)

    def rows(self, index: NDArray[np.int64]) -> BlockedRing:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        nodes = self._nodes[index]
        return BlockedRing(self._source, self_loops=self._self_loops, index=nodes)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        nodes, shape = self._nodes[index], (len(index), self.shape[1])
        columns, starts = self._source.pattern(nodes)
        values = np.repeat(self._scale[nodes], np.diff(starts)) * self._scale[columns]
        matrix = CSR((values, columns, starts), shape=shape)
        if self._self_loops:
            places = (np.arange(len(nodes)), nodes)
            ego = sp.coo_array((self._scale[nodes] ** 2, places), shape=shape)
            matrix = CSR(matrix + CSR(ego))
        return matrix

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the rows' product with a dense matrix [n, c], [m, c]."""
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale * dense
        result = dense.new_empty(self.shape[0], dense.shape[1])
        for places, columns, starts in self._blocks():
            block = csr_tensor(
                torch.from_numpy(starts.astype(np.int32)),
                torch.from_numpy(columns),
                dense.new_ones(len(columns)),
                (len(places), self.shape[1]),
            )
            result[places] = block @ scaled
        nodes = torch.from_numpy(self._nodes)
        if self._self_loops:
            result += scaled[nodes]
        return result.mul_(scale[nodes])

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Return the product of the rows' transpose with a dense matrix [m, c], [n, c].

        The whole ring is symmetric, and multiplies faster than rows are scattered:
        where these are many, it multiplies zeros in the other rows' places.
        """
        if self._whole:
            return self.multiply(dense)
        sizes, nodes = self._source.sizes, torch.from_numpy(self._nodes)
        if 2 * sizes[self._nodes].sum() > sizes.sum():
            padded = dense.new_zeros(self.shape[1], dense.shape[1])
            padded.index_add_(0, nodes, dense)
            whole = BlockedRing(self._source, self_loops=self._self_loops)
            return whole.multiply(padded)
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale[nodes] * dense
        result = dense.new_zeros(self.shape[1], dense.shape[1])
        for places, columns, starts in self._blocks():
            ones = np.ones(len(columns), dtype=self._scale.dtype)
            shape = (self.shape[1], len(places))
            block = sp.csc_array((ones, columns, starts), shape=shape)
            result += torch.from_numpy(block @ scaled[places].numpy())
        if self._self_loops:
            result.index_add_(0, nodes, scaled)
        return result.mul_(scale)

    def _blocks(
        self,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
        """Return the rows, some at a time, in the order in which the source has them.

        Of each block, the places of its rows among all, their columns, and where each
        row begins.
        """
        order = np.argsort(self._nodes, kind="stable")
        nodes = self._nodes[order]
        for first, last in row_blocks(self._source.sizes[nodes], BLOCK):
            yield order[first:last], *self._source.pattern(nodes[first:last])


class _Forward:
    """A blocked ring's product, for autograd."""

    def __init__(self, ring: BlockedRing) -> None:
        self._ring = ring

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply(dense)


class _Transposed(_Forward):
    """The product of its transpose, for gradients."""

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply_transposed(dense)


# ----------------------------------------------------------------------- rings in files


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
        for first, last in row_blocks(sizes, STORED_BLOCK):
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
