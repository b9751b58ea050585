"""The graph that Theorem 1 speaks of: all neighbourhoods alike."""

import numpy as np
from numpy.typing import NDArray

from h2gcn.theory.perturbation import neighbour_numbers

__all__ = ["regular_graph"]


def regular_graph(
    homophily: float, degree: float, n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Construct a graph in which every node is as Theorem 1 wants its training nodes.

    The pairs inside a class fall into perfect matchings (a round-robin tournament),
    and so do those between two classes (rotations): the first hd, and ρd, of them
    are edges. Where these are not whole numbers, the next matching has edges whose
    weight is the fraction.

    Parameters
    ----------
    homophily, degree, n_classes
        h, d and C.

    Returns
    -------
    adj : ndarray
        Symmetric, no self-loops, weights in [0, 1] and rows that sum to d, [n, n].
        A node has at least d + 2 nodes in each other class, so that all the
        neighbours of the theorem can be added.
    y : ndarray
        Labels, [n].

    Examples
    --------
    >>> adj, y = regular_graph(0.5, 4, 3)  # 2 neighbours of one's own class, 1 and 1
    >>> (adj @ np.eye(3)[y])[[0, -1]]
    array([[2., 1., 1.],
           [1., 1., 2.]])
    """
    numbers = neighbour_numbers("regular_graph", homophily, degree, n_classes)
    # 0.1 · 30 is not 3 to the last digit, and must not leave an edge of weight 4e-16.
    own, other = np.round(numbers, 12)
    size = 2 * int(np.ceil(degree / 2 + 1))
    i, j = np.indices((size, size))
    # Players i and j meet in round i + j, and the last player meets i in round 2i.
    last = size - 1
    rounds = np.where(j == last, 2 * i, np.where(i == last, 2 * j, i + j)) % last
    inside = np.where(i == j, 0, np.clip(own - rounds, 0, 1))
    between = np.clip(other - (j - i) % size, 0, 1)
    blocks = [
        [
            inside if k == m else between if k < m else between.T
            for m in range(n_classes)
        ]
        for k in range(n_classes)
    ]
    return np.block(blocks), np.repeat(np.arange(n_classes), size)
