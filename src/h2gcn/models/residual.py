"""Deep graph networks with a linear map beside every convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.models.base import ACTIVATIONS, glorot
from h2gcn.models.options import Activation, Dropout, Width, at_least, one_of
from h2gcn.sparse import Operator, Propagation, dropout
from h2gcn.training import NodeModule

MAX_LAYERS = 128  # more is a typing error


class Shift(nn.Module):
    """Adds a bias to each column."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, z: Tensor) -> Tensor:
        """Return the shifted rows."""
        return z + self.bias


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": Shift,
}


class ResidualGNN(NodeModule):
    """Deep GNN with residual connections (Luo et al., NeurIPS 2024).

        H₀ = X
        H_k = dropout(σ(norm(Â H_k-1 W_k + H_k-1 V_k)))        k from 1 to L
        logits = H_L W_c + b

    with Kipf and Welling's Â = D^-1/2 (A + I) D^-1/2. As in the authors' program, batch
    normalization takes the statistics of all nodes of the graph in training, so that
    batches need `norm="layer"` or "none", and running statistics in evaluation.

    Departures from the authors' program: it draws V_k as torch draws linear layers,
    here all weights are Glorot-uniform; its convolutions have biases, which the shift
    of a normalization replaces (without one, a shift is added alone); the L2 penalty is
    there on all weights, here on the matrices.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        layers: Annotated[int, at_least(1, MAX_LAYERS), "Number of layers L"] = 4,
        activation: Activation = "relu",
        norm: Annotated[
            str, one_of(NORMS), "Normalization of a layer: batch, layer or none"
        ] = "batch",
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation, self.norm, self.dropout = activation, norm, dropout
        self.receptive_field = layers
        p, widths = hidden_channels, [in_channels] + [hidden_channels] * (layers - 1)
        self.neighbors = nn.ParameterList(glorot(width, p) for width in widths)
        self.own = nn.ParameterList(glorot(width, p) for width in widths)
        self.norms = nn.ModuleList(NORMS[norm](p) for _ in widths)
        self.classifier = glorot(p, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def batch_problem(self) -> str | None:
        """Return why there are no batches with batch norm."""
        if self.norm == "batch":
            return "its batch norm takes statistics of all nodes of the graph"
        return None

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the matrices."""
        return [weight for weight in self.parameters() if weight.ndim == 2]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        statistics_of_all = self.norm == "batch" and self.training
        last = graph.whole if statistics_of_all else graph
        targets = [graph.whole] * (len(self.norms) - 1) + [last]
        layers = zip(self.neighbors, self.own, self.norms, targets, strict=True)
        h = x
        for neighbors, own, norm, target in layers:
            z = target.rows[0] @ (h @ neighbors) + target.pick(h @ own)
            h = ACTIVATIONS[self.activation](norm(z))
            h = dropout(h, self.dropout, self.training)
        logits = h @ self.classifier + self.bias
        return graph.pick(logits) if statistics_of_all else logits
