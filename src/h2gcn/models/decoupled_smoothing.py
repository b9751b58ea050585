"""Decoupled smoothing: labels spread between nodes that share neighbors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning
from h2gcn.features import Input
from h2gcn.graph import CSR
from h2gcn.models.base import LabelModule
from h2gcn.models.decompose import Decomposition
from h2gcn.models.label_propagation import decompose_shares, log_shares
from h2gcn.models.options import Steps, between, one_of
from h2gcn.sparse import Propagation

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Map = Callable[[Numbers], Numbers]


class DecoupledSmoothing(LabelModule):
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
    least 1e-12. Computed on the CPU, in float64.

    Departures from the authors' program: it inverts a dense matrix; here conjugate
    gradients take products with A, and Ã is never formed. It predicts a class whose
    share exceeds that of the training nodes, and reports the AUC; here the class with
    the largest share is predicted, as by every model.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        variance: Annotated[
            str, one_of(("degree", "equal")), "Σ: degree (1/d) or equal"
        ] = "degree",
        steps: Annotated[Steps, "Most steps of conjugate gradients"] = 1000,
        tolerance: Annotated[
            float,
            between("(0, 1)"),
            "Residual, relative to the right side, at which the steps end",
        ] = 1e-9,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.variance, self.steps, self.tolerance = variance, steps, tolerance

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return the log-shares of the target nodes, [m, C]."""
        labels = x.cpu().double().numpy()
        known = np.any(labels, axis=1)
        spread, solve = self._system(known, graph)
        columns = [
            np.where(known, y, solve(np.where(known, 0, spread(y)))) for y in labels.T
        ]
        shares = torch.from_numpy(np.stack(columns, axis=1).clip(min=0))
        return graph.pick(log_shares(shares).float().to(x.device))

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split the class shares by labeled node.

        The system is symmetric: what the node hears from each label is what they would
        hear from it.
        """
        assert isinstance(x, Tensor)
        assert graph.index is not None
        labels, node = x.cpu().double().numpy(), int(graph.index[0])
        known = np.any(labels, axis=1)
        spread, solve = self._system(known, graph)
        # 1 where labels reach a node, else 0, where the system below has no solution.
        reached = solve(np.where(known, 0, spread(known.astype(float))))[node] > 0.5
        received = np.zeros(len(labels))
        received[node] = known[node] or reached
        if reached:
            received = spread(solve(received))
        return decompose_shares(received[:, None] * labels, graph)

    def _system(self, known: Mask, graph: Propagation) -> tuple[Map, Map]:
        """Return f ↦ Ã f, and the solution of the system for a right side, [n] each.

        Right sides are zero at known nodes; solutions are zero there, and where labels
        do not reach.
        """
        n = len(known)
        adj = CSR(graph.matrices[0].take(np.arange(n)).astype(np.float64))
        between = np.ones(n)
        if self.variance == "equal":
            between /= np.maximum(adj.sum(axis=1), np.finfo(float).tiny)

        def spread(f: Numbers) -> Numbers:
            return np.asarray(adj @ (between * (adj @ f)))

        sums = spread(np.ones(n))
        diagonal = sums - adj.power(2) @ between  # without that of Ã
        diagonal = np.where(diagonal > 0, diagonal, 1)

        def laplacian(f: Numbers) -> Numbers:
            return np.where(known, f, sums * f - spread(np.where(known, 0, f)))

        system = LinearOperator((n, n), laplacian, dtype=np.float64)
        jacobi = LinearOperator((n, n), lambda f: f / diagonal, dtype=np.float64)

        def solve(b: Numbers) -> Numbers:
            f, status = cg(system, b, rtol=self.tolerance, maxiter=self.steps, M=jacobi)
            if status > 0:
                warnings.warn(
                    f"decoupled smoothing has not converged after {self.steps} steps; "
                    "more 'steps' may help",
                    H2GCNWarning,
                    stacklevel=2,
                )
            return np.asarray(f)

        return spread, solve
