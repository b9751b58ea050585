"""Splits by class, by group and by time, and a graph as it was at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import as_array, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph.checks import CSR, check_adjacency
from h2gcn.graph.edges import STRUCTURAL, EdgeColumns, structural_features
from h2gcn.graph.graph import Graph, Split, check_is_graph

__all__ = [
    "ISO_TIME",
    "deal_groups",
    "groups_of_one",
    "is_by_time",
    "moment",
    "stratified_split",
    "time_text",
    "until",
]

_TRAIN, _VAL, _TEST = range(3)


def stratified_split(
    y: ArrayLike,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int | np.random.SeedSequence = 0,
    *,
    groups: ArrayLike | None = None,
) -> Split:
    """Split the labelled nodes at random, each class by the same fractions.

    Parts are sized by the largest remainder, class by class. Every class is in
    train; a class of two nodes is in train and val; val is never empty where two
    nodes have a label, if need be at the cost of a class of one node.

    With `groups`, nodes of one group are in one part; sizes and classes come as near
    to their shares as that allows (see `deal_groups`), every class is in train and
    val is not empty where there are groups enough.

    Parameters
    ----------
    y
        Class index of each node, [n]; -1 is unlabelled and in no part.
    fractions
        Shares of train, val and test. Where they sum to less than 1, the rest of
        the nodes is in no part.
    seed
        The same seed gives the same split.
    groups
        A name or number for each node, [n]; "", None, NaN and numbers below 0 are in no
        group.

    Returns
    -------
    Split
        Sorted node indices.

    Examples
    --------
    >>> stratified_split([0] * 10 + [1] * 5 + [-1], (0.6, 0.2, 0.2), seed=0).sizes
    (9, 3, 3)
    """
    shares = _check_fractions(fractions)
    if not isinstance(seed, np.random.SeedSequence):
        seed = check_integer("seed", seed, 0)
    labels = np.asarray(y)
    nodes = np.flatnonzero(labels >= 0)
    if not nodes.size:
        raise InputError("stratified_split: 'y' has no labelled node.")
    # Shuffled first, then sorted by class: a random order within each class.
    if groups is not None:
        own = _group_numbers(groups, len(labels))[nodes]
        return _split_groups(nodes, own, labels[nodes], shares, seed)
    nodes = np.random.default_rng(seed).permutation(nodes)
    nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    _, counts = np.unique(labels[nodes], return_counts=True)
    sizes = np.array([_part_sizes(int(count), shares) for count in counts])
    if not sizes[:, _VAL].any() and nodes.size > 1:
        largest = int(counts.argmax())
        _give_to_val(sizes[largest], int(counts[largest]))
    starts = np.cumsum(counts) - counts
    cuts = np.column_stack([starts, starts[:, None] + np.cumsum(sizes, axis=1)])
    parts = (
        np.concatenate([nodes[cut[part] : cut[part + 1]] for cut in cuts])
        for part in (_TRAIN, _VAL, _TEST)
    )
    return Split(*map(np.sort, parts))


def deal_groups(
    groups: NDArray[np.int64],
    y: NDArray[np.int64],
    shares: Sequence[float],
    seed: int | np.random.SeedSequence = 0,
) -> NDArray[np.int64]:
    """Return which part each node goes to, whole groups only, [m].

    Groups are dealt one after the other, the largest first, each to the part that has
    least of its classes: by how much the squares grow of what each part has too much
    or too little of each class.

    Parameters
    ----------
    groups, y
        Number of the group, and class, of each node, [m] each; who is in none (below 0)
        is dealt alone.
    shares
        Of the parts, in all 1; a part that has none gets none.
    seed
        Of the order in which groups of one size are dealt.

    Examples
    --------
    >>> deal_groups(np.array([0, 0, 1, 1, 1]), np.array([1, 1, 1, 1, 1]), [0.6, 0.4])
    array([1, 1, 0, 0, 0])
    """
    names, own = np.unique(groups_of_one(groups), return_inverse=True)
    classes, kind = np.unique(y, return_inverse=True)
    counts = np.zeros((len(names), len(classes)))
    np.add.at(counts, (own, kind), 1.0)
    sizes = counts.sum(axis=1)
    counts /= counts.sum(axis=0)
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    wanted = np.asarray(shares, dtype=np.float64)
    parts = np.flatnonzero(wanted > 0)
    # How far each part is from its share of each class; below 0 is too little.
    beyond = np.repeat(-wanted[parts, None], len(classes), axis=1)
    held = -wanted[parts] * sizes.sum()
    place = np.empty(len(names), dtype=np.int64)
    for group in order:
        row = counts[group]
        growth = (2 * (beyond @ row) + row @ row) / wanted[parts]
        # Sums of the same shares in another order are equal.
        best = np.lexsort((held / wanted[parts], growth.round(9)))[0]
        place[group] = parts[best]
        beyond[best] += row
        held[best] += sizes[group]
    return place[own]


def groups_of_one(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups in which each node that is in none (below 0) has its own, [m].

    Examples
    --------
    >>> groups_of_one(np.array([4, -1, 4, -1])).tolist()
    [4, 6, 4, 8]
    """
    first = int(groups.max(initial=-1)) + 1
    return np.where(groups < 0, first + np.arange(len(groups)), groups)


def _group_numbers(groups: Any, n: int) -> NDArray[np.int64]:
    """Return the number of each node's group, [n], -1 for none."""
    given = as_array("groups", groups)
    if given.shape != (n,):
        raise InputError(
            f"must have an entry for each of the {n} nodes, got shape {given.shape}",
            param="groups",
        )
    if given.dtype.kind in "iuf":
        alone = ~(given >= 0)
    else:
        try:
            nothing = [bool(name is None or name != name) for name in given.tolist()]
            given = given.astype(str)
        except Exception:  # of an object that has no text
            raise InputError("must be names or numbers", param="groups") from None
        alone = np.array(nothing, dtype=bool) | (given == "")
    _, numbers = np.unique(given, return_inverse=True)
    return np.where(alone, -1, numbers)


def _split_groups(
    nodes: NDArray[np.int64],
    groups: NDArray[np.int64],
    y: NDArray[np.int64],
    shares: NDArray[np.float64],
    seed: int | np.random.SeedSequence,
) -> Split:
    """Return a split of labelled nodes, [m], whose groups, [m], stay whole."""
    groups, rest = groups_of_one(groups), max(0.0, 1 - float(shares.sum()))
    place = deal_groups(groups, y, [*shares, rest if rest > 1e-9 else 0.0], seed)
    for label in np.unique(y):
        if not (place[y == label] == _TRAIN).any():
            _move(_smallest(groups, y == label), groups, place, _TRAIN)
    if not (place == _VAL).any() and len(np.unique(groups)) > 1:
        _move(_for_val(groups, y, place), groups, place, _VAL)
    return Split(*(np.sort(nodes[place == part]) for part in (_TRAIN, _VAL, _TEST)))


def _for_val(
    groups: NDArray[np.int64], y: NDArray[np.int64], place: NDArray[np.int64]
) -> int:
    """Return the group that val can best have: of train, one that it can spare."""
    outside = place != _TRAIN
    if outside.any():
        return _smallest(groups, outside)
    order = np.argsort(np.bincount(groups)[groups], kind="stable")
    for group in dict.fromkeys(groups[order].tolist()):
        if np.isin(y[groups == group], y[groups != group]).all():
            return int(group)
    return int(groups[order[0]])


def _smallest(groups: NDArray[np.int64], among: NDArray[np.bool_]) -> int:
    """Return the smallest of the groups that some nodes are of."""
    found, sizes = np.unique(groups, return_counts=True)
    there = np.isin(found, groups[among])
    return int(found[there][sizes[there].argmin()])


def _move(
    group: int, groups: NDArray[np.int64], place: NDArray[np.int64], part: int
) -> None:
    place[groups == group] = part


def _part_sizes(count: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the sizes of the three parts of a class of `count` nodes."""
    if count <= 2:
        return np.array([1, count - 1, 0])
    # The small number keeps 0.29 * 100 = 28.999… from losing its 29th node.
    quotas = shares * count + 1e-9
    sizes = np.floor(quotas).astype(np.int64)
    missing = int(np.floor(quotas.sum() + 0.5)) - int(sizes.sum())
    sizes[np.argsort(sizes - quotas, kind="stable")[:missing]] += 1
    if not sizes[_TRAIN]:
        if sizes.sum() == count:
            sizes[sizes.argmax()] -= 1
        sizes[_TRAIN] = 1
    return sizes


def _give_to_val(sizes: NDArray[np.int64], count: int) -> None:
    """Give val one node: of no part if there is one, else of train, else of test."""
    if sizes.sum() == count:
        donor = _TEST if sizes[_TRAIN] == 1 and sizes[_TEST] else _TRAIN
        sizes[donor] -= 1
    sizes[_VAL] += 1


def _check_fractions(fractions: Sequence[float]) -> NDArray[np.float64]:
    if np.shape(fractions) != (3,):
        raise InputError("must be three numbers", param="fractions", value=fractions)
    shares = [
        check_real("fractions", share, interval)
        for share, interval in zip(
            fractions, ("(0, 1]", "(0, 1]", "[0, 1]"), strict=True
        )
    ]
    if sum(shares) > 1 + 1e-9:
        raise InputError("must sum to at most 1", param="fractions", value=fractions)
    return np.array(shares)


# ------------------------------------------------------------------------------ by time


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
                "must be a number, as the times are numbers", param=name, value=time
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
            "must be a date such as 2024-06-01, or 2024-06-01 12:30, as the times are "
            "dates",
            param=name,
            value=time,
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
    check_is_graph(graph)
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
