"""Tables as CSV or Parquet files, written block by block."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from h2gcn.graph import slices

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "TableWriter", "needs_quotes"]

ROWS = 65_536
"""How many rows go into a row group of a Parquet file, at least."""

Columns = Mapping[str, NDArray[Any]]
"""The columns of a table, or of some rows of it, by name."""


class TableWriter:
    """A table that grows by blocks of rows; a context manager.

    Parameters
    ----------
    path
        A new or empty file that ends in `.csv` or `.parquet`.
    quoted
        Whether the texts of a CSV file are put in quotes: Arrow quotes all or none.
    """

    def __init__(self, path: Path, *, quoted: bool) -> None:
        self._path, self._quoted = path, quoted
        self._parquet = path.suffix.lower() == ".parquet"
        self._file: Any = None
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        if self._file is not None:
            self._file.close()

    def write(self, columns: Columns) -> None:
        """Append rows; every block has the same columns."""
        import pyarrow as pa

        arrays = [
            pa.array(column.astype(str) if column.dtype.kind == "O" else column)
            for column in columns.values()
        ]
        self._waiting.append(pa.table(arrays, names=list(columns)))
        # Blocks may be of a few nodes, and a row group has a header of its own.
        if sum(table.num_rows for table in self._waiting) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._parquet:
            self._write_parquet(table)
        else:
            self._write_csv(table)

    def _write_parquet(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table)

    def _write_csv(self, table: pa.Table) -> None:
        import pyarrow.csv as pacsv

        if self._file is None:
            self._file = self._path.open("wb")
            # Arrow would put the header in quotes.
            self._file.write(_csv_line(table.column_names))
        style = "needed" if self._quoted else "none"
        options = pacsv.WriteOptions(include_header=False, quoting_style=style)
        pacsv.write_csv(table, self._file, options)


def needs_quotes(values: NDArray[Any]) -> bool:
    """Tell whether a text among the values holds what CSV gives a meaning to, [n]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.dtype.kind not in "OU":
        return False
    return any(
        pc.any(
            pc.match_substring_regex(pa.array(values[part].astype(str)), r'[",\r\n]')
        ).as_py()
        for part in slices(len(values), ROWS)
    )


def _csv_line(cells: Sequence[str]) -> bytes:
    from io import StringIO

    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode("utf-8")
