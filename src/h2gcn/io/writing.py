"""Graphs and predictions as tables: CSV or Parquet, written block by block."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, slices
from h2gcn.io.files import (
    atomic_write,
    cannot_read,
    check_suffix,
    new_folder,
    usable_path,
)
from h2gcn.io.mistakes import listed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Columns",
    "TableWriter",
    "join_predictions",
    "needs_quotes",
    "prediction_table",
    "write_prediction_blocks",
    "write_predictions",
    "write_tables",
]

SUFFIXES = (".csv", ".parquet")
"""The kinds of table that are written."""

ROWS = 65_536
"""How many rows go into a row group of a Parquet file, at least."""

Columns = Mapping[str, NDArray[Any]]
"""The columns of a table, or of some rows of it, by name."""


class TableWriter:
    """A table that grows by blocks of rows; a context manager.

    Parameters
    ----------
    path
        A new or empty file that ends in `.csv` or `.parquet`.
    quoted
        Whether the texts of a CSV file are put in quotes: Arrow quotes all or none.
    """

    def __init__(self, path: Path, *, quoted: bool) -> None:
        self._path, self._quoted = path, quoted
        self._parquet = path.suffix.lower() == ".parquet"
        self._file: Any = None
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        if self._file is not None:
            self._file.close()

    def write(self, columns: Columns) -> None:
        """Append rows; every block has the same columns."""
        self._waiting.append(_as_table(columns))
        # Blocks may be of a few nodes, and a row group has a header of its own.
        if sum(table.num_rows for table in self._waiting) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._parquet:
            self._write_parquet(table)
        else:
            self._write_csv(table)

    def _write_parquet(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table)

    def _write_csv(self, table: pa.Table) -> None:
        import pyarrow.csv as pacsv

        if self._file is None:
            self._file = self._path.open("wb")
            # Arrow would put the header in quotes.
            self._file.write(_csv_line(table.column_names))
        style = "needed" if self._quoted else "none"
        options = pacsv.WriteOptions(include_header=False, quoting_style=style)
        pacsv.write_csv(table, self._file, options)


def _as_table(columns: Columns) -> pa.Table:
    import pyarrow as pa

    return pa.table(list(map(_as_arrow, columns.values())), names=list(columns))


def _as_arrow(values: NDArray[Any]) -> pa.Array:
    """Return texts or numbers as Arrow has them, [n].

    `pa.array` would load pandas, where it is installed, to ask if they are of its kind.
    """
    import pyarrow as pa

    if values.dtype.kind in "OU":
        texts = [str(text).encode() for text in values.tolist()]
        ends = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=ends[1:])
        short = ends[-1] < 2**31
        kind = pa.string() if short else pa.large_string()
        parts = [ends.astype(np.int32) if short else ends, b"".join(texts)]
    elif values.dtype.kind in "iuf":
        native = values.dtype.newbyteorder("=")
        kind = pa.from_numpy_dtype(native)
        parts = [np.ascontiguousarray(values, dtype=native)]
    else:
        return pa.array(values)
    buffers = [None, *map(pa.py_buffer, parts)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def needs_quotes(values: NDArray[Any]) -> bool:
    """Tell whether a text among the values holds what CSV gives a meaning to, [n]."""
    import pyarrow.compute as pc

    if values.dtype.kind not in "OU":
        return False
    return any(
        pc.any(pc.match_substring_regex(_as_arrow(values[part]), r'[",\r\n]')).as_py()
        for part in slices(len(values), ROWS)
    )


def _csv_line(cells: Sequence[str]) -> bytes:
    from io import StringIO

    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode("utf-8")


def write_tables(graph: Graph, folder: str | Path, *, force: bool = True) -> None:
    """Write a graph as `nodes.csv` and `edges.csv` into a folder, made if need be.

    Parameters
    ----------
    graph
        Its nodes are written with the columns `id`, `label` (empty: unlabelled)
        and one a feature; its edges as `source` and `target`: with their
        directions where it has any, else each both ways. What edges carry is not
        written; `write_npz` keeps it.
    folder
        Its parent must be there.
    force
        Whether files that are already there are replaced.
    """
    target = usable_path(folder)
    taken = {"id", "label"}
    for name in graph.feature_names:
        if name in taken:
            raise InputError(
                f"Graph {graph.name!r}: two columns of nodes.csv would be {name!r}; "
                "rename the feature."
            )
        taken.add(name)
    dense = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    label = np.full(graph.n_nodes, "", dtype=object)
    label[graph.labelled] = graph.classes[graph.y[graph.labelled]].astype(str)
    nodes = {"id": graph.node_ids, "label": label}
    nodes |= {name: dense[:, j] for j, name in enumerate(graph.feature_names)}
    pairs = graph.adj if graph.directed is None else graph.directed
    ends = sp.coo_array(pairs).coords
    edges = {
        name: graph.node_ids[end]
        for name, end in zip(("source", "target"), ends, strict=True)
    }
    with new_folder(target):
        for name, columns in (("nodes.csv", nodes), ("edges.csv", edges)):
            quoted = any(needs_quotes(column) for column in columns.values())
            with (
                atomic_write(target / name, force=force) as beside,
                TableWriter(beside, quoted=quoted) as table,
            ):
                table.write(columns)


def write_predictions(
    path: str | Path,
    node_ids: ArrayLike,
    labels: ArrayLike,
    probabilities: ArrayLike,
    classes: ArrayLike,
    *,
    id_column: str | None = None,
) -> None:
    """Write predictions as a table: the id, `label` and `p_<class>` for each class.

    Parameters
    ----------
    path
        A file name that ends in `.csv` or `.parquet`.
    node_ids, labels
        Id and predicted label of each node, [n] each.
    probabilities
        Probability of each class, [n, C].
    classes
        The classes in the order of the columns of `probabilities`, [C].
    id_column
        What the column of the ids is called, such as `graph.record.id_column`; `node`
        if None, or if another column has the name.
    """
    check_suffix(path, SUFFIXES)
    ids, given, share = (np.asarray(a) for a in (node_ids, labels, probabilities))
    columns = _columns(ids, given, share, np.asarray(classes), id_column)
    quoted = needs_quotes(ids) or needs_quotes(given)
    with atomic_write(path) as beside, TableWriter(beside, quoted=quoted) as table:
        table.write(columns)


def prediction_table(
    node_ids: NDArray[Any],
    labels: NDArray[Any],
    probabilities: NDArray[np.floating],
    classes: NDArray[Any],
    *,
    id_column: str | None = None,
) -> pa.Table:
    """Return the table that `write_predictions` writes, of the same parameters."""
    return _as_table(_columns(node_ids, labels, probabilities, classes, id_column))


def write_prediction_blocks(
    path: str | Path,
    node_ids: NDArray[Any],
    classes: NDArray[Any],
    blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]],
    *,
    id_column: str | None = None,
    force: bool = True,
) -> None:
    """Write the same table from blocks, of which there is never more than one.

    Parameters
    ----------
    path
        A file name that ends in `.csv` or `.parquet`.
    node_ids
        Id of each node of the graph, [n].
    classes
        The classes in the order of the columns of probabilities, [C].
    blocks
        Nodes, [m], the index of the class that is said of each, [m], and their
        probabilities, [m, C].
    id_column
        As of `write_predictions`.
    force
        Whether a file that is already there is replaced.
    """
    check_suffix(path, SUFFIXES)
    csv = Path(path).suffix.lower() == ".csv"
    quoted = csv and (needs_quotes(node_ids) or needs_quotes(classes))
    with (
        atomic_write(path, force=force) as beside,
        TableWriter(beside, quoted=quoted) as table,
    ):
        for nodes, said, share in blocks:
            labels = classes[said]
            rows = _columns(node_ids[nodes], labels, share, classes, id_column)
            table.write(rows)


def join_predictions(
    path: str | Path, parts: Sequence[Path], *, force: bool = True
) -> None:
    """Write tables of predictions below each other as one, a part at a time.

    Parameters
    ----------
    path
        A file name that ends in `.csv` or `.parquet`.
    parts
        Parquet files of the same columns, as `write_prediction_blocks` writes them.
    force
        Whether a file that is already there is replaced.
    """
    check_suffix(path, SUFFIXES)
    quoted = False
    if Path(path).suffix.lower() == ".csv":
        quoted = any(
            needs_quotes(column)
            for part in parts
            for column in _read_columns(part).values()
        )
    with (
        atomic_write(path, force=force) as beside,
        TableWriter(beside, quoted=quoted) as table,
    ):
        for part in parts:
            table.write(_read_columns(part))


def _read_columns(part: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(part).read()
    except OSError as error:
        raise cannot_read(part, error) from None
    except pa.ArrowException as error:
        raise InputError(
            f"not a table of predictions ({error})", where=str(part)
        ) from None
    return {
        name: column.to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _columns(
    node_ids: NDArray[Any],
    labels: NDArray[Any],
    share: NDArray[Any],
    classes: NDArray[Any],
    id_column: str | None,
) -> Columns:
    names = [str(name) for name in classes.tolist()]
    if share.shape != (len(node_ids), len(names)) or len(labels) != len(node_ids):
        raise InputError(
            f"Predictions must be [n, C] for {len(node_ids)} nodes and {len(names)} "
            f"classes, got shape {share.shape}"
        )
    fine = np.isfinite(share.astype(np.float64)).all(axis=1)
    if not fine.all():
        ids = [str(node) for node in node_ids[~fine].tolist()]
        raise InputError(
            "Predictions must be finite; nothing is written. The probabilities of "
            f"these nodes are not: {listed(ids, 5)}."
        )
    shares = {f"p_{name}": share[:, c] for c, name in enumerate(names)}
    if not id_column or id_column == "label" or id_column in shares:
        id_column = "node"
    return {id_column: node_ids, "label": labels, **shares}
