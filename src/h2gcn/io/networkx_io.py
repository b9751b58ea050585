"""networkx graphs and GraphML files as a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import import_extra, nearest
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, Graph, first_repeated, structural_features
from h2gcn.io.files import existing_file
from h2gcn.io.graph_parts import (
    adjacency_from_edges,
    carried_note,
    doubtful_labels,
    encode_labels,
    fit_layout,
    text_values,
)
from h2gcn.io.mistakes import excerpt, one_line
from h2gcn.io.tables import split_names
from h2gcn.sparse import check_memory

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["from_networkx", "read_graphml"]

# LookupError is an encoding that is not known, SyntaxError ElementTree's own, and
# the others what networkx runs into where the XML is not GraphML.
_BAD_XML = (
    *(AttributeError, LookupError, OverflowError, RecursionError, SyntaxError),
    *(TypeError, ValueError),
)
_LIMIT = 10**300
"""Beyond what 32 bits hold, and within what 64 do."""
XML_COPIES = 10
"""How many bytes a byte of GraphML takes at least, once it is a graph of networkx."""


def from_networkx(
    G: nx.Graph,
    *,
    label: str = "label",
    features: Sequence[str] | None = None,
    label_required: bool = True,
    edge_features: Sequence[str] | None = None,
    name: str | None = None,
) -> Graph:
    """Return a networkx graph, its nodes in the same order.

    Parameters
    ----------
    G
        Directed or not, with or without parallel edges and loops.
    label
        The node attribute that is the label; nodes without it are unlabelled.
    features
        The node attributes that are features, numbers or lists of numbers; by
        default all such but the label. A name that no node has may be several, with
        commas between them. Where there is none, features are made of the degrees,
        and the record says so.
    label_required
        Whether it is an error that no node has the label, unless it is "label".
    edge_features
        The edge attributes that `Graph.edge_columns` keeps: numbers that each edge
        has; by default all such. Names as of `features`.
    name
        Name of the graph; by default networkx's, or "graph".
    """
    nodes = list(G.nodes)
    if not nodes:
        raise InputError("The networkx graph has no nodes.")
    index = {node: number for number, node in enumerate(nodes)}
    ends = np.array([(index[u], index[v]) for u, v in G.edges()], dtype=np.int64)
    ends = ends.reshape(-1, 2)
    adj, one_way, record = adjacency_from_edges(
        ends[:, 0],
        ends[:, 1],
        len(nodes),
        directed=None if G.is_directed() else False,
    )
    rows = [G.nodes[node] for node in nodes]
    known = list(dict.fromkeys(key for row in rows for key in row))
    if features is not None:
        features = tuple(dict.fromkeys(split_names(features, known)))
    must = label_required and label != "label"
    for wanted in (*((label,) if must else ()), *(features or ())):
        if wanted not in known:
            hint = nearest(wanted, map(str, known))
            raise InputError(f"No node has an attribute {wanted!r}.{hint}")
    blocks, names, notes = _features(nodes, rows, known, label, features)
    _check_names("features", "node", list(map(str, names)))
    if blocks:
        x = fit_layout(np.hstack(blocks))
    else:
        x, structural_names, note = structural_features(adj)
        names, notes = list(structural_names), [*notes, note]
    edge_columns, edge_notes = _edge_columns(G, ends, edge_features)
    notes += edge_notes
    labels = np.empty(len(nodes), dtype=object)
    labels[:] = [row.get(label) for row in rows]
    y, classes = encode_labels(labels)
    return Graph(
        x=x,
        adj=adj,
        directed=one_way,
        y=y,
        classes=classes,  # type: ignore[arg-type]
        node_ids=_node_ids(nodes),
        feature_names=tuple(names),
        name=name or str(getattr(G, "name", "")) or "graph",
        record=replace(record, notes=(*notes, *doubtful_labels(classes, y))),
        edge_columns=edge_columns,
    )


def read_graphml(
    path: str | Path,
    *,
    label: str = "label",
    features: Sequence[str] | None = None,
    label_required: bool = True,
    edge_features: Sequence[str] | None = None,
) -> Graph:
    """Read a GraphML file; the options are those of `from_networkx`.

    A file with a document type declaration is refused: GraphML needs none, and
    entities that are declared there can blow up or read other files.
    """
    file = existing_file(path)
    nx = import_extra("networkx", f"{file}: to read GraphML")
    check_memory(f"{file}: this file", XML_COPIES * file.stat().st_size)
    content = file.read_bytes()
    _check_xml(file, content)
    try:
        graph = nx.read_graphml(BytesIO(content))
    except (nx.NetworkXException, *_BAD_XML) as error:
        raise InputError(
            f"this is not GraphML ({one_line(error)}).", where=str(file)
        ) from None
    try:
        return from_networkx(
            graph,
            label=label,
            features=features,
            label_required=label_required,
            edge_features=edge_features,
            name=file.stem,
        )
    except InputError as error:
        raise error.at(str(file)) from None


def _check_xml(file: Path, content: bytes) -> None:
    """Raise where the file is not well-formed XML, or declares a document type."""
    from xml.parsers import expat

    def refuse(*_: object) -> None:
        raise InputError(
            "the file has a DOCTYPE declaration, which is refused; GraphML needs none.",
            where=str(file),
        )

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except InputError:
        raise
    except (expat.ExpatError, *_BAD_XML) as error:
        raise InputError(
            f"the file is not well-formed XML ({one_line(error)}).", where=str(file)
        ) from None


def _features(
    nodes: list[Any],
    rows: list[dict[str, Any]],
    known: list[str],
    label: str,
    features: Sequence[str] | None,
) -> tuple[list[NDArray[np.float32]], list[str], list[str]]:
    """Return blocks of columns, [n, ·] each, their names, and notes on the rest."""
    blocks, names, notes = [], [], []
    for key in [k for k in known if k != label] if features is None else features:
        values: list[Any] = [row.get(key) for row in rows]
        odd = next((v for v in values if v is not None and not _numeric(v)), None)
        if odd is not None and features is None:
            notes.append(f"node attribute {key!r} is not a number and is not used")
            continue
        if odd is not None:
            raise InputError(
                f"Node attribute {key!r} must be numbers, got {excerpt(odd)}"
            )
        widths = [np.size(v) if v is not None else -1 for v in values]
        if len(set(widths)) > 1:
            at = next(i for i, w in enumerate(widths) if w != max(widths))
            raise InputError(
                f"Node attribute {key!r} must be there at each node, of one length. "
                f"Node {excerpt(nodes[at])} has {excerpt(values[at])} instead."
            )
        block = _as_numbers(values).reshape(len(nodes), -1)
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            at = int(np.argmin(finite))
            raise InputError(
                f"Node attribute {key!r} must be finite. Node {excerpt(nodes[at])} has "
                f"{excerpt(values[at])} instead."
            )
        blocks.append(block)
        single = np.ndim(values[0]) == 0
        names += [key] if single else [f"{key}[{j}]" for j in range(block.shape[1])]
    return blocks, names, notes


def _edge_columns(
    G: nx.Graph, ends: NDArray[np.int64], wanted: Sequence[str] | None
) -> tuple[EdgeColumns | None, list[str]]:
    """Return what the edges carry, if anything, and notes on it.

    Parameters
    ----------
    G
        The graph, with m edges.
    ends
        Their ends, [m, 2].
    wanted
        The attributes that must be usable; None for all that are.
    """
    rows = [data for _, _, data in G.edges(data=True)]
    known = list(dict.fromkeys(key for row in rows for key in row))
    columns, names, notes = [], [], []
    if wanted is not None:
        wanted = tuple(dict.fromkeys(split_names(wanted, known)))
    for key in known if wanted is None else wanted:
        if key not in known:
            hint = nearest(key, map(str, known))
            raise InputError(f"No edge has an attribute {key!r}.{hint}")
        column, why = _edge_numbers([row.get(key) for row in rows])
        if why is None:
            columns.append(column)
            names.append(str(key))
        elif wanted is None:
            notes.append(f"edge attribute {key!r} is left out: {why}")
        else:
            raise InputError(f"Edge attribute {key!r} cannot be used: {why}.")
    if not columns:
        return None, notes
    _check_names("edge_features", "edge", names)
    joined = ends[:, 0] != ends[:, 1]
    found = EdgeColumns(
        ends[joined, 0],
        ends[joined, 1],
        np.column_stack(columns)[joined],
        tuple(names),
        directed=G.is_directed(),
        categories=(),
    )
    return found, [*carried_note([repr(name) for name in names]), *notes]


def _check_names(param: str, what: str, names: Sequence[str]) -> None:
    """Raise if two columns share a name: of attributes 1 and "1", or "v" and "v[0]"."""
    again = first_repeated(names)
    if again is not None:
        raise InputError(
            "makes two columns of one name",
            param=param,
            value=again,
            hint=f"rename one of the {what} attributes",
        )


def _edge_numbers(cells: list[Any]) -> tuple[NDArray[np.float32], str | None]:
    """Return an attribute of all edges as numbers, [m], and why it cannot be used."""
    none = np.empty(0, dtype=np.float32)
    if any(cell is None for cell in cells):
        return none, "some edges do not have it"
    if not all(isinstance(cell, (Real, np.bool_)) for cell in cells):
        return none, "it is not a number"
    column = _as_numbers(cells)
    finite = np.isfinite(column).all()
    return column, None if finite else "it is not finite, in 32 bits"


def _fit(numbers: list[int]) -> bool:
    return max(map(abs, numbers), default=0) < 2**63


def _as_numbers(values: list[Any]) -> NDArray[np.float32]:
    """Return numbers, or lists of them, side by side; infinite beyond 32 bits."""
    with np.errstate(over="ignore"):
        try:
            return np.array(values, dtype=np.float64).astype(np.float32)
        except (OverflowError, ValueError):
            # An integer of hundreds of digits, or numbers beside lists of one.
            each = [number for value in values for number in np.ravel(value).tolist()]
            flat = [float(min(max(number, -_LIMIT), _LIMIT)) for number in each]
            return np.array(flat).astype(np.float32)


def _numeric(value: Any) -> bool:
    if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value):
        return len(value) > 0 and all(isinstance(v, (Real, np.bool_)) for v in value)
    return isinstance(value, (Real, np.bool_))


def _node_ids(nodes: list[Any]) -> NDArray[Any]:
    if all(type(node) is int for node in nodes) and _fit(nodes):
        return np.array(nodes)
    ids = [str(node) for node in nodes]
    if len(set(ids)) < len(ids):
        raise InputError("Two nodes of the networkx graph have the same name as text.")
    return text_values(ids)
