"""Tables in many files as a graph store, in less memory than the graph has.

Of the node table, some columns are in memory at a time, whole; of the edge table, some
rows. So the memory that is needed grows with the number of nodes, by about a hundred
bytes each, and neither with the features nor with the edges. Columns mean the same as
where a graph is read, and are read by the same functions.

**What is done is kept.** There are four stages (ids and labels, features, edges, the
adjacency matrix), and each notes in `conversion.json` that it is done, with what it was
made of and the checksums of what it wrote. A conversion that was killed begins with the
first stage that is not done, or whose tables or options are others now.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import (
    CSR,
    ReadRecord,
    check_edge_weight,
    first_beyond,
    row_slices,
    slices,
    structural_features,
    unchecked_edges,
)
from h2gcn.io.files import (
    check_folder,
    conform,
    locked,
    new_folder,
    parse_json,
    read_own,
    usable_path,
    write_whole,
)
from h2gcn.io.graph_parts import WIDEST, doubtful_labels, worth_sparse
from h2gcn.io.mistakes import Mistakes, excerpt, listed
from h2gcn.io.store import (
    ARRAYS,
    MANIFEST,
    STATE,
    ArrayFile,
    ArraySlices,
    StoredArray,
    StoredEdges,
    checksum,
    clear_store,
    mapped_matrix,
    recover_store,
    stored_array,
    write_manifest,
)
from h2gcn.io.tables.columns import (
    INDEX,
    Roles,
    TableFile,
    TableOptions,
    as_text,
    choose_ends,
    choose_roles,
    ids_as_written,
    other_columns,
)
from h2gcn.io.tables.edges import (
    Carried,
    Wanted,
    choose_columns,
    read_columns,
    time_column,
    undated_note,
)
from h2gcn.io.tables.features import (
    Filler,
    check_feature_names,
    doubtful_columns,
    map_features,
    missing_notes,
    numeric_columns,
    one_hot,
    read_numbers,
)
from h2gcn.io.tables.numbering import (
    Numbering,
    as_integers,
    first_text_twice,
    first_twice,
    number_ids,
)
from h2gcn.io.tables.pairs import FILES, WORK, write_adjacency
from h2gcn.io.tables.parts import PartedTable, kind_word, open_parts
from h2gcn.io.tables.reading import (
    NodePart,
    check_times_agree,
    read_labels,
    single_names,
    without_features,
)
from h2gcn.io.tables.times import Times, date_features, parse_times
from h2gcn.sparse import available_memory, format_bytes, limit_memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Conversion", "Progress", "check_new_store", "convert_tables"]

Table = TableFile | PartedTable
Progress = Callable[[str, int, int], None]
"""Called with what is done now, how far it is, and of how much."""

STATE_FORMAT = "h2gcn conversion"
SCRATCH = "h2gcn-scratch"  # no user's folder has this name: it is removed
"""The folder inside a store for what is needed only while it is written."""
SHARE = 0.75
"""The part of the memory that is planned for: libraries keep some that they freed."""
PER_NODE, PER_TEXT = 64, 160
"""Bytes that a node takes at least while ids are looked up: of numbers, of text."""
LEAST = 2**27
"""Bytes to work with, at least."""
ROWS, FEW_ROWS = 2**23, 2**17
"""Rows of an edge table that are looked at together, at most and at least."""
PER_ROW = 160
"""Bytes that such a row takes."""
SAMPLE = 2**16
"""Bytes of a text file by which its rows are counted, about."""
LOOKED = 2**20
"""Rows by which it is told whether numbers may be none."""
PER_DATE = 5
"""Features that are made of a date."""
_OF_EDGES = (
    *("source_column", "target_column", "drop_unknown", "undirected", "fill_missing"),
    *("edge_features", "edge_categorical", "edge_fill_values", "edge_weight"),
    "edge_time_column",
)
"""The options that the edge table is read by."""


class StageDone(msgspec.Struct, frozen=True):
    """A stage that is done.

    Parameters
    ----------
    made_of
        What it depends on, see `_Plan.made_of`.
    files
        What it wrote.
    told
        What the stages after it need to know.
    """

    made_of: str
    files: dict[str, StoredArray]
    told: dict[str, Any]


@dataclass(frozen=True)
class Conversion:
    """What was built.

    Parameters
    ----------
    folder
        The store.
    nodes, edges, features, classes, labelled
        How many there are.
    bytes
        On disk.
    seconds
        That it took.
    record
        What was merged, symmetrised and dropped.
    resumed
        Stages that were done before.
    """

    folder: Path
    nodes: int
    edges: int
    features: int
    classes: int
    labelled: int
    bytes: int
    seconds: float
    record: ReadRecord
    resumed: tuple[str, ...] = ()


def convert_tables(
    nodes: str | Path,
    edges: str | Path,
    folder: str | Path,
    options: TableOptions | None = None,
    *,
    features: str | Path | None = None,
    memory_limit: float | None = None,
    scratch: str | Path | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Build a graph store of a node table and an edge table of any size.

    Parameters
    ----------
    nodes, edges
        Each a file, a folder of files, a pattern such as `edges/*.parquet`, or several
        of these with commas between them; CSV, TSV or Parquet.
    folder
        Where the store goes: a folder that is not there yet, or is empty, or holds a
        conversion of the same tables that was not finished.
    options
        Which columns mean what; see `TableOptions`.
    features
        A `.npy` file that replaces the feature columns of the node table.
    memory_limit
        Gigabytes that the program may use; None: half of what is free.
    scratch
        A folder for what is needed only meanwhile; None: in the store's.
    progress
        Called again and again.
    """
    begin = time.perf_counter()
    options = TableOptions() if options is None else options
    if options.test_after is not None:
        raise InputError(
            "is for training on tables; a graph store holds the whole graph",
            param="test_after",
            hint="convert without it",
        )
    target = usable_path(folder)
    check_new_store(target)
    if memory_limit is not None:
        check_real("memory_limit", memory_limit, "(0, inf)")
    limit = available_memory() / 2e9 if memory_limit is None else memory_limit
    with limit_memory(limit):
        plan = _Plan(nodes, edges, options, features)
        work = _Work(plan, target, scratch, limit, progress or (lambda *_: None))
        return work.run(begin)


def check_new_store(folder: Path) -> None:
    """Raise where a folder cannot become a store, or is one."""
    recover_store(folder)
    if (folder / MANIFEST).is_file():
        raise InputError(
            "is a graph store already; remove it, or write to another place.",
            where=str(folder),
        )
    if not (folder / STATE).is_file():
        check_folder(folder, "a graph store", lambda _: False)


class _Plan:
    """The tables and what their columns are for, before any row was read."""

    def __init__(
        self,
        nodes: str | Path,
        edges: str | Path,
        options: TableOptions,
        features: str | Path | None,
    ) -> None:
        mistakes = Mistakes()
        self.options, self.features = options, features
        node_file = edge_file = None
        with mistakes.of("nodes"):
            node_file = open_parts(nodes)
        with mistakes.of("edges"):
            edge_file = open_parts(edges)
        mistakes.tell()
        assert node_file is not None
        assert edge_file is not None
        self.node_file: Table = node_file
        self.edge_file: Table = edge_file
        own = options
        if features is not None:
            with mistakes.of(features):
                own = without_features(options, features)
        self.roles: Roles = choose_roles(node_file, own, mistakes)
        ends = None
        with mistakes.of(edge_file.path):
            ends = choose_ends(edge_file, options)
            if ends[2] and len(edge_file.named) > 2:
                raise InputError(
                    "which columns are the ends of edges is not known. Columns: "
                    f"{listed(edge_file.columns)}",
                    where=str(edge_file.path),
                    hint="source_column=… and target_column=… name them",
                )
            self.time = time_column(edge_file, ends[:2], options)
            held = ends[:2] if self.time is None else (*ends[:2], self.time)
            self.wanted: Wanted = choose_columns(edge_file, held, options, mistakes)
        mistakes.tell()
        assert ends is not None
        assert self.roles.id is not None
        self.ends, self.guessed = (ends[0], ends[1]), ends[2]
        self.id_column: str = self.roles.id
        self._check_types()
        self.n_nodes = _count(node_file)
        self.n_edges = _count(edge_file)

    def _check_types(self) -> None:
        """Raise where ids are text here and numbers there."""
        for file, names in (
            (self.node_file, (self.id_column,)),
            (self.edge_file, self.ends),
        ):
            if isinstance(file, PartedTable):
                for name in names:
                    file.check_type(name)
        node_types, edge_types = self.node_file.types(), self.edge_file.types()
        if not node_types or not edge_types:
            return  # in a text file, all is text
        own = kind_word(node_types[self.id_column])
        for name in self.ends:
            other = kind_word(edge_types[name])
            if "text" in (own, other) and own != other:
                raise InputError(
                    f"column {excerpt(name)} holds {other}, but "
                    f"the ids of the nodes (column {excerpt(self.id_column)} of "
                    f"{self.node_file.path}) are {own}; write ids alike in both "
                    "tables.",
                    where=str(self.edge_file.path),
                )

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that may be features as they are."""
        if self.roles.numeric is not None:
            return self.roles.numeric
        held = {*self.roles.text}
        return tuple(name for name in self.node_file.named if name not in held)

    def forecast(self) -> tuple[int, int]:
        """Return the bytes that the store takes, about, and those of scratch space."""
        types = self.node_file.types()
        words = ("integers", "numbers", "true or false")
        count = sum(
            not types or kind_word(types[name]) in words for name in self.numeric
        )
        count += PER_DATE * len(self.roles.dates) + 2 * len(self.roles.categorical)
        if self.features is not None:
            x, _ = map_features(self.features, self.node_file, self.n_nodes)
            count = x.shape[1]
        carried = 4 * len(self.wanted.columns) + 8 * (self.time is not None)
        store = self.n_nodes * (4 * count + 56) + self.n_edges * (28 + carried)
        return store, self.n_edges * (17 + carried) + 64 * self.n_nodes

    def made_of(self, stage: str) -> str:
        """Return the SHA-256 of what a stage depends on, 64 hex digits."""
        options = self.options.to_json()
        of_edges = {name: options.pop(name) for name in _OF_EDGES}
        nodes: list[Any] = [_stamps(self.node_file), options]
        if stage == "features":
            nodes.append(self.options.fill_missing)
            if self.features is not None:
                nodes.append(_stamp(usable_path(self.features)))
        if stage in ("edges", "adjacency"):
            nodes += [_stamps(self.edge_file), of_edges]
        told = json.dumps(nodes, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()


def _stamps(table: Table) -> list[Any]:
    return [_stamp(part.path) for part in _parts(table)]


def _parts(table: Table) -> tuple[TableFile, ...]:
    return table.parts if isinstance(table, PartedTable) else (table,)


def _stamp(file: Path) -> list[Any]:
    found = file.stat()
    return [str(file.resolve()), found.st_size, found.st_mtime_ns]


def _count(table: Table) -> int:
    """Return how many rows a table has; of text files, about."""
    known = table.n_rows
    if known is not None:
        return known
    total = 0.0
    for part in _parts(table):
        with part.path.open("rb") as stream:
            lines = stream.read(SAMPLE).splitlines()
        size = part.path.stat().st_size
        mean = max(sum(map(len, lines)) / max(len(lines), 1) + 1, 1)
        total += size / mean
    return int(total)


class _Work:
    """A conversion that is done, stage by stage."""

    def __init__(
        self,
        plan: _Plan,
        target: Path,
        scratch: str | Path | None,
        limit: float,
        progress: Progress,
    ) -> None:
        import psutil

        self.plan, self.target, self.progress = plan, target, progress
        self.scratch = target / SCRATCH
        if scratch is not None:
            around = usable_path(scratch)
            if not around.is_dir():
                raise InputError(
                    "there is no such folder for scratch space.", where=str(around)
                )
            self.scratch = around / f"{target.name}.{SCRATCH}"
        used = psutil.Process().memory_info().rss
        self.memory = int(SHARE * (limit * 1e9 - used))
        self.limit, self.used = limit, used
        self.done = self._read_state()
        self.resumed: list[str] = []
        self._check_memory(plan.n_nodes, PER_NODE)
        self._check_space()

    # ------------------------------------------------------------------ before writing

    def _check_memory(self, n: int, each: int) -> None:
        need = LEAST + each * n + 4 * WORK * self.plan.n_edges // FILES
        if need > self.memory:
            total = self.used + need / SHARE
            raise InputError(
                f"memory_limit={self.limit:.3g} is too little for {n:,} nodes and "
                f"{self.plan.n_edges:,} edges: about {format_bytes(total)} are needed."
            )

    def _check_space(self) -> None:
        """Raise where the disk has no room, before anything is written."""
        store, scratch = self.plan.forecast()
        there = sum(file.stat().st_size for file in self.target.glob("*.npy"))
        store = max(store - there, 0)
        place, other = _existing(self.target), _existing(self.scratch)
        needs = {place: store, other: scratch}
        if place.stat().st_dev == other.stat().st_dev:
            needs = {place: store + scratch}
        for where, need in needs.items():
            free = shutil.disk_usage(where).free
            if need > free:
                raise InputError(
                    f"{where}: the store takes about {format_bytes(store)}, and "
                    f"meanwhile {format_bytes(scratch)} of scratch space, and "
                    f"{format_bytes(free)} are free there; "
                    "scratch=DIR puts the latter on another disk."
                )

    def _read_state(self) -> dict[str, StageDone]:
        file = self.target / STATE
        if not file.is_file():
            return {}
        content = parse_json(read_own(file), file)
        if not isinstance(content, dict) or content.get("format") != STATE_FORMAT:
            raise InputError("is not that of a conversion.", where=str(file))
        stages = conform(dict[str, StageDone], content.get("stages"), file)
        first = stages.get("nodes")
        if first is not None and first.made_of != self.plan.made_of("nodes"):
            raise InputError(
                "holds a conversion of other tables, or by other "
                "options, that was not finished; remove it, or write to another place.",
                where=str(self.target),
            )
        return stages

    # -------------------------------------------------------------------------- stages

    def run(self, begin: float) -> Conversion:
        """Do what is not done yet, and write the manifest."""
        with new_folder(self.target), locked(self.target):
            shutil.rmtree(self.scratch, ignore_errors=True)
            self._write_state()
            try:
                with new_folder(self.scratch):
                    told: dict[str, Any] = {}
                    for stage, does in (
                        ("nodes", self._nodes),
                        ("features", self._features),
                        ("edges", self._edges),
                        ("adjacency", self._adjacency),
                    ):
                        told[stage] = self._stage(stage, does, told)
                    found = self._finish(told, begin)
            except InputError:
                # Once the node table is mended, nothing that was made of it is of use;
                # but all of it is where the edge table is wrong.
                if "features" not in self.done:
                    clear_store(self.target)
                raise
            finally:
                shutil.rmtree(self.scratch, ignore_errors=True)
        return found

    def _stage(
        self,
        stage: str,
        does: Callable[[Mapping[str, Any]], tuple[list[str], dict[str, Any]]],
        told: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Do a stage, unless it is done; return what it has to tell."""
        made_of = self.plan.made_of(stage)
        before = self.done.get(stage)
        if before is not None and before.made_of == made_of and self._holds(before):
            self.resumed.append(stage)
            return before.told
        names, found = does(told)
        self.progress("checksums", 0, 1)
        files = {name: stored_array(self.target / f"{name}.npy") for name in names}
        self.done[stage] = StageDone(made_of, files, found)
        self._write_state()
        _release()
        return found

    def _holds(self, stage: StageDone) -> bool:
        """Tell whether what a stage wrote is still as it was."""
        for name, said in stage.files.items():
            file = self.target / f"{name}.npy"
            if not file.is_file() or file.stat().st_size != said.bytes:
                return False
            if checksum(file) != said.crc32:
                return False
        return True

    def _write_state(self) -> None:
        content = {"format": STATE_FORMAT, "stages": msgspec.to_builtins(self.done)}
        write_whole(self.target / STATE, json.dumps(content).encode())

    def _file(self, name: str) -> Path:
        return self.target / f"{name}.npy"

    def _write(self, name: str, values: NDArray[Any]) -> str:
        with ArrayFile(self._file(name), values.dtype) as file:
            for part in slices(len(values), FEW_ROWS):
                file.append(values[part])
        return name

    # --------------------------------------------------------------------------- nodes

    def _nodes(self, _: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Write ids, labels, splits, times and groups."""
        plan, file = self.plan, self.plan.node_file
        mistakes = Mistakes()
        names: list[str] = []
        n = 0
        self.progress("ids", 0, 2)
        with mistakes.of(file.path):
            column = file.read([plan.id_column], [plan.id_column])[plan.id_column]
            n = len(column)
            if n == 0:
                raise InputError(
                    "the table has no rows, so no nodes.", where=str(file.path)
                )
            names += self._ids(column)
            del column
            _release()
        self.progress("labels", 1, 2)
        roles = plan.roles
        wanted = [roles.label, roles.split, roles.group, roles.time]
        columns = tuple(dict.fromkeys(name for name in wanted if name is not None))
        part = NodePart(roles, plan.options)
        table = file.read(columns, columns) if columns else _rows_only(n)
        read_labels(file, table, part, plan.options, mistakes)
        mistakes.tell()
        names.append(self._write("labels", part.y))
        splits = part.parts.splits
        if splits:
            parts = [nodes for split in splits for nodes in split.parts.values()]
            names.append(self._write("splits", np.concatenate(parts)))
        times = part.parts.times
        if times is not None:
            names.append(self._write("times", times.values))
        if part.parts.groups is not None:
            names.append(self._write("groups", part.parts.groups))
        classes = np.zeros(0, dtype=np.int64) if part.classes is None else part.classes
        self.progress("labels", 2, 2)
        return names, {
            "n": n,
            "classes": classes.tolist(),
            "class_dtype": classes.dtype.str,
            "splits": [list(split.sizes) for split in splits],
            "notes": list(part.notes),
            "times": None if times is None else [times.are_dates, times.zoned],
        }

    def _ids(self, column: pa.ChunkedArray) -> list[str]:
        """Write the ids, each there once and none empty."""
        import pyarrow as pa
        import pyarrow.compute as pc

        file, name = self.plan.node_file, self.plan.id_column
        if not pa.types.is_integer(column.type):
            column = ids_as_written(file, name, column, "id_column")
        numbers, are = as_integers(column)
        if are.all():
            twice = first_twice(numbers)
            if twice is not None:
                raise _twice(file, str(numbers[twice[0]]), twice)
            ends = int(numbers.min()), int(numbers.max())
            width = max(len(str(end)) for end in ends)
            with ArrayFile(self._file("ids"), f"<U{width}") as out:
                for part in slices(len(numbers), FEW_ROWS):
                    out.append(numbers[part].astype(f"<U{width}"))
            return ["ids"]
        del numbers, are
        texts = column.cast(pa.large_string())
        trimmed = pc.utf8_trim_whitespace(texts)
        empty = pc.fill_null(pc.equal(trimmed, ""), True).to_numpy()
        if empty.any():
            where = file.place(int(np.argmax(empty)))
            raise InputError(
                f"the id (column {name!r}) is empty at {where}.", where=str(file.path)
            )
        self._check_memory(len(texts), PER_TEXT)
        twice = first_text_twice(trimmed, self.scratch, self.memory // 2)
        if twice is not None:
            one, other = (texts[row].as_py() for row in twice)
            if one == other:
                raise _twice(file, one, twice)
            first, again = map(file.place, twice)
            raise InputError(
                f"the node ids {excerpt(one)} and {excerpt(other)} differ "
                f"only by blanks around them, at {first} and {again}.",
                where=str(file.path),
            )
        return self._texts(texts)

    def _texts(self, texts: pa.ChunkedArray) -> list[str]:
        """Write ids that are text: of fixed width, or their bytes and their ends."""
        import pyarrow.compute as pc

        width = pc.max(pc.utf8_length(texts)).as_py()
        if width <= WIDEST:
            with ArrayFile(self._file("ids"), f"<U{width}") as out:
                for part in slices(len(texts), FEW_ROWS):
                    some = texts.slice(part.start, part.stop - part.start)
                    out.append(some.to_numpy().astype(f"<U{width}"))
            return ["ids"]
        end = 0
        with (
            ArrayFile(self._file("ids_ends"), np.int64) as ends,
            ArrayFile(self._file("ids_bytes"), np.uint8) as out,
        ):
            for part in slices(len(texts), FEW_ROWS):
                some = texts.slice(part.start, part.stop - part.start)
                coded = [text.encode() for text in some.to_pylist()]
                sizes = np.cumsum([len(text) for text in coded], dtype=np.int64)
                ends.append(end + sizes)
                out.append(np.frombuffer(b"".join(coded), dtype=np.uint8))
                end += int(sizes[-1])
        return ["ids_ends", "ids_bytes"]

    # ------------------------------------------------------------------------ features

    def _features(self, told: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Write the features, column by column."""
        plan, n = self.plan, told["nodes"]["n"]
        columns = _FeatureColumns()
        with ArrayFile(self._file("features"), np.float32, fortran=True) as out:
            if plan.features is not None:
                self._copy_features(out, columns, n)
            else:
                self._read_features(out, columns, n)
            out.set_shape(n, len(columns.names))
        found = {
            "names": columns.names,
            "notes": list(dict.fromkeys(columns.notes)),
            "fill_values": columns.fill_values,
        }
        if not columns.names:
            self._file("features").unlink()
            return [], found
        shape = (n, len(columns.names))
        if plan.features is None and worth_sparse(columns.n_nonzero, shape):
            return self._sparse(shape), found
        return ["features"], found

    def _copy_features(self, out: ArrayFile, columns: _FeatureColumns, n: int) -> None:
        """Copy a file of features, a block of rows at a time."""
        path = self.plan.features
        assert path is not None
        x, notes = map_features(path, self.plan.node_file, n)
        columns.notes += notes
        shape = x.shape
        out.set_shape(*shape)
        for rows in row_slices(shape):
            # Opened anew: pages that were read count as long as it is open.
            x, _ = map_features(path, self.plan.node_file, n)
            with np.errstate(over="ignore"):
                block = np.array(x[rows], dtype=np.float32)
            bad = first_beyond(block, float(np.finfo(np.float32).max))
            if bad is not None:
                row, column = bad
                raise InputError(
                    f"must hold finite numbers, got {block[row, column]} in "
                    f"row {rows.start + row}, column {column}",
                    where=str(path),
                )
            for column in range(shape[1]):
                out.put(column, block[:, column], rows.start)
            self.progress("features", rows.stop, n)
        columns.names = [str(number) for number in range(shape[1])]

    def _read_features(self, out: ArrayFile, columns: _FeatureColumns, n: int) -> None:
        plan, file, roles = self.plan, self.plan.node_file, self.plan.roles
        options, mistakes = plan.options, Mistakes()
        filler = Filler(
            options.fill_values, fills=options.fill_missing, fits=options.to_train
        )
        asked = roles.numeric is not None
        # Of a text file, cells are there as they are written, too.
        one, each = (32, 16) if file.delimiter is None else (64, 32)
        at_once = max(1, (2 * self.memory // 3 - one * n) // (each * n))
        total = len(plan.numeric) + len(roles.dates) + len(roles.categorical)

        def add(name: str, values: NDArray[np.float32]) -> None:
            out.append(values)
            columns.names.append(name)
            columns.n_nonzero += int(np.count_nonzero(values))

        for some in slices(len(plan.numeric), at_once):
            group = plan.numeric[some]
            self.progress("features", some.start, total)
            table = None
            with mistakes.of(file.path):
                table = file.read(group)
            if table is None:
                continue
            own = replace(roles, numeric=group if asked else None)
            numeric, notes = numeric_columns(file, table, own, filler.kept, mistakes)
            columns.notes += notes
            own = replace(own, id=None)  # which was not read along
            for name in numeric:
                values = read_numbers(file, table, own, name, filler, mistakes)
                add(name, values)
            if not asked and options.to_train:
                columns.notes += doubtful_columns(table.slice(0, LOOKED), numeric)
            del table
            _release()
        for name in roles.dates:
            table = file.read([name], [name])
            own = replace(roles, dates=(name,))
            for made, values in date_features(
                file, table, own, mistakes, filler
            ).items():
                add(made, values)
        missing: dict[str, int] = {}
        n_plain = len(columns.names)
        for name in roles.categorical:
            with mistakes.of(file.path):
                table = file.read([name], [name])
                block, words, missing[name] = one_hot(as_text(file, name, table[name]))
                self._check_categories(name, len(words), n)
                by_column = block.tocsc()
                for number, word in enumerate(words):
                    column = np.zeros(n, dtype=np.float32)
                    first, end = by_column.indptr[number : number + 2]
                    column[by_column.indices[first:end]] = 1
                    add(f"{name}={word}", column)
        with mistakes.of(file.path):
            check_feature_names(file, columns.names, n_plain, roles.categorical)
        if missing and not n_plain and min(missing.values()) == n:
            mistakes.add(
                file.path,
                f"{file.path}: no feature is left: no cell of the categorical columns "
                f"({listed(roles.categorical)}) is filled, and no column is numeric.",
            )
        mistakes.tell()
        columns.notes += missing_notes(missing)
        columns.notes += filler.notes()
        columns.fill_values = filler.values

    def _check_categories(self, name: str, count: int, n: int) -> None:
        free, need = shutil.disk_usage(self.target).free, 4 * count * n
        if need > free:
            raise InputError(
                f"column {excerpt(name)} has {count:,} "
                f"different values: as categories of {n:,} nodes they take "
                f"{format_bytes(need)} while they are written, and "
                f"{format_bytes(free)} are free.",
                where=str(self.plan.node_file.path),
            )

    def _sparse(self, shape: tuple[int, int]) -> list[str]:
        """Keep the features that are not zero, of each row."""
        file = self._file("features")
        counts = np.zeros(shape[0] + 1, dtype=np.int64)
        step = max(1, min(FEW_ROWS, self.memory // (16 * shape[1])))
        names = ["features_data", "features_indices", "features_indptr"]
        with (
            ArrayFile(self._file(names[0]), np.float32) as data,
            ArrayFile(self._file(names[1]), np.int32) as indices,
        ):
            for rows in slices(shape[0], step):
                x = np.load(file, mmap_mode="r")  # anew, as of _copy_features
                block = CSR(np.ascontiguousarray(x[rows]))
                data.append(block.data)
                indices.append(block.indices)
                counts[rows.start + 1 : rows.stop + 1] = np.diff(block.indptr)
                self.progress("features", rows.stop, shape[0])
        del x
        ends = np.cumsum(counts)
        if ends[-1] > np.iinfo(np.int32).max:
            wide = np.load(self._file(names[1]), mmap_mode="r").astype(np.int64)
            self._write(names[1], wide)
            self._write(names[2], ends)
        else:
            self._write(names[2], ends.astype(np.int32))
        file.unlink()
        return names

    # --------------------------------------------------------------------------- edges

    def _edges(self, told: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Write the nodes that each edge joins, and what the edges carry."""
        plan, file = self.plan, self.plan.edge_file
        counts = _EdgeCounts()
        listing = bool(plan.wanted.columns) or plan.time is not None
        kept = self.scratch / "kept.npy"
        with (
            self._numbering(told["nodes"]["n"]) as numbering,
            ArrayFile(self._file("edge_source"), np.int64) as source,
            ArrayFile(self._file("edge_target"), np.int64) as target,
            ArrayFile(kept, np.bool_) as mask,
        ):
            self._check_header(numbering)
            for chunk in self._chunks():
                ends, joined = self._look_up(chunk, numbering, counts)
                source.append(ends[0][joined])
                target.append(ends[1][joined])
                if listing:
                    mask.append(joined)
                counts.rows += chunk.num_rows
                self.progress("edges", counts.rows, max(plan.n_edges, counts.rows))
        if counts.rows == 0:
            raise InputError("the table has no edges.", where=str(file.path))
        if counts.unknown == counts.rows:
            raise InputError(
                f"no edge joins two nodes of {plan.node_file.path}; the "
                "ids of the two tables do not match.",
                where=str(file.path),
            )
        _release()
        names = ["edge_source", "edge_target"]
        carried, times, notes = self._carried(kept if listing else None, counts)
        with ArrayFile(self._file("edge_values"), np.float32, fortran=True) as out:
            for column in carried.values.T:
                out.append(column)
            out.set_shape(counts.joined, len(carried.names))
        names.append("edge_values")
        if times is not None:
            names.append(self._write("edge_times", times[1]))
            own = told["nodes"]["times"]
            check_times_agree(
                plan.node_file.path,
                file.path,
                None if own is None else _of_kind(*own),
                times[0],
            )
        if plan.guessed:
            notes = (
                f"the first two columns of {file.path.name}, {plan.ends[0]!r} and "
                f"{plan.ends[1]!r}, are taken as the ends of the edges",
                *notes,
            )
        return names, {
            "rows": counts.rows,
            "known": counts.rows - counts.unknown,
            "joined": counts.joined,
            "loops": len(counts.loops),
            "unknown": counts.unknown,
            "names": list(carried.names),
            "categories": list(carried.categories),
            "notes": [*file.notes, *self._unused(), *notes],
            "fill_values": carried.fill_values,
            "has_times": times is not None,
        }

    def _unused(self) -> list[str]:
        """Return which columns of the edge table are not looked at, as a note."""
        plan, file = self.plan, self.plan.edge_file
        taken = {*plan.ends, *plan.wanted.columns, plan.time}
        ignored = [name for name in file.named if name not in taken]
        if not ignored or plan.options.edge_features is None:
            return []
        of = f"{listed(ignored)} of {file.path.name}"
        one = len(ignored) == 1
        return [f"column {of} is not used" if one else f"columns {of} are not used"]

    def _numbering(self, n: int) -> Numbering:
        self.progress("ids", 0, n)
        ids: ArraySlices | _LongIds
        if self._file("ids").is_file():
            ids = ArraySlices(self._file("ids"))
        else:
            ids = _LongIds(self._file("ids_ends"), self._file("ids_bytes"))
        return number_ids(ids, self.scratch, self.memory // 2)

    def _check_header(self, numbering: Numbering) -> None:
        """Raise where the header of an edge table is an edge itself."""
        import pyarrow as pa

        ends = self.plan.ends
        texts = pa.chunked_array([pa.array(ends, pa.large_string())])
        if self.plan.guessed and (numbering.find(texts) >= 0).all():
            raise InputError(
                f"the first line names two nodes, "
                f"{ends[0]!r} and {ends[1]!r}, so a header such as source,target is "
                "missing.",
                where=str(self.plan.edge_file.path),
            )

    def _chunks(self) -> Iterator[pa.Table]:
        """Yield the ends of edges, as many rows at a time as fit."""
        rows = int(min(max(self.memory // (2 * PER_ROW), FEW_ROWS), ROWS))
        waiting: list[pa.Table] = []
        count = 0
        for batch in self.plan.edge_file.batches(self.plan.ends, min(rows, 2**20)):
            waiting.append(batch)
            count += batch.num_rows
            if count >= rows:
                yield _joined(waiting)
                waiting, count = [], 0
        if waiting:
            yield _joined(waiting)

    def _look_up(
        self, chunk: pa.Table, numbering: Numbering, counts: _EdgeCounts
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.bool_]]:
        """Return the nodes that some edges join, and which of them are edges."""
        import pyarrow as pa

        plan, file = self.plan, self.plan.edge_file
        mistakes, ends = Mistakes(), []
        for name, side in zip(plan.ends, ("source", "target"), strict=True):
            column = chunk[name]
            if not pa.types.is_integer(column.type):
                option = f"{side}_column"
                column = ids_as_written(file, name, column, option, counts.rows)
            found = numbering.find(column)
            unknown = found < 0
            if unknown.any():
                empty = _empty(column)
                if empty.any():
                    where = file.place(counts.rows + int(np.argmax(empty)))
                    mistakes.add(
                        file.path,
                        f"{file.path}: column {excerpt(name)} is empty at {where}.",
                    )
                others = unknown & ~empty
                if others.any() and not plan.options.drop_unknown:
                    row = int(np.argmax(others))
                    place, cell = file.place(counts.rows + row), column[row].as_py()
                    mistakes.add(
                        file.path,
                        InputError(
                            f"{place} names node {excerpt(str(cell))} (column "
                            f"{excerpt(name)}), which is not in {plan.node_file.path}",
                            where=str(file.path),
                            hint="drop_unknown=True leaves such edges out."
                            f"{_near(cell, numbering)}",
                        ),
                    )
            ends.append(found)
        mistakes.tell()
        known = (ends[0] >= 0) & (ends[1] >= 0)
        loops = known & (ends[0] == ends[1])
        joined = known & ~loops
        counts.unknown += int(np.count_nonzero(~known))
        counts.joined += int(np.count_nonzero(joined))
        if loops.any():
            counts.loops = np.union1d(counts.loops, ends[0][loops])
        return ends, joined

    def _carried(
        self, kept: Path | None, counts: _EdgeCounts
    ) -> tuple[Carried, tuple[Times, NDArray[Any]] | None, tuple[str, ...]]:
        """Return what edges carry, their times, and notes.

        Whole columns of the edge table are read for it, so they must fit into memory.
        """
        plan, file = self.plan, self.plan.edge_file
        nothing = Carried(np.empty((counts.joined, 0), np.float32), (), (), (), {})
        if kept is None:
            return nothing, None, ()
        mask = np.load(kept)
        wanted = plan.wanted
        notes: tuple[str, ...] = ()
        each = 32 * counts.rows
        if each * (len(wanted.columns) + (plan.time is not None)) > self.memory:
            fewer = wanted.without_rest()
            rest = [name for name in wanted.columns if name not in fewer.columns]
            many = len(fewer.columns) + (plan.time is not None)
            if each * many > self.memory:
                need = self.used + each * many / SHARE
                raise InputError(
                    f"what {counts.rows:,} edges carry takes about "
                    f"{format_bytes(need)} of memory",
                    where=str(file.path),
                    hint="raise memory_limit=…, or take fewer columns by "
                    "edge_features=…",
                )
            wanted = fewer
            one = len(rest) == 1
            said = f"column {listed(rest)} is" if one else f"columns {listed(rest)} are"
            notes = (
                f"edge {said} left out, as they do not fit into memory; "
                "edge_features=… takes the columns that it names",
            )
        mistakes = Mistakes()
        carried = nothing
        if wanted.columns:
            self.progress("what edges carry", 0, 1)
            table = file.read(wanted.columns, wanted.categorical)
            carried = read_columns(file, table, mask, wanted, plan.options, mistakes)
            del table
        mistakes.tell()
        if plan.options.edge_weight is not None:
            self._check_weight(plan.options.edge_weight, carried)
        times = None
        notes = (*notes, *carried.notes)
        if plan.time is not None and plan.options.to_train:
            column = file.read([plan.time], [plan.time])[plan.time]
            found = parse_times(file, plan.time, column)
            times = found, found.values[mask]
            notes += undated_note(found)
        return carried, times, notes

    def _check_weight(self, name: str, carried: Carried) -> None:
        """Raise where no column of the edges can be what they weigh."""
        none = np.zeros(0, dtype=np.int64)
        columns = unchecked_edges(
            source=none,
            target=none,
            values=carried.values,
            names=carried.names,
            directed=True,
            categories=carried.categories,
            times=None,
        )
        try:
            check_edge_weight(name, columns)
        except InputError as error:
            told = str(error).removeprefix("Graph: ")
            raise InputError(str(told), where=str(self.plan.edge_file.path)) from None

    # ----------------------------------------------------------------------- adjacency

    def _adjacency(self, told: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Write the symmetric matrix, and the one with directions."""

        def progress(done: int, total: int) -> None:
            self.progress("adjacency", done, total)

        found = write_adjacency(
            ArraySlices(self._file("edge_source")),
            ArraySlices(self._file("edge_target")),
            told["nodes"]["n"],
            self.target,
            self.scratch,
            self.memory // 2,
            undirected=self.plan.options.undirected,
            progress=progress,
        )
        names = ["indptr", "indices", "out_indptr", "out_indices"]
        there = [name for name in names if self._file(name).is_file()]
        return there, {"entries": found.entries, "one_way": found.one_way}

    # ------------------------------------------------------------------------- the end

    def _finish(self, told: Mapping[str, Any], begin: float) -> Conversion:
        """Write the manifest, which makes a store of the folder."""
        plan = self.plan
        nodes, features = told["nodes"], told["features"]
        edges, pairs = told["edges"], told["adjacency"]
        n, options = nodes["n"], plan.options
        files = {n: f for stage in self.done.values() for n, f in stage.files.items()}
        names, notes = features["names"], [*features["notes"], *nodes["notes"]]
        if not names:
            self.progress("features", 0, 1)
            x, names, note = structural_features(mapped_matrix(self.target, n))
            notes.append(note)
            with ArrayFile(self._file("features"), np.float32, fortran=True) as out:
                for column in x.T:
                    out.append(column)
                out.set_shape(*x.shape)
            files["features"] = stored_array(self._file("features"))
            del x
        y = np.load(self._file("labels"))
        classes = np.array(nodes["classes"], dtype=nodes["class_dtype"])
        notes += doubtful_labels(classes if len(classes) else None, y)
        if plan.roles.label is None:
            where = plan.node_file.path.name
            notes.append(f"{where} has no label column: no node is labelled")
        one_way = pairs["one_way"]
        single = 0 if options.undirected else pairs["entries"] - one_way
        counted = options.edge_features is None and edges["joined"] > one_way
        carries = (
            bool(edges["names"]) or counted or options.edge_time_column is not None
        )
        if not carries:
            for name in [name for name in files if name.startswith("edge_")]:
                del files[name]
        own = single_names(options, plan.node_file, plan.roles)
        read_alike = replace(
            own,
            fill_values=features["fill_values"] or own.fill_values,
            edge_fill_values=edges["fill_values"],
        )
        record = ReadRecord(
            edges_read=edges["rows"],
            duplicates_merged=edges["known"] - edges["loops"] - one_way,
            loops_dropped=edges["loops"],
            symmetrised=single,
            unknown_dropped=edges["unknown"],
            notes=(*plan.node_file.notes, *notes, *edges["notes"]),
            tables=read_alike.to_json(),
            id_column=None if plan.id_column == INDEX else plan.id_column,
            other_columns=other_columns(
                plan.node_file, plan.id_column, plan.edge_file, plan.ends
            ),
        )
        manifest = write_manifest(
            self.target,
            name=plan.node_file.title,
            nodes=n,
            edges=pairs["entries"] // 2,
            classes=classes,
            y=y,
            feature_names=names,
            splits=[tuple(sizes) for sizes in nodes["splits"]],
            record=record,
            edge_columns=StoredEdges(
                edges["names"], edges["categories"], not options.undirected
            )
            if carries
            else None,
            edge_weight=options.edge_weight,
            known=files,
        )
        for name in ARRAYS - files.keys():
            self._file(name).unlink(missing_ok=True)
        (self.target / STATE).unlink()
        return Conversion(
            self.target,
            manifest.nodes,
            manifest.edges,
            manifest.features,
            len(classes),
            manifest.labelled,
            sum(file.bytes for file in files.values()),
            time.perf_counter() - begin,
            record,
            tuple(self.resumed),
        )


@dataclass
class _FeatureColumns:
    """What is known of features that are being written."""

    names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fill_values: dict[str, float] = field(default_factory=dict)
    n_nonzero: int = 0


@dataclass
class _EdgeCounts:
    """What is known of edges that are being read."""

    rows: int = 0
    joined: int = 0
    unknown: int = 0
    loops: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class _LongIds:
    """Ids that are too long for an array of fixed width, as `ArraySlices`."""

    def __init__(self, ends: Path, content: Path) -> None:
        self._ends, self._content = ArraySlices(ends), ArraySlices(content)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, part: slice) -> NDArray[Any]:
        first, end, _ = part.indices(len(self))
        before = self._ends[first - 1 : first] if first else np.zeros(1, np.int64)
        ends = np.concatenate([before, self._ends[first:end]])
        content = self._content[int(ends[0]) : int(ends[-1])].tobytes()
        places = (ends - ends[0]).tolist()
        texts = np.empty(end - first, dtype=object)
        for number in range(end - first):
            texts[number] = content[places[number] : places[number + 1]].decode()
        return texts


def _existing(path: Path) -> Path:
    """Return a folder, or the nearest around it that is there."""
    return next(
        one for one in (path.absolute(), *path.absolute().parents) if one.is_dir()
    )


def _release() -> None:
    """Give memory that Arrow has freed back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _rows_only(n: int) -> pa.Table:
    import pyarrow as pa

    return pa.table({"": pa.nulls(n)})


def _joined(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="permissive")


def _empty(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Tell which cells hold nothing, [m]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        found: Any = pc.is_null(column)
    else:
        found = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)
    return np.asarray(found.to_numpy(), dtype=bool)


def _near(cell: Any, numbering: Numbering) -> str:
    """Return how an id is almost that of a node, as a sentence or nothing."""
    import pyarrow as pa

    text = str(cell)
    ways = {
        "by blanks around it": text.strip(),
        "in how a whole number is written": re.sub(
            r"^([-+]?\d+)\.0*$", r"\1", text.strip()
        ),
    }
    for way, plain in ways.items():
        texts = pa.chunked_array([pa.array([plain], pa.large_string())])
        if plain != text and numbering.find(texts)[0] >= 0:
            return (
                f" {excerpt(text)} differs from the node {excerpt(plain)} only {way}; "
                "write ids alike in both tables."
            )
    return ""


def _twice(file: Table, name: str, rows: tuple[int, int]) -> InputError:
    first, again = map(file.place, rows)
    return InputError(
        f"the node id {excerpt(name)} is there twice, at {first} and {again}.",
        where=str(file.path),
    )


def _of_kind(are_dates: bool, zoned: bool) -> Times:
    """Return times of a kind, of no node."""
    return Times(np.zeros(0, "datetime64[us]" if are_dates else float), zoned)
