"""How alike neighbours are, near and far: one pure function for each measure.

Only edges between two labelled nodes count (y ≥ 0), but for `feature_smoothness`,
which looks at no label. Where a measure has no value it is NaN, and an
`UndefinedMeasureWarning` says which measure and why.

In the formulas, e(i, j) is the number of edge ends at a node of class i whose other
end is of class j: an edge counts once from either side. e(i) is the sum over j.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import (
    as_array,
    check_bool,
    check_choice,
    check_integer,
    check_list,
    check_real,
    check_type,
)
from h2gcn.exceptions import InputError, UndefinedMeasureWarning
from h2gcn.graph import CSR, Graph, check_is_graph, fingerprint
from h2gcn.homophily import measures
from h2gcn.rings import RingForecast

__all__ = [
    "DIRECTION_PATHS",
    "NO_EDGE",
    "DegreeRange",
    "DirectionShare",
    "RingShare",
    "adjusted_homophily",
    "class_homophily",
    "class_insensitive_homophily",
    "compatibility_matrix",
    "degree_homophily",
    "direction_shares",
    "edge_ends",
    "edge_homophily",
    "feature_smoothness",
    "graph_card",
    "homophily_with_loops",
    "informativeness_by_chance",
    "informativeness_of",
    "label_informativeness",
    "label_smoothness",
    "neighbour_counts",
    "node_homophily",
    "ring_ends",
    "ring_homophily",
    "ring_shares",
    "undefined",
    "walk_ends",
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
    check_is_graph(graph)
    check_type("matrix", matrix, CSR, "a csr_array of scipy's")
    if matrix.shape != graph.adj.shape:
        raise InputError(
            f"must be {graph.adj.shape}, as the graph's own",
            param="matrix",
            value=matrix.shape,
        )
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
    ends = _check_ends(ends)
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
    ends = _check_ends(ends)
    check_bool("directed", directed)
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


def _check_ends(ends: object) -> NDArray[Any]:
    """Return a table of counts, or raise, [C, C]."""
    found = as_array("ends", ends)
    square = found.ndim == 2 and found.shape[0] == found.shape[1]
    if not square or found.dtype.kind not in "iuf" or not (found >= 0).all():
        raise InputError(
            f"must be [C, C] counts, none negative, got shape {found.shape} and dtype "
            f"{found.dtype}",
            param="ends",
        )
    return found


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


_ONE_CLASS = "all edges between labelled nodes lie in a single class"


def edge_homophily(graph: Graph) -> float:
    """Return the share of edges that join equal labels, Σ_k e(k, k) / Σ_k e(k).

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> edge_homophily(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    0.5
    """
    check_is_graph(graph)
    ends = edge_ends(graph.adj, graph)
    if not ends.any():
        return undefined("edge homophily", graph, NO_EDGE)
    return float(ends.trace() / ends.sum())


def homophily_with_loops(graph: Graph) -> float:
    """Return edge homophily with self-loops counted as edges, as in Zhu et al. (2020).

    (same-label edges + loops) / (edges + loops), where the loops are those that the
    reader dropped, `graph.record.loops_dropped`, all taken to be at labelled nodes.

    Examples
    --------
    >>> from h2gcn.graph import ReadRecord
    >>> path, record = np.eye(3)[::-1] * [1, 0, 1], ReadRecord(loops_dropped=1)
    >>> homophily_with_loops(Graph(x=path, adj=path, y=[0, 0, 1], record=record))
    0.5
    """
    check_is_graph(graph)
    ends = edge_ends(graph.adj, graph)
    loops = graph.record.loops_dropped if graph.labelled.size else 0
    edges = int(ends.sum()) // 2 + loops
    if not edges:
        return undefined("homophily with loops", graph, NO_EDGE)
    return float((ends.trace() / 2 + loops) / edges)


def node_homophily(graph: Graph) -> float:
    """Return the mean share of equal labels among a node's neighbours.

    The mean is over the labelled nodes that have a labelled neighbour (Pei et al.
    2020); others have no share, where PyG counts them as 0.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> node_homophily(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))  # 1, 1/2 and 0
    0.5
    """
    check_is_graph(graph)
    same, degree = neighbour_counts(graph)
    has = degree > 0
    if not has.any():
        return undefined("node homophily", graph, NO_EDGE)
    return float((same[has] / degree[has]).mean())


def class_insensitive_homophily(graph: Graph) -> float:
    """Return the excess of class homophily over class size (Lim et al. 2021).

    1/(C − 1) Σ_k max(0, h_k − n_k/n), with h_k = e(k, k)/e(k) (0 without edges), n_k
    the labelled nodes of class k, n all of them, and C the classes that have a node.

    Examples
    --------
    >>> pairs = np.kron(np.eye(2), [[0, 1], [1, 0]])
    >>> class_insensitive_homophily(Graph(x=pairs, adj=pairs, y=[0, 0, 1, 1]))
    1.0
    """
    check_is_graph(graph)
    measure = "class-insensitive homophily"
    ends = edge_ends(graph.adj, graph)
    if not ends.any():
        return undefined(measure, graph, NO_EDGE)
    sizes = np.bincount(graph.y[graph.labelled], minlength=graph.n_classes)
    n_classes = np.count_nonzero(sizes)
    if n_classes < 2:
        return undefined(measure, graph, "all labelled nodes are of a single class")
    # A class without edges has e(k, k) = 0: dividing by 1 gives its h_k of 0.
    shares = ends.diagonal() / np.maximum(ends.sum(axis=1), 1)
    excess = np.maximum(shares - sizes / sizes.sum(), 0)
    return float(excess.sum() / (n_classes - 1))


def adjusted_homophily(graph: Graph) -> float:
    """Return edge homophily corrected for chance (Platonov et al. 2023); at most 1.

    (h − Σ_k p_k²) / (1 − Σ_k p_k²), where h is the edge homophily and
    p_k = e(k)/Σ_j e(j) the degree mass of class k.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> adjusted_homophily(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    -1.0
    """
    check_is_graph(graph)
    ends = edge_ends(graph.adj, graph)
    if reason := _no_mixing(ends):
        return undefined("adjusted homophily", graph, reason)
    chance = float(((ends.sum(axis=1) / ends.sum()) ** 2).sum())
    return float((ends.trace() / ends.sum() - chance) / (1 - chance))


def label_informativeness(graph: Graph) -> float:
    """Return how much a neighbour's label tells of a node's, in [0, 1].

    LI = Σ p(i, j) log(p(i, j) / (p_i p_j)) / −Σ p_i log p_i = 2 − H(i, j)/H(i), with
    p(i, j) = e(i, j)/Σ e and p_i = Σ_j p(i, j) (LI_edge of Platonov et al. 2023).

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> label_informativeness(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    1.0
    """
    check_is_graph(graph)
    ends = edge_ends(graph.adj, graph)
    if reason := _no_mixing(ends):
        return undefined("label informativeness", graph, reason)
    return informativeness_of(ends)


def label_smoothness(graph: Graph) -> float:
    """Return the share of edges that join different labels, λ_l of Hou et al. (2020).

    λ_l = Σ_{i≠j} e(i, j) / Σ e, which is 1 − edge homophily; the authors' program
    prints twice that. What they call smooth is a small value.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> label_smoothness(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    0.5
    """
    check_is_graph(graph)
    ends = edge_ends(graph.adj, graph)
    if not ends.any():
        return undefined("label smoothness", graph, NO_EDGE)
    return float((ends.sum() - ends.trace()) / ends.sum())


def feature_smoothness(graph: Graph) -> float:
    """Return how far apart the features of neighbours are, λ_f of Hou et al. (2020).

    λ_f = Σ_v Σ_{v' ∈ N_v} ‖x_v − x_v'‖² / (|E| d) in [0, 2], with each of the d columns
    of x brought to [0, 1] by its least and its largest value: twice the mean square of
    the difference of two neighbours in a column. A column of one value differs nowhere,
    and counts in d. All edges count, whatever the labels. It is 0 where neighbours have
    equal features and have nothing to tell each other; what the authors call smooth is
    a small value.

    Each difference is squared, as by the authors' program; their formula squares the
    sum of a node's differences.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> feature_smoothness(Graph(x=[[3.0, 7], [3, 7], [5, 7]], adj=path))
    0.5
    """
    check_is_graph(graph)
    if not graph.n_edges:
        return undefined("feature smoothness", graph, "there is no edge")
    x, total = graph.x, 0.0
    if isinstance(x, np.ndarray):
        low, high = (np.asarray(end, np.float64) for end in (x.min(0), x.max(0)))
        width = graph.n_features
    else:
        # Zeros that are not stored are values too.
        ends = (x.min(axis=0), x.max(axis=0))
        low, high = (end.toarray().ravel().astype(np.float64) for end in ends)
        width = 2 * (1 + x.nnz // graph.n_nodes)
    spread = high - low
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    if not isinstance(x, np.ndarray):
        # Differences do not change where all values are moved alike.
        data = x.data * scale[x.indices]
        x = CSR((data, x.indices, x.indptr), shape=x.shape)
    for u, v in _edge_blocks(graph.adj, max(1, _BLOCK // width)):
        if isinstance(x, np.ndarray):
            apart = (x[u].astype(np.float64) - x[v]) * scale
            total += float(np.vdot(apart, apart))
        else:
            total += float(((x[u] - x[v]).data ** 2).sum())
    return 2 * total / (graph.n_edges * graph.n_features)


def _edge_blocks(adj: CSR, size: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the ends u < v of all edges, at most `size` at a time."""
    indptr = adj.indptr.astype(np.int64)
    for start in range(0, adj.nnz, size):
        stop = min(start + size, adj.nnz)
        first = int(np.searchsorted(indptr, start, side="right")) - 1
        last = int(np.searchsorted(indptr, stop, side="left"))
        lengths = np.diff(indptr[first : last + 1].clip(start, stop))
        u = np.repeat(np.arange(first, last), lengths)
        v = adj.indices[start:stop]
        once = u < v
        yield u[once], v[once]


def _no_mixing(ends: NDArray[np.int64]) -> str:
    """Return why a measure that compares classes has no value, or ""."""
    classes = np.count_nonzero(ends.sum(axis=1))
    return "" if classes > 1 else _ONE_CLASS if classes else NO_EDGE


@dataclass(frozen=True)
class DegreeRange:
    """The mean node homophily of the nodes of degree `low` to `high`, both in."""

    low: int
    high: int
    nodes: int
    homophily: float


def compatibility_matrix(graph: Graph) -> NDArray[np.float64]:
    """Return the share of class i's edge ends that lead to class j, [C, C].

    H[i, j] = e(i, j) / e(i). The row of a class without edges is NaN.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> compatibility_matrix(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    array([[0.66666667, 0.33333333],
           [1.        , 0.        ]])
    """
    check_is_graph(graph)
    return _shares(graph, "compatibility matrix")


def class_homophily(graph: Graph) -> NDArray[np.float64]:
    """Return each class's share of edge ends that stay in it, e(k, k)/e(k), [C].

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> class_homophily(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    array([0.66666667, 0.        ])
    """
    check_is_graph(graph)
    return _shares(graph, "class homophily").diagonal().copy()


MAX_HOPS = 1000
"""The largest distance; nodes that are further apart are no one's neighbours."""


def ring_ends(graph: Graph, hop: int) -> tuple[int, NDArray[np.int64]]:
    """Return how many entries a ring has, and `edge_ends` of it, [C, C].

    Some of its rows at a time: it may be hundreds of times the graph.

    Parameters
    ----------
    graph
        The graph.
    hop
        The distance, at least 1.
    """
    from h2gcn.rings import iter_ring

    if hop == 1:
        return int(graph.adj.nnz), edge_ends(graph.adj, graph)
    n, entries = graph.n_nodes, 0
    ends = np.zeros((graph.n_classes, graph.n_classes), dtype=np.int64)
    for rows, block in iter_ring(graph.adj, hop):
        starts = np.full(n + 1, block.nnz, dtype=np.int64)
        starts[: rows.start] = 0
        starts[rows.start : rows.stop + 1] = block.indptr
        whole = CSR((block.data, block.indices, starts), shape=(n, n))
        ends += edge_ends(whole, graph)
        entries += int(block.nnz)
    return entries, ends


def ring_homophily(graph: Graph, hops: int = 2) -> list[float]:
    """Return the share of equal labels at distance exactly 1, …, `hops`, [hops].

    A ring holds the pairs of nodes whose shortest path has that many edges.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> ring_homophily(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    [0.0, 1.0]
    """
    check_is_graph(graph)
    hops = check_integer("hops", hops, 1, MAX_HOPS)
    shares = []
    for hop in range(1, hops + 1):
        _, ends = ring_ends(graph, hop)
        if ends.any():
            shares.append(float(ends.trace() / ends.sum()))
        else:
            reason = f"no two labelled nodes are at distance {hop}"
            shares.append(undefined("ring homophily", graph, reason))
    return shares


def degree_homophily(
    graph: Graph, edges: Sequence[int] | None = None
) -> list[DegreeRange]:
    """Return the mean node homophily in ranges of the degree.

    Parameters
    ----------
    graph
        The graph. As everywhere here, a degree is a number of labelled neighbours.
    edges
        Where the ranges begin and the last one ends, as in `numpy.histogram`: range
        i holds edges[i] ≤ degree < edges[i + 1]. By default 1, 2, 4, 8, … up to the
        highest degree. Ranges without nodes are left out.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> degree_homophily(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))[1]
    DegreeRange(low=2, high=3, nodes=1, homophily=0.5)
    """
    check_is_graph(graph)
    same, degree = neighbour_counts(graph)
    if edges is None:
        edges = [2**i for i in range(int(degree.max(initial=1)).bit_length() + 1)]
    given = check_list("edges", edges, "integers")
    bounds = [check_integer("edges", edge, 1) for edge in given]
    if sorted(set(bounds)) != bounds or len(bounds) < 2:
        raise InputError(
            "must be at least two increasing integers", param="edges", value=bounds
        )
    ranges = []
    for low, high in pairwise(bounds):
        inside = (low <= degree) & (degree < high)
        if nodes := np.count_nonzero(inside):
            mean = float((same[inside] / degree[inside]).mean())
            ranges.append(DegreeRange(low, high - 1, int(nodes), mean))
    return ranges


def _shares(graph: Graph, measure: str) -> NDArray[np.float64]:
    """Return e(i, j)/e(i), [C, C], with a row of NaN where a class has no edge."""
    ends = edge_ends(graph.adj, graph)
    totals = ends.sum(axis=1)
    has = totals > 0
    if not has.all():
        names = ", ".join(map(str, graph.classes[~has]))
        reason = f"no edge to a labelled node at class {names}"
        undefined(measure, graph, reason, level=4)
    shares = np.full(ends.shape, np.nan)
    shares[has] = ends[has] / totals[has, None]
    return shares


def graph_card(graph: Graph) -> dict[str, object]:
    """Return what kind of graph this is, as plain types ready for JSON.

    Returns
    -------
    dict
        `name`; the counts `nodes`, `edges` (undirected), `directed_edges` (None
        without directions), `loops_dropped`, `duplicates_merged`, `features`,
        `classes`, `labelled`, `isolated`, `max_degree`, `mean_degree`; the measures
        `h` (edge homophily), `h_with_loops`, `adjusted_homophily` and
        `label_informativeness`, None where undefined; `splits` (how many),
        `split_sizes` (mean train, val and test size, or None); and `checksum`, the
        first 16 digits of the fingerprint.

    Examples
    --------
    >>> card = graph_card(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]))
    >>> card["edges"], card["h"], card["label_informativeness"], card["split_sizes"]
    (1, 0.0, 1.0, None)
    """
    check_is_graph(graph)
    degrees = graph.degrees
    return {
        "name": graph.name,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "directed_edges": None if graph.directed is None else int(graph.directed.nnz),
        "loops_dropped": int(graph.record.loops_dropped),
        "duplicates_merged": int(graph.record.duplicates_merged),
        "features": graph.n_features,
        "classes": graph.n_classes,
        "labelled": int(graph.labelled.size),
        "isolated": int(np.count_nonzero(degrees == 0)),
        "max_degree": int(degrees.max(initial=0)),
        "mean_degree": float(degrees.mean()) if degrees.size else 0.0,
        "h": _value(measures.edge_homophily, graph),
        "h_with_loops": _value(measures.homophily_with_loops, graph),
        "adjusted_homophily": _value(measures.adjusted_homophily, graph),
        "label_informativeness": _value(measures.label_informativeness, graph),
        "splits": len(graph.splits),
        "split_sizes": _mean_sizes(graph),
        "checksum": fingerprint(graph)[:16],
    }


def _value(measure: Callable[[Graph], float], graph: Graph) -> float | None:
    with warnings.catch_warnings():
        # None in the card says the same.
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        value = measure(graph)
    return None if math.isnan(value) else value


def _mean_sizes(graph: Graph) -> list[int] | None:
    if not graph.splits:
        return None
    means = np.mean([split.sizes for split in graph.splits], axis=0)
    return [round(mean) for mean in means.tolist()]


# ------------------------------------------------------------------------- ring by ring


@dataclass(frozen=True)
class RingShare:
    """The share of equal labels among the pairs at distance exactly `hop`.

    Parameters
    ----------
    hop
        The distance.
    entries
        Stored entries of the ring, two for each pair; a forecast where the ring was
        not built (`exact` is then False, unless all its rows were counted).
    exact
        Whether `entries` is exact.
    homophily
        The share of equal labels among labelled pairs; None where not known.
    chance
        The share that chance would give: Σ_k p_k², where p_k is the share of the
        ring's ends that are at class k.
    adjusted
        (homophily − chance) / (1 − chance): 0 is chance, 1 is all alike.
    note
        Why something is None, or "".
    labelled
        Pairs of which both have a label; None where the ring was not built.
    informativeness
        How much the label of one of a pair tells of the other's (`informativeness_of`):
        0 nothing, 1 all.
    informativeness_chance
        About what counting so few pairs gives where labels tell nothing.
    """

    hop: int
    entries: int
    exact: bool
    homophily: float | None = None
    chance: float | None = None
    adjusted: float | None = None
    note: str = ""
    labelled: int | None = None
    informativeness: float | None = None
    informativeness_chance: float | None = None


def ring_shares(
    graph: Graph, forecast: RingForecast, max_entries: int
) -> list[RingShare]:
    """Return how alike the nodes at distance 1, 2, … are, [hops].

    Rings from the first one on that would be too large are not built.

    Parameters
    ----------
    graph
        The graph.
    forecast
        What `forecast_rings` says of it; one ring for each of its entries.
    max_entries
        The most entries that a ring beyond the first may have.

    Examples
    --------
    >>> from h2gcn.rings import forecast_rings
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph = Graph(x=np.eye(3), adj=path, y=[0, 1, 0])
    >>> [ring.homophily for ring in ring_shares(graph, forecast_rings(graph.adj), 9)]
    [0.0, 1.0]
    """
    check_is_graph(graph)
    check_type("forecast", forecast, RingForecast, "a RingForecast")
    check_real("max_entries", max_entries, "[0, inf]")
    reasons = _not_built(graph, forecast, max_entries)
    build = next((hop for hop, reason in enumerate(reasons) if reason), len(reasons))
    shares = [_ring_share(hop, *ring_ends(graph, hop)) for hop in range(1, build + 1)]
    for hop in range(build + 1, len(reasons) + 1):
        entries, exact = forecast.entries[hop - 1], forecast.exact or hop == 1
        note = reasons[hop - 1] or f"left out, as ring {build + 1} was"
        shares.append(RingShare(hop, entries, exact, note=note))
    return shares


def _not_built(graph: Graph, forecast: RingForecast, max_entries: int) -> list[str]:
    """Return for each ring why it is not built, or ""."""
    if not graph.labelled.size:
        return ["nothing is labelled"] * len(forecast.entries)
    about = "" if forecast.exact else "about "
    reasons = [
        f"left out, as it would hold {about}{entries:,} entries, more than the limit "
        f"of {max_entries:,}"
        if entries > max_entries
        else ""
        for entries in forecast.entries[1:]
    ]
    return ["", *reasons]


def _ring_share(hop: int, entries: int, ends: NDArray[np.int64]) -> RingShare:
    total = int(ends.sum())
    if not total:
        note = f"no two labelled nodes are at distance {hop}"
        return RingShare(hop, entries, True, note=note, labelled=0)
    alike = float(ends.trace() / total)
    chance = float(((ends.sum(axis=1) / total) ** 2).sum())
    if math.isclose(chance, 1):
        note = f"all labelled nodes at distance {hop} are of a single class"
        return RingShare(hop, entries, True, alike, chance, None, note, total // 2)
    adjusted = (alike - chance) / (1 - chance)
    return RingShare(
        hop,
        entries,
        True,
        alike,
        chance,
        adjusted,
        "",
        total // 2,
        informativeness_of(ends),
        informativeness_by_chance(ends, directed=False),
    )


DIRECTION_PATHS = ("out", "in", "out-out", "out-in", "in-out", "in-in")
"""Where edges lead to and come from; of two steps, "out-in" goes along an edge and
then against another: to the nodes that lead to the same one."""


@dataclass(frozen=True)
class DirectionShare:
    """How alike a node and those that a path leads to are, and what their labels tell.

    Parameters
    ----------
    path
        One of `DIRECTION_PATHS`.
    walks
        How many walks lead from a labelled node to another one: of two steps, two
        nodes count as often as walks join them.
    homophily
        The share of equal labels among them; None without any.
    chance
        The share that chance would give: Σ_k p_k q_k, where p_k is the share of walks
        that begin at class k, and q_k of those that end there.
    informativeness
        How much the label at the end tells of the one at the beginning
        (`informativeness_of`): 0 nothing, 1 all; None where it has no value.
    informativeness_chance
        About what counting so few walks gives where labels tell nothing.
    note
        Why something is None, or "".
    """

    path: str
    walks: int
    homophily: float | None = None
    chance: float | None = None
    informativeness: float | None = None
    informativeness_chance: float | None = None
    note: str = ""


def direction_shares(graph: Graph) -> list[DirectionShare]:
    """Return what labels tell along each of `DIRECTION_PATHS`; none without directions.

    Walks are counted, not listed: the work is about that of a look at each edge, and
    all are exact, however many there are.

    Examples
    --------
    >>> circle = np.roll(np.eye(4), 1, axis=1)
    >>> both = circle + circle.T
    >>> graph = Graph(x=np.eye(4), adj=both, y=[0, 0, 1, 1], directed=circle)
    >>> [(share.path, share.homophily) for share in direction_shares(graph)][:3]
    [('out', 0.5), ('in', 0.5), ('out-out', 0.0)]
    """
    check_is_graph(graph)
    if graph.directed is None:
        return []
    return [_direction_share(path, walk_ends(graph, path)) for path in DIRECTION_PATHS]


def walk_ends(graph: Graph, path: str) -> NDArray[np.int64]:
    """Count walks by the classes of their first and their last node, [C, C].

    Walks that end where they began do not count, nor those from or to a node without a
    label; what is in between may be without one.

    Parameters
    ----------
    graph
        With directions.
    path
        One of `DIRECTION_PATHS`.

    Examples
    --------
    >>> path = np.diag([1, 1], 1)
    >>> graph = Graph(x=np.eye(3), adj=path + path.T, y=[0, -1, 1], directed=path)
    >>> walk_ends(graph, "out-out")
    array([[0, 1],
           [0, 0]])
    """
    check_is_graph(graph)
    check_choice("path", path, DIRECTION_PATHS)
    along = _binary(graph.directed if graph.directed is not None else graph.adj)
    against = CSR(along.T)
    steps = [along if step == "out" else against for step in path.split("-")]
    if len(steps) == 1:
        return edge_ends(steps[0], graph)
    first, second = steps
    labelled = graph.labelled
    columns = graph.y[labelled], np.ones(labelled.size, dtype=np.int64)
    shape = (graph.n_nodes, graph.n_classes)
    known = sp.csr_array((columns[1], (labelled, columns[0])), shape=shape)
    # Through each node in the middle: those who get there, times where it leads.
    found = (first.T @ known).T @ (second @ known)
    ends: NDArray[np.int64] = found.toarray().astype(np.int64)
    back = np.asarray(first.multiply(second.T).sum(axis=1)).ravel()[labelled]
    np.subtract.at(ends, (columns[0], columns[0]), back.astype(np.int64))
    return ends


def _binary(matrix: CSR) -> CSR:
    """Return ones where a matrix has entries, none on the diagonal."""
    found = sp.coo_array(matrix)
    rows, columns = found.coords
    kept = (rows != columns) & (found.data != 0)
    ones = np.ones(int(kept.sum()), dtype=np.int64)
    return CSR((ones, (rows[kept], columns[kept])), shape=matrix.shape)


def _direction_share(path: str, ends: NDArray[np.int64]) -> DirectionShare:
    total = int(ends.sum())
    if not total:
        return DirectionShare(path, 0, note="no such walk joins two labelled nodes")
    alike = float(ends.trace() / total)
    chance = float(ends.sum(axis=1) / total @ (ends.sum(axis=0) / total))
    told = informativeness_of(ends)
    if math.isnan(told):
        note = "all of them begin in a single class"
        return DirectionShare(path, total, alike, chance, note=note)
    by_chance = informativeness_by_chance(ends, directed=True)
    return DirectionShare(path, total, alike, chance, told, by_chance)
