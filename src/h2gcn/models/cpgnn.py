"""CPGNN: a prior from the features, propagated by a learned compatibility matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.features import Input
from h2gcn.models.base import ACTIVATIONS, MAX_STEPS, NodeModule, check_sizes
from h2gcn.models.compatibility import from_neighbors
from h2gcn.models.h2gcn import H2GCN
from h2gcn.sparse import Operator, Propagation

__all__ = ["CPGNN"]


class CPGNN(NodeModule):
    """CPGNN with an MLP as prior (Zhu et al., AAAI 2021).

        E = softmax(MLP(X)) − 1/|Y|
        B⁽⁰⁾ = E
        B⁽ᵏ⁾ = E + A B⁽ᵏ⁻¹⁾ Ĥ
        logits = B⁽ᴷ⁾ + 1/|Y|

    A is not normalized. Ĥ, the compatibility matrix less 1/|Y|, is a weight like any
    other: neighbors whose labels differ are as informative as neighbors alike.

    Training has three steps. The prior, an MLP, is trained alone. `initialise`
    estimates Ĥ from the training labels and the prior's probabilities of all other
    nodes, see `from_neighbors`. Then everything is trained together, with `penalty`
    added to the loss, which keeps the row sums of Ĥ near zero.

    Departures from the authors' program: the joint loss is cross-entropy, the L2
    penalty on the prior's weights, and `penalty`. There both penalties enter twice, by
    a slip, in place of the paper's term for the prior's own predictions. The estimate
    of Ĥ is made without dropout, and leaves out training nodes without neighbors, which
    there count as rows of zeros. As there, the beliefs are taken for logits as they
    are.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the prior's hidden layer.
    rounds
        Number of rounds K; the paper has 1 and 2.
    activation
        Of the prior's hidden layer, "relu", "elu" or "none".
    dropout
        Dropped fraction of the prior's hidden layer, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator A [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        rounds: int = 1,
        activation: str = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.rounds = check_integer("rounds", rounds, 1, MAX_STEPS)
        check_choice("activation", activation, ACTIVATIONS)
        check_real("dropout", dropout, "[0, 1)")
        self.prior = H2GCN(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            hops=(),
            rounds=0,
            final=(0,),
            activation=activation,
            dropout=dropout,
        )
        self.compatibility = nn.Parameter(torch.empty(out_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the prior's weights anew; Ĥ is zero."""
        self.prior.reset_parameters()
        nn.init.zeros_(self.compatibility)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one per round."""
        return self.rounds

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: the prior's."""
        return self.prior.regularised()

    def penalty(self) -> Tensor:
        """Return Σ_i |Σ_j Ĥ_ij|, which the training loss takes in as it is."""
        return self.compatibility.sum(dim=1).abs().sum()

    def trained_first(self) -> H2GCN:
        """Return the prior."""
        return self.prior

    @torch.no_grad()
    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Estimate Ĥ from the training labels and the prior of all other nodes."""
        (a,) = graph.matrices
        beliefs = self.prior(x, graph.whole).softmax(dim=1)
        known = functional.one_hot(labels, self.out_channels)
        beliefs[index] = known.to(beliefs.dtype)
        estimate = from_neighbors(a, beliefs, labels, index)
        self.compatibility.copy_(estimate - 1 / self.out_channels)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        (a,) = graph.matrices
        (last,) = graph.rows
        h = self.compatibility
        prior = self.prior(x, graph.whole).softmax(dim=1) - 1 / self.out_channels
        beliefs = prior
        for _ in range(self.rounds - 1):
            beliefs = prior + a @ (beliefs @ h)
        logits: Tensor = (
            graph.pick(prior) + last @ (beliefs @ h) + 1 / self.out_channels
        )
        return logits
