"""GCN, which mixes each node with its neighbors, GCN-Cheby, and SGC, linear GCN."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.features import Input
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes, drop
from h2gcn.models.decompose import Decomposition, constant, decompose_paths, to_numpy
from h2gcn.sparse import Operator, Propagation, WeightedOperator

__all__ = [
    "GCN",
    "MAX_DEGREE",
    "MAX_POWER",
    "SGC",
    "ChebyGCN",
    "TwoConvolutions",
]


class TwoConvolutions(NodeModule, ABC):
    """Two layers of a graph filter g_W, plain or with jumping knowledge.

        logits = g_W₂(σ(g_W₁(X)))

    `convolve` defines the filter, and there is a dropout before every product with
    weights. With jumping knowledge (Xu et al., ICML 2018) the classifier sees the
    embedded node itself and both layers:

        H₀ = σ(X W_e)
        H₁ = σ(g_W₁(H₀))
        H₂ = σ(g_W₂(H₁))
        logits = (H₀ ‖ H₁ ‖ H₂) W_c

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, a name of `ACTIVATIONS`.
    dropout
        Dropped fraction of the input of each layer and of the classifier, in training.
    jumping
        Whether the classifier sees all layers.
    terms
        How many matrices a filter's weights are; None for one, without an axis for it.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int,
        activation: str,
        dropout: float,
        jumping: bool,
        terms: int | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.jumping = check_bool("jumping", jumping)
        before, after = in_channels, out_channels
        if jumping:
            before = after = hidden_channels
            self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        axis = () if terms is None else (terms,)
        self.first = nn.Parameter(torch.empty(*axis, before, hidden_channels))
        self.second = nn.Parameter(torch.empty(*axis, hidden_channels, after))
        if jumping:
            joined = 3 * hidden_channels
            self.classifier = nn.Parameter(torch.empty(joined, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform), matrix by matrix."""
        for weight in self.parameters():
            for matrix in weight.detach().view(-1, *weight.shape[-2:]):
                nn.init.xavier_uniform_(matrix)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one per layer."""
        return 2

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: those that meet X."""
        return [self.embedding if self.jumping else self.first]

    @abstractmethod
    def convolve(
        self,
        x: Tensor | Operator | WeightedOperator,
        weight: Tensor,
        graph: Propagation,
    ) -> Tensor:
        """Return the filter of `x` with these weights, for the target nodes."""

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        sigma = ACTIVATIONS[self.activation]
        if not self.jumping:
            hidden = sigma(self.convolve(self._drop(x), self.first, graph.whole))
            return self.convolve(self._drop(hidden), self.second, graph)
        h0 = sigma(self._drop(x) @ self.embedding)
        h1 = sigma(self.convolve(self._drop(h0), self.first, graph.whole))
        h2 = sigma(self.convolve(self._drop(h1), self.second, graph))
        joined = torch.cat([graph.pick(h0), graph.pick(h1), h2], dim=1)
        return self._drop(joined) @ self.classifier

    def _drop(self, x: Tensor | Operator) -> Tensor | Operator | WeightedOperator:
        return drop(x, self.dropout, self.training)


class GCN(TwoConvolutions):
    """Two-layer graph convolutional network (Kipf and Welling, ICLR 2017).

        logits = Â dropout(σ(Â dropout(X) W₁)) W₂

    with Â = D^-1/2 (A + I) D^-1/2. With `jumping`, the paper's GCN with jumping
    knowledge:

        H₀ = σ(dropout(X) W_e)
        H₁ = σ(Â dropout(H₀) W₁)
        H₂ = σ(Â dropout(H₁) W₂)
        logits = dropout(H₀ ‖ H₁ ‖ H₂) W_c

    As in the original program: Glorot-uniform weights, no biases (PyG's GCNConv has
    one), dropout on the inputs of both layers (on the stored entries where the features
    are sparse), and the L2 penalty on the first layer's weights only; with `jumping`,
    on W_e only.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of the input of each layer and of the classifier, in training.
    jumping
        Whether an embedded node and both layers go to a classifier.

    Notes
    -----
    The matrix is Â.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.5,
        jumping: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
            jumping=jumping,
        )

    def convolve(
        self,
        x: Tensor | Operator | WeightedOperator,
        weight: Tensor,
        graph: Propagation,
    ) -> Tensor:
        """Return Â x W of the target nodes."""
        return graph.rows[0] @ (x @ weight)


MAX_POWER = 128  # of Â; by then every component is uniform


class SGC(NodeModule):
    """Simple graph convolution (Wu et al., ICML 2019).

        logits = Âᴷ X W + b

    Departures from the original program: it computes Âᴷ X once and then fits a logistic
    regression. Here Âᴷ (X W) is computed anew in every step: the same numbers from
    products |Y| columns wide; sparse features stay sparse, and the module holds no
    graph. As there, weights and biases are uniform up to 1/√F, and nothing is dropped.
    The L2 penalty is on W; there the optimizer's decay is on b too.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    power
        K, how many times the features are mixed with the neighbours'.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the matrix Â [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(self, in_channels: int, out_channels: int, *, power: int = 2) -> None:
        super().__init__(in_channels, out_channels)
        check_integer("in_channels", in_channels, 1)
        check_integer("out_channels", out_channels, 1)
        self.power = check_integer("power", power, 1, MAX_POWER)
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases anew."""
        bound = len(self.weight) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: K."""
        return self.power

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on."""
        return [self.weight]

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        return self._propagate(x @ self.weight, graph) + self.bias

    def _propagate(self, scores: Tensor, graph: Propagation) -> Tensor:
        """Return Âᴷ times scores, for the target nodes, [m, c]."""
        (a_hat,) = graph.matrices
        for _ in range(self.power - 1):
            scores = a_hat @ scores
        return graph.rows[0] @ scores

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


MAX_DEGREE = 32  # one product with the graph per degree and layer


class ChebyGCN(TwoConvolutions):
    """Two layers of Chebyshev filters (Defferrard et al., NeurIPS 2016).

        g_W(X) = Σ_k T_k(L̃) dropout(X) W_k     with k from 0 to K = `max_degree`
        logits = g_W₂(σ(g_W₁(X)))

    with the Chebyshev polynomials T_k; and with `jumping`

        g_W(X) = Σ_k T_k(L̃) dropout(X) W_k
        H₀ = σ(dropout(X) W_e)
        H₁ = σ(g_W₁(H₀))
        H₂ = σ(g_W₂(H₁))
        logits = dropout(H₀ ‖ H₁ ‖ H₂) W_c

    As in Kipf and Welling's program: all terms of a layer see the same dropped
    input, weights are Glorot-uniform matrix by matrix, there are no biases, and the
    L2 penalty is on all of the first layer's weights; with `jumping`, on W_e only.

    Departures from that program: it scales the Laplacian by its largest eigenvalue; the
    bound 2 is taken here, as in the runs of the H2GCN paper, so that the model is the
    same function on every graph. And it builds every T_k(L̃) as a matrix; see
    `convolve`. PyG's ChebConv has a bias.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of the input of each layer and of the classifier, in training.
    max_degree
        K, the largest degree. With 0 the graph is not seen.
    jumping
        Whether an embedded node and both layers go to a classifier.

    Notes
    -----
    The matrix is L̃ = 2/λ (I − D^-1/2 A D^-1/2) − I = −D^-1/2 A D^-1/2, with λ = 2: no
    eigenvalue of the Laplacian is larger. The weights of a layer are one tensor,
    [K + 1, in, out].
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.5,
        max_degree: int = 2,
        jumping: bool = False,
    ) -> None:
        check_integer("max_degree", max_degree, 0, MAX_DEGREE)
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
            jumping=jumping,
            terms=max_degree + 1,
        )
        self.max_degree = max_degree

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: K per layer."""
        return 2 * self.max_degree

    def convolve(
        self,
        x: Tensor | Operator | WeightedOperator,
        weight: Tensor,
        graph: Propagation,
    ) -> Tensor:
        """Return the filter of `x` for the target nodes.

        By Clenshaw's recursion from the highest degree downwards,

            B_k = X W_k + 2 L̃ B_k+1 − B_k+2
            g_W(X) = X W₀ + L̃ B₁ − B₂

        the graph multiplies matrices as wide as the layer's output, K times, and only
        the last product is cut to the target's rows.
        """
        terms: list[Tensor] = [x @ matrix for matrix in weight]
        if len(terms) == 1:
            return graph.pick(terms[0])
        above: Tensor | None = None
        b = terms[-1]
        for term in reversed(terms[1:-1]):
            rest = term if above is None else term - above
            b, above = rest + 2 * (graph.matrices[0] @ b), b
        rest = terms[0] if above is None else terms[0] - above
        return graph.pick(rest) + graph.rows[0] @ b
