"""GAT, the baseline that learns how much each neighbour counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.models.base import ACTIVATIONS, MAX_WIDTH, NodeModule, check_sizes, drop
from h2gcn.sparse import Operator, Propagation, attend, attention_bytes

__all__ = ["GAT", "AttentionHeads"]

SLOPE = 0.2
"""Of LeakyReLU where its argument is negative."""


class AttentionHeads(nn.Module):
    r"""A layer of k attention heads side by side, each d wide, before its activation.

    For every head, with p the dropped share,

    .. math::
        Z = \mathrm{drop}_p(X) W, \quad
        e_{ij} = \mathrm{LeakyReLU}_{0.2}(a_1^\top z_i + b_1 + a_2^\top z_j + b_2),
        \quad \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i) \cup \{i\}}(e_{ij}),

    .. math::
        \text{out}_i = \sum_j \mathrm{drop}_p(\alpha_{ij})\, \mathrm{drop}_p(z_j) + b

    Parameters
    ----------
    in_channels
        Columns of the input.
    heads
        Number of heads k.
    width
        Columns d of each head.
    dropout
        p.

    Notes
    -----
    Shapes: `x` [n, in_channels], `operator` [m, n] with an entry wherever j counts for
    i, `ego` [m] with the nodes that the rows stand for (all, if None), result [m, k,
    d]. The operator's values are not used.

    b₁ and b₂ act only as their sum, yet both are kept, as in the original program:
    with one, Adam's steps and the L2 penalty would be others. The softmax hears of
    them because LeakyReLU bends at zero.
    """

    def __init__(
        self, in_channels: int, heads: int, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(in_channels, heads, width))
        self.attention = nn.Parameter(torch.empty(2, heads, width))
        self.attention_bias = nn.Parameter(torch.empty(2, heads, 1))
        self.bias = nn.Parameter(torch.empty(heads, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform, head by head); biases are zero."""
        in_channels, _, width = self.weight.shape
        for weight, fans in (
            (self.weight, in_channels + width),
            (self.attention, width + 1),
        ):
            nn.init.uniform_(weight, -math.sqrt(6 / fans), math.sqrt(6 / fans))
        nn.init.zeros_(self.attention_bias)
        nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Tensor | Operator,
        operator: Operator,
        ego: Tensor | None = None,
    ) -> Tensor:
        """Return each head's weighted sums with its bias."""
        dropped = drop(x, self.dropout, self.training)
        z = (dropped @ self.weight.flatten(1)).unflatten(1, self.bias.shape)
        # [2, n, k]: what a node adds to a score as ego, and what as neighbor.
        source, neighbor = torch.einsum(
            "nkd,skd->snk", z, self.attention
        ) + self.attention_bias.transpose(1, 2)
        source = source if ego is None else source.index_select(0, ego)
        p = self.dropout if self.training else 0.0
        sums = attend(operator, source, neighbor, z, slope=SLOPE, p=p)
        return sums + self.bias


class GAT(NodeModule):
    r"""Two-layer graph attention network (Veličković et al., ICLR 2018).

    .. math::
        H = \Vert_{h} \, \sigma(\mathrm{head}_h(X)), \quad
        \text{logits} = \frac{1}{k'} \sum_{h} \mathrm{head}'_h(H)

    with the heads of `AttentionHeads` over each node's neighbours and itself. As in
    the original program: Glorot-uniform weights, zero biases, dropout of the inputs,
    of the attention and, after it has been computed, of what is summed; the L2
    penalty on all parameters (the program means to except biases, but compares
    with names that no variable has).

    Where it differs: the heads of a layer share one mask of dropped inputs, where
    the program draws one for each; sparse features then meet all heads' weights in
    one product.

    PyG's GATConv has no biases b₁ and b₂ in the attention, and does not drop from the
    projected features.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of each head of the first layer.
    heads
        Number of heads of the first layer, side by side.
    out_heads
        Number of heads k' of the second layer, whose mean is taken.
    activation
        σ, "elu", "relu" or "none".
    dropout
        Dropped share of inputs, attention and summed representations, while training.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 8,
        heads: int = 8,
        out_heads: int = 1,
        activation: str = "elu",
        dropout: float = 0.6,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        check_integer("heads", heads, 1, MAX_WIDTH)
        check_integer("out_heads", out_heads, 1, MAX_WIDTH)
        check_choice("activation", activation, ACTIVATIONS)
        dropout = check_real("dropout", dropout, "[0, 1)")
        self.activation = activation
        width = heads * hidden_channels
        self.first = AttentionHeads(in_channels, heads, hidden_channels, dropout)
        self.second = AttentionHeads(width, out_heads, out_channels, dropout)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.first.reset_parameters()
        self.second.reset_parameters()

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a layer."""
        return 2

    def entry_bytes(self) -> int:
        """Return the bytes of an entry: its place, and what each head makes of it."""
        layers = (self.first, self.second)
        return sum(attention_bytes(len(layer.bias)) for layer in layers)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        first = self.first(x, graph.matrices[0])
        hidden = ACTIVATIONS[self.activation](first).flatten(1)
        logits: Tensor = self.second(hidden, graph.rows[0], graph.index).mean(dim=1)
        return logits
