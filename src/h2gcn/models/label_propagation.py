"""Labels that spread along edges, without weights: label propagation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS, ExactSum, NodeModule, Summand
from h2gcn.ring_table import Input, TableInput
from h2gcn.rings import normalise
from h2gcn.sparse import LinearMap, Operator, Target

__all__ = [
    "FLOOR",
    "TIE",
    "LabelPropagation",
    "as_labels",
    "check_label_channels",
    "log_shares",
    "normalised_adjacency",
    "of_labels",
    "reached_nodes",
    "sum_of_shares",
]

FLOOR = 1e-12
"""The least probability, so that its logarithm is finite."""
TIE = 1e-5
"""How far apart, relative to the larger, rounding alone can bring two shares.

Processors add in different orders, with 32-bit floats, `steps` times.
"""


def check_label_channels(in_channels: int, out_channels: int) -> None:
    """Raise where the columns of `x` cannot be one for each class."""
    check_integer("in_channels", in_channels, 1)
    check_integer("out_channels", out_channels, 1)
    if in_channels != out_channels:
        raise InputError(
            f"must be out_channels, {out_channels}: it takes labels, one column a "
            "class, not features",
            param="in_channels",
            value=in_channels,
        )


def as_labels(x: Input, n_classes: int) -> Tensor:
    """Return the labels as a tensor, [n, C]: their product with I."""
    assert not isinstance(x, TableInput)
    return x @ torch.eye(n_classes, device=x.device)


def normalised_adjacency(adj: CSR) -> tuple[CSR, ...]:
    """Return S = D^-1/2 A D^-1/2, without self-loops, as the only operator."""
    return (normalise(adj),)


def log_shares(scores: Tensor) -> Tensor:
    """Return the logarithm of each class's share of a row, [m, C].

    Shares that are best up to rounding are equal; so are all of a row of zeros.

    Parameters
    ----------
    scores
        No entry negative, [m, C].
    """
    totals = scores.sum(dim=1, keepdim=True)
    reached = totals > 0
    shares = torch.where(
        reached, scores / torch.where(reached, totals, 1), 1 / scores.shape[1]
    )
    best = shares.amax(dim=1, keepdim=True)
    shares = torch.where(shares >= (1 - TIE) * best, best, shares)
    return shares.clamp(min=FLOOR).log()


def reached_nodes(
    labels: Tensor, operator: LinearMap, steps: int, hops: int = 1
) -> Tensor:
    """Return which nodes labels can have come to, [n].

    Equal scores do not tell: two classes can also be heard equally well.

    Parameters
    ----------
    labels
        Rows of zeros where there is no label, [n, C].
    operator
        Positive wherever a label passes, [n, n].
    steps, hops
        How often it passes, and over how many edges at a time.
    """
    known = (labels != 0).any(dim=1, keepdim=True)
    reached = known
    for _ in range(steps):
        heard = reached
        for _ in range(hops):
            heard = operator @ heard.float() > 0
        before, reached = reached, known | heard
        if torch.equal(before, reached):
            break
    return reached[:, 0]


class LabelPropagation(NodeModule):
    r"""Label propagation (Zhou et al., NeurIPS 2003), over one hop or two.

    .. math::
        F^{(0)} = Y, \quad F^{(t+1)} = \alpha\, S^h F^{(t)} + (1 - \alpha)\, Y, \quad
        \text{logits} = \log(F_v / \textstyle\sum_c F_{vc})

    Y are the training labels, one-hot, with zero rows for all other nodes. With two
    hops (h = 2) labels pass to neighbours of neighbours, for graphs whose neighbours
    differ but whose neighbours' neighbours are alike (Peel, SDM 2017). S² is S applied
    twice, so a node is its own neighbour's neighbour, and a pair counts once for every
    node between.

    The original gives the limit :math:`(1 - \alpha)(I - \alpha S)^{-1} Y` as a closed
    form; the iteration comes within :math:`\alpha^t` of it. Training labels are not
    held fast as in Zhu and Ghahramani (2002): their nodes' scores are never asked for
    in validation or test. Values are not cut off at 1 either, as PyG's module does:
    at hubs that would make different classes equal.

    A probability is at least 1e-12. A node that no label reaches has equal scores, and
    so have classes that a node hears best and equally well, up to rounding: which of
    them is predicted (the first) does not depend on the processor.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    alpha
        α, how much a node takes from its neighbours.
    steps
        Number of iterations t.
    hops
        h, 1 or 2.

    Notes
    -----
    Shapes: `x` [n, |Y|] the labels Y, the operator S [n, n] (see
    `normalised_adjacency`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    There are no weights.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        alpha: float = 0.9,
        steps: int = 50,
        hops: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_label_channels(in_channels, out_channels)
        self.alpha = check_real("alpha", alpha, "(0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.hops = check_integer("hops", hops, 1, 2)

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def reached(self, x: Input, operators: Sequence[LinearMap]) -> Tensor:
        """Return which nodes a label reaches, [n]."""
        return reached_nodes(
            as_labels(x, self.out_channels), operators[0], self.steps, self.hops
        )

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the log-probabilities of all nodes, [n, |Y|], or of the target's."""
        scores = self._spread(operators[0], as_labels(x, self.out_channels))
        # Nothing is trained, so there is no step to make cheaper by the target's rows.
        return log_shares(scores if target is None else scores[target.index])

    def _spread(self, s: LinearMap, labels: Tensor) -> Tensor:
        """Return F after all steps: it is linear in the labels."""
        scores = labels
        for _ in range(self.steps):
            for _ in range(self.hops):
                scores = s @ scores
            scores = self.alpha * scores + (1 - self.alpha) * labels
        return scores

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the shares of the classes as a sum over the labelled nodes.

        The operator is symmetric: what a node hears of another is what that one would
        hear of it.
        """
        labels = as_labels(x, self.out_channels)
        only = labels.new_zeros(len(labels), 1)
        only[node] = 1
        heard = self._spread(operators[0], only)[:, 0].cpu().numpy().astype(np.float64)
        return sum_of_shares(heard[:, None] * labels.cpu().numpy(), node)


def sum_of_shares(by_node: NDArray[np.float64], node: int) -> ExactSum:
    """Return the shares of a node's classes as a sum over the labelled nodes.

    Parameters
    ----------
    by_node
        What each node's label adds to the score of each class, [n, C].
    node
        The node.
    """
    total, n_classes = by_node.sum(), by_node.shape[1]
    if total == 0:
        equal = np.full(n_classes, 1 / n_classes)
        part = Summand(equal, "nothing is known: all classes are equal")
        return ExactSum((part,), "exact: no label reaches the node", "share")
    how = (
        "exact by labelled node: what is a sum is the share of each class, and the "
        "logit is its logarithm"
    )
    return ExactSum(of_labels(by_node / total, node), how, "share")


def of_labels(by_node: NDArray[np.float64], node: int) -> tuple[Summand, ...]:
    """Return what the node's own label adds, and what all others do.

    Parameters
    ----------
    by_node
        What each node's label adds, [n, C].
    node
        The node.
    """
    seeds = np.flatnonzero(by_node.any(axis=1))
    return tuple(
        Summand(by_node[some].sum(axis=0), name, nodes=some, by_node=by_node[some])
        for name, some in (
            ("its own training label", seeds[seeds == node]),
            ("training labels of other nodes", seeds[seeds != node]),
        )
        if len(some)
    )
