"""GCN, which mixes each node with its neighbours, GCN-Cheby, and SGC, linear GCN."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.graph import CSR
from h2gcn.models.base import (
    ACTIVATIONS,
    ExactSum,
    NodeModule,
    Summand,
    by_distance,
    check_sizes,
    drop,
    follow,
    input_rows,
    pick,
)
from h2gcn.ring_table import Input
from h2gcn.rings import normalise
from h2gcn.sparse import DroppedOperator, LinearMap, Operator, Target

__all__ = [
    "GCN",
    "MAX_DEGREE",
    "MAX_POWER",
    "SGC",
    "ChebyGCN",
    "TwoConvolutions",
    "renormalised_adjacency",
    "scaled_laplacian",
]


def renormalised_adjacency(adj: CSR) -> tuple[CSR, ...]:
    """Return Kipf and Welling's Â = D^-1/2 (A + I) D^-1/2 as the only operator."""
    return (normalise(adj, self_loops=True),)


class TwoConvolutions(NodeModule, ABC):
    r"""Two layers of a graph filter, plain or with jumping knowledge.

    With a filter :math:`g_W` that `convolve` defines, and a dropout before every
    product with weights, the plain form is

    .. math::
        \text{logits} = g_{W_2}(\sigma(g_{W_1}(X)))

    and the form with jumping knowledge (Xu et al., ICML 2018), whose classifier sees
    the embedded node itself and both layers,

    .. math::
        H_0 = \sigma(X W_e), \quad H_1 = \sigma(g_{W_1}(H_0)), \quad
        H_2 = \sigma(g_{W_2}(H_1)), \quad
        \text{logits} = (H_0 \Vert H_1 \Vert H_2)\, W_c

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, a name of `ACTIVATIONS`.
    dropout
        Dropped share of what each layer and the classifier take, while training.
    jumping
        Whether the classifier sees all layers.
    terms
        How many matrices a filter's weights are; none is one, without an axis for it.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator [n, n], logits
    [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
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
        """How many products with operators follow one another: one a layer."""
        return 2

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: those that meet X."""
        return [self.embedding if self.jumping else self.first]

    @abstractmethod
    def convolve(
        self,
        x: Tensor | Operator | DroppedOperator,
        weight: Tensor,
        operator: Operator,
        target: Target | None = None,
    ) -> Tensor:
        """Return the filter of `x` with these weights, for all nodes or the target."""

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, [n, |Y|], or of the target's."""
        (operator,) = operators
        sigma = ACTIVATIONS[self.activation]
        if not self.jumping:
            hidden = sigma(self.convolve(self._drop(x), self.first, operator))
            return self.convolve(self._drop(hidden), self.second, operator, target)
        h0 = sigma(self._drop(x) @ self.embedding)
        h1 = sigma(self.convolve(self._drop(h0), self.first, operator))
        h2 = sigma(self.convolve(self._drop(h1), self.second, operator, target))
        index = slice(None) if target is None else target.index
        joined = torch.cat([pick(h0, index), pick(h1, index), h2], dim=1)
        return self._drop(joined) @ self.classifier

    def _drop(self, x: Tensor | Operator) -> Tensor | Operator | DroppedOperator:
        return drop(x, self.dropout, self.training)


class GCN(TwoConvolutions):
    r"""Two-layer graph convolutional network (Kipf and Welling, ICLR 2017).

    .. math::
        \text{logits} = \hat A\, \mathrm{dropout}(\sigma(\hat A\,
        \mathrm{dropout}(X) W_1)) W_2

    As in the original program: Glorot-uniform weights, no biases, dropout on the
    inputs of both layers (on the stored entries where the features are sparse),
    and the L2 penalty on the first layer's weights only. PyG's GCNConv has a bias.

    With `jumping`, the paper's GCN with jumping knowledge:

    .. math::
        H_0 = \sigma(\mathrm{dropout}(X) W_e), \quad
        H_k = \sigma(\hat A\, \mathrm{dropout}(H_{k-1}) W_k), \quad
        \text{logits} = \mathrm{dropout}(H_0 \Vert H_1 \Vert H_2)\, W_c

    where the L2 penalty is on W_e only.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped share of what each layer and the classifier take, while training.
    jumping
        Whether an embedded node and both layers go to a classifier.

    Notes
    -----
    The operator is Â, see `renormalised_adjacency`.
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
        x: Tensor | Operator | DroppedOperator,
        weight: Tensor,
        operator: Operator,
        target: Target | None = None,
    ) -> Tensor:
        """Return Â x W, or the target's rows of it."""
        last = operator if target is None else target.operators[0]
        return last @ (x @ weight)


MAX_POWER = 128
"""Of Â; by then every component is one shade."""


class SGC(NodeModule):
    r"""Simple graph convolution (Wu et al., ICML 2019).

    .. math::
        \text{logits} = \hat A^K X W + b

    The original program computes :math:`\hat A^K X` once and then fits a logistic
    regression. Here :math:`\hat A^K (X W)` is computed anew in every step: the same
    numbers from products |Y| columns wide, sparse features stay sparse, and the
    module holds no graph. As there, weights and biases are drawn uniformly from
    :math:`\pm 1/\sqrt F`, and nothing is dropped. The L2 penalty is on W; there the
    optimiser's decay is on b too.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    power
        K, how many times the features are mixed with the neighbours'.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator Â [n, n] (see
    `renormalised_adjacency`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
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

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, [n, |Y|], or of the target's."""
        (a_hat,) = operators
        (last,) = operators if target is None else target.operators
        scores = x @ self.weight
        for _ in range(self.power - 1):
            scores = a_hat @ scores
        return last @ scores + self.bias

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the logits as a sum over nodes and columns, by distance."""
        weight = self.weight.detach().cpu().numpy().astype(np.float64)
        bias = self.bias.detach().cpu().numpy().astype(np.float64)
        walk = np.array([node]), np.ones(1)
        powers = [(walk[0], np.zeros(1))]
        for step in range(1, self.power + 1):
            walk = follow(operators[0], walk)
            powers.append((walk[0], walk[1] if step == self.power else 0 * walk[1]))
        parts = [Summand(bias, "bias")]
        for name, (nodes, shares) in by_distance(powers):
            rows = input_rows(x, nodes)
            of_column = (shares @ rows)[:, None] * weight
            by_node = shares[:, None] * (rows @ weight)
            parts.append(
                Summand(by_node.sum(axis=0), name, "", of_column, nodes, by_node)
            )
        how = (
            "exact by distance, by neighbour and by column: the model is linear in "
            "the features"
        )
        return ExactSum(tuple(parts), how)


MAX_DEGREE = 32
"""Of the polynomials; each degree is one more product with the graph in a layer."""


def scaled_laplacian(adj: CSR) -> tuple[CSR, ...]:
    r"""Return the Laplacian moved to the interval [-1, 1] as the only operator.

    .. math::
        \tilde L = \tfrac{2}{\lambda} (I - D^{-1/2} A D^{-1/2}) - I
        = -D^{-1/2} A D^{-1/2}
        \quad\text{with}\quad \lambda = 2

    No eigenvalue of the Laplacian is larger than 2. Rows of isolated nodes are zero.
    """
    matrix = normalise(adj)
    return (CSR((-matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape),)


class ChebyGCN(TwoConvolutions):
    r"""Two layers of Chebyshev filters (Defferrard et al., NeurIPS 2016).

    With the Chebyshev polynomials :math:`T_k` and K = `max_degree`,

    .. math::
        g_W(X) = \sum_{k=0}^{K} T_k(\tilde L)\, \mathrm{dropout}(X) W_k, \qquad
        \text{logits} = g_{W^{(2)}}(\sigma(g_{W^{(1)}}(X)))

    and with `jumping`

    .. math::
        H_0 = \sigma(\mathrm{dropout}(X) W_e), \quad
        H_1 = \sigma(g_{W^{(1)}}(H_0)), \quad H_2 = \sigma(g_{W^{(2)}}(H_1)), \quad
        \text{logits} = \mathrm{dropout}(H_0 \Vert H_1 \Vert H_2)\, W_c

    As in Kipf and Welling's program: all terms of a layer see the same dropped
    input, weights are Glorot-uniform matrix by matrix, there are no biases, and the
    L2 penalty is on all of the first layer's weights; with `jumping`, on W_e only.

    Two things are done in another way. That program scales the Laplacian by its
    largest eigenvalue; the bound 2 is taken here, as in the runs of the H2GCN paper,
    so that the model is the same function on every graph. And that program builds
    every :math:`T_k(\tilde L)` as a matrix; see `convolve`. PyG's ChebConv has a bias.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped share of what each layer and the classifier take, while training.
    max_degree
        K, the largest degree. With 0 the graph is not seen.
    jumping
        Whether an embedded node and both layers go to a classifier.

    Notes
    -----
    The operator is L̃, see `scaled_laplacian`. The weights of a layer are one tensor,
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
        """How many products with operators follow one another: K a layer."""
        return 2 * self.max_degree

    def convolve(
        self,
        x: Tensor | Operator | DroppedOperator,
        weight: Tensor,
        operator: Operator,
        target: Target | None = None,
    ) -> Tensor:
        r"""Return the filter of `x`, or the target's rows of it.

        Clenshaw's recursion runs from the highest degree downwards,

        .. math::
            B_k = X W_k + 2 \tilde L B_{k+1} - B_{k+2}, \qquad
            g_W(X) = X W_0 + \tilde L B_1 - B_2

        so that the graph multiplies matrices as wide as the layer's output, K times,
        and only the last product is cut to the target's rows.
        """
        terms: list[Tensor] = [x @ matrix for matrix in weight]
        last = operator if target is None else target.operators[0]
        index = slice(None) if target is None else target.index
        if len(terms) == 1:
            return pick(terms[0], index)
        above: Tensor | None = None
        b = terms[-1]
        for term in reversed(terms[1:-1]):
            rest = term if above is None else term - above
            b, above = rest + 2 * (operator @ b), b
        rest = terms[0] if above is None else terms[0] - above
        return pick(rest, index) + last @ b
