"""Geom-GCN: neighbors in the graph and in its Isomap layout, by direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.base import ACTIVATIONS, drop, glorot
from h2gcn.models.options import Activation, Dropout, Width
from h2gcn.models.spec import MatrixMaker
from h2gcn.rings import exact_rings
from h2gcn.sparse import LinearMap, Operator, Propagation, available_memory, dropout
from h2gcn.training import NodeModule

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

DIVISIONS = 9  # four quadrants of the graph, four of the layout, and the node itself
TOLERANCE = 1e-9  # lengths are equal that differ by less of the layout's extent
BYTES_PER_DISTANCE = 8  # the geodesics, which become the kernel in place
BYTES_PER_NODE = 1024  # of the eigensolver
BYTES_PER_PAIR = 200  # of a latent pair, from the search to training on it both ways


@dataclass(frozen=True)
class GeometricMatrices(MatrixMaker):
    """The nine matrices of Geom-GCN-I, one for each division of the neighbors.

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
        """Return them for a symmetric matrix, [n, n] each; only its pattern counts."""
        (graph,) = exact_rings(adj, hops=1)
        coordinates, component = embed(graph)
        pairs = latent_pairs(coordinates, component, graph.nnz // 2)
        both_ways = np.r_[pairs, pairs[:, ::-1]].T
        latent = CSR((np.full(len(both_ways.T), 2.0), tuple(both_ways)), graph.shape)
        # Entries are 1 in the graph alone, 2 or 3 in the latent space, 4 of the loops.
        union = sp.coo_array(CSR(graph + latent + 4 * sp.eye_array(graph.shape[0])))
        v, u = union.coords
        space = np.where(union.data == 4, 2, union.data >= 2)
        division = 4 * space + np.where(u == v, 0, quadrants(coordinates, v, u))
        scale = np.bincount(v) ** -0.5
        values = (scale[v] * scale[u]).astype(np.float32)
        return tuple(
            CSR((values[inside], (v[inside], u[inside])), graph.shape)
            for inside in (division == r for r in range(DIVISIONS))
        )


def embed(adj: CSR) -> tuple[Floats, Integers]:
    """Lay out each connected component in the plane by Isomap.

    The geodesics D are lengths of shortest paths, and the coordinates the two leading
    kernel principal components of −D²/2: Isomap on a given graph. Each axis points to
    where its third moment is positive, however the nodes are numbered. On a graph with
    symmetries it depends on their order.

    Returns
    -------
    tuple of arrays
        The positions in units of one edge, [n, 2], zero for a node that is alone, and
        the number of each node's component, [n].
    """
    from sklearn.decomposition import KernelPCA

    _, component = sp.csgraph.connected_components(adj, directed=False)
    groups = _groups(component)
    n = max(map(len, groups), default=0)
    needed = BYTES_PER_DISTANCE * n**2 + BYTES_PER_NODE * n
    _check_memory(needed, f"embeds a component of {n:,} nodes by Isomap")
    coordinates = np.zeros((adj.shape[0], 2))
    for nodes in groups:
        if len(nodes) > 1:
            part = adj[nodes][:, nodes]
            kernel = sp.csgraph.shortest_path(part, directed=True, unweighted=True)
            np.square(kernel, out=kernel)
            kernel *= -0.5
            pca = KernelPCA(2, kernel="precomputed", copy_X=False, random_state=0)
            axes = pca.fit_transform(kernel)
            coordinates[nodes] = axes * np.where((axes**3).sum(axis=0) < 0, -1, 1)
    return coordinates, component


def _groups(component: Integers) -> list[Integers]:
    """Return the nodes of each component, ascending."""
    order = np.argsort(component, kind="stable")
    return np.split(order, np.cumsum(np.bincount(component))[:-1])


def _check_memory(needed: int, use: str) -> None:
    limit = available_memory()
    if needed > limit:
        raise InputError(
            f"geom-gcn {use}, which needs {needed / 1e9:,.1f} GB, "
            f"but {limit / 1e9:,.1f} GB are free",
            hint="use h2gcn-1, gcn or mlp, which need no embedding",
        )


def latent_pairs(coordinates: Floats, component: Integers, at_least: int) -> Integers:
    """Return the pairs of one component that are at most ρ apart, [m, 2].

    ρ is the smallest distance that gives `at_least` pairs. All pairs at distance ρ
    count, so there can be more: leaves of one hub fall on one point.

    Returns
    -------
    array
        Each pair once, smaller node first; no node is paired with itself.
    """
    from scipy.spatial import KDTree
    from scipy.spatial.distance import pdist

    if at_least == 0:
        return np.zeros((0, 2), dtype=int)
    distances = [pdist(coordinates[nodes]) for nodes in _groups(component)]
    apart = np.concatenate(distances)
    apart.partition(at_least - 1)
    rho = apart[at_least - 1] + TOLERANCE * np.abs(coordinates).max()
    n_pairs = int(np.count_nonzero(apart <= rho))
    use = f"takes {n_pairs:,} pairs of nodes that Isomap puts close together"
    _check_memory(BYTES_PER_PAIR * n_pairs, use)
    # A third coordinate keeps components apart in one tree.
    tree = KDTree(np.c_[coordinates, 2 * (rho + 1) * component])
    return tree.query_pairs(rho, output_type="ndarray")


def quadrants(coordinates: Floats, nodes: Integers, seen: Integers) -> Integers:
    """Return where `seen[i]` lies from `nodes[i]`: 0 upper left, 1 upper right, 2, 3.

    Neither left nor right is right, and neither lower nor upper is upper: two nodes on
    one point are each other's upper right.
    """
    tolerance = TOLERANCE * np.abs(coordinates).max(initial=0)
    left, below = (coordinates[seen] - coordinates[nodes] < -tolerance).T
    relation: Integers = 2 * below + 1 - left.astype(int)
    return relation


class GeomGCN(NodeModule):
    """Geom-GCN-I, the Isomap variant of Geom-GCN (Pei et al., ICLR 2020).

        H = σ(M₁ dropout(X) W₁ ‖ … ‖ M₉ dropout(X) W₉)
        logits = 1/9 Σ_r M_r dropout(H) V_r

    with the matrices M₁ … M₉ of `GeometricMatrices`.

    As in the authors' program: each W_r and V_r is Glorot-uniform by itself, no biases,
    one dropout on the input of each layer, the divisions concatenated in the first
    layer and averaged in the second, the L2 penalty on all weights. A pair that is near
    in both spaces counts as latent only, as there; the paper has it in both.

    Departures from the authors' program: it reads neighborhoods from files, made of one
    component only, with axes that point anywhere. Here every component is laid out by
    itself, and the third moment of its coordinates turns the axes (see `embed`).
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 16,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation, self.dropout = activation, dropout
        width = DIVISIONS * hidden_channels
        self.first = glorot(in_channels, *[hidden_channels] * DIVISIONS)
        self.second = glorot(width, *[out_channels] * DIVISIONS)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        mapped = drop(x, self.dropout, self.training) @ self.first
        hidden = torch.cat(_divide(graph.matrices, mapped), dim=1)
        hidden = ACTIVATIONS[self.activation](hidden)
        hidden = dropout(hidden, self.dropout, self.training)
        return torch.stack(_divide(graph.rows, hidden @ self.second)).mean(dim=0)


def _divide(matrices: Sequence[LinearMap], mapped: Tensor) -> list[Tensor]:
    """Return the product of each matrix with its block of columns."""
    blocks = mapped.chunk(DIVISIONS, dim=1)
    return [op @ block for op, block in zip(matrices, blocks, strict=True)]
