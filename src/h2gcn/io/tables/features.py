"""The features of a node table: its columns, or a file of their own."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, column_of
from h2gcn.io.files import existing_file
from h2gcn.io.graph_parts import check_features_room, doubtful_column, worth_sparse
from h2gcn.io.mistakes import Mistakes, excerpt, listed, one_line
from h2gcn.io.tables.columns import InputTable, Roles, as_text, text_codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NUMBER",
    "PARTS",
    "Filler",
    "as_numbers",
    "check_feature_names",
    "doubtful_columns",
    "first_slip",
    "kind_of",
    "map_features",
    "matches",
    "missing_notes",
    "numeric_columns",
    "one_hot",
    "read_features",
    "read_numbers",
]

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_DECIMAL_COMMA = r"^\s*[-+]?[\d.]*\d,\d+\s*$"

# What numpy runs into where the header of an array is damaged, besides.
NPY_DAMAGE = (
    *(AttributeError, LookupError, MemoryError, OSError, OverflowError),
    *(RecursionError, SyntaxError, TypeError, ValueError, tokenize.TokenError),
)

DATES = "dates or times"
"""What a column holds that is neither numbers nor text."""
PARTS = {
    **{"train": "train", "val": "val", "test": "test"},
    **dict.fromkeys(("valid", "validation", "dev"), "val"),
}
"""The words for the parts of a split."""
SHOWN = 8
"""How many doubtful columns are named in a note."""
MISSING = "(missing)"
"""The category of cells that have none."""


class Filler:
    """Keeps the medians of columns, and fills empty cells with them.

    Parameters
    ----------
    values
        Numbers to use instead of a median, by column: those of another table, which
        a model was trained on.
    fills
        Whether to fill empty cells.
    fits
        Whether to take medians of these columns; not of a table that is predicted.

    Examples
    --------
    >>> filler = Filler({"income": 7.0}, fills=True, fits=True)
    >>> empty = np.array([1, np.nan, 3, 8], dtype=np.float32)
    >>> filler.fill("age", empty).tolist(), filler.fill("income", empty[:2]).tolist()
    ([1.0, 3.0, 3.0, 8.0], [1.0, 7.0])
    >>> filler.values, filler.notes()
    ({'income': 7.0, 'age': 3.0}, ("2 empty cells filled, of 'age' (1), 'income' (1)",))
    """

    def __init__(self, values: Mapping[str, float], *, fills: bool, fits: bool) -> None:
        self.values, self.fills, self.fits = dict(values), fills, fits
        self._filled: dict[str, int] = {}

    def fill(self, name: str, column: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a column, [n], with its median in place of NaN if that is wanted."""
        empty = np.isnan(column)
        there = column if not empty.any() else column[~empty]
        if self.fits and name not in self.values and there.size:
            self.values[name] = float(np.median(there))
        if not (self.fills and name in self.values and there.size < column.size):
            return column
        self._filled[name] = int(empty.sum())
        return np.where(empty, np.float32(self.values[name]), column)

    @property
    def kept(self) -> Mapping[str, float]:
        """The numbers that cells are filled with."""
        return self.values if self.fills else {}

    def no_median(self, name: str, file: InputTable, row: int) -> InputError | None:
        """Return the error of an empty cell that only training could fill, if so."""
        if self.fits or not self.fills or name in self.values:
            return None
        return InputError(
            f"needs the median of column {excerpt(name)}, which training did not keep",
            param="fill_missing",
            where=file.where(row),
            hint="write a number into the cell, or train the model again",
        )

    def notes(self) -> tuple[str, ...]:
        """Return how many cells of which columns were filled, as a note or none."""
        if not self._filled:
            return ()
        said = ", ".join(f"{name!r} ({n:,})" for name, n in self._filled.items())
        total = sum(self._filled.values())
        cells = "empty cell" if total == 1 else "empty cells"
        return (f"{total:,} {cells} filled, of {said}",)


def read_features(
    file: InputTable,
    table: pa.Table,
    roles: Roles,
    mistakes: Mistakes,
    filler: Filler,
    more: Mapping[str, NDArray[np.float32]] | None = None,
) -> tuple[Features, tuple[str, ...], tuple[str, ...]]:
    """Return the features of a node table.

    Parameters
    ----------
    file, table
        The node table, for messages, and what was read of it.
    roles
        What its columns are for.
    mistakes
        Gets those of each column; what is returned is then of no use.
    filler
        Keeps medians, and fills cells without a number or refuses them.
    more
        Columns of numbers that were made of others, [n] each.

    Returns
    -------
    x
        [n, F]: the numeric columns, `more`, then a column for each value of each
        categorical one; CSR where it is wide and mostly zero. F is 0 where no
        column was asked for and none is numeric.
    feature_names
        The columns' names; `column=value` for categorical ones.
    notes
        What was left out, and what was missing.
    """
    numeric, notes = numeric_columns(file, table, roles, filler.kept, mistakes)
    more = {} if more is None else more
    dense = np.empty((table.num_rows, len(numeric) + len(more)), dtype=np.float32)
    for number, name in enumerate(numeric):
        dense[:, number] = read_numbers(file, table, roles, name, filler, mistakes)
    for number, made in enumerate(more.values(), start=len(numeric)):
        dense[:, number] = made
    blocks, names, missing = [], [*numeric, *more], {}
    for name in roles.categorical:
        with mistakes.of(file.path):
            block, values, n_missing = one_hot(as_text(file, name, table[name]))
            blocks.append(block)
            names += [f"{name}={value}" for value in values]
            missing[name] = n_missing
    if missing and not numeric and not more and min(missing.values()) == table.num_rows:
        mistakes.add(
            file.path,
            f"{file.path}: no feature is left: no cell of the categorical columns "
            f"({listed(roles.categorical)}) is filled, and no column is numeric.",
        )
    with mistakes.of(file.path):
        check_feature_names(file, names, len(numeric) + len(more), roles.categorical)
    notes += missing_notes(missing)
    shape = (table.num_rows, len(names))
    n_nonzero = int(np.count_nonzero(dense)) + sum(block.nnz for block in blocks)
    if worth_sparse(n_nonzero, shape):
        x: Features = CSR(sp.hstack([CSR(dense), *blocks], format="csr"))
    else:
        x = np.hstack([dense, *(block.toarray() for block in blocks)])
    return x, tuple(names), notes + filler.notes()


def check_feature_names(
    file: InputTable, names: Sequence[str], n_plain: int, categorical: Sequence[str]
) -> None:
    """Raise if two features share a name, or one looks like another's category.

    Parameters
    ----------
    file
        The node table.
    names
        Of all features: numbers, parts of dates, then values of categories.
    n_plain
        How many of them are not values of categories.
    categorical
        The columns of categories.
    """
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise InputError(
                "makes two features of one name",
                param="date_features" if number < n_plain else "categorical",
                value=name,
                where=str(file.path),
                hint="rename a column",
            )
        seen.add(name)
    for column in (*names[:n_plain], *categorical):
        other = column_of(column, categorical)
        if other is not None:
            raise InputError(
                f"column {excerpt(column)} is called like a category of column "
                f"{excerpt(other)}",
                where=str(file.path),
                hint="rename one of the two",
            )


def map_features(
    path: str | Path, nodes: InputTable, n_nodes: int
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return features mapped from a file, [n, F], and notes for the record.

    Parameters
    ----------
    path
        The file. float32 is read where it is needed only; other numbers are copied
        by the graph that is made of them.
    nodes
        The node table, whose rows the file has in the same order.
    n_nodes
        How many these are.
    """
    file = existing_file(path)
    try:
        x: NDArray[Any] = np.lib.format.open_memmap(file, mode="r")
    except NPY_DAMAGE as error:
        raise InputError(
            f"cannot be read as an array of numpy, .npy ({one_line(error)}).",
            where=str(file),
        ) from None
    if x.dtype.kind not in "fiub":
        raise InputError(f"must hold numbers, got dtype {x.dtype}", where=str(file))
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(
            f"must be a matrix with a column for each feature, got shape {x.shape}",
            where=str(file),
        )
    if len(x) != n_nodes:
        raise InputError(
            f"must have a row for each of the {n_nodes:,} nodes of {nodes.path.name}, "
            f"got {len(x):,} rows",
            where=str(file),
        )
    if x.dtype == np.float32:
        return x, ()
    check_features_room(x.shape)
    note = f"{file.name} holds {x.dtype} and was read into memory; float32 stays a file"
    return x, (note,)


def missing_notes(missing: dict[str, int]) -> tuple[str, ...]:
    """Return how many cells of which columns have no category, as a note or none."""
    total = sum(missing.values())
    if not total:
        return ()
    said = ", ".join(f"{name!r} ({n:,})" for name, n in missing.items() if n)
    own = "cell is a category of its" if total == 1 else "cells are a category of their"
    return (f"{total:,} empty {own} own, {MISSING}, of {said}",)


def doubtful_columns(table: pa.Table, numeric: Collection[str]) -> tuple[str, ...]:
    """Return which columns are taken as numbers and may be none, as a note or none."""
    seems = {
        name: doubtful_column(name, _exact(table[name]))
        for name in numeric
        if kind_of(table[name]) == "numbers"
    }
    found = {name: what for name, what in seems.items() if what}
    if not found:
        return ()
    codes = [name for name, what in found.items() if what.startswith("codes")]
    some = [f"{excerpt(name)} ({what})" for name, what in [*found.items()][:SHOWN]]
    rest = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    which = "a column" if len(found) == 1 else f"{len(found)} columns"
    remedy = f", and categorical={codes[:SHOWN]} makes categories" if codes else ""
    return (
        f"{which} used as numbers may be none: {', '.join(some)}{rest}; "
        f"feature_columns=… can name the columns to use{remedy}",
    )


def _exact(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of a column that are there, as they are, [m]."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values: NDArray[Any] = column.drop_null().to_numpy()
    return values


def numeric_columns(
    file: InputTable,
    table: pa.Table,
    roles: Roles,
    kept: Collection[str],
    mistakes: Mistakes,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are features as they are, and notes on the others.

    One without any number is one where a number is `kept` for it.
    """
    numeric, notes = [], []
    asked = roles.numeric is not None
    candidates = roles.numeric or ()
    if not asked:
        known = (*roles.text, *roles.unclear)
        candidates = tuple(n for n in table.column_names if n not in known)
        unnamed = len(file.columns) - len(file.named) - len(file.index)
        if unnamed:
            what = f"{unnamed} columns without names are"
            what = "a column without a name is" if unnamed == 1 else what
            notes.append(f"{what} not used")
    for name in candidates:
        kind = kind_of(table[name])
        if kind == "numbers" or (kind == "nothing" and (asked or name in kept)):
            numeric.append(name)
        elif asked:
            mistakes.add(
                file.path, partial(_not_numeric, file, name, table[name], kind)
            )
        elif kind == "text":
            where = first_slip(file, table[name])
            # Without an id column, the ids themselves may be here.
            if where is not None and roles.id is not None:
                words = partial(_slip, file, name, table[name], where)
                mistakes.add(file.path, words)
                continue
            notes.append(f"column {excerpt(name)} {_text_note(name, table[name])}")
        else:
            remedy = ""
            if kind == DATES:
                remedy = f"; date_features=[{name!r}] makes numbers of it"
            notes.append(f"column {excerpt(name)} holds {kind} and is not used{remedy}")
    return tuple(numeric), tuple(notes)


def _text_note(name: str, column: pa.ChunkedArray) -> str:
    """Return what becomes of a column of text, and what could."""
    import pyarrow.compute as pc

    words = pc.unique(column).drop_null()
    if len(words) <= 2 * len(PARTS):
        found = {str(word).strip().lower() for word in words.to_pylist()} - {""}
        parts = {PARTS.get(word) for word in found}
        if None not in parts and "train" in parts and len(parts) > 1:
            return f"holds a split that is not used; split_column={name!r} takes it"
    filled = matches(column, ".")
    numbers = filled.any() and not (filled & ~matches(column, NUMBER)).any()
    what = "numbers that are stored as text" if numbers else "text"
    return f"holds {what} and is not used; categorical=[{name!r}] one-hot encodes it"


def kind_of(column: pa.ChunkedArray) -> str:
    """Return what a column holds: "numbers", "text", "nothing" or other words."""
    import pyarrow as pa

    kind = column.type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return "numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_temporal(kind):
        return DATES
    return f"values of type {kind}"


def matches(column: pa.ChunkedArray, pattern: str) -> NDArray[np.bool_]:
    """Tell which cells of a text column match a pattern, [n]."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.match_substring_regex(column, pattern), False)
    return np.asarray(found.to_numpy(), dtype=bool)


def first_slip(file: InputTable, column: pa.ChunkedArray) -> int | None:
    """Return the first row of a text column that is no number among numbers, if any.

    Among numbers: more cells are numbers than are not. In a text file that commas do
    not separate, a number with a decimal comma was meant as one.
    """
    number, empty = matches(column, NUMBER), ~matches(column, ".")
    meant = number
    if file.delimiter not in (None, ","):
        meant = number | matches(column, _DECIMAL_COMMA)
    others = ~(number | empty)
    if not others.any() or meant.sum() <= (others & ~meant).sum():
        return None
    return int(np.argmax(others))


def _slip(file: InputTable, name: str, column: pa.ChunkedArray, row: int) -> InputError:
    cell = column[row].as_py()
    return InputError(
        f"column {excerpt(name)} holds numbers, but {excerpt(cell)} at "
        f"{file.place(row)}",
        where=str(file.path),
        hint="mend it, or make it a category with "
        f"categorical=[{name!r}].{_comma_hint(cell)}",
    )


def _not_numeric(
    file: InputTable, name: str, column: pa.ChunkedArray, kind: str
) -> str:
    found, hint = f"{kind}, not numbers", ""
    others = np.zeros(0, dtype=bool)
    if kind == "text":
        others = matches(column, ".") & ~matches(column, NUMBER)
    if others.any():
        row = int(np.argmax(others))
        cell = column[row].as_py()
        found += f": {excerpt(cell)} at {file.place(row)}"
        hint = _comma_hint(cell)
    return f"{file.path}: the feature column {excerpt(name)} holds {found}.{hint}"


def _comma_hint(cell: str) -> str:
    has_comma = re.search(_DECIMAL_COMMA, cell)
    return " Numbers need a decimal point, not a comma." if has_comma else ""


def read_numbers(
    file: InputTable,
    table: pa.Table,
    roles: Roles,
    name: str,
    filler: Filler,
    mistakes: Mistakes,
) -> NDArray[np.float32]:
    """Return a numeric column, [n]; its first cell without a number is a mistake."""
    values = filler.fill(name, as_numbers(table[name]))
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        hint = ""
        if np.isnan(values[row]):
            error = filler.no_median(name, file, row)
            if error is not None:
                mistakes.add(file.path, error)
                return values
            hint = "fill_missing=True puts the median of the column there"
            if filler.fills:
                hint = "no cell of the column has a number, so it has no median"
        words = partial(_not_finite, file, table, roles, name, row, hint)
        mistakes.add(file.path, words)
    return values


def as_numbers(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return a numeric column, [n]; NaN or infinite where it holds no such number."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_decimal(column.type):  # straight to 32 bits, Arrow rounds twice
        column = column.cast(pa.float64())
    # Nulls become NaN, and what is too large for 32 bits infinity.
    values: NDArray[np.float32] = column.cast(pa.float32(), safe=False).to_numpy()
    return values


def _not_finite(
    file: InputTable, table: pa.Table, roles: Roles, name: str, row: int, hint: str
) -> InputError:
    value = table[name][row].as_py()
    found = "a missing value" if value is None else excerpt(value)
    node = "" if roles.id is None else f", node {excerpt(table[roles.id][row].as_py())}"
    return InputError(
        f"column {excerpt(name)} must hold a finite number in each row, of 32 bits, "
        f"got {found} at {file.place(row)}{node}",
        where=str(file.path),
        hint=hint,
    )


def one_hot(column: pa.ChunkedArray) -> tuple[CSR, list[str], int]:
    """Return the one-hot matrix of a text column, [n, values], and its values.

    Where cells are empty, `MISSING` is a value; how many are comes last.
    """
    import pyarrow.compute as pc

    empty = pc.fill_null(pc.equal(column, ""), True)
    codes, values = text_codes(pc.if_else(empty, MISSING, column))
    order = np.argsort(np.array(values, dtype=object))
    rank = np.empty(len(values), dtype=np.int32)
    rank[order] = np.arange(len(values))
    ones, rows = np.ones(codes.size, dtype=np.float32), np.arange(codes.size)
    block = CSR((ones, (rows, rank[codes])), shape=(len(codes), len(values)))
    return block, sorted(values), int(pc.sum(empty).as_py())
