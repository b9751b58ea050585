"""A table of nodes and a table of edges as a `Graph`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io.features import structural_features
from h2gcn.io.files import listed
from h2gcn.io.labels import doubtful_labels, order_classes
from h2gcn.io.tables.columns import Roles, as_text, choose_roles, text_codes
from h2gcn.io.tables.edges import read_edges
from h2gcn.io.tables.feature_file import map_features
from h2gcn.io.tables.features import read_features
from h2gcn.io.tables.files import TableFile, open_table
from h2gcn.io.tables.missing import Filler
from h2gcn.io.tables.options import TableOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableOptions", "read_tables", "text_array"]


def read_tables(
    nodes: str | Path,
    edges: str | Path,
    options: TableOptions | None = None,
    *,
    features: str | Path | None = None,
) -> Graph:
    """Read a graph from a node table and an edge table (CSV, TSV or Parquet).

    Parameters
    ----------
    nodes
        A row a node: its id (always read as text), its label (empty: unlabelled),
        its features. Where no column is a feature, features are made of the
        degrees, and the record says so.
    edges
        A row an edge: the ids of its two ends; other columns are not used.
    options
        Which columns mean what; see `TableOptions`.
    features
        A `.npy` file that replaces the feature columns of the node table: a row for
        each of its rows, [n, F]. One of float32 is memory-mapped.

    Returns
    -------
    Graph
        Its nodes are in the order of the node table. `record` tells what was
        merged, symmetrised, dropped and left out.
    """
    given = options = TableOptions() if options is None else options
    node_file, edge_file = open_table(nodes), open_table(edges)
    if features is not None:
        options = _without_features(options, features)
    roles = choose_roles(node_file, options)
    columns = node_file.named
    if roles.numeric is not None:
        columns = (*roles.text, *roles.numeric)
    elif roles.id not in columns:
        columns = (roles.id, *columns)
    table = node_file.read(columns, roles.text)
    if table.num_rows == 0:
        raise InputError(f"{node_file.path}: the table has no rows, so no nodes.")
    ids = _node_ids(node_file, table, roles)
    x: Any
    if features is None:
        filler = Filler(options.fill_values) if options.fill_missing else None
        x, names, notes = read_features(node_file, table, roles, filler)
        if filler is not None:
            given = replace(given, fill_values=filler.values)
    else:
        x, notes = map_features(features, node_file, table.num_rows)
        names = tuple(map(str, range(x.shape[1])))
    y, classes = _labels(node_file, table, roles)
    adj, directed, record = read_edges(edge_file, node_file, ids, options)
    if not names:
        x, names, note = structural_features(adj)
        notes += (note,)
    notes += doubtful_labels(classes)
    if roles.label is None:
        notes += (f"{node_file.path.name} has no label column: no node is labelled",)
    path = node_file.path
    in_folder = path.stem.lower() == "nodes"
    return Graph(
        x=x,
        adj=adj,
        directed=directed,
        y=y,
        classes=classes,  # type: ignore[arg-type]
        node_ids=text_array(ids),
        feature_names=names,
        name=path.resolve().parent.name if in_folder else path.stem,
        record=replace(record, notes=notes + record.notes, tables=given.to_json()),
    )


def _without_features(options: TableOptions, features: str | Path) -> TableOptions:
    named = (*(options.feature_columns or ()), *options.categorical)
    if named:
        raise InputError(
            f"{features}: the file replaces the feature columns of the node table, but "
            f"{listed(named)} is to be one (--feature-column, --categorical)."
        )
    return replace(options, feature_columns=())


def _node_ids(file: TableFile, table: pa.Table, roles: Roles) -> pa.ChunkedArray:
    """Return the ids as text, checked: none empty, none twice."""
    ids = as_text(file, roles.id, table[roles.id])
    codes, values = text_codes(ids)
    empty = codes < 0
    if empty.any():
        raise InputError(
            f"{file.path}: the id (column {roles.id!r}) is empty at "
            f"{file.place(int(np.argmax(empty)))}."
        )
    if len(values) < len(codes):
        # Values are numbered as they come up, so a new one exceeds all before it.
        highest = np.maximum.accumulate(codes)
        again = int(np.argmax(codes[1:] <= highest[:-1])) + 1
        first = int(np.argmax(codes == codes[again]))
        raise InputError(
            f"{file.path}: the node id {values[codes[again]]!r} is there twice, at "
            f"{file.place(first)} and {file.place(again)}."
        )
    return ids


def _labels(
    file: TableFile, table: pa.Table, roles: Roles
) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    if roles.label is None:
        return np.full(table.num_rows, -1), None
    codes, values = text_codes(as_text(file, roles.label, table[roles.label]))
    if not values:
        return codes, None
    classes, rank = order_classes(values)
    return np.where(codes >= 0, rank[codes], -1), classes


def text_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return text as a numpy array, [n]: fixed width, or objects where that wastes."""
    import pyarrow.compute as pc

    values: NDArray[Any] = column.to_numpy()
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    return values.astype(str) if longest <= 64 else values
