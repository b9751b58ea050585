"""Which reader a source needs: a path, two tables, or an object of another library."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from h2gcn._validation import check_type
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io.edge_list import read_edge_list
from h2gcn.io.files import cannot_read, usable_path
from h2gcn.io.mistakes import Mistakes
from h2gcn.io.networkx_io import from_networkx, read_graphml
from h2gcn.io.npz import read_npz
from h2gcn.io.pyg import from_pyg, read_pt
from h2gcn.io.store import is_store, open_store, recover_store
from h2gcn.io.tables import (
    TABLE_SUFFIXES,
    TableOptions,
    is_database,
    is_frame,
    read_tables,
    weighted,
)

__all__ = ["find_node_table", "find_tables", "read_graph"]

_SUFFIXES = (".npz", ".graphml", ".pt", ".edgelist", ".txt")


def read_graph(
    source: Any = None,
    *,
    nodes: Any = None,
    edges: Any = None,
    options: TableOptions | None = None,
    features: str | Path | None = None,
) -> Graph:
    """Read a graph from whatever a user brings.

    Parameters
    ----------
    source
        A folder with `nodes.*` and `edges.*` (csv, tsv or parquet); a graph store,
        which is a folder of `write_store` or `h2gcn convert`; a file
        (`.npz`, `.graphml`, `.pt`, `.edgelist`, `.txt`); a PyG `Data`; a networkx
        graph; a `Graph`, which is returned.
    nodes, edges
        The two tables, in place of `source`: files; frames of pandas, polars, duckdb,
        pyarrow or what else has `__arrow_c_stream__`; queries such as
        `sqlite:FILE?SELECT …`, `duckdb:FILE?SELECT …` or
        `postgresql://USER@HOST/DATABASE?SELECT …`.
    options
        How tables are read. Of other formats, GraphML and networkx graphs follow
        its label and feature columns and its `edge_features`, edge lists its
        `undirected`, all of them its `edge_weight`.
    features
        A `.npy` file in place of the feature columns of a node table.

    Returns
    -------
    Graph
        Named after the file or folder; `record` tells what was done to the input.
    """
    for name, table in {"nodes": nodes, "edges": edges}.items():
        if table is not None and not is_frame(table):
            rule = "a path, a query, a frame with __arrow_c_stream__ or None"
            check_type(name, table, (str, Path), rule)
    if features is not None:
        check_type("features", features, (str, Path), "a path, or None")
        if is_database(features):
            raise InputError("must be a .npy file, not a query", param="features")
    options = TableOptions() if options is None else options
    check_type("options", options, TableOptions, "a TableOptions")
    if source is None:
        if nodes is None or edges is None:
            missing = "nodes" if nodes is None else "edges"
            raise InputError(
                "is missing: give a source, or a node table and an edge table",
                param=missing,
            )
        return read_tables(nodes, edges, options, features=features)
    if nodes is not None or edges is not None:
        raise InputError(
            "A graph needs a source, or a node table and an edge table: not both."
        )
    if is_database(source):
        raise InputError(
            "A query of a database gives one table, and a graph is two: nodes=… and "
            "edges=…."
        )
    if is_frame(source):
        raise InputError(
            "A frame is one table, and a graph is two: nodes=… and edges=…",
            value=type(source),
        )
    if isinstance(source, str | Path):
        source = usable_path(source)
        recover_store(source)
    folder = isinstance(source, Path) and source.is_dir() and not is_store(source)
    if features is not None and not folder:
        raise InputError(
            f"{features}: a file of features needs a node table: nodes=… and edges=…, "
            f"or a folder with nodes.* and edges.*, got {_told(source)}"
        )
    if not folder:
        _check_for_tables(source, options)
    if isinstance(source, Path):
        graph = _read_path(source, options, features)
    else:
        graph = _from_object(source, options)
    return weighted(graph, options.edge_weight)


def _check_for_tables(source: object, options: TableOptions) -> None:
    """Refuse a split that is asked for where there is no table to have it."""
    names = (
        *("split_column", "group_column", "time_column", "edge_time_column"),
        "date_features",
    )
    for name in names if options.to_train else ():
        if getattr(options, name):
            raise InputError(
                "is for a node table and an edge table",
                param=name,
                where=str(source) if isinstance(source, Path) else None,
            )


def _check_for_store(path: Path, options: TableOptions) -> None:
    """Refuse to read a store in another way: its columns have their meaning already."""
    usual = TableOptions()
    names = {field.name for field in fields(TableOptions)}
    names -= {"edge_weight", "label_required", "to_train"}
    for name in sorted(names) if options.to_train else ():
        if getattr(options, name) != getattr(usual, name):
            raise InputError(
                "is for tables and their conversion, and this is a graph store",
                param=name,
                where=str(path),
            )


def _read_path(path: Path, options: TableOptions, features: str | Path | None) -> Graph:
    if path.is_dir() and is_store(path):
        _check_for_store(path, options)
        return open_store(path)
    if path.is_dir():
        mistakes, tables = Mistakes(), {}
        for stem in ("nodes", "edges"):
            with mistakes.of(path):
                tables[stem] = _table(path, stem)
        mistakes.tell()
        return read_tables(**tables, options=options, features=features)
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        raise InputError(
            f"{path}: a graph is two tables; give nodes=… and edges=…, or a folder "
            f"with nodes{suffix} and edges{suffix}."
        )
    if suffix not in _SUFFIXES:
        there = "" if path.exists() else "there is no such file or folder; "
        raise InputError(
            f"{there}a graph is a folder with nodes.* and edges.*, or a file "
            f"that ends in {', '.join(_SUFFIXES)}.",
            where=str(path),
        )
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".pt":
        return read_pt(path)
    if suffix == ".graphml":
        graph = read_graphml(
            path,
            label=options.label_column or "label",
            features=options.feature_columns,
            label_required=options.label_required,
            edge_features=options.edge_features,
        )
    else:
        graph = read_edge_list(path, undirected=options.undirected)
    return _with_options(graph, options)


def _with_options(graph: Graph, options: TableOptions) -> Graph:
    """Return a graph that remembers how it was read."""
    return replace(graph, record=replace(graph.record, tables=options.to_json()))


def find_node_table(source: str | Path | None, nodes: str | Path | None = None) -> Path:
    """Return the node table of what a graph is read from, or raise if there is none.

    Parameters
    ----------
    source, nodes
        As of `read_graph`, one of them.
    """
    if nodes is not None:
        return usable_path(nodes)
    folder = None if source is None else usable_path(source)
    if folder is not None and folder.is_dir() and not is_store(folder):
        return _table(folder, "nodes")
    raise InputError(
        f"{_told(source)} has no node table to take a column of: that takes a folder "
        "with nodes.* and edges.*, or nodes=… and edges=…."
    )


def find_tables(folder: Path) -> tuple[Path, Path]:
    """Return the node table and the edge table of a folder, or raise.

    Each is a file, or a folder inside of it that is called `nodes` or `edges`.
    """
    mistakes, found = Mistakes(), []
    for stem in ("nodes", "edges"):
        with mistakes.of(folder):
            parts = folder / stem
            found.append(parts if parts.is_dir() else _table(folder, stem))
    mistakes.tell()
    return found[0], found[1]


def _table(folder: Path, stem: str) -> Path:
    try:
        found = sorted(
            file
            for file in folder.iterdir()
            if file.stem.lower() == stem and file.suffix.lower() in TABLE_SUFFIXES
        )
    except OSError as error:
        raise cannot_read(folder, error) from None
    if len(found) == 1:
        return found[0]
    wanted = f"one of {', '.join(stem + suffix for suffix in TABLE_SUFFIXES)}"
    have = "It has none" if not found else "It has " + _names(found)
    raise InputError(f"the folder must hold {wanted}. {have}.", where=str(folder))


def _from_object(source: Any, options: TableOptions) -> Graph:
    """Dispatch by the modules of the classes: importing PyG takes seconds."""
    if isinstance(source, Graph):
        return source
    homes = {cls.__module__.partition(".")[0] for cls in type(source).__mro__}
    if "torch_geometric" in homes:
        return from_pyg(source)
    if "networkx" in homes:
        label, features = options.label_column or "label", options.feature_columns
        graph = from_networkx(
            source,
            label=label,
            features=features,
            label_required=options.label_required,
            edge_features=options.edge_features,
        )
        return _with_options(graph, options)
    raise InputError(
        "A graph is read from a path, a PyG Data or a networkx graph",
        value=type(source),
    )


def _names(files: list[Path]) -> str:
    return " and ".join(file.name for file in files)


def _told(given: object) -> str:
    if given is None:
        return "nothing"
    if is_database(given) or not isinstance(given, str | Path):
        return "a query" if is_database(given) else type(given).__name__
    return repr(str(given))
