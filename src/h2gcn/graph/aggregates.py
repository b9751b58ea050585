"""What edges carry, summed up for the nodes that they join."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph.edges import EdgeColumns

__all__ = ["edge_aggregates"]

Column = NDArray[np.float64]


def edge_aggregates(
    edge_columns: EdgeColumns, n_nodes: int
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

    Returns
    -------
    names
        The K names of the columns, such as "mean of amount over outgoing edges".
    values
        [n, K]; zeros for a node without such edges.

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
    names, columns = [], []
    for side, nodes, rows in sides:
        for name, column in _of_side(edge_columns, side, nodes, rows, n_nodes):
            names.append(name)
            columns.append(column.astype(np.float32))
    return tuple(names), np.stack(columns, axis=1)


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
    for place, name in enumerate(edge_columns.names):
        column = edge_columns.values[:, place].astype(np.float64)[rows]
        total = np.bincount(nodes, weights=column, minlength=n_nodes)
        mean = total / np.maximum(number, 1)
        if name in edge_columns.categories:
            yield f"share of {name} among {side}", mean
            continue
        size = np.copysign(np.log1p(np.abs(total)), total)
        yield f"sum of {name} over {side} (signed log)", size
        yield f"mean of {name} over {side}", mean
        yield f"max of {name} over {side}", over(np.maximum.reduceat, column)
        yield f"min of {name} over {side}", over(np.minimum.reduceat, column)
