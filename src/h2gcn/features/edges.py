"""Columns made of edge features: what the edges of a node sum up to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, Graph, edge_aggregates

__all__ = ["edge_feature_names", "edge_features"]

Index = NDArray[np.int64]


def edge_feature_names(columns: EdgeColumns, n_nodes: int) -> tuple[str, ...]:
    """Return the names of the columns of `edge_features`; no edge is aggregated."""
    return _log_scaled(columns, n_nodes, np.zeros(0, dtype=np.int64))[0]


def edge_features(
    graph: Graph, names: Sequence[str], nodes: Index | None = None
) -> NDArray[np.float32]:
    """Return the named aggregates of the nodes' edges, [m, len(names)].

    A category that no edge of this graph has is zero.

    Parameters
    ----------
    graph
        The graph.
    names
        Of `edge_feature_names`, of this graph or that of training.
    nodes
        Any nodes; default all.
    """
    if graph.edge_columns is None:
        raise InputError(
            "the edges have no features, and the model was trained on "
            f"{len(names)} columns of them, such as {names[0]!r}",
            where=graph.name,
        )
    distinct = None if nodes is None else np.unique(nodes).astype(np.int64)
    known, values = _log_scaled(graph.edge_columns, graph.n_nodes, distinct)
    column = {name: i for i, name in enumerate(known)}
    missing = [n for n in names if n not in column and not n.startswith("share of")]
    if missing:
        raise InputError(
            "the edges lack a column that the model was trained on, such as "
            f"{missing[0]!r}",
            where=graph.name,
        )
    result = np.zeros((len(values), len(names)), dtype=np.float32)
    for i, name in enumerate(names):
        if name in column:
            result[:, i] = values[:, column[name]]
    if nodes is None or distinct is None:
        return result
    return result[np.searchsorted(distinct, nodes)]


def _log_scaled(
    columns: EdgeColumns, n_nodes: int, nodes: Index | None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return `edge_aggregates`, means and extremes as sign(v) · log(1 + |v|)."""
    names, values = edge_aggregates(columns, n_nodes, nodes)
    raw = [name.startswith(("mean", "max", "min")) for name in names]
    values[:, raw] = np.copysign(np.log1p(np.abs(values[:, raw])), values[:, raw])
    scaled = [
        f"{name} (signed log)" * r or name for name, r in zip(names, raw, strict=True)
    ]
    return tuple(scaled), values
