"""The ring table by lots of nodes and slices of columns, to the bits of one process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes, share_graph
from h2gcn.estimator import Drawn, Scaler, block_rows, table_maker, tables_by
from h2gcn.graph import CSR, Features, Graph, slices
from h2gcn.ring_table import Blocks, RingRows, column_slices
from h2gcn.rings import forecast_ring
from h2gcn.sparse import sums_by_column

__all__ = ["TableOverWorkers", "share_table"]

ENTRY = 12
"""Bytes for an entry of a ring while a block is made of it."""
LOTS = 4
"""Of nodes whose rings are found, for each worker: hubs are not with all of them."""
FEWEST = 1024
"""Nodes of a lot, at least."""


class TableOverWorkers:
    """Makes blocks of a graph's tables by the workers of a cluster.

    First who is in the rings of the nodes, some nodes a task; then the blocks, some
    columns of one a task, cut where one process may cut them. What comes back is the
    same to the last bit, however many workers there are, and what a worker was at that
    dies is made again. Sparse features are not cut: a block is a task.

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
        self._n = graph.n_nodes
        self._dense = isinstance(graph.x, np.ndarray)
        self._bytes = graph_bytes(graph)
        self._adj = graph.adj
        self._shared = share_graph(cluster, graph, source)
        self._rows = cluster.put(self.nodes)
        self._rings: dict[tuple[str, Drawn], tuple[RingRows, Any]] = {}
        self.task = make_slice

    def of(self, scaler: Scaler, names: tuple[str, ...], drawn: Drawn) -> RowsOver:
        """Return what makes rows, of these features and so drawn."""
        return RowsOver(self, scaler, names, drawn)

    def ring(self, name: str, drawn: Drawn, *, counted: bool) -> RingRows:
        """Return who is in a ring of each node; see `MakesRows`."""
        kept = self._rings.get((name, drawn))
        if kept is not None and (counted or kept[0].rows is not None):
            return kept[0]
        self._check_ring(int(name[-1]), drawn[0], counted)
        size = -(-len(self.nodes) // (LOTS * self._cluster.workers))
        lots = list(slices(len(self.nodes), max(size, FEWEST)))
        given = [(self._shared, drawn, name, self.nodes[lot], counted) for lot in lots]
        done = dict(self._cluster.each(find_lot, given, "ring of some nodes"))
        none = RingRows(np.zeros(0, dtype=np.int64))
        parts = [done[number] for number in range(len(lots))]
        found = RingRows.joined(parts) if parts else none
        self._rings[name, drawn] = found, self._cluster.put(found)
        return found

    def blocks(
        self, blocks: Blocks, scaler: Scaler, names: tuple[str, ...], drawn: Drawn
    ) -> Mapping[str, Features]:
        """Return the rows of some blocks, [m, width] each; see `MakesRows`."""
        cuts = [(block, part) for block, width in blocks for part in self._cut(width)]
        self._check_slices(cuts)
        common = self._cluster.put((self._shared, drawn, scaler, names))
        given = [
            (common, block, part, self._rows, *self._handed(block, drawn))
            for block, part in cuts
        ]
        made: dict[str, dict[int, Features]] = defaultdict(dict)
        done = self._cluster.each(self.task, given, "slice of a table")
        for count, (number, found) in enumerate(done, 1):
            block, part = cuts[number]
            made[block][part.start] = found
            if self._on_slice is not None:
                self._on_slice(count, len(cuts))
        return {block: _joined(parts) for block, parts in made.items()}

    def _handed(self, block: str, drawn: Drawn) -> tuple[str, Any]:
        """Return the ring that a block is made of, and where a worker has it from."""
        name = block.partition(".")[0]
        return name, self._rings.get((name, drawn), (None, None))[1]

    def _cut(self, width: int) -> Iterator[slice]:
        if not self._dense:
            return iter([slice(0, width)])
        return column_slices(self._n, width)

    def _check_ring(self, hop: int, cap: int | None, counted: bool) -> None:
        """Raise where workers have not the memory for a lot of rings each."""
        entries = 0
        if not counted:
            far = forecast_ring(self._adj, hops=hop).entries[-1]
            entries = int(far * len(self.nodes) / max(self._n, 1))
            entries = min(entries, len(self.nodes) * (self._n if cap is None else cap))
        each = 12 * self._n + ENTRY * entries // (LOTS * self._cluster.workers)
        what = f"ring {hop} of {len(self.nodes):,} nodes"
        self._check(what, self._bytes + ENTRY * entries, each)

    def _check_slices(self, cuts: Sequence[tuple[str, slice]]) -> None:
        """Raise where workers have not the memory for a slice each."""
        widest = max(part.stop - part.start for _, part in cuts)
        rings = [found.rows for found, _ in self._rings.values()]
        entries = sum(rows.nnz for rows in rings if rows is not None)
        copies = 1 if sums_by_column(self._n, widest) else 3
        each = 4 * widest * (copies * self._n + 2 * len(self.nodes)) + ENTRY * entries
        if not self._dense:
            each = max(each, self._bytes)
        shared = self._bytes + ENTRY * entries
        self._check(f"a slice of {widest} columns of the ring table", shared, each)

    def _check(self, what: str, shared: int, each: int) -> None:
        machines = self._cluster.machines
        workers_that_fit(machines, what, shared, each, self._limit)


@dataclass(frozen=True)
class RowsOver:
    """Makes rows of a table of some features by workers: a `MakesRows`.

    Parameters
    ----------
    over
        Whose workers, and nodes.
    scaler, names, drawn
        As of `block_rows`.
    """

    over: TableOverWorkers
    scaler: Scaler
    names: tuple[str, ...]
    drawn: Drawn

    def blocks(self, blocks: Blocks) -> Mapping[str, Features]:
        """Return rows of blocks that are made of the features of others, [m, width]."""
        return self.over.blocks(blocks, self.scaler, self.names, self.drawn)

    def ring(self, name: str, *, counted: bool) -> RingRows:
        """Return rows of a ring beyond the first, or how many are in it alone."""
        return self.over.ring(name, self.drawn, counted=counted)


def find_lot(
    shared: SharedGraph,
    drawn: Drawn,
    ring: str,
    nodes: NDArray[np.int64],
    counted: bool,
) -> RingRows:
    """Return the rings of some nodes: the task of a worker."""
    with at_work():
        maker = table_maker(shared.open(), drawn)
        return maker.find_rows(ring, nodes, counted=counted)


def make_slice(
    common: tuple[SharedGraph, Drawn, Scaler, tuple[str, ...]],
    block: str,
    columns: slice,
    nodes: NDArray[np.int64],
    ring: str,
    found: RingRows | None,
) -> Features:
    """Return some rows and columns of a block: the task of a worker.

    Ray brings the rows of the ring, if the block is made of one, while the worker is
    still at another task.
    """
    shared, drawn, scaler, names = common
    with at_work():
        graph = shared.open()
        if found is not None:
            table_maker(graph, drawn).learn(ring, nodes, found)
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
