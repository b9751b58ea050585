"""CPGNN: a prior from the features, propagated by a learned compatibility matrix."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.models.compatibility import from_neighbors
from h2gcn.models.h2gcn import H2GCN
from h2gcn.models.options import Activation, Dropout, Steps, Width
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import NodeModule, Trainer

PRIOR_EPOCHS = 400


class CPGNN(NodeModule):
    """CPGNN with an MLP as prior (Zhu et al., AAAI 2021).

        E = softmax(MLP(X)) − 1/C
        B⁽⁰⁾ = E
        B⁽ᵏ⁾ = E + A B⁽ᵏ⁻¹⁾ Ĥ
        logits = B⁽ᴷ⁾ + 1/C

    A is not normalized. Ĥ, the compatibility matrix less 1/C, is a weight like any
    other, so neighbors of another class are as informative as neighbors of the same.

    Training has three steps: train the prior alone; estimate Ĥ from the training labels
    and the prior's probabilities of all other nodes, see `from_neighbors`; train
    everything, with `penalty` added to the loss, which keeps the row sums of Ĥ near
    zero.

    Departures from the authors' program: the joint loss is cross-entropy, the L2
    penalty on the prior's weights, and `penalty`. There, by mistake, both penalties
    enter twice, in place of the paper's term for the prior's own predictions. The
    estimate of Ĥ is made without dropout, and omits training nodes without neighbors,
    which count there as rows of zeros. As there, the beliefs are taken for logits as
    they are.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        rounds: Annotated[Steps, "Number of rounds K; the paper has 1 and 2"] = 1,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.rounds = self.receptive_field = rounds
        self.prior = H2GCN(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
            hops=(),
            rounds=0,
            final=(0,),
        )
        self.compatibility = nn.Parameter(torch.zeros(out_channels, out_channels))

    def fit(self, trainer: Trainer) -> None:
        """Train the prior, estimate Ĥ, then train everything."""
        trainer.pretrain(self.prior, PRIOR_EPOCHS)
        prior = self.prior(trainer.x, trainer.graph).softmax(dim=1)
        known = trainer.with_known(torch.zeros_like(prior))
        beliefs = trainer.with_known(prior)
        estimate = from_neighbors(trainer.graph.matrices[0], beliefs, known)
        self.compatibility.copy_(estimate - 1 / self.out_channels)
        trainer.train()

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the prior's."""
        return self.prior.decayed_parameters()

    def penalty(self) -> Tensor:
        """Return Σ_i |Σ_j Ĥ_ij|."""
        return self.compatibility.sum(dim=1).abs().sum()

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        (a,), (last,) = graph.matrices, graph.rows
        uniform = 1 / self.out_channels
        prior = self.prior(x, graph.whole).softmax(dim=1) - uniform
        beliefs = prior
        for _ in range(self.rounds - 1):
            beliefs = prior + a @ (beliefs @ self.compatibility)
        around: Tensor = last @ (beliefs @ self.compatibility)
        return graph.pick(prior) + around + uniform
