"""GAT, which learns how much each neighbor counts."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.models.base import ACTIVATIONS, drop, uniform
from h2gcn.models.options import MAX_WIDTH, Activation, Dropout, Width, at_least
from h2gcn.sparse import Operator, Propagation, attend, attention_bytes
from h2gcn.training import NodeModule

SLOPE = 0.2  # of LeakyReLU where its argument is negative


class AttentionHeads(nn.Module):
    """k attention heads side by side, each d wide, before their activation.

        Z = dropout(X) W
        e_ij = LeakyReLU(a₁ᵀ z_i + b₁ + a₂ᵀ z_j + b₂)
        α_i· = softmax_j(e_ij)                          over N(i) and i
        out_i = Σ_j dropout(α_ij) dropout(z_j) + b

    b₁ and b₂ act only as their sum, yet both are kept, as in the authors' program: with
    one, Adam's steps and the L2 penalty would be others. They change the softmax
    because LeakyReLU bends at zero.
    """

    def __init__(
        self, in_channels: int, heads: int, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = uniform(
            (6 / (in_channels + width)) ** 0.5, in_channels, heads, width
        )
        self.attention = uniform((6 / (width + 1)) ** 0.5, 2, heads, width)
        self.attention_bias = nn.Parameter(torch.zeros(2, heads, 1))
        self.bias = nn.Parameter(torch.zeros(heads, width))

    def forward(
        self, x: Tensor | Operator, pattern: Operator, index: Tensor | None = None
    ) -> Tensor:
        """Return the sums of each head, [m, k, d].

        Parameters
        ----------
        x
            [n, in_channels].
        pattern
            An entry wherever j counts for i, [m, n]; its values are not used.
        index
            The nodes of its rows, [m]; None is all nodes in order.
        """
        dropped = drop(x, self.dropout, self.training)
        z = (dropped @ self.weight.flatten(1)).unflatten(1, self.bias.shape)
        # What a node adds to a score as i and as j, [2, n, k].
        i, j = torch.einsum(
            "nkd,skd->snk", z, self.attention
        ) + self.attention_bias.transpose(1, 2)
        i = i if index is None else i.index_select(0, index)
        p = self.dropout if self.training else 0.0
        return attend(pattern, i, j, z, slope=SLOPE, p=p) + self.bias


class GAT(NodeModule):
    """Two-layer graph attention network (Veličković et al., ICLR 2018).

        H = ‖_h σ(head_h(X))
        logits = 1/k' Σ_h head'_h(H)

    with the heads of `AttentionHeads` over each node's neighbors and itself. As in the
    authors' program: Glorot-uniform weights, zero biases, dropout of the inputs, of the
    attention and, after it has been computed, of what is summed; the L2 penalty on all
    parameters (the program means to except biases, but compares with names that no
    variable has). PyG's GATConv has no biases b₁ and b₂ in the attention, and does not
    drop from the projected features.

    Departures from the authors' program: the heads of a layer share one mask of dropped
    inputs, where the program draws one for each; sparse features then meet all heads'
    weights in one product.
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Annotated[Width, "Width of each head of the first layer"] = 8,
        heads: Annotated[
            int, at_least(1, MAX_WIDTH), "Heads of the first layer, side by side"
        ] = 8,
        out_heads: Annotated[
            int, at_least(1, MAX_WIDTH), "Heads of the second layer, averaged"
        ] = 1,
        activation: Activation = "elu",
        dropout: Annotated[
            Dropout, "Dropped fraction of inputs, attention and sums in training"
        ] = 0.6,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation = activation
        width = heads * hidden_channels
        self.first = AttentionHeads(in_channels, heads, hidden_channels, dropout)
        self.second = AttentionHeads(width, out_heads, out_channels, dropout)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        first = self.first(x, graph.matrices[0])
        hidden = ACTIVATIONS[self.activation](first).flatten(1)
        logits: Tensor = self.second(hidden, graph.rows[0], graph.index).mean(dim=1)
        return logits

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of all heads' columns, and of what weighs each entry."""
        del n_targets
        layers = (self.first, self.second)
        widths = sum(layer.bias.numel() for layer in layers)
        of_entry = sum(attention_bytes(len(layer.bias)) for layer in layers)
        return 28 * widths * n_nodes + of_entry * entries
