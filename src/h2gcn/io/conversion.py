"""Any source as a graph store: tables of any size, or what `read_graph` reads."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from h2gcn._validation import check_real
from h2gcn.exceptions import InputError
from h2gcn.io.dispatch import find_tables, read_graph
from h2gcn.io.files import usable_path
from h2gcn.io.store import check_target, is_store, write_store
from h2gcn.io.tables import (
    Conversion,
    Progress,
    TableOptions,
    check_new_store,
    convert_tables,
    is_database,
    is_frame,
)
from h2gcn.sparse import limit_memory

__all__ = ["convert"]


def convert(
    source: Any = None,
    folder: str | Path = "",
    *,
    nodes: Any = None,
    edges: Any = None,
    options: TableOptions | None = None,
    features: str | Path | None = None,
    memory_limit: float | None = None,
    scratch: str | Path | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Build a graph store, which every command and `read_graph` take as a source.

    Tables in files are converted in bounded memory, see `convert_tables`; what else
    `read_graph` takes is read, and written.

    Parameters
    ----------
    source
        As of `read_graph`, also a folder with the folders `nodes` and `edges`, whose
        files are parts of one table each.
    folder
        Where the store goes.
    nodes, edges
        The two tables, in place of `source`: as of `convert_tables`, or as of
        `read_graph`.
    options, features
        As of `read_graph`.
    memory_limit, scratch, progress
        As of `convert_tables`.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from h2gcn.graph import Graph
    >>> pair = Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1], name="pair")
    >>> built = convert(pair, Path(mkdtemp(), "store"))
    >>> read_graph(built.folder)
    Graph('pair': 2 nodes, 1 edges, 2 features, 2 classes, 2 labelled)
    """
    begin = time.perf_counter()
    if not str(folder):
        raise InputError("convert: 'folder' must say where the graph store goes.")
    target = usable_path(folder)
    check_new_store(target)
    if isinstance(source, str | Path) and not is_database(source):
        path = usable_path(source)
        if path.is_dir() and is_store(path):
            raise InputError("is a graph store already.", where=str(path))
        if path.is_dir() and nodes is None and edges is None:
            nodes, edges = find_tables(path)
            source = None
    in_files = all(
        isinstance(table, str | Path) and not is_database(table) and not is_frame(table)
        for table in (nodes, edges)
    )
    if source is None and in_files:
        return convert_tables(
            nodes,
            edges,
            target,
            options,
            features=features,
            memory_limit=memory_limit,
            scratch=scratch,
            progress=progress,
        )
    check_target(target, overwrite=False)
    if memory_limit is not None:
        check_real("memory_limit", memory_limit, "(0, inf)")
    with limit_memory(memory_limit):
        graph = read_graph(
            source, nodes=nodes, edges=edges, options=options, features=features
        )
    write_store(graph, target)
    return Conversion(
        target,
        graph.n_nodes,
        graph.n_edges,
        graph.n_features,
        graph.n_classes,
        int(graph.labelled.size),
        sum(file.stat().st_size for file in target.glob("*.npy")),
        time.perf_counter() - begin,
        graph.record,
    )
