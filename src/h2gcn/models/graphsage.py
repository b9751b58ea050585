"""GraphSAGE, which keeps a node apart from the mean of its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_real
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes, drop
from h2gcn.sparse import Operator, Propagation, dropout

__all__ = ["GraphSAGE"]


class GraphSAGE(NodeModule):
    r"""Two-layer GraphSAGE with means (Hamilton et al., NeurIPS 2017).

    .. math::
        H_1 = \sigma([X \Vert M X]\, W_1), \quad
        H_2 = \sigma([H_1 \Vert M H_1]\, W_2), \quad
        \text{logits} = H_2 W_c

    with M = D^-1 A, or, with `jumping`, logits = [H_1 ‖ H_2] W_c.

    As in the authors' simple program: no biases, no dropout, no penalty (the one of
    this library is on all weights), and Glorot-uniform weights, drawn for
    [X ‖ M X] as the one input that it is. Where the features are sparse, M X W is
    computed as M (X W).

    That program trains on batches, and averages over a sample of the neighbors in
    evaluation too. Its samples were meant to be of 5 neighbors, but the option is
    misspelled there and 10 are drawn. Here every step sees all nodes and all neighbors.

    PyG's SAGEConv has a bias, and two matrices of weights, for a node and for the mean
    of its neighbours, where one for both side by side is used here.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped share of the inputs of both layers, while training; a node and its
        neighbours see the same dropped input.
    jumping
        Whether the classifier sees both layers.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the matrix M [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.0,
        jumping: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.jumping = check_bool("jumping", jumping)
        width = hidden_channels
        self.first = nn.Parameter(torch.empty(2 * in_channels, width))
        self.second = nn.Parameter(torch.empty(2 * width, width))
        self.classifier = nn.Parameter(torch.empty((1 + jumping) * width, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform)."""
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a layer."""
        return 2

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        (mean,) = graph.matrices
        sigma = ACTIVATIONS[self.activation]

        dropped = drop(x, self.dropout, self.training)
        ego, neighbours = self.first.chunk(2)
        h1 = sigma(dropped @ ego + mean @ (dropped @ neighbours))

        # Here the mean comes before the weights: they then meet the target's rows only.
        inner = dropout(h1, self.dropout, self.training)
        h2 = sigma(graph.last(inner) @ self.second)
        final = torch.cat([graph.pick(h1), h2], dim=1) if self.jumping else h2
        return final @ self.classifier
