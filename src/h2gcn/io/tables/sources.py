"""Tables that are no files: frames that speak Arrow, and the rows of a SELECT.

Databases are SQLite, DuckDB and PostgreSQL, by connections that only read. A password
is nobody's business but the driver's, which finds it in the environment: an address
with one is refused, and no message shows an address before it is known to have none.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from h2gcn._validation import import_extra
from h2gcn.exceptions import InputError
from h2gcn.io.files import existing_file
from h2gcn.io.mistakes import one_line
from h2gcn.io.tables.columns import (
    COPIES,
    INDEX,
    ROW,
    InputTable,
    Origin,
    check_column_names,
)
from h2gcn.sparse import check_memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ArrowTable",
    "as_table",
    "is_database",
    "is_frame",
    "open_database",
    "open_frame",
    "within_room",
]

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
        # A query of DuckDB that stays open would keep the file from being opened again.
        with reader:
            batches = within_room(origin, reader)
            content = pa.Table.from_batches(batches, schema=reader.schema)
    except InputError:
        raise
    except Exception as error:  # of a library that may be any
        words = "; ".join(map(str, error.args)) or type(error).__name__
        raise InputError(
            f"the table cannot be read ({one_line(words)}).", where=str(origin)
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
        check_memory(f"{origin}: its first {rows:,} rows", need)
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


# ---------------------------------------------------------------------------- databases


_KIND = re.compile(r"\s*(sqlite|duckdb|postgres|postgresql):", re.IGNORECASE)
_READS = "SELECT|WITH|VALUES|TABLE|FROM"
"""How a query begins that reads; which of them there are, each database says."""
_OTHERS = (
    *("ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DROP", "EXPLAIN"),
    *("INSERT", "INSTALL", "LOAD", "MERGE", "PRAGMA", "REPLACE", "SET", "UPDATE"),
)
"""How others begin. What is none of these may be part of anything: it is not shown."""
_REMARK = r"--[^\n]*|/\*.*?\*/"
_QUERY = re.compile(
    rf"\?(?=(?:[\s(]|{_REMARK})*(?:{_READS})\b)", re.IGNORECASE | re.DOTALL
)
_COMMENT = re.compile(_REMARK, re.DOTALL)
_HOST = r"(?:\[[0-9a-fA-F:.]*\]|[^\s:@/?#\[\],]*)(?::\d*)?"
_SERVER = re.compile(
    rf"(?:[^\s:@/?#]*@)?(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<base>[^\s:@/?#]*))?"
    r"(?:\?(?P<more>\S*))?"
)
"""An address after postgresql://: no password can be in it, but in what follows "?"."""
_SAID = re.compile(r"(?:ERROR|FATAL):\s*([^\n]+)")
_QUOTED_QUERY = re.compile(r"\s*(?:LINE 1:|Query was:).*", re.DOTALL)
WAIT = 10
"""Seconds that a server has to answer, unless the address says otherwise."""
ROWS = 16_384
"""Rows of SQLite that are fetched at once."""


@dataclass(frozen=True)
class _Query:
    """What is asked of which database.

    Parameters
    ----------
    origin
        What messages call the rows.
    address
        A file; of PostgreSQL, an address for its driver.
    words
        The query.
    """

    origin: Origin
    address: str
    words: str


def is_database(given: object) -> bool:
    """Tell whether a text, or a path, names a database and not a file."""
    return isinstance(given, str | Path) and _KIND.match(str(given)) is not None


def open_database(given: str | Path, role: str) -> ArrowTable:
    """Return the rows of a query as a table.

    Parameters
    ----------
    given
        `sqlite:FILE?SELECT …`, `duckdb:FILE?SELECT …` or
        `postgresql://USER@HOST:PORT/DATABASE?SELECT …`.
    role
        What the rows are, "nodes" or "edges".
    """
    kind, query = _parse(given, role)
    if kind == "sqlite":
        return _open_sqlite(query)
    return _open_duckdb(query) if kind == "duckdb" else _open_postgresql(query)


def _parse(given: str | Path, role: str) -> tuple[str, _Query]:
    text = str(given).strip()
    kind, _, rest = text.partition(":")
    kind = "postgresql" if kind.lower().startswith("postgres") else kind.lower()
    hidden = f"the {role} of {kind}:…"
    if isinstance(given, Path):
        raise InputError(
            "a database is given as a text, not as a Path.", where=str(hidden)
        )
    split = _QUERY.search(rest)
    address, words = rest, ""
    if split is not None:
        address, words = rest[: split.start()], rest[split.end() :]
    elif "?" in rest:
        address, _, words = rest.partition("?")
    if kind == "postgresql":
        shown, title, address = _check_server(hidden, address)
    else:
        shown, title = f"{kind}:{address}", Path(address).stem
    origin = Origin(f"the {role} of {shown}", title or "graph")
    words = words.strip().rstrip(";").rstrip()
    if not address or not words:
        what = "a query" if address else "a file"
        example = "sqlite:shop.db?SELECT * FROM customers"
        raise InputError(
            f"{what} is missing; write it as {example!r}.", where=str(origin)
        )
    bare = _COMMENT.sub(" ", words).lstrip(" \t\r\n(")
    if not re.match(rf"(?:{_READS})\b", bare, re.IGNORECASE):
        first = bare.split(maxsplit=1)[:1]
        known = bool(first) and first[0].upper() in _OTHERS
        raise _no_select(origin, first[0].upper() if known else "something else")
    # A comment at the end goes no further than this.
    return kind, _Query(origin, address, words + "\n")


def _no_select(origin: Origin, got: str) -> InputError:
    return InputError(
        f"the query must be one SELECT, which changes nothing, got {got}",
        where=str(origin),
    )


def _check_server(hidden: str, address: str) -> tuple[str, str, str]:
    """Return an address without a password: to be shown, its database, for libpq."""
    if re.search(r":.*@", address.removeprefix("//")):
        raise _has_password(hidden)
    found = _SERVER.fullmatch(address.removeprefix("//"))
    if found is None or not address.startswith("//"):
        raise InputError(
            "the address must be postgresql://USER@HOST:PORT/DATABASE, and "
            "the query follows after '?'.",
            where=str(hidden),
        )
    settings = dict(parse_qsl(found["more"] or "", keep_blank_values=True))
    if any("password" in name.lower() for name in settings):
        raise _has_password(hidden)
    base = found["base"] or ""
    if "connect_timeout" not in settings and "PGCONNECT_TIMEOUT" not in os.environ:
        sign = "?" if found["more"] is None else "&"
        address = f"{address}{sign}connect_timeout={WAIT}"
    shown = f"postgresql://{found['hosts']}/{base}"
    return shown, base, f"postgresql:{address}"


def _has_password(hidden: str) -> InputError:
    return InputError(
        "a password does not belong into an address, which others may see; "
        "put it into the environment as PGPASSWORD, or into a file that PGPASSFILE "
        "names.",
        where=str(hidden),
    )


def _explain(origin: Origin, error: Exception) -> InputError:
    """Return what a driver says, without the query that it may repeat."""
    text = "; ".join(map(str, error.args)) or type(error).__name__
    said = _SAID.search(text)
    words = said[1] if said is not None else _QUOTED_QUERY.sub("", text)
    return InputError(f"the database says: {one_line(words)}.", where=str(origin))


# ------------------------------------------------------------------------------- SQLite


_ALLOWED = {
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION),
    sqlite3.SQLITE_RECURSIVE,
}
"""What a query may do."""


def _open_sqlite(query: _Query) -> ArrowTable:
    import pyarrow as pa

    file = existing_file(query.address)
    refused: list[int] = []

    def allow(action: int, *_: object) -> int:
        if action in _ALLOWED:
            return sqlite3.SQLITE_OK
        refused.append(action)
        return sqlite3.SQLITE_DENY

    try:
        place = f"{file.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True)) as connection:
            connection.set_authorizer(allow)
            rows = connection.execute(query.words)
            names = [column[0] for column in rows.description]
            batches = within_room(query.origin, _batches(rows, names))
            content = _one_table(list(batches), names)
    except (sqlite3.Error, sqlite3.Warning) as error:
        if refused:
            raise _no_select(query.origin, "one that may do more") from None
        raise _explain(query.origin, error) from None
    except (pa.ArrowException, OverflowError) as error:
        raise _explain(query.origin, error) from None
    return as_table(content, query.origin)


def _batches(rows: sqlite3.Cursor, names: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while some := rows.fetchmany(ROWS):
        columns = [_cells(list(cells)) for cells in zip(*some, strict=True)]
        yield pa.record_batch(columns, names=names)


def _cells(cells: list[Any]) -> pa.Array:
    """Return cells of SQLite, each of which has a type of its own, as of one type."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if str in kinds and len(kinds) > 1 and bytes not in kinds:
        cells = [_digits(cell) for cell in cells]
    elif kinds == {int, float}:  # exact until the type of the whole column is known
        return pa.array(map(_digits, cells), pa.large_string())
    return pa.array(cells)


def _digits(cell: str | float | None) -> str | None:
    """Return a cell of a text column as text: 7 and 7.0 are both "7"."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        cell = int(cell)
    return None if cell is None else str(cell)


def _one_table(batches: list[pa.RecordBatch], names: list[str]) -> pa.Table:
    """Return batches as a table, each column in the type that has room for all."""
    import pyarrow as pa

    columns = []
    for place in range(len(names)):
        chunks = [batch.column(place) for batch in batches]
        kinds = {chunk.type for chunk in chunks} - {pa.null()}
        kind = next(iter(kinds), pa.null())
        if len(kinds) > 1 or kind == pa.large_string():
            kind = pa.string() if pa.string() in kinds else pa.float64()
        if kind == pa.string() and pa.binary() not in kinds:
            chunks = [
                chunk
                if chunk.type == kind
                else pa.array(map(_digits, chunk.to_pylist()), kind)
                for chunk in chunks
            ]
        # In a column of fractions, large integers are rounded wherever they stand.
        cast = [chunk.cast(kind, safe=kind != pa.float64()) for chunk in chunks]
        columns.append(pa.chunked_array(cast, kind))
    return pa.table(columns, names=names)


# ------------------------------------------------------------------ DuckDB, PostgreSQL


def _open_duckdb(query: _Query) -> ArrowTable:
    duckdb = import_extra("duckdb", "to read a DuckDB file")
    file = existing_file(query.address)
    # What it lacks it would fetch from the network.
    settings = {"autoinstall_known_extensions": "false"}
    try:
        opened = duckdb.connect(str(file), read_only=True, config=settings)
    except duckdb.Error as error:
        raise _explain(query.origin, error) from None
    with closing(opened) as connection:
        try:
            statements = connection.extract_statements(query.words)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                some = "one of another kind"
                if len(statements) != 1:
                    some = f"{len(statements)} statements"
                raise _no_select(query.origin, some)
            rows = connection.sql(query.words)
        except duckdb.Error as error:
            raise _explain(query.origin, error) from None
        return open_frame(rows, query.origin)


def _open_postgresql(query: _Query) -> ArrowTable:
    import pyarrow as pa

    import_extra("adbc_driver_postgresql", "to read from PostgreSQL")
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(query.address) as connection, connection.cursor() as rows:
            rows.execute("SET TRANSACTION READ ONLY")
            rows.execute(query.words)
            reader = rows.fetch_record_batch()
            batches = within_room(query.origin, reader)
            content = pa.Table.from_batches(batches, schema=reader.schema)
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        raise _explain(query.origin, error) from None
    return as_table(content, query.origin)
