"""Loopy belief propagation."""

from __future__ import annotations

import warnings
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import CSR
from h2gcn.models.compatibility import ClassPrior, CompatibilityModule
from h2gcn.models.label_propagation import FLOOR, level_ties
from h2gcn.models.options import Steps, between
from h2gcn.sparse import Propagation

Coupling = Annotated[
    float, between("(0, 1]"), "Weight of the estimated compatibility over a uniform one"
]
Damping = Annotated[
    float, between("[0, 1)"), "Weight of the last message in each new one"
]
Tolerance = Annotated[
    float, between("[0, 1)"), "Change of the messages at which the iteration ends"
]


class BeliefPropagation(CompatibilityModule):
    """Loopy belief propagation (Pearl 1988; Yedidia et al. 2003), sum-product.

        m_uv(j) ∝ Σ_i φ_u(i) ψ(i, j) ∏_{w ∈ N(u), w ≠ v} m_wu(i)
        b_v(j)  ∝ φ_v(j) ∏_{u ∈ N(v)} m_uv(j)
        logits  = log b_v

    All labels together have a probability proportional to the product of ψ(y_u, y_v)
    over the edges and of φ_v(y_v) over the nodes; the beliefs b are its marginals. They
    are exact on a forest, once messages have gone from end to end, and known labels cut
    the cycles they are on. On other cycles a node's own message comes back to it:
    beliefs are then overconfident, or never converge, which gives a warning.

    φ of a training node is one for its label and zero elsewhere; of any other node it
    is the class prior, see `CompatibilityModule`. ψ = 1/C + `coupling` (H − 1/C) with
    the compatibility H, which `from_edges` estimates. The class prior is the belief of
    a node without edges: edges to nodes without labels also tell which classes occur
    next to frequent ones.

    All messages are sent at once, and multiplied in logarithms, so that no product
    underflows at a hub. A message is a mean of the new one and, by `damping`, the last;
    this does not change where they converge. Edge weights are ignored. The other
    classes of a training node have a belief of 1e-12. With a uniform prior, a node in a
    component without labels has equal logits. `LinBP` is this for weak compatibilities,
    linearized. Computed on the CPU, in float64.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        coupling: Coupling = 1.0,
        class_prior: ClassPrior = 1.0,
        damping: Damping = 0.5,
        steps: Annotated[Steps, "Maximal number of iterations"] = 200,
        tolerance: Tolerance = 1e-6,
    ) -> None:
        super().__init__(in_channels, out_channels, class_prior=class_prior)
        self.coupling, self.damping = coupling, damping
        self.steps, self.tolerance = steps, tolerance

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return the log-beliefs of the target nodes, [m, C]."""
        labels, (adj,) = x.cpu().double(), graph.matrices
        free = np.flatnonzero(~labels.any(dim=1).numpy())
        # A label that is known never changes: it is part of its neighbors' priors.
        uniform = 1 / self.out_channels
        residual = self.compatibility.cpu().double() - uniform
        psi = (uniform + self.coupling * residual).clamp(min=FLOOR)
        rows = adj.take(free)
        heard = torch.from_numpy(rows @ (labels @ psi.log()).numpy())
        log_prior = self.prior.cpu().double().log() + heard
        beliefs = labels.clamp(min=FLOOR).log()
        beliefs[free] = self._propagate(CSR(rows[:, free]), log_prior, psi)
        logits = level_ties(beliefs.log_softmax(dim=1))
        return graph.pick(logits.float().to(x.device))

    def _propagate(self, adj: CSR, log_prior: Tensor, psi: Tensor) -> Tensor:
        """Return log b up to a number per node, [m, C], on a graph without labels.

        Entry (u, v) of A, [m, m], has the message that u receives from v.
        """
        if not adj.nnz:
            return log_prior
        adj.sort_indices()
        receiver = np.repeat(np.arange(len(log_prior)), np.diff(adj.indptr))
        to, sender = torch.from_numpy(receiver), torch.from_numpy(adj.indices).long()
        reverse = sender.argsort(stable=True)  # the position of entry (v, u)
        message = torch.full((adj.nnz, len(psi)), 1 / len(psi), dtype=torch.float64)
        for _ in range(self.steps):
            log_message = message.log()
            beliefs = log_prior.index_add(0, to, log_message)
            cavity = (beliefs[sender] - log_message[reverse]).softmax(dim=1)
            new = functional.normalize(cavity @ psi, p=1, dim=1)
            new = new.lerp(message, self.damping)
            change = float((new - message).abs().max())
            message = new
            if change <= self.tolerance:
                break
        else:
            warnings.warn(
                f"belief propagation has not converged: after {self.steps} steps "
                f"messages still change by up to {change:.2g}; a larger 'damping', a "
                "smaller 'coupling' or more 'steps' may help",
                H2GCNWarning,
                stacklevel=2,
            )
        return log_prior.index_add(0, to, message.log())

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of six messages, two endpoints and the reverse per entry."""
        own = super().step_bytes(n_nodes, n_targets, entries)
        return own + entries * (48 * self.out_channels + 24)
