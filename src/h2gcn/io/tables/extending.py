"""A graph with what further tables list: new nodes, and new edges of any nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import (
    CSR,
    STRUCTURAL,
    Graph,
    check_is_graph,
    grown_from,
    structural_rows,
)
from h2gcn.io.mistakes import Mistakes, excerpt, listed
from h2gcn.io.tables.columns import InputTable, Origin, TableOptions, text_array
from h2gcn.io.tables.edges import EdgePart, read_edges
from h2gcn.io.tables.reading import NodePart, open_input, read_nodes

__all__ = ["extend_graph"]


def extend_graph(
    graph: Graph,
    nodes: Any = None,
    edges: Any = None,
    options: TableOptions | None = None,
    *,
    features: str | Path | None = None,
) -> Graph:
    r"""Return a graph with the nodes and edges of further tables.

    They are read as those of the graph were, and what is new is checked alone; see
    `Graph.with_nodes`. A category that the graph does not have is left out, and the
    record says so.

    Parameters
    ----------
    graph
        Of `read_graph`, or any other; it stays as it is.
    nodes
        A table (a file, a frame or a query, as of `read_graph`) with a row for each
        new node: its id, the columns that the graph has
        for features, a label where it is known. None: no new nodes.
    edges
        A table with a row for each new edge, by the ids of new nodes or old, and the
        columns that edges of the graph carry. None: no new edges.
    options
        How to read them; by default as the graph was, by its record.
    features
        A `.npy` file in place of the feature columns of the new nodes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from h2gcn.io import from_scipy
    >>> pair = from_scipy([[0, 1], [1, 0]], [[1.0], [2.0]], node_ids=["ann", "bob"],
    ...     feature_names=["age"])
    >>> new, links = Path(mkdtemp(), "new.csv"), Path(mkdtemp(), "links.csv")
    >>> _ = new.write_text("id,age\ncleo,3\n")
    >>> _ = links.write_text("source,target\ncleo,ann\n")
    >>> extend_graph(pair, new, links).adj.toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    check_is_graph("extend_graph", graph)
    if nodes is None and edges is None:
        raise InputError(
            "extend_graph: there is neither a node table nor an edge table"
        )
    if options is None:
        options = TableOptions.from_json(graph.record.tables)
    options = replace(options, label_required=False, to_train=False)
    mistakes = Mistakes()
    node_file = edge_file = part = edge_part = None
    if nodes is not None:
        with mistakes.of("nodes"):
            node_file = open_input(nodes, "nodes")
    if edges is not None:
        with mistakes.of("edges"):
            edge_file = open_input(edges, "edges")
    if node_file is not None:
        part = _new_nodes(graph, node_file, options, features, mistakes)
    if edge_file is not None and (nodes is None or (part and part.ids is not None)):
        edge_part = _new_edges(graph, edge_file, node_file, part, options, mistakes)
    mistakes.tell()
    return _extended(graph, node_file, part, edge_file, edge_part)


def _new_nodes(
    graph: Graph,
    file: InputTable,
    options: TableOptions,
    features: str | Path | None,
    mistakes: Mistakes,
) -> NodePart:
    """Return what a table says of new nodes; those that are old are a mistake."""
    wanted = replace(options, feature_columns=(), categorical=())
    if features is None and graph.feature_names != STRUCTURAL:
        categories = _sources(options.categorical, graph.feature_names)
        dates = tuple(f"{name} (" for name in options.date_features)
        numeric = [
            name
            for name in graph.feature_names
            if _source(name, categories) is None and not name.startswith(dates)
        ]
        # As in any table that is predicted, a value that is nowhere is no column.
        wanted = replace(
            options, feature_columns=tuple(numeric), categorical=tuple(categories)
        )
    part = read_nodes(file, wanted, features, mistakes)
    for row, name in enumerate([] if part.ids is None else part.ids.to_pylist()):
        if name in graph.places:
            mistakes.add(
                file.path,
                f"{file.path}: {file.place(row)} has the node id {excerpt(name)}, "
                f"which is in {graph.name} already.",
            )
            break
    return part


def _new_edges(
    graph: Graph,
    file: InputTable,
    node_file: InputTable | None,
    part: NodePart | None,
    options: TableOptions,
    mistakes: Mistakes,
) -> EdgePart | None:
    """Return what a table says of new edges between nodes, new or old."""
    import pyarrow as pa

    names = () if graph.edge_columns is None else graph.edge_columns.names
    of = () if graph.edge_columns is None else graph.edge_columns.categories
    given = tuple(name.partition("=")[0] for name in of)
    categories = _sources((*options.edge_categorical, *given), of)
    numeric = [name for name in names if name not in set(of)]
    wanted = replace(
        options,
        edge_features=(*numeric, *categories),
        edge_categorical=tuple(categories),
    )
    ids = [pa.array(map(str, graph.node_ids.tolist()), pa.large_string())]
    where = graph.name
    if part is not None and part.ids is not None and node_file is not None:
        ids += part.ids.cast(pa.large_string()).chunks
        where = f"{graph.name}, nor in {node_file.path}"
    return read_edges(file, Origin(where), pa.chunked_array(ids), wanted, mistakes)


def _extended(
    graph: Graph,
    node_file: InputTable | None,
    part: NodePart | None,
    edge_file: InputTable | None,
    edge_part: EdgePart | None,
) -> Graph:
    """Return the graph with what was read."""
    x: Any = np.zeros((0, graph.n_features), dtype=np.float32)
    ids: NDArray[Any] | None = None
    y: NDArray[np.int64] | None = None
    classes, notes, added = graph.classes, [], []
    made = graph.feature_names == STRUCTURAL
    if part is not None and node_file is not None and part.ids is not None:
        count = len(part.ids)
        x = np.zeros((count, graph.n_features), dtype=np.float32)
        if part.names:
            x, unknown = _aligned(part.x, part.names, graph.feature_names)
            notes += _left_out(unknown, node_file)
            made = False
        ids = text_array(part.ids)
        y, classes = _classes(graph.classes, part)
        notes += [*node_file.notes, *part.notes]
        added.append(_counted(count, "node", node_file))
    edges: NDArray[np.int64] | None = None
    values: Any = None
    if edge_part is not None and edge_file is not None:
        edges = edge_part.ends
        if graph.edge_columns is not None and edge_part.columns is not None:
            columns = edge_part.columns
            wanted = graph.edge_columns.names
            values, unknown = _aligned(columns.values, columns.names, wanted)
            notes += _left_out(unknown, edge_file)
        notes += _sentences(edge_part)
        added.append(_counted(edges.shape[1], "edge", edge_file))
    if isinstance(x, np.ndarray) and not isinstance(graph.x, np.ndarray):
        x = CSR(x)
    told = f"{' and '.join(added)} added to {graph.name}"
    extended = graph.with_nodes(
        x,
        edges,
        y=y,
        classes=classes,
        node_ids=ids if ids is not None or not graph.has_ids else [],
        edge_values=values,
        notes=(told, *notes),
    )
    growth = grown_from(extended)
    if made and growth is not None and isinstance(extended.x, np.ndarray):
        # The degrees of old nodes are others too, and of those beside them.
        near = np.union1d(growth.touched, extended.adj[growth.touched].indices)
        extended.x[near] = structural_rows(extended.adj, near)
    return extended


def _sources(asked: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns whose values are categories among some names."""
    single = [part.strip() for name in asked for part in (name, *name.split(","))]
    used = {_source(name, single) for name in names}
    return tuple(name for name in dict.fromkeys(single) if name in used)


def _source(name: str, categories: Sequence[str]) -> str | None:
    """Return the column of which a feature is a value, None if it is none."""
    return next((one for one in categories if name.startswith(f"{one}=")), None)


def _aligned(
    values: Any, names: Sequence[str], wanted: Sequence[str]
) -> tuple[Any, list[str]]:
    """Return columns in the order of other names, and those that have no place.

    Parameters
    ----------
    values
        [m, len(names)], dense or CSR.
    names
        Of its columns.
    wanted
        Of the columns that are returned; what is not there is zero.
    """
    place = {name: number for number, name in enumerate(wanted)}
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    found = np.zeros((dense.shape[0], len(wanted)), dtype=np.float32)
    for number, name in enumerate(names):
        if name in place:
            found[:, place[name]] = dense[:, number]
    return found, [name for name in names if name not in place]


def _classes(
    known: NDArray[Any], part: NodePart
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the class indices of new nodes, and all classes, new ones at the end."""
    if part.classes is None:
        return part.y, known
    place = {str(name): number for number, name in enumerate(known)}
    new = [name for name in part.classes if str(name) not in place]
    place |= {str(name): len(known) + number for number, name in enumerate(new)}
    rank = np.array([place[str(name)] for name in part.classes], dtype=np.int64)
    y = np.where(part.y >= 0, rank[part.y], -1)
    if not new:
        return y, known
    alike = np.array(new).dtype.kind == known.dtype.kind
    texts = np.array(new) if alike else np.array([str(name) for name in new])
    before = known if alike or not len(known) else known.astype(str)
    return y, np.concatenate([before, texts]) if len(known) else texts


def _sentences(part: EdgePart) -> list[str]:
    """Return what is to be told of new edges; which columns are kept, is known."""
    told = replace(part.record, symmetrised=0, duplicates_merged=0)
    return [text for text in told.sentences() if not text.endswith("what edges carry")]


def _counted(count: int, what: str, file: InputTable) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'} of {file.path.name}"


def _left_out(names: Sequence[str], file: InputTable) -> list[str]:
    if not names:
        return []
    return [f"categories of {file.path.name} that the graph has not: {listed(names)}"]
