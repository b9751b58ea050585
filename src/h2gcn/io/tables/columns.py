"""What the columns of a node table mean, and their cells as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import close, nearest
from h2gcn.exceptions import InputError
from h2gcn.io.files import Mistakes, listed, one_line
from h2gcn.io.tables.files import TableFile
from h2gcn.io.tables.options import TableOptions, split_names

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ID_NAMES",
    "Roles",
    "as_text",
    "as_written",
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
        Column of the ids, None where there is a mistake; column of the labels or None.
    numeric
        Columns asked for as features; None for all that are numeric.
    categorical
        Columns that are one-hot encoded.
    unclear
        Columns that may have been meant by names that none has; no others' mistakes
        are to be looked for in them.
    """

    id: str | None
    label: str | None
    numeric: tuple[str, ...] | None
    categorical: tuple[str, ...]
    unclear: tuple[str, ...] = ()

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that are read as they are written."""
        roles = (self.id, self.label, *self.categorical)
        return tuple(name for name in roles if name is not None)


def choose_roles(file: TableFile, options: TableOptions, mistakes: Mistakes) -> Roles:
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
        if name not in (id_column, label):
            return False
        what = "ids" if name == id_column else "labels"
        mistakes.add(
            file.path,
            f"{file.path}: column {name!r} holds the {what} and cannot be a feature.",
        )
        return True

    id_column, label = options.id_column, options.label_column
    if id_column is None:
        id_column = _by_name(file, ID_NAMES)
        if id_column is None:
            mistakes.add(
                file.path,
                f"{file.path}: no column of node ids ({', '.join(ID_NAMES)}) was "
                f"found; name it with --id-column. Columns: {listed(file.columns)}.",
            )
    elif not there(id_column):
        id_column = None
    if label is None:
        label = _by_name(file, LABEL_NAMES)
    elif label not in file.columns:
        if options.label_required:
            there(label)
        label = None
    categories = split_names(options.categorical, file.columns)
    numbers = split_names(options.feature_columns or (), file.columns)
    numbers = tuple(name for name in numbers if name not in categories)
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
    )


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
    """Return the cells of a column as text without blanks around it."""
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(as_written(file, name, column))


def as_written(file: TableFile, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of a column as text, as ids are: blanks are a part of them.

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
