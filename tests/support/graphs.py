"""Small named graphs whose rings and measures can be worked out by hand."""

import numpy as np
import scipy.sparse as sp
import torch

from h2gcn import Graph
from h2gcn.graph import EdgeColumns

__all__ = [
    "DIRECTED",
    "GRAPHS",
    "NAMED",
    "SIX",
    "adjacency",
    "cycle",
    "make_graph",
    "one_hot",
    "one_way",
    "random_adjacency",
]


def adjacency(n: int, edges: list[tuple[int, int]]) -> sp.csr_array:
    """Return the symmetric adjacency matrix of an edge list."""
    dense = np.zeros((n, n), dtype=np.float32)
    for u, v in edges:
        dense[u, v] = dense[v, u] = 1
    return sp.csr_array(dense)


def cycle(n: int) -> sp.csr_array:
    """Return the adjacency matrix of a cycle."""
    return adjacency(n, [(v, (v + 1) % n) for v in range(n)])


def one_hot(n: int, labels: dict[int, int], c: int = 3) -> torch.Tensor:
    """Return the labels of some nodes, with zeros elsewhere, [n, c]."""
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
"""A square with a chord, a tail, and a node of its own."""

NAMED = {
    "path": adjacency(5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "star": adjacency(5, [(0, 1), (0, 2), (0, 3), (0, 4)]),
    "triangle with tail": adjacency(5, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]),
    "K4": adjacency(4, [(u, v) for u in range(4) for v in range(u)]),
    "isolated last node": adjacency(4, [(0, 1), (1, 2)]),
    "disconnected": adjacency(6, [(0, 1), (1, 2), (3, 4), (4, 5)]),
    "no edges": adjacency(3, []),
}
"""Small graphs whose rings and measures can be worked out by hand."""


DIRECTED = sp.csr_array(
    np.array(
        [
            [0, 1, 1, 0, 0, 0],
            [1, 0, 0, 1, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [1, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0],
        ],
        dtype=np.float32,
    )
)
"""Row i has the nodes that i points to: 0 and 1 point to each other, 4 to none, and
5 is alone."""


def one_way(adj: sp.csr_array, seed: int) -> sp.csr_array:
    """Return a matrix in which each edge of a graph leads one of its two ways."""
    ends = np.stack(sp.triu(adj, 1).nonzero())
    turned = np.random.default_rng(seed).random(ends.shape[1]) < 0.5
    ends[:, turned] = ends[::-1, turned]
    return sp.csr_array((np.ones(ends.shape[1], np.float32), tuple(ends)), adj.shape)


def random_adjacency(
    seed: int, n: int | None = None, p: float | None = None
) -> sp.csr_array:
    """Return a random graph, by default of up to 30 nodes, empty to nearly complete."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 31)) if n is None else n
    draws = rng.random((n, n))
    p = rng.choice([0.02, 0.06, 0.1, 0.3, 0.9]) if p is None else p
    upper = np.triu(draws < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


def make_graph(
    adj: sp.csr_array,
    *,
    weighted: bool = False,
    n_features: int = 5,
    n_classes: int = 3,
    seed: int = 0,
) -> Graph:
    """Return a graph with random features and labels.

    Parameters
    ----------
    adj
        [n, n]. The graph is directed if the matrix is not symmetric.
    weighted
        Whether edges have random weights.
    n_features, n_classes, seed
        Of the features and labels. There are `n_classes` classes even where fewer
        nodes have labels.
    """
    rng = np.random.default_rng(seed)
    n = adj.shape[0]
    both = sp.csr_array(((adj + adj.T) > 0).astype(np.float32))
    directed = bool((adj != adj.T).nnz)
    edges = None
    if weighted:
        source, target = (adj if directed else sp.triu(adj, 1)).nonzero()
        values = rng.uniform(0.5, 3, size=(len(source), 1))
        edges = EdgeColumns(source, target, values, ("weight",), directed=directed)
    return Graph(
        x=rng.normal(size=(n, n_features)).astype(np.float32),
        adj=both,
        directed=adj if directed else None,
        y=rng.integers(n_classes, size=n),
        classes=np.arange(n_classes),
        edge_columns=edges,
        edge_weight="weight" if weighted else None,
    )


_TWO_COMMUNITIES = adjacency(
    8,
    [(u, v) for u in range(4) for v in range(u)]
    + [(u, v) for u in range(4, 8) for v in range(4, u)]
    + [(3, 4)],
)
_RANDOM = random_adjacency(5, 12, 0.2)

GRAPHS = {name: make_graph(adj) for name, adj in NAMED.items()} | {
    "two communities": make_graph(_TWO_COMMUNITIES),
    "random": make_graph(_RANDOM),
    "weighted": make_graph(_RANDOM, weighted=True),
    "directed": make_graph(DIRECTED),
    "directed and weighted": make_graph(one_way(_RANDOM, 0), weighted=True),
}
"""The named graphs and larger ones with features, labels, directions and weights."""
