"""Label propagation, and what all models that spread known labels share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, Input
from h2gcn.models.base import MAX_STEPS, NodeModule
from h2gcn.models.decompose import (
    Contribution,
    Decomposition,
    constant,
    node_weights,
    to_numpy,
)
from h2gcn.sparse import LinearMap, Operator, Propagation

__all__ = [
    "FLOOR",
    "TIE",
    "LabelPropagation",
    "as_labels",
    "check_label_channels",
    "decompose_labels",
    "decompose_shares",
    "level_ties",
    "log_shares",
    "reached_nodes",
]

FLOOR = 1e-12  # the smallest probability, so that its logarithm is finite
TIE = 1e-5  # relative difference that float32 sums in another order can make


def check_label_channels(in_channels: int, out_channels: int) -> None:
    """Raise unless the input has one column per class."""
    check_integer("in_channels", in_channels, 1)
    check_integer("out_channels", out_channels, 1)
    if in_channels != out_channels:
        raise InputError(
            f"must be out_channels, {out_channels}: the model takes labels, one column "
            "per class, not features",
            param="in_channels",
            value=in_channels,
        )


def as_labels(x: Input, n_classes: int) -> Tensor:
    """Return the labels as a dense tensor, [n, C]."""
    assert not isinstance(x, FeatureTable)
    return x @ torch.eye(n_classes, device=x.device)


def level_ties(scores: Tensor, size: Tensor | float = 1.0) -> Tensor:
    """Return scores, [m, C], with those equal that rounding may have told apart.

    `size` is the magnitude of the numbers that were added, [m, 1] or one for all. The
    first of several best classes is predicted, so it must not depend on the processor.
    """
    best = scores.amax(dim=1, keepdim=True)
    return torch.where(scores >= best - TIE * size, best, scores)


def log_shares(scores: Tensor) -> Tensor:
    """Return the logarithm of each class's share of a row of scores ≥ 0, [m, C].

    Classes of a row of zeros are equal.
    """
    totals = scores.sum(dim=1, keepdim=True)
    # Divided by 1, not by 0, whose gradient would be NaN.
    shares = scores / torch.where(totals > 0, totals, 1)
    shares = torch.where(totals > 0, shares, 1 / scores.shape[1])
    return level_ties(shares.clamp(min=FLOOR).log())


def reached_nodes(labels: Tensor, operator: LinearMap, *, hops: int = 1) -> Tensor:
    """Return which nodes are in a connected component with a label, [n].

    With two hops, neighbors are joined through the node between them: a bipartite graph
    falls into its two sides. The labels are [n, C], with rows of zeros where there is
    none, and the operator is a symmetric matrix with the edges of the graph, [n, n].
    """
    adj = sp.csr_array(operator.take(np.arange(len(labels))))
    if hops == 2:  # walks of even length from u end on u's side of A's double cover
        adj = sp.block_array([[None, adj], [adj, None]], format="csr")
    _, component = sp.csgraph.connected_components(adj, directed=False)
    component = component[: len(labels)]
    known = (labels != 0).any(dim=1).cpu().numpy()
    reached = np.isin(component, component[known])
    return torch.from_numpy(reached).to(labels.device)


class LabelPropagation(NodeModule):
    """Label propagation (Zhou et al., NeurIPS 2003), over one hop or two.

        F⁽⁰⁾ = Y
        F⁽ᵗ⁺¹⁾ = α Sʰ F⁽ᵗ⁾ + (1 − α) Y
        logits = log(F_v / Σ_c F_vc)

    Y are the training labels, one-hot, with rows of zeros for all other nodes, and
    S = D^-1/2 A D^-1/2. With two hops (h = 2) labels pass to neighbors of neighbors,
    for graphs whose neighbors differ but whose neighbors' neighbors are alike (Peel,
    SDM 2017). S² is S applied twice: a node is its own neighbor's neighbor, and a pair
    counts once for every node between.

    A probability is at least 1e-12. A node that no label reaches has equal scores.

    Departures from the papers: the closed form (1 − α) (I − α S)⁻¹ Y is approximated by
    the iteration, to αᵗ. Training labels are not clamped as in Zhu and Ghahramani
    (2002), since their nodes are never scored. Values are not cut off at 1, as PyG's
    module does, which would make different classes equal at hubs.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    alpha
        α, the weight of the neighbors.
    steps
        Number of iterations t.
    hops
        h, 1 or 2.

    Notes
    -----
    Shapes: `x` [n, |Y|] the labels Y, the matrix S [n, n], logits [m, |Y|] of m target
    nodes. There are no weights.
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

    def reached(self, x: Input, graph: Propagation) -> Tensor:
        """Return which nodes a label can reach, [n]."""
        labels = as_labels(x, self.out_channels)
        return reached_nodes(labels, graph.matrices[0], hops=self.hops)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the log-probabilities of the target nodes, [m, |Y|]."""
        scores = self._spread(graph.matrices[0], as_labels(x, self.out_channels))
        return log_shares(graph.pick(scores))

    def _spread(self, s: LinearMap, labels: Tensor) -> Tensor:
        scores = labels
        for _ in range(self.steps):
            for _ in range(self.hops):
                scores = s @ scores
            scores = self.alpha * scores + (1 - self.alpha) * labels
        return scores

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split the class shares by labeled node."""
        weights = node_weights(
            lambda y: graph.pick(self._spread(graph.matrices[0], y))[0], x
        )
        labels = to_numpy(as_labels(x, self.out_channels))
        return decompose_shares(weights * labels, graph)


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
