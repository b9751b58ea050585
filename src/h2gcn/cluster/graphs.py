"""A graph as workers get it: by the path of a store, or out of Ray's object store."""

from __future__ import annotations

import mmap as mmap_module
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields
from importlib import import_module
from mmap import mmap
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from h2gcn.cluster.connection import Cluster
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph
from h2gcn.io import read_graph

__all__ = ["SharedGraph", "at_work", "graph_bytes", "share_graph"]

KEPT = 2
"""How many graphs a worker keeps open: one as it was, and as it is."""


@dataclass(frozen=True)
class SharedGraph:
    """What a task is given for a graph: where it is, and how to tell it from others.

    Parameters
    ----------
    key
        By which a worker knows one that it has open.
    shape
        Nodes, entries of the adjacency matrix, features, and what edges weigh by.
    path
        Of a store that every machine sees under this name; None if there is none.
    kept
        In Ray's object store, where there is no path.
    """

    key: str
    shape: tuple[int, int, int, str | None]
    path: str | None = None
    kept: tuple[Any, ...] = ()

    def open(self) -> Graph:
        """Return the graph, as this process has it open."""
        if self.key in _OPEN:
            _OPEN.move_to_end(self.key)
            return _OPEN[self.key]
        graph = self._find()
        if _shape(graph) != self.shape:
            raise InputError(
                f"{self.path}: a worker finds another graph there (of "
                f"{graph.n_nodes:,} nodes, and here {self.shape[0]:,}); every machine "
                "needs the same files under this name"
            )
        _OPEN[self.key] = graph
        while len(_OPEN) > KEPT:
            _OPEN.popitem(last=False)
        return graph

    def _find(self) -> Graph:
        if self.path is None:
            found: Graph = import_module("ray").get(self.kept[0])
            return found
        try:
            return read_graph(self.path)
        except InputError as error:
            raise InputError(
                f"a worker cannot read the graph ({error}); every machine needs it "
                "under this name"
            ) from None


_OPEN: OrderedDict[str, Graph] = OrderedDict()
"""What this process has open, the last used at the end."""


def share_graph(
    cluster: Cluster, graph: Graph, source: str | Path | None = None
) -> SharedGraph:
    """Have tasks of a cluster see a graph.

    Parameters
    ----------
    cluster
        Whose tasks.
    graph
        As this process has it. Its arrays are copied to Ray's object store once, where
        processes of a machine read them without a copy.
    source
        A path from which `read_graph` has the same graph, on every machine: then
        nothing is copied, and what it maps stays in its files.
    """
    shape = _shape(graph)
    if source is not None:
        path = Path(source).absolute()
        return SharedGraph(f"{path} {_version(path)} {shape}", shape, str(path))
    # Inside of a tuple it is not opened for each task, but once a process.
    return SharedGraph(uuid4().hex, shape, kept=(cluster.put(_bare(graph)),))


def _version(path: Path) -> str:
    """Return what tells files of one name apart: a graph that is open is not again."""
    try:
        found = (path / "manifest.json" if path.is_dir() else path).stat()
    except OSError:  # workers will say so
        return uuid4().hex
    return f"{found.st_mtime_ns} {found.st_size}"


def _shape(graph: Graph) -> tuple[int, int, int, str | None]:
    sizes = graph.n_nodes, int(graph.adj.nnz), graph.n_features
    return *sizes, graph.edge_weight


def _bare(graph: Graph) -> Graph:
    """Return a graph without what was computed of it."""
    bare, names = copy(graph), {field.name for field in fields(graph)}
    for name in set(vars(bare)) - names:
        del vars(bare)[name]
    return bare


def graph_bytes(graph: Graph) -> int:
    """Return what the workers of a machine share of a graph: edges, and features.

    Features in a mapped file are left out: their pages come and go.

    Parameters
    ----------
    graph
        The graph.
    """
    matrices = [graph.adj] if graph.directed is None else [graph.adj, graph.directed]
    total = sum(map(_matrix_bytes, matrices))
    if isinstance(graph.x, np.memmap):
        return total
    if isinstance(graph.x, np.ndarray):
        return total + graph.x.nbytes
    return total + _matrix_bytes(graph.x)


def _matrix_bytes(matrix: CSR) -> int:
    return int(sum(a.nbytes for a in (matrix.data, matrix.indices, matrix.indptr)))


@contextmanager
def at_work() -> Iterator[None]:
    """Do a task in a process that is for nothing else: one thread, no warnings."""
    import torch

    from h2gcn.sparse import tune_allocator

    torch.set_num_threads(1)
    tune_allocator()
    try:
        with warnings.catch_warnings():
            # Whoever has the graph open to begin with has seen them.
            warnings.simplefilter("ignore")
            yield
    finally:
        for graph in _OPEN.values():
            let_go(graph.x)


def let_go(array: Any) -> None:
    """Count pages of a mapped file no longer as memory of this process.

    They stay in the system's, and come back when they are looked at.

    Parameters
    ----------
    array
        Of a mapped file, or anything else, which is left alone.
    """
    while array is not None and not isinstance(array, mmap):
        array = getattr(array, "_mmap", None) or getattr(array, "base", None)
    if array is not None and hasattr(mmap_module, "MADV_DONTNEED"):
        array.madvise(mmap_module.MADV_DONTNEED)
