"""A graph as a folder of arrays that are mapped and not read: the graph store.

A store is `manifest.json` and plain `.npy` files, which `numpy.load` opens too. The
manifest is written last, and whole or not at all: a folder without one is no store.
What is in the files was checked when they were written, and each has a checksum, so
that a store is opened without looking at every number again.

**Columns lie one after another** in `features.npy` (Fortran order): whoever takes some
of the columns reads one stretch of the file. Blocks of rows, as all else takes them,
are as many stretches as there are columns, each of hundreds of kilobytes.

**Small features are read, not mapped** (`IN_MEMORY`), so that a small graph behaves as
the same graph from tables does, to the last bit of a training.

**Checksums are looked at once.** `verified.json` says which size and time of change the
files had when they were last read whole and found as the manifest has them; as long as
they have these, it is not done again. A copy of a store has other times: its first use
checks it once.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_type
from h2gcn.exceptions import InputError
from h2gcn.graph import (
    CSR,
    EdgeColumns,
    Graph,
    ReadRecord,
    Split,
    check_is_graph,
    row_slices,
    slices,
    unchecked_edges,
    unchecked_graph,
)
from h2gcn.io.files import (
    Count,
    atomic_write,
    cannot_read,
    cannot_write,
    check_folder,
    conform,
    parse_json,
    read_own,
    recover_folder,
    replaced_folder,
    resolved,
    usable_path,
    write_whole,
)
from h2gcn.io.graph_parts import WIDEST
from h2gcn.io.mistakes import one_line

__all__ = [
    "ARRAYS",
    "MANIFEST",
    "STATE",
    "ArrayFile",
    "ArraySlices",
    "Manifest",
    "StoredArray",
    "StoredEdges",
    "check_target",
    "checksum",
    "clear_store",
    "is_store",
    "mapped_matrix",
    "npy_header",
    "open_store",
    "recover_store",
    "stored_array",
    "write_manifest",
    "write_store",
]

FORMAT, VERSION = "h2gcn graph store", 1
MANIFEST, VERIFIED, STATE = "manifest.json", "verified.json", "conversion.json"
"""What a store is, when it was last read whole, and how far one that is written is."""
ARRAYS = frozenset(
    (
        *("ids", "ids_ends", "ids_bytes", "indptr", "indices"),
        *("out_indptr", "out_indices", "labels", "splits", "times", "groups"),
        *("features", "features_data", "features_indptr", "features_indices"),
        *("edge_source", "edge_target", "edge_values", "edge_times"),
    )
)
"""The names of all arrays that a store can have."""
OWN = {MANIFEST, VERIFIED, STATE, *(f"{name}.npy" for name in ARRAYS)}
_TEMPORARY = re.compile(
    r"\.verified\.\w{8}\.tmp\.json|(manifest|conversion)\.json\.\w{8}\.part"
)
"""What a program that was killed leaves of the JSON files of a store."""
IN_MEMORY = 2**30
"""Bytes of dense features that are read and not mapped, at most."""
PIECE = 2**24
"""Bytes of a file that are read together for its checksum."""
BLOCK = 2**20
"""Entries of an array that are looked at together."""


class StoredArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the manifest says of a file."""

    dtype: str
    shape: list[Count]
    fortran: bool
    bytes: Count
    crc32: Count


class StoredEdges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the manifest says of what edges carry."""

    names: list[str]
    categories: list[str]
    directed: bool


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a store holds, beside its arrays."""

    format: str
    version: int
    name: str
    nodes: Count
    edges: Count
    features: Count
    labelled: Count
    classes: list[bool | int | float | str]
    class_dtype: str
    feature_names: list[str]
    splits: list[tuple[Count, Count, Count]]
    record: ReadRecord
    files: dict[str, StoredArray]
    edge_columns: StoredEdges | None = None
    edge_weight: str | None = None


# ------------------------------------------------------------------------------ writing


def npy_header(
    dtype: np.dtype[Any], shape: Sequence[int], *, fortran: bool = False
) -> bytes:
    """Return how a `.npy` file of an array begins.

    Examples
    --------
    >>> len(npy_header(np.dtype(np.float32), (3, 2), fortran=True)) % 64
    0
    """
    from io import BytesIO

    stream = BytesIO()
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran,
        "shape": tuple(int(size) for size in shape),
    }
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


class ArrayFile:
    """An array that is written to a `.npy` file piece by piece; a context manager.

    It is written and not mapped: mapped pages would count as memory of the program.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    dtype, shape
        Of the array. With a shape of None it is 1-D, and as long as it gets.
    fortran
        Whether its columns lie one after another.
    """

    def __init__(
        self,
        path: Path,
        dtype: Any,
        shape: tuple[int, ...] | None = None,
        *,
        fortran: bool = False,
    ) -> None:
        self.path, self.dtype, self.fortran = path, np.dtype(dtype), fortran
        self._shape = shape
        self._begin = len(npy_header(self.dtype, shape or (0,), fortran=fortran))
        self._count = 0
        self._file: IO[bytes]

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("wb")
            self._file.write(bytes(self._begin))
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return self

    def set_shape(self, *shape: int) -> None:
        """Say at the end what shape the array has."""
        self._shape = shape

    def append(self, values: NDArray[Any]) -> None:
        """Write what comes next; of a matrix, in the order of the file."""
        plain = np.ascontiguousarray(values, dtype=self.dtype)
        self._write(plain)
        self._count += plain.size

    def put(self, column: int, values: NDArray[Any], row: int = 0) -> None:
        """Write a column from a row on, where columns lie one after another."""
        assert self._shape is not None
        assert self.fortran
        place = (column * self._shape[0] + row) * self.dtype.itemsize
        self._file.seek(self._begin + place)
        self._write(np.ascontiguousarray(values, dtype=self.dtype))

    def _write(self, plain: NDArray[Any]) -> None:
        try:
            if plain.dtype.kind in "MU":  # which lend no buffer
                plain = plain.view(np.uint8)
            if plain.size:
                self._file.write(plain.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._file:
            if kind is not None:
                return
            shape = (self._count,) if self._shape is None else self._shape
            header = npy_header(self.dtype, shape, fortran=self.fortran)
            assert len(header) == self._begin
            try:
                self._file.seek(0)
                self._file.write(header)
                # Columns of zeros may have been left out at the end.
                whole = self._begin + math.prod(shape) * self.dtype.itemsize
                self._file.truncate(whole)
            except OSError as failed:
                raise cannot_write(self.path, failed) from None


class ArraySlices:
    """An array in a `.npy` file, 1-D, of which slices are read when they are asked for.

    They are read and not mapped, as of `ArrayFile`.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        shape, _, self.dtype, self._begin = _read_header(path)
        (self._count,) = shape

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> NDArray[Any]:
        first, end, _ = part.indices(self._count)
        begin = self._begin + first * self.dtype.itemsize
        try:
            return np.fromfile(self.path, self.dtype, end - first, offset=begin)
        except OSError as error:
            raise cannot_read(self.path, error) from None


def checksum(path: Path, progress: Any = None) -> int:
    """Return the CRC-32 of a file.

    Parameters
    ----------
    path
        The file.
    progress
        Called with how many bytes were read, again and again; None for nothing.
    """
    found = 0
    try:
        with path.open("rb") as stream:
            while piece := stream.read(PIECE):
                found = zlib.crc32(piece, found)
                if progress is not None:
                    progress(len(piece))
    except OSError as error:
        raise cannot_read(path, error) from None
    return found


def stored_array(path: Path) -> StoredArray:
    """Return what a manifest says of a `.npy` file, its checksum too."""
    shape, fortran, dtype, _ = _read_header(path)
    return StoredArray(
        dtype.str,
        list(shape),
        fortran,
        path.stat().st_size,
        checksum(path),
    )


def write_store(graph: Graph, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a graph so that `open_store` returns it as it was.

    The store is written beside `folder` and renamed at the end: a program that is
    killed leaves the old store or the new one.

    Parameters
    ----------
    graph
        Any; ids that are objects are written as their text.
    folder
        Made if need be; the folder around it must exist. It must be empty, or hold
        nothing but a store.
    overwrite
        Whether to replace a store.
    """
    check_is_graph(graph)
    check_type("overwrite", overwrite, bool, "True or False")
    with resolved(usable_path(folder)) as target:
        check_target(target, overwrite=overwrite)
        check = partial(check_target, target, overwrite=overwrite)
        with replaced_folder(target, _remove_store, check, force=overwrite) as beside:
            for name, values in _arrays(graph):
                _write_array(beside / f"{name}.npy", values)
            carried = graph.edge_columns
            edges = None
            if carried is not None:
                edges = StoredEdges(
                    list(carried.names), list(carried.categories), carried.directed
                )
            write_manifest(
                beside,
                name=graph.name,
                nodes=graph.n_nodes,
                edges=graph.n_edges,
                classes=graph.classes,
                y=graph.y,
                feature_names=graph.feature_names,
                splits=[split.sizes for split in graph.splits],
                record=graph.record,
                edge_columns=edges,
                edge_weight=graph.edge_weight,
            )


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Raise unless a store can be written to a folder."""
    recover_store(folder)
    check_folder(folder, "a graph store", lambda _: True)
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    own: set[str] = set()
    if MANIFEST in names:
        files = read_manifest(folder).files
        own = {MANIFEST, VERIFIED, *(f"{name}.npy" for name in files)}
    for name in sorted(names - own):
        if not _TEMPORARY.fullmatch(name):
            raise InputError(
                "must be empty or hold nothing but a graph store",
                param="folder",
                value=name,
                where=str(folder),
                hint="write to another folder",
            )
    if own and not overwrite:
        raise InputError(
            "holds a graph store already",
            param="folder",
            where=str(folder),
            hint={"overwrite": True},
        )


def recover_store(folder: Path) -> None:
    """Bring back a store if a program was killed while it replaced it."""
    recover_folder(folder.resolve(), _remove_store)


def clear_store(folder: Path) -> None:
    """Remove the files of a store, finished or not, and no others."""
    for name in OWN:
        (folder / name).unlink(missing_ok=True)


def _remove_store(folder: Path) -> None:
    """Remove a folder with a store, finished or not; one with other files stays."""
    names = [file.name for file in folder.iterdir()]
    if all(name in OWN or _TEMPORARY.fullmatch(name) for name in names):
        shutil.rmtree(folder)


def write_manifest(
    folder: Path,
    *,
    name: str,
    nodes: int,
    edges: int,
    classes: NDArray[Any],
    y: NDArray[np.int64],
    feature_names: Sequence[str],
    splits: Sequence[tuple[int, int, int]],
    record: ReadRecord,
    edge_columns: StoredEdges | None = None,
    edge_weight: str | None = None,
    known: Mapping[str, StoredArray] | None = None,
) -> Manifest:
    """Make a store of a folder whose arrays are written, and return its manifest.

    Parameters
    ----------
    folder
        Where its `.npy` files are.
    name, classes, y, feature_names, record, edge_weight
        As of the graph.
    splits
        Sizes of their parts.
    nodes, edges
        How many there are.
    edge_columns
        What edges carry, if anything.
    known
        The files of the store, by name; None: all that are there.
    """
    files = dict(known or {})
    if known is None:
        paths = sorted(folder.glob("*.npy"))
        files = {path.stem: stored_array(path) for path in paths}
    manifest = Manifest(
        FORMAT,
        VERSION,
        name,
        nodes,
        edges,
        len(feature_names),
        int(np.count_nonzero(y >= 0)),
        classes.tolist(),
        classes.dtype.str,
        list(feature_names),
        list(splits),
        record,
        files,
        edge_columns,
        edge_weight,
    )
    plain = msgspec.to_builtins(manifest) | {"record": asdict(record)}
    content = json.dumps(plain, indent=1, ensure_ascii=False)
    _remember(folder, files)
    write_whole(folder / MANIFEST, content.encode() + b"\n")
    return manifest


def _arrays(graph: Graph) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a graph by the names that their files have."""
    yield from _texts("ids", graph.node_ids)
    yield from _csr("", graph.adj)
    if graph.directed is not None:
        yield from _csr("out_", graph.directed)
    if isinstance(graph.x, np.ndarray):
        yield "features", graph.x
    else:
        yield "features_data", graph.x.data
        yield from _csr("features_", graph.x)
    yield "labels", graph.y
    if graph.splits:
        parts = [part for split in graph.splits for part in split.parts.values()]
        yield "splits", np.concatenate(parts)
    if graph.times is not None:
        yield "times", graph.times
    if graph.groups is not None:
        yield "groups", graph.groups
    carried = graph.edge_columns
    if carried is not None:
        yield "edge_source", carried.source
        yield "edge_target", carried.target
        yield "edge_values", carried.values
        if carried.times is not None:
            yield "edge_times", carried.times


def _csr(prefix: str, matrix: CSR) -> Iterator[tuple[str, NDArray[Any]]]:
    if matrix.data.size and prefix != "features_" and not np.all(matrix.data == 1):
        raise InputError("must hold only ones", param=prefix)
    yield f"{prefix}indptr", matrix.indptr
    yield f"{prefix}indices", matrix.indices


def _texts(name: str, values: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield an array that can be mapped; of long texts, their bytes and their ends."""
    if values.dtype.kind != "O":
        yield name, values
        return
    texts = [str(value) for value in values.tolist()]
    if max(map(len, texts), default=0) <= WIDEST:
        yield name, np.array(texts, dtype=str)
        return
    coded = [text.encode("utf-8", "surrogatepass") for text in texts]
    yield f"{name}_ends", np.cumsum([len(text) for text in coded], dtype=np.int64)
    yield f"{name}_bytes", np.frombuffer(b"".join(coded), dtype=np.uint8)


def _write_array(path: Path, values: NDArray[Any]) -> None:
    matrix = values.ndim == 2
    with ArrayFile(path, values.dtype, values.shape, fortran=matrix) as file:
        if matrix:
            for column in range(values.shape[1]):
                file.put(column, values[:, column])
        else:
            for part in slices(len(values), BLOCK):
                file.append(values[part])


# ------------------------------------------------------------------------------ opening


def is_store(path: str | Path) -> bool:
    """Tell whether a folder is a graph store, or was meant to become one."""
    folder = Path(path)
    return (folder / MANIFEST).is_file() or (folder / STATE).is_file()


def open_store(
    folder: str | Path,
    *,
    verify: bool | None = None,
    mapped: bool | None = None,
) -> Graph:
    """Return the graph of a store; its arrays stay in their files.

    Parameters
    ----------
    folder
        Of `write_store` or `h2gcn convert`.
    verify
        Whether the checksums of all files are compared with the manifest's. None: of
        those that have changed, by their size or time, since that was last done. False:
        only the sizes are.
    mapped
        Whether dense features stay in their file; None: if they have more than 1 GB.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp(), "pair")
    >>> write_store(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]), folder)
    >>> open_store(folder)
    Graph('graph': 2 nodes, 1 edges, 2 features, 2 classes, 2 labelled)
    """
    for option, given in {"verify": verify, "mapped": mapped}.items():
        rule = "True, False or None"
        check_type(option, given, (bool, type(None)), rule)
    target = usable_path(folder)
    recover_store(target)
    manifest = read_manifest(target)
    _verify(target, manifest.files, verify)
    return _Opening(target, manifest, mapped).graph()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a store, or raise with why there is none."""
    file = folder / MANIFEST
    if not file.is_file():
        if (folder / STATE).is_file():
            raise InputError(
                "is a graph store that is not finished; 'h2gcn convert' "
                "with the same tables goes on with it.",
                where=str(folder),
            )
        raise InputError(f"is no graph store: it has no {MANIFEST}.", where=str(folder))
    content = parse_json(read_own(file), file)
    form = content.get("format") if isinstance(content, dict) else None
    if form != FORMAT:
        raise InputError("is not the manifest of a graph store.", where=str(file))
    if content.get("version") != VERSION:
        raise InputError(
            f"is a graph store of version {content.get('version')}, and this "
            f"h2gcn reads version {VERSION}; convert the tables again.",
            where=str(folder),
        )
    return conform(Manifest, content, file)


def _verify(
    folder: Path, files: Mapping[str, StoredArray], verify: bool | None
) -> None:
    """Raise where a file is not there, or not as the manifest has it."""
    before = {} if verify else _remembered(folder)
    changed = []
    for name, said in files.items():
        path = folder / f"{name}.npy"
        if Path(name).name != name:
            raise InputError(
                f"{name!r} is no name of a file.", where=str(folder / MANIFEST)
            )
        try:
            found = path.stat()
        except FileNotFoundError:
            raise InputError(
                "is missing, and the graph store cannot be used without it.",
                where=str(path),
            ) from None
        except OSError as error:
            raise cannot_read(path, error) from None
        if found.st_size != said.bytes:
            raise InputError(
                f"has {found.st_size:,} bytes, and {said.bytes:,} by the "
                "manifest of the graph store: it was changed, or not copied whole.",
                where=str(path),
            )
        if before.get(name) != _stamp(found, said):
            changed.append(name)
    if verify is False or not (changed or verify):
        return
    for name in changed:
        path = folder / f"{name}.npy"
        if checksum(path) != files[name].crc32:
            raise InputError(
                "its checksum is not that of the manifest: the file was "
                "changed; convert the tables again, or copy it once more.",
                where=str(path),
            )
    with suppress(InputError):  # of a folder that may only be read
        _remember(folder, files)


def _stamp(found: os.stat_result, said: StoredArray) -> list[int]:
    return [found.st_size, found.st_mtime_ns, said.crc32]


def _remember(folder: Path, files: Mapping[str, StoredArray]) -> None:
    """Note which files were just read whole, and are as they should be."""
    stamps = {
        name: _stamp((folder / f"{name}.npy").stat(), said)
        for name, said in files.items()
    }
    with atomic_write(folder / VERIFIED) as beside:
        beside.write_text(json.dumps(stamps), "utf-8")


def _remembered(folder: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_own(folder / VERIFIED), folder / VERIFIED)
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_header(
    path: Path,
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of a `.npy` file, and where its numbers begin."""
    try:
        with path.open("rb") as stream:
            major, _ = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0
            if major > 1:
                read = np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(stream)
            return shape, fortran, dtype, stream.tell()
    except OSError as error:
        raise cannot_read(path, error) from None
    except Exception as error:  # a damaged header is anything
        raise InputError(
            f"cannot be read as an array of numpy, .npy ({one_line(error)}).",
            where=str(path),
        ) from None


def mapped_matrix(folder: Path, n: int) -> CSR:
    """Return the symmetric matrix of a store that is being written, [n, n]."""
    indptr, indices = (
        np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c"))
        for name in ("indptr", "indices")
    )
    return CSR((np.ones(indices.size, dtype=np.float32), indices, indptr), (n, n))


class _Opening:
    """What is needed while a store is opened."""

    def __init__(self, folder: Path, manifest: Manifest, mapped: bool | None) -> None:
        self.folder, self.manifest, self.mapped = folder, manifest, mapped

    def graph(self) -> Graph:
        """Return the graph."""
        said = self.manifest
        n = said.nodes
        adj = self._matrix("", (n, n))
        y = self._array("labels", "i", (n,)).astype(np.int64, copy=False)
        classes = self._classes()
        self._check("labels", int(y.min(initial=0)) >= -1)
        self._check("labels", int(y.max(initial=-1)) < len(classes))
        has = said.files.keys()
        times = self._array("times", "Mf", (n,)) if "times" in has else None
        groups = self._array("groups", "i", (n,)) if "groups" in has else None
        self._check("indices", 2 * said.edges == adj.nnz)
        return unchecked_graph(
            x=self._features(),
            adj=adj,
            directed=self._matrix("out_", (n, n)) if "out_indptr" in has else None,
            y=y,
            classes=classes,
            node_ids=self._ids(),
            feature_names=tuple(said.feature_names),
            splits=tuple(self._splits()),
            name=said.name,
            record=said.record,
            edge_columns=self._edge_columns(),
            edge_weight=said.edge_weight,
            times=times,
            groups=groups,
        )

    def _check(self, name: str, is_sound: bool) -> None:
        """Raise where what a file holds cannot be."""
        if not is_sound:
            raise InputError(
                f"{self.folder / name}.npy: does not fit the manifest of the graph "
                "store; convert the tables again."
            )

    def _check_within(self, name: str, count: int) -> None:
        """Raise where indices are not from 0 to below a count: compiled code trusts it.

        They are read for it, as mapped pages would count as memory of the program.
        """
        indices = ArraySlices(self.folder / f"{name}.npy")
        for part in slices(len(indices), BLOCK):
            some = indices[part]
            self._check(name, int(some.min()) >= 0 and int(some.max()) < count)

    def _array(
        self, name: str, kinds: str, shape: tuple[int | None, ...]
    ) -> NDArray[Any]:
        """Return a file as a mapped array, once it is of a kind and shape."""
        path = self.folder / f"{name}.npy"
        if name not in self.manifest.files:
            raise InputError(
                f"names no file {path.name}.", where=str(self.folder / MANIFEST)
            )
        found, fortran, dtype, begin = _read_header(path)
        self._check(
            name,
            dtype.kind in kinds
            and not dtype.hasobject
            and len(found) == len(shape)
            and all(w in (None, have) for w, have in zip(shape, found, strict=True))
            and math.prod(found) * dtype.itemsize + begin == path.stat().st_size,
        )
        order: Any = "F" if fortran else "C"
        if not math.prod(found):
            return np.empty(found, dtype, order=order)
        try:
            # Copied when somebody writes, which nobody does: compiled code is the
            # same for all arrays that it may write to.
            return np.memmap(path, dtype, "c", begin, found, order)
        except OSError as error:
            raise cannot_read(path, error) from None

    def _matrix(self, prefix: str, shape: tuple[int, int]) -> CSR:
        indptr = np.asarray(self._array(f"{prefix}indptr", "i", (shape[0] + 1,)))
        indices = np.asarray(self._array(f"{prefix}indices", "i", (None,)))
        sound = indptr[0] == 0 and indptr[-1] == indices.size
        sound = sound and bool((indptr[1:] >= indptr[:-1]).all())
        self._check(f"{prefix}indptr", sound and indptr.dtype == indices.dtype)
        self._check_within(f"{prefix}indices", shape[1])
        if prefix == "features_":
            data = np.asarray(self._array("features_data", "f", indices.shape))
        else:
            data = np.ones(indices.size, dtype=np.float32)
        return CSR((data, indices, indptr), shape=shape)

    def _features(self) -> Any:
        said = self.manifest
        shape = (said.nodes, len(said.feature_names))
        if "features" not in said.files:
            return self._matrix("features_", shape)
        x = self._array("features", "f", shape)
        self._check("features", x.dtype == np.float32)
        mapped = x.nbytes > IN_MEMORY if self.mapped is None else self.mapped
        if mapped:
            return x
        plain = np.empty(shape, dtype=np.float32)
        for rows in row_slices(shape):
            plain[rows] = x[rows]
        return plain

    def _ids(self) -> NDArray[Any]:
        n = self.manifest.nodes
        if "ids" in self.manifest.files:
            return np.asarray(self._array("ids", "iufbUSM", (n,)))
        ends = self._array("ids_ends", "i", (n,))
        content = self._array("ids_bytes", "u", (None,)).tobytes()
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        self._check("ids_ends", bool((begins <= ends).all()))
        texts = np.empty(n, dtype=object)
        for node, (begin, end) in enumerate(
            zip(begins.tolist(), ends.tolist(), strict=True)
        ):
            texts[node] = content[begin:end].decode("utf-8", "surrogatepass")
        return texts

    def _classes(self) -> NDArray[Any]:
        said = self.manifest
        try:
            dtype = np.dtype(said.class_dtype)
            if dtype.kind not in "biufUO":
                raise ValueError(dtype)
            return np.array(said.classes, dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"'classes' are not of the type {said.class_dtype!r}.",
                where=str(self.folder / MANIFEST),
            ) from None

    def _splits(self) -> Iterator[Split]:
        sizes = self.manifest.splits
        if not sizes:
            return
        total = sum(map(sum, sizes))
        nodes = self._array("splits", "i", (total,))
        self._check_within("splits", self.manifest.nodes)
        at = 0
        for split in sizes:
            parts = []
            for size in split:
                parts.append(np.array(nodes[at : at + size], dtype=np.int64))
                at += size
            yield Split(*parts)

    def _edge_columns(self) -> EdgeColumns | None:
        said = self.manifest.edge_columns
        if said is None:
            return None
        source = np.asarray(self._array("edge_source", "i", (None,)))
        target = np.asarray(self._array("edge_target", "i", source.shape))
        for name, ends in (("edge_source", source), ("edge_target", target)):
            self._check(name, ends.dtype == np.int64)
            self._check_within(name, self.manifest.nodes)
        m = len(source)
        has_times = "edge_times" in self.manifest.files
        values = self._array("edge_values", "f", (m, len(said.names)))
        times = np.asarray(self._array("edge_times", "Mf", (m,))) if has_times else None
        return unchecked_edges(
            source=source,
            target=target,
            values=np.asarray(values),
            names=tuple(said.names),
            directed=said.directed,
            categories=tuple(said.categories),
            times=times,
        )
