"""Features that are the label in other words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import Features, Graph, row_slices

__all__ = ["label_features"]

FEW = 100
"""So many nodes of a class are looked at first: they rule out nearly all features."""
BY_CHANCE = 10
"""With fewer nodes beside the largest group a feature may follow by chance."""


def label_features(graph: Graph) -> NDArray[np.int64]:
    """Return the columns whose value follows from the label alone, [m].

    Each is constant in every class, and not the same in all: a copy of the label, a
    code for it, or a flag for some of its classes.

    Examples
    --------
    >>> y = np.repeat([0, 1], 20)
    >>> x = np.column_stack([np.arange(40), 7 - y, np.ones(40)])
    >>> label_features(Graph(x=x, adj=np.zeros((40, 40)), y=y))
    array([1])
    """
    labels = np.unique(graph.y[graph.labelled])
    if labels.size < 2:
        return np.zeros(0, dtype=np.int64)
    columns = np.arange(graph.n_features)
    values = np.zeros((0, graph.n_features), dtype=np.float32)
    sizes = []
    for label in labels:
        nodes = np.flatnonzero(graph.y == label)
        for some in (nodes[:FEW], nodes):
            same = _constant(graph.x, some, columns)
            columns, values = columns[same], values[:, same]
        values = np.vstack([values, _dense(graph.x, nodes[:1], columns)])
        sizes.append(nodes.size - 1)  # a single one is constant whatever it is
        if not columns.size:
            break
    return columns[[_apart(value, np.array(sizes)) >= BY_CHANCE for value in values.T]]


def _constant(
    x: Features, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which columns have one value in these rows."""
    if isinstance(x, np.ndarray):
        first, same = x[rows[0], columns], np.ones(columns.size, dtype=bool)
        for some in row_slices((rows.size, x.shape[1])):
            same &= (x[np.ix_(rows[some], columns)] == first).all(axis=0)
        return same
    part = x[rows][:, columns]
    low, high = part.min(axis=0).toarray(), part.max(axis=0).toarray()
    return np.asarray(low == high).reshape(-1)


def _dense(
    x: Features, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float32]:
    if isinstance(x, np.ndarray):
        return x[np.ix_(rows, columns)]
    return np.asarray(x[rows][:, columns].toarray())


def _apart(value: NDArray[np.float32], sizes: NDArray[np.int64]) -> int:
    """Return how many nodes do not have the most frequent value."""
    _, kind = np.unique(value, return_inverse=True)
    counts = np.bincount(kind, weights=sizes)
    return int(counts.sum() - counts.max(initial=0))
