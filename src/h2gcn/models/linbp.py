"""Linearized belief propagation: LinBP, and ZooBP with its tighter bound."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning
from h2gcn.features import Input
from h2gcn.graph import CSR
from h2gcn.models.compatibility import ClassPrior, CompatibilityModule
from h2gcn.models.decompose import Decomposition, constant, gradient_times_input
from h2gcn.models.label_propagation import decompose_labels, level_ties
from h2gcn.models.options import Steps, between
from h2gcn.models.spec import MatrixMaker
from h2gcn.sparse import Propagation

DENSE_NODES = 256  # ARPACK is for larger matrices
UNIFORM = 1e-6  # H is uniform, up to rounding, if it is closer to 1/C

Scale = Annotated[
    float, between("(0, 1)"), "Fraction of the bound on convergence that ε takes"
]
Tolerance = Annotated[
    float,
    between("[0, 1)"),
    "Change, relative to the largest belief above 1, at which the iteration ends",
]


def spectral_radius(adj: CSR) -> np.float32:
    """Return the largest eigenvalue of a symmetric matrix without negative entries.

    Single precision: where ARPACK meets an invariant subspace it continues at random,
    which changes the last digits.
    """
    n, adj = adj.shape[0], CSR(adj.astype(np.float64))
    if n <= DENSE_NODES:
        return np.float32(np.linalg.eigvalsh(adj.toarray()).max())
    from scipy.sparse.linalg import eigsh

    # No graph's leading eigenvector is orthogonal to a vector of ones.
    start = np.ones(n)
    values = eigsh(adj, 1, which="LA", v0=start, tol=1e-5, return_eigenvectors=False)
    return np.float32(values[0])


@dataclass(frozen=True)
class BeliefMatrices(MatrixMaker):
    """Makes A/ρ(A) and D/ρ(A)² of a graph; zeros where there is no edge.

    D is the diagonal of A²: the degrees, or the sums of squared edge weights.
    """

    symmetric = True

    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return both, [n, n] each."""
        radius = spectral_radius(adj) if adj.nnz else np.float32(1)
        scaled = CSR((adj / radius).astype(np.float32))
        squares = np.asarray(scaled.power(2).sum(axis=1))
        return scaled, CSR(sp.diags_array(squares))


class LinBP(CompatibilityModule):
    """Linearized belief propagation (Gatterbauer et al., PVLDB 2015).

        B⁽⁰⁾ = E
        B⁽ᵗ⁺¹⁾ = E + A B⁽ᵗ⁾ Ĥ − D B⁽ᵗ⁾ Ĥ²       with Ĥ = ε (H − 1/C)
        logits = B / size(B)

    E are the training labels, one-hot less 1/C; of other nodes ε (π − 1/C) with the
    class prior π, see `CompatibilityModule`. H[i, j] is the fraction of the neighbors
    of class i that are of class j, see `from_edges`, so labels help where neighbors are
    alike and where they differ. The last term cancels the echo, the part of a message
    that comes back to its sender.

    With e = ρ(A) ‖Ĥ‖₂ no eigenvalue of the iteration is larger than e + m e², with
    m = max D / ρ(A)² ≤ 1. So it converges for e < 2 / (1 + √(1 + 4m)): this is the
    bound of ZooBP, and with m = 1, for any graph, that of LinBP. ε is `scale` times the
    bound.

    Beliefs shrink with every hop, and their softmax would be flat. size(B) is the root
    mean square of the beliefs of all nodes without a label: one number for the whole
    graph, so that it changes no comparison of beliefs, even between nodes.

    ZooBP (Eswaran et al., PVLDB 2017), for one type of nodes and one of edges, is

        b = e + (P − Q) b,   P = A ⊗ ε R/C,   Q = D ⊗ (ε R/C)²,   R = C H − 1

    which is the same system, since ε R/C is Ĥ. It is LinBP solved to a `tolerance`,
    with the bound of the graph and a class prior.

    Departures from the papers: LinBP standardizes every node on its own, and has a
    wider sufficient bound on some graphs, which keeps max D; its LinBP* has no echo
    cancellation. ZooBP has several types of nodes and edges, each pair with a matrix of
    its own, and P and Q are then block matrices. Its program takes a fixed ε, such as
    1e-4, and E = 0 where there is no label, which is `class_prior` 0. Here its ε is at
    most 1 for an edge of mean weight: that is H itself, and more only makes its errors
    larger. The prior is scaled by ε like the messages of neighbors, so that both weigh
    as they would at ε = 1; messages from further away are scaled by ε² and less, and
    weigh less against it. So where labels are far and neighbors alike, a uniform prior
    is better.

    Parameters
    ----------
    graph_bound
        Whether ε takes the bound of this graph, not that of any graph.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: Scale = 0.5,
        class_prior: ClassPrior = 0.0,
        steps: Annotated[Steps, "Maximal number of iterations"] = 10,
        tolerance: Tolerance = 0.0,
        graph_bound: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, class_prior=class_prior)
        self.scale, self.steps, self.tolerance = scale, steps, tolerance
        self.graph_bound = graph_bound

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return the scaled beliefs of the target nodes, [m, C]."""
        coupling, explicit = self._system(x, graph)
        beliefs = self._spread(explicit, coupling, graph)
        return level_ties(graph.pick(beliefs / _size(beliefs, x)))

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split by labeled node; size(B) is a constant."""
        assert isinstance(x, Tensor)
        coupling, explicit = self._system(x, graph)

        def target_beliefs(e: Tensor) -> Tensor:
            beliefs = self._spread(e, coupling, graph)
            return graph.pick(beliefs / _size(beliefs.detach(), x))[0]

        by_node = gradient_times_input(target_beliefs, explicit)
        known = x.any(dim=1).cpu().numpy()
        contributions = decompose_labels(by_node * known[:, None], graph)
        if (prior := by_node[~known].sum(axis=0)).any():
            contributions += (constant("how common each class is", prior),)
        how = "exact by labeled node, given the size of all beliefs: they are linear"
        return Decomposition(contributions, how)

    def _system(self, labels: Tensor, graph: Propagation) -> tuple[Tensor, Tensor]:
        """Return ρ(A) Ĥ, [C, C], and E, [n, C]."""
        a, d = graph.matrices
        ones = labels.new_ones(len(labels), 1)
        squares, total = d @ ones, float((a @ ones).sum())
        edge = float(squares.sum()) / total if total else 1.0  # mean weight in A/ρ(A)
        m = float(squares.max()) if self.graph_bound else 1.0
        bound = 2 / (1 + (1 + 4 * m) ** 0.5)
        residual = self.compatibility - 1 / self.out_channels
        norm = float(torch.linalg.matrix_norm(residual.cpu(), 2))
        if norm < UNIFORM:
            residual, norm = torch.zeros_like(residual), 1.0
        epsilon = self.scale * bound / norm  # times ρ(A)
        if self.graph_bound:
            epsilon = min(epsilon, 1 / edge)
        prior = (self.prior - 1 / self.out_channels) * epsilon * edge
        known = labels.any(dim=1, keepdim=True)
        explicit = torch.where(known, labels - 1 / self.out_channels, prior)
        return residual * epsilon, explicit

    def _spread(self, explicit: Tensor, coupling: Tensor, graph: Propagation) -> Tensor:
        """Return B, [n, C], which is linear in E."""
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
    among = beliefs[~labels.any(dim=1)]
    size = among.square().mean().sqrt()
    return size if len(among) and size > 0 else size.new_ones(())
