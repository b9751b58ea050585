"""Any square matrix and its arrays as a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split
from h2gcn.io.adjacency import adjacency_from_edges
from h2gcn.io.labels import encode_labels

__all__ = ["from_scipy"]


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
