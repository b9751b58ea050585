"""The counts of labels at edges that all measures of homophily are made of."""

import warnings
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError, UndefinedMeasureWarning
from h2gcn.graph import CSR, Graph

__all__ = [
    "NO_EDGE",
    "edge_ends",
    "informativeness_by_chance",
    "informativeness_of",
    "neighbour_counts",
    "undefined",
]

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


def informativeness_of(ends: NDArray[np.int64]) -> float:
    """Return how much the class of one end tells of the other's, in [0, 1].

    LI = Σ p(i, j) log(p(i, j) / (p_i q_j)) / −Σ p_i log p_i, which is
    (H(i) + H(j) − H(i, j)) / H(i), with p(i, j) = e(i, j)/Σ e, p_i = Σ_j p(i, j) the
    share of the node's own class and q_j = Σ_i p(i, j) that of the other end's. Where e
    is symmetric it is LI_edge of Platonov et al. (2023). NaN where the nodes are of
    less than two classes.

    Parameters
    ----------
    ends
        e(i, j): pairs of a node of class i and another of class j, [C, C].

    Examples
    --------
    >>> informativeness_of(np.array([[0, 3], [5, 0]]))
    1.0
    """
    own, other = ends.sum(axis=1), ends.sum(axis=0)
    if np.count_nonzero(own) < 2:
        return float("nan")
    shared = _entropy(own) + _entropy(other) - _entropy(ends)
    # Rounding may leave the interval by an ulp.
    return float(np.clip(shared / _entropy(own), 0, 1))


def informativeness_by_chance(ends: NDArray[np.int64], *, directed: bool) -> float:
    """Return about what `informativeness_of` is on average where classes are drawn.

    Counting alone makes every table tell something: 2 N I is χ²-distributed for N
    independent pairs, with (R − 1)(S − 1) degrees of freedom for R classes at one end
    and S at the other, and with R(R − 1)/2 where each pair is counted from both sides.
    So its mean is (R − 1)(S − 1)/2N, or R(R − 1)/4N, over H(i); at most 1. Pairs of a
    ring share nodes, hence it is rather too small.

    Parameters
    ----------
    ends
        As of `informativeness_of`.
    directed
        Whether each pair is counted once, rather than from both sides.

    Examples
    --------
    >>> ends = np.array([[50, 50], [50, 50]])
    >>> round(informativeness_by_chance(ends, directed=True), 5)
    0.00361
    """
    own, other = ends.sum(axis=1), ends.sum(axis=0)
    rows, columns = np.count_nonzero(own), np.count_nonzero(other)
    if rows < 2:
        return float("nan")
    total = int(ends.sum())
    if directed:
        mean = (rows - 1) * (columns - 1) / (2 * total)
    else:
        mean = rows * (rows - 1) / (2 * total)  # 4N, and N pairs are 2N ends
    return float(min(mean / _entropy(own), 1.0))


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


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
