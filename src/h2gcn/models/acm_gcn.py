"""ACM-GCN, where each node weighs its neighbours, its difference to them and itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_real
from h2gcn.graph import CSR
from h2gcn.models.base import NodeModule, check_sizes, drop, pick
from h2gcn.models.graphsage import mean_adjacency
from h2gcn.sparse import DroppedOperator, LinearMap, Operator, Target, dropout

__all__ = ["ACMGCN", "RELU", "closed_means"]

CHANNELS = 3
TEMPERATURE = 3.0
"""The scores of the channels are divided by it."""
RELU = ("after", "before")
"""What `relu` takes."""


def closed_means(adj: CSR) -> tuple[CSR, ...]:
    """Return (D + I)^-1 (A + I), the mean over a node and its neighbours."""
    return mean_adjacency(CSR(adj + sp.eye_array(adj.shape[0], dtype=np.float32)))


class ACMGCN(NodeModule):
    r"""Adaptive channel mixing, two layers (Luan et al., NeurIPS 2022).

    With M = (D + I)^-1 (A + I) and a layer of three channels, low-pass, high-pass and
    the node itself,

    .. math::
        H_L = \mathrm{relu}(M X W_L), \quad
        H_H = \mathrm{relu}((I - M) X W_H), \quad
        H_I = \mathrm{relu}(X W_I), \quad
        P = \mathrm{softmax}(\sigma(H_L a_L \Vert H_H a_H \Vert H_I a_I)\, B / 3), \quad
        g(X) = 3\,(P_L H_L + P_H H_H + P_I H_I), \quad
        \text{logits} = g_2(\mathrm{dropout}(\mathrm{relu}(g_1(\mathrm{dropout}(X)))))

    where σ is the logistic function, and each node has its own three shares P. With
    `relu="before"`, the paper's option II, the filters come last: H_L = M relu(X W_L),
    H_H = (I - M) relu(X W_H).

    As in the authors' program: no biases; the channels of the last layer too have their
    ReLU; every W is drawn uniformly from one over the root of its columns' number, each
    a from 1 and B from one over the root of 3; the L2 penalty is on all weights. The
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
        Dropped share of the inputs of both layers, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the only operator M [n, n]
    (see `closed_means`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
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
        """How many products with operators follow one another: one a layer."""
        return 2

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, [n, |Y|], or of the target's."""
        (mean,) = operators
        (last,) = operators if target is None else target.operators
        index = slice(None) if target is None else target.index
        dropped = drop(x, self.dropout, self.training)
        hidden = torch.relu_(self._layer(dropped, 0, mean, slice(None)))
        hidden = dropout(hidden, self.dropout, self.training)
        return self._layer(hidden, 1, last, index)

    def _layer(
        self,
        x: Tensor | Operator | DroppedOperator,
        number: int,
        mean: LinearMap,
        index: Tensor | slice,
    ) -> Tensor:
        """Return the mixed channels of a layer, for the rows of `mean` and `index`."""
        low, high, own = (x @ weight for weight in self.maps[number].unbind())
        if self.relu == "before":
            low, high = torch.relu_(low), torch.relu_(high)
        low, high = mean @ low, pick(high, index) - mean @ high
        own = torch.relu_(pick(own, index))
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
