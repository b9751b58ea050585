"""Compatibility matrices, estimated from training nodes, and modules that use one.

Entry H[i, j] of a compatibility matrix, [C, C], is the fraction of the neighbors of a
node of class i that are of class j. `h2gcn.homophily.compatibility_matrix` measures it
on a labeled graph. The estimates here fill every entry, for models that propagate by H.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from h2gcn.models.base import LabelModule
from h2gcn.models.options import between
from h2gcn.sparse import LinearMap
from h2gcn.training import Trainer

SINKHORN_TOLERANCE = 1e-12  # summed change of all entries
SINKHORN_STEPS = 3000
SMOOTHING = 0.01  # weight of the evenly spread edges that `from_edges` adds

ClassPrior = Annotated[
    float,
    between("[0, 1]"),
    "Weight of the class frequencies in the prior; the rest is uniform",
]


def project(matrix: Tensor) -> Tensor:
    """Return ½(S + Sᵀ), [C, C], where S is a matrix whose rows and columns sum to one.

    S is the matrix with its columns and rows scaled in turn (Sinkhorn and Knopp), rows
    last, until the entries change by less than 1e-12 in sum, or 3,000 times: it need
    not converge unless all entries are positive. A row or column of zeros stays as it
    is. The result is float64, on the CPU.

    Examples
    --------
    >>> project(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
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
    return (scaled + scaled.T) / 2


def from_edges(adj: LinearMap, known: Tensor) -> Tensor:
    """Return the compatibility of the edges between training nodes, [C, C], float64.

        M = Yᵀ A Y
        H = project(M + 0.01 mean(M))

    The added hundredth makes every entry positive, so H is symmetric and doubly
    stochastic even if no edge joins some pairs of classes. A class without any such
    edge has 1/C in its row and column, and the other classes share the rest of their
    rows as above.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix A or a multiple of it, [n, n].
    known
        One-hot labels Y of the training nodes, zero elsewhere, [n, C].
    """
    n_classes = known.shape[1]
    counts = (known.T @ (adj @ known)).cpu().double()
    seen = torch.nonzero(counts.sum(dim=1) > 0)[:, 0]
    result = torch.full_like(counts, 1 / n_classes)
    if len(seen):
        block = counts[seen][:, seen]
        fractions = project(block + SMOOTHING * block.mean())
        result[seen[:, None], seen] = fractions * (len(seen) / n_classes)
    return result


def from_neighbors(adj: LinearMap, beliefs: Tensor, known: Tensor) -> Tensor:
    """Return the compatibility of training nodes with their neighbors, [C, C], float64.

        H_c = mean of (D⁻¹ A B)_v over the training nodes v of class c

    and then `project`. Training nodes without neighbors are omitted. The row of a class
    that has none left is filled with its column; entries that are still missing then
    share equally what the row lacks of one.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix A, [n, n].
    beliefs
        B, the class probabilities of each node, [n, C].
    known
        One-hot labels of the training nodes, zero elsewhere, [n, C].
    """
    degrees = adj @ beliefs.new_ones(len(beliefs), 1)
    means = (adj @ beliefs) / degrees.clamp(min=1)
    sums, counts = known.T @ means, known.T @ (degrees > 0).to(known.dtype)
    h = (sums / counts).cpu().double()  # 0/0, NaN: a missing row
    h = torch.where(h.isnan(), h.T, h)
    missing = h.isnan()
    # A filled row may already sum to more than one.
    lacking = (1 - h.nansum(dim=1, keepdim=True)).clamp(min=0)
    h = torch.where(missing, lacking / missing.sum(dim=1, keepdim=True), h)
    return project(h)


class CompatibilityModule(LabelModule):
    """A module without weights that propagates labels by an estimated compatibility.

    H is doubly stochastic and does not know which classes are frequent; the prior of
    nodes without a label may.

    Attributes
    ----------
    compatibility
        H, [C, C], uniform until `fit`.
    class_frequencies
        Of the training nodes, with one more node per class, [C]; uniform until `fit`.
    """

    compatibility: Tensor
    class_frequencies: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, *, class_prior: float
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.class_prior = class_prior
        uniform = torch.full((out_channels, out_channels), 1 / out_channels)
        self.register_buffer("compatibility", uniform)
        self.register_buffer("class_frequencies", uniform[0].clone())

    def fit(self, trainer: Trainer) -> None:
        """Estimate the compatibility and the class frequencies."""
        known = trainer.x
        assert isinstance(known, Tensor)
        self.compatibility.copy_(from_edges(trainer.graph.matrices[0], known))
        counts = known.sum(dim=0) + 1
        self.class_frequencies.copy_(counts / counts.sum())

    @property
    def prior(self) -> Tensor:
        """The class probabilities of a node without a label and without edges, [C]."""
        uniform = torch.full_like(self.class_frequencies, 1 / self.out_channels)
        return uniform.lerp(self.class_frequencies, self.class_prior)
