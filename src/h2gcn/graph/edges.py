"""What edges carry (amounts, kinds, how many), and sums of it for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph.checks import first_not_finite

__all__ = ["EdgeColumns", "edge_aggregates"]


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
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise InputError(f"EdgeColumns: two columns are called {name!r}.")
            seen.add(name)
        settle("values", self._checked(self.values))
        found = self.categories
        if found is None:
            found = tuple(name for name in self.names if "=" in name)
        settle("categories", tuple(map(str, found)))
        self._check_categories()

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns that are no categories."""
        categories = set(self.categories)
        return tuple(name for name in self.names if name not in categories)

    def joined(self, other: EdgeColumns) -> EdgeColumns:
        """Return the edges and those of another with the same columns, in order."""
        made = object.__new__(EdgeColumns)
        for part in fields(EdgeColumns):
            own = getattr(self, part.name)
            if isinstance(own, np.ndarray):
                own = np.concatenate([own, getattr(other, part.name)])
            object.__setattr__(made, part.name, own)
        return made

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
        place = {name: number for number, name in enumerate(self.names)}
        for name in self.categories:
            if name not in place:
                raise InputError(
                    f"EdgeColumns: 'categories' names {name!r}, which is no column."
                )
            column = self.values[:, place[name]]
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


Column = NDArray[np.float64]


def edge_aggregates(
    edge_columns: EdgeColumns, n_nodes: int, nodes: NDArray[np.int64] | None = None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return for each node what its edges carry, outgoing and incoming ones apart.

    Of each side: log(1 + number of edges); of each numeric column the sum s as
    sign(s) · log(1 + |s|), the mean, the largest and the smallest; of each category
    the share of the edges that are of it. Where edges have no direction, there is one
    side, of all edges of a node. A pair that is joined twice has two edges.

    Parameters
    ----------
    edge_columns
        The edges and their columns, [m, k].
    n_nodes
        Number of nodes, n.
    nodes
        Some nodes, each once, ascending; None is all. No others are looked at.

    Returns
    -------
    names
        The K names of the columns, such as "mean of amount over outgoing edges".
    values
        [n, K], or a row for each of `nodes`; zeros for a node without such edges.

    Examples
    --------
    >>> paid = EdgeColumns([0, 0], [1, 2], [[20], [4]], ("amount",))
    >>> names, values = edge_aggregates(paid, 3)
    >>> names[2], values[:, 2].tolist()
    ('mean of amount over outgoing edges', [12.0, 0.0, 0.0])
    """
    source, target = edge_columns.source, edge_columns.target
    highest = max(source.max(initial=-1), target.max(initial=-1))
    if highest >= n_nodes:
        raise InputError(
            f"edge_aggregates: an edge names node {highest}, but there are {n_nodes} "
            "nodes."
        )
    if edge_columns.directed:
        rows = np.arange(len(source))
        sides = [("outgoing edges", source, rows), ("incoming edges", target, rows)]
    else:
        rows = np.tile(np.arange(len(source)), 2)
        sides = [("edges", np.concatenate([source, target]), rows)]
    count = n_nodes
    if nodes is not None:
        place = np.full(n_nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        sides = [_among(place, *one) for one in sides]
        count = len(nodes)
    names, columns = [], []
    for side, ends, rows in sides:
        for name, column in _of_side(edge_columns, side, ends, rows, count):
            names.append(name)
            columns.append(column.astype(np.float32))
    return tuple(names), np.stack(columns, axis=1)


def _among(
    place: NDArray[np.int64],
    side: str,
    nodes: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    """Return a side with the ends at some nodes alone, by their places, [n]."""
    ends = place[nodes]
    kept = ends >= 0
    return side, ends[kept], rows[kept]


def _of_side(
    edge_columns: EdgeColumns,
    side: str,
    nodes: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_nodes: int,
) -> Iterator[tuple[str, Column]]:
    """Yield name and values, [n], of each column of one side.

    Parameters
    ----------
    edge_columns
        The edges and their columns.
    side
        How names call these edges.
    nodes, rows
        For each end of an edge on this side, its node and the row of the edge.
    n_nodes
        Number of nodes, n.
    """
    number = np.bincount(nodes, minlength=n_nodes)
    has = np.flatnonzero(number)
    order = np.argsort(nodes, kind="stable")
    starts = (np.cumsum(number) - number)[has]

    def over(reduce: Callable[..., Column], column: Column) -> Column:
        result = np.zeros(n_nodes)
        if has.size:
            result[has] = reduce(column[order], starts)
        return result

    yield f"number of {side} (log)", np.log1p(number)
    categories = set(edge_columns.categories)
    for place, name in enumerate(edge_columns.names):
        column = edge_columns.values[:, place].astype(np.float64)[rows]
        total = np.bincount(nodes, weights=column, minlength=n_nodes)
        mean = total / np.maximum(number, 1)
        if name in categories:
            yield f"share of {name} among {side}", mean
            continue
        size = np.copysign(np.log1p(np.abs(total)), total)
        yield f"sum of {name} over {side} (signed log)", size
        yield f"mean of {name} over {side}", mean
        yield f"max of {name} over {side}", over(np.maximum.reduceat, column)
        yield f"min of {name} over {side}", over(np.minimum.reduceat, column)
