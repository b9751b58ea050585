"""Theorem 2: the neighbours of neighbours are, in expectation, mostly of one's class.

**Statement.** The labels of a node's neighbours are independent of one another given
the node's label, equal to it with probability h and to each of the C − 1 others with
ρ = (1 − h)/(C − 1): the matrix P. Then a node w two hops from v has the label k with
probability [P²]_{ik} where y_v = i, and

    [P²]_ii − [P²]_ij = (h − ρ)² ≥ 0,    with equality only at h = 1/C:

the 2-hop neighbourhood is homophily-dominant in expectation, whatever h is.

**What the proof needs besides.** That a neighbour w of u which is not itself a
neighbour of v is like any other neighbour of u. On a tree that is so, and P² is exact.
A ring of distance exactly 2 leaves out the walks that close a triangle; under
homophily those mostly end in v's own class. In a sparse graph they are few. In a dense
one the theorem fails for N_2 as the paper defines it (at *exactly* 2 hops): see
`block_model_two_hop`, and two cliques joined by a perfect matching, where all nodes
have the same share h of neighbours of their class and nobody in N_2(v) is of v's.

The uniform ρ is more than is needed: [P²]_ii ≥ [P²]_ij for every symmetric P with equal
diagonal entries of P² (Cauchy–Schwarz), so for the circular matrix of the paper's
synthetic graphs too.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph
from h2gcn.homophily import edge_ends, ring_homophily
from h2gcn.rings import exact_rings

__all__ = [
    "block_model_two_hop",
    "broadcast_tree",
    "is_homophily_dominant",
    "measured_two_hop",
    "two_hop_distribution",
    "two_hop_pairs",
    "two_hop_shares",
    "uniform_compatibility",
]


def uniform_compatibility(n_classes: int, homophily: float) -> NDArray[np.float64]:
    """Return P of Theorem 2: h on the diagonal and (1 − h)/(C − 1) elsewhere, [C, C].

    Examples
    --------
    >>> uniform_compatibility(3, 0.5)
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """
    c = check_integer("n_classes", n_classes, 2)
    h = check_real("homophily", homophily, "[0, 1]")
    matrix = np.full((c, c), (1 - h) / (c - 1))
    np.fill_diagonal(matrix, h)
    return matrix


def two_hop_distribution(compatibility: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P², [C, C]: row i is the distribution of labels two hops from class i.

    Examples
    --------
    >>> two_hop_distribution(uniform_compatibility(3, 0.0))
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """
    return np.asarray(compatibility @ compatibility)


def is_homophily_dominant(distribution: NDArray[np.float64]) -> bool:
    """Say whether no class has another label more often around it than its own.

    Parameters
    ----------
    distribution
        Row i: the labels around a node of class i, [C, C]. Rounding is forgiven.

    Examples
    --------
    >>> is_homophily_dominant(uniform_compatibility(3, 0.2))
    False
    """
    own = distribution.diagonal()[:, None]
    return bool((distribution <= own + 1e-12).all())


def broadcast_tree(
    n_nodes: int, compatibility: NDArray[np.float64], *, seed: int = 0
) -> Graph:
    """Draw a tree on which the assumptions of Theorem 2 hold exactly.

    Each node links to a random earlier one, whatever the labels, and takes its label
    from that node's row of P; the first is of any class with equal probability. For
    a symmetric P, the neighbours of any node are then independent given its label.

    Parameters
    ----------
    n_nodes
        Number of nodes n.
    compatibility
        P, [C, C]: symmetric, rows that sum to 1.
    seed
        The same seed gives the same tree.

    Examples
    --------
    >>> broadcast_tree(100, uniform_compatibility(3, 0.5))
    Graph('broadcast tree': 100 nodes, 99 edges, 1 features, 3 classes, 100 labelled)
    """
    n = check_integer("n_nodes", n_nodes, 2)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    n_classes = len(compatibility)
    parents = rng.integers(np.arange(1, n))
    bounds, chances = compatibility.cumsum(axis=1), rng.random(n)
    y = np.empty(n, dtype=np.int64)
    y[0] = rng.integers(n_classes)
    for child, parent in enumerate(parents, start=1):
        drawn = np.searchsorted(bounds[y[parent]], chances[child], side="right")
        y[child] = min(drawn, n_classes - 1)
    children = np.arange(1, n)
    ends = np.concatenate([parents, children]), np.concatenate([children, parents])
    adj = CSR((np.ones(2 * n - 2, np.float32), ends), shape=(n, n))
    classes = np.arange(n_classes)
    return Graph(
        x=np.ones((n, 1), np.float32),
        adj=adj,
        y=y,
        classes=classes,
        name="broadcast tree",
    )


def two_hop_pairs(graph: Graph) -> NDArray[np.int64]:
    """Count the ordered pairs at shortest distance exactly 2 by their labels, [C, C].

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> two_hop_pairs(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    array([[2, 0],
           [0, 0]])
    """
    return edge_ends(exact_rings(graph.adj, hops=2)[1], graph)


def two_hop_shares(
    pairs: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the labels around each class at distance 2, over graphs of one kind.

    With e_ij the pairs of the labels i and j in a graph, over those of all labels, the
    share is Σ e_ij / Σ_j Σ e_ij, the outer sums over the graphs. Its expectation is
    [P²]_ij on a tree whose labels have no influence on who is joined, as in
    `broadcast_tree`; the mean of each graph's own shares would be biased by the hubs,
    which decide how many pairs a class takes part in.

    Parameters
    ----------
    pairs
        What `two_hop_pairs` returns for each graph, [graphs, C, C]; in each at least
        one pair.

    Returns
    -------
    shares : ndarray
        Row i: the labels two hops from class i, [C, C]; a row of NaN where no graph
        has a pair of that class.
    errors : ndarray
        The standard errors of share(i, i) − share(i, j), [C, C], of a quotient of sums
        over graphs; NaN where there is a single graph.

    Examples
    --------
    >>> shares, errors = two_hop_shares(np.array([[[2, 1], [1, 0]], [[2, 1], [1, 0]]]))
    >>> shares.round(3), errors
    (array([[0.667, 0.333],
           [1.   , 0.   ]]), array([[0., 0.],
           [0., 0.]]))
    """
    counts = np.asarray(pairs, dtype=np.float64)
    joint = counts / counts.sum(axis=(1, 2), keepdims=True)
    rows = joint.sum(axis=2)
    n = len(joint)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = joint.mean(axis=0) / rows.mean(axis=0)[:, None]
        leads = shares.diagonal()[:, None] - shares
        own = np.diagonal(joint, axis1=1, axis2=2)[:, :, None]
        rest = own - joint - leads * rows[:, :, None]
        errors = np.sqrt((rest**2).sum(axis=0) / (n * (n - 1.0)))
        return shares, errors / rows.mean(axis=0)[:, None]


def measured_two_hop(graph: Graph) -> tuple[float, float]:
    """Measure how often a node two hops away is of one's own class, and of another.

    Over all ordered pairs at shortest distance exactly 2; NaN, with a warning, where
    there is none. This is the mean over classes; `two_hop_shares` has each pair of
    classes by itself, which is what homophily-dominance is about.

    Returns
    -------
    own : float
        The share of pairs of equal labels, to be compared with [P²]_ii.
    other : float
        The share of pairs with a given other label, the mean over the C − 1 of them,
        to be compared with [P²]_ij.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> measured_two_hop(Graph(x=np.eye(3), adj=path, y=[0, 1, 0]))
    (1.0, 0.0)
    """
    own = ring_homophily(graph, hops=2)[1]
    return own, (1 - own) / max(graph.n_classes - 1, 1)


def block_model_two_hop(
    n_classes: int, homophily: float, degree: float, nodes_per_class: int
) -> tuple[float, float]:
    """Return the exact expected shares of `measured_two_hop` in a block model.

    Pairs of nodes are joined independently, with probability p = hd/(n − 1) inside a
    class of n nodes and q = ρd/n between two: in expectation the neighbours of
    Theorem 1. A pair is at distance 2 if it is not joined and some third node is
    joined to both. Expected numbers of such pairs, by their labels, give the shares.

    Both tend to P² as n grows while d stays.

    Parameters
    ----------
    n_classes, homophily, degree
        C, h and d.
    nodes_per_class
        n, at least 2 and enough that p and q are not above 1.

    Examples
    --------
    >>> own, other = block_model_two_hop(3, 0.5, 4, 100_000)  # P²: 0.375, 0.3125
    >>> round(own, 4), round(other, 4)
    (0.375, 0.3125)
    >>> own, other = block_model_two_hop(2, 0.7, 40, 40)  # dense: P² has 0.58, 0.42
    >>> round(own, 4), round(other, 4)
    (0.2821, 0.7179)
    """
    owner = "block_model_two_hop"
    n = check_integer("nodes_per_class", nodes_per_class, 2)
    matrix = uniform_compatibility(n_classes, homophily)
    d = check_real("degree", degree, "(0, inf)")
    p, q = matrix[0, 0] * d / (n - 1), matrix[0, 1] * d / n
    if max(p, q) > 1:
        raise InputError(
            f"must leave room for all neighbours among {n} nodes a class",
            param="degree",
            value=degree,
        )
    # Third nodes: of the pair's own classes, and of all the others. Logarithms keep
    # what 1 − (1 − p²)^n would lose where p² is near the rounding of 1.
    apart = xlog1py(n - 2, -p * p) + xlog1py(n * (n_classes - 1), -q * q)
    equal = (n - 1) * (1 - p) * abs(np.expm1(apart))
    apart = xlog1py(2 * (n - 1), -p * q) + xlog1py(n * (n_classes - 2), -q * q)
    unequal = n * (1 - q) * abs(np.expm1(apart))
    total = equal + (n_classes - 1) * unequal
    if not total:
        raise InputError(f"{owner}: no two nodes of such a graph are at distance 2.")
    return float(equal / total), float(unequal / total)
