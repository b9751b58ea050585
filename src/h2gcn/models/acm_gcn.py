"""ACM-GCN: each node weighs its neighbors, its difference to them, and itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_real
from h2gcn.models.base import NodeModule, check_sizes, drop
from h2gcn.sparse import Operator, Propagation, WeightedOperator, dropout

__all__ = ["ACMGCN", "RELU"]

CHANNELS = 3
TEMPERATURE = 3.0  # divides the scores of the channels
RELU = ("after", "before")


class ACMGCN(NodeModule):
    """Adaptive channel mixing, two layers (Luan et al., NeurIPS 2022).

        H_L = relu(M X W_L)                 low-pass
        H_H = relu((I − M) X W_H)           high-pass
        H_I = relu(X W_I)                   the node itself
        P = softmax(σ(H_L a_L ‖ H_H a_H ‖ H_I a_I) B / 3)
        g(X) = 3 (P_L H_L + P_H H_H + P_I H_I)
        logits = g₂(dropout(relu(g₁(dropout(X)))))

    with M = (D + I)⁻¹ (A + I) and the logistic function σ; each node has its own three
    shares P. With `relu="before"`, the paper's option II, the filters come last:
    H_L = M relu(X W_L), H_H = (I − M) relu(X W_H).

    As in the authors' program: no biases; the channels of the last layer have their
    ReLU too; every W is uniform up to one over the root of its number of columns, each
    a up to 1 and B up to one over the root of 3; the L2 penalty is on all weights. The
    ReLU between the layers changes nothing after option I, whose sums are not negative.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer.
    relu
        Whether the ReLU of a channel comes "after" its filter or "before".
    dropout
        Dropped fraction of the inputs of both layers, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the only matrix M [n, n],
    logits [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        relu: str = "after",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.relu = check_choice("relu", relu, RELU)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        sizes = (in_channels, hidden_channels), (hidden_channels, out_channels)
        self.maps = nn.ParameterList(torch.empty(CHANNELS, *size) for size in sizes)
        self.scores = nn.ParameterList(torch.empty(CHANNELS, b) for _, b in sizes)
        self.mixing = nn.ParameterList(torch.empty(CHANNELS, CHANNELS) for _ in sizes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for maps, scores, mixing in zip(
            self.maps, self.scores, self.mixing, strict=True
        ):
            bound = maps.shape[-1] ** -0.5
            nn.init.uniform_(maps, -bound, bound)
            nn.init.uniform_(scores, -1, 1)
            nn.init.uniform_(mixing, -(CHANNELS**-0.5), CHANNELS**-0.5)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one per layer."""
        return 2

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        dropped = drop(x, self.dropout, self.training)
        hidden = torch.relu_(self._layer(dropped, 0, graph.whole))
        hidden = dropout(hidden, self.dropout, self.training)
        return self._layer(hidden, 1, graph)

    def _layer(
        self,
        x: Tensor | Operator | WeightedOperator,
        number: int,
        graph: Propagation,
    ) -> Tensor:
        """Return the mixed channels of a layer, for the target nodes."""
        low, high, own = (x @ weight for weight in self.maps[number].unbind())
        if self.relu == "before":
            low, high = torch.relu_(low), torch.relu_(high)
        (mean,) = graph.rows
        low, high = mean @ low, graph.pick(high) - mean @ high
        own = torch.relu_(graph.pick(own))
        if self.relu == "after":
            low, high = torch.relu_(low), torch.relu_(high)
        channels = low, high, own
        scores = [
            channel @ weight
            for channel, weight in zip(channels, self.scores[number], strict=True)
        ]
        mixed = torch.sigmoid(torch.stack(scores, dim=1)) @ self.mixing[number]
        shares = torch.softmax(mixed / TEMPERATURE, dim=1).unbind(dim=1)
        weighted = [
            share[:, None] * channel
            for share, channel in zip(shares, channels, strict=True)
        ]
        total: Tensor = sum(weighted[1:], weighted[0])
        return CHANNELS * total
