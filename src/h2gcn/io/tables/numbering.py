"""Which node an id names: ids as the numbers of nodes, of millions of edges at a time.

Whole numbers, also those that are written as text, are looked up in a table, or where
they lie far apart among the sorted ids. Other texts are joined by DuckDB, which keeps
what does not fit into its share of memory in a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import import_extra
from h2gcn.exceptions import InputError
from h2gcn.graph import slices
from h2gcn.io.mistakes import one_line

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Numbering", "as_integers", "first_text_twice", "first_twice", "number_ids"]

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
"""Texts that are whole numbers, each written in the one way that is usual."""
SPARSE = 4
"""A table has at most so many places for each id."""
FEW = 2**20
"""Places that a table may have in any case."""
BLOCK = 2**20
"""Ids that are read together."""


def as_integers(
    column: pa.ChunkedArray,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return cells as whole numbers, and which of them are, [n] each.

    Parameters
    ----------
    column
        Integers, or text: only as an integer is usually written, so that the number
        tells the text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers, are = as_integers(pa.chunked_array([["7", "007", None]]))
    >>> numbers[are].tolist(), are.tolist()
    ([7], [True, False, False])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        there = pc.is_valid(column)
        plain = column.fill_null(0) if column.null_count else column
        try:
            numbers = plain.cast(pa.int64())
        except pa.ArrowInvalid:  # above 2 to the 63: text, for all that it matters
            return as_integers(column.cast(pa.large_string()))
    else:
        there = pc.fill_null(pc.match_substring_regex(column, _WHOLE), False)
        numbers = pc.if_else(there, column, pa.scalar("0", column.type)).cast(
            pa.int64()
        )
    return numbers.to_numpy(), np.asarray(there.to_numpy(), dtype=bool)


def first_twice(ids: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first two rows that have the same id, if there are such, [n].

    Examples
    --------
    >>> first_twice(np.array([5, 7, 9, 7, 5]))
    (1, 3)
    """
    ordered = np.sort(ids)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return None
    order = np.argsort(ids, kind="stable")
    pairs = order[1:][again]
    place = int(np.argmin(pairs))
    return int(order[:-1][again][place]), int(pairs[place])


def first_text_twice(
    texts: pa.ChunkedArray, scratch: Path, memory: int
) -> tuple[int, int] | None:
    """Return two rows that have the same text, the first such, if there are any.

    Parameters
    ----------
    texts
        [n].
    scratch, memory
        As of `number_ids`.
    """
    import pyarrow as pa

    (scratch / "twice.duckdb").unlink(missing_ok=True)
    base = _connect(scratch / "twice.duckdb", memory)
    try:
        rows = pa.array(np.arange(len(texts)))
        base.register("texts", pa.table({"id": texts, "row": rows}))
        found = base.execute(
            "SELECT min(row), min(row) FILTER (row > least) FROM (SELECT id, row, "
            "min(row) OVER (PARTITION BY id) AS least FROM texts WHERE id IN (SELECT "
            "id FROM texts GROUP BY id HAVING count(*) > 1 ORDER BY min(row) LIMIT 1"
            ")) GROUP BY id"
        ).fetchone()
    except _errors() as error:
        raise _explain(error) from None
    finally:
        base.close()
    return None if found is None else (int(found[0]), int(found[1]))


def _connect(file: Path, memory: int) -> Any:
    """Return a database of our own that keeps to its share of memory."""
    duckdb = import_extra("duckdb", "to convert tables whose ids are text")
    settings = {
        "memory_limit": f"{max(memory // 2**20, 64)}MiB",
        "temp_directory": str(file.parent),
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
    }
    try:
        return duckdb.connect(str(file), config=settings)
    except duckdb.Error as error:
        raise _explain(error) from None


def _errors() -> Any:
    import duckdb

    return duckdb.Error


def _explain(error: Exception) -> InputError:
    return InputError(
        f"the ids of the nodes cannot be looked up (DuckDB says: {one_line(error)})"
    )


class Slices(Protocol):
    """Ids of which slices are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> NDArray[Any]: ...


class Numbering(ABC):
    """Finds nodes by their ids; a context manager.

    Parameters
    ----------
    n_nodes
        How many there are.
    """

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = n_nodes

    @abstractmethod
    def find(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Return the node that each cell names, -1 where it is none, [m]."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is held, if anything."""
        return


class _ByTable(Numbering):
    """Whole numbers that lie close together."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        super().__init__(len(ids))
        self._low, high = int(ids.min()), int(ids.max())
        self._nodes = np.full(high - self._low + 1, -1, dtype=_kind(len(ids)))
        self._nodes[ids - self._low] = np.arange(len(ids), dtype=self._nodes.dtype)

    def find(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        numbers, there = as_integers(column)
        high = self._low + len(self._nodes)
        there &= (numbers >= self._low) & (numbers < high)
        if there.all():
            return self._nodes[numbers - self._low].astype(np.int64)
        found = np.full(len(numbers), -1, dtype=np.int64)
        found[there] = self._nodes[numbers[there] - self._low]
        return found


class _BySearch(Numbering):
    """Whole numbers that lie far apart."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        super().__init__(len(ids))
        order = np.argsort(ids)
        self._order, self._ids = order.astype(_kind(len(ids))), ids[order]

    def find(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        numbers, there = as_integers(column)
        # In their order, neighbours are near in memory: several times as quick.
        order = np.argsort(numbers)
        numbers = numbers[order]
        places = np.searchsorted(self._ids, numbers)
        places[places == len(self._ids)] = 0
        nodes = np.where(self._ids[places] == numbers, self._order[places], -1)
        found = np.empty(len(numbers), dtype=np.int64)
        found[order] = nodes
        found[~there] = -1
        return found


class _ByText(Numbering):
    """Any texts, by DuckDB."""

    def __init__(self, ids: Slices, scratch: Path, memory: int) -> None:
        import pyarrow as pa

        super().__init__(len(ids))
        (scratch / "ids.duckdb").unlink(missing_ok=True)
        self._base = _connect(scratch / "ids.duckdb", memory)
        try:
            self._base.execute("CREATE TABLE ids (id VARCHAR, node BIGINT)")
            for part in slices(len(ids), BLOCK):
                texts = pa.array(ids[part], pa.large_string())
                nodes = pa.array(np.arange(part.start, part.stop))
                self._base.register("new_ids", pa.table({"id": texts, "node": nodes}))
                self._base.execute("INSERT INTO ids SELECT id, node FROM new_ids")
                self._base.unregister("new_ids")
        except _errors() as error:
            raise _explain(error) from None

    def find(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        import pyarrow as pa

        rows = pa.array(np.arange(len(column)))
        cells = column.cast(pa.large_string())
        found = np.full(len(column), -1, dtype=np.int64)
        try:
            self._base.register("asked", pa.table({"id": cells, "row": rows}))
            rows_found = self._base.sql(
                "SELECT asked.row AS row, ids.node AS node FROM asked JOIN ids "
                "ON asked.id = ids.id"
            )
            for batch in pa.RecordBatchReader.from_stream(rows_found):
                found[batch["row"].to_numpy()] = batch["node"].to_numpy()
            self._base.unregister("asked")
        except _errors() as error:
            raise _explain(error) from None
        return found

    def __exit__(self, *_: object) -> None:
        self._base.close()


def number_ids(ids: Slices, scratch: Path, memory: int) -> Numbering:
    """Return what finds nodes by their ids.

    Parameters
    ----------
    ids
        Of all nodes, [n], each once: texts.
    scratch
        A folder for files that are needed meanwhile.
    memory
        Bytes that may be used for them.
    """
    import pyarrow as pa

    numbers = np.empty(len(ids), dtype=np.int64)
    for part in slices(len(ids), BLOCK):
        texts = pa.chunked_array([pa.array(ids[part], pa.large_string())])
        numbers[part], are = as_integers(texts)
        if not are.all():
            return _ByText(ids, scratch, memory)
    span = int(numbers.max()) - int(numbers.min()) + 1
    close = span <= SPARSE * len(ids) + FEW
    return _ByTable(numbers) if close else _BySearch(numbers)


def _kind(count: int) -> type[np.signedinteger[Any]]:
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64
