"""Dir-GNN, which follows edges along and against, each with its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes
from h2gcn.sparse import LinearMap, Operator, Propagation, dropout

__all__ = ["JUMPING", "DirGNN"]

MAX_LAYERS = 128
LENGTH_FLOOR = 1e-12  # shorter rows are not scaled: their gradient would be unbounded
JUMPING = ("max", "cat", "none")


class DirGNN(NodeModule):
    """Dir-GNN with GCN's normalization (Rossi et al., LoG 2023).

        H₀ = X
        H_k = dropout(σ(α S H_k-1 W_k + (1 − α) Sᵀ H_k-1 V_k + b_k))
        logits = max(H₁ … H_L) W_c + b

    with S = D_out^-1/2 A D_in^-1/2, where A_ij is 1 if i points to j, and L layers. The
    classifier sees the largest entry of all layers in each column; or, with
    `jumping="cat"`, the layers side by side; with "none" there is no classifier, and
    the last layer gives the logits, without σ and dropout. With `normalize`, the rows
    of every H_k are scaled to length 1.

    As in the authors' program for its "dir-gcn": no self-loops, so that a node sees
    itself only along a way back; no dropout of X. Departures from it: the two maps of a
    layer have a bias each there, of which only the weighted sum counts, and that is
    b_k; weights are Glorot-uniform, and the L2 penalty, if there is any, is on the
    matrices.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    layers
        Number of layers L.
    alpha
        α, the weight of the out-neighbors; that of the in-neighbors is 1 - α.
    jumping
        What the classifier sees of the layers: "max", "cat" or "none".
    normalize
        Whether rows are scaled to length 1 after every layer.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of each layer's output, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operators S and its
    transpose [n, n], logits [m, |Y|] of m target nodes. On a graph without directions
    both are the same matrix.
    """

    drops_input = False
    self_loops = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        layers: int = 3,
        alpha: float = 0.5,
        jumping: str = "max",
        normalize: bool = False,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.layers = check_integer("layers", layers, 1, MAX_LAYERS)
        self.alpha = check_real("alpha", alpha, "[0, 1]")
        self.jumping = check_choice("jumping", jumping, JUMPING)
        self.normalize = check_bool("normalize", normalize)
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        widths = [in_channels] + [hidden_channels] * layers
        if jumping == "none":
            widths[-1] = out_channels
        pairs = list(pairwise(widths))
        self.along = nn.ParameterList(torch.empty(pair) for pair in pairs)
        self.against = nn.ParameterList(torch.empty(pair) for pair in pairs)
        self.shifts = nn.ParameterList(torch.empty(after) for _, after in pairs)
        if jumping != "none":
            seen = hidden_channels * (layers if jumping == "cat" else 1)
            self.classifier = nn.Parameter(torch.empty(seen, out_channels))
            self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew (Glorot, uniform); biases are 0."""
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one per layer."""
        return self.layers

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: the matrices."""
        return [weight for weight in self.parameters() if weight.ndim == 2]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        h: Tensor | Operator = x
        seen: list[Tensor] = []
        for k in range(self.layers):
            last = k == self.layers - 1
            z = self._both(h, k, graph.rows if last else graph.matrices)
            if last and self.jumping == "none":
                return z
            z = ACTIVATIONS[self.activation](z)
            z = dropout(z, self.dropout, self.training)
            h = _unit_rows(z) if self.normalize else z
            seen.append(h if last else graph.pick(h))
        if self.jumping == "cat":
            final = torch.cat(seen, dim=1)
        else:
            final = torch.stack(seen).amax(dim=0)
        return final @ self.classifier + self.bias

    def _both(
        self, h: Tensor | Operator, k: int, matrices: Sequence[LinearMap]
    ) -> Tensor:
        """Return the weighted sum of both directions, and the layer's bias."""
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
