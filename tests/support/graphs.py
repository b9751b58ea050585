"""Small named graphs whose rings and measures can be worked out by hand."""

import numpy as np
import scipy.sparse as sp

__all__ = ["DIRECTED", "NAMED", "adjacency", "one_way", "random_adjacency"]


def adjacency(n: int, edges: list[tuple[int, int]]) -> sp.csr_array:
    """Return the symmetric adjacency matrix of an edge list."""
    dense = np.zeros((n, n), dtype=np.float32)
    for u, v in edges:
        dense[u, v] = dense[v, u] = 1
    return sp.csr_array(dense)


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


def random_adjacency(seed: int) -> sp.csr_array:
    """Return a random graph of up to 30 nodes, from empty to nearly complete."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 31))
    upper = np.triu(rng.random((n, n)) < rng.choice([0.02, 0.06, 0.1, 0.3, 0.9]), 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))
