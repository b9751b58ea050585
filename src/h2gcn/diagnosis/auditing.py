"""What to know about a graph and its splits before trusting a result on them.

Each finding is data, and a sentence with counts and names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from h2gcn.diagnosis.numbers import percent
from h2gcn.exceptions import InputError
from h2gcn.graph import (
    Features,
    Graph,
    Split,
    canonical,
    equal_groups,
    row_keys,
    row_slices,
)
from h2gcn.rings import CAPS, RingForecast, usual_bytes
from h2gcn.sparse import available_memory, format_bytes

__all__ = [
    "LARGE_RINGS",
    "Audit",
    "Finding",
    "Severity",
    "audit",
    "by_split",
    "find_twins",
    "finding",
    "first",
    "label_features",
    "large_rings",
    "misleading",
]

FEW = 100
"""So many nodes of a class are looked at first: they rule out nearly all features."""
BY_CHANCE = 10
"""With fewer nodes beside the largest group a feature may follow by chance."""


def label_features(graph: Graph) -> NDArray[np.int64]:
    """Return the columns whose value follows from the label alone, [m].

    Each is constant in every class, and not the same in all: a copy of the label, a
    code for it, or a flag for some of its classes.

    Examples
    --------
    >>> y = np.repeat([0, 1], 20)
    >>> x = np.column_stack([np.arange(40), 7 - y, np.ones(40)])
    >>> label_features(Graph(x=x, adj=np.zeros((40, 40)), y=y))
    array([1])
    """
    labels = np.unique(graph.y[graph.labelled])
    if labels.size < 2:
        return np.zeros(0, dtype=np.int64)
    columns = np.arange(graph.n_features)
    values = np.zeros((0, graph.n_features), dtype=np.float32)
    sizes = []
    for label in labels:
        nodes = np.flatnonzero(graph.y == label)
        for some in (nodes[:FEW], nodes):
            same = _constant(graph.x, some, columns)
            columns, values = columns[same], values[:, same]
        values = np.vstack([values, _dense(graph.x, nodes[:1], columns)])
        sizes.append(nodes.size - 1)  # a single one is constant whatever it is
        if not columns.size:
            break
    return columns[[_apart(value, np.array(sizes)) >= BY_CHANCE for value in values.T]]


def _constant(
    x: Features, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which columns have one value in these rows."""
    if isinstance(x, np.ndarray):
        first, same = x[rows[0], columns], np.ones(columns.size, dtype=bool)
        for some in row_slices((rows.size, x.shape[1])):
            same &= (x[np.ix_(rows[some], columns)] == first).all(axis=0)
        return same
    part = x[rows][:, columns]
    low, high = part.min(axis=0).toarray(), part.max(axis=0).toarray()
    return np.asarray(low == high).reshape(-1)


def _dense(
    x: Features, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float32]:
    if isinstance(x, np.ndarray):
        return x[np.ix_(rows, columns)]
    return np.asarray(x[rows][:, columns].toarray())


def _apart(value: NDArray[np.float32], sizes: NDArray[np.int64]) -> int:
    """Return how many nodes do not have the most frequent value."""
    _, kind = np.unique(value, return_inverse=True)
    counts = np.bincount(kind, weights=sizes)
    return int(counts.sum() - counts.max(initial=0))


Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found: its kind, how grave it is, a sentence, and how many."""

    kind: str
    severity: Severity
    message: str
    count: int


def by_split(
    kind: str,
    severity: Severity,
    texts: tuple[str, str],
    names: NDArray[Any],
    flags: Sequence[NDArray[np.bool_]],
) -> list[Finding]:
    """Make one finding of the names that are flagged in any split.

    `flags` has one boolean array for each split, of the length of `names`.

    Examples
    --------
    >>> texts, flags = ("class is out", "classes are out"), [[True, False]]
    >>> by_split("out", "note", texts, np.array(["a", "b"]), np.array(flags))[0].message
    '1 class is out: a.'
    """
    if not len(flags):
        return []
    numbers = [number for number, found in enumerate(flags) if found.any()]
    where = f", in {len(numbers)} of {len(flags)} splits ({first(numbers)})"
    where = where if len(flags) > 1 else ""
    found = names[np.any(flags, axis=0)]
    return finding(kind, severity, (texts[0] + where, texts[1] + where), found)


def finding(
    kind: str, severity: Severity, texts: tuple[str, str], names: NDArray[Any]
) -> list[Finding]:
    """Count and name what was found, in singular or plural; nothing if none was.

    Examples
    --------
    >>> finding("out", "note", ("node is out", "nodes are out"), np.array([4, 7]))
    [Finding(kind='out', severity='note', message='2 nodes are out: 4, 7.', count=2)]
    """
    count = len(names)
    if not count:
        return []
    message = f"{count:,} {texts[count > 1]}: {first(names)}."
    return [Finding(kind, severity, message, count)]


def first(items: Sequence[object] | NDArray[Any]) -> str:
    """Return the first three items, and how many more there are.

    Examples
    --------
    >>> first([1, 2, 3, 4])
    '1, 2, 3 and 1 more'
    """
    more = len(items) - 3
    return ", ".join(map(str, items[:3])) + (f" and {more:,} more" if more > 0 else "")


TWIN_WARNING = 0.25
"""From this mean share of the test nodes on, twins are a warning and not a note."""


@dataclass(frozen=True)
class Audit:
    """The findings of an audit, the gravest first.

    `twin_share` is the mean share of test nodes with a twin in training over the
    `n_splits` splits that were looked at; None where no split has a test part.
    """

    name: str
    n_splits: int
    twin_share: float | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make results on these splits worthless."""
        return tuple(found for found in self.findings if found.severity == "error")

    def joined(self, more: Sequence[Finding]) -> Audit:
        """Return the audit with more findings, the gravest first as before."""
        return replace(self, findings=_gravest_first([*self.findings, *more]))


def audit(graph: Graph, split: Split | Sequence[Split] | None = None) -> Audit:
    """Look for what could mislead on a graph, and in some splits or all of its own.

    Parameters
    ----------
    graph
        The graph.
    split
        The split or splits to look at; default all of `graph.splits`.

    Examples
    --------
    >>> graph = Graph(x=np.eye(3), adj=np.diag([1, 0], 1) + np.diag([1, 0], -1))
    >>> audit(graph).findings[0].message
    '1 node has no neighbour: 2.'
    """
    if split is None:
        splits: Sequence[Split] = graph.splits
    else:
        splits = (split,) if isinstance(split, Split) else split
    for part in splits:
        highest = max(index.max(initial=-1) for index in part.parts.values())
        if highest >= graph.n_nodes:
            raise InputError(
                f"audit: the split names node {highest}, but {graph.name!r} has "
                f"{graph.n_nodes} nodes."
            )
    twins = find_twins(graph, splits)
    findings = [
        *_misleading(graph, splits, twins),
        *_unlabelled(graph, splits),
        *_missing_classes(graph, splits),
        *_small_classes(graph),
        *_isolated(graph),
        *_features(graph),
    ]
    share = _twin_share(splits, twins)
    return Audit(graph.name, len(splits), share, _gravest_first(findings))


def misleading(graph: Graph, split: Split) -> tuple[Finding, ...]:
    """Return the findings of the audit that make scores look better than they are.

    Parameters
    ----------
    graph
        The graph.
    split
        Of its nodes.
    """
    return _gravest_first(_misleading(graph, [split], find_twins(graph, [split])))


def _misleading(
    graph: Graph, splits: Sequence[Split], twins: Sequence[NDArray[np.int64]]
) -> list[Finding]:
    share = _twin_share(splits, twins) or 0.0
    return [
        *_leakage(graph, splits),
        *_label_features(graph),
        *_twins(graph, twins, share),
    ]


def _twin_share(
    splits: Sequence[Split], twins: Sequence[NDArray[np.int64]]
) -> float | None:
    """Return which share of the test nodes has a twin, on average; None without any."""
    shares = [
        len(found) / len(part.test)
        for found, part in zip(twins, splits, strict=True)
        if part.test.size
    ]
    return float(np.mean(shares)) if shares else None


def _gravest_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    order = ("error", "warning", "note")
    return tuple(sorted(findings, key=lambda found: order.index(found.severity)))


def find_twins(graph: Graph, splits: Sequence[Split]) -> list[NDArray[np.int64]]:
    """Return each split's test nodes that have a twin in training.

    A twin is another node with the same out-neighbours, at least one, and the same
    label: who copies its label is right, whatever the features say. Out-neighbours
    are those of `graph.directed`, or of `graph.adj` where there are no directions.

    Examples
    --------
    >>> star = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    >>> graph = Graph(x=np.eye(3), adj=star, y=[0, 1, 1])
    >>> find_twins(graph, [Split(train=[1], val=[0], test=[2])])
    [array([2])]
    """
    if not splits:
        return []
    out = canonical(graph.adj if graph.directed is None else graph.directed)
    out.data[:] = 1
    groups = equal_groups(*row_keys(out), graph.y)
    can = (np.diff(out.indptr) > 0) & (graph.y >= 0)
    found = []
    for split in splits:
        in_train = np.zeros(graph.n_nodes, dtype=np.int64)
        in_train[split.train] = 1
        # A node that is also in training does not count as its own twin.
        partners = np.bincount(groups, weights=in_train)[groups] - in_train
        found.append(split.test[(can & (partners > 0))[split.test]])
    return found


def _twins(
    graph: Graph, twins: Sequence[NDArray[np.int64]], share: float
) -> list[Finding]:
    if not any(nodes.size for nodes in twins):
        return []
    count = round(sum(nodes.size for nodes in twins) / len(twins))
    mean = f" (mean over {len(twins)} splits)" if len(twins) > 1 else ""
    links = "neighbours" if graph.directed is None else "out-neighbours"
    examples = first(graph.node_ids[np.unique(np.concatenate(twins))])
    message = (
        f"{percent(share, 1)} of the test nodes{mean} have a training node with the "
        f"same {links} and the same label: {examples}."
    )
    severity: Severity = "warning" if share >= TWIN_WARNING else "note"
    return [Finding("twins", severity, message, count)]


def _leakage(graph: Graph, splits: Sequence[Split]) -> list[Finding]:
    n = graph.n_nodes
    parts = ([_flags(p, n) for p in split.parts.values()] for split in splits)
    shared = [np.sum(flags, axis=0) > 1 for flags in parts]
    where = "in more than one part of the same split"
    texts = f"node is {where}", f"nodes are {where}"
    return by_split("leakage", "error", texts, graph.node_ids, shared)


def _label_features(graph: Graph) -> list[Finding]:
    names = np.array(graph.feature_names)[label_features(graph)]
    own = "follow from the label alone, and may be the label in other words"
    texts = f"feature seems to {own}", f"features seem to {own}"
    return finding("label_features", "warning", texts, names)


def _unlabelled(graph: Graph, splits: Sequence[Split]) -> list[Finding]:
    found = []
    for split in splits:
        inside = _flags(np.concatenate(list(split.parts.values())), graph.n_nodes)
        found.append(inside & (graph.y < 0))
    texts = "node of a split has no label", "nodes of a split have no label"
    return by_split("unlabelled_in_split", "warning", texts, graph.node_ids, found)


def _missing_classes(graph: Graph, splits: Sequence[Split]) -> list[Finding]:
    present = _class_sizes(graph.y, graph) > 0
    findings = []
    for part in ("train", "val", "test"):
        missing = [
            present & (_class_sizes(graph.y[split.parts[part]], graph) == 0)
            for split in splits
        ]
        kind = f"class_missing_from_{part}"
        severity: Severity = "warning" if part == "train" else "note"
        none = f"no node in the {part} part"
        texts = f"class has {none}", f"classes have {none}"
        findings += by_split(kind, severity, texts, graph.classes, missing)
    return findings


def _small_classes(graph: Graph) -> list[Finding]:
    sizes = _class_sizes(graph.y, graph)
    empty, single = graph.classes[sizes == 0], graph.classes[sizes == 1]
    texts = "class names no node", "classes name no node"
    findings = finding("empty_class", "warning", texts, empty)
    one = "a single labelled node"
    texts = f"class has {one}", f"classes have {one} each"
    return findings + finding("single_node_class", "warning", texts, single)


def _isolated(graph: Graph) -> list[Finding]:
    texts = "node has no neighbour", "nodes have no neighbour"
    return finding("isolated", "note", texts, graph.node_ids[graph.degrees == 0])


def _features(graph: Graph) -> list[Finding]:
    if isinstance(graph.x, np.ndarray):
        zero = np.asarray(~graph.x.any(axis=1))
    else:
        zero = np.diff(canonical(graph.x).indptr) == 0
    _, earliest = np.unique(equal_groups(*row_keys(graph.x)), return_index=True)
    repeated = ~zero
    repeated[earliest] = False
    texts = "node has only zero features", "nodes have only zero features"
    findings = finding("zero_features", "note", texts, graph.node_ids[zero])
    same = "the features of an earlier node"
    texts = f"node repeats {same}", f"nodes repeat {same}"
    findings += finding("duplicate_features", "note", texts, graph.node_ids[repeated])
    names = np.array(graph.feature_names)[_constant_columns(graph.x)]
    same = "the same value at every node"
    texts = f"feature has {same}", f"features have {same}"
    return findings + finding("constant_features", "note", texts, names)


def _constant_columns(x: Features) -> NDArray[np.int64]:
    if x.shape[0] < 2:
        # In a single row every column would be constant.
        return np.zeros(0, dtype=np.int64)
    if isinstance(x, np.ndarray):
        return np.flatnonzero(x.min(axis=0) == x.max(axis=0))
    return np.flatnonzero(x.min(axis=0).toarray() == x.max(axis=0).toarray())


def _class_sizes(labels: NDArray[np.int64], graph: Graph) -> NDArray[np.int64]:
    return np.bincount(labels[labels >= 0], minlength=graph.n_classes)


def _flags(index: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    flags = np.zeros(size, dtype=bool)
    flags[index] = True
    return flags


LARGE_RINGS = "large_rings"
"""The kind of finding."""
MEMORY_PART = 0.25
"""Rings that take a larger part of the memory there is are large."""
TIMES, BYTES = 50, 1e9
"""So are those with so many times the graph's entries, if they take so many bytes."""
LESS = 0.5
"""A cap is worth naming that leaves this part of the memory at most."""
MOST = 0.5
"""Hubs are named until their neighbours make up this part of the second ring."""


def large_rings(graph: Graph, forecast: RingForecast) -> list[Finding]:
    """Return a warning if the rings beyond the first are large, else nothing.

    It says how large they are, which hubs make them so, and what a cap would leave.

    Parameters
    ----------
    graph
        The graph.
    forecast
        What `forecast_rings` says of it.
    """
    near, far = forecast.entries[0], sum(forecast.entries[1:])
    many = far >= TIMES * near and forecast.bytes >= BYTES
    much = forecast.bytes > MEMORY_PART * available_memory()
    if far <= near or not (many or much):
        return []
    about = "" if forecast.exact else "about "
    what = "The 2-hop ring holds"
    if len(forecast.entries) > 2:
        what = f"The rings of 2 to {len(forecast.entries)} hops hold"
    times = "" if far < 2 * near else f", {far / near:,.0f} times those of the graph"
    message = (
        f"{what} {about}{far:,} entries{times}, and training with it takes {about}"
        f"{format_bytes(forecast.bytes)}: "
        f"{_hubs(graph, forecast)}. "
        f"{_remedy(graph, forecast)}"
    )
    return [Finding(LARGE_RINGS, "warning", message, far)]


def _hubs(graph: Graph, forecast: RingForecast) -> str:
    """Name the nodes whose neighbours, two hops from one another, fill the ring."""
    degrees = graph.degrees
    order = np.argsort(-degrees, kind="stable")
    pairs = np.cumsum(degrees[order].astype(np.float64) * (degrees[order] - 1))
    count = min(int((pairs < MOST * forecast.entries[1]).sum()) + 1, len(order))
    hub, highest = graph.node_ids[order[0]], int(degrees[order[0]])
    if count == 1:
        return f"node {hub} is a hub of {highest:,} neighbours, at most two hops apart"
    lowest = int(degrees[order[count - 1]])
    return (
        f"{count:,} hubs have from {lowest:,} to {highest:,} neighbours (node {hub}), "
        "at most two hops apart"
    )


def _remedy(graph: Graph, forecast: RingForecast) -> str:
    """Say which cap makes the rings small, or that they can be left out."""
    for cap in CAPS:
        needed = usual_bytes(graph.n_nodes, forecast.entries, cap)
        if needed <= LESS * forecast.bytes:
            return (
                f"With ring_cap={cap}, which samples {cap} entries per node, it takes "
                f"about {format_bytes(needed)}."
            )
    return "The model h2gcn-s1 leaves it out."
