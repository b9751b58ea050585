"""Linearized belief propagation: LinBP, and ZooBP with its tighter bound."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn._validation import check_bool, check_integer, check_real
from h2gcn.exceptions import H2GCNWarning
from h2gcn.features import Input
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS, MatrixMaker
from h2gcn.models.compatibility import CompatibilityModule
from h2gcn.models.decompose import Decomposition, constant, gradient_times_input
from h2gcn.models.label_propagation import as_labels, decompose_labels, level_ties
from h2gcn.rings import is_weighted
from h2gcn.sparse import Operator, Propagation

__all__ = ["BeliefMatrices", "LinBP", "spectral_radius"]

DENSE_NODES = 256  # up to so many nodes, all eigenvalues are computed
ANY_GRAPH_BOUND = (5**0.5 - 1) / 2  # where e + e² = 1


def spectral_radius(adj: CSR) -> np.float32:
    """Return the largest eigenvalue of a symmetric matrix without negative entries.

    Single precision: where ARPACK meets an invariant subspace it continues at random,
    which changes the last digits.
    """
    n = adj.shape[0]
    if n <= DENSE_NODES:
        return np.float32(np.linalg.eigvalsh(adj.toarray().astype(np.float64)).max())
    from scipy.sparse.linalg import eigsh

    # No graph's leading eigenvector is orthogonal to a vector of ones.
    (radius,) = eigsh(
        adj.astype(np.float64),
        k=1,
        which="LA",
        v0=np.ones(n),
        tol=1e-5,
        return_eigenvectors=False,
    )
    return np.float32(radius)


@dataclass(frozen=True)
class BeliefMatrices(MatrixMaker):
    """Makes A/ρ(A) and D/ρ(A)² of a graph; zeros where there is no edge.

    D is the diagonal of A²: the degrees, or the sums of squared edge weights.
    """

    symmetric = True

    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return both, [n, n] each."""
        return _belief_matrices(adj)


def _belief_matrices(adj: CSR) -> tuple[CSR, ...]:
    radius = spectral_radius(adj) if adj.nnz else np.float32(1)
    degrees = np.diff(adj.indptr).astype(np.float32)
    scaled = np.full(adj.nnz, 1 / radius, dtype=np.float32)
    if is_weighted(adj):
        degrees = np.asarray(adj.power(2).sum(axis=1), dtype=np.float32)
        scaled = (adj.data / radius).astype(np.float32)
    return (
        CSR((scaled, adj.indices, adj.indptr), shape=adj.shape),
        CSR(sp.diags_array(degrees / radius**2)),
    )


class LinBP(CompatibilityModule):
    """Linearized belief propagation (Gatterbauer et al., PVLDB 2015).

        B⁽⁰⁾ = E
        B⁽ᵗ⁺¹⁾ = E + A B⁽ᵗ⁾ Ĥ − D B⁽ᵗ⁾ Ĥ²       with Ĥ = ε (H − 1/|Y|)
        logits = B / size(B)

    E are the training labels, one-hot less 1/|Y|; of other nodes ε (π − 1/|Y|) with the
    class prior π, see `CompatibilityModule`. H[i, j] is the fraction of the neighbors
    of class i that are of class j, see `from_edges`, so labels help where neighbors are
    alike and where they differ. The last term cancels the echo, what a node hears of
    itself from its neighbors.

    With e = ρ(A) ‖Ĥ‖₂ no eigenvalue of the iteration is larger than e + m e², with
    m = max D / ρ(A)², and m is at most 1. So it converges on any graph for
    e < (√5 − 1)/2, which is the bound of LinBP, and on this one for
    e < (√(1 + 4m) − 1) / 2m, the bound of ZooBP. ε is `scale` times the bound.

    Beliefs shrink with every hop, and their softmax would be flat. size(B) is the root
    mean square of the beliefs of all nodes without a label: one number for the whole
    graph, so that every comparison, between nodes too, is that of the beliefs.

    ZooBP (Eswaran et al., PVLDB 2017), for one type of nodes and one of edges, is

        b = e + (P − Q) b,   P = A ⊗ ε R/|Y|,   Q = D ⊗ (ε R/|Y|)²,   R = |Y| H − 1

    which is the same system, since ε R/|Y| is Ĥ. It is LinBP solved to a `tolerance`,
    with the bound of the graph and a class prior.

    Departures from the papers: LinBP standardizes every node on its own, and has a
    wider sufficient bound on some graphs, which keeps max D; its LinBP* has no echo
    cancellation. ZooBP has several types of nodes and edges, each pair with a matrix of
    its own, and P and Q are then block matrices. Its program takes a fixed ε, such as
    1e-4, and E = 0 where there is no label, which is `class_prior` 0. Here its ε is at
    most 1 for an edge of mean weight: that is H itself, and more only makes its errors
    larger. The prior is scaled by ε as what neighbors say is, so that both weigh as
    they would at ε = 1; what comes from further away, by ε² and less, weighs less
    against it. So where labels are far and neighbors alike, a uniform prior is better.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    scale
        Fraction of the bound on convergence that ε takes.
    class_prior
        Weight of the class frequencies in the prior; the rest is uniform.
    steps
        Maximal number of iterations.
    tolerance
        The iteration ends once no belief changes by more, relative to the largest where
        that is above one. With 0 all steps are taken; else a warning tells if they were
        too few.
    graph_bound
        Whether ε takes the bound of this graph, not that of any graph.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the two operators [n, n] each (see
    `BeliefMatrices`), logits [m, |Y|] of m target nodes. There are no weights; the
    state is the buffers `compatibility` and `class_shares`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: float = 0.5,
        class_prior: float = 0.0,
        steps: int = 10,
        tolerance: float = 0.0,
        graph_bound: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, class_prior=class_prior)
        self.scale = check_real("scale", scale, "(0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "[0, 1)")
        self.graph_bound = check_bool("graph_bound", graph_bound)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the scaled beliefs of the target nodes, [m, |Y|]."""
        labels = as_labels(x, self.out_channels)
        coupling, explicit = self._system(labels, graph)
        beliefs = self._spread(explicit, coupling, graph)
        beliefs = graph.pick(beliefs / _size(beliefs, labels))
        return level_ties(beliefs, beliefs.abs().amax(dim=1, keepdim=True))

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split by labeled node; size(B) is a constant."""
        labels = as_labels(x, self.out_channels)
        coupling, explicit = self._system(labels, graph)

        def target_beliefs(e: Tensor) -> Tensor:
            beliefs = self._spread(e, coupling, graph)
            return graph.pick(beliefs / _size(beliefs.detach(), labels))[0]

        by_node = gradient_times_input(target_beliefs, explicit)
        known = (labels != 0).any(dim=1).cpu().numpy()
        contributions = decompose_labels(by_node * known[:, None], graph)
        if (prior := by_node[~known].sum(axis=0)).any():
            contributions += (constant("how common each class is", prior),)
        how = "exact by labeled node, given the size of all beliefs: they are linear"
        return Decomposition(contributions, how)

    def _system(self, labels: Tensor, graph: Propagation) -> tuple[Tensor, Tensor]:
        """Return ρ(A) Ĥ, [|Y|, |Y|], and E, [n, |Y|]."""
        a, d = graph.matrices
        ones = torch.ones(len(labels), 1, device=labels.device)
        diagonal, total = d @ ones, float((a @ ones).sum())
        edge = float(diagonal.sum()) / total if total else 1.0  # mean weight in A/ρ(A)
        norm, e = self._residual_norm(), self.scale * ANY_GRAPH_BOUND
        if self.graph_bound:
            m = float(diagonal.max())
            bound = ((1 + 4 * m) ** 0.5 - 1) / (2 * m) if m > 0 else 1.0
            e = min(self.scale * bound, norm / edge)
        residual = self.compatibility - 1 / self.out_channels
        coupling = residual * (e / norm if norm else 0.0)
        prior = self._class_lead() * (e * edge / norm if norm else 1.0)
        known = (labels != 0).any(dim=1, keepdim=True)
        return coupling, torch.where(known, labels - 1 / self.out_channels, prior)

    def _spread(self, explicit: Tensor, coupling: Tensor, graph: Propagation) -> Tensor:
        """Return B, [n, |Y|], which is linear in E."""
        a, d = graph.matrices
        beliefs = explicit
        for _ in range(self.steps):
            before = beliefs
            echo = d @ (beliefs @ coupling @ coupling)
            beliefs = explicit + a @ (beliefs @ coupling) - echo
            if self.tolerance:
                change = float((beliefs - before).detach().abs().max())
                largest = max(1.0, float(beliefs.detach().abs().max()))
                if change <= self.tolerance * largest:
                    return beliefs
        if self.tolerance:
            warnings.warn(
                f"the beliefs have not converged: after {self.steps} steps they still "
                f"change by up to {change:.2g}; a smaller 'scale' or more 'steps' may "
                "help",
                H2GCNWarning,
                stacklevel=2,
            )
        return beliefs


def _size(beliefs: Tensor, labels: Tensor) -> Tensor:
    """Return the root mean square of the beliefs of nodes without a label, or 1."""
    among = beliefs[(labels == 0).all(dim=1)]
    size = among.square().mean().sqrt()
    return size if len(among) and size > 0 else size.new_ones(())
