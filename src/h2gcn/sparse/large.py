"""Products with dense matrices that are larger than the cache.

The rows of the dense matrix that a sparse row wants lie anywhere in it: each of them is
a trip to memory, with another one to find its page, and most of an epoch is spent
waiting. So the dense matrix is copied to huge pages (`Whole`), all of which the
processor remembers, and is filled up with columns to what our kernel sums together.
Sparse rows are summed in the order of their entries (`RowSums`), each column as if it
were alone: neither other rows nor other columns change a bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import RLock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse.memory import huge_pages
from h2gcn.sparse.rows import SHARED, count_threads, equal_parts, share_out

__all__ = ["LANES", "LaidOut", "Room", "RowSums", "Whole", "kept_workspace"]

LANES = 16
"""Columns that our kernel sums together."""
MANY_BYTES = 2**22
"""From which on a dense matrix is in huge pages."""


class Room:
    """Memory for numbers, in huge pages where there are many; kept for the next ones.

    What is in it must not be used when it is gone.

    Parameters
    ----------
    count
        How many numbers.

    Attributes
    ----------
    numbers
        Not yet written, [count].
    """

    def __init__(self, count: int) -> None:
        self._lot = _take(count) if 4 * count >= MANY_BYTES else None
        lot = self._lot
        self.numbers = torch.empty(count) if lot is None else torch.from_numpy(lot)
        self.numbers = self.numbers[:count]

    def __del__(self) -> None:
        lot = getattr(self, "_lot", None)
        if lot is not None and _KEEPERS:
            _give_back(lot)


class Whole:
    """A dense matrix, filled up with columns to what our kernel sums together.

    Parameters
    ----------
    rows, width
        Its shape, [n, c].

    Attributes
    ----------
    numbers
        With further columns, which are zero, [n, c']; the others are yet to be written.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.width = width
        filled = -(-width // LANES) * LANES
        self._room = Room(rows * filled)
        self.numbers = self._room.numbers.view(rows, filled)
        self.numbers[:, width:] = 0

    @classmethod
    def of(cls, dense: Tensor) -> Whole:
        """Return a copy of a dense matrix."""
        whole = cls(*dense.shape)
        whole.numbers[:, : whole.width] = dense.detach()
        return whole


class RowSums:
    """A sparse matrix that is multiplied row by row, each in the order of its entries.

    Parameters
    ----------
    matrix
        [m, n].
    """

    def __init__(self, matrix: CSR) -> None:
        if not matrix.has_sorted_indices:
            matrix = matrix.sorted_indices()  # the caller's stays as it is
        self.shape: tuple[int, int] = matrix.shape
        self._entries = int(matrix.nnz)
        columns = np.ascontiguousarray(matrix.indices, dtype=np.int32)
        values = np.ascontiguousarray(matrix.data, dtype=np.float32)
        self._parts = []
        for rows in _addressed(matrix.indptr):
            starts = matrix.indptr[rows.start : rows.stop + 1]
            at, own = int(starts[0]), (starts - starts[0]).astype(np.int32)
            entries = own, columns[at:], values[at:]
            self._parts.append((rows.start, entries, equal_parts(own)))

    def times(self, whole: Whole) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        from h2gcn.sparse.tiles import write_rows

        dense = whole.numbers
        width = dense.shape[1]
        out = torch.empty(self.shape[0], width)
        given, pitch = (dense.data_ptr(), 4 * dense.stride(0)), 4 * out.stride(0)
        threads = count_threads()
        alone = threads == 1 or self._entries * width < SHARED * threads
        for first, entries, parts in self._parts:
            place = out.data_ptr() + first * pitch, pitch
            product = *(array.ctypes.data for array in entries), *given, *place, 0
            table = np.array([product])

            def write(rows: slice, table: NDArray[np.int64] = table) -> None:
                write_rows(table, rows.start, rows.stop, width)

            if alone:
                write(slice(0, len(entries[0]) - 1))
            else:
                share_out(write, parts, threads)
        return out[:, : whole.width].contiguous()


def _addressed(starts: NDArray[np.integer], most: int = 2**31 - 1) -> list[slice]:
    """Return parts of the rows that have no more entries than 32 bits can count.

    Examples
    --------
    >>> _addressed(np.array([0, 2, 3, 6]), most=3)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    found, first, rows = [], 0, len(starts) - 1
    while first < rows:
        last = int(np.searchsorted(starts, int(starts[first]) + most, "right")) - 1
        found.append(slice(first, last))
        first = last
    return found


class LaidOut:
    """A dense matrix that lies where it is quickly multiplied, for several products.

    Parameters
    ----------
    whole
        Its rows, or some of them, [k, c].
    nodes
        Which rows of a matrix [n, c] they are, ascending, [k], where nothing is asked
        of the others; None is all.
    """

    def __init__(self, whole: Whole, nodes: NDArray[np.int64] | None = None) -> None:
        self._whole, self._nodes = whole, nodes
        self.shape: tuple[int, int] = len(whole.numbers), whole.width

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        pieces: Iterable[tuple[slice, NDArray[np.float32]]],
        nodes: NDArray[np.int64] | None = None,
    ) -> LaidOut:
        """Lay a matrix out that comes some rows at a time.

        Parameters
        ----------
        shape
            k and c.
        pieces
            Rows, and what is in them; together all.
        nodes
            Whose rows they are.
        """
        laid = cls(Whole(*shape), nodes)
        for rows, values in pieces:
            laid.numbers[rows] = values
        return laid

    @property
    def numbers(self) -> NDArray[np.float32]:
        """The matrix itself, [k, c]."""
        found: NDArray[np.float32] = self._whole.numbers.numpy()[:, : self.shape[1]]
        return found

    def among(self, matrix: CSR) -> CSR:
        """Return a sparse matrix [m, n] with the columns that are rows here, [m, k]."""
        if self._nodes is None:
            return matrix
        place = np.empty(matrix.shape[1], dtype=np.int32)  # read for these alone
        place[self._nodes] = np.arange(len(self._nodes), dtype=np.int32)
        parts = (matrix.data, place[matrix.indices], matrix.indptr)
        return CSR(parts, shape=(matrix.shape[0], len(self._nodes)))

    def times(self, matrix: CSR) -> NDArray[np.float32]:
        """Return the product of a sparse matrix, [m, n], and this one, [m, c]."""
        return RowSums(self.among(matrix)).times(self._whole).numpy()


# ------------------------------------------------------------------ memory that is kept

_LOCK = RLock()  # what is kept may be given back while it is looked at
_KEPT: list[NDArray[np.float32]] = []
"""Huge pages that nobody uses just now."""
_KEEPERS: list[object] = []
"""For whom they are kept."""


@contextmanager
def kept_workspace() -> Iterator[None]:
    """Keep the huge pages of dense matrices for the next ones, until the end of this.

    They are slow to come by and quick to use. No more are kept than were in use at one
    time.
    """
    keeper = object()
    with _LOCK:
        _KEEPERS.append(keeper)
    try:
        yield
    finally:
        with _LOCK:
            _KEEPERS.remove(keeper)
            if not _KEEPERS:
                _KEPT.clear()


def _take(count: int) -> NDArray[np.float32]:
    """Return room for so many numbers: the smallest that is kept and large enough."""
    with _LOCK:
        fitting = [place for place, lot in enumerate(_KEPT) if len(lot) >= count]
        if fitting:
            return _KEPT.pop(min(fitting, key=lambda place: len(_KEPT[place])))
        if _KEPT:  # not beside the larger one
            _KEPT.pop(max(range(len(_KEPT)), key=lambda place: len(_KEPT[place])))
    return huge_pages(count)


def _give_back(lot: NDArray[np.float32]) -> None:
    with _LOCK:
        if _KEEPERS:
            _KEPT.append(lot)
