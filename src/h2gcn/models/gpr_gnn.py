"""GPR-GNN, which learns how much each power of the graph counts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.features import Input
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes, drop
from h2gcn.models.decompose import Decomposition, decompose_paths
from h2gcn.sparse import Operator, Propagation, dropout

__all__ = ["GPRGNN"]

MAX_POWER = 128  # of Â; by then every component is uniform


class GPRGNN(NodeModule):
    """Generalized PageRank network (Chien et al., ICLR 2021).

        Z = dropout(σ(dropout(X) W₁ + b₁)) W₂ + b₂
        logits = Σ_k γ_k Âᵏ dropout(Z)     with k from 0 to K

    with Â = D^-1/2 (A + I) D^-1/2. The γ_k are learned, of any sign, and start as those
    of personalized PageRank: γ_k = α (1 − α)ᵏ, and (1 − α)ᴷ for k = K. The sum is taken
    from the highest power inwards, γ₀ Z + Â(γ₁ Z + Â(…)), K products |Y| columns wide.

    As in the authors' program: the weights and biases of both maps are uniform up to
    one over the root of their number of inputs, the L2 penalty is on them, and none is
    on γ. Departures from it: the penalty is on the weights, not on the biases.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer.
    power
        K, the highest power.
    alpha
        α of the first γ, in (0, 1): the larger, the more the node itself counts.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of the features and of the hidden layer, while training.
    propagation_dropout
        Dropped fraction of Z before it is propagated, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the matrix Â [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        power: int = 10,
        alpha: float = 0.1,
        activation: str = "relu",
        dropout: float = 0.5,
        propagation_dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.power = check_integer("power", power, 1, MAX_POWER)
        self.alpha = check_real("alpha", alpha, "(0, 1)")
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.propagation_dropout = check_real(
            "propagation_dropout", propagation_dropout, "[0, 1)"
        )
        self.first = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.first_bias = nn.Parameter(torch.empty(hidden_channels))
        self.second = nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.second_bias = nn.Parameter(torch.empty(out_channels))
        self.gamma = nn.Parameter(torch.empty(power + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases anew; γ starts as PageRank's."""
        for weight, bias in (
            (self.first, self.first_bias),
            (self.second, self.second_bias),
        ):
            bound = len(weight) ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)
        left = 1 - self.alpha
        walks = [self.alpha * left**k for k in range(self.power)]
        with torch.no_grad():
            self.gamma.copy_(torch.tensor([*walks, left**self.power]))

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: K."""
        return self.power

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: those of both maps."""
        return [self.first, self.second]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        return self._propagate(self._encode(x), graph)

    def _encode(self, x: Tensor | Operator) -> Tensor:
        """Return dropout(Z), [n, |Y|]."""
        dropped = drop(x, self.dropout, self.training)
        hidden = ACTIVATIONS[self.activation](dropped @ self.first + self.first_bias)
        hidden = dropout(hidden, self.dropout, self.training)
        z = hidden @ self.second + self.second_bias
        return dropout(z, self.propagation_dropout, self.training)

    def _propagate(self, z: Tensor, graph: Propagation) -> Tensor:
        """Return Σ_k γ_k Âᵏ z of the target nodes, [m, c]."""
        (a_hat,) = graph.matrices
        gamma = self.gamma.unbind()
        total = gamma[-1] * z
        for weight in reversed(gamma[1:-1]):
            total = weight * z + a_hat @ total
        return gamma[0] * graph.pick(z) + graph.rows[0] @ total

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
