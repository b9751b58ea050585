"""CSV, TSV and Parquet files as Arrow tables, with errors that name the line."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io.mistakes import existing_file, not_utf8, one_line, quoted
from h2gcn.sparse import check_room, gigabytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TABLE_SUFFIXES", "TableFile", "open_table"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_OTHER_DELIMITERS = {";": "';'", "\t": "tabs", "|": "'|'"}
"""What may separate the cells of a .csv file instead, and how it is told."""

COPIES = 2
"""How often a table is in memory, about, while a graph is made of it."""
ROW = 80
"""Bytes that a row takes at least beside its cells: its id as text, and to find it."""
MANY_COLUMNS, MANY_BYTES = 20_000, 2**29
"""From where on reading takes longer than one waits without a word."""
FIRST = 10
"""How many records must bear such a separator out."""

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
"""The kinds of table that are read."""


@dataclass(frozen=True)
class TableFile:
    """A table on disk of which the header is known.

    Parameters
    ----------
    path
        The file.
    columns
        Names of its columns, without blanks around them.
    raw_columns
        The same as the file has them.
    delimiter
        What separates the cells of a text file; None for Parquet.
    """

    path: Path
    columns: tuple[str, ...]
    raw_columns: tuple[str, ...]
    delimiter: str | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the file and is not what its name says."""
        if self.delimiter == _DELIMITERS.get(self.path.suffix.lower()):
            return ()
        mark = _OTHER_DELIMITERS[str(self.delimiter)]
        return (f"{self.path.name} is separated by {mark}, not by commas",)

    @cached_property
    def known(self) -> frozenset[str]:
        """The names of the columns, to look one up."""
        return frozenset(self.columns)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that have a name: an index that pandas wrote has none."""
        return tuple(
            name
            for name in self.columns
            if name and not name.startswith(("Unnamed: ", "__index_level_"))
        )

    def read(self, only: Sequence[str], text: Collection[str] = ()) -> pa.Table:
        """Return columns of the table.

        Parameters
        ----------
        only
            The columns to read.
        text
            Those that are left as they are written; the types of others are
            inferred from all of their cells.
        """
        import pyarrow as pa

        raw = dict(zip(self.columns, self.raw_columns, strict=True))
        # Without any, rows are counted.
        wanted = [raw[name] for name in only] or [*self.raw_columns[:1]]
        try:
            if self.delimiter is None:
                table = self._read_parquet(wanted)
            else:
                table = self._read_csv(wanted, [raw[name] for name in text])
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._explain(error) from None
        if self.delimiter and any(map(pa.types.is_binary, table.schema.types)):
            # Cells of which Arrow cannot make text.
            raise self._explain("it holds bytes that are not text")
        self._check_decoded(table)
        columns = [_plain(column) for column in table.columns]
        return pa.table(columns, names=list(only)) if only else table.select([])

    def place(self, row: int) -> str:
        """Return where a row (from 0) is: "line 7" of a text file, else "row 6"."""
        try:
            line, _ = next(islice(self._records(), row + 1, None))
        except (StopIteration, csv.Error):
            return f"row {row + 1}"
        return f"line {line}"

    def _read_parquet(self, wanted: list[str]) -> pa.Table:
        """Return columns of a Parquet file, once its footer says that they will fit.

        A text that is stored once can be the cell of any number of rows. So text is
        left as numbers of a dictionary, and what it becomes is counted first.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self.path)
        n_rows = file.metadata.num_rows
        schema = file.schema_arrow
        kinds = [schema.field(name).type for name in wanted]
        row = sum(_width(kind) for kind in kinds)
        self._check_rows(n_rows, (COPIES * row + ROW) * n_rows)
        is_text = (pa.types.is_string, pa.types.is_large_string)
        texts = [
            name
            for name, kind in zip(wanted, kinds, strict=True)
            if any(is_kind(kind) for is_kind in is_text)
        ]
        file = pq.ParquetFile(self.path, read_dictionary=texts)
        return file.read(wanted).select(wanted)

    def _check_decoded(self, table: pa.Table) -> None:
        """Raise where cells that are numbers of a dictionary become too long a text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        total = 0
        for column in table.columns:
            if not pa.types.is_dictionary(column.type):
                continue
            for chunk in column.chunks:
                kind = chunk.dictionary.type
                if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
                    cells = pc.sum(lengths.take(chunk.indices)).as_py()
                    total += cells or 0
        self._check_rows(table.num_rows, COPIES * total)

    def _check_rows(self, n_rows: int, need: int) -> None:
        check_room(f"{self.path}: its {n_rows:,} rows", need)

    def _read_csv(self, wanted: list[str], text: list[str]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        share = len(wanted) / len(self.columns)
        need = round(share * self.path.stat().st_size)
        check_room(f"{self.path}: its {len(wanted):,} columns", need)
        return pacsv.read_csv(
            self.path,
            # A row must fit into a block, and wide tables have long rows.
            read_options=pacsv.ReadOptions(block_size=1 << 23),
            parse_options=pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(text, pa.large_string()),
            ),
        )

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield header and records of a text file with the lines they begin on.

        Slow beside Arrow's reader, which does not tell lines: only for messages.
        """
        if self.delimiter is None:
            return
        with self.path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, delimiter=self.delimiter)
            line = 1
            for record in reader:
                if record:
                    yield line, record
                line = reader.line_num + 1

    def _explain(self, error: object) -> InputError:
        if self.delimiter is None:
            return InputError(
                f"{self.path}: the Parquet file cannot be read ({one_line(error)})."
            )
        broken = not_utf8(self.path)
        if broken is not None:
            return broken
        width = len(self.columns)
        try:
            for line, record in self._records():
                if len(record) != width:
                    cells = "cell" if len(record) == 1 else "cells"
                    return InputError(
                        f"{self.path}: line {line} has {len(record)} {cells}, but the "
                        f"header has {width}."
                    )
        except csv.Error:
            pass
        return InputError(f"{self.path}: the table cannot be read ({one_line(error)}).")


def open_table(path: str | Path) -> TableFile:
    """Return a table of which only the header has been read."""
    file = existing_file(path)
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"{file}: a table must be one of {', '.join(TABLE_SUFFIXES)}. "
            f"Got {file.suffix!r} instead."
        )
    delimiter = _DELIMITERS.get(suffix)
    if delimiter is None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            raw = pq.read_schema(file).names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{file}: the Parquet file cannot be read ({one_line(error)})."
            ) from None
    else:
        (raw,) = _first_records(file, delimiter, 1)
        if suffix == ".csv" and len(raw) == 1:
            delimiter, raw = _other_delimiter(file, raw)
    columns = tuple(name.strip() for name in raw)
    _say_what_takes_long(file, len(columns))
    seen: set[str] = set()
    for name in filter(None, columns):
        if name in seen:
            raise InputError(f"{file}: two columns are called {quoted(name)}.")
        seen.add(name)
    return TableFile(file, columns, tuple(raw), delimiter)


def _say_what_takes_long(file: Path, n_columns: int) -> None:
    size = file.stat().st_size
    if n_columns > MANY_COLUMNS or size > MANY_BYTES:
        warnings.warn(
            f"{file}: {n_columns:,} columns, {gigabytes(size)}, are being read, which "
            "takes a while",
            H2GCNWarning,
            stacklevel=4,
        )


def _other_delimiter(file: Path, header: list[str]) -> tuple[str, list[str]]:
    """Return what separates a .csv file, and its header.

    It is a comma unless the header has another mark, and most of the first records
    have as many cells by it as the header.
    """
    found = [(",", header)]
    for mark in _OTHER_DELIMITERS:
        if mark not in header[0]:
            continue
        names, *records = _first_records(file, mark, 1 + FIRST)
        alike = sum(len(record) == len(names) for record in records)
        if 2 * alike >= len(records):
            found.append((mark, names))
    return max(found, key=lambda one: len(one[1]))


def _first_records(file: Path, delimiter: str, count: int) -> list[list[str]]:
    """Return the header of a text file and what follows, `count` records if any."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            records = filter(None, csv.reader(handle, delimiter=delimiter))
            found = list(islice(records, count))
            if found:
                return found
    except UnicodeDecodeError:
        raise not_utf8(file) or InputError(f"{file}: the text is not UTF-8.") from None
    except csv.Error as error:
        raise InputError(
            f"{file}: the header cannot be read ({one_line(error)})."
        ) from None
    raise InputError(f"{file}: the file is empty.")


def _width(kind: pa.DataType) -> int:
    """Return how many bytes a cell of a type takes at least."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of no fixed width: where it begins
        return 8


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of a type that all of Arrow's functions know."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_view = column.type == pa.string_view()
    return column.cast(pa.large_string()) if is_view else column
