"""Tables out of databases: the rows of one SELECT of SQLite, DuckDB or PostgreSQL.

Connections are read-only. A password is nobody's business but the driver's, which
finds it in the environment: an address with one is refused, and no message shows an
address before it is known to have none.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from h2gcn._validation import import_extra
from h2gcn.exceptions import InputError
from h2gcn.io.files import existing_file
from h2gcn.io.mistakes import one_line
from h2gcn.io.tables.columns import Origin
from h2gcn.io.tables.frames import ArrowTable, as_table, open_frame, within_room

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_database", "open_database"]

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
        raise InputError(f"{hidden}: a database is given as a text, not as a Path.")
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
        raise InputError(f"{origin}: {what} is missing; write it as {example!r}.")
    bare = _COMMENT.sub(" ", words).lstrip(" \t\r\n(")
    if not re.match(rf"(?:{_READS})\b", bare, re.IGNORECASE):
        first = bare.split(maxsplit=1)[:1]
        known = bool(first) and first[0].upper() in _OTHERS
        raise _no_select(origin, first[0].upper() if known else "something else")
    # A comment at the end goes no further than this.
    return kind, _Query(origin, address, words + "\n")


def _no_select(origin: Origin, got: str) -> InputError:
    return InputError(
        f"{origin}: the query must be one SELECT, which changes nothing. Got {got}."
    )


def _check_server(hidden: str, address: str) -> tuple[str, str, str]:
    """Return an address without a password: to be shown, its database, for libpq."""
    if re.search(r":.*@", address.removeprefix("//")):
        raise _has_password(hidden)
    found = _SERVER.fullmatch(address.removeprefix("//"))
    if found is None or not address.startswith("//"):
        raise InputError(
            f"{hidden}: the address must be postgresql://USER@HOST:PORT/DATABASE, and "
            "the query follows after '?'."
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
        f"{hidden}: a password does not belong into an address, which others may see; "
        "put it into the environment as PGPASSWORD, or into a file that PGPASSFILE "
        "names."
    )


def _explain(origin: Origin, error: Exception) -> InputError:
    """Return what a driver says, without the query that it may repeat."""
    text = "; ".join(map(str, error.args)) or type(error).__name__
    said = _SAID.search(text)
    words = said[1] if said is not None else _QUOTED_QUERY.sub("", text)
    return InputError(f"{origin}: the database says: {one_line(words)}.")


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
        cells = [cell if cell is None else str(cell) for cell in cells]
    elif kinds == {int, float}:
        cells = [cell if cell is None else float(cell) for cell in cells]
    return pa.array(cells)


def _one_table(batches: list[pa.RecordBatch], names: list[str]) -> pa.Table:
    """Return batches as a table, each column in the type that has room for all."""
    import pyarrow as pa

    columns = []
    for place in range(len(names)):
        chunks = [batch.column(place) for batch in batches]
        kinds = {chunk.type for chunk in chunks} - {pa.null()}
        kind = next(iter(kinds), pa.null())
        if len(kinds) > 1:
            kind = pa.string() if pa.string() in kinds else pa.float64()
        columns.append(pa.chunked_array([c.cast(kind) for c in chunks], kind))
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
