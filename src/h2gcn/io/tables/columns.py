"""The two tables, which of their columns mean what, and cells as text.

CSV, TSV and Parquet files are read as Arrow tables; errors name the line.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from functools import cached_property
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import close, nearest
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io.files import existing_file
from h2gcn.io.graph_parts import WIDEST
from h2gcn.io.mistakes import Mistakes, excerpt, listed, not_utf8, one_line
from h2gcn.sparse import check_memory, format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COPIES",
    "END_NAMES",
    "ID_NAMES",
    "INDEX",
    "ROW",
    "TABLE_SUFFIXES",
    "InputTable",
    "Origin",
    "Roles",
    "TableFile",
    "TableOptions",
    "as_text",
    "as_written",
    "check_column_names",
    "choose_ends",
    "choose_roles",
    "ids_as_written",
    "open_table",
    "other_columns",
    "require_column",
    "split_names",
    "text_array",
    "text_codes",
]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_MARKS = {";": "';'", "\t": "tabs", "|": "'|'", ",": "commas"}
"""What may separate the cells of a text file, and how it is told."""

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

INDEX = "__index__"
"""What asks for the index of a pandas frame in place of a column."""
ID_NAMES = ("id", "node", "node_id")
LABEL_NAMES = ("label", "class", "y")
END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"))


@dataclass(frozen=True)
class Origin:
    """What stands for the path of a table that is no file of its own.

    Parameters
    ----------
    name
        What messages call the table.
    title
        What a graph is called whose node table it is.
    """

    name: str
    title: str = "graph"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class InputTable:
    """A table of which the header is known.

    Parameters
    ----------
    path
        The file, or what stands for it.
    columns
        Names of its columns, without blanks around them.
    raw_columns
        The same as the table has them.
    delimiter
        What separates the cells of a text file; None for all else.
    index
        The columns that pandas calls the index: they are used where they are named.
    categories
        The columns whose type says that their values are categories.
    """

    path: Path | Origin
    columns: tuple[str, ...]
    raw_columns: tuple[str, ...]
    delimiter: str | None = None
    index: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the table and is not what its name says."""
        return ()

    @property
    def title(self) -> str:
        """What a graph is called whose node table this is.

        Of a file "nodes", it is the name of the folder.
        """
        if isinstance(self.path, Origin):
            return self.path.title
        if self.path.stem.lower() == "nodes":
            return self.path.resolve().parent.name
        return self.path.stem

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
            if name
            and not name.startswith(("Unnamed: ", "__index_level_"))
            and name not in self.index
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
        table = self.load(wanted, [raw[name] for name in text])
        self._check_decoded(table)
        try:
            columns = [_plain(column) for column in table.columns]
        except pa.ArrowException as error:
            raise InputError(
                f"the table cannot be read ({one_line(error)}).", where=str(self.path)
            ) from None
        return pa.table(columns, names=list(only)) if only else table.select([])

    def load(self, wanted: list[str], text: list[str]) -> pa.Table:
        """Return columns, by their raw names, in the types that they come in."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return where a row (from 0) is, such as "row 6"."""
        return f"row {row + 1}"

    def where(self, row: int) -> str:
        """Return the table and a row (from 0) of it: "nodes.csv:7", or with "row 6"."""
        kind, _, number = self.place(row).partition(" ")
        return (
            f"{self.path}:{number}" if kind == "line" else f"{self.path}, row {number}"
        )

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
        check_memory(f"{self.path}: its {n_rows:,} rows", need)


class TableFile(InputTable):
    """A table on disk."""

    path: Path

    @property
    def notes(self) -> tuple[str, ...]:
        """What separates its cells, where its name says otherwise."""
        usual = _DELIMITERS.get(self.path.suffix.lower())
        if self.delimiter is None or usual is None or self.delimiter == usual:
            return ()
        mark, other = _MARKS[self.delimiter], _MARKS[usual]
        return (f"{self.path.name} is separated by {mark}, not by {other}",)

    def load(self, wanted: list[str], text: list[str]) -> pa.Table:
        """Read columns of the file."""
        import pyarrow as pa

        try:
            if self.delimiter is None:
                table = self._read_parquet(wanted)
            else:
                table = self._read_csv(wanted, text)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._explain(error) from None
        if self.delimiter and any(map(pa.types.is_binary, table.schema.types)):
            # Cells of which Arrow cannot make text.
            raise self._explain("it holds bytes that are not text")
        return table

    @property
    def n_rows(self) -> int | None:
        """How many rows it has; None of a text file, where nobody knows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.delimiter is not None:
            return None
        try:
            return int(pq.read_metadata(self.path).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise self._explain(error) from None

    def types(self) -> dict[str, pa.DataType]:
        """Return the type of each column; of a text file, none is known."""
        import pyarrow.parquet as pq

        if self.delimiter is not None:
            return {}
        schema = pq.read_schema(self.path)
        return dict(zip(self.columns, schema.types, strict=True))

    def batches(self, only: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns in order, some rows at a time; those of text files as text.

        Parameters
        ----------
        only
            Names of the columns.
        rows
            How many come together, about.
        """
        import pyarrow as pa

        raw = dict(zip(self.columns, self.raw_columns, strict=True))
        wanted = [raw[name] for name in only]
        reading = self._stream_parquet if self.delimiter is None else self._stream_csv
        try:
            for batch in reading(wanted, rows):
                table = pa.Table.from_batches([batch]).select(wanted)
                columns = [_plain(column) for column in table.columns]
                yield pa.table(columns, names=list(only))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._explain(error) from None

    def _stream_parquet(self, wanted: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(rows, columns=wanted)

    def _stream_csv(self, wanted: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        del rows  # of as many bytes, whatever rows these are
        options = pacsv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.large_string()),
        )
        parse = pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        with self.path.open("rb") as stream:
            lines = stream.read(1 << 18).split(b"\n")
        # Dozens of blocks are in memory, and a row must fit into one.
        size = 1 << 21 if max(map(len, lines)) < 1 << 14 else 1 << 23
        with pacsv.open_csv(
            self.path,
            read_options=pacsv.ReadOptions(block_size=size),
            parse_options=parse,
            convert_options=options,
        ) as reader:
            yield from reader

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

    def _read_csv(self, wanted: list[str], text: list[str]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        share = len(wanted) / len(self.columns)
        need = round(share * self.path.stat().st_size)
        check_memory(f"{self.path}: its {len(wanted):,} columns", need)
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
                f"the Parquet file cannot be read ({one_line(error)}).",
                where=str(self.path),
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
                        f"line {line} has {len(record)} {cells}, but the "
                        f"header has {width}.",
                        where=str(self.path),
                    )
        except csv.Error:
            pass
        return InputError(
            f"the table cannot be read ({one_line(error)}).", where=str(self.path)
        )


def open_table(path: str | Path) -> TableFile:
    """Return a table of which only the header has been read."""
    file = existing_file(path)
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"a table must be one of {', '.join(TABLE_SUFFIXES)}",
            value=file.suffix,
            where=str(file),
        )
    delimiter = _DELIMITERS.get(suffix)
    if delimiter is None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            raw = pq.read_schema(file).names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"the Parquet file cannot be read ({one_line(error)}).", where=str(file)
            ) from None
    else:
        (raw,) = _first_records(file, delimiter, 1)
        if len(raw) == 1:
            delimiter, raw = _other_delimiter(file, delimiter, raw)
    columns = tuple(name.strip() for name in raw)
    _say_what_takes_long(file, len(columns))
    check_column_names(file, columns)
    return TableFile(file, columns, tuple(raw), delimiter)


def check_column_names(path: Path | Origin, columns: Sequence[str]) -> None:
    """Raise where two columns of a table have the same name."""
    seen: set[str] = set()
    for name in filter(None, columns):
        if name in seen:
            raise InputError(
                f"two columns are called {excerpt(name)}.", where=str(path)
            )
        seen.add(name)


def _say_what_takes_long(file: Path, n_columns: int) -> None:
    size = file.stat().st_size
    if n_columns > MANY_COLUMNS or size > MANY_BYTES:
        warnings.warn(
            f"{file}: {n_columns:,} columns, {format_bytes(size)}, are being read, "
            "which takes a while",
            H2GCNWarning,
            stacklevel=4,
        )


def _other_delimiter(
    file: Path, usual: str, header: list[str]
) -> tuple[str, list[str]]:
    """Return what separates a text file, and its header.

    It is the usual mark unless the header has another, and most of the first records
    have as many cells by it as the header.
    """
    found = [(usual, header)]
    for mark in _MARKS:
        if mark == usual or mark not in header[0]:
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
        raise not_utf8(file) or InputError(
            "the text is not UTF-8.", where=str(file)
        ) from None
    except csv.Error as error:
        raise InputError(
            f"the header cannot be read ({one_line(error)}).", where=str(file)
        ) from None
    raise InputError("the file is empty.", where=str(file))


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


# ----------------------------------------------------------------- what a column is for


def _is_name(value: object) -> bool:
    return isinstance(value, str | None)


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)


def _are_names_or_none(value: object) -> bool:
    return value is None or _are_names(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _are_numbers(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(number, Real)
        for name, number in value.items()
    )


def _is_time(value: object) -> bool:
    return isinstance(value, str | Real | None) and not _is_flag(value)


_COLUMNS = (
    *("id_column", "label_column", "source_column", "target_column", "split_column"),
    *("group_column", "time_column", "edge_time_column"),
    "edge_weight",
)
_FLAGS = ("drop_unknown", "undirected", "fill_missing", "label_required", "to_train")
_RULES: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(_COLUMNS, ("a name or None", _is_name)),
    **dict.fromkeys(
        ("categorical", "edge_categorical", "date_features"), ("names", _are_names)
    ),
    **dict.fromkeys(
        ("test_after", "val_after"), ("a date such as 2024-06-01 or a number", _is_time)
    ),
    **dict.fromkeys(
        ("feature_columns", "edge_features"), ("names or None", _are_names_or_none)
    ),
    **dict.fromkeys(_FLAGS, ("True or False", _is_flag)),
    **dict.fromkeys(
        ("fill_values", "edge_fill_values"), ("numbers by name", _are_numbers)
    ),
}
"""What each option must be, since they also come out of files."""


@dataclass(frozen=True)
class TableOptions:
    """Which columns of the tables mean what.

    Parameters
    ----------
    id_column
        The node's id; by default `id`, `node` or `node_id`, in any case of letters.
        `__index__` is the index of a pandas frame.
    label_column
        The node's label; by default `label`, `class` or `y` where there is one.
    feature_columns
        Numeric columns to use; by default all that are neither id nor label. A name
        that no column has may be several, with commas between them.
    categorical
        Columns that are one-hot encoded, beside the numeric ones; likewise. A cell
        that is empty, or says `(missing)`, is of the category `(missing)`.
    source_column, target_column
        The ends of an edge; by default `source`/`target`, `src`/`dst`, `from`/`to`,
        `u`/`v`, else the first two columns.
    drop_unknown
        Whether edges to nodes that are not in the node table are dropped and
        counted, rather than an error.
    undirected
        Whether each line of the edge table is an edge without a direction.
    fill_missing
        Whether a cell without a number gets the median of its column, rather than be
        an error. A table that is predicted gets the medians of the training table.
    fill_values
        The medians of the training table by column, which every model keeps.
    edge_features
        Columns of the edge table that `Graph.edge_columns` keeps: numbers, and text of
        at most 50 values as categories. By default all that can be used, and a note
        on each of the others; a column that is named must be usable. Names as of
        `feature_columns`; () is none.
    edge_categorical
        Columns of the edge table whose numbers are categories, beside these.
    edge_weight
        The column of the edge table that says how much an edge counts in means over
        neighbours, see `Graph.edge_weight`; by default all count alike.
    edge_fill_values
        As `fill_values`, of the edge table.
    label_required
        Whether a table without the `label_column` that was asked for is an error;
        not so where a model predicts what is not known yet.
    split_column
        Says of each node whether it is for `train`, `val` (`valid`, `validation`,
        `dev`) or `test`; of none of them where it is empty.
    group_column
        Nodes of one value are never torn apart by a split that is drawn; where it is
        empty, a node is in no group.
    time_column
        When a node came up with its label: dates, as of ISO 8601, or numbers.
    test_after
        The labels of nodes that came up after it are for testing. A day counts whole;
        `h2gcn.graph.until` gives the graph as it was then, to train on.
    val_after
        Likewise for validation, among the labels up to `test_after`; by default the
        latest quarter of these.
    edge_time_column
        When an edge came up, in the edge table.
    date_features
        Columns of dates that are made numbers: days since 1970, and where in the year
        and in the week they are. Names as of `feature_columns`.
    to_train
        Whether a model is to be trained. Where not, the columns of a split, of groups
        and of times need not be there; they are no features, and not looked at.

    Examples
    --------
    >>> options = TableOptions(label_column="species", categorical=("habitat",))
    >>> TableOptions.from_json(options.to_json()) == options
    True
    """

    id_column: str | None = None
    label_column: str | None = None
    feature_columns: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    source_column: str | None = None
    target_column: str | None = None
    drop_unknown: bool = False
    undirected: bool = False
    fill_missing: bool = False
    fill_values: Mapping[str, float] = field(default_factory=dict, hash=False)
    label_required: bool = True
    edge_features: tuple[str, ...] | None = None
    edge_categorical: tuple[str, ...] = ()
    edge_fill_values: Mapping[str, float] = field(default_factory=dict, hash=False)
    edge_weight: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    time_column: str | None = None
    test_after: str | float | None = None
    val_after: str | float | None = None
    edge_time_column: str | None = None
    date_features: tuple[str, ...] = ()
    to_train: bool = True

    def __post_init__(self) -> None:
        for name in ("test_after", "val_after"):
            given = getattr(self, name)
            if isinstance(given, date | np.datetime64):
                object.__setattr__(self, name, str(given))
        for field_, (rule, is_sound) in _RULES.items():
            value = getattr(self, field_)
            if not is_sound(value):
                raise InputError(f"must be {rule}", param=field_, value=value)
            # JSON and the command line give lists.
            if isinstance(value, list):
                object.__setattr__(self, field_, tuple(value))
        if (self.source_column is None) != (self.target_column is None):
            raise InputError(
                "The source and the target column of the edge table must be given "
                f"together, got {self.source_column!r} and {self.target_column!r}"
            )
        for name, needed in (
            ("test_after", "time_column"),
            ("val_after", "test_after"),
        ):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                raise InputError(f"needs {needed}=…", param=name)
        ways = ("split_column", "test_after", "group_column")
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(
                f"does not go with {given[0]}=…: they are two ways to split nodes",
                param=given[1],
                hint="take one of them",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the options as a dict of plain values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TableOptions:
        """Return the options of such a dict; what it lacks has its default."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise InputError(
                    f"There is no table option {name!r}.{nearest(name, known)}"
                )
        return cls(**values)


def split_names(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return names one by one, also those that are given with commas between them.

    Parameters
    ----------
    names
        As a user gave them.
    known
        The names that there are: one of these may have a comma of its own.

    Examples
    --------
    >>> split_names(("age, plan", "town, street"), ("age", "plan", "town, street"))
    ('age', 'plan', 'town, street')
    """
    single, known = [], set(known)
    for name in names:
        parts = [] if name in known else [part.strip() for part in name.split(",")]
        single += [part for part in parts if part] or [name]
    return tuple(single)


@dataclass(frozen=True)
class Roles:
    """The columns of a node table by what they are for.

    Parameters
    ----------
    id, label
        Column of the ids, None where there is a mistake; column of the labels or None.
    numeric
        Columns asked for as features; None for all that are numeric.
    categorical
        Columns that are one-hot encoded.
    unclear
        Columns that may have been meant by names that none has; no others' mistakes
        are to be looked for in them.
    split, group, time
        Columns of the split, the groups and the times, or None.
    dates
        Columns of dates that are made numbers.
    """

    id: str | None
    label: str | None
    numeric: tuple[str, ...] | None
    categorical: tuple[str, ...]
    unclear: tuple[str, ...] = ()
    split: str | None = None
    group: str | None = None
    time: str | None = None
    dates: tuple[str, ...] = ()

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that are read as they are written."""
        roles = (self.id, self.label, *self.categorical, self.split, self.group)
        named = (name for name in (*roles, self.time, *self.dates) if name is not None)
        return tuple(dict.fromkeys(named))


def choose_roles(file: InputTable, options: TableOptions, mistakes: Mistakes) -> Roles:
    """Return what each column of a node table is for.

    Columns that are not there, or are something else, are mistakes and left out.
    """
    unclear: list[str] = []

    def there(name: str) -> bool:
        with mistakes.of(file.path):
            require_column(file, name)
            return True
        unclear.extend(close(name, file.columns))
        return False

    def taken(name: str) -> bool:
        held = {id_column: "ids", label: "labels", **others}
        if name not in held:
            return False
        mistakes.add(
            file.path,
            f"{file.path}: column {name!r} holds the {held[name]} and cannot be a "
            "feature.",
        )
        return True

    id_column, label = options.id_column, options.label_column
    if id_column == INDEX and len(file.index) == 1:
        id_column = file.index[0]
    if id_column is None:
        id_column = _by_name(file, ID_NAMES)
        if id_column is None:
            hint = f" id_column={INDEX!r} takes the index." if file.index else ""
            columns = [name for name in file.columns if name != INDEX]
            mistakes.add(
                file.path,
                InputError(
                    f"no column of node ids ({', '.join(ID_NAMES)}) was found",
                    where=str(file.path),
                    hint=f"id_column=… names it. Columns: {listed(columns)}.{hint}",
                ),
            )
    elif id_column == INDEX and INDEX not in file.known:
        have = f"one of {len(file.index)} columns" if file.index else "none"
        mistakes.add(
            file.path,
            f"{file.path}: id_column={INDEX!r} needs a pandas frame with an index of "
            f"one column. It has {have}.",
        )
        id_column = None
    elif not there(id_column):
        id_column = None
    if label is None:
        label = _by_name(file, LABEL_NAMES)
    elif label not in file.columns:
        if options.label_required:
            there(label)
        label = None
    others = _other_roles(file, options, there, (id_column, label), mistakes)
    held = {what: name for name, what in others.items()}
    dates = tuple(
        name
        for name in dict.fromkeys(split_names(options.date_features, file.columns))
        if there(name) and (name == held.get("times") or not taken(name))
    )
    others |= dict.fromkeys(dates, "dates")
    categories = split_names(options.categorical, file.columns)
    numbers = split_names(options.feature_columns or (), file.columns)
    if options.feature_columns is None:
        held_by = (id_column, label, *others)
        own = (n for n in file.categories if n not in held_by)
        categories = tuple(dict.fromkeys((*categories, *own)))
    one_hot = set(categories)
    numbers = tuple(name for name in numbers if name not in one_hot)
    categorical, numeric = (
        tuple(n for n in dict.fromkeys(names) if there(n) and not taken(n))
        for names in (categories, numbers)
    )
    return Roles(
        id_column,
        label,
        None if options.feature_columns is None else numeric,
        categorical,
        tuple(unclear),
        held.get("split"),
        held.get("groups"),
        held.get("times"),
        dates,
    )


def _other_roles(
    file: InputTable,
    options: TableOptions,
    there: Callable[[str], bool],
    before: tuple[str | None, ...],
    mistakes: Mistakes,
) -> dict[str | None, str]:
    """Return what the columns hold that are neither ids, labels nor features.

    Parameters
    ----------
    file, options, mistakes
        As of `choose_roles`.
    there
        Tells whether a column is there, and takes it as a mistake if not.
    before
        Columns that hold something else.
    """
    found: dict[str | None, str] = {}
    for option, what in (
        ("split_column", "split"),
        ("group_column", "groups"),
        ("time_column", "times"),
    ):
        name = getattr(options, option)
        missing = name not in file.known and not options.to_train
        if name is None or missing or not there(name):
            continue
        if name in before or name in found:
            mistakes.add(
                file.path,
                InputError(
                    f"cannot be column {name!r}, which holds something else",
                    param=option,
                    where=str(file.path),
                ),
            )
            continue
        found[name] = what
    return found


def choose_ends(file: InputTable, options: TableOptions) -> tuple[str, str, bool]:
    """Return the source and the target column, and whether they were guessed."""
    if len(file.named) < 2:
        raise InputError(
            f"an edge table must have two columns, source and target. "
            f"Columns: {listed(file.columns)}.",
            where=str(file.path),
        )
    source, target = options.source_column, options.target_column
    if source is not None and target is not None:
        if source == target:
            raise InputError(
                f"source and target must be two columns, got {source!r} for both",
                where=str(file.path),
            )
        mistakes = Mistakes()
        for name in (source, target):
            with mistakes.of(file.path):
                require_column(file, name)
        mistakes.tell()
        return source, target, False
    for pair in END_NAMES:
        ends = [_by_name(file, (name,)) for name in pair]
        if ends[0] is not None and ends[1] is not None:
            return ends[0], ends[1], False
    return file.named[0], file.named[1], True


def require_column(file: InputTable, name: str) -> str:
    """Return the name of a column that is there, or raise with the nearest."""
    if name not in file.known:
        raise InputError(
            f"there is no column {excerpt(name)}."
            f"{nearest(name, file.columns)} Columns: {listed(file.columns)}.",
            where=str(file.path),
        )
    return name


def other_columns(
    nodes: InputTable, id_column: str | None, edges: InputTable, ends: Sequence[str]
) -> tuple[str, ...]:
    """Return which of `id`, `source` and `target` are columns that hold other things.

    Parameters
    ----------
    nodes, id_column
        The node table, and which of its columns has the ids.
    edges, ends
        The edge table, and which of its columns have the source and the target.
    """
    held = (("id", nodes, id_column), ("source", edges, ends[0]))
    return tuple(
        name
        for name, file, column in (*held, ("target", edges, ends[1]))
        if name in file.known and name != column
    )


def _by_name(file: InputTable, names: tuple[str, ...]) -> str | None:
    for wanted in names:
        for column in file.columns:
            if column.lower() == wanted:
                return column
    return None


# ------------------------------------------------------------------------ cells as text


def as_text(file: InputTable, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of a column as text without blanks around it."""
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(as_written(file, name, column))


def ids_as_written(
    file: InputTable, name: str, column: pa.ChunkedArray, param: str, first: int = 0
) -> pa.ChunkedArray:
    """Return ids as text: blanks are part of them, and 7.0 is "7".

    Parameters
    ----------
    file, name, column
        The table, and its column of ids.
    param
        The option that names the column.
    first
        The row of the table that the column begins with.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return as_written(file, name, column)
    numbers = column.to_numpy()
    exact_below = 2.0 ** (np.finfo(numbers.dtype).nmant + 1)
    large = np.abs(numbers) >= exact_below
    if large.any():
        row = int(np.argmax(large))
        raise InputError(
            f"must name a column of exact ids, but column {excerpt(name)} holds a "
            "float that is too large to be exact",
            param=param,
            value=float(numbers[row]),
            where=file.where(first + row),
            hint="write ids as integers or text",
        )
    if pa.types.is_float16(column.type):  # Arrow computes with none
        column = column.cast(pa.float32())
    whole = pc.fill_null(pc.equal(column, pc.round(column)), False)
    integers = pc.if_else(whole, column, None).cast(pa.int64())
    texts = as_written(file, name, pc.if_else(whole, None, column))
    return pc.coalesce(integers.cast(pa.large_string()), texts)


def as_written(file: InputTable, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of a column as text, blanks included.

    Integers become their decimal digits; so do floats that are integers, which is
    what pandas makes of integers where one is missing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
            whole = pc.all(pc.equal(column, pc.round(column))).as_py()
            column = column.cast(pa.int64()) if whole in (True, None) else column
        return column.cast(pa.large_string())
    except pa.ArrowException as error:
        raise InputError(
            f"column {excerpt(name)} cannot be read as text ({one_line(error)}).",
            where=str(file.path),
        ) from None


def text_codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Return the index of each cell's value, [n], and the distinct values.

    Empty cells have the index -1 and are no value.
    """
    import pyarrow.compute as pc

    values = pc.unique(column).drop_null()
    values = values.filter(pc.not_equal(values, ""))
    codes: Any = pc.fill_null(pc.index_in(column, value_set=values), -1)
    return codes.to_numpy().astype(np.int64), values.to_pylist()


def text_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return text as a numpy array, [n]: fixed width, or objects where that wastes."""
    import pyarrow.compute as pc

    values: NDArray[Any] = column.to_numpy()
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    return values.astype(str) if longest <= WIDEST else values
