"""What edges carry (amounts, kinds, how many), and what nodes have of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph.checks import CSR, check_times, first_not_finite

__all__ = [
    "STRUCTURAL",
    "EdgeColumns",
    "edge_aggregates",
    "pair_weights",
    "structural_features",
    "structural_rows",
    "unchecked_edges",
]

STRUCTURAL = ("log1p_degree", "log1p_neighbour_degree", "one")
"""The features of a graph that brings none."""


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
    times
        When each edge came up, [m]: dates (datetime64) or numbers, NaT or NaN where it
        was always there; None where nothing is known of it. No model sees them.

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
    times: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for end in ("source", "target"):
            settle(end, _ends(end, getattr(self, end)))
        if len(self.source) != len(self.target):
            raise InputError(
                f"must have as many entries as source, {len(self.source)}",
                param="target",
                value=len(self.target),
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
        if self.times is not None:
            settle("times", check_times(self.times, len(self.source)))

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns that are no categories."""
        categories = set(self.categories)
        return tuple(name for name in self.names if name not in categories)

    def joined(self, other: EdgeColumns) -> EdgeColumns:
        """Return the edges and those of another with the same columns, in order."""
        parts = {}
        for part in fields(EdgeColumns):
            own = getattr(self, part.name)
            if isinstance(own, np.ndarray):
                own = np.concatenate([own, getattr(other, part.name)])
            parts[part.name] = own
        return unchecked_edges(**parts)

    def _checked(self, values: Any) -> NDArray[np.float32]:
        """Return finite numbers, or raise, [m, k]."""
        try:
            with np.errstate(over="ignore"):  # what overflows is refused below
                numbers = np.array(values, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"must hold numbers ({error})", param="values") from None
        shape = (len(self.source), len(self.names))
        if numbers.shape != shape:
            raise InputError(
                f"must have a row for each of {shape[0]} edges and a column for each "
                f"of {shape[1]} names, got shape {numbers.shape}",
                param="values",
            )
        found = first_not_finite(numbers)
        if found is not None:
            row, column = found
            raise InputError(
                f"must be finite, got {numbers[row, column]} in row {row}, column "
                f"{self.names[column]!r}",
                param="values",
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
                    f"EdgeColumns: column {name!r} is a category and must hold 0 "
                    f"and 1 only, got {other[0]:g}; 'categories' says which columns "
                    "are"
                )


def unchecked_edges(**parts: Any) -> EdgeColumns:
    """Return what edges carry, of parts that are known to be sound; all are given."""
    made = object.__new__(EdgeColumns)
    for part in fields(EdgeColumns):
        object.__setattr__(made, part.name, parts[part.name])
    return made


def _ends(name: str, given: Any) -> NDArray[np.int64]:
    """Return node indices, or raise, [m]."""
    index = np.asarray(given)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise InputError(
            f"must be node indices, 1-D, got shape {index.shape} and dtype "
            f"{index.dtype}",
            param=name,
        )
    if index.size and index.min() < 0:
        raise InputError(f"EdgeColumns: '{name}' holds a negative node index.")
    return index.astype(np.int64)


LEAST = 1e-6
"""What an edge of weight zero weighs, beside the mean: it is an edge all the same."""


def pair_weights(
    matrix: CSR, edge_columns: EdgeColumns, name: str, *, both: bool
) -> CSR:
    """Return an adjacency matrix whose entries are what the pairs weigh.

    The weights of all edges of a pair are added up, and all are divided by their
    mean: an average pair counts as one of a graph without weights does, and the unit
    of the column does not matter.

    Parameters
    ----------
    matrix
        Which pairs there are, [n, n].
    edge_columns
        The edges and their columns.
    name
        A numeric column, not negative.
    both
        Whether an edge counts for the pair in both orders.

    Returns
    -------
    CSR
        With the pattern of `matrix`, float32, each entry above zero; a pair that no
        row of `edge_columns` has counts as an average one.

    Examples
    --------
    >>> import numpy as np
    >>> path = CSR(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    >>> paid = EdgeColumns([0, 0, 1], [1, 1, 2], [[20], [10], [10]], ("amount",))
    >>> pair_weights(path, paid, "amount", both=True).toarray()[1].tolist()
    [1.5, 0.0, 0.5]
    """
    matrix.sort_indices()
    n = np.int64(matrix.shape[0])
    rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
    pairs = rows * n + matrix.indices
    source, target = edge_columns.source, edge_columns.target
    values = edge_columns.values[:, edge_columns.names.index(name)].astype(np.float64)
    ends = [(source, target), (target, source)] if both else [(source, target)]
    total, listed = np.zeros(len(pairs)), np.zeros(len(pairs), dtype=bool)
    for one, other in ends:
        wanted = one * n + other
        at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
        there = pairs[at] == wanted if len(pairs) else np.zeros(len(wanted), dtype=bool)
        total += np.bincount(at[there], values[there], minlength=len(pairs))
        listed[at[there]] = True
    mean = total[listed].mean() if listed.any() else 0.0
    weights = np.where(listed, total / mean if mean > 0 else 1.0, 1.0)
    weights = np.maximum(weights, LEAST).astype(np.float32)
    return CSR((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


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


def structural_features(
    adj: CSR,
) -> tuple[NDArray[np.float32], tuple[str, ...], str]:
    """Return features made of the graph alone, for graphs that bring none.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n].

    Returns
    -------
    x
        [n, 3]: log(1 + degree), log(1 + mean degree of the neighbours), and 1.
    feature_names
        The names of the three columns.
    note
        A sentence for the record of the reader.
    """
    x = structural_rows(adj, np.arange(adj.shape[0]))
    note = (
        "the input has no node features; log1p of the degree, log1p of the mean "
        "degree of the neighbours and a constant are used in their place"
    )
    return x, STRUCTURAL, note


def structural_rows(adj: CSR, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the rows of `structural_features` of some nodes, [m, 3]."""
    degree = np.diff(adj.indptr).astype(np.float64)
    own = degree[nodes]
    rows = adj if len(nodes) == len(degree) else adj[nodes]
    neighbours = (rows @ degree) / np.maximum(own, 1)
    x = np.column_stack([np.log1p(own), np.log1p(neighbours), np.ones_like(own)])
    return x.astype(np.float32)
