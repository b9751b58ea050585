"""Graphs in npz archives: two layouts are read, and one of them is written."""

from __future__ import annotations

import json
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import (
    CSR,
    EdgeColumns,
    Graph,
    ReadRecord,
    Split,
    check_split_count,
)
from h2gcn.io.files import atomic_write, check_suffix, existing_file
from h2gcn.io.graph_parts import (
    adjacency_from_edges,
    check_features_room,
    encode_labels,
    fit_layout,
    from_scipy,
)
from h2gcn.io.mistakes import check_parts, listed, one_line
from h2gcn.sparse import check_memory

__all__ = ["Archive", "read_npz", "write_npz"]

_EDGE_LIST_KEYS = ("node_features", "node_labels", "edges")
_CSR_KEYS = tuple(
    f"{matrix}_{part}"
    for matrix in ("adj", "attr")
    for part in ("data", "indices", "indptr", "shape")
)
_PARTS = ("train", "val", "test")
_EDGE_KEYS = tuple(
    f"edge_{part}"
    for part in ("source", "target", "values", "names", "directed", "categories")
)


def read_npz(path: str | Path) -> Graph:
    """Read a graph from an npz archive of plain arrays; pickles are refused.

    Parameters
    ----------
    path
        Either of two layouts. Edge list (Platonov et al.): `node_features` [n, F],
        `node_labels` [n], `edges` [m, 2] without direction, and optionally
        `train_masks`, `val_masks`, `test_masks` [n_splits, n]. CSR (syn-cora, and
        what `write_npz` writes): `adj_*` and `attr_*` with `data`, `indices`,
        `indptr` and `shape`, optionally `labels` [n], and a split as index arrays
        `split_train`, `split_val`, `split_test`.
    """
    with Archive(path) as archive:
        try:
            if all(key in archive.keys for key in _CSR_KEYS):
                return _from_csr(archive)
            if all(key in archive.keys for key in _EDGE_LIST_KEYS):
                return _from_edge_list(archive)
        except InputError as error:
            said = str(error)
            prefix = "" if said.startswith(str(archive.path)) else f"{archive.path}: "
            raise InputError(prefix + said) from None
    raise InputError(
        f"the archive must hold {', '.join(_EDGE_LIST_KEYS)}, or adj_* "
        "and attr_* with data, indices, indptr and shape. "
        f"Keys: {listed(list(archive.keys))}.",
        where=str(archive.path),
    )


def write_npz(graph: Graph, path: str | Path, *, force: bool = True) -> None:
    """Write a graph so that `read_npz` returns it as it was, but for its name.

    Parameters
    ----------
    graph
        The graph; it is written in the CSR layout, `adj_*` and `attr_*` with
        `data`, `indices`, `indptr`, `shape`, and `labels` [n]. Beside these:
        `classes`, `node_ids`, `feature_names`, `attr_is_dense`, `record` (JSON), and
        where the graph has them `directed_*`, `split_<i>_<part>` and `edge_*`, the
        fields of its `EdgeColumns`.
    path
        A file name that ends in `.npz`.
    force
        Whether a file that is already there is replaced.
    """
    check_suffix(path, (".npz",))
    arrays: dict[str, Any] = {
        **_csr("adj", graph.adj),
        **_csr("attr", CSR(graph.x)),
        "attr_is_dense": np.array(isinstance(graph.x, np.ndarray)),
        "labels": graph.y,
        "classes": _plain(graph.classes),
        "node_ids": _plain(graph.node_ids),
        "feature_names": np.array(graph.feature_names, dtype=str),
        "record": np.array(json.dumps(asdict(graph.record))),
    }
    if graph.directed is not None:
        arrays |= _csr("directed", graph.directed)
    if graph.edge_columns is not None:
        arrays |= _edge_arrays(graph.edge_columns)
        arrays |= _time_arrays("edge", graph.edge_columns.times)
    arrays |= _time_arrays("node", graph.times)
    if graph.groups is not None:
        arrays["node_groups"] = graph.groups
    for number, split in enumerate(graph.splits):
        for part, index in split.parts.items():
            arrays[f"split_{number}_{part}"] = index
    with atomic_write(path, force=force) as beside, beside.open("wb") as handle:
        np.savez_compressed(handle, **arrays)


def _from_edge_list(archive: Archive) -> Graph:
    shape = archive.shape("node_features")
    archive.check_rows("node_labels", shape[0] if shape else 0)
    if len(shape) == 2:
        check_features_room(shape)
    x, edges = archive["node_features"], archive["edges"]
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise InputError("must be numbers, [n, F]", param="node_features", value=x)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError("must be [m, 2]", param="edges", value=edges)
    adj, _, record = adjacency_from_edges(
        edges[:, 0], edges[:, 1], x.shape[0], directed=False
    )
    y, classes = encode_labels(archive["node_labels"])
    return Graph(
        x=fit_layout(x),
        adj=adj,
        y=y,
        classes=classes,  # type: ignore[arg-type]
        splits=tuple(_mask_splits(archive, x.shape[0])),
        name=archive.path.stem,
        record=record,
    )


def _from_csr(archive: Archive) -> Graph:
    n, n_features = archive.csr_shape("attr")
    for key in ("labels", "node_ids"):
        archive.check_rows(key, n)
    archive.check_rows("feature_names", n_features)
    is_dense = archive.flag("attr_is_dense")
    n_stored = math.prod(archive.shape("attr_data"))
    check_features_room((n, n_features), None if is_dense else n_stored)
    with np.errstate(over="ignore"):
        x = archive.csr("attr").astype(np.float32)
    names, classes = archive.get("feature_names"), archive.get("classes")
    if classes is not None and classes.ndim != 1:
        raise InputError("must be 1-D", param="classes", value=classes)
    graph = from_scipy(
        archive.csr("adj"),
        # Our own files say how it was; others have what suits them.
        fit_layout(x) if is_dense is None else x.toarray() if is_dense else x,
        archive.get("labels"),
        classes=classes,
        node_ids=archive.get("node_ids"),
        feature_names=None if names is None else tuple(names.tolist()),
        splits=(*_mask_splits(archive, x.shape[0]), *_index_splits(archive)),
        name=archive.path.stem,
    )
    if "directed_indptr" in archive.keys:
        directed = archive.csr("directed", graph.adj.shape)
        graph = replace(graph, directed=directed)
    if any(key in archive.keys for key in _EDGE_KEYS):
        graph = replace(graph, edge_columns=_edge_columns(archive))
    if any(key in archive.keys for key in ("node_times", "node_dates", "node_groups")):
        times, groups = _times("node", archive), archive.get("node_groups")
        graph = replace(graph, times=times, groups=groups)
    record = archive.get("record")
    return graph if record is None else replace(graph, record=_record(record))


def _time_arrays(of: str, times: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    """Return times as numbers; those of dates are microseconds since 1970."""
    if times is None:
        return {}
    if times.dtype.kind == "M":
        return {f"{of}_dates": times.astype("datetime64[us]").astype(np.int64)}
    return {f"{of}_times": times}


def _times(of: str, archive: Archive) -> NDArray[Any] | None:
    dates: NDArray[Any] | None = archive.get(f"{of}_dates")
    if dates is None:
        return archive.get(f"{of}_times")
    if dates.dtype.kind != "i":
        raise InputError("must be microseconds", param=f"{of}_dates", value=dates)
    return dates.astype(np.int64).astype("datetime64[us]")


def _edge_arrays(columns: EdgeColumns) -> dict[str, NDArray[Any]]:
    parts = (
        columns.source,
        columns.target,
        columns.values,
        np.array(columns.names, dtype=str),
        np.array(columns.directed),
        np.array(columns.categories, dtype=str),
    )
    return dict(zip(_EDGE_KEYS, parts, strict=True))


def _edge_columns(archive: Archive) -> EdgeColumns:
    missing = [key for key in _EDGE_KEYS if key not in archive.keys]
    if missing:
        raise InputError(
            f"what edges carry is {', '.join(_EDGE_KEYS)}; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing."
        )
    source, target, values, *rest = (archive[key] for key in _EDGE_KEYS)
    names, directed, categories = (part.ravel().tolist() for part in rest)
    return EdgeColumns(
        source,
        target,
        values,
        tuple(names),
        directed=directed == [True],
        categories=tuple(categories),
        times=_times("edge", archive),
    )


def _record(text: NDArray[Any]) -> ReadRecord:
    try:
        values = json.loads(str(text))
        others = tuple(values.get("other_columns", ()))
        texts = {"notes": tuple(values["notes"]), "other_columns": others}
        record = ReadRecord(**{**values, **texts})
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError("'record' is not the record of a reader.") from None
    counts = (
        *(record.edges_read or 0, record.duplicates_merged, record.loops_dropped),
        *(record.symmetrised, record.unknown_dropped),
    )
    sound = (
        all(type(count) is int for count in counts)
        and isinstance(record.edges_read, int | None)
        and all(isinstance(t, str) for t in (*record.notes, *record.other_columns))
        and isinstance(record.tables, dict)
        and all(isinstance(name, str) for name in record.tables)
        and isinstance(record.id_column, str | None)
    )
    if not sound:
        raise InputError("'record' is not the record of a reader.")
    return record


def _mask_splits(archive: Archive, n: int) -> Iterator[Split]:
    for part in _PARTS:
        shape = archive.shape(f"{part}_masks")
        check_split_count(shape[0] if len(shape) > 1 else 1)
    masks = [archive.get(f"{part}_masks") for part in _PARTS]
    if all(mask is None for mask in masks):
        return
    check_parts(dict(zip((f"{part}_masks" for part in _PARTS), masks, strict=True)))
    arrays = [np.atleast_2d(np.asarray(mask)) for mask in masks]
    for part, array in zip(_PARTS, arrays, strict=True):
        if array.dtype.kind not in "biuf":
            raise InputError("must be a mask", param=f"{part}_masks", value=array)
    arrays = [array.astype(bool) for array in arrays]
    if len({array.shape for array in arrays}) > 1 or arrays[0].shape[1:] != (n,):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(f"the masks must be [n_splits, {n}], got {shapes}")
    for train, val, test in zip(*arrays, strict=True):
        yield Split(train=train, val=val, test=test)


def _index_splits(archive: Archive) -> Iterator[Split]:
    prefixes, number = ["split"], 0
    while f"split_{number}_train" in archive.keys:
        prefixes.append(f"split_{number}")
        number += 1
    check_split_count(number)
    for prefix in prefixes:
        parts = {part: archive.get(f"{prefix}_{part}") for part in _PARTS}
        found = {part: index for part, index in parts.items() if index is not None}
        if not found:
            continue
        check_parts({f"{prefix}_{part}": index for part, index in parts.items()})
        for part, index in found.items():
            if index.ndim != 1 or index.dtype.kind not in "iub":
                raise InputError(
                    "must be node indices", param=f"{prefix}_{part}", value=index
                )
        yield Split(**found)


def _csr(prefix: str, matrix: CSR) -> dict[str, NDArray[Any]]:
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that needs no pickle: objects become their text."""
    return values.astype(str) if values.dtype.kind == "O" else values


# What zipfile raises besides: RuntimeError for encrypted members, its subclass
# NotImplementedError for compression that it does not know; and what numpy runs into
# where the header of an array is damaged.
_DAMAGE = (
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
COPIES = 3
"""How often an array is in memory, about, while a graph is made of it."""


class Archive:
    """The arrays of an npz file, each read when it is asked for; a context manager.

    Parameters
    ----------
    path
        The file. What is in it is never unpickled, and no array is read that its
        header does not describe, or that would not fit in memory.

    Attributes
    ----------
    keys
        The names of the arrays, and their members in the archive.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = existing_file(path)
        with self._reading():
            if not zipfile.is_zipfile(path):
                raise InputError(
                    "this is not an npz archive, or it is cut short.", where=str(path)
                )
            self._archive = zipfile.ZipFile(path)
        self.keys: dict[str, zipfile.ZipInfo] = {
            info.filename.removesuffix(".npy"): info
            for info in self._archive.infolist()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of an array by its header; () where there is none."""
        return self._header(key)[0] if key in self.keys else ()

    def check_rows(self, key: str, count: int) -> None:
        """Raise where an array is there that is not [count], before it is read."""
        if key in self.keys and self.shape(key) != (count,):
            raise InputError(
                f"must have {count:,} entries, got shape {self.shape(key)}", param=key
            )

    def flag(self, key: str) -> bool | None:
        """Return one truth value, or None where there is none of that name."""
        if key not in self.keys:
            return None
        if math.prod(self.shape(key)) != 1 or self[key].dtype != bool:
            raise InputError("must be one truth value", param=key)
        return bool(self[key].all())

    def __getitem__(self, key: str) -> NDArray[Any]:
        """Return an array that is there."""
        if key not in self.keys:
            raise InputError(f"'{key}' is missing.", where=str(self.path))
        shape, dtype = self._header(key)
        size = math.prod(shape) * dtype.itemsize
        check_memory(f"{self.path}: '{key}', of shape {shape},", COPIES * size)
        with self._member(key) as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        # scipy knows numbers of this machine's byte order, and none of 16 bits.
        half = dtype.kind == "f" and dtype.itemsize == 2
        kind = np.dtype(np.float32) if half else dtype.newbyteorder("=")
        return array.astype(kind, copy=False)

    def _header(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array, once its member is as long as they say."""
        with self._member(key) as member:
            version = np.lib.format.read_magic(member)
            # Version 3 is version 2 in UTF-8, of which plain types need none.
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(member)
            begin = member.tell()
        if dtype.hasobject:
            raise InputError(
                f"'{key}' holds pickled Python objects; only plain arrays are read.",
                where=str(self.path),
            )
        if dtype.kind not in "biufUS":
            raise InputError(
                f"'{key}' holds {dtype}; only numbers and text are read.",
                where=str(self.path),
            )
        there = self.keys[key].file_size - begin
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != there:
            raise InputError(
                f"'{key}' is damaged: by its header it is {shape} of "
                f"{dtype}, but {there:,} bytes follow.",
                where=str(self.path),
            )
        return shape, dtype

    @contextmanager
    def _member(self, key: str) -> Iterator[IO[bytes]]:
        """Open a member of the archive; what is wrong with it is an `InputError`."""
        with self._reading(), self._archive.open(self.keys[key]) as member:
            yield member

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except _DAMAGE as error:
            raise InputError(
                f"the archive cannot be read ({one_line(error)}).", where=str(self.path)
            ) from None

    def get(self, key: str) -> NDArray[Any] | None:
        """Return an array, or None where there is none of that name."""
        return self[key] if key in self.keys else None

    def csr_shape(self, prefix: str) -> tuple[int, int]:
        """Return what `<prefix>_shape` says."""
        key = f"{prefix}_shape"
        if math.prod(self.shape(key)) == 2:
            sizes = self[key].ravel().tolist()
            if all(type(size) is int and size >= 0 for size in sizes):
                return sizes[0], sizes[1]
            raise InputError("must be two whole numbers", param=key, value=sizes)
        shape = self.shape(key)
        raise InputError(f"must be two whole numbers, got shape {shape}", param=key)

    def csr(self, prefix: str, shape: tuple[int, ...] | None = None) -> CSR:
        """Return the matrix `<prefix>_*` once nothing of it is taken on trust.

        Parameters
        ----------
        prefix
            How the names of its parts begin.
        shape
            Its shape; by default what `<prefix>_shape` says.
        """
        if shape is None:
            shape = self.csr_shape(prefix)
        self.check_rows(f"{prefix}_indptr", shape[0] + 1)
        data, indices, indptr = (
            self[f"{prefix}_{part}"] for part in ("data", "indices", "indptr")
        )
        sound = (
            len(shape) == 2
            and min(shape) >= 0
            and data.ndim == indices.ndim == indptr.ndim == 1
            and data.dtype.kind in "biuf"
            and indices.dtype.kind in "iu"
            and indptr.dtype.kind in "iu"
            and indptr.size == shape[0] + 1
            and indptr[0] == 0
            and bool((indptr[1:] >= indptr[:-1]).all())
            and indptr[-1] == indices.size == data.size
            and int(indices.min(initial=0)) >= 0
            and (indices.size == 0 or int(indices.max()) < shape[1])
        )
        if not sound:
            raise InputError(
                f"'{prefix}_*' is not a sound CSR matrix (lengths, index "
                "ranges or types do not fit its shape).",
                where=str(self.path),
            )
        return CSR((data, indices, indptr), shape=(shape[0], shape[1]))
