"""The ring table by slices of columns: each a task, to the bits of one process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes, share_graph
from h2gcn.estimator import Drawn, Scaler, block_rows, tables_by
from h2gcn.graph import CSR, Features, Graph
from h2gcn.ring_table import Blocks, column_slices, farthest_ring
from h2gcn.rings import forecast_ring

__all__ = ["TableOverWorkers", "share_table"]

COPIES = 3
"""Of a slice: as it is scaled, as it is multiplied, and what comes of it."""
ENTRY = 12
"""Bytes for an entry of a ring while a block is made of it."""


class TableOverWorkers:
    """Makes blocks of a graph's tables by the workers of a cluster.

    A task is some columns of a block, cut where one process may cut them: what comes
    back is the same to the last bit, however many workers there are. A slice whose
    worker dies is made again. Sparse features are not cut: a block is a task.

    Parameters
    ----------
    cluster
        Whose workers.
    graph
        The graph.
    nodes
        Whose rows are made, ascending, [m]; None is all labelled nodes, which are what
        a training looks at.
    source
        As of `share_graph`.
    memory_limit
        Gigabytes that a worker may take; None is what its machine has free.
    on_slice
        Called after each slice, with how many are done and how many there are.
    """

    def __init__(
        self,
        cluster: Cluster,
        graph: Graph,
        nodes: NDArray[np.int64] | None = None,
        *,
        source: str | Path | None = None,
        memory_limit: float | None = None,
        on_slice: Callable[[int, int], None] | None = None,
    ) -> None:
        self.nodes = graph.labelled if nodes is None else np.unique(nodes)
        self._cluster, self._limit, self._on_slice = cluster, memory_limit, on_slice
        # Not the graph itself: what keeps makers by graph lets the graph go.
        self._n, self._width = graph.n_nodes, graph.n_features
        self._dense = isinstance(graph.x, np.ndarray)
        self._bytes = graph_bytes(graph)
        self._adj = graph.adj
        self._shared = share_graph(cluster, graph, source)
        self._rows = cluster.put(self.nodes)
        self.task = make_slice

    def __call__(
        self, blocks: Blocks, scaler: Scaler, names: tuple[str, ...], drawn: Drawn
    ) -> Mapping[str, Features]:
        """Return the rows of some blocks, [m, width] each; see `MakesBlocks`."""
        slices = [
            (block, part) for block, width in blocks for part in self._cut(block, width)
        ]
        self._check_memory([block for block, _ in blocks], slices, drawn[0])
        common = self._cluster.put((self._shared, drawn, scaler, names))
        given = [(common, block, part, self._rows) for block, part in slices]
        made: dict[str, dict[int, Features]] = defaultdict(dict)
        done = self._cluster.each(self.task, given, "slice of a table")
        for count, (number, found) in enumerate(done, 1):
            block, part = slices[number]
            made[block][part.start] = found
            if self._on_slice is not None:
                self._on_slice(count, len(slices))
        return {block: _joined(parts) for block, parts in made.items()}

    def _cut(self, block: str, width: int) -> Iterator[slice]:
        if block == "degrees" or not self._dense:
            return iter([slice(0, width)])
        return column_slices(self._n, width)

    def _check_memory(
        self,
        blocks: Sequence[str],
        slices: Sequence[tuple[str, slice]],
        cap: int | None,
    ) -> None:
        """Raise where workers have not the memory for a slice each."""
        widest = max(part.stop - part.start for _, part in slices)
        hops = farthest_ring(blocks)
        entries = 0
        if hops > 1:
            far = forecast_ring(self._adj, hops=hops).entries[1:]
            share = len(self.nodes) / max(self._n, 1)
            most = len(self.nodes) * (self._n if cap is None else cap)
            entries = sum(min(int(size * share), most) for size in far)
        each = 4 * widest * (COPIES * self._n + len(self.nodes)) + ENTRY * entries
        if not self._dense:
            each = max(each, self._bytes)
        what = f"a slice of {widest} columns of the ring table"
        machines = self._cluster.machines
        workers_that_fit(machines, what, self._bytes, each, self._limit)


def make_slice(
    common: tuple[SharedGraph, Drawn, Scaler, tuple[str, ...]],
    block: str,
    columns: slice,
    nodes: NDArray[np.int64],
) -> Features:
    """Return some rows and columns of a block: the task of a worker."""
    shared, drawn, scaler, names = common
    with at_work():
        graph = shared.open()
        return block_rows(graph, drawn, scaler, names, block, columns, nodes)


def _joined(parts: Mapping[int, Features]) -> Features:
    """Return slices side by side; arrays of their own, for Ray's are not written to."""
    found = [parts[start] for start in sorted(parts)]
    dense = [part for part in found if isinstance(part, np.ndarray)]
    if dense:
        return np.concatenate(dense, axis=1)
    matrix = CSR(found[0])
    own = (matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy())
    return CSR(own, shape=matrix.shape)


@contextmanager
def share_table(
    cluster: Cluster,
    graph: Graph,
    nodes: NDArray[np.int64] | None = None,
    *,
    source: str | Path | None = None,
    memory_limit: float | None = None,
    on_slice: Callable[[int, int], None] | None = None,
) -> Iterator[TableOverWorkers]:
    """Have every fit on a graph take its ring table from the workers of a cluster.

    It is for models that see nothing but a node's row of the table; others are fitted
    as ever. `with Cluster("local:2") as c, share_table(c, graph): clf.fit(graph)`.

    Parameters
    ----------
    cluster, graph, nodes, source, memory_limit, on_slice
        As of `TableOverWorkers`.
    """
    makes = TableOverWorkers(
        cluster,
        graph,
        nodes,
        source=source,
        memory_limit=memory_limit,
        on_slice=on_slice,
    )
    with tables_by(graph, makes):
        yield makes
