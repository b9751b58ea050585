"""Label propagation, and what all models that propagate known labels share."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.features import Input
from h2gcn.models.base import LabelModule
from h2gcn.models.decompose import (
    Contribution,
    Decomposition,
    constant,
    node_weights,
    to_numpy,
)
from h2gcn.models.options import Steps, between
from h2gcn.sparse import LinearMap, Propagation

FLOOR = 1e-12  # the smallest probability, so that its logarithm is finite
ROUNDING = 1e-5  # relative difference of float32 sums in another order

Alpha = Annotated[float, between("(0, 1)"), "Weight α of the neighbors"]


def level_ties(scores: Tensor) -> Tensor:
    """Return scores, [m, C], with those equal that differ by rounding from the best.

    The first of several best classes is predicted, on any processor the same. Rounding
    is relative to the best score: logits near zero go through a log-softmax first, in
    which tied classes are at most log ½.
    """
    best = scores.amax(dim=1, keepdim=True)
    return torch.where(scores >= best - ROUNDING * best.abs(), best, scores)


def log_shares(scores: Tensor) -> Tensor:
    """Return the logarithm of each class's share of a row of scores ≥ 0, [m, C].

    Classes of a row of zeros are equal.
    """
    totals = scores.sum(dim=1, keepdim=True)
    shares = torch.where(totals > 0, scores / totals, 1 / scores.shape[1])
    return level_ties(shares.clamp(min=FLOOR).log())


class LabelPropagation(LabelModule):
    """Label propagation (Zhou et al., NeurIPS 2003), over one hop or two.

        F⁽⁰⁾ = Y
        F⁽ᵗ⁺¹⁾ = α Sʰ F⁽ᵗ⁾ + (1 − α) Y
        logits = log(F_v / Σ_c F_vc)

    Y are the training labels, one-hot, with rows of zeros for all other nodes, and
    S = D^-1/2 A D^-1/2. With two hops (h = 2) labels pass to neighbors of neighbors,
    for graphs whose neighbors differ but whose neighbors' neighbors are alike (Peel,
    SDM 2017). S² is S applied twice: a node is its own neighbor's neighbor, and a pair
    counts once for every node between.

    A probability is at least 1e-12. A node in a component without labels has equal
    scores.

    Departures from the papers: the closed form (1 − α) (I − α S)⁻¹ Y is approximated by
    the iteration, to αᵗ. Training labels are not clamped as in Zhu and Ghahramani
    (2002), since their nodes are never scored. Values are not cut off at 1, as PyG's
    module does, which would make different classes equal at hubs.

    Parameters
    ----------
    power
        h, 1 or 2.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        alpha: Alpha = 0.9,
        steps: Annotated[Steps, "Number of iterations t"] = 50,
        power: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.alpha, self.steps, self.power = alpha, steps, power

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return the log-probabilities of the target nodes, [m, C]."""
        return log_shares(graph.pick(self._spread(graph.matrices[0], x)))

    def _spread(self, s: LinearMap, labels: Tensor) -> Tensor:
        scores = labels
        for _ in range(self.steps):
            for _ in range(self.power):
                scores = s @ scores
            scores = self.alpha * scores + (1 - self.alpha) * labels
        return scores

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split the class shares by labeled node."""
        weights = node_weights(
            lambda y: graph.pick(self._spread(graph.matrices[0], y))[0], x
        )
        assert isinstance(x, Tensor)
        return decompose_shares(weights * to_numpy(x), graph)


def decompose_shares(by_node: NDArray[np.float64], graph: Propagation) -> Decomposition:
    """Split the class shares of the target node by labeled node.

    `by_node` is what each node's label adds to the score of each class, [n, C].
    """
    total, n_classes = by_node.sum(), by_node.shape[1]
    if total == 0:
        equal = np.full(n_classes, 1 / n_classes)
        part = constant("nothing is known: all classes are equal", equal)
        return Decomposition((part,), "exact: no label reaches the node", "share")
    how = "exact by labeled node: the logit is the logarithm of a sum of shares"
    return Decomposition(decompose_labels(by_node / total, graph), how, "share")


def decompose_labels(
    by_node: NDArray[np.float64], graph: Propagation
) -> tuple[Contribution, ...]:
    """Return what the target node's own label adds, and what all other labels add.

    `by_node` is what each node's label adds, [n, C].
    """
    known = np.flatnonzero(by_node.any(axis=1))
    assert graph.index is not None
    own = known == int(graph.index[0])
    to_classes = np.eye(by_node.shape[1])
    return tuple(
        Contribution(name, by_node[known[some]], to_classes, known[some])
        for name, some in (
            ("its own training label", own),
            ("training labels of other nodes", ~own),
        )
        if some.any()
    )
