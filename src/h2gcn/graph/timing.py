"""A graph as it was at a time: what came later is not there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import quoted
from h2gcn.exceptions import InputError
from h2gcn.graph.checks import CSR, check_adjacency
from h2gcn.graph.edges import STRUCTURAL, EdgeColumns, structural_features
from h2gcn.graph.graph import Graph, Split, check_is_graph

__all__ = [
    "ISO_TIME",
    "is_by_time",
    "moment",
    "time_text",
    "until",
]

ISO_TIME = (
    r"^\s*(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
"""A date, or a date and a time, with or without a time zone, of ISO 8601."""

_DAY = np.timedelta64(1, "D")
_TICK = np.timedelta64(1, "us")


def moment(name: str, time: Any, times: NDArray[Any]) -> Any:
    """Return a time as others are: the last moment that belongs to it.

    That of a day is its last microsecond, so that what is of that day is not after it.

    Parameters
    ----------
    name
        What the time is, for messages.
    time
        Text, a number, a date of Python or of numpy. One with a time zone is turned to
        UTC.
    times
        Dates or numbers that it is to be compared with.

    Examples
    --------
    >>> moment("cut", "2024-06-01", np.array(["2024-06-01T10:00"], "datetime64[us]"))
    np.datetime64('2024-06-01T23:59:59.999999')
    >>> moment("cut", "7", np.array([3.0, 8.0]))
    7.0
    """
    if times.dtype.kind != "M":
        try:
            number = float(time) if isinstance(time, str | Real) else np.nan
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise InputError(
                f"'{name}' must be a number, as the times are numbers. Got "
                f"{quoted(time)} instead."
            )
        return number
    found = None
    if isinstance(time, np.datetime64) and not np.isnat(time):
        day = np.datetime_data(time)[0] == "D"
        found = time.astype("datetime64[us]") + (_DAY - _TICK if day else _TICK * 0)
    elif isinstance(time, str | date):
        found = _parse(str(time))
    if found is None:
        raise InputError(
            f"'{name}' must be a date such as 2024-06-01, or 2024-06-01 12:30, as the "
            f"times are dates. Got {quoted(time)} instead."
        )
    return found


def _parse(text: str) -> np.datetime64 | None:
    """Return the last moment of a day, or a time of a day, in UTC; None of others."""
    parts = re.match(ISO_TIME, text)
    if parts is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:  # 2024-02-30
        return None
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    whole = _DAY - _TICK if parts["time"] is None else _TICK * 0
    return np.datetime64(found, "us") + whole


def time_text(time: Any) -> str:
    """Return a time in words: a date alone at the beginning or the end of a day.

    Examples
    --------
    >>> time_text(np.datetime64("2024-06-01T23:59:59.999999")), time_text(7.0)
    ('2024-06-01', '7')
    """
    if not isinstance(time, np.datetime64):
        return f"{float(time):.15g}"
    day = time.astype("datetime64[D]")
    whole = time == day or time == day + _DAY - _TICK
    return str(day if whole else time.astype("datetime64[us]")).replace("T", " ")


def is_by_time(graph: Graph, split: Split) -> bool:
    """Tell whether all validation nodes of a split are later than its training nodes.

    Examples
    --------
    >>> graph = Graph(x=np.eye(3), adj=np.zeros((3, 3)), times=[5, 1, 9])
    >>> is_by_time(graph, Split([0, 1], [2], []))
    True
    >>> is_by_time(graph, Split([2, 1], [0], []))
    False
    """
    if graph.times is None or not (split.train.size and split.val.size):
        return False
    train, val = (_known(graph.times[part]) for part in (split.train, split.val))
    if len(val) < len(split.val):
        return False
    return not train.size or bool(train.max() < val.min())


def _known(times: NDArray[Any]) -> NDArray[Any]:
    missing = np.isnat(times) if times.dtype.kind == "M" else np.isnan(times)
    return np.asarray(times[~missing])


def until(graph: Graph, time: Any) -> Graph:
    """Return a graph as it was at a time: without later nodes and edges.

    Train on it, and score on the whole graph: what came later was then unknown, the
    nodes themselves and the edges that they brought. A node or edge without a time was
    always there.

    Parameters
    ----------
    graph
        With `times`, and with ids, by which nodes are known again in the whole graph.
        Edges are cut by the times of its `edge_columns`, if they have any; an edge that
        is listed several times is there from its first time on.
    time
        The cut: a date, as text or not, or a number. What is of that very time, or day
        where it is a day, is there.

    Returns
    -------
    Graph
        Its splits are those of the graph, without the nodes that are not there. Where
        the features were made of degrees, they are made anew.

    Examples
    --------
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> days = np.array(["2024-01-01", "2024-03-01", "2024-02-01"], "datetime64[D]")
    >>> graph = Graph(x=np.eye(3), adj=path, node_ids=["a", "b", "c"], times=days)
    >>> until(graph, "2024-02-01").node_ids.tolist()
    ['a', 'c']
    """
    check_is_graph("until", graph)
    if graph.times is None:
        raise InputError(
            f"until: {graph.name!r} has no times; Graph(times=…) or "
            "TableOptions(time_column=…) gives them."
        )
    if not graph.has_ids:
        raise InputError(
            f"until: the nodes of {graph.name!r} have no ids, by which they are known "
            "again in the whole graph; Graph(node_ids=…) gives them."
        )
    cut = moment("time", time, graph.times)
    there = ~(graph.times > cut)
    kept = np.flatnonzero(there)
    if not kept.size:
        raise InputError(f"until: no node of {graph.name!r} is from before {time!s}.")
    columns = graph.edge_columns
    late_ways = late_pairs = None
    if columns is not None and columns.times is not None:
        early = ~(columns.times > moment("time", time, columns.times))
        late_ways = _only_late(columns, early, graph.n_nodes, both=False)
        late_pairs = _only_late(columns, early, graph.n_nodes, both=True)
    else:
        early = np.ones(0 if columns is None else len(columns.source), dtype=bool)
    adj = _cut_matrix(graph.adj, late_pairs, kept)
    directed = graph.directed
    if directed is not None:
        one_way = late_ways if columns is not None and columns.directed else late_pairs
        directed = _cut_matrix(directed, one_way, kept)
    x: Any = graph.x if there.all() else graph.x[kept]
    if graph.feature_names == STRUCTURAL:
        x = structural_features(check_adjacency(adj))[0]
    place = np.full(graph.n_nodes, -1)
    place[kept] = np.arange(len(kept))
    return replace(
        graph,
        x=x,
        adj=adj,
        directed=directed,
        y=graph.y[kept],
        node_ids=graph.node_ids[kept],
        splits=tuple(
            Split(*(place[part[there[part]]] for part in split.parts.values()))
            for split in graph.splits
        ),
        edge_columns=None if columns is None else _cut_edges(columns, early, place),
        times=graph.times[kept],
        groups=None if graph.groups is None else graph.groups[kept],
    )


def _only_late(
    columns: EdgeColumns, early: NDArray[np.bool_], n: int, *, both: bool
) -> CSR:
    """Return where edges are listed, but none of them as an early one, [n, n]."""

    def pattern(rows: NDArray[np.bool_]) -> CSR:
        ends = columns.source[rows], columns.target[rows]
        matrix = CSR((np.ones(len(ends[0]), np.float32), ends), (n, n))
        return CSR(((matrix + matrix.T) if both else matrix) > 0)

    listed = pattern(np.ones(len(early), dtype=bool))
    return CSR(listed > pattern(early))


def _cut_matrix(matrix: CSR, late: CSR | None, kept: NDArray[np.int64]) -> CSR:
    """Return the rows and columns of the nodes that are kept, without late edges."""
    if late is not None:
        matrix = CSR(matrix - matrix.multiply(late))
        matrix.eliminate_zeros()
    if len(kept) == matrix.shape[0]:
        return matrix
    return CSR(sp.csr_array(matrix[kept])[:, kept])


def _cut_edges(
    columns: EdgeColumns, early: NDArray[np.bool_], place: NDArray[np.int64]
) -> EdgeColumns:
    """Return the early edges among nodes that are kept, `place` says where."""
    source, target = place[columns.source], place[columns.target]
    rows = np.flatnonzero(early & (source >= 0) & (target >= 0))
    return replace(
        columns,
        source=source[rows],
        target=target[rows],
        values=columns.values[rows],
        times=None if columns.times is None else columns.times[rows],
    )
