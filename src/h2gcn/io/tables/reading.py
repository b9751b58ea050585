"""A table of nodes and a table of edges as a `Graph`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io.graph_parts import doubtful_labels, order_classes, structural_features
from h2gcn.io.mistakes import Mistakes, excerpt, listed
from h2gcn.io.tables.columns import (
    Roles,
    TableFile,
    TableOptions,
    as_text,
    as_written,
    choose_roles,
    open_table,
    split_names,
    text_array,
    text_codes,
)
from h2gcn.io.tables.edges import read_edges
from h2gcn.io.tables.features import Filler, map_features, read_features

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NodePart", "TableOptions", "read_nodes", "read_tables"]


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
        A row a node: its id (text, as it is written), its label (empty: unlabelled),
        its features. Where no column is a feature, features are made of the
        degrees, and the record says so.
    edges
        A row an edge: the ids of its two ends, and what it carries, which
        `Graph.edge_columns` keeps. Of columns that cannot be used the record tells.
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
    options = TableOptions() if options is None else options
    mistakes = Mistakes()
    node_file = edge_file = found = edge_part = None
    with mistakes.of(nodes):
        node_file = open_table(nodes)
    with mistakes.of(edges):
        edge_file = open_table(edges)
    if node_file is not None:
        found = read_nodes(node_file, options, features, mistakes)
    if edge_file is not None:
        node_path, ids = Path(nodes), None
        if node_file is not None and found is not None:
            node_path, ids = node_file.path, found.ids
        edge_part = read_edges(edge_file, node_path, ids, options, mistakes)
    mistakes.tell()
    assert node_file is not None
    assert found is not None
    assert edge_part is not None
    x, names, notes = found.x, found.names, found.notes
    adj, record = edge_part.adj, edge_part.record
    if not names:
        x, names, note = structural_features(adj)
        notes += (note,)
    notes += doubtful_labels(found.classes)
    if found.roles.label is None:
        notes += (f"{node_file.path.name} has no label column: no node is labelled",)
    path = node_file.path
    in_folder = path.stem.lower() == "nodes"
    told = replace(found.options, edge_fill_values=edge_part.fill_values)
    return Graph(
        x=x,
        adj=adj,
        directed=edge_part.one_way,
        y=found.y,
        classes=found.classes,  # type: ignore[arg-type]
        node_ids=text_array(found.ids),
        feature_names=names,
        name=path.resolve().parent.name if in_folder else path.stem,
        record=replace(
            record,
            notes=node_file.notes + notes + record.notes,
            tables=told.to_json(),
            id_column=found.roles.id,
        ),
        edge_columns=edge_part.columns,
    )


@dataclass
class NodePart:
    """What a node table holds, as far as it could be read."""

    roles: Roles
    options: TableOptions
    """For another table to be read alike."""
    ids: pa.ChunkedArray | None = None
    x: Any = None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    y: Any = None
    classes: NDArray[Any] | None = None


def read_nodes(
    file: TableFile,
    options: TableOptions,
    features: str | Path | None,
    mistakes: Mistakes,
) -> NodePart:
    """Return the contents of a node table; what is wrong in it are mistakes."""
    own = options
    if features is not None:
        with mistakes.of(features):
            own = _without_features(options, features)
    roles = choose_roles(file, own, mistakes)
    columns = file.named
    if roles.numeric is not None:
        columns = tuple(dict.fromkeys((*roles.text, *roles.numeric)))
    elif roles.id is not None and roles.id not in columns:
        columns = (roles.id, *columns)
    nodes = NodePart(roles, _single_names(options, file))
    table = None
    with mistakes.of(file.path):
        table = file.read(columns, roles.text)
    if table is None:
        return nodes
    if table.num_rows == 0:
        no_rows = f"{file.path}: the table has no rows, so no nodes."
        mistakes.add(file.path, no_rows)
        return nodes
    if roles.id is not None:
        with mistakes.of(file.path):
            nodes.ids = as_written(file, roles.id, table[roles.id])
            _check_ids(file, roles.id, nodes.ids)
    if features is None:
        filler = Filler(options.fill_values) if options.fill_missing else None
        nodes.x, nodes.names, nodes.notes = read_features(
            file, table, roles, mistakes, filler
        )
        if filler is not None:
            nodes.options = replace(nodes.options, fill_values=filler.values)
    else:
        with mistakes.of(features):
            nodes.x, nodes.notes = map_features(features, file, table.num_rows)
            nodes.names = tuple(map(str, range(nodes.x.shape[1])))
    with mistakes.of(file.path):
        nodes.y, nodes.classes = _labels(file, table, roles)
    return nodes


def _single_names(options: TableOptions, file: TableFile) -> TableOptions:
    numeric = options.feature_columns
    if numeric is not None:
        numeric = split_names(numeric, file.columns)
    categorical = split_names(options.categorical, file.columns)
    return replace(options, feature_columns=numeric, categorical=categorical)


def _without_features(options: TableOptions, features: str | Path) -> TableOptions:
    numeric, categorical = options.feature_columns or (), options.categorical
    if numeric or categorical:
        given = {"feature_columns": numeric, "categorical": categorical}
        said = [f"{name}={list(columns)}" for name, columns in given.items() if columns]
        raise InputError(
            f"{features}: the file replaces the feature columns of the node table, but "
            f"{listed((*numeric, *categorical))} is to be one; leave out "
            f"{' and '.join(said)}."
        )
    return replace(options, feature_columns=())


def _check_ids(file: TableFile, name: str, ids: pa.ChunkedArray) -> None:
    """Raise where an id is empty, or there twice, be it with other blanks around it."""
    import pyarrow.compute as pc

    codes, values = text_codes(pc.utf8_trim_whitespace(ids))
    empty = codes < 0
    if empty.any():
        raise InputError(
            f"{file.path}: the id (column {name!r}) is empty at "
            f"{file.place(int(np.argmax(empty)))}."
        )
    if len(values) == len(codes):
        return
    # Values are numbered as they come up, so a new one exceeds all before it.
    highest = np.maximum.accumulate(codes)
    again = int(np.argmax(codes[1:] <= highest[:-1])) + 1
    first = int(np.argmax(codes == codes[again]))
    one, other = ids[first].as_py(), ids[again].as_py()
    what = f"the node id {excerpt(one)} is there twice"
    if one != other:
        both = f"{excerpt(one)} and {excerpt(other)}"
        what = f"the node ids {both} differ only by blanks around them"
    raise InputError(
        f"{file.path}: {what}, at {file.place(first)} and {file.place(again)}."
    )


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
