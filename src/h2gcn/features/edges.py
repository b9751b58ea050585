"""Columns made of edge features: what the edges of a node sum up to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, edge_aggregates

Index = NDArray[np.int64]


def edge_feature_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the columns of `edge_features`; no edge is aggregated."""
    return tuple(_log_scaled(graph, np.zeros(0, dtype=np.int64)))


def edge_features(
    graph: Graph, names: Sequence[str], nodes: Index | None = None
) -> NDArray[np.float32]:
    """Return the named aggregates of the nodes' edges, [m, len(names)]; default all.

    The names are `edge_feature_names` of this graph or the training graph. A category
    that no edge of this graph has is zero.
    """
    if graph.edge_columns is None:
        raise InputError(
            "the edges have no features, and the model was trained on "
            f"{len(names)} columns of them, such as {names[0]!r}",
            where=graph.name,
        )
    distinct, rows = None, np.arange(graph.n_nodes)
    if nodes is not None:
        distinct, rows = np.unique(nodes, return_inverse=True)
    columns = _log_scaled(graph, distinct)
    zero = np.zeros(len(rows) if distinct is None else len(distinct), np.float32)
    for name in names:
        if name not in columns and not name.startswith("share of"):
            raise InputError(
                f"the edges lack a column that the model was trained on, {name!r}",
                where=graph.name,
            )
    return np.stack([columns.get(name, zero) for name in names], axis=1)[rows]


def _log_scaled(graph: Graph, nodes: Index | None) -> dict[str, NDArray[np.float32]]:
    """Return `edge_aggregates`, means and extremes as sign(v) · log(1 + |v|)."""
    assert graph.edge_columns is not None
    names, values = edge_aggregates(graph.edge_columns, graph.n_nodes, nodes)
    columns = {}
    for name, column in zip(names, values.T, strict=True):
        if name.startswith(("mean", "max", "min")):
            column = np.copysign(np.log1p(np.abs(column)), column)  # noqa: PLW2901
            name = f"{name} (signed log)"  # noqa: PLW2901
        columns[name] = column
    return columns
