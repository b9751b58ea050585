"""An edge table as an adjacency matrix, and what its other columns carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, EdgeColumns, ReadRecord, column_of
from h2gcn.io.graph_parts import adjacency_from_edges, carried_note
from h2gcn.io.mistakes import Mistakes, excerpt, listed
from h2gcn.io.tables.columns import (
    InputTable,
    Origin,
    TableOptions,
    as_text,
    as_written,
    choose_ends,
    ids_as_written,
    require_column,
    split_names,
)
from h2gcn.io.tables.features import (
    Filler,
    as_numbers,
    first_slip,
    kind_of,
    missing_notes,
    one_hot,
)
from h2gcn.io.tables.times import Times, parse_times

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Carried",
    "EdgePart",
    "Wanted",
    "choose_columns",
    "read_columns",
    "read_edges",
    "time_column",
    "undated_note",
]

MOST_VALUES = 50
"""How many values a column may have whose values are categories."""
MOST_NUMBERS = 2**28
"""How many numbers are kept of columns that nobody asked for: 1 GB."""
ROW_NUMBERS = 10
"""From so many rows on, numbers that rise by one are the numbers of the rows."""


@dataclass(frozen=True)
class EdgePart:
    """What an edge table gives to a graph.

    Parameters
    ----------
    adj, one_way, record
        As of `adjacency_from_edges`.
    columns
        What the edges carry, if anything.
    fill_values
        Medians of their columns.
    ends
        Where each row leads from and to, loops left out, [2, m].
    times
        When each row came up, if a column says so.
    """

    adj: CSR
    one_way: CSR | None
    record: ReadRecord
    columns: EdgeColumns | None
    fill_values: dict[str, float]
    ends: NDArray[np.int64]
    times: Times | None = None


def read_edges(
    file: InputTable,
    node_path: Path | Origin,
    ids: pa.ChunkedArray | None,
    options: TableOptions,
    mistakes: Mistakes,
) -> EdgePart | None:
    """Return the edges of a table between the nodes with the given ids.

    Parameters
    ----------
    file, node_path
        The edge table, and where the node table is, for messages.
    ids
        The nodes' ids as they are written, [n], in the order of the nodes; None where
        they are not known, so that only the table itself can be looked at.
    options
        Names of the columns, and what is done about unknown nodes.
    mistakes
        Gets those of the table.

    Returns
    -------
    EdgePart | None
        None where there is a mistake.
    """
    with mistakes.of(file.path):
        return _read_edges(file, node_path, ids, options, mistakes)
    return None


def _read_edges(
    file: InputTable,
    node_path: Path | Origin,
    ids: pa.ChunkedArray | None,
    options: TableOptions,
    mistakes: Mistakes,
) -> EdgePart | None:
    import pyarrow as pa

    source, target, guessed = choose_ends(file, options)
    if guessed and ids is not None:
        _check_header(file, ids, (source, target))
    time = time_column(file, (source, target), options)
    held = (source, target) if time is None else (source, target, time)
    wanted = choose_columns(file, held, options, mistakes)
    table, wanted, notes = _read_table(file, held, wanted)
    if table.num_rows == 0:
        raise InputError("the table has no edges.", where=str(file.path))
    columns = {
        name: ids_as_written(file, name, table[name], param)
        for name, param in ((source, "source_column"), (target, "target_column"))
    }
    empty = [_empty(file, name, cells, mistakes) for name, cells in columns.items()]
    if ids is None:
        everything = np.ones(table.num_rows, dtype=bool)
        read_columns(file, table, everything, wanted, options, mistakes)
        return None
    value_set = pa.chunked_array(ids).combine_chunks()
    ends = [_rows(column, value_set) for column in columns.values()]
    unknown = [(end < 0) & ~none for end, none in zip(ends, empty, strict=True)]
    notes = [*file.notes, *notes]
    notes += _look_at_unknown(
        file, node_path, columns, unknown, value_set, options, mistakes
    )
    known = (ends[0] >= 0) & (ends[1] >= 0)
    joined = known & (ends[0] != ends[1])
    if mistakes.in_file(file.path):
        # What is wrong with what edges carry is told along with it.
        meant = joined if options.drop_unknown else joined | ~known
        read_columns(file, table, meant, wanted, options, mistakes)
        return None
    rest = [name for name in file.named if name not in (source, target)]
    if guessed:
        n_ends = min(len(np.unique(end)) for end in ends)
        _check_guess(file, value_set, (source, target), rest, n_ends)
        notes.append(
            f"the first two columns of {file.path.name}, {source!r} and {target!r}, "
            "are taken as the ends of the edges"
        )
    taken = set(table.column_names)
    ignored = [name for name in file.named if name not in taken]
    if ignored and options.edge_features is not None:
        of = f"{listed(ignored)} of {file.path.name}"
        one = len(ignored) == 1
        notes.append(
            f"column {of} is not used" if one else f"columns {of} are not used"
        )
    carried = read_columns(file, table, joined, wanted, options, mistakes)
    adj, one_way, record = adjacency_from_edges(
        ends[0][known],
        ends[1][known],
        len(value_set),
        directed=False if options.undirected else None,
    )
    record = replace(
        record,
        edges_read=table.num_rows,
        unknown_dropped=int(np.count_nonzero(~known)),
        notes=(*notes, *carried.notes),
    )
    pairs = [end[joined].astype(np.int64) for end in ends]
    carries = _edge_columns(pairs, carried, adj, one_way, options)
    times = None
    if time is not None and options.to_train:
        times = parse_times(file, time, table[time])
        assert carries is not None
        carries = replace(carries, times=times.values[joined])
        record = replace(record, notes=(*record.notes, *undated_note(times)))
    return EdgePart(
        adj, one_way, record, carries, carried.fill_values, np.stack(pairs), times
    )


def undated_note(times: Times) -> tuple[str, ...]:
    """Return how many edges have no time, as a note or none."""
    undated = int(np.count_nonzero(times.missing))
    if not undated:
        return ()
    has, counts = ("has", "counts") if undated == 1 else ("have", "count")
    edges = "edge" if undated == 1 else "edges"
    return (f"{undated:,} {edges} {has} no time and {counts} as always there",)


def time_column(
    file: InputTable, ends: tuple[str, str], options: TableOptions
) -> str | None:
    """Return the column of the times, None where there is or need be none."""
    name = options.edge_time_column
    if name is None or (name not in file.known and not options.to_train):
        return None
    if require_column(file, name) in ends:
        raise InputError(
            f"column {name!r} holds the ends of edges and cannot be their times.",
            where=str(file.path),
        )
    return name


def _read_table(
    file: InputTable, ends: tuple[str, ...], wanted: Wanted
) -> tuple[pa.Table, Wanted, list[str]]:
    """Return ends, times and the wanted columns, which these are, and notes.

    What nobody asked for and cannot be read is left out.
    """

    def read(wanted: Wanted) -> pa.Table:
        return file.read((*ends, *wanted.columns), (*ends, *wanted.categorical))

    try:
        return read(wanted), wanted, []
    except InputError as error:
        fewer = wanted.without_rest()
        if fewer == wanted:
            raise
        table = read(fewer)
        why = str(error).removeprefix(f"{file.path}: ").removesuffix(".")
        asked = set(fewer.columns)
        rest = [name for name in wanted.columns if name not in asked]
        one = len(rest) == 1
        said = f"column {listed(rest)} is" if one else f"columns {listed(rest)} are"
        return table, fewer, [f"edge {said} left out: {why}"]


def _edge_columns(
    ends: list[NDArray[np.int64]],
    carried: Carried,
    adj: CSR,
    one_way: CSR | None,
    options: TableOptions,
) -> EdgeColumns | None:
    """Return what edges carry; None where that is nothing and each is there once."""
    n_pairs = adj.nnz // 2 if options.undirected else adj.nnz
    n_pairs = n_pairs if one_way is None else one_way.nnz
    counted = options.edge_features is None and len(ends[0]) > n_pairs
    # They are listed where they have times, and to be predicted where they had.
    if not carried.names and not counted and options.edge_time_column is None:
        return None
    return EdgeColumns(
        ends[0],
        ends[1],
        carried.values,
        carried.names,
        directed=not options.undirected,
        categories=carried.categories,
    )


def _rows(column: pa.ChunkedArray, ids: pa.Array) -> NDArray[np.integer]:
    """Return the row of the node that each cell names, [m]; -1 is none."""
    import pyarrow.compute as pc

    found: NDArray[np.integer] = pc.fill_null(
        pc.index_in(column, value_set=ids), -1
    ).to_numpy()
    return found


def _empty(
    file: InputTable, name: str, column: pa.ChunkedArray, mistakes: Mistakes
) -> NDArray[np.bool_]:
    """Tell which cells hold nothing, [m]; the first such is a mistake."""
    import pyarrow.compute as pc

    blank = pc.equal(pc.utf8_trim_whitespace(column), "")
    empty: NDArray[np.bool_] = pc.fill_null(blank, True).to_numpy()
    if empty.any():
        where = file.place(int(np.argmax(empty)))
        mistakes.add(
            file.path, f"{file.path}: column {excerpt(name)} is empty at {where}."
        )
    return empty


def _look_at_unknown(
    file: InputTable,
    node_path: Path | Origin,
    columns: dict[str, pa.ChunkedArray],
    unknown: list[NDArray[np.bool_]],
    ids: pa.Array,
    options: TableOptions,
    mistakes: Mistakes,
) -> list[str]:
    """Return notes on ends that are no nodes; mistakes unless these are dropped."""
    import pyarrow as pa

    if not any(is_none.any() for is_none in unknown):
        return []
    if not options.drop_unknown:
        for (name, column), is_none in zip(columns.items(), unknown, strict=True):
            if is_none.any():
                words = partial(_unknown, file, node_path, name, column, is_none, ids)
                mistakes.add(file.path, words)
        return []
    cells = [
        column.filter(pa.array(is_none))
        for column, is_none in zip(columns.values(), unknown, strict=True)
    ]
    chunks = [chunk for column in cells for chunk in column.chunks]
    hints = _near_misses(pa.chunked_array(chunks, cells[0].type), ids)
    if (unknown[0] | unknown[1]).all():
        mistakes.add(
            file.path,
            f"{file.path}: no edge joins two nodes of {node_path}; the ids of "
            "the two tables do not match." + "".join(f" {hint}." for hint in hints),
        )
    return [f"of the unknown nodes, {hint}" for hint in hints]


def _unknown(
    file: InputTable,
    node_path: Path | Origin,
    name: str,
    column: pa.ChunkedArray,
    unknown: NDArray[np.bool_],
    ids: pa.Array,
) -> InputError:
    import pyarrow as pa

    row = int(np.argmax(unknown))
    hints = _near_misses(column.filter(pa.array(unknown)), ids)
    return InputError(
        f"{file.place(row)} names node {excerpt(column[row].as_py())} "
        f"(column {excerpt(name)}), which is not in {node_path}",
        where=str(file.path),
        hint="drop_unknown=True leaves such edges out."
        + "".join(f" {hint}." for hint in hints),
    )


def _near_misses(unknown: pa.ChunkedArray, ids: pa.Array) -> list[str]:
    """Return how unknown ids are almost those of nodes, a sentence for each way."""
    import pyarrow.compute as pc

    def trimmed(cells: pa.Array) -> pa.Array:
        return pc.utf8_trim_whitespace(cells)

    def whole(cells: pa.Array) -> pa.Array:
        return pc.replace_substring_regex(trimmed(cells), r"^([-+]?\d+)\.0*$", r"\1")

    ways: dict[str, Callable[[pa.Array], pa.Array]] = {
        "by blanks around it": trimmed,
        "in how a whole number is written": whole,
    }
    left, said = pc.unique(unknown), []
    for way, plain in ways.items():
        rows = _rows(plain(left), plain(ids))
        near = np.flatnonzero(rows >= 0)
        if near.size:
            first = int(near[0])
            one, node = left[first].as_py(), ids[int(rows[first])].as_py()
            more = f", and so do {near.size - 1:,} more" if near.size > 1 else ""
            said.append(
                f"{excerpt(one)} differs from the node {excerpt(node)} only "
                f"{way}{more}; write ids alike in both tables"
            )
        left = left.take(np.flatnonzero(rows < 0))
    return said


def _check_guess(
    file: InputTable, ids: pa.Array, ends: tuple[str, str], rest: list[str], n_ends: int
) -> None:
    """Raise where further columns may be ends: ids of nodes, of about as many.

    Where ids are numbers, so may weights be; but those take few values, and not half
    as many as the ends, `n_ends`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rest:
        return
    table = file.read(rest, rest)

    def may_be_end(name: str) -> bool:
        column, kinds = table[name], (pa.types.is_integer, pa.types.is_large_string)
        if not any(is_kind(column.type) for is_kind in (*kinds, pa.types.is_string)):
            return False
        if 2 * pc.count_distinct(column).as_py() <= n_ends:
            return False
        found = pc.is_in(as_written(file, name, column), value_set=ids)
        return bool(pc.all(found).as_py())

    alike = [name for name in rest if may_be_end(name)]
    if alike:
        raise InputError(
            f"columns {listed((*ends, *alike))} all hold ids of nodes",
            where=str(file.path),
            hint="source_column=… and target_column=… say which are the ends of edges",
        )


def _check_header(
    file: InputTable, ids: pa.ChunkedArray, names: tuple[str, str]
) -> None:
    """Raise where the header of an edge table is an edge itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.is_in(pa.array(names, pa.large_string()), value_set=ids)).as_py():
        raise InputError(
            f"the first line names two nodes, {names[0]!r} and "
            f"{names[1]!r}, so a header such as source,target is missing.",
            where=str(file.path),
        )


# --------------------------------------------------------------------- what edges carry


@dataclass(frozen=True)
class Wanted:
    """Which columns of an edge table are to be looked at.

    Parameters
    ----------
    columns
        All of them.
    asked
        Those that were asked for by name; they must be usable.
    categorical
        Those of these whose values are categories, whatever they are.
    """

    columns: tuple[str, ...]
    asked: tuple[str, ...]
    categorical: tuple[str, ...]

    def without_rest(self) -> Wanted:
        """Return only what was asked for."""
        return Wanted(self.asked, self.asked, self.categorical)


@dataclass(frozen=True)
class Carried:
    """What the rows of an edge table carry.

    Parameters
    ----------
    values
        [m, k].
    names
        Of the k columns.
    categories
        Those of them that are categories.
    notes
        What was taken, filled and left out.
    fill_values
        The median of each numeric column.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    notes: tuple[str, ...]
    fill_values: dict[str, float]


def choose_columns(
    file: InputTable, ends: tuple[str, ...], options: TableOptions, mistakes: Mistakes
) -> Wanted:
    """Return which columns beside the ends and times are wanted.

    Columns that are not there, or are one of these, are mistakes and left out.
    """

    def there(name: str) -> bool:
        with mistakes.of(file.path):
            require_column(file, name)
            if name not in ends:
                return True
            raise InputError(
                f"column {name!r} holds the "
                f"{'ends' if name in ends[:2] else 'times'} of edges and cannot be an "
                "edge feature.",
                where=str(file.path),
            )
        return False

    given = split_names(options.edge_features or (), file.columns)
    if options.edge_weight is not None:
        given = (*given, options.edge_weight)
    categories = split_names(options.edge_categorical, file.columns)
    asked = tuple(n for n in dict.fromkeys((*given, *categories)) if there(n))
    columns = asked
    if options.edge_features is None:
        own = (name for name in file.named if name not in ends)
        columns = tuple(dict.fromkeys((*own, *asked)))
    chosen = set(categories)
    return Wanted(columns, asked, tuple(name for name in asked if name in chosen))


@dataclass(frozen=True)
class _Block:
    """One column of the table as columns of numbers, [m, ·]."""

    names: tuple[str, ...]
    values: NDArray[np.float32]
    n_missing: int = 0
    categorical: bool = False


@dataclass(frozen=True)
class _Unusable:
    """Why a column cannot be used, the first row that shows it, and what helps."""

    why: str
    row: int | None = None
    remedy: str = ""
    is_gap: bool = False


def read_columns(
    file: InputTable,
    table: pa.Table,
    kept: NDArray[np.bool_],
    wanted: Wanted,
    options: TableOptions,
    mistakes: Mistakes,
) -> Carried:
    """Return the columns of an edge table that can be used.

    Parameters
    ----------
    file, table
        The edge table, for messages, and what was read of it.
    kept
        Which of its rows are edges of the graph, [rows]; m of them.
    wanted
        Which columns to look at.
    options
        Whether missing numbers are filled, and with what.
    mistakes
        Gets what is wrong with columns that were asked for; others are noted.
    """
    import pyarrow as pa

    filler = Filler(
        options.edge_fill_values, fills=options.fill_missing, fits=options.to_train
    )
    rows = np.flatnonzero(kept)
    part = table.select(wanted.columns)
    part = part if kept.all() else part.filter(pa.array(kept))
    blocks: dict[str, _Block] = {}
    notes = []
    taken: set[str] = set()
    by_name, categories = set(wanted.asked), set(wanted.categorical)
    for name in wanted.columns:
        asked = name in by_name
        found: _Block | _Unusable
        if not asked and _row_numbers(table[name]):
            found = _Unusable("it numbers the rows")
        else:
            room = None if asked else MOST_NUMBERS - len(rows) * len(taken)
            categorical = name in categories
            found = _read(file, name, part[name], categorical, room, filler)
        if isinstance(found, _Block):
            again = next((one for one in found.names if one in taken), None)
            alike = _alike(name, blocks) if found.categorical else None
            if again is None and alike is None:
                blocks[name] = found
                taken.update(found.names)
                continue
            if again is not None:
                found = _Unusable(f"there is a column {again!r} already")
            else:
                why = f"its categories could be those of column {alike!r}"
                found = _Unusable(why, remedy="; rename one of the two")
        error = None
        if found.is_gap and found.row is not None:
            error = filler.no_median(name, file, int(rows[found.row]))
        if asked and error is not None:
            mistakes.add(file.path, error)
        elif asked:
            _refuse(file, name, found, rows, mistakes)
        else:
            notes.append(f"edge column {name!r} is left out: {found.why}{found.remedy}")
    missing = {name: block.n_missing for name, block in blocks.items()}
    filled = (*missing_notes(missing), *filler.notes())
    notes += [f"of the edges, {note}" for note in filled]
    values = [block.values for block in blocks.values()]
    return Carried(
        np.hstack([np.empty((len(rows), 0), dtype=np.float32), *values]),
        tuple(one for block in blocks.values() for one in block.names),
        tuple(
            one for block in blocks.values() if block.categorical for one in block.names
        ),
        (*_taken_note(blocks), *notes),
        {
            n: m
            for n, m in filler.values.items()
            if n in blocks or n in options.edge_fill_values
        },
    )


def _alike(name: str, blocks: dict[str, _Block]) -> str | None:
    """Return a column whose categories could be taken for those of another, if any."""
    columns = [one for one, block in blocks.items() if block.categorical]
    longer = (one for one in columns if column_of(one, (name,)) is not None)
    return column_of(name, columns) or next(longer, None)


def _taken_note(blocks: dict[str, _Block]) -> tuple[str, ...]:
    """Return which columns were taken, as a note or none."""
    said = []
    for name, block in blocks.items():
        count = len(block.names)
        many = f" ({count} {'category' if count == 1 else 'categories'})"
        said.append(repr(name) + (many if block.categorical else ""))
    return carried_note(said)


def _refuse(
    file: InputTable,
    name: str,
    found: _Unusable,
    rows: NDArray[np.int64],
    mistakes: Mistakes,
) -> None:
    def words() -> InputError:
        at = ""
        if found.row is not None:
            at = f", first at {file.place(int(rows[found.row]))}"
        end = "" if found.remedy else "."
        return InputError(
            f"the edge column {name!r} cannot be used: {found.why}{at}{end}",
            where=str(file.path),
            hint=found.remedy and f"{found.remedy.removeprefix('; ')}.",
        )

    mistakes.add(file.path, words)


def _row_numbers(column: pa.ChunkedArray) -> bool:
    """Tell whether whole numbers rise by one from row to row."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    return len(column) >= ROW_NUMBERS and bool((np.diff(column.to_numpy()) == 1).all())


def _read(
    file: InputTable,
    name: str,
    column: pa.ChunkedArray,
    categorical: bool,
    room: int | None,
    filler: Filler,
) -> _Block | _Unusable:
    """Return a column as numbers, or why it cannot be used.

    Parameters
    ----------
    file, name, column
        The table for messages, and the column.
    categorical
        Whether its values are categories, whatever they are.
    room
        How many numbers may be kept of it; None for any.
    filler
        Keeps medians, and fills cells without a number or refuses them.
    """
    kind = kind_of(column)
    if room is not None and room < len(column):
        return _too_large(1, column)
    if kind == "nothing" and name in filler.kept:
        return _numbers(name, column, filler)
    if kind == "nothing" or column.null_count == len(column):
        return _Unusable("it holds nothing")
    if categorical:
        return _categories(file, name, column, room)
    if kind == "text":
        slip = first_slip(file, column)
        if slip is None:
            return _categories(file, name, column, room)
        return _Unusable(
            f"it holds numbers, but {excerpt(column[slip].as_py())}",
            slip,
            f"; edge_categorical=[{name!r}] makes categories of it",
        )
    if kind != "numbers":
        return _Unusable(f"it holds {kind}")
    return _numbers(name, column, filler)


def _numbers(name: str, column: pa.ChunkedArray, filler: Filler) -> _Block | _Unusable:
    values = as_numbers(column)
    large = np.isinf(values)
    if large.any():
        row = int(np.argmax(large))
        value = column[row].as_py()
        return _Unusable(f"it holds {value}, no finite number of 32 bits", row)
    values = filler.fill(name, values)
    empty = np.isnan(values)
    if not empty.any():
        return _Block((name,), values[:, None])
    if empty.all():
        return _Unusable("it holds nothing")
    count = int(empty.sum())
    cells = "cell has" if count == 1 else "cells have"
    return _Unusable(
        f"{count:,} {cells} no number",
        int(np.argmax(empty)),
        ""
        if filler.fills
        else "; fill_missing=True puts the median of the column there",
        is_gap=True,
    )


def _categories(
    file: InputTable, name: str, column: pa.ChunkedArray, room: int | None
) -> _Block | _Unusable:
    import pyarrow.compute as pc

    try:
        text = as_text(file, name, column)
    except InputError:
        return _Unusable(f"it holds {kind_of(column)}")
    count = pc.count_distinct(text, mode="all").as_py()
    if count > MOST_VALUES:
        return _Unusable(
            f"it has {count:,} different values, and at most {MOST_VALUES} can be "
            "categories"
        )
    if room is not None and room < count * len(column):
        return _too_large(count, column)
    block, values, n_missing = one_hot(text)
    if n_missing == len(column):
        return _Unusable("it holds nothing")
    names = tuple(f"{name}={value}" for value in values)
    return _Block(names, block.toarray(), n_missing, categorical=True)


def _too_large(n_columns: int, column: pa.ChunkedArray) -> _Unusable:
    size = 4 * n_columns * len(column) / 2**30
    return _Unusable(
        f"it would take {size:.1f} GB more",
        remedy="; edge_features=… takes the columns that it names",
    )
