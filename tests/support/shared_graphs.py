"""A graph for several workers: directions, ids, dense or sparse features."""

import numpy as np
import scipy.sparse as sp

from h2gcn import Graph
from h2gcn.graph import CSR

__all__ = ["make_graph"]


def make_graph(
    n: int = 400,
    columns: int = 150,
    *,
    degree: int = 3,
    seed: int = 0,
    sparse: bool = False,
) -> Graph:
    """Return a graph with directions, whose features tell the classes apart a little.

    Of 400 nodes with 150 columns, a table is cut into two slices a block.
    """
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, size=(2, degree * n))
    ends = ends[:, ends[0] != ends[1]]
    ones = np.ones(ends.shape[1], np.float32)
    directed = CSR(sp.coo_array((ones, tuple(ends)), shape=(n, n)))
    directed.data[:] = 1
    adj = CSR(((directed + directed.T) > 0).astype(np.float32))
    classes = rng.integers(0, 3, n)
    x = rng.normal(size=(n, columns)).astype(np.float32)
    x[np.arange(n), classes] += 2
    if sparse:
        x = CSR(x * (rng.random(x.shape) < 0.05))
    y = np.where(rng.random(n) < 0.6, classes, -1)
    ids = np.array([f"n{number}" for number in range(n)])
    return Graph(x=x, adj=adj, directed=directed, y=y, node_ids=ids, name="town")
