"""GCN, which mixes each node with its neighbors, GCN-Cheby, and SGC, a linear GCN."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.features import Input
from h2gcn.models.base import ACTIVATIONS, drop, glorot, uniform
from h2gcn.models.decompose import Decomposition, constant, decompose_paths, to_numpy
from h2gcn.models.options import Activation, Dropout, Width, at_least
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import NodeModule

MAX_POWER = 128  # of Â; by then every component is uniform
MAX_DEGREE = 32  # each degree is one product with the graph per layer


class GCN(NodeModule):
    """Two-layer graph convolutional network (Kipf and Welling, ICLR 2017).

        Â = D^-1/2 (A + I) D^-1/2
        logits = Â dropout(σ(Â dropout(X) W₁)) W₂

    With `jumping`, jumping knowledge (Xu et al., ICML 2018): the classifier reads the
    embedded node and both layers.

        H₀ = σ(dropout(X) W_e)
        H₁ = σ(Â dropout(H₀) W₁)
        H₂ = σ(Â dropout(H₁) W₂)
        logits = dropout(H₀ ‖ H₁ ‖ H₂) W_c

    As in the authors' program, weights are Glorot-uniform, there are no biases (PyG's
    GCNConv has one), both layers drop their input (of sparse features the stored
    entries), and the L2 penalty is on W₁ alone; with `jumping`, on W_e alone.

    Parameters
    ----------
    jumping
        Whether the classifier reads all layers.
    n_filters
        How many matrices each of W₁ and W₂ consists of, side by side.
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
        jumping: bool = False,
        n_filters: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation, self.dropout = activation, dropout
        self.jumping, self.n_filters = jumping, n_filters
        p = hidden_channels
        before, after = (p, p) if jumping else (in_channels, out_channels)
        if jumping:
            self.embedding = glorot(in_channels, p)
        self.first = glorot(before, *[p] * n_filters)
        self.second = glorot(p, *[after] * n_filters)
        if jumping:
            self.classifier = glorot(3 * p, out_channels)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the weights that the features meet."""
        return [self.embedding if self.jumping else self.first]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        act = ACTIVATIONS[self.activation]
        if not self.jumping:
            hidden = act(self.convolve(x, self.first, graph.whole))
            return self.convolve(hidden, self.second, graph)
        h0 = act(drop(x, self.dropout, self.training) @ self.embedding)
        h1 = act(self.convolve(h0, self.first, graph.whole))
        h2 = act(self.convolve(h1, self.second, graph))
        joined = torch.cat([graph.pick(h0), graph.pick(h1), h2], dim=1)
        return drop(joined, self.dropout, self.training) @ self.classifier

    def convolve(
        self, x: Tensor | Operator, weight: Tensor, graph: Propagation
    ) -> Tensor:
        """Return Â dropout(x) W of the target nodes."""
        return graph.rows[0] @ (drop(x, self.dropout, self.training) @ weight)


class ChebyGCN(GCN):
    """Two layers of Chebyshev filters (Defferrard et al., NeurIPS 2016).

        g_W(X) = Σ_k T_k(L̃) dropout(X) W_k        k from 0 to K
        logits = g_W₂(σ(g_W₁(X)))

    T_k are the Chebyshev polynomials, and L̃ = 2/λ (I − D^-1/2 A D^-1/2) − I, which is
    −D^-1/2 A D^-1/2 for λ = 2: no eigenvalue of the Laplacian is larger. With
    `jumping`, the classifier reads the embedded node and both layers.

        g_W(X) = Σ_k T_k(L̃) dropout(X) W_k        k from 0 to K
        H₀ = σ(dropout(X) W_e)
        H₁ = σ(g_W₁(H₀))
        H₂ = σ(g_W₂(H₁))
        logits = dropout(H₀ ‖ H₁ ‖ H₂) W_c

    As in Kipf and Welling's program, all terms of a layer read the same dropped input,
    each W_k is Glorot-uniform by itself, there are no biases (PyG's ChebConv has one),
    and the L2 penalty is on all weights of the first layer; with `jumping`, on W_e
    alone.

    Departures from that program: it scales the Laplacian by its largest eigenvalue; the
    bound 2 is taken here, as in the runs of the H2GCN paper, so that the model is the
    same function on every graph. And it builds every T_k(L̃) as a matrix; see
    `convolve`.

    Parameters
    ----------
    jumping
        Whether the classifier reads all layers.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
        max_degree: Annotated[
            int, at_least(0, MAX_DEGREE), "Largest degree K; 0 sees no graph"
        ] = 2,
        jumping: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
            jumping=jumping,
            n_filters=max_degree + 1,
        )
        self.receptive_field = 2 * max_degree

    def convolve(
        self, x: Tensor | Operator, weight: Tensor, graph: Propagation
    ) -> Tensor:
        """Return g_W(x) of the target nodes by Clenshaw's recursion, highest k first.

            B_k = x W_k + 2 L̃ B_k+1 − B_k+2
            g_W(x) = x W₀ + L̃ B₁ − B₂

        It takes K products with the graph, as wide as the layer's output, and the last
        one is of the target's rows alone.
        """
        product = drop(x, self.dropout, self.training) @ weight
        if self.n_filters == 1:
            return graph.pick(product)
        *terms, b = product.chunk(self.n_filters, dim=1)
        above = torch.zeros_like(b)
        for term in reversed(terms[1:]):
            b, above = term + 2 * (graph.matrices[0] @ b) - above, b
        return graph.pick(terms[0] - above) + graph.rows[0] @ b


class SGC(NodeModule):
    """Simple graph convolution (Wu et al., ICML 2019).

        logits = Âᴷ X W + b

    with GCN's Â. As in the authors' program, weights and biases are uniform up to 1/√F,
    and nothing is dropped.

    Departures from the authors' program: it computes Âᴷ X once and then fits a logistic
    regression. Here Âᴷ (X W) is computed anew in every step: the same numbers from
    products C columns wide; sparse features stay sparse, and the module holds no graph.
    The L2 penalty is on W; there the optimizer's decay is on b too.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        power: Annotated[
            int, at_least(1, MAX_POWER), "How often the features are smoothed, K"
        ] = 2,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.power = self.receptive_field = power
        self.weight = uniform(in_channels**-0.5, in_channels, out_channels)
        self.bias = uniform(in_channels**-0.5, out_channels)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the weights without the biases."""
        return [self.weight]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        return self._propagate(x @ self.weight, graph) + self.bias

    def _propagate(self, h: Tensor, graph: Propagation) -> Tensor:
        """Return Âᴷ h of the target nodes, [m, c]."""
        for _ in range(self.power - 1):
            h = graph.matrices[0] @ h
        return graph.rows[0] @ h

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split by node and by column."""
        contributions = decompose_paths(
            lambda h: self._propagate(h, graph)[0],
            x,
            {"": to_numpy(self.weight)},
            has_columns=True,
        )
        how = "exact by distance, by neighbor and by column: the model is linear"
        bias = constant("bias", to_numpy(self.bias))
        return Decomposition((bias, *contributions), how)
