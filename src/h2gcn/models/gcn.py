"""GCN, the baseline that mixes each node with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.graph import CSR
from h2gcn.models.h2gcn import ACTIVATIONS, MAX_WIDTH
from h2gcn.rings import normalise
from h2gcn.sparse import DroppedOperator, Operator, Target

__all__ = ["GCN", "renormalised_adjacency"]


def renormalised_adjacency(adj: CSR) -> tuple[CSR, ...]:
    """Return Kipf and Welling's Â = D^-1/2 (A + I) D^-1/2 as the only operator."""
    return (normalise(adj, self_loops=True),)


class GCN(nn.Module):
    r"""Two-layer graph convolutional network (Kipf and Welling, ICLR 2017).

    .. math::
        \text{logits} = \hat A\, \mathrm{dropout}(\sigma(\hat A\,
        \mathrm{dropout}(X) W_1)) W_2

    As in the original program: Glorot-uniform weights, no biases, dropout on the
    inputs of both layers (on the stored entries where the features are sparse),
    and the L2 penalty on the first layer's weights only.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer.
    activation
        σ, "relu" or "none".
    dropout
        Dropped share of each layer's input, while training.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        check_integer("GCN", "in_channels", in_channels, 1)
        check_integer("GCN", "out_channels", out_channels, 1)
        check_integer("GCN", "hidden_channels", hidden_channels, 1, MAX_WIDTH)
        check_choice("GCN", "activation", activation, ACTIVATIONS)
        self.dropout = check_real("GCN", "dropout", dropout, "[0, 1)")
        self.activation = activation
        self.first = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.second = nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform)."""
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on."""
        return [self.first]

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, [n, |Y|], or of the target's."""
        (a_hat,) = operators
        (last,) = operators if target is None else target.operators
        hidden = ACTIVATIONS[self.activation](a_hat @ (self._drop(x) @ self.first))
        hidden = functional.dropout(hidden, self.dropout, self.training)
        return last @ (hidden @ self.second)

    def _drop(self, x: Tensor | Operator) -> Tensor | Operator | DroppedOperator:
        if not self.training or self.dropout == 0:
            return x
        if isinstance(x, Operator):
            return x.dropout(self.dropout)
        return functional.dropout(x, self.dropout)
