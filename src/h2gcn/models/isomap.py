"""A graph laid out in the plane by Isomap: who is near whom, and on which side.

Noise of the eigen-solver decides nothing here. What it computes is used only where
the graph determines it: an axis that cannot be told from others (equal eigenvalues)
is left out, a direction that a symmetry of the graph can reverse tells no left from
right, and what differs by less than `TOLERANCE` of the layout's extent is equal. So
renumbered nodes give renumbered results, for symmetric graphs too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import eigsh

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.sparse import available_memory

__all__ = [
    "RELATIONS",
    "Embedding",
    "check_isomap_memory",
    "embed",
    "isomap_bytes",
    "latent_pairs",
    "quadrants",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RELATIONS = ("upper left", "upper right", "lower left", "lower right")
"""Where a neighbour is as seen from a node; `quadrants` gives their positions here."""
TOLERANCE = 1e-9
"""Below which share of the layout's extent lengths are equal; noise is near 1e-13."""
GAP = 1e-8
"""Below which share of the largest eigenvalue two eigenvalues are equal."""
SKEWNESS = 1e-6
"""Below which share of the largest it could be a moment is zero."""
SMALL = 200
"""Up to how many nodes all eigenvectors are computed, not only the leading ones."""
BYTES_PER_DISTANCE = 8
"""The n² geodesics are float64, for ties, and become the kernel in place."""
BYTES_PER_NODE = 1024
"""What the eigen-solver (20 vectors and their copies) and Dijkstra take besides."""
BYTES_PER_PAIR = 200
"""Peak bytes for a latent pair, from the search to training on both its directions."""
WAY_OUT = "use h2gcn-1, gcn or mlp, which need no embedding"


@dataclass(frozen=True)
class Embedding:
    """A graph in the plane, one layout for each connected component.

    Parameters
    ----------
    coordinates
        Position of each node in units of one edge, [n, 2]; zero along an axis that
        the component does not have.
    bearings
        The coordinates with their axes turned the same way however the nodes are
        numbered, [n, 2]; zero along an axis for which there is no such way.
    component
        Number of each node's component, [n]; distances between two are undefined.
    """

    coordinates: Floats
    bearings: Floats
    component: Integers

    @property
    def tolerance(self) -> float:
        """The length below which there is only noise."""
        return TOLERANCE * float(np.abs(self.coordinates).max(initial=0))


def isomap_bytes(n: int) -> int:
    """Return the peak memory for the embedding of a component of n nodes."""
    return BYTES_PER_DISTANCE * n**2 + BYTES_PER_NODE * n


def check_isomap_memory(adj: CSR, *, available: int | None = None) -> None:
    """Refuse, before anything is allocated, a graph whose distances will not fit.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    available
        Bytes that may be used; default what the machine has free.
    """
    _, component = connected_components(adj, directed=False)
    largest = int(np.bincount(component, minlength=1).max())
    limit = available_memory() if available is None else available
    needed = isomap_bytes(largest)
    if needed > limit:
        # The positive root of 8 n² + 1024 n = limit.
        half = BYTES_PER_NODE // 2
        fits = (isqrt(half**2 + BYTES_PER_DISTANCE * limit) - half) // 8
        raise InputError(
            f"geom-gcn embeds the graph by Isomap, which needs {needed / 1e9:,.1f} GB "
            f"for the {largest:,} nodes of the largest connected component; here it "
            f"can do up to {fits:,} nodes. Instead, {WAY_OUT}."
        )


def embed(adj: CSR) -> Embedding:
    """Lay out each connected component by Isomap, in two dimensions.

    Geodesics are the lengths of shortest paths; classical scaling of them (the two
    leading components of the doubly centred −D²/2) is Isomap on a given graph.

    Parameters
    ----------
    adj
        Symmetric binary adjacency matrix without self-loops, [n, n].
    """
    n = adj.shape[0]
    count, component = connected_components(adj, directed=False)
    # Components become blocks on the diagonal: cutting one out takes its own size.
    order = np.argsort(component, kind="stable")
    blocks = CSR(CSR(adj[order])[:, order])
    ends = np.cumsum(np.bincount(component, minlength=count))
    coordinates, bearings = np.zeros((n, 2)), np.zeros((n, 2))
    start = 0
    for end in ends:
        if end - start > 1:
            block = CSR(blocks[start:end, start:end])
            nodes = order[start:end]
            coordinates[nodes], bearings[nodes] = _embed_component(block)
        start = end
    return Embedding(coordinates, bearings, component.astype(np.int64))


def _embed_component(adj: CSR) -> tuple[Floats, Floats]:
    """Return the coordinates and bearings of a connected graph, [n, 2] each."""
    n = adj.shape[0]
    # A symmetric matrix read as directed is not transposed for nothing.
    kernel = dijkstra(adj, directed=True, unweighted=True)
    np.square(kernel, out=kernel)
    kernel *= -0.5
    means = kernel.mean(axis=0)
    kernel -= means
    kernel -= (means - means.mean())[:, None]
    (first, second, third), axes = _leading(kernel)
    equal = GAP * first
    coordinates, bearings = np.zeros((n, 2)), np.zeros((n, 2))
    if second - third > equal:
        coordinates[:] = axes[:, :2] * np.sqrt([first, second])
    elif first - second > equal:
        coordinates[:, 0] = axes[:, 0] * np.sqrt(first)
    # A plane whose axes may be rotated has distances, but no directions.
    if first - second > equal:
        x, y = coordinates.T
        even = _invariants(adj)
        bearings[:, 0] = _orient(x, [*even, y**2])
        bearings[:, 1] = _orient(y, [*even, x**2, bearings[:, 0]])
    return coordinates, bearings


def _leading(kernel: Floats) -> tuple[Floats, Floats]:
    """Return the three largest eigenvalues, falling, and their eigenvectors.

    The third tells whether the second axis is one of several. None is negative:
    three points of any metric space fit into a plane.

    LAPACK is asked for all pairs: for a few it can return none at all where an
    eigenvalue is repeated (of a star, for one). ARPACK starts from a fixed vector.
    """
    n = len(kernel)
    if n > SMALL:
        start = np.random.default_rng(0).uniform(-1, 1, n)
        values, vectors = eigsh(kernel, 3, which="LA", v0=start)
    else:
        values, vectors = np.linalg.eigh(kernel)
    order = np.argsort(-values)[:3]
    leading = np.zeros(3)
    leading[: len(order)] = values[order]
    return leading, vectors[:, order]


def _invariants(adj: CSR) -> list[Floats]:
    """Return numbers of nodes that do not depend on their order: walks from each."""
    walks = [np.ones(adj.shape[0])]
    for _ in range(3):
        counted = adj @ walks[-1]
        walks.append(counted / counted.max())
    return walks


def _orient(axis: Floats, weights: Iterable[Floats]) -> Floats:
    """Turn an axis so that its first weighted odd moment that is not zero is positive.

    All of them are zero if a symmetry of the graph reverses the axis; then there is
    no direction, and zeros are returned.
    """
    for weight in weights:
        for power in (1, 3):
            moments = axis**power
            total = weight @ moments
            if abs(total) > SKEWNESS * np.abs(weight).max() * np.abs(moments).sum():
                turned: Floats = axis * np.sign(total)
                return turned
    return np.zeros_like(axis)


def latent_pairs(
    embedding: Embedding, at_least: int, *, available: int | None = None
) -> Integers:
    """Return the pairs of one component that are at most ρ apart, [m, 2].

    ρ is the smallest distance that gives `at_least` pairs. All pairs at
    distance ρ count, so there can be more: leaves of one hub fall on one point.

    Parameters
    ----------
    embedding
        Where the nodes are.
    at_least
        How many pairs are wanted; no more than there are within components.
    available
        Bytes that may be used; default what the machine has free.

    Returns
    -------
    array of int64
        Each pair once, smaller node first; no node is paired with itself.
    """
    from scipy.spatial import cKDTree

    if at_least == 0:
        return np.zeros((0, 2), dtype=np.int64)
    n = len(embedding.coordinates)
    tolerance = embedding.tolerance
    extent = float(np.abs(embedding.coordinates).max())
    # One tree for all components: a third coordinate keeps them out of reach.
    reach = 3 * extent + 1
    tree = cKDTree(np.c_[embedding.coordinates, 2 * reach * embedding.component])

    def count(radius: float) -> int:
        return (int(tree.count_neighbors(tree, radius)) - n) // 2

    # Halve the radius until it holds few more pairs than wanted; sort those.
    low, high = 0.0, reach
    pairs = count(tolerance)
    if pairs >= at_least:
        high = tolerance
    else:
        pairs = count(high)
    while pairs > 2 * at_least and high - low > tolerance:
        middle = (low + high) / 2
        inside = count(middle)
        if inside >= at_least:
            high, pairs = middle, inside
        else:
            low = middle
    limit = available_memory() if available is None else available
    if pairs * BYTES_PER_PAIR > limit:
        raise InputError(
            f"geom-gcn finds {pairs:,} pairs of nodes that Isomap puts close together; "
            f"they need {pairs * BYTES_PER_PAIR / 1e9:,.1f} GB, but {limit / 1e9:,.1f} "
            f"GB are free. Instead, {WAY_OUT}."
        )
    found = tree.query_pairs(high + 2 * tolerance, output_type="ndarray")
    apart = embedding.coordinates[found[:, 0]]
    apart -= embedding.coordinates[found[:, 1]]
    distance = np.hypot(apart[:, 0], apart[:, 1])
    rho = np.partition(distance, at_least - 1)[at_least - 1]
    near: Integers = found[distance <= rho + tolerance].astype(np.int64, copy=False)
    return near


def quadrants(embedding: Embedding, nodes: Integers, seen: Integers) -> Integers:
    """Return where `seen[i]` is from `nodes[i]`, as a position in `RELATIONS`.

    Neither left nor right is right, and neither lower nor upper is upper. So two
    nodes side by side are in each other's upper quadrants, and two nodes on one
    point, or of a component without directions, each other's upper right.
    """
    ahead = embedding.bearings[seen] - embedding.bearings[nodes]
    below_or_left = ahead < -embedding.tolerance
    result: Integers = (
        2 * below_or_left[:, 1] + 1 - below_or_left[:, 0].astype(np.int64)
    )
    return result
