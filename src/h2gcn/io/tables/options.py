"""How node and edge tables are to be read; a saved model keeps it as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError

__all__ = ["TableOptions", "split_names"]


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

    def __post_init__(self) -> None:
        # JSON and the command line give lists.
        object.__setattr__(self, "categorical", tuple(self.categorical))
        if self.feature_columns is not None:
            object.__setattr__(self, "feature_columns", tuple(self.feature_columns))
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
    single = []
    for name in names:
        parts = [] if name in known else [part.strip() for part in name.split(",")]
        single += [part for part in parts if part] or [name]
    return tuple(single)
