"""Theorem 1: how many neighbours must change before a layer errs.

**Statement.** Features are one-hot labels, x_v = onehot(y_v); the training set holds
equally many nodes of each of C classes; each of them has degree d, a share h of its
neighbours in its own class and ρ = (1 − h)/(C − 1) in each other class. The layer is
fitted with no loss left, and then δ neighbours of one other class are taken away from
a node (added, where δ < 0). It loses the node's class at

    δ1 = (d + 1 − C − h·C·d)/(C − 1) = ρd − hd − 1    for (A + I)XW, and
    δ2 = (1 − h·C)·d/(C − 1)         = ρd − hd        for AXW.

So δ1 = δ2 − 1, and |δ1| < |δ2|, the layer that mixes the ego with its neighbours being
the less robust one, exactly where δ2 > 1/2, that is h < (1 − C + 2d)/(2Cd).

**What the paper leaves out.** Its aggregated matrix is said to be invertible because it
is circulant. It is singular where δ = 0 (h = 1/C for AXW): no W fits then, and the
layer predicts the same for every class. At δ itself two classes are level; the node
is misclassified beyond it. For AXW at h = 0, δ2 is all the neighbours that the node
has in the other class, so taking neighbours away never flips it. And where hd and ρd
are whole numbers, so are δ1 and δ2: in whole edges, |δ| + 1 of them are needed.
The threshold says nothing where 2d ≤ C − 1: it is not above 0.
"""

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError

__all__ = [
    "edges_to_flip",
    "fit_layer",
    "found_perturbation",
    "found_threshold",
    "homophily_threshold",
    "neighbour_numbers",
    "optimal_weights",
    "perturbation_needed",
    "regular_graph",
    "smallest_perturbation",
]


def neighbour_numbers(
    homophily: float, degree: float, n_classes: int
) -> tuple[float, float]:
    """Return a node's neighbours in its own class, hd, and in each other, ρd.

    Examples
    --------
    >>> neighbour_numbers(0.5, 4, 3)
    (2.0, 1.0)
    """
    h = check_real("homophily", homophily, "[0, 1]")
    d = check_real("degree", degree, "(0, inf)")
    c = check_integer("n_classes", n_classes, 2)
    return h * d, (1 - h) * d / (c - 1)


def perturbation_needed(
    homophily: float, degree: float, n_classes: int, *, self_loops: bool
) -> float:
    """Return δ1 (with self-loops) or δ2 of Theorem 1, with its sign.

    Positive: that many neighbours of another class taken away make the layer lose
    the node's class; negative: that many added.

    Examples
    --------
    >>> perturbation_needed(0.0, 20, 5, self_loops=True)
    4.0
    >>> perturbation_needed(1.0, 20, 5, self_loops=False)
    -20.0
    """
    own, other = neighbour_numbers(homophily, degree, n_classes)
    return other - own - self_loops


def homophily_threshold(degree: float, n_classes: int) -> float:
    """Return the h below which (A + I)XW is less robust than AXW, (1−C+2d)/(2Cd).

    Examples
    --------
    >>> homophily_threshold(20, 5)
    0.18
    """
    return (1 - n_classes + 2 * degree) / (2 * n_classes * degree)


def optimal_weights(
    homophily: float, degree: float, n_classes: int, *, self_loops: bool
) -> NDArray[np.float64]:
    """Return the paper's W* in closed form, [C, C]: no loss is left with it.

    The aggregated rows of one node a class are M = (a − b)I + b·11ᵀ, with a = hd
    (+ 1 with self-loops) and b = ρd, and W* = M⁻¹. There is none where a = b.

    Examples
    --------
    >>> optimal_weights(0.0, 2, 3, self_loops=False)
    array([[-0.5,  0.5,  0.5],
           [ 0.5, -0.5,  0.5],
           [ 0.5,  0.5, -0.5]])
    """
    own, other = neighbour_numbers(homophily, degree, n_classes)
    lead = own + self_loops - other
    if not lead:
        raise InputError(
            f"There are no optimal weights at h = {homophily}, d = {degree}, "
            f"C = {n_classes}: the aggregated features of all classes are the same."
        )
    weights: NDArray[np.float64] = np.eye(n_classes) - other / (degree + self_loops)
    return weights / lead


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
    numbers = neighbour_numbers(homophily, degree, n_classes)
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
