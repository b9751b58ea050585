"""How alike neighbours are, apart by class, by distance and by degree.

The same rules as in `h2gcn.homophily`, which offers these functions too; e(i, j)
is the number of edge ends at class i that lead to class j, e(i) its sum over j.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_integer
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.homophily.counts import edge_ends, neighbour_counts, undefined

__all__ = [
    "DegreeRange",
    "class_homophily",
    "compatibility_matrix",
    "degree_homophily",
    "ring_homophily",
]


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
    return _shares(graph, "compatibility matrix")


def class_homophily(graph: Graph) -> NDArray[np.float64]:
    """Return each class's share of edge ends that stay in it, e(k, k)/e(k), [C].

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> class_homophily(Graph(x=np.eye(3), adj=path, y=[0, 0, 1]))
    array([0.66666667, 0.        ])
    """
    return _shares(graph, "class homophily").diagonal().copy()


def ring_homophily(graph: Graph, hops: int = 2) -> list[float]:
    """Return the share of equal labels at distance exactly 1, …, `hops`, [hops].

    A ring holds the pairs of nodes whose shortest path has that many edges.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> ring_homophily(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    [0.0, 1.0]
    """
    from h2gcn.rings import exact_rings

    hops = check_integer("ring_homophily", "hops", hops, low=1)
    shares = []
    for hop, ring in enumerate(exact_rings(graph.adj, hops=hops), start=1):
        ends = edge_ends(ring, graph)
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
    same, degree = neighbour_counts(graph)
    if edges is None:
        edges = [2**i for i in range(int(degree.max(initial=1)).bit_length() + 1)]
    bounds = [check_integer("degree_homophily", "edges", edge, 1) for edge in edges]
    if sorted(set(bounds)) != bounds or len(bounds) < 2:
        raise InputError(
            "The 'edges' parameter of degree_homophily must be at least two "
            f"increasing integers. Got {bounds!r} instead."
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
