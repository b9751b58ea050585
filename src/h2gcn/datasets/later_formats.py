"""The files that later benchmarks come in: MATLAB's, npz, and CSV, packed or not.

What is large is read some rows at a time into arrays that are made once; how much they
take is judged before. Of MATLAB's files only the variables that are wanted are read,
and only numbers.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.datasets.formats import read_split_list
from h2gcn.datasets.raw_files import MOST_COLUMNS, opened, reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, ReadRecord, Split
from h2gcn.io import (
    Archive,
    adjacency_from_edges,
    check_features_room,
    fit_layout,
    listed,
    read_npz,
    worth_sparse,
)
from h2gcn.sparse import check_memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "csv_blocks",
    "quantile_classes",
    "read_archive",
    "read_facebook",
    "read_graphland",
    "read_matlab",
    "read_ogb",
    "read_twitch_gamers",
]

BLOCK = 2**22
"""Bytes of a table that are read at a time."""
YEARS = 5
"""Classes that years are made into."""


# ----------------------------------------------------------------------- npz archives


def read_archive(
    folder: Path, file: str, *, directed: bool = False, words: bool = False
) -> Graph:
    """Read an npz archive of one of the layouts of `h2gcn.io.read_npz`.

    Parameters
    ----------
    folder, file
        Where it is.
    directed
        Whether the list of edges is one with directions.
    words
        Whether features are words, of which only matters whether they are there: what
        is above 0 is made 1, as Shchur et al. (2018) do it.
    """
    with reading(path := folder / file):
        graph = read_npz(path)
        if directed:
            with Archive(path) as archive:
                ends = archive["edges"]
            adj, one_way, record = adjacency_from_edges(
                ends[:, 0], ends[:, 1], graph.n_nodes
            )
            graph = replace(graph, adj=adj, directed=one_way, record=record)
        if words:
            x = graph.x.copy()
            values = x if isinstance(x, np.ndarray) else x.data
            values[values > 0] = 1
            graph = replace(graph, x=x)
        return graph


# ----------------------------------------------------------------- LINKX's .mat files


def read_facebook(folder: Path, file: str, *, splits: str | None = None) -> Graph:
    """Read a university of Facebook 100 (Traud et al. 2012), as Lim et al. (2021) do.

    The class is the gender, of which 0 is not known. All else that is known of a person
    (status, major, minor, house, year, school) are categories, a column for each value,
    that of what is not known too.

    Parameters
    ----------
    folder, file
        Where `A` [n, n], sparse, and `local_info` [n, 7] are.
    splits
        The file of the splits beside it, if there is one.
    """
    with reading(path := folder / file):
        found = _variables(path, ("A", "local_info"))
        matrix, info = found["A"], _whole("local_info", found["local_info"])
        if not _is_sparse(matrix) or matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                f"must be a sparse square, got shape {matrix.shape}", param="A"
            )
        n = matrix.shape[0]
        if info.shape != (n, 1 + len(_FACEBOOK)):
            raise InputError(
                f"must be [{n}, 7], whole numbers, got shape {info.shape}",
                param="local_info",
            )
        ends: Any = sp.coo_array(matrix)
        there = ends.data != 0
        adj, directed, record = adjacency_from_edges(
            ends.coords[0][there], ends.coords[1][there], n
        )
        x, names = _coded(np.delete(info, 1, axis=1), _FACEBOOK)
        y = info[:, 1] - 1
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=directed,
            y=y,
            feature_names=names,
            splits=read_split_list(folder / splits, n) if splits else (),
            record=record,
        )


_FACEBOOK = ("status", "major", "minor", "house", "year", "school")


def _coded(
    values: NDArray[Any], names: Sequence[str], *, pairs: bool = True
) -> tuple[CSR, tuple[str, ...]]:
    """Return a column for each value of each category, [n, F], and what they are.

    Parameters
    ----------
    values, names
        The categories, [n, k], and their names, [k].
    pairs
        Whether a category of two values has two columns, or that of the larger alone.
    """
    parts: list[CSR] = []
    found: list[str] = []
    for name, column in zip(names, values.T, strict=True):
        kinds, codes = np.unique(column, return_inverse=True)
        first = 1 if len(kinds) == 2 and not pairs else 0
        there = np.flatnonzero(codes >= first)
        ones = np.ones(len(there), dtype=np.float32)
        shape = (len(column), len(kinds) - first)
        if len(found) + shape[1] > MOST_COLUMNS:
            raise InputError(f"there must be at most {MOST_COLUMNS:,} categories.")
        parts.append(CSR((ones, (there, codes[there] - first)), shape=shape))
        found += [f"{name}={kind:.10g}" for kind in kinds[first:].tolist()]
    return CSR(sp.hstack(parts, format="csr")), tuple(found)


def read_matlab(
    folder: Path,
    file: str,
    *,
    name: str,
    splits: str | None = None,
    years: bool = False,
) -> Graph:
    """Read a graph that Lim et al. (2021) keep in a .mat file.

    Parameters
    ----------
    name
        Of the graph; given here, for to rename a large one is to copy it.
    folder, file
        Where `edge_index` [2, m], with directions, `node_feat` [n, F], dense or sparse,
        and `label` or `years` [n] are.
    splits
        The file of the splits beside it, if there is one.
    years
        Whether the classes are made of years, see `quantile_classes`.
    """
    with reading(path := folder / file):
        key = "years" if years else "label"
        found = _variables(path, ("edge_index", "node_feat", key))
        x = found.pop("node_feat")
        n = x.shape[0]
        values = found[key]
        if _is_sparse(values) or values.size != n:
            raise InputError(f"must have {n:,} values", param=key)
        y = (
            quantile_classes(values.ravel(), YEARS)
            if years
            else _whole(key, values).ravel()
        )
        ends = _whole("edge_index", found.pop("edge_index"))
        if ends.ndim != 2 or len(ends) != 2:
            raise InputError(
                f"must be [2, m], got shape {ends.shape}", param="edge_index"
            )
        adj, directed, record = adjacency_from_edges(ends[0], ends[1], n)
        del ends
        x = fit_layout(x)
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=directed,
            y=y,
            splits=read_split_list(folder / splits, n) if splits else (),
            name=name,
            record=record,
        )


def quantile_classes(values: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return classes of about equal size, the smallest values first, [n].

    Class k are the values from the k-th quantile on and below the next one, as of Lim
    et al. (2021); equal values are of one class. NaN is of none, -1.

    Parameters
    ----------
    values
        Such as years, [n].
    count
        How many classes.

    Examples
    --------
    >>> quantile_classes(np.array([2001, 2001, 2002, 2003, 2009, np.nan]), 2).tolist()
    [0, 0, 1, 1, 1, -1]
    """
    numbers = np.asarray(values, dtype=np.float64)
    classes = np.full(len(numbers), -1, dtype=np.int64)
    if np.isinf(numbers).any() or np.isnan(numbers).all():
        raise InputError("years must be finite numbers.")
    bounds = np.nanquantile(numbers, [k / count for k in range(1, count)])
    known = ~np.isnan(numbers)
    classes[known] = np.searchsorted(bounds, numbers[known], side="right")
    return classes


_NUMBERS = {
    *("double", "single", "logical", "sparse"),
    *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)),
}
"""What scipy calls the variables of a .mat file that hold numbers."""


_MATRIX, _COMPRESSED = 14, 15
_OF_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18})
"""Codes that the parts of a variable may have: scipy trusts them, and any other would
have it follow an address that is none."""


def _check_tags(file: IO[bytes]) -> None:
    """Raise where a .mat file of today's format names a type that there is not."""
    head = file.read(128)
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    if order is None:  # an older format, which has other tags
        return
    while True:
        tag = file.read(8)
        if len(tag) < 8:
            return
        kind, size = struct.unpack(f"{order}II", tag)
        given = io.BytesIO(file.read(size))
        content: io.BytesIO | _Inflated = given
        if kind == _COMPRESSED:
            content = _Inflated(given)
            kind, size = struct.unpack(f"{order}II", content.read(8).ljust(8, b"\0"))
        if kind == _MATRIX:
            _check_parts(content, order, size)


def _check_parts(content: io.BytesIO | _Inflated, order: str, size: int) -> None:
    """Raise where a part of a variable has a type that there is not."""
    done = 0
    while done < size:
        tag = content.read(8)
        if len(tag) < 8:
            return
        kind, count = struct.unpack(f"{order}II", tag)
        small = kind >> 16  # four bytes or less stand in the tag itself
        kind, count = (kind & 0xFFFF, 0) if small else (kind, count)
        # Variables in a variable are no numbers, and are refused before they are read.
        if kind not in _OF_NUMBERS | {_MATRIX}:
            raise InputError(f"the file is damaged (it has no type {kind})")
        left = -(-count // 8) * 8
        done += 8 + left
        while left:
            read = len(content.read(min(left, 2**20)))
            if not read:
                return
            left -= read


class _Inflated:
    """What was compressed, read from the beginning."""

    def __init__(self, compressed: io.BytesIO) -> None:
        self._compressed, self._inflate = compressed, zlib.decompressobj()

    def read(self, count: int) -> bytes:
        """Return the next bytes, as many as there are."""
        found = b""
        while len(found) < count and not self._inflate.eof:
            more = self._inflate.unconsumed_tail or self._compressed.read(2**16)
            if not more:
                break
            found += self._inflate.decompress(more, count - len(found))
        return found


def _variables(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return some variables of a .mat file: arrays, or sparse matrices that are sound.

    Their names, kinds and shapes are looked at first.
    """
    from scipy.io import loadmat, matlab, whosmat

    try:
        with opened(path) as raw, warnings.catch_warnings():
            file: Any = raw
            warnings.simplefilter("ignore")  # of scipy, about what is refused below
            try:
                _check_tags(file)
            except zlib.error as error:
                raise _damaged(error) from None
            file.seek(0)
            there = {name: (shape, kind) for name, shape, kind in whosmat(file)}
            for name in names:
                if name not in there:
                    have = listed(list(there)) or "none"
                    raise InputError(f"'{name}' is missing. Variables: {have}.")
                shape, kind = there[name]
                if kind not in _NUMBERS:
                    raise InputError(f"must hold numbers, got {kind}", param=name)
                if kind != "sparse":
                    what = f"'{name}', of shape {shape},"
                    check_memory(what, 2 * 8 * math.prod(shape))
            file.seek(0)
            found = loadmat(file, variable_names=list(names))
    except matlab.MatReadError as error:
        raise _damaged(error) from None
    read: dict[str, Any] = {name: found.get(name) for name in names}
    for name, value in read.items():
        if _is_sparse(value):
            value.check_format(full_check=True)
            numbers = value.data
        elif isinstance(value, np.ndarray):
            numbers = value
        else:
            raise InputError(f"'{name}' cannot be read.")
        if numbers.dtype.kind not in "biuf":
            raise InputError(f"must hold numbers, got {numbers.dtype}", param=name)
    return read


def _is_sparse(value: Any) -> bool:
    found: bool = sp.issparse(value)
    return found


def _whole(name: str, values: Any) -> NDArray[np.int64]:
    """Return what should be whole numbers as such, or raise."""
    if _is_sparse(values):
        raise InputError("must be dense", param=name)
    numbers = np.asarray(values)
    if numbers.dtype.kind in "biu" and numbers.dtype != np.uint64:
        return numbers.astype(np.int64, copy=False)
    if not (np.abs(numbers.astype(np.float64)) < 2**53).all() or np.any(
        numbers != np.rint(numbers)
    ):
        raise InputError("must hold whole numbers", param=name)
    return numbers.astype(np.int64)


# ---------------------------------------------------------------------- tables of text


def csv_blocks(
    path: Path, kind: str = "float32", columns: Sequence[str] | None = None
) -> Iterator[NDArray[Any]]:
    """Yield the rows of a table, many at a time, [rows, columns] each.

    Parameters
    ----------
    path
        A file of CSV; packed by gzip where its name ends in .gz.
    kind
        Of every cell, by Arrow's name. What is missing is NaN among float32, and
        refused among others.
    columns
        Those that are wanted, by their names in the first line. None: all, of a table
        without such a line, and finite numbers throughout.
    """
    with reading(path):
        for batch in _batches(path, kind, columns):
            if not batch.num_rows:
                continue
            if kind != "float32" and any(column.null_count for column in batch):
                raise InputError("no cell may be empty.")
            # What is missing becomes NaN.
            block = np.column_stack(
                [column.to_numpy(zero_copy_only=False) for column in batch]
            )
            if columns is None and not np.isfinite(block).all():
                raise InputError("it must hold finite numbers")
            yield block


def _batches(
    path: Path, kinds: str | Mapping[str, str], columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table whose cells are all of a kind, or each column of its."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    packed = path.suffix == ".gz"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as first:
            head = first.readline(20 * MOST_COLUMNS)
        names = [f"f{column}" for column in range(head.count(b",") + 1)]
        if len(names) > MOST_COLUMNS:
            raise InputError(f"it must have at most {MOST_COLUMNS:,} columns")
        if columns is not None:
            names = _names(head)
            if missing := [name for name in columns if name not in names]:
                raise InputError(
                    f"the column {missing[0]!r} is missing. Columns: {listed(names)}."
                )
        # Named, for the first rows need not tell what the last ones hold.
        types = {
            name: pa.type_for_alias(kinds if isinstance(kinds, str) else kinds[name])
            for name in (names if columns is None else columns)
        }
        with opened(path) as file:
            source: Any = pa.PythonFile(file, "r")
            if packed:
                source = pa.CompressedInputStream(source, "gzip")
            with arrow.open_csv(
                source,
                read_options=arrow.ReadOptions(
                    autogenerate_column_names=columns is None, block_size=BLOCK
                ),
                convert_options=arrow.ConvertOptions(
                    column_types=types, include_columns=columns or []
                ),
            ) as reader:
                for batch in reader:
                    file.raw.tell_progress()
                    yield batch
    except pa.ArrowException as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> InputError:
    """Return what a library has to say, in one line."""
    words = " ".join(str(error).split())
    return InputError(f"the file is damaged ({words[:200]})")


def _names(head: bytes) -> list[str]:
    """Return the names of the columns that the first line of a table gives."""
    rows = list(csv.reader([head.decode("utf-8-sig").rstrip("\r\n")]))
    return rows[0] if rows else []


def _first_two(path: Path) -> list[str]:
    """Return the names of the first two columns of a table."""
    with reading(path), path.open("rb") as file:
        names = _names(file.readline(20 * MOST_COLUMNS))
        if len(names) < 2:
            raise InputError(f"it must have two columns, got {len(names)}")
        return names[:2]


def _table(
    path: Path,
    n_rows: int,
    kind: str = "float32",
    columns: Sequence[str] | None = None,
) -> NDArray[Any]:
    """Return a table of a known number of rows as one array, [n_rows, columns].

    Parameters
    ----------
    path, kind, columns
        As of `csv_blocks`.
    n_rows
        How many rows it must have.
    """
    table, done = np.empty((0, 0)), 0
    for block in csv_blocks(path, kind, columns):
        if not done:
            shape = (n_rows, block.shape[1])
            check_memory(
                f"{path}: a table of shape {shape}", block.itemsize * math.prod(shape)
            )
            table = np.empty(shape, dtype=block.dtype)
        done += len(block)
        if done > n_rows:
            break
        table[done - len(block) : done] = block
    if done != n_rows:
        got = "more" if done > n_rows else f"{done:,}"
        raise InputError(f"it must have {n_rows:,} rows, got {got}", where=str(path))
    return table


def _count(path: Path) -> int:
    """Return the one number that a file holds."""
    blocks = list(csv_blocks(path, "int64"))
    if len(blocks) != 1 or blocks[0].shape != (1, 1) or blocks[0][0, 0] < 0:
        raise InputError("it must hold one count.", where=str(path))
    return int(blocks[0][0, 0])


def _edges(
    path: Path,
    n_nodes: int,
    columns: Sequence[str] | None = None,
    n_edges: int | None = None,
    *,
    directed: bool | None,
) -> tuple[CSR, CSR | None, ReadRecord]:
    """Return what `adjacency_from_edges` makes of a table of edges.

    Parameters
    ----------
    path, columns
        As of `csv_blocks`.
    n_nodes
        How many nodes there are.
    n_edges
        How many rows it must have, where that is known.
    directed
        As of `adjacency_from_edges`.
    """
    kind = np.int32 if n_nodes <= np.iinfo(np.int32).max else np.int64
    with reading(path):
        ends, done = np.empty((2, 0), dtype=kind), 0
        for block in csv_blocks(path, "int64", columns):
            if block.shape[1] != 2:
                raise InputError(f"an edge has two ends, got {block.shape[1]}")
            if not 0 <= block.min() <= block.max() < n_nodes:
                wrong = block.min() if block.min() < 0 else block.max()
                raise InputError(
                    f"the ends of edges must lie in 0 … {n_nodes - 1}, as there are "
                    f"{n_nodes} nodes, got {wrong}"
                )
            first, done = done, done + len(block)
            if n_edges is not None and done > n_edges:
                raise InputError(f"it must have {n_edges:,} edges, got more")
            if done > ends.shape[1]:  # at once where their number is known
                held = max(done, 2 * first) if n_edges is None else n_edges
                check_memory(f"a list of {held:,} edges", 2 * ends.itemsize * held)
                longer = np.empty((2, held), dtype=kind)
                longer[:, :first] = ends[:, :first]
                ends = longer
            ends[:, first:done] = block.T
        if n_edges is not None and done < n_edges:
            raise InputError(f"it must have {n_edges:,} edges, got {done:,}")
        return adjacency_from_edges(
            ends[0, :done], ends[1, :done], n_nodes, directed=directed
        )


# ----------------------------------------------------------------- OGB's packed tables


def read_ogb(
    folder: Path,
    *,
    name: str,
    split: str,
    directed: bool | None = None,
    years: str | None = None,
) -> Graph:
    """Read a graph of the Open Graph Benchmark (Hu et al. 2020).

    Parameters
    ----------
    folder
        Holds `raw/edge.csv.gz`, `node-feat.csv.gz`, `node-label.csv.gz` and the counts
        of nodes and edges, and `split/<split>/train.csv.gz`, `valid` and `test`.
    name
        Of the graph.
    split
        The name of the split.
    directed
        False: each row is an edge without a direction.
    years
        A file of LINKX's splits beside these. With it, classes are made of
        `raw/node_year.csv.gz` (see `quantile_classes`), and OGB's split is not read.
    """
    raw = folder / "raw"
    n = _count(raw / "num-node-list.csv.gz")
    n_edges = _count(raw / "num-edge-list.csv.gz")
    labels = "node-label" if years is None else "node_year"
    y = _table(path := raw / f"{labels}.csv.gz", n, "int64")
    if y.shape != (n, 1):
        raise InputError(f"a node has one label, got {y.shape[1]}", where=str(path))
    if years is None:
        parts = (
            _index(folder / "split" / split / f"{part}.csv.gz", n)
            for part in ("train", "valid", "test")
        )
        splits: tuple[Split, ...] = (Split(*parts),)
        classes = y[:, 0]
    else:
        splits = read_split_list(folder / years, n)
        with reading(path):
            classes = quantile_classes(y[:, 0], YEARS)
    # Edges take most while a matrix is made of them: then there are no features yet.
    adj, one_way, record = _edges(
        raw / "edge.csv.gz", n, n_edges=n_edges, directed=directed
    )
    x = _table(raw / "node-feat.csv.gz", n)
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=one_way,
            y=classes,
            splits=splits,
            name=name,
            record=record,
        )


def _index(path: Path, n_nodes: int) -> NDArray[np.int64]:
    """Return the nodes that a file lists, one a row, in order."""
    with reading(path):
        blocks, total = [], 0
        for block in csv_blocks(path, "int64"):
            total += len(block)
            if block.shape[1] != 1 or total > n_nodes:
                raise InputError(f"it must list nodes, at most {n_nodes:,}, one a row.")
            if not 0 <= block.min() <= block.max() < n_nodes:
                raise InputError(
                    f"its nodes must lie in 0 … {n_nodes - 1}, got {block.min()} to "
                    f"{block.max()}"
                )
            blocks.append(block[:, 0])
        nodes: NDArray[np.int64] = np.sort(np.concatenate(blocks))
        return nodes


# --------------------------------------------------------------- LINKX's Twitch gamers


def read_twitch_gamers(folder: Path, *, splits: str) -> Graph:
    """Read Twitch gamers (Rozemberczki and Sarkar 2021), as Lim et al. (2021) do.

    The class is whether a channel is for adults. Dates are numbers such as 170226, and
    languages are numbered in the order in which they come up.

    Parameters
    ----------
    folder
        Holds `twitch-gamer_feat.csv` and `twitch-gamer_edges.csv`.
    splits
        The file of the splits beside them.
    """
    import pyarrow as pa

    with reading(path := folder / "twitch-gamer_feat.csv"):
        kinds = dict.fromkeys(_GAMERS, "int64")
        kinds |= dict.fromkeys(("created_at", "updated_at"), "date32")
        kinds |= {"language": "string"}
        table = pa.Table.from_batches(_batches(path, kinds, tuple(kinds)))
        if any(column.null_count for column in table.columns):
            raise InputError("no cell may be empty.")
        n = len(table)
        found: dict[str, NDArray[Any]] = {
            name: table[name].to_numpy() for name in kinds
        }
        ids = found.pop("numeric_id")
        order = np.argsort(ids, kind="stable")
        if not np.array_equal(ids[order], np.arange(n)):
            raise InputError(f"the numeric ids must be 0 to {n - 1}, each once.")
        for name in ("created_at", "updated_at"):
            found[name] = _short_date(found[name])
        languages: dict[str, int] = {}
        found["language"] = np.array(
            [languages.setdefault(one, len(languages)) for one in found["language"]]
        )
        y = found.pop("mature")[order]
        if n and not 0 <= y.min() <= y.max() <= 1:
            raise InputError("must be 0 or 1", param="mature")
        names = [name for name in _GAMERS if name in found]
        x = np.stack([found[name][order] for name in names], axis=1)
    ends = folder / "twitch-gamer_edges.csv"
    adj, _, record = _edges(ends, n, _first_two(ends), directed=False)
    with reading(folder):
        return Graph(
            x=x.astype(np.float32),
            adj=adj,
            y=y,
            feature_names=tuple(names),
            splits=read_split_list(folder / splits, n),
            record=record,
        )


_GAMERS = (
    *("views", "mature", "life_time", "created_at", "updated_at", "numeric_id"),
    *("dead_account", "language", "affiliate"),
)


def _short_date(days: NDArray[Any]) -> NDArray[np.int64]:
    """Return dates as year, month and day in one number, years from 2000 on.

    Single precision has no room for 20170226.
    """
    months: NDArray[Any] = days.astype("datetime64[M]")
    numbers: NDArray[np.int64] = months.astype(np.int64)
    day: NDArray[np.int64] = (days - months).astype(np.int64) + 1
    # Months are counted from 1970 on.
    return (numbers // 12 - 30) * 10_000 + (numbers % 12 + 1) * 100 + day


# ----------------------------------------------------------------- GraphLand's folders


def read_graphland(
    folder: Path,
    *,
    name: str,
    directed: bool,
    splits: Sequence[str] = ("RL", "RH", "TH"),
) -> Graph:
    """Read a dataset of GraphLand (Bazhenov et al. 2025) with classes.

    As its authors do, a missing number is the most frequent one of its column, and a
    category has a column for each value, one where it has two. Numbers are left as they
    are, where the authors make them normal by their ranks.

    Parameters
    ----------
    folder
        Holds `info.yaml`, `features.csv`, `targets.csv`, `edgelist.csv`, and
        `split_masks_<split>.csv` for each split.
    name
        Of the graph.
    directed
        Whether edges have a direction.
    splits
        The names of the splits, in the order of the graph's.
    """
    info = _read_info(folder / "info.yaml")
    y, classes = _read_targets(folder / "targets.csv", info["target_name"])
    n = len(y)
    parts = []
    for split in splits:
        path = folder / f"split_masks_{split}.csv"
        masks = _table(path, n, "bool", ("train", "val", "test"))
        parts.append(Split(*(masks & (y >= 0)[:, None]).T))
    path = folder / "edgelist.csv"
    adj, one_way, record = _edges(path, n, _first_two(path), directed=directed)
    x, names = _read_features(folder / "features.csv", n, info)
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=one_way,
            y=y,
            classes=classes,
            feature_names=names,
            splits=tuple(parts),
            name=name,
            record=record,
        )


_LISTS = tuple(
    f"{kind}_features_names" for kind in ("numerical", "fraction", "categorical")
)
_ENTRY = re.compile(r"(\w+):\s*(.*)")


def _read_info(path: Path) -> dict[str, list[str]]:
    """Return what a plain YAML file gives its keys: a value, or a list of them.

    Lists in brackets may go over several lines; deeper nesting is not looked at.
    """
    found: dict[str, list[str]] = {}
    key = bracket = ""
    with reading(path):
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if bracket:
                bracket += f" {text}"
            elif text.startswith("- ") and key:
                found[key].append(_unquoted(text[2:]))
            elif entry := _ENTRY.fullmatch(line):
                key, value = entry[1], entry[2].strip()
                found[key] = [_unquoted(value)] if value else []
                bracket = value if value.startswith("[") else ""
            if bracket.endswith("]"):
                values = bracket[1:-1].split(",")
                found[key] = [_unquoted(value) for value in values if value.strip()]
                bracket = ""
        for name in ("target_name", *_LISTS):
            if name not in found:
                raise InputError(f"'{name}' is missing.")
        if bracket or len(found["target_name"]) != 1:
            raise InputError("it must name one target, and lists must end.")
    return found


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _read_targets(
    path: Path, name: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the class of each node, [n], -1 for none, and the classes' numbers."""
    with reading(path):
        blocks = [block[:, 0] for block in csv_blocks(path, "float32", name)]
        targets = np.concatenate(blocks) if blocks else np.zeros(0)
        known = ~np.isnan(targets)
        with np.errstate(invalid="ignore"):
            classes, codes = np.unique(targets[known], return_inverse=True)
        if np.any(classes != np.rint(classes)) or not (np.abs(classes) < 2**24).all():
            raise InputError("the targets must be classes, whole numbers.")
        y = np.full(len(targets), -1, dtype=np.int64)
        y[known] = codes
        return y, classes.astype(np.int64)


def _read_features(
    path: Path, n: int, info: Mapping[str, Sequence[str]]
) -> tuple[Any, tuple[str, ...]]:
    """Return the features, [n, F], numbers first, and their names."""
    numeric, fractions, categories = (info[name] for name in _LISTS)
    numbers = [name for name in numeric if name not in fractions] + [*fractions]
    with reading(path):
        columns = (*numbers, *categories)
        if not columns:
            raise InputError("there are no features.")
        if len(set(columns)) != len(columns):
            raise InputError("no feature may be named twice.")
        table = _table(path, n, "float32", columns)
        width = len(numbers)
        for column in range(width):
            _fill(table[:, column])
        if np.isinf(table).any():
            raise InputError("it must hold finite numbers.")
        if not categories:
            return table, columns
        coded, names = _coded(table[:, width:], categories, pairs=False)
        shape = (n, width + coded.shape[1])
        n_stored = int(np.count_nonzero(table[:, :width])) + coded.nnz
        sparse = worth_sparse(n_stored, shape)
        check_features_room(shape, n_stored if sparse else None)
        if sparse:
            x: Any = CSR(sp.hstack([CSR(table[:, :width]), coded], format="csr"))
        else:
            x = np.empty(shape, dtype=np.float32)
            x[:, :width], x[:, width:] = table[:, :width], coded.toarray()
        return x, (*numbers, *names)


def _fill(column: NDArray[np.float32]) -> None:
    """Put the most frequent number, the least of several, where one is missing."""
    missing = np.isnan(column)
    if not missing.any():
        return
    values, counts = np.unique(column[~missing], return_counts=True)
    column[missing] = values[counts.argmax()] if len(values) else 0
