"""GCN-Cheby, whose layers are Chebyshev polynomials of the graph's Laplacian."""

from __future__ import annotations

from torch import Tensor

from h2gcn._validation import check_integer
from h2gcn.graph import CSR
from h2gcn.models.base import pick
from h2gcn.models.gcn import TwoConvolutions
from h2gcn.rings import normalise
from h2gcn.sparse import DroppedOperator, Operator, Target

__all__ = ["MAX_DEGREE", "ChebyGCN", "scaled_laplacian"]

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
        check_integer("ChebyGCN", "max_degree", max_degree, 0, MAX_DEGREE)
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
