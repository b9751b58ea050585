"""Numeric and categorical columns of a node table as a feature matrix."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features
from h2gcn.io.features import worth_sparse
from h2gcn.io.files import listed
from h2gcn.io.tables.columns import Roles, as_text, text_codes
from h2gcn.io.tables.files import TableFile
from h2gcn.io.tables.missing import Filler

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_features"]

_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def read_features(
    file: TableFile, table: pa.Table, roles: Roles, filler: Filler | None = None
) -> tuple[Features, tuple[str, ...], tuple[str, ...]]:
    """Return the features of a node table.

    Parameters
    ----------
    file, table
        The node table, for messages, and what was read of it.
    roles
        What its columns are for.
    filler
        Fills cells without a number; None refuses them.

    Returns
    -------
    x
        [n, F]: the numeric columns, then a column for each value of each
        categorical one; CSR where it is wide and mostly zero. F is 0 where no
        column was asked for and none is numeric.
    feature_names
        The columns' names; `column=value` for categorical ones.
    notes
        What was left out.
    """
    kept = {} if filler is None else filler.values
    numeric, notes = _numeric_columns(file, table, roles, kept)
    dense = np.empty((table.num_rows, len(numeric)), dtype=np.float32)
    for number, name in enumerate(numeric):
        dense[:, number] = _numbers(file, table, roles, name, filler)
    blocks, names = [], list(numeric)
    for name in roles.categorical:
        block, values = _one_hot(as_text(file, name, table[name]))
        blocks.append(block)
        names += [f"{name}={value}" for value in values]
    if roles.categorical and not names:
        raise InputError(
            f"{file.path}: no feature is left: no cell of the categorical columns "
            f"({listed(roles.categorical)}) is filled, and no column is numeric."
        )
    shape = (table.num_rows, len(names))
    n_nonzero = int(np.count_nonzero(dense)) + sum(block.nnz for block in blocks)
    if worth_sparse(n_nonzero, shape):
        x: Features = CSR(sp.hstack([CSR(dense), *blocks], format="csr"))
    else:
        x = np.hstack([dense, *(block.toarray() for block in blocks)])
    return x, tuple(names), notes + (() if filler is None else filler.notes())


def _numeric_columns(
    file: TableFile, table: pa.Table, roles: Roles, kept: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are features as they are, and notes on the others.

    One without any number is one where a number is `kept` for it.
    """
    numeric, notes = [], []
    asked = roles.numeric is not None
    candidates = roles.numeric or ()
    if not asked:
        candidates = tuple(n for n in table.column_names if n not in roles.text)
        unnamed = len(file.columns) - len(file.named)
        if unnamed:
            what = f"{unnamed} columns without names are"
            what = "a column without a name is" if unnamed == 1 else what
            notes.append(f"{what} not used")
    for name in candidates:
        kind = _kind(table[name])
        if kind == "numbers" or (kind == "nothing" and (asked or name in kept)):
            numeric.append(name)
        elif asked:
            raise _not_numeric(file, name, table[name], kind)
        elif kind == "text":
            where = _first_text(table[name], only_among_numbers=True)
            if where is not None:
                raise InputError(
                    f"{file.path}: column {name!r} holds numbers, but "
                    f"{table[name][where].as_py()!r} at {file.place(where)}; mend it, "
                    f"or make it a category with --categorical {name}."
                )
            notes.append(
                f"column {name!r} holds text and is not used; "
                f"--categorical {name} one-hot encodes it"
            )
        else:
            notes.append(f"column {name!r} holds {kind} and is not used")
    return tuple(numeric), tuple(notes)


def _kind(column: pa.ChunkedArray) -> str:
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
        return "dates or times"
    return f"values of type {kind}"


def _first_text(column: pa.ChunkedArray, only_among_numbers: bool) -> int | None:
    """Return the first row of a text column that is no number, if any.

    Among numbers: only where more cells are numbers than are not.
    """
    import pyarrow.compute as pc

    is_number = pc.match_substring_regex(column, _NUMBER)
    is_number = pc.fill_null(pc.or_(is_number, pc.equal(column, "")), True).to_numpy()
    filled = is_number & pc.fill_null(pc.not_equal(column, ""), False).to_numpy()
    if is_number.all() or (only_among_numbers and filled.sum() <= (~is_number).sum()):
        return None
    return int(np.argmin(is_number))


def _not_numeric(
    file: TableFile, name: str, column: pa.ChunkedArray, kind: str
) -> InputError:
    where = _first_text(column, only_among_numbers=False) if kind == "text" else None
    found = f"{kind}, not numbers"
    if where is not None:
        found += f": {column[where].as_py()!r} at {file.place(where)}"
    return InputError(f"{file.path}: the feature column {name!r} holds {found}.")


def _numbers(
    file: TableFile, table: pa.Table, roles: Roles, name: str, filler: Filler | None
) -> NDArray[np.float32]:
    """Return a numeric column, [n], or raise at the first cell without a number."""
    import pyarrow as pa

    column = table[name]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    # Nulls become NaN, and what is too large for 32 bits infinity.
    values: NDArray[np.float32] = column.cast(pa.float32(), safe=False).to_numpy()
    if filler is not None:
        values = filler.fill(name, values)
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        value = table[name][row].as_py()
        empty = np.isnan(values[row])
        found = "a missing value" if value is None else repr(value)
        hint = ""
        if empty:
            hint = " --fill-missing puts the median of the column there."
        if empty and filler is not None:
            hint = " No cell of the column has a number, so it has no median."
        raise InputError(
            f"{file.path}: column {name!r} must hold a finite number in each row, of "
            f"32 bits. Got {found} at {file.place(row)}, node "
            f"{table[roles.id][row].as_py()!r}.{hint}"
        )
    return values


def _one_hot(column: pa.ChunkedArray) -> tuple[CSR, list[str]]:
    """Return the one-hot matrix, [n, values], of a text column and its values."""
    codes, values = text_codes(column)
    order = np.argsort(np.array(values, dtype=object))
    rank = np.empty(len(values), dtype=np.int32)
    rank[order] = np.arange(len(values))
    rows = np.flatnonzero(codes >= 0)
    ones = np.ones(rows.size, dtype=np.float32)
    block = CSR((ones, (rows, rank[codes[rows]])), shape=(len(codes), len(values)))
    return block, sorted(values)
