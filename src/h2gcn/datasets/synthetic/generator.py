"""Random graphs of a chosen homophily, with labels, features and a split."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.datasets.synthetic.attachment import (
    check_compatibility,
    circular_compatibility,
    generate_edges,
)
from h2gcn.datasets.synthetic.features import (
    BenchmarkFeatures,
    FeatureSource,
    GaussianFeatures,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, stratified_split
from h2gcn.sparse import check_room

__all__ = [
    "PRESETS",
    "BenchmarkFeatures",
    "FeatureSource",
    "GaussianFeatures",
    "Preset",
    "circular_compatibility",
    "generate_edges",
    "generate_graph",
]


EDGE, NODE = 40, 80
"""Bytes that an entry of the adjacency matrix and a node take while one is grown."""


class Preset(TypedDict):
    """The shape of a family of synthetic graphs: arguments of `generate_graph`."""

    n_nodes: int
    n_classes: int
    edges_per_node: int
    start_nodes: int


PRESETS = {
    "syn-cora": Preset(n_nodes=1490, n_classes=5, edges_per_node=2, start_nodes=10),
    "syn-products": Preset(
        n_nodes=10000, n_classes=10, edges_per_node=6, start_nodes=70
    ),
}
"""The two families of the paper's experiments."""


def generate_graph(
    *,
    n_nodes: int = 1490,
    n_classes: int = 5,
    edges_per_node: int = 2,
    homophily: float = 0.1,
    compatibility: ArrayLike | None = None,
    start_nodes: int | None = None,
    features: FeatureSource | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Graph:
    """Generate a graph of equal classes with a chosen homophily.

    Labels, features and the split depend on the seed, `n_nodes`, `n_classes` and
    the source of the features only, not on the homophily: the same nodes can be
    wired in several ways.

    Parameters
    ----------
    n_nodes, n_classes
        Numbers of nodes n and classes C; class sizes differ by at most one.
    edges_per_node
        Number of links m of each arriving node, see `generate_edges`.
    homophily
        The h of `circular_compatibility`.
    compatibility
        A whole matrix H, [C, C], in place of `homophily`.
    start_nodes
        Number of nodes with one link at most, by default m · C. Whatever it is,
        the first m · C nodes to arrive hold m of every class.
    features
        Where the features come from; by default `GaussianFeatures()`.
    seed
        The same seed gives the same graph.
    name
        Name of the graph, by default made of the homophily.

    Returns
    -------
    Graph
        Its one split has a quarter of each class in train, a quarter in val and
        half in test. Node indices say nothing about the order of arrival.

    Examples
    --------
    >>> generate_graph(**PRESETS["syn-cora"], homophily=0.3, seed=1)
    Graph('synthetic-h0.3': 1490 nodes, 2968 edges, 100 features, 5 classes, \
1490 labelled)
    """
    owner = "generate_graph"
    n_classes = check_integer(owner, "n_classes", n_classes, 2)
    homophily = check_real(owner, "homophily", homophily, "[0, 1]")
    check_room(f"{owner}: a matrix of {n_classes:,} classes", 24 * n_classes**2)
    if compatibility is None:
        h = circular_compatibility(n_classes, homophily)
    else:
        h = check_compatibility(owner, compatibility, n_classes)
    m = check_integer(owner, "edges_per_node", edges_per_node, 1)
    start = m * n_classes if start_nodes is None else start_nodes
    start = check_integer(owner, "start_nodes", start, 1)
    n = check_integer(owner, "n_nodes", n_nodes, 1)
    if n < max(start, m * n_classes):
        raise InputError(
            f"The 'n_nodes' parameter of {owner} must be at least start_nodes = {start}"
            f" and edges_per_node · n_classes = {m * n_classes}. Got {n} instead."
        )
    source = GaussianFeatures() if features is None else features
    if not isinstance(source, FeatureSource):
        raise InputError(
            f"The 'features' parameter of {owner} must be a FeatureSource, such as "
            f"GaussianFeatures(). Got {features!r} instead."
        )
    # Features are drawn, shifted and copied; others are lent, and as many as there are.
    numbers = source.n_features if isinstance(source, GaussianFeatures) else 0
    need = (2 * EDGE * m + NODE + 12 * numbers) * n
    check_room(f"{owner}: a graph of {n:,} nodes", need)
    # One stream for each purpose, so that none shifts when another draws more.
    seeds = np.random.SeedSequence(check_integer(owner, "seed", seed, 0)).spawn(5)
    y = np.random.default_rng(seeds[0]).permutation(np.arange(n) % n_classes)
    arrivals = _arrival_order(y, m, np.random.default_rng(seeds[1]))
    edges = arrivals[
        generate_edges(
            y[arrivals],
            compatibility=h,
            edges_per_node=m,
            start_nodes=start,
            seed=seeds[2],
        )
    ]
    ends = np.concatenate([edges, edges[:, ::-1]]).T
    adj = CSR((np.ones(ends.shape[1], np.float32), (ends[0], ends[1])), shape=(n, n))
    x, feature_names = source.draw(y, np.random.default_rng(seeds[3]))
    kind = f"h{homophily:g}" if compatibility is None else "custom"
    return Graph(
        x=x,
        adj=adj,
        y=y,
        classes=np.arange(n_classes),
        feature_names=feature_names,  # type: ignore[arg-type]
        splits=(stratified_split(y, (0.25, 0.25, 0.5), seeds[4]),),
        name=f"synthetic-{kind}" if name is None else name,
    )


def _arrival_order(
    y: NDArray[np.int64], first: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the nodes in random order, but `first` of every class to begin with."""
    order = rng.permutation(len(y))
    by_class = np.argsort(y[order], kind="stable")
    counts = np.bincount(y)
    rank = np.empty_like(order)
    rank[by_class] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Shuffled once more: a shuffle that lost its first of each class, and what it
    # lost, would have the classes come in runs.
    is_first = rank < first
    return np.concatenate(
        [rng.permutation(order[part]) for part in (is_first, ~is_first)]
    )
