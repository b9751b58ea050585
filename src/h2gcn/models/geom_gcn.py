"""Geom-GCN: neighbours in the graph and in the plane, told apart by direction.

The plane is Isomap's layout of the graph: who is near whom, and on which side. Noise
of the eigen-solver decides nothing here. What it computes is used only where
the graph determines it: an axis that cannot be told from others (equal eigenvalues)
is left out, a direction that a symmetry of the graph can reverse tells no left from
right, and what differs by less than `TOLERANCE` of the layout's extent is equal. So
renumbered nodes give renumbered results, for symmetric graphs too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from h2gcn.models.base import ACTIVATIONS, NodeModule, check_sizes, drop
from h2gcn.rings import exact_rings
from h2gcn.sparse import LinearMap, Operator, Target, available_memory, dropout

__all__ = [
    "DIVISIONS",
    "RELATIONS",
    "Embedding",
    "GeomGCN",
    "check_isomap_memory",
    "embed",
    "geometric_operators",
    "isomap_bytes",
    "latent_pairs",
    "quadrants",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RELATIONS = ("upper left", "upper right", "lower left", "lower right")
"""Where a neighbour is as seen from a node; `quadrants` gives their positions here."""
TOLERANCE = 1e-9
"""Below which share of the layout's extent lengths are equal; noise is near 1e-13."""
GAP = 1e-8
"""Below which share of the largest eigenvalue two eigenvalues are equal."""
SKEWNESS = 1e-6
"""Below which share of the largest it could be a moment is zero."""
SMALL = 200
"""Up to how many nodes all eigenvectors are computed, not only the leading ones."""
BYTES_PER_DISTANCE = 8
"""The n² geodesics are float64, for ties, and become the kernel in place."""
BYTES_PER_NODE = 1024
"""What the eigen-solver (20 vectors and their copies) and Dijkstra take besides."""
BYTES_PER_PAIR = 200
"""Peak bytes for a latent pair, from the search to training on both its directions."""
WAY_OUT = "use h2gcn-1, gcn or mlp, which need no embedding"


@dataclass(frozen=True)
class Embedding:
    """A graph in the plane, one layout for each connected component.

    Parameters
    ----------
    coordinates
        Position of each node in units of one edge, [n, 2]; zero along an axis that
        the component does not have.
    bearings
        The coordinates with their axes turned the same way however the nodes are
        numbered, [n, 2]; zero along an axis for which there is no such way.
    component
        Number of each node's component, [n]; distances between two are undefined.
    """

    coordinates: Floats
    bearings: Floats
    component: Integers

    @property
    def tolerance(self) -> float:
        """The length below which there is only noise."""
        return TOLERANCE * float(np.abs(self.coordinates).max(initial=0))


def isomap_bytes(n: int) -> int:
    """Return the peak memory for the embedding of a component of n nodes."""
    return BYTES_PER_DISTANCE * n**2 + BYTES_PER_NODE * n


def check_isomap_memory(adj: CSR, *, available: int | None = None) -> None:
    """Refuse, before anything is allocated, a graph whose distances will not fit.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    available
        Bytes that may be used; default what the machine has free.
    """
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(adj, directed=False)
    largest = int(np.bincount(component, minlength=1).max())
    limit = available_memory() if available is None else available
    needed = isomap_bytes(largest)
    if needed > limit:
        # The positive root of 8 n² + 1024 n = limit.
        half = BYTES_PER_NODE // 2
        fits = (isqrt(half**2 + BYTES_PER_DISTANCE * limit) - half) // 8
        raise InputError(
            f"geom-gcn embeds the graph by Isomap, which needs {needed / 1e9:,.1f} GB "
            f"for the {largest:,} nodes of the largest connected component; here it "
            f"can do up to {fits:,} nodes. Instead, {WAY_OUT}."
        )


def embed(adj: CSR) -> Embedding:
    """Lay out each connected component by Isomap, in two dimensions.

    Geodesics are the lengths of shortest paths; classical scaling of them (the two
    leading components of the doubly centred −D²/2) is Isomap on a given graph.

    Parameters
    ----------
    adj
        Symmetric binary adjacency matrix without self-loops, [n, n].
    """
    from scipy.sparse.csgraph import connected_components

    n = adj.shape[0]
    count, component = connected_components(adj, directed=False)
    # Components become blocks on the diagonal: cutting one out takes its own size.
    order = np.argsort(component, kind="stable")
    blocks = CSR(CSR(adj[order])[:, order])
    ends = np.cumsum(np.bincount(component, minlength=count))
    coordinates, bearings = np.zeros((n, 2)), np.zeros((n, 2))
    start = 0
    for end in ends:
        if end - start > 1:
            block = CSR(blocks[start:end, start:end])
            nodes = order[start:end]
            coordinates[nodes], bearings[nodes] = _embed_component(block)
        start = end
    return Embedding(coordinates, bearings, component.astype(np.int64))


def _embed_component(adj: CSR) -> tuple[Floats, Floats]:
    """Return the coordinates and bearings of a connected graph, [n, 2] each."""
    from scipy.sparse.csgraph import dijkstra

    n = adj.shape[0]
    # A symmetric matrix read as directed is not transposed for nothing.
    kernel = dijkstra(adj, directed=True, unweighted=True)
    np.square(kernel, out=kernel)
    kernel *= -0.5
    means = kernel.mean(axis=0)
    kernel -= means
    kernel -= (means - means.mean())[:, None]
    (first, second, third), axes = _leading(kernel)
    equal = GAP * first
    coordinates, bearings = np.zeros((n, 2)), np.zeros((n, 2))
    if second - third > equal:
        coordinates[:] = axes[:, :2] * np.sqrt([first, second])
    elif first - second > equal:
        coordinates[:, 0] = axes[:, 0] * np.sqrt(first)
    # A plane whose axes may be rotated has distances, but no directions.
    if first - second > equal:
        x, y = coordinates.T
        even = _invariants(adj)
        bearings[:, 0] = _orient(x, [*even, y**2])
        bearings[:, 1] = _orient(y, [*even, x**2, bearings[:, 0]])
    return coordinates, bearings


def _leading(kernel: Floats) -> tuple[Floats, Floats]:
    """Return the three largest eigenvalues, falling, and their eigenvectors.

    The third tells whether the second axis is one of several. None is negative:
    three points of any metric space fit into a plane.

    LAPACK is asked for all pairs: for a few it can return none at all where an
    eigenvalue is repeated (of a star, for one). ARPACK starts from a fixed vector.
    """
    n = len(kernel)
    if n > SMALL:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).uniform(-1, 1, n)
        values, vectors = eigsh(kernel, 3, which="LA", v0=start)
    else:
        values, vectors = np.linalg.eigh(kernel)
    order = np.argsort(-values)[:3]
    leading = np.zeros(3)
    leading[: len(order)] = values[order]
    return leading, vectors[:, order]


def _invariants(adj: CSR) -> list[Floats]:
    """Return numbers of nodes that do not depend on their order: walks from each."""
    walks = [np.ones(adj.shape[0])]
    for _ in range(3):
        counted = adj @ walks[-1]
        walks.append(counted / counted.max())
    return walks


def _orient(axis: Floats, weights: Iterable[Floats]) -> Floats:
    """Turn an axis so that its first weighted odd moment that is not zero is positive.

    All of them are zero if a symmetry of the graph reverses the axis; then there is
    no direction, and zeros are returned.
    """
    for weight in weights:
        for power in (1, 3):
            moments = axis**power
            total = weight @ moments
            if abs(total) > SKEWNESS * np.abs(weight).max() * np.abs(moments).sum():
                turned: Floats = axis * np.sign(total)
                return turned
    return np.zeros_like(axis)


def latent_pairs(
    embedding: Embedding, at_least: int, *, available: int | None = None
) -> Integers:
    """Return the pairs of one component that are at most ρ apart, [m, 2].

    ρ is the smallest distance that gives `at_least` pairs. All pairs at
    distance ρ count, so there can be more: leaves of one hub fall on one point.

    Parameters
    ----------
    embedding
        Where the nodes are.
    at_least
        How many pairs are wanted; no more than there are within components.
    available
        Bytes that may be used; default what the machine has free.

    Returns
    -------
    array of int64
        Each pair once, smaller node first; no node is paired with itself.
    """
    from scipy.spatial import cKDTree

    if at_least == 0:
        return np.zeros((0, 2), dtype=np.int64)
    n = len(embedding.coordinates)
    tolerance = embedding.tolerance
    extent = float(np.abs(embedding.coordinates).max())
    # One tree for all components: a third coordinate keeps them out of reach.
    reach = 3 * extent + 1
    tree = cKDTree(np.c_[embedding.coordinates, 2 * reach * embedding.component])

    def count(radius: float) -> int:
        return (int(tree.count_neighbors(tree, radius)) - n) // 2

    # Halve the radius until it holds few more pairs than wanted; sort those.
    low, high = 0.0, reach
    pairs = count(tolerance)
    if pairs >= at_least:
        high = tolerance
    else:
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
    apart = embedding.coordinates[found[:, 0]]
    apart -= embedding.coordinates[found[:, 1]]
    distance = np.hypot(apart[:, 0], apart[:, 1])
    rho = np.partition(distance, at_least - 1)[at_least - 1]
    near: Integers = found[distance <= rho + tolerance].astype(np.int64, copy=False)
    return near


def quadrants(embedding: Embedding, nodes: Integers, seen: Integers) -> Integers:
    """Return where `seen[i]` is from `nodes[i]`, as a position in `RELATIONS`.

    Neither left nor right is right, and neither lower nor upper is upper. So two
    nodes side by side are in each other's upper quadrants, and two nodes on one
    point, or of a component without directions, each other's upper right.
    """
    ahead = embedding.bearings[seen] - embedding.bearings[nodes]
    below_or_left = ahead < -embedding.tolerance
    result: Integers = (
        2 * below_or_left[:, 1] + 1 - below_or_left[:, 0].astype(np.int64)
    )
    return result


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
    (see `embed`).

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
        check_sizes(in_channels, out_channels, hidden_channels)
        check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
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
