"""The counts of labels at edges that all measures of homophily are made of."""

import warnings
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError, UndefinedMeasureWarning
from h2gcn.graph import CSR, Graph

__all__ = ["NO_EDGE", "edge_ends", "neighbour_counts", "undefined"]

NO_EDGE = "no edge joins two labelled nodes"
_BLOCK = 1 << 20
MAX_CLASSES = 5000
"""A table of classes by classes larger than that is a mistake in the input."""


def edge_ends(matrix: CSR, graph: Graph) -> NDArray[np.int64]:
    """Count stored entries by the classes of their row and column, [C, C].

    Entry (i, j) is e(i, j), the edge ends at class i whose other end is of class j:
    an edge is stored twice, and counts once from either side. Entries at unlabelled
    nodes do not count. `matrix` is the adjacency or a ring of the graph, [n, n].

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph = Graph(x=np.eye(3), adj=path, y=[0, 0, 1])
    >>> edge_ends(graph.adj, graph)
    array([[2, 1],
           [1, 0]])
    """
    # The unlabelled get a row and a column of their own, cut off at the end: cheaper
    # than selecting entries. Blocks of rows keep the memory flat where a ring is large.
    if graph.n_classes > MAX_CLASSES:
        raise InputError(
            f"{graph.name} has {graph.n_classes:,} classes, and at most "
            f"{MAX_CLASSES:,} can be compared; is that column really the label?"
        )
    width = graph.n_classes + 1
    labels = graph.y + 1
    indptr, size = matrix.indptr, width * width
    counts = np.zeros(size, dtype=np.int64)
    starts = np.searchsorted(indptr, np.arange(_BLOCK, matrix.nnz, _BLOCK))
    bounds = np.unique([0, *starts, graph.n_nodes])
    for first, last in pairwise(bounds.tolist()):
        lengths = np.diff(indptr[first : last + 1])
        pairs = np.repeat(labels[first:last] * width, lengths)
        pairs += labels[matrix.indices[indptr[first] : indptr[last]]]
        counts += np.bincount(pairs, minlength=size)
    return counts.reshape(width, width)[1:, 1:]


def neighbour_counts(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count each node's equal-label and labelled neighbours, [n] each.

    Both are 0 for an unlabelled node.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> neighbour_counts(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    (array([1, 1, 0]), array([1, 2, 1]))
    """
    others = graph.y[graph.adj.indices]
    same = others == np.repeat(graph.y, graph.degrees)
    counts = []
    for flags in (same, others >= 0):
        # Differences of running sums: unlike reduceat, right for empty rows.
        sums = np.concatenate([[0], np.cumsum(flags)])[graph.adj.indptr]
        counts.append(np.where(graph.y >= 0, np.diff(sums), 0))
    return counts[0], counts[1]


def undefined(measure: str, graph: Graph, reason: str, *, level: int = 3) -> float:
    """Warn whoever called the measure that it has no value; return NaN.

    `level` counts the calls from here to the measure's caller.

    Examples
    --------
    >>> empty = Graph(x=np.eye(2), adj=np.zeros((2, 2)))
    >>> with warnings.catch_warnings(action="ignore"):
    ...     undefined("edge homophily", empty, NO_EDGE)
    nan
    """
    message = f"The {measure} of {graph.name!r} is undefined (NaN): {reason}."
    warnings.warn(message, UndefinedMeasureWarning, stacklevel=level)
    return float("nan")
