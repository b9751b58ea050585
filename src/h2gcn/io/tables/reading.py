"""A table of nodes and one of edges as a `Graph`, and what further tables add to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import (
    CSR,
    STRUCTURAL,
    Graph,
    check_is_graph,
    grown_from,
    structural_features,
    structural_rows,
    weighted_by,
)
from h2gcn.io.graph_parts import doubtful_labels, label_amounts, order_classes
from h2gcn.io.mistakes import Mistakes, excerpt, listed
from h2gcn.io.tables.columns import (
    INDEX,
    InputTable,
    Origin,
    Roles,
    TableOptions,
    as_text,
    choose_ends,
    choose_roles,
    ids_as_written,
    open_table,
    other_columns,
    require_column,
    split_names,
    text_array,
    text_codes,
)
from h2gcn.io.tables.edges import EdgePart, read_edges
from h2gcn.io.tables.features import (
    Filler,
    doubtful_columns,
    map_features,
    read_features,
)
from h2gcn.io.tables.sources import is_database, is_frame, open_database, open_frame
from h2gcn.io.tables.times import (
    Parts,
    Times,
    date_features,
    date_names,
    parse_times,
    read_parts,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NodePart",
    "TableOptions",
    "check_times_agree",
    "extend_graph",
    "open_input",
    "read_labels",
    "read_nodes",
    "read_tables",
    "read_times",
    "single_names",
    "weighted",
    "without_features",
]


def read_tables(
    nodes: Any,
    edges: Any,
    options: TableOptions | None = None,
    *,
    features: str | Path | None = None,
) -> Graph:
    """Read a graph from a node table and an edge table.

    Each is a file (CSV, TSV or Parquet); a frame, which is anything with Arrow's
    `__arrow_c_stream__` (of pandas, polars, duckdb, pyarrow); or a text such as
    `sqlite:FILE?SELECT …`, `duckdb:FILE?SELECT …` or
    `postgresql://USER@HOST/DATABASE?SELECT …`.

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
    with mistakes.of("nodes"):
        node_file = open_input(nodes, "nodes")
    with mistakes.of("edges"):
        edge_file = open_input(edges, "edges")
    if node_file is not None:
        found = read_nodes(node_file, options, features, mistakes)
    if edge_file is not None:
        node_path: Path | Origin = Origin("the node table")
        ids = None
        if node_file is not None and found is not None:
            node_path, ids = node_file.path, found.ids
        edge_part = read_edges(edge_file, node_path, ids, options, mistakes)
        if node_file is not None and found is not None and edge_part is not None:
            with mistakes.of(edge_file.path):
                times = found.parts.times, edge_part.times
                check_times_agree(node_file.path, edge_file.path, *times)
    mistakes.tell()
    assert node_file is not None
    assert found is not None
    assert edge_file is not None
    assert edge_part is not None
    x, names, notes = found.x, found.names, found.notes
    adj, record = edge_part.adj, edge_part.record
    if not names:
        x, names, note = structural_features(adj)
        notes += (note,)
    notes += doubtful_labels(found.classes, found.y)
    if options.test_after is not None and found.parts.splits and not edge_part.times:
        notes += (
            "no column says when edges came up: all between nodes up to the cut count "
            "as there then; edge_time_column=… names one",
        )
    if found.roles.label is None:
        notes += (f"{node_file.path.name} has no label column: no node is labelled",)
    told = replace(found.options, edge_fill_values=edge_part.fill_values)
    ends = choose_ends(edge_file, options)[:2]
    graph = Graph(
        x=x,
        adj=adj,
        directed=edge_part.one_way,
        y=found.y,
        classes=found.classes,  # type: ignore[arg-type]
        node_ids=text_array(found.ids),
        feature_names=names,
        name=node_file.title,
        record=replace(
            record,
            notes=node_file.notes + notes + record.notes,
            tables=told.to_json(),
            id_column=None if found.roles.id == INDEX else found.roles.id,
            other_columns=other_columns(node_file, found.roles.id, edge_file, ends),
        ),
        edge_columns=edge_part.columns,
        splits=found.parts.splits,
        times=None if found.parts.times is None else found.parts.times.values,
        groups=found.parts.groups,
    )
    return weighted(graph, options.edge_weight)


def weighted(graph: Graph, name: str | None) -> Graph:
    """Return a graph whose edges weigh what a column of them says, if one is named."""
    if name is None:
        return graph
    try:
        return weighted_by(graph, name)
    except InputError as error:
        told = str(error).removeprefix("Graph: ")
        raise InputError(f"{graph.name}: {told}") from None


def open_input(given: Any, role: str) -> InputTable:
    """Return the table of a path, a frame or a database; "nodes" or "edges"."""
    if is_database(given):
        return open_database(given, role)
    if is_frame(given):
        return open_frame(given, Origin(f"the {role.removesuffix('s')} frame"))
    return open_table(given)


def check_times_agree(
    node_path: Path | Origin,
    edge_path: Path | Origin,
    nodes: Times | None,
    edges: Times | None,
) -> None:
    """Raise where the times of nodes and of edges cannot be compared."""
    if nodes is not None and edges is not None and nodes.kind != edges.kind:
        raise InputError(
            f"the times of edges are {edges.kind}, but those of nodes, in "
            f"{node_path.name}, are {nodes.kind}.",
            where=str(edge_path),
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
    parts: Parts = field(default_factory=Parts)


def read_nodes(
    file: InputTable,
    options: TableOptions,
    features: str | Path | None,
    mistakes: Mistakes,
) -> NodePart:
    """Return the contents of a node table; what is wrong in it are mistakes."""
    own = options
    if features is not None:
        with mistakes.of(features):
            own = without_features(options, features)
    roles = choose_roles(file, own, mistakes)
    columns = file.named
    if roles.numeric is not None:
        columns = tuple(dict.fromkeys((*roles.text, *roles.numeric)))
    else:
        columns = tuple(dict.fromkeys((*roles.text, *columns)))
    nodes = NodePart(roles, single_names(options, file, roles))
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
            nodes.ids = ids_as_written(file, roles.id, table[roles.id], "id_column")
            _check_ids(file, roles.id, nodes.ids, mistakes)
    if features is None:
        filler = Filler(
            options.fill_values, fills=options.fill_missing, fits=options.to_train
        )
        dates = date_features(file, table, roles, mistakes, filler)
        nodes.x, nodes.names, notes = read_features(
            file, table, roles, mistakes, filler, dates
        )
        nodes.notes = _of_their_own(nodes.options, options, file) + notes
        if roles.numeric is None and options.to_train:
            known = {*table.column_names} - {*roles.text}
            numeric = [name for name in nodes.names if name in known]
            nodes.notes += doubtful_columns(table, numeric)
        nodes.options = replace(nodes.options, fill_values=filler.values)
    else:
        with mistakes.of(features):
            nodes.x, nodes.notes = map_features(features, file, table.num_rows)
            nodes.names = tuple(map(str, range(nodes.x.shape[1])))
    read_labels(file, table, nodes, options, mistakes)
    return nodes


def read_labels(
    file: InputTable,
    table: pa.Table,
    nodes: NodePart,
    options: TableOptions,
    mistakes: Mistakes,
) -> None:
    """Read labels, and how nodes are split, into what is known of a node table.

    Parameters
    ----------
    file, table
        The node table, for messages, and what was read of it.
    nodes
        Gets them.
    options
        How it is read.
    mistakes
        Gets those of each column.
    """
    roles = nodes.roles
    with mistakes.of(file.path):
        nodes.y, nodes.classes = _labels(file, table, roles)
        if options.to_train:
            _check_amounts(file, roles, nodes)
    if nodes.y is not None:
        nodes.parts = read_parts(
            file, table, roles, options, nodes.y, nodes.classes, mistakes
        )
        nodes.notes += nodes.parts.notes


def _check_amounts(file: InputTable, roles: Roles, nodes: NodePart) -> None:
    """Raise where labels are numbers of which hardly one is there twice."""
    n_labelled = int(np.count_nonzero(nodes.y >= 0))
    n_classes = 0 if nodes.classes is None else len(nodes.classes)
    if 2 * n_classes > n_labelled and label_amounts(nodes.classes, nodes.y):
        raise InputError(
            f"the labels (column {roles.label!r}) are {n_classes:,} different numbers "
            f"in {n_labelled:,} rows, and nothing here predicts amounts",
            where=str(file.path),
            hint="put a few ranges, such as low and high, in their place, or name "
            "another column by label_column=…",
        )


def single_names(options: TableOptions, file: InputTable, roles: Roles) -> TableOptions:
    """Return the options for another table to be read alike."""
    numeric = options.feature_columns
    if numeric is not None:
        numeric = split_names(numeric, file.columns)
    categorical = split_names(options.categorical, file.columns)
    categorical = tuple(dict.fromkeys((*categorical, *roles.categorical)))
    dates = split_names(options.date_features, file.columns)
    return replace(
        options, feature_columns=numeric, categorical=categorical, date_features=dates
    )


def _of_their_own(
    told: TableOptions, asked: TableOptions, file: InputTable
) -> tuple[str, ...]:
    """Return which columns are categories because their type says so, as a note."""
    before = split_names(asked.categorical, file.columns)
    own = [name for name in told.categorical if name not in before]
    if not own:
        return ()
    columns, are = ("column", "is") if len(own) == 1 else ("columns", "are")
    why = "one-hot encoded, being of a categorical type"
    return (f"{columns} {listed(own)} {are} {why}",)


def without_features(options: TableOptions, features: str | Path) -> TableOptions:
    """Return options by which no column is a feature, or raise where one is to be."""
    numeric, categorical = options.feature_columns or (), options.categorical
    dates = options.date_features
    if numeric or categorical or dates:
        given = {
            "feature_columns": numeric,
            "categorical": categorical,
            "date_features": dates,
        }
        said = [f"{name}={list(columns)}" for name, columns in given.items() if columns]
        raise InputError(
            "the file replaces the feature columns of the node table, but "
            f"{listed((*numeric, *categorical, *dates))} is to be one",
            where=str(features),
            hint=f"leave out {' and '.join(said)}.",
        )
    return replace(options, feature_columns=())


def _check_ids(
    file: InputTable, name: str, ids: pa.ChunkedArray, mistakes: Mistakes
) -> None:
    """Find ids that are empty, or there twice, be it with other blanks around them."""
    import pyarrow.compute as pc

    codes, values = text_codes(pc.utf8_trim_whitespace(ids))
    empty = codes < 0
    if empty.any():
        mistakes.add(
            file.path,
            f"{file.path}: the id (column {name!r}) is empty at "
            f"{file.place(int(np.argmax(empty)))}.",
        )
    rows = np.flatnonzero(~empty)
    if len(values) == len(rows):
        return
    # Values are numbered as they come up, so a new one exceeds all before it.
    codes = codes[rows]
    highest = np.maximum.accumulate(codes)
    again = int(np.argmax(codes[1:] <= highest[:-1])) + 1
    first, again = (int(rows[i]) for i in (np.argmax(codes == codes[again]), again))
    one, other = ids[first].as_py(), ids[again].as_py()
    what = f"the node id {excerpt(one)} is there twice"
    if one != other:
        both = f"{excerpt(one)} and {excerpt(other)}"
        what = f"the node ids {both} differ only by blanks around them"
    mistakes.add(
        file.path,
        f"{file.path}: {what}, at {file.place(first)} and {file.place(again)}.",
    )


def _labels(
    file: InputTable, table: pa.Table, roles: Roles
) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    if roles.label is None:
        return np.full(table.num_rows, -1), None
    codes, values = text_codes(as_text(file, roles.label, table[roles.label]))
    if not values:
        return codes, None
    classes, rank = order_classes(values)
    return np.where(codes >= 0, rank[codes], -1), classes


def read_times(path: str | Path, column: str) -> NDArray[Any]:
    """Return a column of a node table as times: dates, or numbers as they are, [n].

    Parameters
    ----------
    path
        The table; its rows are the nodes of the graph, in their order.
    column
        Its name. Dates are those of ISO 8601, such as `2024-03-01` and
        `2024-03-01 12:30`, in UTC where they have a time zone; a missing one is NaT, a
        missing number NaN.
    """
    file = open_table(path)
    require_column(file, column)
    return parse_times(file, column, file.read([column], [column])[column]).values


# ----------------------------------------------------------------------- further tables


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
    check_is_graph(graph)
    if nodes is None and edges is None:
        raise InputError(
            "extend_graph: there is neither a node table nor an edge table"
        )
    read_so = TableOptions.from_json(graph.record.tables)
    if options is None:
        options = read_so
    options = replace(
        options,
        fill_values={**read_so.fill_values, **options.fill_values},
        edge_fill_values={**read_so.edge_fill_values, **options.edge_fill_values},
        label_required=False,
        to_train=False,
    )
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
        dates = {one for name in options.date_features for one in date_names(name)}
        numeric = [
            name
            for name in graph.feature_names
            if _source(name, categories) is None and name not in dates
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
