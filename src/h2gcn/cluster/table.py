"""The ring table by lots of nodes and slices of columns, to the bits of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes, share_graph
from h2gcn.estimator import Drawn, Scaler, block_rows, table_maker, tables_by
from h2gcn.graph import CSR, Features, Graph, slices
from h2gcn.ring_table import Blocks, Made, RingRows, column_slices, far_rings
from h2gcn.rings import forecast_rings
from h2gcn.training import row_bounds

__all__ = ["ENTRY", "TableOverWorkers", "share_table"]

ENTRY = 12
"""Bytes for an entry of a ring while it is found, and while a block is made of it."""
LOTS = 3
"""Of nodes whose rings are found, for each worker: none waits long for the last."""
FEWEST = 1024
"""Nodes of a lot, at least."""
WIDE = 128
"""Columns that a lot takes together, where the features of all nodes are small."""
SMALL = 2**28
"""Bytes of so many columns of all nodes, at most."""

Common = tuple[SharedGraph, Drawn, Scaler, tuple[str, ...]]
"""What all tasks of a table are told."""


@dataclass(frozen=True)
class Slice:
    """Some columns of a block, for all nodes."""

    block: str
    columns: slice


@dataclass(frozen=True)
class Lot:
    """Some nodes, whose ring is found, and rows of blocks made of it.

    Parameters
    ----------
    ring
        The ring, beyond the first.
    rows
        Which of the nodes.
    told
        What the program hears of it: the "rows", or their "sizes"; else it asks for
        blocks alone.
    cuts
        The columns of each block that are made together.
    """

    ring: str
    rows: slice
    told: str
    cuts: tuple[Slice, ...]


class TableOverWorkers:
    """Makes blocks of a graph's tables by the workers of a cluster.

    What is made of a ring beyond the first goes by lots of nodes: a task finds who is
    in their rings, and makes their rows. All else goes by columns, some of a block a
    task, cut where one process may cut them. What comes back is the same to the last
    bit, however many workers there are, and what a worker was at that dies is made
    again. Sparse features are not cut: a block is a task.

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
        Called after each task, with how many are done and how many there are.
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
        self.task = make_part

    def of(self, scaler: Scaler, names: tuple[str, ...], drawn: Drawn) -> RowsOver:
        """Return what makes rows, of these features and so drawn."""
        return RowsOver(self, scaler, names, drawn)

    def rows(
        self,
        blocks: Blocks,
        rings: Mapping[str, bool],
        scaler: Scaler,
        names: tuple[str, ...],
        drawn: Drawn,
    ) -> Made:
        """Return rows of blocks, and of rings; see `MakesRows`."""
        parts = self._parts(blocks, rings, drawn[0])
        common = self._cluster.put((self._shared, drawn, scaler, names))
        given = [(common, self._rows, part) for part in parts]
        done = self._cluster.each(self.task, given, "part of a table")
        made: dict[str, Features] = {}
        found: dict[str, dict[int, RingRows]] = {ring: {} for ring in rings}
        widths = dict(blocks)
        for count, (number, (pieces, ring)) in enumerate(done, 1):
            part = parts[number]
            for cut, values in pieces:
                rows = part.rows if isinstance(part, Lot) else slice(None)
                self._keep(made, widths[cut.block], cut, rows, values)
            if isinstance(part, Lot) and ring is not None:
                found[part.ring][number] = ring
            if self._on_slice is not None:
                self._on_slice(count, len(parts))
        told = {
            name: RingRows.joined([lots[number] for number in sorted(lots)])
            for name, lots in found.items()
        }
        return made, told

    def _keep(
        self,
        made: dict[str, Features],
        width: int,
        cut: Slice,
        rows: slice,
        values: Features,
    ) -> None:
        """Put what a worker made where it belongs: Ray's arrays are not written to."""
        if not isinstance(values, np.ndarray):
            matrix = CSR(values)
            own = (matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy())
            made[cut.block] = CSR(own, shape=matrix.shape)
            return
        if cut.block not in made:
            made[cut.block] = np.empty((len(self.nodes), width), dtype=values.dtype)
        whole = made[cut.block]
        assert isinstance(whole, np.ndarray)
        whole[rows, cut.columns] = values

    def _parts(
        self, blocks: Blocks, rings: Mapping[str, bool], cap: int | None
    ) -> list[Lot | Slice]:
        """Return the tasks, the shortest last, and check that workers can do them."""
        of_rings: dict[str, list[Slice]] = {ring: [] for ring in rings}
        others: list[Slice] = []
        for block, width in blocks:
            far = far_rings([block]) if self._dense else {}
            for ring in far:
                of_rings.setdefault(ring, []).extend(self._cut(block, width, WIDE))
            if not far:
                others += self._cut(block, width)
        lots = self._lots() if of_rings else []
        entries = [
            self._check_ring(ring, cap, rings.get(ring), bool(cuts), len(lots))
            for ring, cuts in of_rings.items()
        ]
        cuts = [cut for of_one in of_rings.values() for cut in of_one]
        self._check_columns([*cuts, *others], max(entries, default=0))
        told = {True: "sizes", False: "rows", None: ""}
        return [
            *others,
            *(
                Lot(ring, rows, told[rings.get(ring)], tuple(cuts))
                for ring, cuts in of_rings.items()
                for rows in lots
            ),
        ]

    def _cut(self, block: str, width: int, together: int = 0) -> list[Slice]:
        """Return how the columns of a block are cut: so many together, if they fit."""
        if not self._dense:
            return [Slice(block, slice(0, width))]
        cuts = column_slices(width)
        if together and 4 * together * self._n <= SMALL:
            cuts = slices(width, together)
        return [Slice(block, columns) for columns in cuts]

    def _lots(self) -> list[slice]:
        """Return the nodes of each lot, about as many walks of two steps in each."""
        m = len(self.nodes)
        count = min(LOTS * self._cluster.workers, max(1, m // FEWEST))
        walks = self._adj @ np.diff(self._adj.indptr).astype(np.float64)
        bounds = row_bounds(walks[self.nodes] + 1, count)
        return [slice(*pair) for pair in pairwise(bounds) if pair[0] < pair[1] or not m]

    def _check_ring(
        self,
        ring: str,
        cap: int | None,
        counted: bool | None,
        blocks: bool,
        lots: int,
    ) -> int:
        """Return the bytes of a lot's ring; raise where workers have no room for it."""
        entries, hop, m = 0, int(ring[-1]), len(self.nodes)
        if blocks or counted is False:
            far = forecast_rings(self._adj, hops=hop).entries[-1]
            entries = int(far * m / max(self._n, 1))
            entries = min(entries, m * (self._n if cap is None else cap))
        shared = self._bytes + (ENTRY * entries if counted is False else 0)
        each = ENTRY * (self._n + entries // lots)
        self._check(f"ring {hop} of {m:,} nodes", shared, each)
        return ENTRY * entries // lots

    def _check_columns(self, cuts: Sequence[Slice], ring: int) -> None:
        """Raise where workers have no room for the columns that are made together."""
        if not cuts:
            return
        widest = max(cut.columns.stop - cut.columns.start for cut in cuts)
        each = 4 * widest * (self._n + 2 * len(self.nodes)) + ring
        if not self._dense:
            each = max(each, self._bytes)
        self._check(f"a slice of {widest} columns of the ring table", self._bytes, each)

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

    def rows(self, blocks: Blocks, rings: Mapping[str, bool]) -> Made:
        """Return rows of blocks and of rings; see `MakesRows`."""
        return self.over.rows(blocks, rings, self.scaler, self.names, self.drawn)


def make_part(
    common: Common, nodes: NDArray[np.int64], part: Lot | Slice
) -> tuple[list[tuple[Slice, Features]], RingRows | None]:
    """Return rows of blocks and of a ring: the task of a worker.

    Parameters
    ----------
    common
        The graph, and as of `block_rows`.
    nodes
        Whose table it is, [m].
    part
        What of it is made.
    """
    shared, drawn, scaler, names = common
    with at_work():
        graph = shared.open()

        def made(cut: Slice, of: NDArray[np.int64]) -> tuple[Slice, Features]:
            given = graph, drawn, scaler, names, cut.block, cut.columns
            return cut, block_rows(*given, of)

        if isinstance(part, Slice):
            return [made(part, nodes)], None
        of, maker = nodes[part.rows], table_maker(graph, drawn)
        counted = part.told == "sizes" and not part.cuts
        found = maker.find_rows(part.ring, of, counted=counted)
        maker.learn(part.ring, of, found)
        pieces = [made(cut, of) for cut in part.cuts]
        told = {"rows": found, "sizes": RingRows(found.sizes)}
        return pieces, told.get(part.told)


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
