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
    "homophily_threshold",
    "neighbour_numbers",
    "optimal_weights",
    "perturbation_needed",
]


def neighbour_numbers(
    owner: str, homophily: float, degree: float, n_classes: int
) -> tuple[float, float]:
    """Return a node's neighbours in its own class, hd, and in each other, ρd.

    `owner` is whose parameters these are, for the message if one is out of bounds.

    Examples
    --------
    >>> neighbour_numbers("example", 0.5, 4, 3)
    (2.0, 1.0)
    """
    h = check_real(owner, "homophily", homophily, "[0, 1]")
    d = check_real(owner, "degree", degree, "(0, inf)")
    c = check_integer(owner, "n_classes", n_classes, 2)
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
    own, other = neighbour_numbers("perturbation_needed", homophily, degree, n_classes)
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
    own, other = neighbour_numbers("optimal_weights", homophily, degree, n_classes)
    lead = own + self_loops - other
    if not lead:
        raise InputError(
            f"There are no optimal weights at h = {homophily}, d = {degree}, "
            f"C = {n_classes}: the aggregated features of all classes are the same."
        )
    weights: NDArray[np.float64] = np.eye(n_classes) - other / (degree + self_loops)
    return weights / lead
