"""Compatibility matrices, estimated from training nodes, and modules that use one.

Entry H[i, j] of a compatibility matrix, [C, C], is the fraction of the neighbors of a
node of class i that are of class j. `h2gcn.homophily.compatibility_matrix` measures it
on a labeled graph. The estimates here fill every entry, for models that propagate by H.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_real
from h2gcn.features import Input
from h2gcn.models.base import NodeModule
from h2gcn.models.label_propagation import (
    as_labels,
    check_label_channels,
    reached_nodes,
)
from h2gcn.sparse import LinearMap, Propagation

__all__ = [
    "CompatibilityModule",
    "from_edges",
    "from_neighbors",
    "project",
    "sinkhorn",
]

SINKHORN_TOLERANCE = 1e-12  # summed change of all entries
SINKHORN_STEPS = 3000
SMOOTHING = 0.01  # weight of the evenly spread edges that `from_edges` adds
UNIFORM = 1e-6  # H is uniform, up to rounding, if it is closer to 1/C


def sinkhorn(matrix: Tensor) -> Tensor:
    """Scale columns and rows in turn until all of them sum to one.

    Ends when the entries change by less than 1e-12 in sum, or after 3,000 rounds: not
    every pattern of zeros has a doubly stochastic scaling. Rows are scaled last. A row
    or column of zeros stays as it is. Takes and returns [C, C]; the result is float64,
    on the CPU.

    Examples
    --------
    >>> sinkhorn(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    tensor([[0.3333, 0.6667],
            [0.6667, 0.3333]], dtype=torch.float64)
    """
    scaled = matrix.detach().cpu().double()
    for _ in range(SINKHORN_STEPS):
        before = scaled
        for axis in (0, 1):
            sums = scaled.sum(dim=axis, keepdim=True)
            scaled = scaled / torch.where(sums > 0, sums, 1)
        if (scaled - before).abs().sum() < SINKHORN_TOLERANCE:
            break
    return scaled


def project(matrix: Tensor) -> Tensor:
    """Return ½(H + Hᵀ) of the scaled matrix, [C, C]: symmetric, doubly stochastic.

    Doubly stochastic only where `sinkhorn` converges, as it does for positive entries.
    """
    scaled = sinkhorn(matrix)
    return (scaled + scaled.T) / 2


def from_edges(adj: LinearMap, labels: Tensor, index: Tensor, n_classes: int) -> Tensor:
    """Return the compatibility of the edges between training nodes, [C, C], float64.

        M = Xᵀ A X
        H = project(M + 0.01 mean(M))

    with the one-hot training labels X. The added hundredth makes every entry positive,
    so that H is symmetric and doubly stochastic whichever pairs of classes were seen.
    A class without such an edge has 1/C in its row and column, and the other classes
    share the rest of their rows as above.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix or a multiple of it, [n, n].
    labels, index
        The training nodes and their classes, [m] each.
    n_classes
        Number of classes C.
    """
    one_hot = functional.one_hot(labels, n_classes).float()
    known = one_hot.new_zeros(adj.shape[0], n_classes)
    known[index] = one_hot
    counts = (known.T @ (adj @ known)).cpu().double()
    seen = torch.nonzero(counts.sum(dim=1) > 0)[:, 0]
    result = torch.full((n_classes, n_classes), 1 / n_classes, dtype=torch.float64)
    if len(seen):
        block = counts[seen][:, seen]
        fractions = project(block + SMOOTHING * block.mean())
        result[seen[:, None], seen] = fractions * (len(seen) / n_classes)
    return result


def from_neighbors(
    adj: LinearMap, beliefs: Tensor, labels: Tensor, index: Tensor
) -> Tensor:
    """Return the compatibility of training nodes with their neighbors, [C, C], float64.

        H_c = mean of (D⁻¹ A B)_v over the training nodes v of class c

    and then `project`. Training nodes without neighbors are left out. The row of a
    class that has none left is filled with its column; entries that are then still
    missing share equally what the row lacks of one.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    beliefs
        B, the class probabilities of each node, [n, C].
    labels, index
        The training nodes and their classes, [m] each.
    """
    degrees = adj @ beliefs.new_ones(len(beliefs), 1)
    means = (adj @ beliefs) / degrees.clamp(min=1)
    connected = degrees[index, 0] > 0
    members = functional.one_hot(labels[connected], beliefs.shape[1]).to(beliefs.dtype)
    sums = (members.T @ means[index[connected]]).cpu().double()
    h = sums / members.sum(dim=0).cpu().double()[:, None]  # 0/0, NaN: a missing row
    h = torch.where(h.isnan(), h.T, h)
    missing = h.isnan()
    # A filled row may already sum to more than one.
    lacking = (1 - h.nansum(dim=1, keepdim=True)).clamp(min=0)
    h = torch.where(missing, lacking / missing.sum(dim=1, keepdim=True), h)
    return project(h)


class CompatibilityModule(NodeModule):
    """A module without weights that spreads labels by an estimated compatibility.

    Attributes
    ----------
    compatibility
        H, [|Y|, |Y|], uniform until `initialise` estimates it.
    class_shares
        Frequencies of the classes among the training nodes, with one more node in each,
        [|Y|]; uniform until `initialise`.
    class_prior
        Weight of these frequencies in the prior of nodes without a label; the rest is
        uniform. H is doubly stochastic and does not know which classes are common.
    """

    compatibility: Tensor
    class_shares: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, *, class_prior: float
    ) -> None:
        check_label_channels(in_channels, out_channels)
        super().__init__(in_channels, out_channels)
        self.class_prior = check_real("class_prior", class_prior, "[0, 1]")
        uniform = torch.full((out_channels, out_channels), 1 / out_channels)
        self.register_buffer("compatibility", uniform)
        self.register_buffer("class_shares", uniform[0].clone())

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Estimate the compatibility and the class frequencies."""
        del x
        estimate = from_edges(graph.matrices[0], labels, index, self.out_channels)
        self.compatibility.copy_(estimate)
        counts = torch.bincount(labels, minlength=self.out_channels) + 1
        self.class_shares.copy_(counts / counts.sum())

    def reached(self, x: Input, graph: Propagation) -> Tensor:
        """Return which nodes a label can reach, [n]; a uniform H passes none on."""
        labels = as_labels(x, self.out_channels)
        if self._residual_norm():
            return reached_nodes(labels, graph.matrices[0])
        return (labels != 0).any(dim=1)

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not this module's, None if they are."""
        problem = super().state_problem(state)
        if problem is None and not bool((state["class_shares"] > 0).all()):
            return "class_shares has numbers that are not positive"
        return problem

    def _residual_norm(self) -> float:
        """Return ‖H − 1/|Y|‖₂, zero if that is rounding."""
        residual = self.compatibility.cpu() - 1 / self.out_channels
        norm = float(torch.linalg.matrix_norm(residual, 2))
        return norm if norm >= UNIFORM else 0.0

    def _class_lead(self) -> Tensor:
        """Return the prior of a node without a label, less 1/|Y|, [|Y|]."""
        return self.class_prior * (self.class_shares - 1 / self.out_channels)
