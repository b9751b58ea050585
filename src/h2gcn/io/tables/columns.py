"""Which columns of the two tables mean what, and their cells as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import close, nearest
from h2gcn.exceptions import InputError
from h2gcn.io.mistakes import Mistakes, listed, one_line, quoted
from h2gcn.io.node_data import WIDEST
from h2gcn.io.tables.table_file import TableFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "END_NAMES",
    "ID_NAMES",
    "Roles",
    "TableOptions",
    "as_text",
    "as_written",
    "choose_ends",
    "choose_roles",
    "require_column",
    "split_names",
    "text_array",
    "text_codes",
]

ID_NAMES = ("id", "node", "node_id")
LABEL_NAMES = ("label", "class", "y")
END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"))


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


_COLUMNS = ("id_column", "label_column", "source_column", "target_column")
_FLAGS = ("drop_unknown", "undirected", "fill_missing", "label_required")
_RULES: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(_COLUMNS, ("a name or None", _is_name)),
    **dict.fromkeys(("categorical", "edge_categorical"), ("names", _are_names)),
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
        an error.
    fill_values
        Numbers for such cells by column, of another table: those that a model was
        trained with.
    edge_features
        Columns of the edge table that `Graph.edge_columns` keeps: numbers, and text of
        at most 50 values as categories. By default all that can be used, and a note
        on each of the others; a column that is named must be usable. Names as of
        `feature_columns`; () is none.
    edge_categorical
        Columns of the edge table whose numbers are categories, beside these.
    edge_fill_values
        As `fill_values`, of the edge table.
    label_required
        Whether a table without the `label_column` that was asked for is an error;
        not so where a model predicts what is not known yet.

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

    def __post_init__(self) -> None:
        for field_, (rule, is_sound) in _RULES.items():
            value = getattr(self, field_)
            if not is_sound(value):
                raise InputError(
                    f"The table option {field_!r} must be {rule}. "
                    f"Got {quoted(value)} instead."
                )
            # JSON and the command line give lists.
            if isinstance(value, list):
                object.__setattr__(self, field_, tuple(value))
        if (self.source_column is None) != (self.target_column is None):
            raise InputError(
                "The source and the target column of the edge table must be given "
                f"together. Got {self.source_column!r} and {self.target_column!r}."
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
                f"found; name it with 'id_column'. Columns: {listed(file.columns)}.",
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
    if name not in file.known:
        raise InputError(
            f"{file.path}: there is no column {quoted(name)}."
            f"{nearest(name, file.columns)} Columns: {listed(file.columns)}."
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
            f"{file.path}: column {quoted(name)} cannot be read as text "
            f"({one_line(error)})."
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
