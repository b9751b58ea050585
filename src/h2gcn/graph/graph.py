"""The graph that every other room works on, checked once when it is built.

Also what it grew out of, and the checksums by which graphs, splits and rows of a matrix
are told apart.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import (
    as_array,
    check_list,
    check_type,
    import_extra,
)
from h2gcn.exceptions import InputError
from h2gcn.graph.card import alike, html_bars, html_card
from h2gcn.graph.checks import (
    CSR,
    Features,
    as_list,
    as_matrix,
    check_adjacency,
    check_classes,
    check_features,
    check_labels,
    check_length,
    check_times,
    first_repeated,
    row_slices,
    slices,
)
from h2gcn.graph.edges import EdgeColumns, pair_weights

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "CSR",
    "Features",
    "Graph",
    "Growth",
    "ReadRecord",
    "Split",
    "canonical",
    "category_columns",
    "check_edge_weight",
    "check_is_graph",
    "column_of",
    "equal_groups",
    "fingerprint",
    "grown_from",
    "grown_matrix",
    "remember_growth",
    "row_keys",
    "split_fingerprint",
    "unchecked_graph",
    "weighted_by",
]


@dataclass(frozen=True, eq=False)
class Split:
    """Three sets of node indices: to train on, to choose by, to test on.

    That they are disjoint and labelled is checked where they meet a graph.

    Parameters
    ----------
    train, val, test
        Node indices (or boolean masks, which are turned into indices), 1-D.
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]

    def __post_init__(self) -> None:
        for part in ("train", "val", "test"):
            given = as_array(part, getattr(self, part))
            if given.ndim != 1 or (given.size and given.dtype.kind not in "biu"):
                raise InputError(
                    f"must be node indices or a mask, 1-D, got shape {given.shape} "
                    f"and dtype {given.dtype}",
                    param=part,
                )
            index = np.flatnonzero(given) if given.dtype == bool else given
            index = index.astype(np.int64)
            if index.size and index.min() < 0:
                raise InputError(f"Split: '{part}' holds a negative node index.")
            object.__setattr__(self, part, index)

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """The three parts by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of train, val and test."""
        return len(self.train), len(self.val), len(self.test)


@dataclass(frozen=True)
class ReadRecord:
    """What a reader did to its input on the way to a `Graph`.

    Counts are of edges as the input listed them. `notes` are further sentences
    for the user.
    """

    edges_read: int | None = None
    duplicates_merged: int = 0
    loops_dropped: int = 0
    symmetrised: int = 0
    """Pairs that were given in one direction only."""
    unknown_dropped: int = 0
    """Edges to nodes that are not in the node table."""
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """How it was read (`TableOptions.to_json`), for others to be read alike."""
    id_column: str | None = None
    """What the node table calls the column of the ids."""
    other_columns: tuple[str, ...] = ()
    """Which of `id`, `source` and `target` are columns of the tables that hold other
    things."""

    def sentences(self) -> list[str]:
        """Return what was merged, symmetrised and dropped, a sentence each."""
        counted = {
            "duplicate edge{s} merged": self.duplicates_merged,
            "self-loop{s} dropped": self.loops_dropped,
            "one-way edge{s} made symmetric": self.symmetrised,
            "edge{s} to unknown nodes dropped": self.unknown_dropped,
        }
        said = [
            f"{count:,} {text.format(s='' if count == 1 else 's')}"
            for text, count in counted.items()
            if count
        ]
        return said + list(self.notes)


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with node features, and labels for some of its nodes.

    Parameters
    ----------
    x
        Features, [n, F], dense or scipy sparse; finite numbers. A memory-mapped array
        of float32 stays in its file.
    adj
        Adjacency matrix, [n, n]: symmetric, binary, without self-loops.
        `h2gcn.io.from_scipy` makes such a matrix of any other.
    directed
        The directions of the input where it had any, [n, n].
    y
        Class index of each node, [n]; -1 is unlabelled.
    classes
        The label that each class index stands for, [C].
    node_ids, feature_names
        Names of rows and columns of `x`; default their numbers.
    splits
        Train/validation/test splits that come with the data.
    name
        How messages and tables call the graph.
    record
        What a reader merged, symmetrised and dropped.
    edge_columns
        What the edges carry. None: nothing, and no edge is there more than once.
    edge_weight
        The column of `edge_columns` that says how much an edge counts in means over
        neighbours; None counts all alike. Distances stay those of steps.
    times
        When each node came up with its label, [n]: dates (datetime64) or numbers, NaT
        or NaN where it was always there. No model sees them; `until` cuts by them.
    groups
        The number of each node's group, [n]; -1 is in none. Splits that are drawn tear
        no group apart.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Graph(x=np.eye(3), adj=path, y=[0, 1, -1])
    Graph('graph': 3 nodes, 2 edges, 3 features, 2 classes, 2 labelled)
    """

    x: Features
    adj: CSR
    directed: CSR | None = None
    y: NDArray[np.int64] = None  # type: ignore[assignment]
    classes: NDArray[Any] = None  # type: ignore[assignment]
    node_ids: NDArray[Any] = None  # type: ignore[assignment]
    feature_names: tuple[str, ...] = None  # type: ignore[assignment]
    splits: tuple[Split, ...] = ()
    name: str = "graph"
    record: ReadRecord = field(default_factory=ReadRecord)
    edge_columns: EdgeColumns | None = None
    edge_weight: str | None = None
    times: NDArray[Any] | None = None
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        check_type("name", self.name, str, "a text")
        check_type("record", self.record, ReadRecord, "a ReadRecord")
        settle("adj", check_adjacency(self.adj))
        settle("x", check_features(self.x, self.adj.shape[0]))
        n, n_features = self.x.shape
        if self.directed is not None:
            directed = as_matrix("directed", self.directed)
            if directed.shape != self.adj.shape:
                raise InputError(
                    f"must have the shape of 'adj', {self.adj.shape}",
                    param="directed",
                    value=directed.shape,
                )
            settle("directed", directed)
        settle("y", check_labels(self.y, n))
        settle("classes", check_classes(self.classes, self.y))
        ids = np.arange(n) if self.node_ids is None else self.node_ids
        settle("node_ids", check_length("node_ids", as_list("node_ids", ids), n))
        names = range(n_features) if self.feature_names is None else self.feature_names
        settle("feature_names", _as_texts("feature_names", names))
        check_length("feature_names", self.feature_names, n_features)
        settle("splits", tuple(check_list("splits", self.splits, "Splits")))
        for split in self.splits:
            check_type("splits", split, Split, "a tuple of Splits")
        for number, split in enumerate(self.splits):
            for part, index in split.parts.items():
                if index.size and index.max() >= n:
                    raise InputError(
                        f"Graph: split {number}, part '{part}' names node "
                        f"{index.max()}, but there are {n} nodes."
                    )
        if self.edge_columns is not None:
            _check_edge_columns(self.edge_columns, n)
        if self.edge_weight is not None:
            check_edge_weight(self.edge_weight, self.edge_columns)
        if self.times is not None:
            settle("times", check_times(self.times, n))
        if self.groups is not None:
            settle("groups", _check_groups(self.groups, n))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.x.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return int(self.adj.nnz // 2)

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return int(self.x.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node, [n]."""
        return np.diff(self.adj.indptr).astype(np.int64)

    @cached_property
    def weights(self) -> CSR | None:
        """`adj` with what each pair weighs, [n, n]; None without an `edge_weight`.

        The weights of all edges of a pair are added up, whichever way they go, and
        divided by the mean of all pairs. See `pair_weights`.
        """
        if self.edge_weight is None or self.edge_columns is None:
            return None
        return pair_weights(self.adj, self.edge_columns, self.edge_weight, both=True)

    @cached_property
    def directed_weights(self) -> CSR | None:
        """`directed` with what each edge weighs, as of `weights`, [n, n]."""
        if self.edge_weight is None or self.edge_columns is None:
            return None
        if self.directed is None:
            return self.weights
        both = not self.edge_columns.directed
        weight = self.edge_weight
        return pair_weights(self.directed, self.edge_columns, weight, both=both)

    @cached_property
    def has_ids(self) -> bool:
        """Whether nodes have ids of their own; the integers 0 to n - 1 are none."""
        # By value: copies and files hold the numbers of a graph without ids as well.
        ids = self.node_ids
        return ids.dtype.kind not in "iu" or not np.array_equal(
            ids, np.arange(self.n_nodes)
        )

    @property
    def labelled(self) -> NDArray[np.int64]:
        """Indices of the nodes that have a label."""
        return np.flatnonzero(self.y >= 0)

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each node by the text of its id; of the last, if two share it.

        It is kept, for whoever looks nodes up again and again.
        """
        return dict(
            zip(map(str, self.node_ids.tolist()), range(self.n_nodes), strict=True)
        )

    def with_nodes(
        self,
        x: Any,
        edges: Any = None,
        *,
        y: Any = None,
        classes: Any = None,
        node_ids: Any = None,
        edge_values: Any = None,
        notes: Sequence[str] = (),
    ) -> Graph:
        """Return the graph with further nodes and edges; this one stays as it is.

        Only what is new is checked, and what was there is copied once, so that it is
        quick however large the graph is. Predictions for the new nodes compute what
        these touch, and take the rest from what is known of this graph.

        Parameters
        ----------
        x
            Features of the k new nodes, [k, F], in the order of `feature_names`. Where
            those of the others are in a file, they are read into memory.
        edges
            Numbers of the nodes that each of m edges leads from and to, [2, m]; the
            new nodes have the numbers n to n + k - 1. Edges between two old nodes are
            edges too, and those that are there already stay. The directions are kept
            where the graph has any.
        y
            Class index of each new node, [k]; -1, and by default all, unlabelled.
        classes
            The labels, where there are more than before: those first.
        node_ids
            Ids of the new nodes, [k]; needed where the others have ids.
        edge_values
            What the new edges carry, [m, q], in the order of `edge_columns.names`;
            needed where the graph's edges carry anything.
        notes
            Further sentences for the record.

        Examples
        --------
        >>> import numpy as np
        >>> pair = Graph(x=np.eye(2), adj=np.array([[0, 1], [1, 0]]))
        >>> pair.with_nodes([[0.5, 0.5]], edges=([2, 2], [0, 1]))
        Graph('graph': 3 nodes, 3 edges, 2 features, 0 classes, 0 labelled)
        """
        new = self._new_features(x)
        n, k = self.n_nodes, new.shape[0]
        source, target = _new_ends(edges, n + k)
        labels = check_labels(y, k)
        known = self.classes if classes is None else as_list("classes", classes)
        check_classes(known, labels)
        if not np.array_equal(known[: self.n_classes], self.classes):
            raise InputError(
                "must begin with the classes of the graph", param="classes"
            )
        ids = self._new_ids(node_ids, k)
        carried = self._new_edge_columns(source, target, edge_values)
        both = np.concatenate([source, target]), np.concatenate([target, source])
        directed = self.directed
        if directed is not None:
            directed = grown_matrix(directed, source, target, n + k)
        made = unchecked_graph(
            x=_stacked(self.x, new),
            adj=grown_matrix(self.adj, *both, n + k),
            directed=directed,
            y=np.concatenate([self.y, labels]),
            classes=known,
            node_ids=np.concatenate([self.node_ids, ids]),
            feature_names=self.feature_names,
            splits=self.splits,
            name=self.name,
            record=replace(self.record, notes=(*self.record.notes, *notes)),
            edge_columns=carried,
            edge_weight=self.edge_weight,
            times=_with_missing(self.times, k),
            groups=None if self.groups is None else np.append(self.groups, [-1] * k),
        )
        touched = np.unique(np.concatenate([*both, np.arange(n, n + k)]))
        remember_growth(made, self, touched)
        return made

    def _new_features(self, x: Any) -> Features:
        """Return features of further nodes, or raise, [k, F]."""
        given: Any = x if sp.issparse(x) else as_array("x", x)
        if given.ndim != 2 or given.shape[1] != self.n_features:
            raise InputError(
                f"must have a row for each new node and the {self.n_features} feature "
                f"columns of the graph, got shape {given.shape}",
                param="x",
            )
        return check_features(given, given.shape[0])

    def _new_ids(self, node_ids: Any, k: int) -> NDArray[Any]:
        """Return ids of k further nodes, or raise, [k]."""
        n = self.n_nodes
        if node_ids is None and not self.has_ids:
            return np.arange(n, n + k, dtype=self.node_ids.dtype)
        if node_ids is None:
            raise InputError(
                "must be given, as the nodes of the graph have ids", param="node_ids"
            )
        ids = check_length("node_ids", as_list("node_ids", node_ids), k)
        texts = list(map(str, ids.tolist()))
        for name, times in Counter(texts).items():
            if name in self.places:
                raise InputError(
                    f"Graph.with_nodes: the id {name!r} is there already, of node "
                    f"{self.places[name]}."
                )
            if times > 1:
                raise InputError(
                    f"Graph.with_nodes: {times} of the new nodes have the id {name!r}."
                )
        return np.asarray(ids)

    def _new_edge_columns(
        self, source: NDArray[np.int64], target: NDArray[np.int64], values: Any
    ) -> EdgeColumns | None:
        """Return what all edges carry, with some more of them, or raise."""
        old = self.edge_columns
        if old is None:
            if values is not None:
                raise InputError(
                    "has no meaning, as the edges of the graph carry nothing",
                    param="edge_values",
                )
            return None
        if values is None and old.names and len(source):
            raise InputError(
                "must be given, as the edges of the graph carry "
                f"{', '.join(map(repr, old.names[:5]))}",
                param="edge_values",
            )
        given: Any = values
        if values is None:
            given = np.zeros((len(source), len(old.names)), dtype=np.float32)
        times = _with_missing(old.times, len(source))
        new = EdgeColumns(
            source,
            target,
            given,
            old.names,
            old.directed,
            old.categories,
            None if times is None else times[len(old.source) :],
        )
        if self.edge_weight is not None and len(source):
            weights = new.values[:, old.names.index(self.edge_weight)]
            if weights.min() < 0:
                raise InputError(
                    "Graph.with_nodes: an edge cannot weigh less than nothing, and "
                    f"{self.edge_weight!r} is {weights.min():g} in row "
                    f"{weights.argmin()} of 'edge_values'."
                )
        return old.joined(new)

    def to_pyg(self) -> Data:
        """Return the graph as a PyG `Data`, without ids, names and edge columns.

        Returns
        -------
        Data
            `x` [n, F] dense float32, `edge_index` [2, 2m] with both directions, `y` [n]
            (-1: unlabelled); with one split masks [n], with more [n, n_splits].
        """
        import_extra("torch_geometric", "to make a PyG Data")
        import torch
        from torch_geometric.data import Data

        dense = self.x if isinstance(self.x, np.ndarray) else self.x.toarray()
        ends = np.stack(sp.coo_array(self.adj).coords).astype(np.int64)
        data = Data(
            x=torch.tensor(dense),
            edge_index=torch.from_numpy(ends),
            y=torch.tensor(self.y),
        )
        for part in ("train", "val", "test") if self.splits else ():
            mask = torch.zeros(self.n_nodes, len(self.splits), dtype=torch.bool)
            for number, split in enumerate(self.splits):
                mask[split.parts[part], number] = True
            data[f"{part}_mask"] = mask[:, 0] if len(self.splits) == 1 else mask
        return data

    def __deepcopy__(self, memo: object) -> Graph:
        """Return the graph itself, which nothing changes: `clone` keeps it."""
        return self

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {self.n_nodes} nodes, {self.n_edges} edges, "
            f"{self.n_features} features, {self.n_classes} classes, "
            f"{self.labelled.size} labelled)"
        )

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        found = alike(self.adj, self.y)
        told = None
        if found is not None:
            share, chance = found
            word = "alike" if share > chance else "unlike"
            told = (
                f"{word}: {share:.0%} of edges join equal labels, {chance:.0%} by "
                "chance"
            )
        form = "dense" if isinstance(self.x, np.ndarray) else "sparse"
        ways = "without" if self.directed is None else "with"
        carried = self.edge_columns
        facts = [
            ("nodes", f"{self.n_nodes:,}"),
            ("edges", f"{self.n_edges:,}, {ways} directions"),
            ("features", f"{self.n_features:,}, {form}"),
            ("classes", f"{self.n_classes:,}, {self.labelled.size:,} nodes labelled"),
            ("neighbours", told),
            ("edges carry", ", ".join(carried.names) if carried is not None else None),
            ("splits", f"{len(self.splits):,}" if self.splits else None),
        ]
        counts = np.bincount(self.y[self.labelled], minlength=self.n_classes)
        more = [html_bars(self.classes, counts)] if self.labelled.size else []
        return html_card(self.name, facts, more, self.record.sentences())


def unchecked_graph(**parts: Any) -> Graph:
    """Return a graph of parts that are known to be sound, by name; all are given.

    Nothing is copied and nothing looked at, however large the graph is.
    """
    graph = object.__new__(Graph)
    for part in fields(Graph):
        object.__setattr__(graph, part.name, parts[part.name])
    return graph


def column_of(name: str, columns: Collection[str]) -> str | None:
    """Return the one of some columns whose category a name is, `column=value`, if any.

    Examples
    --------
    >>> column_of("plan=gold", {"plan"}), column_of("ratio=5", {"plan"})
    ('plan', None)
    """
    begins = (name[: sign.start()] for sign in re.finditer("=", name))
    return next((begin for begin in begins if begin in columns), None)


def category_columns(graph: Graph) -> dict[str, str]:
    """Return the column that each feature is a category of, for those that are one.

    Such a feature is called `column=value`. Tables that were read say which columns
    have categories. Elsewhere it is those whose features are 0 or 1, and of which no
    node has two.
    """
    if graph.record.tables:
        asked = graph.record.tables.get("categorical")
        columns = {*map(str, asked)} if isinstance(asked, list | tuple) else set()
        found = {name: column_of(name, columns) for name in graph.feature_names}
        return {name: one for name, one in found.items() if one is not None}
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(graph.feature_names):
        begin, sign, _ = name.partition("=")
        if sign:
            groups.setdefault(begin, []).append(place)
    if not groups:
        return {}
    places = np.array([place for group in groups.values() for place in group], int)
    group_of = np.repeat(np.arange(len(groups)), [*map(len, groups.values())])
    shape = (len(places), len(groups))
    members = CSR((np.ones(len(places)), (np.arange(len(places)), group_of)), shape)
    sound = np.ones(len(groups), dtype=bool)
    dense = isinstance(graph.x, np.ndarray)
    for rows in row_slices(graph.x.shape) if dense else [slice(None)]:
        part = CSR(graph.x[rows][:, places])
        sound[group_of[part.indices[~np.isin(part.data, (0, 1))]]] = False
        times = CSR(part @ members)
        sound[times.indices[times.data > 1]] = False
    return {
        graph.feature_names[place]: begin
        for (begin, group), keep in zip(groups.items(), sound, strict=True)
        if keep
        for place in group
    }


def weighted_by(graph: Graph, name: str) -> Graph:
    """Return a graph whose edges weigh what a column of them says; else all is shared.

    Parameters
    ----------
    graph
        It stays as it is.
    name
        As `Graph.edge_weight`.
    """
    check_edge_weight(name, graph.edge_columns)
    parts = {part.name: getattr(graph, part.name) for part in fields(Graph)}
    return unchecked_graph(**parts | {"edge_weight": name})


def _with_missing(times: NDArray[Any] | None, k: int) -> NDArray[Any] | None:
    """Return times, and after them k that are not known; None for None."""
    if times is None:
        return None
    missing = "NaT" if times.dtype.kind == "M" else "nan"
    return np.concatenate([times, np.full(k, missing, dtype=times.dtype)])


def _stacked(x: Features, new: Features) -> Features:
    """Return rows below others, in the form of the others, [n + k, F]."""
    if isinstance(x, np.ndarray):
        below = new if isinstance(new, np.ndarray) else new.toarray()
        return np.concatenate([np.asarray(x), below])
    return CSR(sp.vstack([x, CSR(new)], format="csr"))


def _new_ends(edges: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where edges lead from and to, or raise, [m] each."""
    if edges is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    given = as_array("edges", edges)
    if (
        given.ndim != 2
        or len(given) != 2
        or (given.size and given.dtype.kind not in "iu")
    ):
        raise InputError(
            f"must be numbers of nodes, [2, m], got shape {given.shape} and dtype "
            f"{given.dtype}",
            param="edges",
        )
    if given.size and not 0 <= given.min() <= given.max() < n:
        wrong = given.min() if given.min() < 0 else given.max()
        raise InputError(f"names node {wrong}, but there are {n} nodes", param="edges")
    loops = np.flatnonzero(given[0] == given[1])
    if loops.size:
        raise InputError(
            f"Graph.with_nodes: an edge must join two nodes. Edge {loops[0]} joins "
            f"node {given[0, loops[0]]} to itself."
        )
    source, target = given.astype(np.int64)
    return source, target


def check_is_graph(graph: object) -> None:
    """Raise where what should be a graph is none, with how to make one."""
    rule = "a Graph; h2gcn.read_graph makes one of files, of PyG and networkx objects"
    check_type("graph", graph, Graph, rule)


def _as_texts(name: str, values: Any) -> tuple[str, ...]:
    given = check_list(name, values, "names")
    try:
        texts = tuple(map(str, given))
    except Exception:  # of an object that has no text
        raise InputError("must be a list of names", param=name) from None
    again = first_repeated(texts)
    if again is not None:
        raise InputError("must not hold the same name twice", param=name, value=again)
    return texts


def check_edge_weight(name: Any, columns: EdgeColumns | None) -> None:
    """Raise where no column of the edges can be what they weigh."""
    have = () if columns is None else columns.numeric
    if not isinstance(name, str) or columns is None or name not in have:
        known = ", ".join(map(repr, have[:10])) or "none"
        raise InputError(
            f"must name a column of numbers that the edges carry: {known}",
            param="edge_weight",
            value=name,
        )
    values = columns.values[:, columns.names.index(name)]
    if values.size and values.min() < 0:
        row = int(values.argmin())
        raise InputError(
            f"must hold no negative weight; {name!r} has {values[row]:g} in row {row}",
            param="edge_weight",
            where="Graph",
        )
    if not values.any():
        raise InputError(
            "must not be zero for every edge",
            param="edge_weight",
            value=name,
            where="Graph",
        )


def _check_groups(groups: Any, n: int) -> NDArray[np.int64]:
    """Return the number of each node's group, or raise, [n]."""
    found = as_list("groups", groups)
    if found.size and found.dtype.kind not in "iu":
        raise InputError(
            "must be numbers of groups (integers, -1 for none), got dtype "
            f"{found.dtype}",
            param="groups",
        )
    return np.asarray(check_length("groups", found, n)).astype(np.int64)


def _check_edge_columns(columns: Any, n: int) -> None:
    """Raise where edges join nodes that are not among the n of the graph."""
    if not isinstance(columns, EdgeColumns):
        raise InputError(
            "must be EdgeColumns", param="edge_columns", value=type(columns)
        )
    for name, end in (("source", columns.source), ("target", columns.target)):
        if end.size and end.max() >= n:
            raise InputError(
                f"Graph: 'edge_columns', '{name}', names node {end.max()}, but there "
                f"are {n} nodes."
            )


# ------------------------------------------------------------------------------- growth


@dataclass(frozen=True)
class Growth:
    """How a graph differs from the one that it was made of by adding to it.

    Parameters
    ----------
    base
        The graph before; its nodes have the same numbers.
    touched
        The new nodes, and all ends of new edges, ascending.
    """

    base: Graph
    touched: NDArray[np.int64]


_GROWN: WeakKeyDictionary[Graph, tuple[ReferenceType[Graph], NDArray[np.int64]]] = (
    WeakKeyDictionary()
)
"""Of each graph that grew, what it was before: gone, where nobody else has it."""


def remember_growth(graph: Graph, base: Graph, touched: NDArray[np.int64]) -> None:
    """Remember that a graph is another one and more.

    Parameters
    ----------
    graph, base
        After and before.
    touched
        As of `Growth`.
    """
    _GROWN[graph] = ref(base), touched


def grown_from(graph: Graph) -> Growth | None:
    """Return what a graph grew out of, where that is known and still in use.

    Whoever remembers something of a graph can take it from there, but for what is near
    what was touched.
    """
    if graph not in _GROWN:
        return None
    before, touched = _GROWN[graph]
    base = before()
    return None if base is None else Growth(base, touched)


def grown_matrix(
    matrix: CSR, rows: NDArray[np.int64], columns: NDArray[np.int64], n: int
) -> CSR:
    """Return a matrix with more rows and columns, and ones at some places, [n, n].

    Where it has an entry already, that stays. What was there is copied once.

    Parameters
    ----------
    matrix
        Square, sorted, without duplicates.
    rows, columns
        Of the new entries, [m] each, below n; in any order, also repeatedly.
    n
        How many rows there shall be, at least as many as there are.

    Examples
    --------
    >>> one = CSR(np.array([[0, 1], [1, 0]], dtype=np.float32))
    >>> grown_matrix(one, np.array([2, 0]), np.array([0, 2]), 3).toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    before = matrix.shape[0]
    places = np.unique(rows * np.int64(n) + columns)
    rows, columns = places // n, places % n
    inside = int(np.searchsorted(rows, before))  # those of rows that were there
    at, there = _find(matrix, rows[:inside], columns[:inside])
    at = at[~there]
    kept = np.concatenate([~there, np.ones(len(rows) - inside, dtype=bool)])
    rows, columns = rows[kept], columns[kept]
    inside = len(at)
    total = int(matrix.nnz) + len(rows)
    fits = max(total, n) <= np.iinfo(np.int32).max
    kind = np.int32 if fits else np.int64
    sizes = np.zeros(n, dtype=np.int64)
    sizes[:before] = np.diff(matrix.indptr)
    sizes += np.bincount(rows, minlength=n)
    starts = np.zeros(n + 1, dtype=kind)
    np.cumsum(sizes, out=starts[1:])
    # Where each entry goes, by how many new ones come before it.
    new = np.concatenate([at, np.full(len(rows) - inside, matrix.nnz)])
    new += np.arange(len(rows))
    indices, values = np.empty(total, dtype=kind), np.ones(total, matrix.data.dtype)
    old = np.ones(total, dtype=bool)
    old[new] = False
    indices[old], values[old] = matrix.indices, matrix.data
    indices[new] = columns
    return CSR((values, indices, starts), shape=(n, n))


def _find(
    matrix: CSR, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where entries are or would be among those stored, and which are, [m]."""
    low = matrix.indptr[rows].astype(np.int64)
    end = matrix.indptr[rows + 1].astype(np.int64)
    high = end.copy()
    indices = matrix.indices
    while True:
        open_ = np.flatnonzero(low < high)
        if not open_.size:
            break
        middle = (low[open_] + high[open_]) // 2
        less = indices[middle] < columns[open_]
        low[open_[less]] = middle[less] + 1
        high[open_[~less]] = middle[~less]
    there = low < end
    there[there] = indices[low[there]] == columns[there]
    return low, there


# ----------------------------------------------------------------- what tells two apart


_SEED = 20
"""Of the random numbers in the checksum of a row."""
_BLOCK = 1 << 22
"""How many entries of a dense matrix are looked at together."""


def fingerprint(graph: Graph, *, directions: bool = False) -> str:
    """Return the SHA-256 of a graph's edges, features and labels, 64 hex digits.

    What pairs weigh counts where the graph has an `edge_weight`. Names, splits and
    other edge columns do not, nor does the index type of a sparse matrix. Dense and
    sparse features have different fingerprints.

    Parameters
    ----------
    graph
        The graph.
    directions
        Whether its directions count too, if it has any.

    Examples
    --------
    >>> fingerprint(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]))[:8]
    '68b2e1e0'
    """
    adj, x = graph.adj, graph.x
    pieces = [np.array(x.shape), adj.indptr, adj.indices]
    if directions and graph.directed is not None:
        along = canonical(graph.directed)
        pieces += [along.indptr, along.indices]
    if graph.weights is not None:
        pieces.append(graph.weights.data)
    if isinstance(x, np.ndarray):
        pieces.append(x)
    else:
        sparse = canonical(x)
        pieces += [sparse.indptr, sparse.indices, sparse.data]
    digest = hashlib.sha256()
    for piece in [*pieces, graph.y]:
        # One width and byte order, so that equal numbers are equal bytes. In blocks: a
        # file may be larger than the memory, and its columns lie one after another.
        dtype = "<f4" if piece.dtype.kind == "f" else "<i8"
        step = max(_BLOCK // max(math.prod(piece.shape[1:]), 1), 1)
        for rows in slices(len(piece), step):
            digest.update(np.ascontiguousarray(piece[rows], dtype=dtype).data)
    return digest.hexdigest()


def split_fingerprint(split: Split) -> str:
    """Return the SHA-256 of a split, 64 hex digits."""
    digest = hashlib.sha256()
    for index in split.parts.values():
        digest.update(f"{len(index)} ".encode())
        digest.update(np.ascontiguousarray(index, dtype="<i8").data)
    return digest.hexdigest()


def canonical(matrix: CSR) -> CSR:
    """Return a copy with sorted rows, no duplicate and no stored zero.

    Examples
    --------
    >>> stored_zero = CSR(([1.0, 0.0], ([0, 1], [1, 0])))
    >>> canonical(stored_zero).nnz
    1
    """
    copy = CSR(matrix, copy=True)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def row_keys(matrix: Features) -> NDArray[np.uint64]:
    """Return two numbers for each row, equal where the rows are equal, [2, n].

    Σ_j r_j · bits(m_ij) modulo 2⁶⁴, for two vectors r of random numbers. Unequal
    float32 rows agree in both with a chance below 2⁻⁶⁴ a pair.

    Examples
    --------
    >>> keys = row_keys(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32))
    >>> bool((keys[:, 0] == keys[:, 2]).all()), bool((keys[:, 0] == keys[:, 1]).any())
    (True, False)
    """
    if isinstance(matrix, np.ndarray):
        # Blocks of rows, so that a large dense matrix is never held twice.
        step = max(_BLOCK // matrix.shape[1], 1)
        blocks = [matrix[i : i + step] for i in range(0, len(matrix), step)]
        keys = [row_keys(CSR(block)) for block in blocks]
        return np.hstack([np.empty((2, 0), dtype=np.uint64), *keys])
    entries = canonical(matrix)
    bits = entries.data.astype(np.float32).view(np.uint32).astype(np.uint64)
    numbers = np.random.PCG64(_SEED).random_raw(2 * entries.shape[1]).reshape(2, -1)
    # Sums wrap around on purpose.
    words = CSR((bits, entries.indices, entries.indptr), shape=entries.shape)
    return np.stack([np.asarray(words @ own) for own in numbers])


def equal_groups(*keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return a group number for each position, the same where all keys agree, [n].

    Examples
    --------
    >>> equal_groups(np.array([5, 5, 7]), np.array([1, 1, 1]))
    array([0, 0, 1])
    """
    order = np.argsort(keys[0])
    # Where the first key is like no other, nothing else need be looked at.
    alike = keys[0][order[1:]] == keys[0][order[:-1]]
    some = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
    order[some] = order[some][np.lexsort([key[order[some]] for key in keys[::-1]])]
    starts = np.zeros(len(order), dtype=bool)
    for key in keys:
        ordered = key[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.cumsum(starts)
    return groups
