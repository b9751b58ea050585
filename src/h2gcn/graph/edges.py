"""What the edges of a graph carry: amounts, kinds, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph.checks import first_not_finite

__all__ = ["EdgeColumns"]


@dataclass(frozen=True, eq=False)
class EdgeColumns:
    """The edges of a graph as its input listed them, and what they carry.

    Unlike in the adjacency matrix, an edge that is listed twice is here twice.

    Parameters
    ----------
    source, target
        Node indices of the two ends of each edge, [m] each; the two differ.
    values
        What the edges carry, [m, k]; finite numbers. k may be 0: then they are only
        counted.
    names
        Names of the k columns, each once. A category is called `column=value`.
    directed
        Whether it matters which end is which.
    categories
        Which of the names are categories, columns of 0 and 1; by default those with
        a `=`.

    Examples
    --------
    >>> paid = EdgeColumns([0, 0], [1, 1], [[20, 1], [5, 0]], ("amount", "kind=wire"))
    >>> paid.categories, paid.numeric
    (('kind=wire',), ('amount',))
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    values: NDArray[np.float32]
    names: tuple[str, ...]
    directed: bool = True
    categories: tuple[str, ...] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for end in ("source", "target"):
            settle(end, _ends(end, getattr(self, end)))
        if len(self.source) != len(self.target):
            raise InputError(
                "EdgeColumns: 'source' and 'target' must have the same length. Got "
                f"{len(self.source)} and {len(self.target)} instead."
            )
        loops = np.flatnonzero(self.source == self.target)
        if loops.size:
            raise InputError(
                f"EdgeColumns: an edge must join two nodes. Row {loops[0]} joins node "
                f"{self.source[loops[0]]} to itself."
            )
        settle("names", tuple(map(str, self.names)))
        twice = [n for i, n in enumerate(self.names) if n in self.names[:i]]
        if twice:
            raise InputError(f"EdgeColumns: two columns are called {twice[0]!r}.")
        settle("values", self._checked(self.values))
        found = self.categories
        if found is None:
            found = tuple(name for name in self.names if "=" in name)
        settle("categories", tuple(map(str, found)))
        self._check_categories()

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns that are no categories."""
        return tuple(name for name in self.names if name not in self.categories)

    def _checked(self, values: Any) -> NDArray[np.float32]:
        """Return finite numbers, or raise, [m, k]."""
        try:
            numbers = np.array(values, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"EdgeColumns: 'values' must hold numbers ({error})."
            ) from None
        shape = (len(self.source), len(self.names))
        if numbers.shape != shape:
            raise InputError(
                f"EdgeColumns: 'values' must have a row for each of {shape[0]} edges "
                f"and a column for each of {shape[1]} names. Got shape {numbers.shape}."
            )
        found = first_not_finite(numbers)
        if found is not None:
            row, column = found
            raise InputError(
                f"EdgeColumns: 'values' must be finite. Got {numbers[row, column]} in "
                f"row {row}, column {self.names[column]!r}."
            )
        return numbers

    def _check_categories(self) -> None:
        for name in self.categories:
            if name not in self.names:
                raise InputError(
                    f"EdgeColumns: 'categories' names {name!r}, which is no column."
                )
            column = self.values[:, self.names.index(name)]
            other = column[(column != 0) & (column != 1)]
            if other.size:
                raise InputError(
                    f"EdgeColumns: column {name!r} is a category and must hold 0 and 1 "
                    f"only. Got {other[0]:g}; 'categories' says which columns are."
                )


def _ends(name: str, given: Any) -> NDArray[np.int64]:
    """Return node indices, or raise, [m]."""
    index = np.asarray(given)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise InputError(
            f"EdgeColumns: '{name}' must be node indices, 1-D. Got shape {index.shape} "
            f"and dtype {index.dtype} instead."
        )
    if index.size and index.min() < 0:
        raise InputError(f"EdgeColumns: '{name}' holds a negative node index.")
    return index.astype(np.int64)
