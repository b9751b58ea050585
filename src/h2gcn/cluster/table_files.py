"""The ring table of all nodes in files, for predictions: written once, read in blocks.

A prediction of every node wants every row of the table, which may be far larger than
the memory of a worker. So tasks write it: first who is in each ring, some nodes a task;
then some columns of all blocks, through the whole graph, a task. Whoever predicts a
block of nodes reads its rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes
from h2gcn.cluster.table import ENTRY
from h2gcn.estimator import (
    Drawn,
    NodeClassifier,
    Scaler,
    scaled_pieces,
    scaling_key,
    table_maker,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, Graph, slices
from h2gcn.io import ArrayFile, atomic_write, cannot_write
from h2gcn.models import find_model
from h2gcn.ring_table import (
    Blocks,
    Made,
    RingRows,
    computed_blocks,
    far_rings,
    is_one_step,
)
from h2gcn.rings import forecast_rings

__all__ = ["FOLDER", "TableFiles", "plan_table_files"]

FOLDER = "_table"
"""Within that of a prediction; whoever reads parts leaves it out."""
LOT = 2**18
"""Nodes of a lot."""
EIGHT = 8
"""Columns of a slice, at least, and their number is a multiple of it."""
MANY = 65_536
"""Nodes of a graph from which on a table is written."""
SHARE = 0.25
"""Of all nodes, which must be asked for."""


@dataclass(frozen=True)
class Columns:
    """Blocks that are made of the same features, for all models that take these.

    Parameters
    ----------
    scaler, names
        How features are scaled, and which they are.
    drawn
        How rings are drawn.
    blocks
        Names of blocks, and how many columns each has.
    rings
        Beyond the first, which are looked at, and whether they are only counted.
    """

    scaler: Scaler
    names: tuple[str, ...]
    drawn: Drawn
    blocks: tuple[tuple[str, int], ...]
    rings: tuple[tuple[str, bool], ...]

    @cached_property
    def key(self) -> object:
        """What tells them apart from those of other features."""
        return scaling_key(self.scaler, self.names), self.drawn


def _rings(made: Sequence[Columns]) -> Iterator[tuple[Drawn, str, bool]]:
    """Return each ring that some blocks need once, and whether it is only counted."""
    counted: dict[tuple[Drawn, str], bool] = {}
    for columns in made:
        for ring, only in columns.rings:
            key = columns.drawn, ring
            counted[key] = counted.get(key, True) and only
    for (drawn, ring), only in counted.items():
        yield drawn, ring, only


@dataclass(frozen=True)
class TableFiles:
    """A table of all nodes of a graph, as files of a folder.

    Parameters
    ----------
    folder
        Where they are; all machines see it under this name.
    n_nodes
        Of the graph.
    width
        Columns of a slice, at most.
    made
        The blocks.
    lot
        Nodes whose rings are in one file, and whose rows are made together.
    """

    folder: str
    n_nodes: int
    width: int
    made: tuple[Columns, ...]
    lot: int

    def write(
        self,
        cluster: Cluster,
        shared: SharedGraph,
        on_file: Callable[[int, int], None] | None = None,
    ) -> None:
        """Have workers write what is not there.

        Parameters
        ----------
        cluster
            Whose workers.
        shared
            The graph.
        on_file
            Called after each task, with how many are done and how many there are.
        """
        try:
            Path(self.folder).mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(Path(self.folder), error) from None
        files = cluster.put(self)
        rings = [
            (files, shared, *ring, lot)
            for ring in _rings(self.made)
            for lot in range(len(self._lots))
            if not self._lot_file(*ring[:2], lot, "sizes").exists()
        ]
        cuts = [
            (files, shared, number, cut)
            for number, columns in enumerate(self.made)
            for cut in slices(len(columns.names), self.width)
            if not all(
                self._slice_file(number, block, cut).exists()
                for block, _ in columns.blocks
            )
        ]
        done, total = 0, len(rings) + len(cuts)
        for task, given in ((write_lot, rings), (write_slice, cuts)):
            for _ in cluster.each(task, given, "table in files"):
                done += 1
                if on_file is not None:
                    on_file(done, total)

    def rows(self, nodes: NDArray[np.int64]) -> RowsOfFiles:
        """Return what reads the rows of some nodes: a `MakesBlocks`."""
        return RowsOfFiles(self, nodes)

    # ------------------------------------------------------------------------- rings

    @property
    def _lots(self) -> list[slice]:
        return list(slices(self.n_nodes, self.lot))

    def _lot_file(self, drawn: Drawn, ring: str, lot: int, what: str) -> Path:
        cap, seed = drawn
        way = "all" if cap is None else f"{cap}of{seed}"
        return Path(self.folder) / f"{ring}-{way}-{lot:05d}-{what}.npy"

    def write_ring(self, drawn: Drawn, ring: str, lot: int, found: RingRows) -> None:
        """Write the ring of some nodes; sizes come last, and say that it is there."""
        if found.rows is not None:
            columns = found.rows.indices.astype(np.int32, copy=False)
            _write(self._lot_file(drawn, ring, lot, "columns"), columns)
        _write(self._lot_file(drawn, ring, lot, "sizes"), found.sizes.astype(np.int32))

    def read_ring(
        self, drawn: Drawn, ring: str, nodes: NDArray[np.int64], *, counted: bool
    ) -> RingRows:
        """Return the ring of some nodes, ascending, as it was found."""
        parts = []
        for lot, part in enumerate(self._lots):
            first, last = np.searchsorted(nodes, [part.start, part.stop])
            if first == last:
                continue
            places = nodes[first:last] - part.start
            sizes = _read(self._lot_file(drawn, ring, lot, "sizes")).astype(np.int64)
            if counted:
                parts.append(RingRows(sizes[places]))
                continue
            cap = drawn[0]
            counts = sizes if cap is None else np.minimum(sizes, cap)
            starts = np.concatenate([[0], np.cumsum(counts)])
            file = self._lot_file(drawn, ring, lot, "columns")
            columns = _read(file)
            begin, end = int(places[0]), int(places[-1]) + 1
            columns = np.array(columns[starts[begin] : starts[end]])
            starts, sizes = starts[begin : end + 1] - starts[begin], sizes[begin:end]
            stands_for = np.ones(end - begin, dtype=np.float32)
            if cap is not None:  # as `ring_rows` weights them
                stands_for = (np.maximum(sizes, cap) / cap).astype(np.float32)
            values = np.repeat(stands_for, np.diff(starts))
            rows = CSR((values, columns, starts), shape=(end - begin, self.n_nodes))
            if len(places) < end - begin:
                rows, sizes = CSR(rows[places - begin]), sizes[places - begin]
            parts.append(RingRows(sizes, rows))
        return RingRows.joined(parts)

    # ------------------------------------------------------------------------ blocks

    def _slice_file(self, number: int, block: str, columns: slice) -> Path:
        cut = f"{columns.start:06d}-{columns.stop:06d}"
        return Path(self.folder) / f"{number:03d}-{block}-{cut}.npy"

    def write_columns(self, graph: Graph, number: int, cut: slice) -> None:
        """Write some columns of all blocks that are made of the same features."""
        columns = self.made[number]
        maker, width = table_maker(graph, columns.drawn), cut.stop - cut.start
        pieces = scaled_pieces(graph, columns.scaler, columns.names, cut)
        shape = (graph.n_nodes, width)
        x = np.empty(shape, dtype=np.float32)
        for rows, values in pieces:
            x[rows] = values
        for block, _ in columns.blocks:
            file = self._slice_file(number, block, cut)
            if not is_one_step(block):
                everyone = np.arange(graph.n_nodes)
                _write(file, maker.some_rows(block, width, x, everyone))
                continue
            ring = block.partition(".")[0]
            only = dict(columns.rings)
            with _array(file, shape) as out:
                for lot in self._lots:
                    nodes = np.arange(lot.start, lot.stop)
                    if ring in only:
                        found = self.read_ring(
                            columns.drawn, ring, nodes, counted=False
                        )
                        maker.learn(ring, nodes, found)
                    made = maker.some_rows(block, width, x, nodes)
                    out.append(np.asarray(made))

    def read_blocks(
        self, key: object, blocks: Blocks, nodes: NDArray[np.int64]
    ) -> Mapping[str, Features]:
        """Return the rows of some nodes, ascending, of some blocks, [m, width] each."""
        numbers = [number for number, one in enumerate(self.made) if one.key == key]
        (number,) = numbers
        begin, end = int(nodes[0]), int(nodes[-1]) + 1
        found: dict[str, Features] = {}
        for block, width in blocks:
            rows = np.empty((len(nodes), width), dtype=np.float32)
            for cut in slices(width, self.width):
                file = self._slice_file(number, block, cut)
                part = _read(file)[begin:end]
                rows[:, cut] = part if len(part) == len(nodes) else part[nodes - begin]
            found[block] = rows
        return found


@dataclass(frozen=True)
class RowsOfFiles:
    """Reads rows of some nodes from the files of a table: a `MakesBlocks`.

    Parameters
    ----------
    files
        The table.
    nodes
        Whose rows, ascending, at least one, [m].
    """

    files: TableFiles
    nodes: NDArray[np.int64]

    def of(
        self, scaler: Scaler, names: tuple[str, ...], drawn: Drawn
    ) -> ColumnsOfFiles:
        """Return what reads rows of these features, so drawn."""
        return ColumnsOfFiles(self, (scaling_key(scaler, names), drawn), drawn)


@dataclass(frozen=True)
class ColumnsOfFiles:
    """Reads rows that are made of the same features: a `MakesRows`.

    Parameters
    ----------
    of
        Whose rows.
    key
        Of the features.
    drawn
        How rings are drawn.
    """

    of: RowsOfFiles
    key: object
    drawn: Drawn

    def rows(self, blocks: Blocks, rings: Mapping[str, bool]) -> Made:
        """Return rows of blocks and of rings; see `MakesRows`."""
        files, nodes = self.of.files, self.of.nodes
        found = {
            name: files.read_ring(self.drawn, name, nodes, counted=counted)
            for name, counted in rings.items()
        }
        made = files.read_blocks(self.key, blocks, nodes) if blocks else {}
        return made, found


@contextmanager
def _array(file: Path, shape: tuple[int, ...]) -> Iterator[ArrayFile]:
    """Yield a `.npy` file that is written piece by piece, and is there at the end."""
    with atomic_write(file) as beside, ArrayFile(beside, np.float32, shape) as out:
        yield out


def _write(file: Path, values: Any) -> None:
    with atomic_write(file) as beside, beside.open("wb") as stream:
        np.save(stream, values)


def _read(file: Path) -> NDArray[Any]:
    """Return an array of a file, mapped."""
    try:
        found: NDArray[Any] = np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        raise InputError(
            f"{file}: not as a worker wrote it; without the folder "
            f"{file.parent.name} the same command makes all of it anew"
        ) from None
    return found


# ---------------------------------------------------------------------------- the tasks


def write_lot(
    files: TableFiles,
    shared: SharedGraph,
    drawn: Drawn,
    ring: str,
    counted: bool,
    lot: int,
) -> None:
    """Find the ring of some nodes and write it: the task of a worker."""
    with at_work():
        part = list(slices(files.n_nodes, files.lot))[lot]
        nodes = np.arange(part.start, part.stop)
        maker = table_maker(shared.open(), drawn)
        found = maker.find_rows(ring, nodes, counted=counted)
        files.write_ring(drawn, ring, lot, found)


def write_slice(
    files: TableFiles, shared: SharedGraph, number: int, cut: slice
) -> None:
    """Write some columns of all blocks of the same features: the task of a worker."""
    with at_work():
        files.write_columns(shared.open(), number, cut)


# --------------------------------------------------------------------- whether it is so


def plan_table_files(
    cluster: Cluster,
    classifier: NodeClassifier,
    graph: Graph,
    nodes: NDArray[np.int64],
    folder: Path,
    memory_limit: float | None = None,
) -> TableFiles | None:
    """Return the table that a prediction is best made from; None where none is.

    It is for many nodes of a large graph with dense features, and for models that see
    nothing but rows of the table; and where the disk has room for it and workers have
    memory for a slice.

    Parameters
    ----------
    cluster, classifier, graph, memory_limit
        As of `predict_parts`.
    nodes
        That are predicted.
    folder
        Of the prediction.
    """
    fitted = [one.classifier for one in classifier.members_] or [classifier]
    if graph.n_nodes < MANY or len(nodes) < SHARE * graph.n_nodes:
        return None
    if not isinstance(graph.x, np.ndarray):
        return None
    if not all(find_model(one.params_["model"]).sees_rows_alone for one in fitted):
        return None
    made = tuple(_columns(fitted))
    if not any(columns.blocks for columns in made):
        return None
    widest = max(len(columns.names) for columns in made)
    share = -(-widest // max(cluster.workers, 1))
    width = -(-share // EIGHT) * EIGHT
    entries = _ring_entries(made, graph)
    while not _fits(cluster, graph, width, max(entries, default=0), memory_limit):
        if width <= EIGHT:
            return None
        width = max(width // 2 // EIGHT * EIGHT, EIGHT)
    place = str((folder / FOLDER).absolute())
    files = TableFiles(place, graph.n_nodes, width, made, LOT)
    there = sum(file.stat().st_size for file in Path(files.folder).glob("*.npy"))
    free = shutil.disk_usage(folder.absolute().parent).free
    needed = 4 * (sum(entries) + graph.n_nodes * len(entries))
    needed += sum(4 * graph.n_nodes * width for one in made for _, width in one.blocks)
    return None if needed - there > free else files


def _columns(fitted: Sequence[NodeClassifier]) -> Iterator[Columns]:
    """Return the blocks of some models, those of the same features together."""
    found: dict[object, Columns] = {}
    for one in fitted:
        schema = one.schema_
        assert schema is not None
        drawn = one.params_["ring_cap"], one.seed_
        pairs = zip(schema.blocks, schema.widths, strict=True)
        blocks = {pair: None for pair in pairs if pair[0] in computed_blocks(schema)}
        made = Columns(
            one.scaler_,
            one.feature_names_in_,
            drawn,
            tuple(blocks),
            tuple(far_rings(schema.blocks).items()),
        )
        before = found.get(made.key)
        if before is not None:
            rings = dict(before.rings)
            for ring, only in made.rings:
                rings[ring] = rings.get(ring, True) and only
            both = tuple(dict.fromkeys([*before.blocks, *made.blocks]))
            made = Columns(
                made.scaler, made.names, made.drawn, both, tuple(rings.items())
            )
        found[made.key] = made
    yield from found.values()


def _fits(
    cluster: Cluster, graph: Graph, width: int, entries: int, memory_limit: float | None
) -> bool:
    """Return whether each worker has memory for a slice, and for a lot of rings.

    Parameters
    ----------
    cluster, graph, memory_limit
        As of `plan_table_files`.
    width
        Columns of the slice.
    entries
        Of the largest ring of all nodes.
    """
    n = graph.n_nodes
    lot = ENTRY * entries * min(LOT, n) // n
    # Beside the slice: what comes of a lot of rows, or a step of a walk.
    each = 4 * width * (2 * n + 2 * LOT) + 20 * n + lot
    try:
        workers_that_fit(
            cluster.machines, "a slice", graph_bytes(graph), each, memory_limit
        )
    except InputError:
        return False
    return True


def _ring_entries(made: Sequence[Columns], graph: Graph) -> list[int]:
    """Return about how many entries are written of each ring, 0 where it is counted."""
    found = []
    for (cap, _), ring, only in _rings(made):
        far = 0 if only else forecast_rings(graph.adj, hops=int(ring[-1])).entries[-1]
        found.append(far if cap is None else min(far, graph.n_nodes * cap))
    return found
