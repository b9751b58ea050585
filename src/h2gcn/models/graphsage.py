"""GraphSAGE, which keeps a node apart from the mean of its neighbors."""

from __future__ import annotations

import torch
from torch import Tensor

from h2gcn.models.base import ACTIVATIONS, drop, glorot
from h2gcn.models.options import Activation, Dropout, Width
from h2gcn.sparse import Operator, Propagation, dropout
from h2gcn.training import NodeModule


class GraphSAGE(NodeModule):
    """Two-layer GraphSAGE with means (Hamilton et al., NeurIPS 2017).

        H₁ = σ((X ‖ M X) W₁)                  M = D⁻¹ A
        H₂ = σ((H₁ ‖ M H₁) W₂)
        logits = H₂ W_c

    With `jumping`, the classifier reads both layers.

        H₁ = σ((X ‖ M X) W₁)                  M = D⁻¹ A
        H₂ = σ((H₁ ‖ M H₁) W₂)
        logits = (H₁ ‖ H₂) W_c

    A node and its neighbors see the same dropped input of a layer.

    As in the authors' simple program: no biases, no dropout by default, no penalty (the
    one of this library is on all weights), and Glorot-uniform weights, drawn for
    X ‖ M X as the one input that it is. M X W is computed as M (X W). PyG's SAGEConv
    has a bias, and two matrices of weights, for a node and for the mean of its
    neighbors, where one for both side by side is used here.

    Departures from the authors' program: it trains on batches, and averages over a
    sample of the neighbors in evaluation too. Its samples were meant to be of 5
    neighbors, but the option is misspelled there and 10 are drawn. Here every step sees
    all nodes and all neighbors.

    Parameters
    ----------
    jumping
        Whether the classifier reads both layers.
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        activation: Activation = "relu",
        dropout: Dropout = 0.0,
        jumping: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation, self.dropout, self.jumping = activation, dropout, jumping
        p = hidden_channels
        self.first, self.second = glorot(2 * in_channels, p), glorot(2 * p, p)
        self.classifier = glorot(2 * p if jumping else p, out_channels)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        act = ACTIVATIONS[self.activation]
        dropped = drop(x, self.dropout, self.training)
        own, neighbors = self.first.chunk(2)
        h1 = act(dropped @ own + graph.matrices[0] @ (dropped @ neighbors))
        inner = dropout(h1, self.dropout, self.training)
        h2 = act(graph.last(inner) @ self.second)
        joined = torch.cat([graph.pick(h1), h2], dim=1) if self.jumping else h2
        return joined @ self.classifier
