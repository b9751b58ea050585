"""The files that benchmarks come in: Geom-GCN's texts, and pickles.

A pickle can run any program when it is read, and a few bytes of one can ask for any
amount of memory. Planetoid's hold numpy arrays, scipy matrices and a dictionary of
lists, LINKX's a list of dictionaries of arrays or tensors, the parts of splits. So the
steps of a pickle are looked at first, and only then taken; what it builds are blanks of
our own, not objects of numpy, whose fields it could forge; and arrays are made of the
blanks once their types and lengths fit.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.datasets.raw_files import MOST_COLUMNS, reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, Split, check_split_count
from h2gcn.io import Archive, adjacency_from_edges

__all__ = [
    "read_array",
    "read_geom_gcn",
    "read_lists",
    "read_matrix",
    "read_planetoid",
    "read_split_files",
    "read_split_list",
]


def read_geom_gcn(folder: Path, prefix: str, *, word_lists: bool = False) -> Graph:
    """Read a folder of Geom-GCN's text files.

    Parameters
    ----------
    folder
        Holds `out1_node_feature_label.txt`, `out1_graph_edges.txt` and the ten
        split files.
    prefix
        What the split files' names begin with.
    word_lists
        Whether a node's features are the numbers of its words (Actor), or a whole
        row of values.
    """
    with reading(path := folder / "out1_node_feature_label.txt"):
        ids, texts, labels = _read_nodes(path)
        n = len(ids)
        order = np.argsort(ids, kind="stable")  # rows in the order of the ids
        if not np.array_equal(ids[order], np.arange(n)):
            raise InputError(f"the node ids must be 0 to {n - 1}, each once.")
        ordered = [texts[row] for row in order]
        x = _word_lists(ordered) if word_lists else _value_rows(ordered)
    with reading(path := folder / "out1_graph_edges.txt"):
        edges = _read_edges(path)
        adj, directed, record = adjacency_from_edges(edges[:, 0], edges[:, 1], n)
    splits = read_split_files(folder, prefix, n)
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=directed,
            y=labels[order],
            splits=splits,
            record=record,
        )


def _rows(path: Path, columns: str, separator: str | None) -> list[list[str]]:
    """Return the cells of a table without its header.

    Parameters
    ----------
    path
        A text file.
    columns
        What is in a line, in words, as many as there are columns.
    separator
        What stands between two cells; None for any blanks.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    rows = [line.split(separator) for line in lines if line.strip()]
    width = len(columns.split(", "))
    for number, row in enumerate(rows, start=2):
        if len(row) != width:
            raise InputError(
                f"a line must hold {columns}, {width} cells, got {len(row)} in line "
                f"{number}"
            )
    return rows


def _read_nodes(path: Path) -> tuple[NDArray[np.int64], list[str], NDArray[np.int64]]:
    rows = _rows(path, "id, features, label", "\t")
    if not rows:
        raise InputError("there are no nodes in it.")
    ids = np.array([int(row[0]) for row in rows], dtype=np.int64)
    labels = np.array([int(row[2]) for row in rows], dtype=np.int64)
    return ids, [row[1] for row in rows], labels


def _read_edges(path: Path) -> NDArray[np.int64]:
    rows = _rows(path, "source, target", None)
    ends = np.array([int(end) for row in rows for end in row], dtype=np.int64)
    return ends.reshape(-1, 2)


def _word_lists(texts: list[str]) -> CSR:
    words = [np.unique(np.array(text.split(","), dtype=np.int64)) for text in texts]
    indptr = np.cumsum([0, *map(len, words)])
    indices = np.concatenate(words)
    last = int(indices.max())
    if indices.min() < 0 or last >= MOST_COLUMNS:
        raise InputError(
            f"the numbers of words must be 0 to {MOST_COLUMNS - 1:,}, got "
            f"{indices.min()} to {last}"
        )
    ones = np.ones(len(indices), dtype=np.float32)
    return CSR((ones, indices, indptr), shape=(len(texts), last + 1))


def _value_rows(texts: list[str]) -> CSR:
    widths = {text.count(",") + 1 for text in texts}
    if len(widths) > 1 or max(widths) > MOST_COLUMNS:
        raise InputError(
            "every node must have the same number of values, at most "
            f"{MOST_COLUMNS:,}, got {min(widths)} to {max(widths)}"
        )
    rows = [CSR(np.array([text.split(",")], dtype=np.float64)) for text in texts]
    x = CSR(sp.vstack(rows))
    if not (np.abs(x.data) <= np.finfo(np.float32).max).all():
        raise InputError("the values must be finite in single precision.")
    return x.astype(np.float32)


def read_split_files(folder: Path, prefix: str, n_nodes: int) -> tuple[Split, ...]:
    """Read the ten Geom-GCN splits of a dataset (48/32/20, whatever their names).

    Parameters
    ----------
    folder, prefix
        Where the files are, and what their names begin with.
    n_nodes
        How long their masks must be.
    """
    splits = []
    for number in range(10):
        with reading(path := folder / f"{prefix}_split_0.6_0.2_{number}.npz"):
            archive = Archive(path)
            masks = [
                _mask(archive, f"{part}_mask", n_nodes)
                for part in ("train", "val", "test")
            ]
            splits.append(Split(*masks))
    return tuple(splits)


def _mask(archive: Archive, key: str, n_nodes: int) -> NDArray[Any]:
    mask = archive.get(key)
    if mask is None:
        raise InputError(f"'{key}' is missing.")
    if mask.shape != (n_nodes,) or mask.dtype.kind not in "biuf":
        raise InputError(
            f"must be [{n_nodes}], numbers, got shape {mask.shape} and dtype "
            f"{mask.dtype}",
            param=key,
        )
    return mask > 0


def read_planetoid(folder: Path, prefix: str) -> Graph:
    """Read the Planetoid files `ind.<prefix>.*` and the Geom-GCN splits beside them.

    Nodes of the test range that no file describes (Citeseer has 15) get no
    features and no label, and are taken out of every split.
    """
    x, y = _read_features_and_labels(folder, prefix)
    with reading(path := folder / f"ind.{prefix}.graph"):
        neighbours = read_lists(path)
        lengths = [len(row) for row in neighbours.values()]
        sources = np.repeat(np.array([*neighbours], dtype=np.int64), lengths)
        targets = np.array(
            [node for row in neighbours.values() for node in row], dtype=np.int64
        )
        adj, directed, record = adjacency_from_edges(sources, targets, x.shape[0])
    unlabelled = np.flatnonzero(y < 0)
    splits = tuple(
        Split(*(np.setdiff1d(part, unlabelled) for part in split.parts.values()))
        for split in read_split_files(folder, prefix, x.shape[0])
    )
    with reading(folder):
        return Graph(x=x, adj=adj, directed=directed, y=y, splits=splits, record=record)


def _read_features_and_labels(
    folder: Path, prefix: str
) -> tuple[CSR, NDArray[np.int64]]:
    def file(part: str) -> Path:
        return folder / f"ind.{prefix}.{part}"

    known, known_labels = read_matrix(file("allx")), read_array(file("ally"))
    placed, placed_labels = read_matrix(file("tx")), read_array(file("ty"))
    for part, labels, matrix in (
        ("ally", known_labels, known),
        ("ty", placed_labels, placed),
    ):
        if len(labels) != matrix.shape[0] or not labels.shape[1]:
            raise InputError(
                f"must be [{matrix.shape[0]}, classes], got shape {labels.shape}",
                where=str(file(part)),
            )
    if placed.shape[1] != known.shape[1]:
        raise InputError(
            f"must have {known.shape[1]} columns, as allx has, got {placed.shape[1]}",
            where=str(file("tx")),
        )
    test = _read_test_nodes(file("test.index"), known.shape[0], placed.shape[0])
    n = int(test.max()) + 1
    # Row i of tx belongs to the node that line i of the index file names.
    entries = sp.coo_array(placed)
    rest = CSR(
        (entries.data, (test[entries.coords[0]] - known.shape[0], entries.coords[1])),
        shape=(n - known.shape[0], known.shape[1]),
    )
    y = np.full(n, -1, dtype=np.int64)
    y[: len(known_labels)] = known_labels.argmax(axis=1)
    y[test] = placed_labels.argmax(axis=1)
    return CSR(sp.vstack([known, rest])), y


def _read_test_nodes(path: Path, first: int, count: int) -> NDArray[np.int64]:
    """Return the node of each row of tx; there are `first` nodes before them all."""
    with reading(path):
        words = path.read_text(encoding="ascii").split()
        test = np.array([int(word) for word in words], dtype=np.int64)
        # Few are described by no file, so that most numbers of the range are there.
        last = first + 2 * count - 1
        if (
            not count
            or len(test) != count
            or len(np.unique(test)) != count
            or not first <= test.min() <= test.max() <= last
        ):
            raise InputError(
                f"it must hold the {count} nodes of tx, each once, in {first} to "
                f"{last}, got {len(test)} nodes"
            )
    return test


# ------------------------------------------------------------------------------ pickles

MOST_STEPS = 5_000_000
"""Of a pickle; the longest of Planetoid's has 178,216."""

_STEPS = {
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "MEMOIZE", "PUT", "BINPUT"),
    *("LONG_BINPUT", "GET", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING"),
    *("BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2"),
    *("TUPLE3", "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT"),
    *("SETITEM", "SETITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD"),
}
"""What pickles of arrays, lists and dictionaries take, in the words of pickletools."""

_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")
"""The types that an array may have."""


class _Blank:
    """What stands for a thing that a pickle names; it keeps what it is given.

    A pickle can set fields of any object, of a class too, unless the object itself
    takes what it is given: so every blank has `__setstate__`.
    """

    __slots__ = ("arguments", "state")

    def __init__(self, *arguments: object) -> None:
        self.arguments, self.state = arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Blank):
    """A blank for numpy.dtype."""

    __slots__ = ()

    def dtype(self) -> np.dtype[Any]:
        """Return the type of numbers that is meant."""
        name = self.arguments[0] if self.arguments else None
        order = "=" if self.state is None else self.state[1]
        if not isinstance(name, str) or not _NUMBERS.fullmatch(name):
            raise InputError(f"an array must hold numbers, got type {str(name)[:80]}")
        if not isinstance(order, str) or order not in ("<", ">", "=", "|"):
            raise InputError("the byte order of an array must be <, >, = or |.")
        return np.dtype(name).newbyteorder(order)  # type: ignore[arg-type]


class _Array(_Blank):
    """A blank for numpy's function that makes an empty array."""

    __slots__ = ()

    def things(self) -> list[Any]:
        """Return what an array of objects holds, in one dimension."""
        state = self.state
        if not isinstance(state, tuple) or len(state) != 5:
            raise InputError("an array has no content.")
        _, shape, kind, _, content = state
        objects = isinstance(kind, _Type) and kind.arguments[:1] in (("O8",), ("O",))
        if not objects or not isinstance(content, list):
            raise InputError("it must be an array of objects.")
        if _sizes(shape) != (len(content),):
            raise InputError(
                f"an array of shape {_sizes(shape)} must hold as many objects, got "
                f"{len(content):,}"
            )
        return content

    def array(self) -> NDArray[Any]:
        """Return the array, made of the bytes that are there."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise InputError("an array has no content.")
        _, shape, kind, by_columns, content = self.state
        if isinstance(content, str):  # of Python 2: a byte is a character
            content = content.encode("latin1")
        if not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise InputError("an array must be bytes of one type.")
        dtype = kind.dtype()
        sizes = _sizes(shape)
        wanted = dtype.itemsize
        for size in sizes:
            wanted *= size
        if wanted != len(content):
            raise InputError(
                f"an array of shape {sizes} takes {wanted:,} bytes, got "
                f"{len(content):,}"
            )
        flat = np.frombuffer(content, dtype=dtype)
        array = flat.reshape(sizes, order="F" if by_columns else "C")
        return array.astype(dtype.newbyteorder("="))


class _Storage(_Blank):
    """A blank for torch's function that makes the numbers of a tensor out of bytes."""

    __slots__ = ()


class _Tensor(_Blank):
    """A blank for torch's function that makes a tensor of its numbers."""

    __slots__ = ()

    def array(self) -> NDArray[Any]:
        """Return a list of whole numbers, read by torch's restricted reader."""
        import torch

        storage, first, sizes, steps = (*self.arguments, *[None] * 4)[:4]
        content = storage.arguments[:1] if isinstance(storage, _Storage) else ()
        if len(content) != 1 or not isinstance(content[0], bytes) or steps != (1,):
            raise InputError("a tensor must be a list of numbers.")
        try:
            read = torch.load(io.BytesIO(content[0]), weights_only=True)
            numbers = torch.empty(0, dtype=read.dtype).set_(read).numpy()
        except Exception as error:  # of torch, which has many
            words = " ".join(str(error).split())[:120]
            raise InputError(f"a tensor cannot be read ({words})") from None
        (length,) = _sizes(sizes)
        if type(first) is not int or not 0 <= first <= len(numbers) - length:
            raise InputError(
                f"a tensor must lie inside of its numbers, got {length:,} of "
                f"{len(numbers):,}, from {str(first)[:20]} on"
            )
        return numbers[first : first + length].copy()


class _Matrix(_Blank):
    """A blank for scipy's csr_matrix."""

    __slots__ = ()

    def csr(self) -> CSR:
        """Return the matrix, once nothing of it is taken on trust."""
        state = getattr(self, "state", None)
        parts = state if isinstance(state, dict) else {}
        data, indices, indptr = (
            part.array() if isinstance(part := parts.get(name), _Array) else None
            for name in ("data", "indices", "indptr")
        )
        if data is None or indices is None or indptr is None:
            raise InputError("a matrix must have data, indices and indptr.")
        shape = _sizes(parts.get("_shape", parts.get("shape")))
        if len(shape) != 2 or shape[1] > MOST_COLUMNS:
            raise InputError(
                f"a matrix must have two sides, and at most {MOST_COLUMNS:,} "
                f"columns, got shape {shape}"
            )
        if not indices.dtype.kind == indptr.dtype.kind == "i":
            raise InputError("the indices of a matrix must be integers.")
        if shape[0] + 1 != len(indptr):
            raise InputError(
                f"a matrix of {shape[0]:,} rows has {shape[0] + 1:,} pointers to "
                f"rows, got {len(indptr):,}"
            )
        matrix = sp.csr_matrix((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        if not np.isfinite(matrix.data).all():
            raise InputError("a matrix must hold finite numbers.")
        return CSR(matrix)


class _Dict(_Blank):
    """A blank for dictionaries of collections: what one is called with is not used."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Any:
        return {}


class _Mark(_Blank):
    """Stands for classes that pickles name and have no reason to call."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Any:
        raise InputError("the pickle builds a thing that is none of arrays and lists.")


_BLANKS: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _Mark,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): _Dict,
    ("collections", "OrderedDict"): _Dict,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    ("torch.storage", "_load_from_bytes"): _Storage,
    ("__builtin__", "list"): _Mark,
    ("builtins", "list"): _Mark,
}


class _Unpickler(pickle.Unpickler):
    """Builds blanks, and nothing else that has a name."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the blank for what a pickle names, if there is one."""
        try:
            return _BLANKS[module, name]
        except KeyError:
            raise InputError(
                f"the pickle names {module}.{name}, which no array needs; it was "
                "not read"
            ) from None


def read_matrix(path: Path) -> CSR:
    """Read a pickled scipy matrix, or a numpy array of two dimensions."""
    with reading(path):
        read = _unpickle(path)
        if isinstance(read, _Matrix):
            return read.csr()
        if isinstance(read, _Array) and (array := read.array()).ndim == 2:
            return CSR(array)
        raise InputError("it must hold a matrix.")


def read_array(path: Path) -> NDArray[Any]:
    """Read a pickled numpy array of two dimensions."""
    with reading(path):
        read = _unpickle(path)
        if isinstance(read, _Array) and (array := read.array()).ndim == 2:
            return array
        raise InputError("it must hold an array of two dimensions.")


def read_lists(path: Path) -> dict[int, list[int]]:
    """Read a pickled dictionary from integers to lists of integers."""
    with reading(path):
        read = _unpickle(path)
        if not isinstance(read, dict) or not all(
            type(key) is int and type(row) is list for key, row in read.items()
        ):
            raise InputError("it must hold a dictionary of lists.")
        # A list that is there once can be named a million times.
        if sum(map(len, read.values())) > path.stat().st_size:
            raise InputError("its lists are longer together than the file.")
        if not all(type(value) is int for row in read.values() for value in row):
            raise InputError("its lists must hold integers.")
        return read


def read_split_list(path: Path, n_nodes: int) -> tuple[Split, ...]:
    """Read LINKX's splits: an npy file of dictionaries of train, valid and test.

    Parameters
    ----------
    path
        Written by numpy.save, as an array of objects.
    n_nodes
        How many nodes there are.
    """
    with reading(path):
        content = path.read_bytes()
        file = io.BytesIO(content)
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise InputError(f"it must be of numpy's version 1.0, got {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if not dtype.hasobject or len(shape) != 1:
            raise InputError(f"it must hold a list of splits, got {shape} of {dtype}")
        check_split_count(shape[0])
        read = _unpickled(file.read())
        things = read.things() if isinstance(read, _Array) else None
        if things is None or len(things) != shape[0]:
            raise InputError("it must hold a list of splits.")
        splits, size = [], 0
        for thing in things:
            splits.append(_split_of(thing, n_nodes))
            # An array that is there once can be named a thousand times.
            size += sum(splits[-1].sizes)
            if size > len(content):
                raise InputError("its splits are longer together than the file.")
        return tuple(splits)


def _split_of(thing: Any, n_nodes: int) -> Split:
    """Return a split, made of a dictionary of arrays."""
    parts = []
    for name in ("train", "valid", "test"):
        part = thing.get(name) if isinstance(thing, dict) else None
        index = part.array() if isinstance(part, _Array | _Tensor) else None
        if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
            raise InputError(f"a split must hold '{name}', numbers of nodes.")
        if index.size and not 0 <= index.min() <= index.max() < n_nodes:
            raise InputError(
                f"the nodes of a split must lie in 0 … {n_nodes - 1}, got "
                f"{index.min()} to {index.max()} in '{name}'"
            )
        parts.append(np.sort(index))
    return Split(*parts)


def _unpickle(path: Path) -> Any:
    return _unpickled(path.read_bytes())


def _unpickled(content: bytes) -> Any:
    try:
        _look_at(content)
        # From memory, where nobody can read more than there is.
        return _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except InputError:
        raise
    except (pickle.UnpicklingError, AttributeError, EOFError, ValueError) as error:
        raise InputError(f"not a pickle of arrays ({error})") from None


def _look_at(content: bytes) -> None:
    """Raise where a step is none of those that arrays and lists take."""
    named = 0
    for count, (step, argument, _) in enumerate(pickletools.genops(content)):
        if step.name not in _STEPS:
            raise InputError(
                f"the pickle takes the step {step.name}, which no array needs; it was "
                "not read"
            )
        if count > MOST_STEPS:
            raise InputError(f"a pickle must have at most {MOST_STEPS:,} steps.")
        if "PUT" in step.name or step.name == "MEMOIZE":
            named += 1
            # The table of what is named is as long as its largest number.
            if argument is not None and not 0 <= int(argument) <= named:
                raise InputError(
                    f"the pickle calls its thing {named:,} number {argument:,}; it was "
                    "not read"
                )


def _sizes(shape: Any) -> tuple[int, ...]:
    """Return the shape of an array, if it is one."""
    whole = isinstance(shape, tuple) and len(shape) <= 8
    if not whole or not all(type(one) is int and 0 <= one < 2**40 for one in shape):
        raise InputError("the shape of an array must be counts.")
    return tuple(shape)
