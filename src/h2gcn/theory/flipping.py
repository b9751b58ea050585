"""Theorem 1 by trial: construct its graph, fit the layer, perturb until it errs."""

import numpy as np
from numpy.typing import NDArray

from h2gcn.theory.regular import regular_graph

__all__ = [
    "edges_to_flip",
    "fit_layer",
    "found_perturbation",
    "found_threshold",
    "smallest_perturbation",
]

LEVEL = 1e-9
"""A lead no larger than this is rounding: the classes are level."""


def fit_layer(
    adj: NDArray[np.float64], y: NDArray[np.int64], *, self_loops: bool
) -> NDArray[np.float64]:
    """Fit W of AXW, or (A + I)XW, to the one-hot labels by least squares, [C, C].

    The smallest of the best W where there are several. A layer fitted by another
    convex loss that treats the classes alike, such as cross entropy with weight decay,
    has W = αI + β·11ᵀ on a training set of equal classes; the lead of a class is
    then α(a − b + δ), and lost at the same δ.

    Examples
    --------
    >>> adj, y = regular_graph(0.0, 2, 3)
    >>> fit_layer(adj, y, self_loops=False).round(6)
    array([[-0.5,  0.5,  0.5],
           [ 0.5, -0.5,  0.5],
           [ 0.5,  0.5, -0.5]])
    """
    labels = np.eye(int(y.max()) + 1)[y]
    aggregated = adj @ labels + self_loops * labels
    return np.asarray(np.linalg.lstsq(aggregated, labels, rcond=None)[0])


def smallest_perturbation(
    adj: NDArray[np.float64],
    y: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    self_loops: bool,
    node: int = 0,
    other: int = 1,
) -> float:
    """Find by trial how much of a class a node must lose until it is not recognised.

    Edges from the node to nodes of the class are taken away, or added, one after
    another, the last one by a part of its weight, and the fitted layer is asked what
    the node is: a bisection for the amount at which the answer changes.

    Parameters
    ----------
    adj, y, weights
        The graph, its labels, and the layer fitted to them.
    self_loops
        Whether the layer is (A + I)XW.
    node, other
        The node, and the class in its neighbourhood that is perturbed.

    Returns
    -------
    float
        The signed amount (positive: taken away) at which the node's own class is no
        longer ahead of all others; 0 where it never was, NaN where neither taking
        away all edges nor adding all that are missing achieves it. The smaller of
        the two where both do.

    Examples
    --------
    >>> adj, y = regular_graph(0.25, 8, 3)  # 2, 3 and 3 neighbours
    >>> found = smallest_perturbation(
    ...     adj, y, fit_layer(adj, y, self_loops=False), self_loops=False
    ... )
    >>> round(found, 6)
    1.0
    """

    def ahead(amount: float) -> bool:
        row = _perturbed(adj[node], y == other, amount)
        return _lead(row, y, weights, node, self_loops) > LEVEL

    if not ahead(0):
        return 0.0
    edges = adj[node, y == other]
    found = []
    for limit in (edges.sum(), -(1 - edges).sum()):
        if ahead(limit):
            continue
        low, high = 0.0, float(limit)
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if ahead(middle) else (low, middle)
        found.append(high)
    return min(found, key=abs, default=float("nan"))


def edges_to_flip(
    adj: NDArray[np.float64],
    y: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    self_loops: bool,
    node: int = 0,
    other: int = 1,
) -> int | None:
    """Count the whole edges to a class that must go, or come, until another class wins.

    Parameters as in `smallest_perturbation`.

    Returns
    -------
    int or None
        Edges taken away (positive) or added (negative), whichever are fewer; None
        where no number of them makes another class win.

    Examples
    --------
    >>> adj, y = regular_graph(0.25, 8, 3)  # one less and the classes are level
    >>> edges_to_flip(adj, y, fit_layer(adj, y, self_loops=False), self_loops=False)
    2
    """
    edges = adj[node, y == other]
    for count in range(1, len(edges) + 1):
        for amount in (count, -count):
            if not -(1 - edges).sum() <= amount <= edges.sum() + LEVEL:
                continue
            row = _perturbed(adj[node], y == other, amount)
            if _lead(row, y, weights, node, self_loops) < -LEVEL:
                return amount
    return None


def found_perturbation(
    homophily: float, degree: float, n_classes: int, *, self_loops: bool
) -> float:
    """Find what `perturbation_needed` computes: construct, fit and perturb.

    Examples
    --------
    >>> round(found_perturbation(0.0, 20, 5, self_loops=True), 6)
    4.0
    """
    adj, y = regular_graph(homophily, degree, n_classes)
    weights = fit_layer(adj, y, self_loops=self_loops)
    return smallest_perturbation(adj, y, weights, self_loops=self_loops)


def found_threshold(degree: float, n_classes: int) -> float:
    """Find the h from which on (A + I)XW is as robust as AXW, by trial.

    A bisection over graphs of different h, on each of which both layers are fitted
    and perturbed. 0 where (A + I)XW is the more robust one already at h = 0.

    Examples
    --------
    >>> round(found_threshold(20, 5), 6)
    0.18
    """

    def less_robust(homophily: float) -> bool:
        with_loops, without = (
            abs(found_perturbation(homophily, degree, n_classes, self_loops=loops))
            for loops in (True, False)
        )
        return with_loops < without

    if not less_robust(0.0):
        return 0.0
    low, high = 0.0, 1.0
    # Finer than LEVEL, the leads that are compared would be rounding.
    while high - low > LEVEL:
        middle = (low + high) / 2
        low, high = (middle, high) if less_robust(middle) else (low, middle)
    return (low + high) / 2


def _perturbed(
    row: NDArray[np.float64], where: NDArray[np.bool_], amount: float
) -> NDArray[np.float64]:
    """Return a row of the graph with `amount` less weight on the given nodes, [n]."""
    edges = row[where]
    # What each edge can give, or take, and how much those before it have done.
    room = edges if amount > 0 else 1 - edges
    done = np.clip(abs(amount) - (np.cumsum(room) - room), 0, room)
    changed = row.copy()
    changed[where] = edges - done if amount > 0 else edges + done
    return changed


def _lead(
    row: NDArray[np.float64],
    y: NDArray[np.int64],
    weights: NDArray[np.float64],
    node: int,
    self_loops: bool,
) -> float:
    """Return by how much the layer puts a node's own class before the next."""
    labels = np.eye(len(weights))[y]
    scores = (row @ labels + self_loops * labels[node]) @ weights
    own = scores[y[node]]
    return float(own - np.delete(scores, y[node]).max())
