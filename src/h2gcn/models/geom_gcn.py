"""Geom-GCN: neighbors in the graph and in its Isomap layout, by direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.base import ACTIVATIONS, MatrixMaker, NodeModule, check_sizes, drop
from h2gcn.rings import exact_rings
from h2gcn.sparse import LinearMap, Operator, Propagation, available_memory, dropout

__all__ = [
    "DIVISIONS",
    "RELATIONS",
    "GeomGCN",
    "GeometricMatrices",
    "check_isomap_memory",
    "embed",
    "isomap_bytes",
    "latent_pairs",
    "quadrants",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RELATIONS = ("upper left", "upper right", "lower left", "lower right")
DIVISIONS = 2 * len(RELATIONS) + 1  # in the graph, in the layout, and the node itself
TOLERANCE = 1e-9  # lengths are equal that differ by less of the layout's extent
BYTES_PER_DISTANCE = 8  # the geodesics, which become the kernel in place
BYTES_PER_NODE = 1024  # of the eigensolver
BYTES_PER_PAIR = 200  # of a latent pair, from the search to training on it both ways
WAY_OUT = "use h2gcn-1, gcn or mlp, which need no embedding"


def isomap_bytes(n: int) -> int:
    """Return the peak memory for the layout of a component of n nodes."""
    return BYTES_PER_DISTANCE * n**2 + BYTES_PER_NODE * n


def check_isomap_memory(adj: CSR, *, available: int | None = None) -> None:
    """Refuse a graph, [n, n], whose distances do not fit into memory.

    `available` are the bytes that may be used; None for what the machine has free.
    """
    _, component = sp.csgraph.connected_components(adj, directed=False)
    largest = int(np.bincount(component, minlength=1).max())
    limit = available_memory() if available is None else available
    needed = isomap_bytes(largest)
    if needed > limit:
        # The positive root of 8 n² + 1024 n = limit.
        half = BYTES_PER_NODE // 2
        fits = (
            isqrt(half**2 + BYTES_PER_DISTANCE * limit) - half
        ) // BYTES_PER_DISTANCE
        raise InputError(
            f"geom-gcn embeds the graph by Isomap, which needs {needed / 1e9:,.1f} GB "
            f"for the {largest:,} nodes of the largest connected component; here it "
            f"can do up to {fits:,} nodes. Instead, {WAY_OUT}."
        )


def embed(adj: CSR) -> tuple[Floats, Integers]:
    """Lay out each connected component in the plane by Isomap.

    The geodesics D are lengths of shortest paths, and the coordinates the two leading
    kernel principal components of −D²/2: Isomap on a given graph. Each axis points to
    where its third moment is positive, however the nodes are numbered. On a graph with
    symmetries it depends on their order.

    Parameters
    ----------
    adj
        Symmetric binary adjacency matrix without self-loops, [n, n].

    Returns
    -------
    tuple of arrays
        The positions in units of one edge, [n, 2], zero for a node that is alone, and
        the number of each node's component, [n].
    """
    from sklearn.decomposition import KernelPCA

    coordinates = np.zeros((adj.shape[0], 2))
    count, component = sp.csgraph.connected_components(adj, directed=False)
    order = np.argsort(component, kind="stable")
    blocks = CSR(CSR(adj[order])[:, order])  # a component each, on the diagonal
    ends = np.cumsum(np.bincount(component, minlength=count))
    for nodes in np.split(order, ends[:-1]):
        start, blocks = (
            blocks[: len(nodes), : len(nodes)],
            blocks[len(nodes) :, len(nodes) :],
        )
        if len(nodes) > 1:
            kernel = sp.csgraph.shortest_path(start, directed=True, unweighted=True)
            np.square(kernel, out=kernel)
            kernel *= -0.5
            pca = KernelPCA(2, kernel="precomputed", copy_X=False, random_state=0)
            axes = pca.fit_transform(kernel)
            signs = np.where((axes**3).sum(axis=0) < 0, -1, 1)
            coordinates[nodes, : axes.shape[1]] = axes * signs
    return coordinates, component.astype(np.int64)


def latent_pairs(
    coordinates: Floats,
    component: Integers,
    at_least: int,
    *,
    available: int | None = None,
) -> Integers:
    """Return the pairs of one component that are at most ρ apart, [m, 2].

    ρ is the smallest distance that gives `at_least` pairs. All pairs at distance ρ
    count, so there can be more: leaves of one hub fall on one point.

    Parameters
    ----------
    coordinates, component
        Of `embed`.
    at_least
        How many pairs are wanted, at most those that there are within components.
    available
        Bytes that may be used; None for what the machine has free.

    Returns
    -------
    array of int64
        Each pair once, smaller node first; no node is paired with itself.
    """
    from scipy.spatial import cKDTree

    if at_least == 0:
        return np.zeros((0, 2), dtype=np.int64)
    extent = float(np.abs(coordinates).max())
    tolerance = TOLERANCE * extent
    # A third coordinate keeps components apart in one tree.
    reach = 3 * extent + 1
    tree = cKDTree(np.c_[coordinates, 2 * reach * component])

    def count(radius: float) -> int:
        return (int(tree.count_neighbors(tree, radius)) - len(coordinates)) // 2

    # Bisect the radius until it holds few more pairs than wanted; sort those.
    low, high = 0.0, reach
    if count(tolerance) >= at_least:
        high = tolerance
    pairs = count(high)
    while pairs > 2 * at_least and high - low > tolerance:
        middle = (low + high) / 2
        inside = count(middle)
        if inside >= at_least:
            high, pairs = middle, inside
        else:
            low = middle
    limit = available_memory() if available is None else available
    if pairs * BYTES_PER_PAIR > limit:
        raise InputError(
            f"geom-gcn finds {pairs:,} pairs of nodes that Isomap puts close together; "
            f"they need {pairs * BYTES_PER_PAIR / 1e9:,.1f} GB, but {limit / 1e9:,.1f} "
            f"GB are free. Instead, {WAY_OUT}."
        )
    found = tree.query_pairs(high + 2 * tolerance, output_type="ndarray")
    apart = coordinates[found[:, 0]] - coordinates[found[:, 1]]
    distance = np.hypot(*apart.T)
    rho = np.partition(distance, at_least - 1)[at_least - 1]
    near: Integers = found[distance <= rho + tolerance].astype(np.int64, copy=False)
    return near


def quadrants(coordinates: Floats, nodes: Integers, seen: Integers) -> Integers:
    """Return where `seen[i]` is from `nodes[i]`, as a position in `RELATIONS`.

    Neither left nor right is right, and neither lower nor upper is upper: two nodes on
    one point are each other's upper right.
    """
    tolerance = TOLERANCE * float(np.abs(coordinates).max(initial=0))
    left, below = (coordinates[seen] - coordinates[nodes] < -tolerance).T
    relation: Integers = 2 * below + 1 - left.astype(np.int64)
    return relation


@dataclass(frozen=True)
class GeometricMatrices(MatrixMaker):
    """Makes the nine matrices of Geom-GCN-I, one for each division.

        M_sr = D^-1/2 [u ∈ N_s(v), τ(z_v, z_u) = r]_vu D^-1/2

    s is the graph, with N_s(v) the neighbors, or the latent space, with the nodes of
    v's component that are at most ρ away in the layout z; ρ is the smallest distance
    for which these neighborhoods are, in the mean, as large as those of the graph. A
    pair in both counts as latent. τ is the quadrant in which u lies, seen from v. D
    are the degrees in all divisions together, self-loops included.

    Their order is the graph's upper left, upper right, lower left and lower right, the
    same of the latent space, and the self-loops. The union is symmetric, a division is
    not.
    """

    weighted = False

    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return them for a symmetric binary matrix without self-loops, [n, n] each."""
        return _geometric_matrices(adj)


def _geometric_matrices(adj: CSR) -> tuple[CSR, ...]:
    check_isomap_memory(adj)
    n = adj.shape[0]
    (graph,) = exact_rings(adj, hops=1)
    coordinates, component = embed(graph)
    one, other = latent_pairs(coordinates, component, graph.nnz // 2).T
    both_ways = np.r_[one, other], np.r_[other, one]
    latent = CSR((np.ones(2 * len(one), dtype=np.float32), both_ways), shape=(n, n))
    only_graph = CSR(graph - graph.multiply(latent))
    only_graph.eliminate_zeros()
    degrees = np.diff(only_graph.indptr) + np.diff(latent.indptr) + 1
    scale = degrees**-0.5
    matrices = []
    for space in (only_graph, latent):
        nodes = np.repeat(np.arange(n), np.diff(space.indptr))
        seen = space.indices.astype(np.int64)
        values = (scale[nodes] * scale[seen]).astype(np.float32)
        relation = quadrants(coordinates, nodes, seen)
        for r in range(len(RELATIONS)):
            inside = relation == r
            entries = values[inside], (nodes[inside], seen[inside])
            matrices.append(CSR(entries, shape=(n, n)))
    matrices.append(CSR(sp.diags_array(scale**2, dtype=np.float32)))
    for matrix in matrices:
        matrix.sort_indices()
    return tuple(matrices)


class GeomGCN(NodeModule):
    """Geom-GCN-I, the Isomap variant of Geom-GCN (Pei et al., ICLR 2020).

        H = σ(M₁ dropout(X) W₁ ‖ … ‖ M₉ dropout(X) W₉)
        logits = 1/9 Σ_r M_r dropout(H) V_r

    with the operators M₁ … M₉ of `GeometricMatrices`.

    As in the original program: Glorot-uniform weights, each division's for itself, no
    biases, one dropout on the input of each layer, the divisions concatenated in the
    first layer and averaged in the second, the L2 penalty on all weights. A pair that
    is near in both spaces counts as latent only, as there; the paper has it in both.

    Departures from the authors' program: it reads neighborhoods from files, made of one
    component only, with axes that point anywhere. Here every component is laid out by
    itself, and the third moment of its coordinates turns the axes (see `embed`).

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of a division in the hidden layer, which is nine times as wide.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of each layer's input, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), nine operators [n, n], logits
    [m, |Y|] of m target nodes. `first` is W_1 ‖ … ‖ W_9 and `second` V_1 ‖ … ‖ V_9: all
    divisions' maps are one product.
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
        check_sizes(in_channels, out_channels, hidden_channels)
        check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.activation = activation
        width = DIVISIONS * hidden_channels
        self.first = nn.Parameter(torch.empty(in_channels, width))
        self.second = nn.Parameter(torch.empty(width, DIVISIONS * out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform, each division by itself)."""
        with torch.no_grad():
            for weight in self.parameters():
                for division in weight.chunk(DIVISIONS, dim=1):
                    nn.init.xavier_uniform_(division)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a layer."""
        return 2

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        if len(graph.matrices) != DIVISIONS:
            raise ValueError(
                f"GeomGCN takes {DIVISIONS} matrices, got {len(graph.matrices)}."
            )
        mapped = drop(x, self.dropout, self.training) @ self.first
        hidden = torch.cat(_divide(graph.matrices, mapped), dim=1)
        hidden = ACTIVATIONS[self.activation](hidden)
        hidden = dropout(hidden, self.dropout, self.training)
        return torch.stack(_divide(graph.rows, hidden @ self.second)).mean(dim=0)


def _divide(matrices: Sequence[LinearMap], mapped: Tensor) -> list[Tensor]:
    """Return the product of each matrix with its block of columns."""
    blocks = mapped.chunk(DIVISIONS, dim=1)
    return [op @ block for op, block in zip(matrices, blocks, strict=True)]
