"""Random graphs of any size in seconds, for the benchmarks.

Not those of the paper (`h2gcn.datasets.synthetic`): there a few nodes have very many
neighbours, and the 2-hop ring grows faster than the graph. Here the degrees are as
uneven at a million nodes as at ten thousand: twice the nodes are twice the work.
"""

import numpy as np
from numpy.typing import NDArray

from h2gcn import Graph
from h2gcn.graph import CSR, stratified_split
from h2gcn.io import adjacency_from_edges

CLASSES = 10
VAL = 0.2
UNEVENNESS = 0.6
"""Squared coefficient of variation of the expected degrees. A node of average degree d
has then about 1.6·d² neighbours at distance two."""
SIGNAL = 0.3
"""Deviation of the class means, where that of the noise is 1."""


def random_graph(
    n_nodes: int,
    *,
    degree: int = 10,
    homophily: float = 0.3,
    n_features: int = 64,
    train: float = 0.6,
    seed: int = 0,
) -> Graph:
    """Return a graph of ten equal classes with Gaussian features and a split.

    The split is by default that of `NodeClassifier` for data that bring none: of each
    class 60 % to train on, 20 % to choose by, 20 % to test on.

    Parameters
    ----------
    n_nodes
        Number of nodes n.
    degree
        How many neighbours a node has on average.
    homophily
        Share of the edges whose ends are of one class, at least 0.1.
    n_features
        Number of features; x is the mean of the class, plus noise.
    train
        Share of the nodes to train on; a fifth is to choose by, the rest to test on.
    seed
        The same seed gives the same graph.
    """
    rng = np.random.default_rng(seed)
    adj, y = random_adjacency(
        n_nodes, degree=degree, homophily=homophily, seed=rng.spawn(1)[0]
    )
    x = rng.standard_normal((n_nodes, n_features), dtype=np.float32)
    means = SIGNAL * rng.standard_normal((CLASSES, n_features), dtype=np.float32)
    for label, mean in enumerate(means):  # one after the other: no second x in memory
        x[y == label] += mean
    split = stratified_split(y, (train, VAL, 1 - VAL - train), seed)
    return Graph(x=x, adj=adj, y=y, splits=(split,), name=f"random-{n_nodes}")


def random_adjacency(
    n_nodes: int,
    *,
    degree: int = 10,
    homophily: float = 0.3,
    seed: int | np.random.Generator = 0,
) -> tuple[CSR, NDArray[np.int64]]:
    """Return the adjacency matrix, [n, n], and the labels, [n].

    Each node has a weight, gamma distributed. Both ends of an edge are drawn by weight:
    the first among all nodes; the second among those of the first one's class, or again
    among all. Loops and edges that were drawn twice are dropped.
    """
    rng = np.random.default_rng(seed)
    shape = 1 / UNEVENNESS
    ends = np.cumsum(rng.gamma(shape, 1 / shape, n_nodes))
    n_edges = n_nodes * degree // 2
    # The classes are stretches of equal length here; names are given at the end.
    borders = np.linspace(0, n_nodes, CLASSES + 1).round().astype(np.int64)
    weight_borders = np.append(0, ends[borders[1:] - 1])
    first = _drawn(ends, rng.random(n_edges) * ends[-1])
    label = np.searchsorted(borders, first, side="right") - 1
    low, high = weight_borders[label], weight_borders[label + 1]
    chance = (homophily - 1 / CLASSES) / (1 - 1 / CLASSES)
    anyone = rng.random(n_edges) >= chance
    low[anyone], high[anyone] = 0, ends[-1]
    second = _drawn(ends, low + rng.random(n_edges) * (high - low))
    names = rng.permutation(n_nodes).astype(np.int32)
    adj, _, _ = adjacency_from_edges(
        names[first], names[second], n_nodes, directed=False
    )
    y = np.empty(n_nodes, dtype=np.int64)
    y[names] = np.repeat(np.arange(CLASSES), np.diff(borders))
    return adj, y


def community_adjacency(
    n_nodes: int,
    *,
    degree: int = 10,
    inside: float = 0.8,
    sizes: tuple[int, int] = (50, 500),
    seed: int | np.random.Generator = 0,
) -> tuple[CSR, NDArray[np.int64]]:
    """Return the adjacency matrix, [n, n], and the community of each node, [n].

    Both ends of an edge are in one community or anywhere. Nodes have their numbers in
    any order. Loops and edges that were drawn twice are dropped.

    Parameters
    ----------
    n_nodes
        Number of nodes n.
    degree
        How many neighbours a node has on average.
    inside
        Share of the edges whose second end is drawn in the community of the first.
    sizes
        Communities have from so many to so many nodes, all numbers alike likely.
    seed
        The same seed gives the same graph.
    """
    rng = np.random.default_rng(seed)
    low, high = sizes
    lengths = rng.integers(low, high + 1, -(-n_nodes // low))
    borders = np.minimum(np.append(0, np.cumsum(lengths)), n_nodes)
    n_edges = n_nodes * degree // 2
    first = rng.integers(n_nodes, size=n_edges)
    own = np.searchsorted(borders, first, side="right") - 1
    anyone = rng.random(n_edges) >= inside
    begins = np.where(anyone, 0, borders[own])
    ends = np.where(anyone, n_nodes, borders[own + 1])
    second = begins + (rng.random(n_edges) * (ends - begins)).astype(np.int64)
    names = rng.permutation(n_nodes).astype(np.int32)
    adj, _, _ = adjacency_from_edges(
        names[first], names[second], n_nodes, directed=False
    )
    community = np.empty(n_nodes, dtype=np.int64)
    community[names] = np.repeat(np.arange(len(lengths)), np.diff(borders))
    return adj, community


def _drawn(ends: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the node on whose stretch of the line each place lies."""
    nodes = np.searchsorted(ends, places, side="right")
    return np.minimum(nodes, len(ends) - 1)
