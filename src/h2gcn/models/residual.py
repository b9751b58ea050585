"""Deep graph networks with a linear map beside every convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes
from h2gcn.sparse import Operator, Propagation, dropout

__all__ = ["MAX_LAYERS", "NORMS", "ResidualGNN"]

MAX_LAYERS = 128
"""More is a slip of the keyboard."""
NORMS = ("batch", "layer", "none")
"""What `norm` takes."""
MOMENTUM, VARIANCE_FLOOR = 0.1, 1e-5
"""Of the batch normalisation, as torch has them."""


class ResidualGNN(NodeModule):
    r"""Deep GNN with residual connections (Luo et al., NeurIPS 2024).

    With S Kipf and Welling's D^-1/2 (A + I) D^-1/2 and L layers,

    .. math::
        H_0 = X, \quad
        H_k = \mathrm{dropout}(\sigma(\mathrm{norm}(S H_{k-1} W_k + H_{k-1} V_k))),
        \quad
        \text{logits} = H_L W_c + b

    In training the batch normalisation of layer k takes means and variances over the
    nodes whose H_k the wanted logits depend on: those at most L - k steps from a node
    of the target. So a batch is trained on as the whole graph would be for the same
    nodes, and what a batch holds in part only does not count. In evaluation it takes
    running means, and each node's logits are the same in batches and on the whole
    graph. A single row has no variance: it is normalised by the running ones.

    Where it differs from the original program: that takes the statistics over all
    nodes of the graph; it draws V_k as torch draws linear layers, here all weights are
    Glorot-uniform; its convolutions have biases, which the shift of a normalisation
    replaces (without one, a shift is added alone); the L2 penalty is there on all
    weights, here on the matrices.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width p of every layer.
    layers
        Number of layers L.
    activation
        σ, "relu", "elu" or "none".
    norm
        "batch", "layer" (over the columns of each node) or "none".
    dropout
        Dropped share of what each layer gives, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator S [n, n] without
    negative entries, logits [m, |Y|] of m target nodes. The running means and variances
    are buffers, [L, p], kept with the weights.
    """

    drops_input = False
    means: Tensor
    variances: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        layers: int = 4,
        activation: str = "relu",
        norm: str = "batch",
        dropout: float = 0.2,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.layers = check_integer("layers", layers, 1, MAX_LAYERS)
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.norm = check_choice("norm", norm, NORMS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        width = hidden_channels
        before = [in_channels] + [width] * (layers - 1)
        self.neighbours = nn.ParameterList(torch.empty(w, width) for w in before)
        self.own = nn.ParameterList(torch.empty(w, width) for w in before)
        self.shift = nn.Parameter(torch.empty(layers, width))
        if norm != "none":
            self.scale = nn.Parameter(torch.empty(layers, width))
        if norm == "batch":
            self.register_buffer("means", torch.empty(layers, width))
            self.register_buffer("variances", torch.empty(layers, width))
        self.classifier = nn.Parameter(torch.empty(width, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew (Glorot, uniform); nothing is scaled or shifted."""
        for matrix in self.regularised():
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.shift)
        nn.init.zeros_(self.bias)
        if self.norm != "none":
            nn.init.ones_(self.scale)
        if self.norm == "batch":
            nn.init.zeros_(self.means)
            nn.init.ones_(self.variances)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a layer."""
        return self.layers

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: the matrices."""
        return [*self.neighbours, *self.own, self.classifier]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        counted = self._counted(graph)
        h: Tensor | Operator = x
        for k, (neighbours, own) in enumerate(
            zip(self.neighbours, self.own, strict=True)
        ):
            seen = graph if k == self.layers - 1 else graph.whole
            mine = _picked_product(h, own, seen)
            z = seen.rows[0] @ (h @ neighbours) + mine
            z = ACTIVATIONS[self.activation](self._normalised(z, k, counted[k]))
            h = dropout(z, self.dropout, self.training)
        return h @ self.classifier + self.bias

    def _normalised(self, z: Tensor, k: int, counted: Tensor | None) -> Tensor:
        """Return what a layer gives, normalised; of rows not counted, zeros."""
        if self.norm == "none":
            return z + self.shift[k]
        scale, shift = self.scale[k], self.shift[k]
        if self.norm == "layer":
            return functional.layer_norm(z, z.shape[1:], scale, shift)
        rows = z if counted is None else z.index_select(0, counted)
        result = functional.batch_norm(
            rows,
            self.means[k],
            self.variances[k],
            scale,
            shift,
            self.training and len(rows) > 1,
            MOMENTUM,
            VARIANCE_FLOOR,
        )
        if counted is None:
            return result
        return torch.zeros_like(z).index_copy(0, counted, result)

    def _counted(self, graph: Propagation) -> list[Tensor | None]:
        """Return for each layer the nodes that its statistics are of, None for all.

        From the target outwards, step by step. The last layer has the target's rows
        only, and they all count.
        """
        counted: list[Tensor | None] = [None] * self.layers
        if graph.index is None or not self.training or self.norm != "batch":
            return counted
        (operator,), (last,) = graph.matrices, graph.rows
        assert isinstance(operator, Operator)
        assert isinstance(last, Operator)
        inside = torch.zeros(operator.shape[0], 1, device=operator.device)
        inside[graph.index] = 1
        step = last.T @ inside.new_ones(len(graph.index), 1)
        for k in range(self.layers - 2, -1, -1):
            inside = ((inside + step) > 0).to(inside.dtype)
            if bool(inside.all()):
                break  # and so are all layers before
            counted[k] = inside[:, 0].nonzero()[:, 0]
            step = operator.T @ inside
        return counted


def _picked_product(h: Tensor | Operator, weight: Tensor, graph: Propagation) -> Tensor:
    """Return the target's rows of h times the weights."""
    if isinstance(h, Tensor):
        return graph.pick(h) @ weight
    return graph.pick(h @ weight)
