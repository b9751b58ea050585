"""GPR-GNN, which learns how much each power of the graph counts."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from h2gcn.features import Input
from h2gcn.models.base import ACTIVATIONS, drop, uniform
from h2gcn.models.decompose import Decomposition, decompose_paths
from h2gcn.models.options import Activation, Dropout, Width, at_least, between
from h2gcn.sparse import Operator, Propagation, dropout
from h2gcn.training import NodeModule

MAX_POWER = 128  # of Â; by then every component is uniform


class GPRGNN(NodeModule):
    """Generalized PageRank network (Chien et al., ICLR 2021).

        Â = D^-1/2 (A + I) D^-1/2
        Z = dropout(σ(dropout(X) W₁ + b₁)) W₂ + b₂
        logits = Σ_k γ_k Âᵏ dropout(Z)             k from 0 to K

    The γ_k are learned, of any sign, and start as those of personalized PageRank:
    γ_k = α (1 − α)ᵏ, and (1 − α)ᴷ for k = K. The sum is taken from the highest power
    inwards, γ₀ Z + Â(γ₁ Z + Â(…)), K products C columns wide.

    As in the authors' program, weights and biases of both maps are uniform up to one
    over the root of their number of inputs, and there is no L2 penalty on γ.

    Departures from the authors' program: the penalty is on the weights, not on the
    biases.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        power: Annotated[int, at_least(1, MAX_POWER), "Highest power K"] = 10,
        alpha: Annotated[
            float, between("(0, 1)"), "α of the first γ; larger favors the node itself"
        ] = 0.1,
        activation: Activation = "relu",
        dropout: Annotated[
            Dropout, "Dropped fraction of input and hidden layer in training"
        ] = 0.5,
        propagation_dropout: Annotated[
            Dropout, "Dropped fraction of what is propagated in training"
        ] = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.power = self.receptive_field = power
        self.activation, self.dropout = activation, dropout
        self.propagation_dropout = propagation_dropout
        p, c = hidden_channels, out_channels
        self.first = uniform(in_channels**-0.5, in_channels, p)
        self.first_bias = uniform(in_channels**-0.5, p)
        self.second, self.second_bias = uniform(p**-0.5, p, c), uniform(p**-0.5, c)
        gamma = [alpha * (1 - alpha) ** k for k in range(power)]
        self.gamma = nn.Parameter(torch.tensor([*gamma, (1 - alpha) ** power]))

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the weights of both maps."""
        return [self.first, self.second]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        return self._propagate(self._encode(x), graph)

    def _encode(self, x: Tensor | Operator) -> Tensor:
        """Return dropout(Z), [n, C]."""
        dropped = drop(x, self.dropout, self.training)
        hidden = ACTIVATIONS[self.activation](dropped @ self.first + self.first_bias)
        hidden = dropout(hidden, self.dropout, self.training)
        z = hidden @ self.second + self.second_bias
        return dropout(z, self.propagation_dropout, self.training)

    def _propagate(self, z: Tensor, graph: Propagation) -> Tensor:
        """Return Σ_k γ_k Âᵏ z of the target nodes, [m, c]."""
        first, *inner, last = self.gamma.unbind()
        total = last * z
        for gamma in reversed(inner):
            total = gamma * z + graph.matrices[0] @ total
        return first * graph.pick(z) + graph.rows[0] @ total

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split by node."""
        assert isinstance(x, Tensor | Operator)
        contributions = decompose_paths(
            lambda z: self._propagate(z, graph)[0],
            self._encode(x),
            {"": np.eye(self.out_channels)},
        )
        how = "exact by distance and by neighbor; not by column: two layers come first"
        return Decomposition(contributions, how)
