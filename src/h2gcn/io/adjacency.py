"""Lists of end points, or any square matrix, as the adjacency of a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, ReadRecord, Split
from h2gcn.io.node_data import encode_labels
from h2gcn.sparse import check_room

__all__ = ["adjacency_from_edges", "carried_note", "from_scipy"]

EDGE = 32
"""Bytes that an edge takes at least while a matrix is made of it."""


def adjacency_from_edges(
    sources: ArrayLike,
    targets: ArrayLike,
    n_nodes: int,
    *,
    directed: bool | None = None,
) -> tuple[CSR, CSR | None, ReadRecord]:
    """Return the simple undirected graph of an edge list.

    Parameters
    ----------
    sources, targets
        Node indices of the end points of each edge, [m] each.
    n_nodes
        Number of nodes; it comes from the node table, since a list of edges does
        not tell of isolated nodes.
    directed
        False: each entry is one undirected edge, so that (u, v) and (v, u) are
        duplicates and nothing is lost by making the matrix symmetric. Otherwise
        the entries have a direction, which is kept unless each is there both ways.

    Returns
    -------
    adj
        [n, n], symmetric, binary, without self-loops, sorted; float32 and int32.
    one_way
        [n, n], the same edges with the directions of the input; None where these
        say nothing.
    record
        Counts of what was merged, dropped and made symmetric; a loop that is listed
        twice is one loop and one duplicate.

    Examples
    --------
    >>> adj, one_way, record = adjacency_from_edges([0, 1, 1], [1, 0, 2], 3)
    >>> adj.nnz, one_way.nnz, record.symmetrised
    (4, 3, 1)
    """
    check_room(f"a graph of {np.size(sources):,} edges", EDGE * np.size(sources))
    u = _endpoints("sources", sources, n_nodes)
    v = _endpoints("targets", targets, n_nodes)
    if u.size != v.size:
        raise InputError(
            f"'sources' and 'targets' must have the same length. "
            f"Got {u.size} and {v.size} instead."
        )
    proper = u != v
    n_read, n_proper = int(u.size), int(np.count_nonzero(proper))
    n_loops = np.unique(u[~proper]).size
    if n_proper < n_read:
        u, v = u[proper], v[proper]
    if directed is False:
        u, v = np.minimum(u, v), np.maximum(u, v)
    one_way = _binary(CSR((np.ones(n_proper, np.float32), (u, v)), (n_nodes, n_nodes)))
    adj = _binary(CSR(one_way + CSR(one_way.T)))
    # With b pairs listed both ways and s listed one way, one_way holds 2b + s
    # entries and adj 2b + 2s.
    n_single = 0 if directed is False else int(adj.nnz - one_way.nnz)
    record = ReadRecord(
        edges_read=n_read,
        duplicates_merged=n_read - n_loops - int(one_way.nnz),
        loops_dropped=n_loops,
        symmetrised=n_single,
    )
    return adj, one_way if n_single else None, record


def carried_note(columns: Sequence[str]) -> tuple[str, ...]:
    """Return which columns a graph keeps of its edges, as a note or none.

    Examples
    --------
    >>> carried_note(["'hours'"])
    ("edge column 'hours' is kept for models that use what edges carry",)
    """
    if not columns:
        return ()
    one = len(columns) == 1
    what = f"column {columns[0]} is" if one else f"columns {', '.join(columns)} are"
    return (f"edge {what} kept for models that use what edges carry",)


def _endpoints(name: str, values: ArrayLike, n_nodes: int) -> NDArray[np.integer]:
    index = np.asarray(values).reshape(-1)
    if index.size and index.dtype.kind not in "iu":
        raise InputError(
            f"'{name}' must hold node indices (integers). "
            f"Got dtype {index.dtype} instead."
        )
    outside = (index < 0) | (index >= n_nodes)
    if outside.any():
        edge = int(np.argmax(outside))
        raise InputError(
            f"'{name}' must lie in 0 … {n_nodes - 1}, as there are {n_nodes} nodes. "
            f"Got {index[edge]} at edge {edge} instead."
        )
    fits = n_nodes <= np.iinfo(np.int32).max
    return index.astype(np.int32 if fits else np.int64, copy=False)


def _binary(matrix: CSR) -> CSR:
    """Return the pattern of a matrix: sorted, ones for data, int32 where it fits."""
    matrix.sum_duplicates()
    matrix.data = np.ones(matrix.nnz, dtype=np.float32)
    if matrix.nnz <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


def from_scipy(
    adj: Any,
    x: Any,
    y: Any = None,
    *,
    directed: bool | None = None,
    classes: Any = None,
    node_ids: Any = None,
    feature_names: Sequence[str] | None = None,
    splits: Sequence[Split] = (),
    name: str = "graph",
) -> Graph:
    """Return the graph of a matrix that may be weighted, directed, with loops.

    Parameters
    ----------
    adj
        [n, n], scipy sparse or dense: each entry that is not zero is an edge.
    x
        Features, [n, F], scipy sparse or dense.
    y
        Class index of each node, [n], -1 for unlabelled; or labels of any kind, of
        which classes are made (None or "" for unlabelled).
    directed
        False: the two directions of an edge mean the same (a triangle of a
        symmetric matrix, say), and none is kept.
    classes, node_ids, feature_names, splits, name
        As of `Graph`.

    Examples
    --------
    >>> import numpy as np
    >>> graph = from_scipy([[5.0, 0.3], [0, 0]], np.eye(2), ["spam", "ham"])
    >>> graph.adj.toarray().tolist(), graph.classes.tolist(), graph.y.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], ['ham', 'spam'], [1, 0])
    """
    try:
        matrix = sp.coo_array(adj)
    except (TypeError, ValueError) as error:
        raise InputError(f"'adj' must be a matrix of numbers ({error}).") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"'adj' must be square. Got shape {matrix.shape} instead.")
    weights = np.asarray(matrix.data)
    if weights.dtype.kind not in "biuf" or np.isnan(weights).any():
        raise InputError("'adj' must hold numbers; it holds NaN or other values.")
    there = weights != 0
    edges, one_way, record = adjacency_from_edges(
        matrix.coords[0][there],
        matrix.coords[1][there],
        matrix.shape[0],
        directed=directed,
    )
    if np.any(weights[there] != 1):
        record = replace(record, notes=("edge weights are not used",))
    found: Any = None
    if y is not None:
        y, found = encode_labels(y)
    return Graph(
        x=x,
        adj=edges,
        directed=one_way,
        y=y,
        classes=found if classes is None else classes,
        node_ids=node_ids,
        feature_names=feature_names,  # type: ignore[arg-type]
        splits=tuple(splits),
        name=name,
        record=record,
    )
