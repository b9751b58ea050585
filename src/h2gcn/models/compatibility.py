"""How likely classes are to be neighbours, estimated from the training nodes.

A compatibility matrix H, [C, C], says in H[i, j] which share of a node of class i's
neighbours are of class j. `h2gcn.homophily.compatibility_matrix` measures it on a
graph whose labels are known; the functions here guess it from the training nodes for
models that propagate by it, and so must find a value for every entry.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import quoted
from h2gcn.exceptions import InputError
from h2gcn.sparse import LinearMap

__all__ = ["from_edges", "from_neighbours", "project", "row_normalised", "sinkhorn"]

TOLERANCE = 1e-12
"""Change of all entries together, below which Sinkhorn's iteration ends."""
ITERATIONS = 3000
"""How often rows and columns are scaled, at most."""
SMOOTHING = 0.01
"""Weight of the evenly spread edges that `from_edges` adds to those it counts."""


def row_normalised(owner: str, matrix: ArrayLike, n_classes: int) -> Tensor:
    """Return a given compatibility matrix with rows that sum to one, else raise.

    Parameters
    ----------
    owner
        Whose parameter 'compatibility' it is, for the message.
    matrix
        [C, C].
    n_classes
        Number of classes C.
    """
    rule = (
        f"The 'compatibility' parameter of {owner} must be {n_classes} x {n_classes} "
        "numbers, finite and not negative, with a positive one in each row. Got "
    )
    try:
        numbers = np.asarray(matrix, dtype=np.float64)
    except (OverflowError, RecursionError, TypeError, ValueError):
        raise InputError(f"{rule}{quoted(matrix)} instead.") from None
    if numbers.shape != (n_classes, n_classes):
        raise InputError(f"{rule}the shape {numbers.shape} instead.")
    sums = numbers.sum(axis=1, keepdims=True)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and (sums > 0).all()):
        raise InputError(f"{rule}{str(numbers.tolist())[:200]} instead.")
    return torch.from_numpy((numbers / sums).astype(np.float32))


def sinkhorn(matrix: Tensor) -> Tensor:
    """Scale columns and rows in turn until all of them sum to one.

    It ends when the entries change by less than 1e-12 together, or after 3,000 turns:
    not every pattern of zeros leaves a doubly stochastic matrix. Rows are scaled
    last. A column or row of zeros stays as it is.

    Parameters
    ----------
    matrix
        No entry negative, [C, C].

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.

    Examples
    --------
    >>> sinkhorn(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    tensor([[0.3333, 0.6667],
            [0.6667, 0.3333]], dtype=torch.float64)
    """
    # First to the processor: not every device has double precision.
    scaled = matrix.detach().cpu().double()
    for _ in range(ITERATIONS):
        before = scaled
        for axis in (0, 1):
            sums = scaled.sum(dim=axis, keepdim=True)
            scaled = scaled / torch.where(sums > 0, sums, 1)
        if (scaled - before).abs().sum() < TOLERANCE:
            break
    return scaled


def project(matrix: Tensor) -> Tensor:
    """Return ½(H + Hᵀ) of the scaled matrix: symmetric and doubly stochastic.

    Doubly stochastic only where `sinkhorn` comes to an end, as it does whenever all
    entries are positive.

    Parameters
    ----------
    matrix
        No entry negative, [C, C].
    """
    scaled = sinkhorn(matrix)
    return (scaled + scaled.T) / 2


def from_edges(adj: LinearMap, labels: Tensor, index: Tensor, n_classes: int) -> Tensor:
    r"""Return the compatibility of the edges that join two training nodes.

    .. math::
        M = X^\top A X, \quad H = \mathrm{project}(M + 0.01\, \bar M)

    with the one-hot training labels X (zero rows for other nodes) and the mean entry
    :math:`\bar M`. The evenly spread hundredth keeps every entry positive, so that H
    is symmetric and doubly stochastic whichever pairs of classes were seen.

    A class without such an edge says nothing: its row and column are 1/C, and the
    other classes share the rest of their rows as above.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix or a multiple of it, [n, n].
    labels
        Classes of the training nodes, [m].
    index
        The training nodes, [m].
    n_classes
        Number of classes C.

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.
    """
    one_hot = functional.one_hot(labels, n_classes).float()
    known = one_hot.new_zeros(adj.shape[0], n_classes)
    known[index] = one_hot
    counts = (known.T @ (adj @ known)).cpu().double()
    seen = torch.nonzero(counts.sum(dim=1) > 0)[:, 0]
    result = torch.full((n_classes, n_classes), 1 / n_classes, dtype=torch.float64)
    if len(seen):
        block = counts[seen][:, seen]
        shares = project(block + SMOOTHING * block.mean())
        result[seen[:, None], seen] = shares * (len(seen) / n_classes)
    return result


def from_neighbours(
    adj: LinearMap, beliefs: Tensor, labels: Tensor, index: Tensor
) -> Tensor:
    r"""Return the compatibility of training nodes with what their neighbours may be.

    .. math::
        H_{c \cdot} = \operatorname{mean}_{v \in \text{train}, y_v = c}
        (D^{-1} A\, Y)_{v \cdot}

    and then `project`. Training nodes without neighbours are left out. The row of a
    class that has none left is filled with its column; what is then still missing
    takes equal shares of what the row lacks of one.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    beliefs
        Y, the probabilities of each node's classes, [n, C].
    labels
        Classes of the training nodes, [m].
    index
        The training nodes, [m].

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.
    """
    degrees = adj @ beliefs.new_ones(len(beliefs), 1)
    shares = (adj @ beliefs) / degrees.clamp(min=1)
    has = degrees[index, 0] > 0
    members = functional.one_hot(labels[has], beliefs.shape[1]).to(beliefs.dtype)
    sums = (members.T @ shares[index[has]]).cpu().double()
    # 0/0 is NaN, which here says that the row is missing.
    h = sums / members.sum(dim=0).cpu().double()[:, None]
    h = torch.where(h.isnan(), h.T, h)
    missing = h.isnan()
    # A filled row may hold more than one already; a share is never negative.
    lacking = (1 - h.nansum(dim=1, keepdim=True)).clamp(min=0)
    h = torch.where(missing, lacking / missing.sum(dim=1, keepdim=True), h)
    return project(h)
