"""Geom-GCN: neighbours in the graph and in the plane, told apart by direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_real
from h2gcn.graph import CSR
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes, drop
from h2gcn.models.isomap import (
    RELATIONS,
    check_isomap_memory,
    embed,
    latent_pairs,
    quadrants,
)
from h2gcn.rings import exact_rings
from h2gcn.sparse import LinearMap, Operator, Target, dropout

__all__ = ["DIVISIONS", "GeomGCN", "geometric_operators"]

DIVISIONS = 2 * len(RELATIONS) + 1
"""Each relation in the graph, each in the latent space, and the node itself."""


def geometric_operators(adj: CSR) -> tuple[CSR, ...]:
    r"""Return the nine operators of Geom-GCN-I, one for each division.

    .. math::
        M_{s,r} = D^{-1/2} \left[ u \in N_s(v),\ \tau(z_v, z_u) = r \right]_{vu}
        D^{-1/2}

    s is the graph, with N_s(v) the neighbours, or the latent space, with the nodes of
    v's component that are at most ρ away in the layout z; ρ is the smallest distance
    for which these neighbourhoods are, in the mean, as large as those of the graph. A
    pair in both counts as latent. τ is the quadrant in which u lies, seen from v. D
    are the degrees in all divisions together, self-loops included.

    Parameters
    ----------
    adj
        Symmetric binary adjacency matrix without self-loops, [n, n].

    Returns
    -------
    tuple of csr_array
        The graph's upper left, upper right, lower left and lower right; the same of
        the latent space; the self-loops. Each [n, n], float32. The union is
        symmetric, a division is not.
    """
    check_isomap_memory(adj)
    n = adj.shape[0]
    (graph,) = exact_rings(adj, hops=1)
    layout = embed(graph)
    one, other = latent_pairs(layout, graph.nnz // 2).T
    both_ways = np.r_[one, other], np.r_[other, one]
    latent = CSR((np.ones(2 * len(one), dtype=np.float32), both_ways), shape=(n, n))
    only_graph = CSR(graph - graph.multiply(latent))
    only_graph.eliminate_zeros()
    degrees = np.diff(only_graph.indptr) + np.diff(latent.indptr) + 1
    scale = degrees**-0.5
    operators = []
    for space in (only_graph, latent):
        nodes = np.repeat(np.arange(n), np.diff(space.indptr))
        seen = space.indices.astype(np.int64)
        values = (scale[nodes] * scale[seen]).astype(np.float32)
        place = quadrants(layout, nodes, seen)
        for relation in range(len(RELATIONS)):
            inside = place == relation
            entries = values[inside], (nodes[inside], seen[inside])
            operators.append(CSR(entries, shape=(n, n)))
    operators.append(CSR(sp.diags_array(scale**2, dtype=np.float32)))
    for operator in operators:
        operator.sort_indices()
    return tuple(operators)


class GeomGCN(NodeModule):
    r"""Geom-GCN-I, the Isomap variant of Geom-GCN (Pei et al., ICLR 2020).

    With the operators M_1 … M_9 of `geometric_operators`,

    .. math::
        H = \sigma\Big( \big\Vert_{r=1}^{9} M_r\, \mathrm{dropout}(X) W_r \Big), \quad
        \text{logits} = \frac{1}{9} \sum_{r=1}^{9} M_r\, \mathrm{dropout}(H) V_r

    As in the original program: Glorot-uniform weights, each division's for itself, no
    biases, one dropout on the input of each layer, the divisions concatenated in the
    first layer and averaged in the second, the L2 penalty on all weights. A pair that
    is near in both spaces counts as latent only, as there; the paper has it in both.

    Where the original is not followed: it reads neighbourhoods from files, made of one
    component only, with axes that point anywhere. Here every component is laid out by
    itself, and the graph's shape turns the axes, not the order of its nodes
    (`h2gcn.models.isomap`).

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of a division in the hidden layer, which is nine times as wide.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped share of each layer's input, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), nine operators [n, n], logits
    [n, |Y|], or [m, |Y|] for a `Target` of m nodes. `first` is W_1 ‖ … ‖ W_9 and
    `second` V_1 ‖ … ‖ V_9: all divisions' maps are one product.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 16,
        activation: str = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes("GeomGCN", in_channels, out_channels, hidden_channels)
        check_choice("GeomGCN", "activation", activation, ACTIVATIONS)
        self.dropout = check_real("GeomGCN", "dropout", dropout, "[0, 1)")
        self.activation = activation
        width = DIVISIONS * hidden_channels
        self.first = nn.Parameter(torch.empty(in_channels, width))
        self.second = nn.Parameter(torch.empty(width, DIVISIONS * out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform, of each division for itself)."""
        with torch.no_grad():
            for weight in self.parameters():
                for division in weight.chunk(DIVISIONS, dim=1):
                    nn.init.xavier_uniform_(division)

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
        if len(operators) != DIVISIONS:
            raise ValueError(
                f"GeomGCN takes {DIVISIONS} operators, got {len(operators)}."
            )
        last = operators if target is None else target.operators
        mapped = drop(x, self.dropout, self.training) @ self.first
        hidden = torch.cat(_divide(operators, mapped), dim=1)
        hidden = ACTIVATIONS[self.activation](hidden)
        hidden = dropout(hidden, self.dropout, self.training)
        return torch.stack(_divide(last, hidden @ self.second)).mean(dim=0)


def _divide(operators: Sequence[LinearMap], mapped: Tensor) -> list[Tensor]:
    """Return the product of each operator with its block of columns."""
    blocks = mapped.chunk(DIVISIONS, dim=1)
    return [op @ block for op, block in zip(operators, blocks, strict=True)]
