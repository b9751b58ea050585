"""Decoupled smoothing: labels spread between nodes that share neighbors."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import H2GCNWarning
from h2gcn.features import Input
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS, NodeModule
from h2gcn.models.decompose import Decomposition
from h2gcn.models.label_propagation import (
    as_labels,
    check_label_channels,
    decompose_shares,
    log_shares,
    reached_nodes,
)
from h2gcn.sparse import Operator, Propagation

__all__ = ["DecoupledSmoothing"]

Numbers = NDArray[np.float64]

VARIANCES = ("degree", "equal")


class DecoupledSmoothing(NodeModule):
    """Decoupled smoothing (Chin, Chen, Altenburger and Ugander, WWW 2019).

        W = A Σ⁻¹,   Ã = W Z⁻¹ Wᵀ
        (D̃_uu − Ã_uu) F_u = Ã_ul Y_l
        logits = log F_v

    Who a node is and whom it prefers are two things: a node resembles those with the
    same neighbors, not its neighbors (monophily). With preferences integrated out, what
    remains is smoothing on the two-hop graph Ã, where Z are the column sums of W, D̃
    the row sums of Ã, and Σ the diagonal of how much each node's neighbors differ from
    what it prefers. Y_l are the training labels, one-hot and fixed, and F_u of the
    other nodes is harmonic: each row is the mean, by Ã, of those around it.

    A factor of Σ changes nothing. With `variance` "degree", as in the authors' program,
    Σ is 1/d: Ã is A², and a pair counts once for every node between. With "equal" Σ is
    one: Ã is A D⁻¹ A, and a pair counts 1/d for a node between of degree d. The
    diagonal of Ã cancels out of the system.

    A node that no walk of two, four, … steps joins to a label (in a bipartite graph the
    whole other side) has equal scores. A training node has its own label. A share is at
    least 1e-12.

    Departures from the authors' program: it inverts a dense matrix; here conjugate
    gradients take products with A, and Ã is never formed. It predicts a class whose
    share exceeds that of the training nodes, and reports the AUC; here the class with
    the largest share is predicted, as by every model.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    variance
        Σ, "degree" or "equal".
    steps
        Maximal number of steps of conjugate gradients.
    tolerance
        They end once the residual is smaller, relative to the right side.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the operator A [n, n] symmetric, logits
    [m, |Y|] of m target nodes. There are no weights. Computed on the CPU, in float64.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        variance: str = "degree",
        steps: int = 1000,
        tolerance: float = 1e-9,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_label_channels(in_channels, out_channels)
        self.variance = check_choice("variance", variance, VARIANCES)
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "(0, 1)")

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def reached(self, x: Input, graph: Propagation) -> Tensor:
        """Return which nodes a label reaches, two steps at a time, [n]."""
        labels = as_labels(x, self.out_channels)
        return reached_nodes(labels, graph.matrices[0], hops=2)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the log-shares of the target nodes, [m, |Y|]."""
        labels = as_labels(x, self.out_channels).cpu().double().numpy()
        shares, system = labels.copy(), self._system(x, graph)
        shares[system.free] = self._solve(system, system.spread(labels)[system.free])
        logits = log_shares(torch.from_numpy(shares.clip(min=0))).float().to(x.device)
        return graph.pick(logits)

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split the class shares by labeled node.

        The system is symmetric: what the node hears from each label is what they would
        hear from it.
        """
        labels = as_labels(x, self.out_channels).cpu().double().numpy()
        assert graph.index is not None
        node, system = int(graph.index[0]), self._system(x, graph)
        received = np.zeros((len(labels), 1))
        received[node] = 1
        if node in system.free:
            received[system.free] = self._solve(system, received[system.free])
            received = system.spread(received)
        return decompose_shares(received * labels, graph)

    def _system(self, x: Input, graph: Propagation) -> _TwoHopGraph:
        labels = as_labels(x, self.out_channels)
        free = self.reached(x, graph) & ~labels.any(dim=1)
        adj = graph.matrices[0].take(np.arange(len(labels))).astype(np.float64)
        return _TwoHopGraph(CSR(adj), np.flatnonzero(free.cpu().numpy()), self.variance)

    def _solve(self, system: _TwoHopGraph, right: Numbers) -> Numbers:
        """Solve the system for each right side, [m, k]; warn if steps run out."""
        columns, unsolved = [], 0.0
        for b in right.T:
            column, status = cg(
                system.laplacian,
                b,
                rtol=self.tolerance,
                maxiter=self.steps,
                M=system.preconditioner,
            )
            columns.append(column)
            if status > 0:
                residual = np.linalg.norm(b - system.laplacian @ column)
                unsolved = max(unsolved, float(residual / np.linalg.norm(b)))
        if unsolved:
            warnings.warn(
                f"decoupled smoothing has not converged: after {self.steps} steps "
                f"{unsolved:.2g} of the right side is left; more 'steps' may help",
                H2GCNWarning,
                stacklevel=2,
            )
        return np.stack(columns, axis=1)


class _TwoHopGraph:
    """Products with Ã, and with its Laplacian among some nodes, the free ones."""

    def __init__(self, adj: CSR, free: NDArray[np.int64], variance: str) -> None:
        n, m = adj.shape[0], len(free)
        self.adj, self.free = adj, free
        self.between = np.ones((n, 1))
        if variance == "equal":
            self.between /= np.maximum(adj.sum(axis=1)[:, None], np.finfo(float).tiny)
        sums = self.spread(np.ones((n, 1)))
        diagonal = (sums - adj.power(2) @ self.between)[free, 0]
        rows = CSR(adj[free])

        def product(f: Numbers) -> Numbers:
            inner = rows @ (self.between[:, 0] * (rows.T @ f.ravel()))
            return np.asarray(sums[free, 0] * f.ravel() - inner)

        self.laplacian = LinearOperator((m, m), matvec=product, dtype=np.float64)
        self.preconditioner = LinearOperator(
            (m, m), matvec=lambda f: f.ravel() / diagonal, dtype=np.float64
        )

    def spread(self, f: Numbers) -> Numbers:
        """Return Ã f, [n, k]."""
        return np.asarray(self.adj @ (self.between * (self.adj @ f)))
