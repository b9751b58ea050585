"""Dir-GNN, which follows edges along and against, each with its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.models.base import ACTIVATIONS, glorot
from h2gcn.models.options import (
    Activation,
    Dropout,
    Flag,
    Width,
    at_least,
    between,
    one_of,
)
from h2gcn.sparse import LinearMap, Operator, Propagation, dropout
from h2gcn.training import NodeModule

MAX_LAYERS = 128  # more is a typing error
LENGTH_FLOOR = 1e-12  # shorter rows are not scaled: their gradient would be unbounded


class DirGNN(NodeModule):
    """Dir-GNN with GCN's normalization (Rossi et al., LoG 2023).

        H₀ = X
        H_k = dropout(σ(α S H_k-1 W_k + (1 − α) Sᵀ H_k-1 V_k + b_k))      k from 1 to L
        logits = max(H₁, …, H_L) W_c + b

    with S = D_out^-1/2 A D_in^-1/2, where A_ij is 1 if i points to j. The classifier
    reads the largest entry of all layers in each column; or, with `jumping="cat"`, the
    layers side by side; with "none" there is no classifier, and the last layer gives
    the logits, without σ and dropout. With `normalize`, the rows of every H_k are
    scaled to length 1. Without directions S and Sᵀ are the same matrix.

    As in the authors' program for its "dir-gcn": no self-loops, so that a node reads
    itself only along a way back; no dropout of X.

    Departures from the authors' program: the two maps of a layer have a bias each
    there, of which only the weighted sum counts, and that is b_k; weights are
    Glorot-uniform, and the L2 penalty, if there is any, is on the matrices.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        layers: Annotated[int, at_least(1, MAX_LAYERS), "Number of layers L"] = 3,
        alpha: Annotated[
            float,
            between("[0, 1]"),
            "Weight α of out-neighbors; in-neighbors have 1 - α",
        ] = 0.5,
        jumping: Annotated[
            str,
            one_of(("max", "cat", "none")),
            "How the classifier reads the layers: max, cat or none",
        ] = "max",
        normalize: Annotated[Flag, "Scale rows to length 1 after each layer"] = False,
        activation: Activation = "relu",
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.receptive_field = layers
        self.alpha, self.jumping, self.normalize = alpha, jumping, normalize
        self.activation, self.dropout = activation, dropout
        widths = [in_channels] + [hidden_channels] * layers
        if jumping == "none":
            widths[-1] = out_channels
        self.along = nn.ParameterList(glorot(*pair) for pair in pairwise(widths))
        self.against = nn.ParameterList(glorot(*pair) for pair in pairwise(widths))
        self.shifts = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        if jumping != "none":
            width = hidden_channels * (layers if jumping == "cat" else 1)
            self.classifier = glorot(width, out_channels)
            self.bias = nn.Parameter(torch.zeros(out_channels))

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the matrices."""
        return [weight for weight in self.parameters() if weight.ndim == 2]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        h, read = x, []
        for k in range(len(self.shifts)):
            last = k == len(self.shifts) - 1
            z = self._convolve(h, k, graph.rows if last else graph.matrices)
            if last and self.jumping == "none":
                return z
            z = dropout(ACTIVATIONS[self.activation](z), self.dropout, self.training)
            h = _unit_rows(z) if self.normalize else z
            read.append(h if last else graph.pick(h))
        if self.jumping == "cat":
            joined = torch.cat(read, dim=1)
        else:
            joined = torch.stack(read).amax(dim=0)
        return joined @ self.classifier + self.bias

    def _convolve(
        self, h: Tensor | Operator, k: int, matrices: Sequence[LinearMap]
    ) -> Tensor:
        """Return α S h W_k + (1 − α) Sᵀ h V_k + b_k."""
        along, against = matrices
        z: Tensor = self.shifts[k]
        if self.alpha > 0:
            z = z + self.alpha * (along @ (h @ self.along[k]))
        if self.alpha < 1:
            z = z + (1 - self.alpha) * (against @ (h @ self.against[k]))
        return z


def _unit_rows(z: Tensor) -> Tensor:
    """Return rows scaled to length 1; those of zeros stay zero."""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / torch.where(length > LENGTH_FLOOR, length, 1.0)
