"""Loopy belief propagation."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS
from h2gcn.models.compatibility import CompatibilityModule
from h2gcn.models.label_propagation import FLOOR, as_labels, level_ties
from h2gcn.sparse import Operator, Propagation

__all__ = ["BeliefPropagation"]


class BeliefPropagation(CompatibilityModule):
    """Loopy belief propagation (Pearl 1988; Yedidia et al. 2003), sum-product.

        m_uv(j) ∝ Σ_i φ_u(i) ψ(i, j) ∏_{w ∈ N(u), w ≠ v} m_wu(i)
        b_v(j)  ∝ φ_v(j) ∏_{u ∈ N(v)} m_uv(j)
        logits  = log b_v

    All labels together have a probability proportional to the product of ψ(y_u, y_v)
    over the edges and of φ_v(y_v) over the nodes; the beliefs b are its marginals. They
    are exact on a forest, once messages have gone from end to end, and known labels cut
    the cycles they are on. On other cycles a node's own message comes back to it:
    beliefs are then overconfident, or never converge, and a warning tells.

    φ of a training node is one for its label and zero elsewhere; of any other node it
    is the class prior, see `CompatibilityModule`. ψ = 1/|Y| + `coupling` (H − 1/|Y|) of
    the compatibility H, which `from_edges` estimates. The prior is that of a node
    without edges: one with edges to nodes without labels also hears from them which
    classes go with common ones.

    All messages are sent at once, in logarithms, so that no product underflows at a
    hub. A message is a mean of the new one and, by `damping`, the last; where they
    converge to is the same. Edge weights are ignored. What a training node cannot be
    has a belief of 1e-12. With a uniform prior, a node that no label reaches has equal
    logits. `LinBP` is this for weak compatibilities, linearized.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    coupling
        How much of H is taken; the rest is uniform.
    class_prior
        Weight of the class frequencies in the prior; the rest is uniform.
    damping
        Weight of the last message in each new one.
    steps
        Maximal number of iterations.
    tolerance
        The iteration ends once no entry of a message changes by more.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the operator A [n, n] symmetric and binary,
    logits [m, |Y|] of m target nodes. There are no weights; the state is the buffers
    `compatibility` and `class_shares`. Computed on the CPU, in float64.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        coupling: float = 1.0,
        class_prior: float = 1.0,
        damping: float = 0.5,
        steps: int = 200,
        tolerance: float = 1e-6,
    ) -> None:
        super().__init__(in_channels, out_channels, class_prior=class_prior)
        self.coupling = check_real("coupling", coupling, "(0, 1]")
        self.damping = check_real("damping", damping, "[0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "[0, 1)")

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the log-beliefs of the target nodes, [m, |Y|]."""
        labels = as_labels(x, self.out_channels).cpu().double()
        prior = (1 / self.out_channels + self._class_lead().cpu().double()).log()
        beliefs = torch.where(labels.any(dim=1, keepdim=True), labels.log(), prior)
        if self._residual_norm():
            adj = graph.matrices[0].take(np.arange(len(labels)))
            free = np.flatnonzero(~labels.any(dim=1).numpy())
            beliefs[free] = self._propagate(CSR(adj[free]), free, labels, prior)
        logits = level_ties(beliefs).log_softmax(dim=1)
        logits = logits.nan_to_num(neginf=np.log(FLOOR))
        return graph.pick(logits.float().to(x.device))

    def entry_bytes(self) -> int:
        """Return the bytes per entry: six messages, two endpoints, the reverse."""
        return 48 * self.out_channels + 24

    def _propagate(
        self, rows: CSR, free: NDArray[np.int64], labels: Tensor, prior: Tensor
    ) -> Tensor:
        """Return log b of the nodes without a label up to a number per node, [m, |Y|].

        `rows` are those of A for these nodes, `free`. The message of a known label
        never changes: it becomes part of its neighbors' priors. Entry (u, v) of A has
        the message that u hears from v.
        """
        uniform = 1 / self.out_channels
        h = self.compatibility.cpu().double()
        psi = (uniform + self.coupling * (h - uniform)).clamp(min=FLOOR)
        log_prior = prior + torch.from_numpy(rows @ (labels @ psi.log()).numpy())
        adj = CSR(rows[:, free])
        adj.sort_indices()
        hearer = torch.from_numpy(
            np.repeat(np.arange(len(log_prior)), np.diff(adj.indptr))
        )
        speaker = torch.from_numpy(adj.indices.astype(np.int64))
        reverse = speaker.argsort(stable=True)  # where entry (v, u) is
        message = torch.full((adj.nnz, len(psi)), 1 / len(psi), dtype=torch.float64)
        change = torch.zeros(())
        for _ in range(self.steps):
            log_message = message.log()
            beliefs = log_prior.index_add(0, hearer, log_message)
            cavity = (beliefs[speaker] - log_message[reverse]).softmax(dim=1)
            new = functional.normalize(cavity @ psi, p=1, dim=1)
            new = new.lerp_(message, self.damping)
            change = (new - message).abs().amax() if len(new) else change
            message = new
            if change <= self.tolerance:
                break
        else:
            warnings.warn(
                f"belief propagation has not converged: after {self.steps} steps "
                f"messages still change by up to {float(change):.2g}; a larger "
                "'damping', a smaller 'coupling' or more 'steps' may help",
                H2GCNWarning,
                stacklevel=2,
            )
        return log_prior.index_add(0, hearer, message.log())
