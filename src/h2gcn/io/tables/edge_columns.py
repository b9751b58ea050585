"""The columns of an edge table beside the ends: which are used, and as what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.io.adjacency import carried_note
from h2gcn.io.mistakes import Mistakes, quoted
from h2gcn.io.tables.columns import (
    TableOptions,
    as_text,
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
from h2gcn.io.tables.table_file import TableFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Carried", "Wanted", "choose_edge_columns", "read_edge_columns"]

MOST_VALUES = 50
"""How many values a column may have whose values are categories."""
MOST_NUMBERS = 2**28
"""How many numbers are kept of columns that nobody asked for: 1 GB."""
ROW_NUMBERS = 10
"""From so many rows on, numbers that rise by one are the numbers of the rows."""


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
        The median of each numeric column, where cells are filled.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    notes: tuple[str, ...]
    fill_values: dict[str, float]


def choose_edge_columns(
    file: TableFile, ends: tuple[str, str], options: TableOptions, mistakes: Mistakes
) -> Wanted:
    """Return which columns beside the ends are wanted.

    Columns that are not there, or are an end, are mistakes and left out.
    """

    def there(name: str) -> bool:
        with mistakes.of(file.path):
            require_column(file, name)
            if name not in ends:
                return True
            raise InputError(
                f"{file.path}: column {name!r} holds the ends of edges and cannot be "
                "an edge feature."
            )
        return False

    given = split_names(options.edge_features or (), file.columns)
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


def read_edge_columns(
    file: TableFile,
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

    filler = Filler(options.edge_fill_values) if options.fill_missing else None
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
            if again is None:
                blocks[name] = found
                taken.update(found.names)
                continue
            found = _Unusable(f"there is a column {again!r} already")
        if asked:
            _refuse(file, name, found, rows, mistakes)
        else:
            notes.append(f"edge column {name!r} is left out: {found.why}{found.remedy}")
    missing = {name: block.n_missing for name, block in blocks.items()}
    filled = () if filler is None else filler.notes()
    notes += [f"of the edges, {note}" for note in (*missing_notes(missing), *filled)]
    values = [block.values for block in blocks.values()]
    medians = options.edge_fill_values if filler is None else filler.values
    return Carried(
        np.hstack([np.empty((len(rows), 0), dtype=np.float32), *values]),
        tuple(one for block in blocks.values() for one in block.names),
        tuple(
            one for block in blocks.values() if block.categorical for one in block.names
        ),
        (*_taken_note(blocks), *notes),
        {
            n: m
            for n, m in medians.items()
            if n in blocks or n in options.edge_fill_values
        },
    )


def _taken_note(blocks: dict[str, _Block]) -> tuple[str, ...]:
    """Return which columns were taken, as a note or none."""
    said = []
    for name, block in blocks.items():
        count = len(block.names)
        many = f" ({count} {'category' if count == 1 else 'categories'})"
        said.append(repr(name) + (many if block.categorical else ""))
    return carried_note(said)


def _refuse(
    file: TableFile,
    name: str,
    found: _Unusable,
    rows: NDArray[np.int64],
    mistakes: Mistakes,
) -> None:
    def words() -> str:
        at = ""
        if found.row is not None:
            at = f", first at {file.place(int(rows[found.row]))}"
        return (
            f"{file.path}: the edge column {name!r} cannot be used: "
            f"{found.why}{at}{found.remedy}."
        )

    mistakes.add(file.path, words)


def _row_numbers(column: pa.ChunkedArray) -> bool:
    """Tell whether whole numbers rise by one from row to row."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    return len(column) >= ROW_NUMBERS and bool((np.diff(column.to_numpy()) == 1).all())


def _read(
    file: TableFile,
    name: str,
    column: pa.ChunkedArray,
    categorical: bool,
    room: int | None,
    filler: Filler | None,
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
        Fills cells without a number; None refuses them.
    """
    kind = kind_of(column)
    if room is not None and room < len(column):
        return _too_large(1, column)
    if kind == "nothing" and filler is not None and name in filler.values:
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
            f"it holds numbers, but {quoted(column[slip].as_py())}",
            slip,
            f"; edge_categorical=[{name!r}] makes categories of it",
        )
    if kind != "numbers":
        return _Unusable(f"it holds {kind}")
    return _numbers(name, column, filler)


def _numbers(
    name: str, column: pa.ChunkedArray, filler: Filler | None
) -> _Block | _Unusable:
    values = as_numbers(column)
    large = np.isinf(values)
    if large.any():
        row = int(np.argmax(large))
        value = column[row].as_py()
        return _Unusable(f"it holds {value}, no finite number of 32 bits", row)
    if filler is not None:
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
        "; fill_missing=True puts the median of the column there",
    )


def _categories(
    file: TableFile, name: str, column: pa.ChunkedArray, room: int | None
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
        remedy="; 'edge_features' takes the columns that it names",
    )
