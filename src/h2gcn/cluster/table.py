"""The feature table over workers: each builds the rows of a lot of nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes, share_graph
from h2gcn.estimator import (
    Drawn,
    Scaler,
    SomeFeatures,
    feature_builder,
    scaling_key,
    tables_by,
)
from h2gcn.features import TableSchema, farthest_ring, walk_extent
from h2gcn.graph import CSR, Features, Graph
from h2gcn.rings import forecast_rings
from h2gcn.training import row_bounds

__all__ = ["TableOverWorkers", "share_table"]

RING_ENTRY_BYTES = 12  # while a ring is found, and while a block is made of it
LOTS_PER_WORKER = 3  # so that none waits long for the last
MIN_LOT_NODES = 1024

Index = NDArray[np.int64]
Common = tuple[SharedGraph, Drawn, Scaler, tuple[str, ...], TableSchema, Index | None]


class TableOverWorkers:
    """Builds rows of a graph's tables by the workers of a cluster, by lots of nodes.

    Blocks of features are kept for the next model; those of labels are built anew. A
    lot whose worker dies is built again.

    Parameters
    ----------
    cluster
        Whose workers.
    graph
        The graph.
    nodes
        Whose rows are built; default all labeled nodes, which a training looks at.
    source
        As of `share_graph`.
    memory_limit
        Gigabytes that a worker may take; default what its machine has free.
    on_lot
        Called after each lot, with how many are done and how many there are.
    """

    def __init__(
        self,
        cluster: Cluster,
        graph: Graph,
        nodes: Index | None = None,
        *,
        source: str | Path | None = None,
        memory_limit: float | None = None,
        on_lot: Callable[[int, int], None] | None = None,
    ) -> None:
        self.nodes = graph.labelled if nodes is None else np.unique(nodes)
        self._cluster, self._limit, self._on_lot = cluster, memory_limit, on_lot
        # Not the graph itself: the tables of a graph are found by a weak key.
        self._adj, self._bytes = graph.adj, graph_bytes(graph)
        self._shared = share_graph(cluster, graph, source)
        self._kept: dict[Hashable, Features] = {}
        self.task = build_lot

    def table(
        self,
        schema: TableSchema,
        scaler: Scaler,
        names: tuple[str, ...],
        drawn: Drawn,
        classes: Index | None,
    ) -> Mapping[str, Features]:
        """Return the rows of each block, [m, width].

        Parameters
        ----------
        schema
            The blocks.
        scaler, names
            How features are scaled, and which they are.
        drawn
            How rings are sampled.
        classes
            The class of each node whose label is known, else -1, [n].
        """
        features = scaling_key(scaler, names), drawn
        keys = {name: (name, schema.numeric, features) for name in schema.blocks}
        missing = schema.select([b for b in schema.blocks if keys[b] not in self._kept])
        built: dict[str, Features] = {}
        if missing.blocks:
            labels = classes if missing.has_labels else None
            built = self._build((self._shared, drawn, scaler, names, missing, labels))
        for block in missing.parsed:
            if block.kind != "labels":
                self._kept[keys[block.name]] = built[block.name]
        return {
            name: built[name] if name in built else self._kept[keys[name]]
            for name in schema.blocks
        }

    def _build(self, common: Common) -> dict[str, Features]:
        """Have workers build all rows of a schema."""
        lots = self._lots()
        self._check_memory(common, len(lots))
        shared = self._cluster.put(common)
        done = self._cluster.each(
            self.task, [(shared, nodes) for nodes in lots], "part of a table"
        )
        parts: list[dict[str, Features]] = [{}] * len(lots)
        for count, (number, rows) in enumerate(done, 1):
            parts[number] = rows
            if self._on_lot is not None:
                self._on_lot(count, len(lots))
        return {name: _stack([part[name] for part in parts]) for name in parts[0]}

    def _lots(self) -> list[Index]:
        """Return the nodes of each lot, about as many walks of two steps in each."""
        count = LOTS_PER_WORKER * self._cluster.workers
        count = min(count, max(1, len(self.nodes) // MIN_LOT_NODES))
        walks = self._adj @ np.diff(self._adj.indptr).astype(np.float64)
        bounds = row_bounds(walks[self.nodes] + 1, count)
        lots = [self.nodes[a:b] for a, b in pairwise(bounds) if a < b]
        return lots or [self.nodes]

    def _check_memory(self, common: Common, lots: int) -> None:
        """Raise where a worker has no room for a lot: its rings and its features."""
        _, (cap, _), _, names, schema, _ = common
        n, m = self._adj.shape[0], len(self.nodes)
        hop, entries = farthest_ring(schema.blocks), self._adj.nnz
        if hop > 1:
            entries = forecast_rings(self._adj, hops=hop).entries[-1]
            entries = min(entries, n * (n if cap is None else cap))
        near = m if walk_extent(schema)[0] == 0 else min(n * lots, m + entries * m // n)
        widths = zip(schema.blocks, schema.widths, strict=True)
        columns = sum(w for b, w in widths if not b.startswith("adjacency"))
        each = RING_ENTRY_BYTES * (n + entries * m // max(n, 1) // lots)
        each += 4 * (len(names) * 2 * near + columns * m) // lots
        what = f"a table of {m:,} nodes"
        workers_that_fit(self._cluster.machines, what, self._bytes, each, self._limit)


def _stack(parts: list[Features]) -> Features:
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts):
        return np.concatenate(dense)
    return CSR(sp.vstack(list(map(CSR, parts)), format="csr"))


def build_lot(common: Common, nodes: Index) -> dict[str, Features]:
    """Return the rows of each block for some nodes: the task of a worker."""
    shared, drawn, scaler, names, schema, classes = common
    with at_work():
        graph = shared.open()
        x = SomeFeatures(graph, scaler, names, torch.device("cpu"))
        table = feature_builder(graph, drawn).table(schema, x, classes, nodes)
        return table.arrays()


@contextmanager
def share_table(
    cluster: Cluster,
    graph: Graph,
    nodes: Index | None = None,
    *,
    source: str | Path | None = None,
    memory_limit: float | None = None,
    on_lot: Callable[[int, int], None] | None = None,
) -> Iterator[TableOverWorkers]:
    """Have every fit on a graph take its feature table from the workers of a cluster.

    It is for models that see nothing but a node's row of the table; others are fitted
    as ever. `with Cluster("local:2") as c, share_table(c, graph): clf.fit(graph)`.

    Parameters
    ----------
    cluster, graph, nodes, source, memory_limit, on_lot
        As of `TableOverWorkers`.
    """
    builds = TableOverWorkers(
        cluster, graph, nodes, source=source, memory_limit=memory_limit, on_lot=on_lot
    )
    with tables_by(graph, builds):
        yield builds
