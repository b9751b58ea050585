"""What the columns of a node table mean, and their cells as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.io.files import listed, one_line
from h2gcn.io.tables.files import TableFile
from h2gcn.io.tables.options import TableOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ID_NAMES",
    "Roles",
    "as_text",
    "choose_ends",
    "choose_roles",
    "require_column",
    "text_codes",
]

ID_NAMES = ("id", "node", "node_id")
LABEL_NAMES = ("label", "class", "y")
END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"))


@dataclass(frozen=True)
class Roles:
    """The columns of a node table by what they are for.

    Parameters
    ----------
    id, label
        Column of the ids; column of the labels or None.
    numeric
        Columns asked for as features; None for all that are numeric.
    categorical
        Columns that are one-hot encoded.
    """

    id: str
    label: str | None
    numeric: tuple[str, ...] | None
    categorical: tuple[str, ...]

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that are read as they are written."""
        label = () if self.label is None else (self.label,)
        return (self.id, *label, *self.categorical)


def choose_roles(file: TableFile, options: TableOptions) -> Roles:
    """Return what each column of a node table is for, or raise."""
    if options.id_column is not None:
        id_column = require_column(file, options.id_column)
    else:
        found = _by_name(file, ID_NAMES)
        if found is None:
            raise InputError(
                f"{file.path}: no column of node ids ({', '.join(ID_NAMES)}) was "
                f"found; name it with --id-column. Columns: {listed(file.columns)}."
            )
        id_column = found
    label = options.label_column
    if label is None:
        label = _by_name(file, LABEL_NAMES)
    elif options.label_required or label in file.columns:
        label = require_column(file, label)
    else:
        label = None
    categorical = tuple(dict.fromkeys(options.categorical))
    numeric = options.feature_columns
    if numeric is not None:
        numeric = tuple(n for n in dict.fromkeys(numeric) if n not in categorical)
    for name in (*(numeric or ()), *categorical):
        require_column(file, name)
        if name in (id_column, label):
            what = "ids" if name == id_column else "labels"
            raise InputError(
                f"{file.path}: column {name!r} holds the {what} and cannot be a "
                "feature."
            )
    return Roles(id_column, label, numeric, categorical)


def choose_ends(file: TableFile, options: TableOptions) -> tuple[str, str, bool]:
    """Return the source and the target column, and whether they were guessed."""
    if len(file.named) < 2:
        raise InputError(
            f"{file.path}: an edge table must have two columns, source and target. "
            f"Columns: {listed(file.columns)}."
        )
    source, target = options.source_column, options.target_column
    if source is not None and target is not None:
        if source == target:
            raise InputError(
                f"{file.path}: source and target must be two columns. Got {source!r} "
                "for both."
            )
        return require_column(file, source), require_column(file, target), False
    for pair in END_NAMES:
        ends = [_by_name(file, (name,)) for name in pair]
        if ends[0] is not None and ends[1] is not None:
            return ends[0], ends[1], False
    return file.named[0], file.named[1], True


def require_column(file: TableFile, name: str) -> str:
    """Return the name of a column that is there, or raise with the nearest."""
    if name not in file.columns:
        raise InputError(
            f"{file.path}: there is no column {name!r}.{nearest(name, file.columns)} "
            f"Columns: {listed(file.columns)}."
        )
    return name


def _by_name(file: TableFile, names: tuple[str, ...]) -> str | None:
    for wanted in names:
        for column in file.columns:
            if column.lower() == wanted:
                return column
    return None


def as_text(file: TableFile, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of a column as text without blanks around it.

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
        return pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    except pa.ArrowException as error:
        raise InputError(
            f"{file.path}: column {name!r} cannot be read as text ({one_line(error)})."
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
