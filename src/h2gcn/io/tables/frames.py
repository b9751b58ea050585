"""Tables that are in memory: frames of every library that speaks Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from h2gcn.exceptions import InputError
from h2gcn.io.mistakes import one_line
from h2gcn.io.tables.columns import (
    COPIES,
    INDEX,
    ROW,
    InputTable,
    Origin,
    check_column_names,
)
from h2gcn.sparse import check_room

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowTable", "as_table", "is_frame", "open_frame", "within_room"]

MOST_CATEGORIES = 50
"""Of a column of more values, a categorical type says only how its text is stored."""


@dataclass(frozen=True)
class ArrowTable(InputTable):
    """A table in memory.

    Parameters
    ----------
    content
        Its columns, those of the index too.
    """

    content: pa.Table = field(kw_only=True)

    def load(self, wanted: list[str], text: list[str]) -> pa.Table:
        """Return columns; `text` is what their types are."""
        del text
        places = {name: place for place, name in enumerate(self.raw_columns)}
        return self.content.select([places[name] for name in wanted])


def is_frame(given: object) -> bool:
    """Tell whether an object offers its rows by Arrow's PyCapsule interface."""
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def open_frame(frame: Any, origin: Origin) -> ArrowTable:
    """Return the table that a frame is.

    Parameters
    ----------
    frame
        Of pandas (2.2 or later), polars, duckdb, pyarrow or any other library whose
        objects have `__arrow_c_stream__`, or `__arrow_c_array__`. A stream is read to
        its end.
    origin
        What messages call it.
    """
    import pyarrow as pa

    try:
        if hasattr(frame, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(frame)
        else:
            reader = pa.table(frame).to_reader()
        batches = within_room(origin, reader)
        content = pa.Table.from_batches(batches, schema=reader.schema)
    except InputError:
        raise
    except Exception as error:  # of a library that may be any
        words = "; ".join(map(str, error.args)) or type(error).__name__
        raise InputError(
            f"{origin}: the table cannot be read ({one_line(words)})."
        ) from None
    return as_table(content, origin)


def within_room(
    origin: Origin, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield batches as long as a graph that is made of them fits into memory."""
    import pyarrow as pa

    rows = need = 0
    for batch in batches:
        rows += batch.num_rows
        # The values of a dictionary may be shared, and are counted once it is read.
        cells = (
            column.indices if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        )
        size = sum(column.nbytes for column in cells)
        need += COPIES * size + ROW * batch.num_rows
        check_room(f"{origin}: its first {rows:,} rows", need)
        yield batch


def as_table(content: pa.Table, origin: Origin) -> ArrowTable:
    """Return a table of Arrow with what its types and pandas say about its columns."""
    content, index = _with_index(content)
    raw = tuple(content.column_names)
    columns = [name.strip() for name in raw]
    if len(index) == 1:
        columns = [INDEX if _unnamed(name) else name for name in columns]
        index = tuple(INDEX if _unnamed(name) else name for name in index)
    check_column_names(origin, columns)
    names = tuple(columns)
    plain = [_usual(column) for column in content.columns]
    categories = tuple(
        name
        for name, column in zip(names, plain, strict=True)
        if name and name not in index and _few_categories(column)
    )
    return ArrowTable(
        origin,
        names,
        raw,
        index=index,
        categories=categories,
        content=_joined(plain, raw, content),
    )


def _joined(columns: list[Any], names: tuple[str, ...], content: pa.Table) -> pa.Table:
    import pyarrow as pa

    # A table without columns has rows all the same.
    return pa.table(columns, names=list(names)) if names else content


def _unnamed(name: str) -> bool:
    return name.startswith("__index_level_")


def _with_index(content: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Return a table with the index of pandas among its columns, and their names.

    An index that numbers the rows is not stored: it is made here.
    """
    import pyarrow as pa

    try:
        said = content.schema.pandas_metadata or {}
        levels = list(said.get("index_columns", ()))
    except (AttributeError, TypeError, ValueError):  # somebody else's words
        return content, ()
    there = set(content.column_names)
    names = [level.strip() for level in levels if isinstance(level, str)]
    index = tuple(
        name for name in content.column_names if name.strip() in names and name.strip()
    )
    if index or len(levels) != 1 or not isinstance(levels[0], dict):
        return content, tuple(name.strip() for name in index)
    level = levels[0]
    try:
        numbers = range(level["start"], level["stop"], level["step"])
    except (KeyError, TypeError, ValueError):
        return content, ()
    name = str(level.get("name") or INDEX).strip()
    if len(numbers) != content.num_rows or name in there:
        return content, ()
    return content.append_column(name, pa.array(numbers, pa.int64())), (name,)


def _usual(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type that Arrow can compute with.

    Types that others have added to Arrow become what they are stored as: ids are
    text, decimals numbers.
    """
    from uuid import UUID

    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind) and kind.value_type == pa.string_view():
        chunks = [
            pa.DictionaryArray.from_arrays(
                chunk.indices, chunk.dictionary.cast(pa.large_string())
            )
            for chunk in column.chunks
        ]
        kind = pa.dictionary(kind.index_type, pa.large_string())
        return pa.chunked_array(chunks, kind)
    if not isinstance(kind, pa.BaseExtensionType):
        return column
    name = kind.extension_name
    stored = pa.chunked_array(
        [chunk.storage for chunk in column.chunks], kind.storage_type
    )
    if name == "arrow.uuid":
        texts = [
            None if cell is None else str(UUID(bytes=cell))
            for cell in stored.to_pylist()
        ]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    # PostgreSQL has decimals of any length, which come as text.
    if getattr(kind, "type_name", None) == "numeric":
        return stored.cast(pa.float64())
    return stored


def _few_categories(column: pa.ChunkedArray) -> bool:
    """Tell whether a column has a categorical type, and not too many values."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return False
    chunks = column.chunks
    return all(len(chunk.dictionary) <= MOST_CATEGORIES for chunk in chunks)
