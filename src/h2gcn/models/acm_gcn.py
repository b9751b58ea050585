"""ACM-GCN: each node weighs its neighbors, its difference to them, and itself."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.models.base import drop, uniform
from h2gcn.models.options import Dropout, Width, one_of
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import NodeModule

TEMPERATURE = 3.0  # divides the scores of the channels


class ACMGCN(NodeModule):
    """Adaptive channel mixing, two layers (Luan et al., NeurIPS 2022).

        M = (D + I)⁻¹ (A + I)
        H_L = relu(M X W_L)                 low-pass
        H_H = relu((I − M) X W_H)           high-pass
        H_I = relu(X W_I)                   the node itself
        P = softmax(σ(H_L a_L ‖ H_H a_H ‖ H_I a_I) B / 3)
        g(X) = 3 (P_L H_L + P_H H_H + P_I H_I)
        logits = g₂(dropout(relu(g₁(dropout(X)))))

    with the logistic function σ; each node has its own three fractions P. With
    `relu="before"`, the paper's option II, the filters come last:
    H_L = M relu(X W_L), H_H = (I − M) relu(X W_H).

    As in the authors' program: no biases; the channels of the last layer have their
    ReLU too; every W is uniform up to one over the root of its number of columns, each
    a up to 1 and B up to one over the root of 3; the L2 penalty is on all weights. The
    ReLU between the layers changes nothing after option I, whose sums are not negative.
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        relu: Annotated[
            str,
            one_of(("after", "before")),
            "ReLU of a channel after or before its filter",
        ] = "after",
        dropout: Annotated[
            Dropout, "Dropped fraction of the inputs of both layers in training"
        ] = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.relu, self.dropout = relu, dropout
        sizes = (in_channels, hidden_channels), (hidden_channels, out_channels)
        # The weights of the three channels stand side by side.
        self.maps = nn.ParameterList(uniform(b**-0.5, a, 3 * b) for a, b in sizes)
        self.scores = nn.ParameterList(uniform(1.0, 3, b) for _, b in sizes)
        self.mixing = nn.ParameterList(uniform(3**-0.5, 3, 3) for _ in sizes)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        hidden = torch.relu(self._layer(x, 0, graph.whole))
        return self._layer(hidden, 1, graph)

    def _layer(self, x: Tensor | Operator, k: int, graph: Propagation) -> Tensor:
        """Return g(dropout(x)) of the target nodes."""
        mapped = drop(x, self.dropout, self.training) @ self.maps[k]
        mapped = torch.relu_(mapped) if self.relu == "before" else mapped
        low, high, own = mapped.chunk(3, dim=1)
        mean = graph.rows[0]
        channels = [mean @ low, graph.pick(high) - mean @ high, graph.pick(own)]
        if self.relu == "after":
            channels = [torch.relu(channel) for channel in channels]
        pairs = zip(channels, self.scores[k], strict=True)
        scores = torch.stack([channel @ score for channel, score in pairs], dim=1)
        mixed = torch.sigmoid(scores) @ self.mixing[k]
        fractions = torch.softmax(mixed / TEMPERATURE, dim=1).unbind(dim=1)
        parts = [p[:, None] * h for p, h in zip(fractions, channels, strict=True)]
        return 3 * (parts[0] + parts[1] + parts[2])
