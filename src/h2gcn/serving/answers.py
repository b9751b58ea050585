"""What can be asked about a model and a graph, and the answers, ready for JSON.

New nodes and edges of a request are a graph that has grown by them.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn._validation import nearest
from h2gcn.estimator import (
    NodeClassifier,
    aps_scores,
    draws,
    prediction_sets,
    quantile,
)
from h2gcn.exceptions import H2GCNWarning, InputError, short_repr
from h2gcn.graph import CSR, Graph, category_columns, check_is_graph, column_of
from h2gcn.io import TableOptions, listed, shown

__all__ = [
    "ALPHA",
    "MOST_FOUND",
    "MOST_HOPS",
    "MOST_SHOWN",
    "Answers",
    "FoundIds",
    "Growing",
    "ModelFacts",
    "NodeAnswer",
    "Prediction",
    "Predictions",
    "Surroundings",
    "UnknownNode",
]

MISSING = "(missing)"
"""The category of cells that have none."""
STRUCTURAL = ("log1p_degree", "log1p_neighbour_degree", "one")
"""The features of a graph that brought none: they are made of its edges."""
_LARGEST = float(np.finfo(np.float32).max)
Row = Mapping[str, Any]


class _Columns:
    """How rows of JSON become rows of numbers.

    Parameters
    ----------
    what
        What the rows are, for messages.
    names
        Of the columns, `column=value` for those of a category.
    column_of
        Returns the column of which such a name is a category, None for a number.
    fill
        Numbers for those that a row lacks, by name.
    sparse
        Whether a number that a row lacks is 0.
    """

    def __init__(
        self,
        what: str,
        names: Sequence[str],
        column_of: Callable[[str], str | None],
        fill: Mapping[str, float],
        *,
        sparse: bool = False,
    ) -> None:
        self.what, self.width = what, len(names)
        self._fill, self._sparse = fill, sparse
        self._numbers: dict[str, int] = {}
        self._categories: dict[str, dict[str, int]] = {}
        for place, name in enumerate(names):
            column = column_of(name)
            if column is None:
                self._numbers[name] = place
            else:
                value = name[len(column) + 1 :]
                self._categories.setdefault(column, {})[value] = place

    @cached_property
    def known(self) -> list[str]:
        return [*self._numbers, *self._categories]

    def read(
        self, rows: Sequence[Row], besides: Collection[str], notes: list[str]
    ) -> CSR:
        """Return the numbers of rows, [m, width].

        Parameters
        ----------
        rows
            By the names of columns.
        besides
            Names that are no columns of these.
        notes
            Gets a sentence for each category that is not known.
        """
        places: list[tuple[int, int]] = []
        values: list[float] = []
        unknown: dict[str, None] = {}
        for number, row in enumerate(rows):
            self._check_names(number, row, besides)
            for place, value in self._entries(number, row, unknown):
                places.append((number, place))
                values.append(value)
        notes += [
            f"{one} is no category that the graph has; it counts as none"
            for one in unknown
        ]
        at = np.array(places, dtype=np.int64).reshape(-1, 2).T
        found = CSR(
            (values, tuple(at)), shape=(len(rows), self.width), dtype=np.float32
        )
        found.eliminate_zeros()
        return found

    def _check_names(self, number: int, row: Row, besides: Collection[str]) -> None:
        for name in row:
            if name not in self._numbers and name not in self._categories:
                if name in besides:
                    continue
                known = self.known
                hint = nearest(name, known[:1000])
                if not hint and len(known) <= 20:
                    hint = f" There are {', '.join(known)}." if known else ""
                raise InputError(
                    f"{self.what}.{number}: there is no column {shown(name)}.{hint}"
                )

    def _entries(
        self, number: int, row: Row, unknown: dict[str, None]
    ) -> Iterator[tuple[int, float]]:
        """Yield places and numbers of a row, all but zeros that need not be named."""
        where = f"{self.what}.{number}"
        for name, place in self._numbers.items():
            if row.get(name) is not None:
                yield place, _number(f"{where}.{name}", row[name])
            elif name in self._fill:
                yield place, self._fill[name]
            elif not self._sparse:
                raise InputError(f"lacks {shown(name)}, a number", where=str(where))
        for name, known in self._categories.items():
            value = row.get(name)
            text = MISSING if value is None or value == "" else value
            if isinstance(text, bool) or not isinstance(text, str | int):
                raise InputError(
                    f"{where}.{name}: must be text, a category, got {shown(text)}"
                )
            if str(text) in known:
                yield known[str(text)], 1.0
            elif text != MISSING:
                unknown[f"{name}={text}"[:100]] = None


def _number(where: str, value: Any) -> float:
    if not (isinstance(value, int | float) and abs(value) <= _LARGEST):
        raise InputError(
            f"must be a finite number of 32 bits, got {shown(value)}",
            where=str(where),
        )
    return float(value)


class Growing:
    """A graph that new nodes can be added to, as rows of JSON; it stays as it is.

    Parameters
    ----------
    graph
        The graph.
    hint
        Returns what may be meant by an id that nobody has, or "".
    """

    def __init__(self, graph: Graph, hint: Callable[[str], str]) -> None:
        self._graph, self._hint = graph, hint
        tables = TableOptions.from_json(graph.record.tables)
        sparse, fills = not isinstance(graph.x, np.ndarray), tables.fill_missing
        self._nodes = _Columns(
            "nodes",
            graph.feature_names,
            category_columns(graph).get,
            tables.fill_values if fills else {},
            sparse=sparse,
        )
        carried = graph.edge_columns
        categories = () if carried is None else carried.categories
        edge_column_of = {
            name: column_of(name, tables.edge_categorical) or name.partition("=")[0]
            for name in categories
            if "=" in name
        }
        self._edges = _Columns(
            "edges",
            () if carried is None else carried.names,
            edge_column_of.get,
            tables.edge_fill_values if fills else {},
        )
        ids = (graph.record.id_column, tables.id_column)
        others = graph.record.other_columns
        self._id_names = _id_columns("id", ids, (*self._nodes.known, *others))
        taken = (*self._edges.known, *others)
        self._ends = (
            _id_columns("source", (tables.source_column,), taken),
            _id_columns("target", (tables.target_column,), taken),
        )

    def grown(
        self, nodes: Sequence[Row], edges: Sequence[Row]
    ) -> tuple[Graph, list[str], list[str]]:
        """Return the graph with new nodes after its own, their ids, and notes.

        Parameters
        ----------
        nodes
            A dict for each: `id`, and the columns of the node table.
        edges
            A dict for each: `source` and `target`, ids of new nodes and known ones,
            and the columns of the edge table.
        """
        graph, notes = self._graph, list[str]()
        if graph.feature_names == STRUCTURAL:
            raise InputError(
                f"{graph.name}: brought no features, and those that were made of its "
                "edges would change with new nodes; they cannot be added"
            )
        ids = [
            _id_of(f"nodes.{number}", row, self._id_names)
            for number, row in enumerate(nodes)
        ]
        places: dict[str, int] = {}
        for number, name in enumerate(ids):
            if name in graph.places:
                raise InputError(
                    f"nodes.{number}: the id {shown(name)} is that of a known node; "
                    "ask for it by 'ids'"
                )
            if name in places:
                raise InputError(f"nodes.{number}: the id {shown(name)} is there twice")
            places[name] = graph.n_nodes + number
        x: Any = self._nodes.read(nodes, self._id_names, notes)
        ends = self._ends_of(edges, places)
        besides = {*self._ends[0], *self._ends[1]}
        carried = self._edges.read(edges, besides, notes).toarray()
        made = graph.with_nodes(
            x.toarray() if isinstance(graph.x, np.ndarray) else x,
            ends,
            node_ids=np.array(ids) if graph.has_ids else None,
            edge_values=None if graph.edge_columns is None else carried,
        )
        return made, ids, notes

    def _ends_of(
        self, edges: Sequence[Row], new: Mapping[str, int]
    ) -> NDArray[np.int64]:
        """Return the numbers of the nodes that edges join, [2, m]."""
        known = self._graph.places
        ends = np.empty((2, len(edges)), dtype=np.int64)
        for number, row in enumerate(edges):
            for side, names in enumerate(self._ends):
                name = _id_of(f"edges.{number}", row, names)
                place = new.get(name, known.get(name))
                if place is None:
                    raise InputError(
                        f"edges.{number}.{names[0]}: there is no node {shown(name)}, "
                        f"neither known nor new.{self._hint(name)}"
                    )
                ends[side, number] = place
            if ends[0, number] == ends[1, number]:
                raise InputError(
                    f"edges.{number}: must join two nodes, got {shown(name)} twice"
                )
        return ends


def _id_columns(
    generic: str, named: Sequence[str | None], taken: Collection[str]
) -> tuple[str, ...]:
    """Return names under which a row may have an id, the first that it has counts.

    Parameters
    ----------
    generic
        A name that every request may use, unless a column that holds other things
        has it.
    named
        What the tables of the training call it.
    taken
        The columns that hold other things.
    """
    names = dict.fromkeys(filter(None, named))
    if not names or generic not in taken:
        names[generic] = None
    return tuple(names)


def _id_of(where: str, row: Row, names: Sequence[str]) -> str:
    """Return the id that stands in a row under one of some names."""
    found = next((row[name] for name in names if name in row), None)
    if found is None:
        raise InputError(f"lacks {shown(names[0])}, the id of a node", where=str(where))
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise InputError(
            f"{where}.{names[0]}: must be an id, text or an integer, got {shown(found)}"
        )
    return str(found)


ALPHA = 0.1
"""The share of nodes whose class sets may miss, unless asked otherwise."""
MIN_ALPHA, MAX_ALPHA = 1e-6, 1 - 1e-6


def _check_alpha(alpha: float) -> None:
    if not MIN_ALPHA <= alpha <= MAX_ALPHA:
        raise InputError(
            f"must be in [{MIN_ALPHA:.6f}, {MAX_ALPHA:.6f}]", param="alpha", value=alpha
        )


MOST_FOUND = 100
"""Ids that a search returns, at most."""
MOST_HOPS = 3
"""How far surroundings reach, at most."""
MOST_SHOWN = 500
"""Nodes of surroundings, at most."""
_WALKED = 2_000_000
"""Entries of the adjacency matrix that are looked at for the surroundings of a node."""
TOP = 10
"""Columns and neighbours that the reasons of a node name, at most."""
NEW = (
    "no sets: what they cover is known for nodes of the graph of the training only, "
    "and these are new"
)
_DIGITS = 6
_BESIDE = 40
"""Ids before and after an unknown one, in their order, among which it may be meant."""


class UnknownNode(InputError):
    """A node that the graph does not have."""


class Prediction(msgspec.Struct):
    """What the model says of a node."""

    id: str
    label: str
    probabilities: dict[str, float]
    """A probability for each class."""
    set: list[str] | None
    """The classes that the node may be of; null where no coverage can be promised."""


class Predictions(msgspec.Struct):
    """What the model says of some nodes, in the order in which they were asked for."""

    predictions: list[Prediction]
    alpha: float | None
    """The share of nodes whose class the sets may miss."""
    coverage: str
    """How well that is known, or why there are no sets."""
    notes: list[str] = []
    """What was noticed on the way."""


class NodeAnswer(msgspec.Struct):
    """What is known of a node of the graph, and what the model says of it."""

    id: str
    label: str
    """What the model says."""
    probabilities: dict[str, float]
    set: list[str] | None
    alpha: float
    coverage: str
    truth: str | None
    """The label that the graph has for it."""
    seen: bool | None
    """Whether training saw that label; null where the model does not know."""
    degree: int
    """How many neighbours it has."""


class NearNode(msgspec.Struct):
    """A node in the surroundings of another one."""

    id: str
    ring: int
    """How many steps away it is."""
    label: str
    known: bool
    """Whether the graph has the label; else it is what the model says."""
    probability: float
    """What the model gives the class that it says."""
    degree: int


class NearEdge(msgspec.Struct):
    """An edge between two nodes of surroundings, by their places in the list."""

    source: int
    target: int
    both: bool
    """Whether it goes both ways, or has no direction."""


class Surroundings(msgspec.Struct):
    """The nodes around a node, ring by ring, itself first, and the edges among them."""

    id: str
    hops: int
    directed: bool
    nodes: list[NearNode]
    edges: list[NearEdge]
    left_out: list[int | None]
    """How many nodes of each ring are not shown; null where they were not counted."""
    words: str
    """What is not shown, in a sentence; empty where all is."""


class FoundIds(msgspec.Struct):
    """Ids that begin with a text, then those that contain it."""

    ids: list[str]
    total: int
    """How many there are; more than `ids` has where it is cut off."""


class ModelFacts(msgspec.Struct):
    """What answers: a model, the graph that it answers about, and how it was scored."""

    model: str
    version: str
    classes: list[str]
    features: list[str]
    graph: str
    nodes: int
    edges: int
    directed: bool
    labelled: int
    trained_here: bool | None
    """Whether this is the graph that the model was trained on."""
    metric: str
    val_score: float | None
    scores: dict[str, Any]
    """What was found in training, such as the accuracy on the test nodes."""
    remarks: list[str]


_SCORES = ("val_accuracy", "test_accuracy", "split_sizes")


class Answers:
    """A fitted classifier and a graph, with what the one says of the other.

    Parameters
    ----------
    classifier
        Fitted.
    graph
        Of which each node has an id of its own.
    facts
        What was saved with the model (`SavedModel.extra`), such as its scores.
    """

    def __init__(
        self,
        classifier: NodeClassifier,
        graph: Graph,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        check_is_graph(graph)
        self.classifier, self.graph = classifier, graph
        self._facts = dict(facts or {})
        self._classes = [str(label) for label in classifier.classes_]
        self._ids = list(map(str, graph.node_ids.tolist()))
        self._rows = graph.places
        if len(self._rows) < len(self._ids):
            name, times = Counter(self._ids).most_common(1)[0]
            raise InputError(
                f"{graph.name}: nodes are asked for by id, and {times} nodes have the "
                f"id {short_repr(name)}"
            )
        logits = classifier.predict_logits(graph)
        classifier.prepare(graph)  # for nodes that are new
        self._said = logits.argmax(axis=1)
        self._shares = classifier.probabilities_of(logits)
        seen = classifier.seen_
        self._trained_here = None if seen is None else seen.is_of(graph)
        self._seen = None if seen is None else seen.saw(graph)
        self._threshold = lru_cache(maxsize=256)(self._find_threshold)
        self._explained = lru_cache(maxsize=256)(self._explain)

    @property
    def n_nodes(self) -> int:
        """How many nodes are known."""
        return len(self._ids)

    def facts(self) -> ModelFacts:
        """Return what answers."""
        classifier, graph = self.classifier, self.graph
        remarks = self._facts.get("remarks")
        return ModelFacts(
            model=str(classifier.params_["model"]),
            version=__version__,
            classes=self._classes,
            features=list(classifier.feature_names_in_),
            graph=graph.name,
            nodes=graph.n_nodes,
            edges=graph.n_edges,
            directed=graph.directed is not None,
            labelled=int(graph.labelled.size),
            trained_here=self._trained_here,
            metric=classifier.params_["metric"],
            val_score=_finite(classifier.val_score_),
            scores={name: self._facts.get(name) for name in _SCORES},
            remarks=list(map(str, remarks)) if isinstance(remarks, list) else [],
        )

    # ---------------------------------------------------------------- known nodes

    def row(self, name: str) -> int:
        """Return the row of a node, or raise with ids that may be meant."""
        self._check_known([name])
        return self._rows[name]

    def _check_known(self, names: Sequence[str]) -> None:
        unknown = [name for name in names if name not in self._rows]
        if not unknown:
            return
        if len(unknown) == 1:
            name = unknown[0]
            told = f"there is no node {short_repr(name)}.{self._nearest(name)}"
        else:
            told = f"there are no nodes {listed(unknown)}.{self._nearest(unknown[0])}"
        raise UnknownNode(f"{self.graph.name}: {told}")

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._ids)

    def _nearest(self, name: str) -> str:
        # All ids of a large graph would take seconds: those that begin alike will do.
        place = bisect_left(self._sorted, name)
        beside = self._sorted[max(place - _BESIDE, 0) : place + _BESIDE]
        return nearest(name, beside) if len(name) <= 200 else ""

    def predict(self, names: Sequence[str], alpha: float = ALPHA) -> Predictions:
        """Return what the model says of known nodes.

        Parameters
        ----------
        names
            Their ids.
        alpha
            The share of nodes whose class the sets may miss.
        """
        _check_alpha(alpha)
        self._check_known(names)
        rows = np.array([self._rows[name] for name in names], dtype=np.int64)
        sets, coverage = self._sets(rows, alpha)
        told = self._told(names, self._said[rows], self._shares[rows], sets)
        return Predictions(told, None if sets is None else alpha, coverage)

    def node(self, name: str, alpha: float = ALPHA) -> NodeAnswer:
        """Return what is known of a node, and what the model says of it.

        Parameters
        ----------
        name, alpha
            As of `predict`.
        """
        _check_alpha(alpha)
        row = self.row(name)
        (said,) = (found := self.predict([name], alpha)).predictions
        return NodeAnswer(
            id=name,
            label=said.label,
            probabilities=said.probabilities,
            set=said.set,
            alpha=alpha,
            coverage=found.coverage,
            truth=self._truth(row),
            seen=None if self._seen is None else bool(self._seen[row]),
            degree=int(self.graph.degrees[row]),
        )

    def _told(
        self,
        names: Sequence[str],
        said: NDArray[np.integer],
        shares: NDArray[np.float32],
        sets: Sequence[list[str]] | None = None,
    ) -> list[Prediction]:
        """Return what is said of some nodes, given their classes, [m], and shares."""
        rounded = np.round(shares.astype(np.float64), _DIGITS).tolist()
        classes = self._classes
        inside: Sequence[list[str] | None] = sets or [None] * len(names)
        return [
            Prediction(name, classes[label], dict(zip(classes, row, strict=True)), one)
            for name, label, row, one in zip(
                names, said.tolist(), rounded, inside, strict=True
            )
        ]

    def _truth(self, row: int) -> str | None:
        y = self.graph.y[row]
        return None if y < 0 else str(self.graph.classes[y])

    def _find_threshold(self, alpha: float) -> tuple[float | None, str]:
        """Return the threshold of sets, None where there is none, and words on it."""
        held_out = self.classifier.calibration_
        if held_out is None:
            return None, "no sets: the model does not have its validation nodes"
        if not self._trained_here:
            return None, (
                "no sets: this is not the graph of the training, and what they would "
                "cover here is not known"
            )
        parts = draws(held_out.nodes, self.classifier.seed_)
        own = aps_scores(held_out.probabilities, parts)
        scores = own[np.arange(len(held_out.y)), held_out.y]
        return quantile(scores, alpha), self.classifier.coverage_words(alpha)

    def _sets(
        self, rows: NDArray[np.int64], alpha: float
    ) -> tuple[list[list[str]] | None, str]:
        """Return the classes that rows may be of, never none, and words on them."""
        threshold, words = self._threshold(alpha)
        if threshold is None:
            return None, words
        inside = prediction_sets(
            self._shares[rows],
            draws(rows, self.classifier.seed_),
            threshold,
            allow_empty=False,
        )
        return [
            [self._classes[c] for c in np.flatnonzero(row).tolist()] for row in inside
        ], words

    # ---------------------------------------------------------------- new nodes

    def predict_new(
        self, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]
    ) -> Predictions:
        """Return what the model says of nodes that are not in the graph.

        The graph stays as it is.

        Parameters
        ----------
        nodes
            Their ids and columns, as of the node table.
        edges
            Among them and to known nodes, as of the edge table.
        """
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", H2GCNWarning)
            grown, ids, notes = self._growing.grown(nodes, edges)
            new = np.arange(self.n_nodes, grown.n_nodes)
            logits = self.classifier.predict_logits(grown, new)
        notes += dict.fromkeys(
            str(one.message) for one in said if issubclass(one.category, H2GCNWarning)
        )
        shares = self.classifier.probabilities_of(logits)
        told = self._told(ids, logits.argmax(axis=1), shares)
        return Predictions(told, None, NEW, notes)

    @cached_property
    def _growing(self) -> Growing:
        return Growing(self.graph, self._nearest)

    # ------------------------------------------------------------------- reasons

    def reasons(self, name: str) -> dict[str, Any]:
        """Return why the model says what it says of a node.

        See `h2gcn.estimator.Explanation.to_json`; of columns and neighbours the
        largest are told. The last ones are kept.

        Parameters
        ----------
        name
            Its id.
        """
        return self._explained(self.row(name))

    def _explain(self, row: int) -> dict[str, Any]:
        return self.classifier.explain(self.graph, row).to_json(TOP)

    # --------------------------------------------------------------------- search

    @cached_property
    def _texts(self) -> Any:
        """The ids in small letters: to look in those is many times as quick."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.utf8_lower(pa.array(self._ids, type=pa.large_string()))

    def search(self, text: str, limit: int = 20) -> FoundIds:
        """Return ids that begin with a text, or else contain it, in any case.

        Parameters
        ----------
        text
            What is looked for; nothing is found for an empty one.
        limit
            How many are returned, at most.
        """
        import pyarrow.compute as pc

        if not text:
            return FoundIds([], 0)
        part = pc.utf8_lower(text).as_py()
        anywhere = pc.match_substring(self._texts, part)
        rows = np.flatnonzero(anywhere.to_numpy(zero_copy_only=False))
        begins = pc.starts_with(self._texts.take(rows), part)
        first = begins.to_numpy(zero_copy_only=False)
        order = np.concatenate([rows[first], rows[~first]])[:limit]
        ids = [self._ids[row] for row in order.tolist()]
        exact = self._rows.get(text)
        if exact is not None:
            ids = [text, *(name for name in ids if name != text)][:limit]
        return FoundIds(ids, len(rows))

    # --------------------------------------------------------------- surroundings

    def surroundings(self, name: str, hops: int = 2, limit: int = 60) -> Surroundings:
        """Return the nodes around a node, and the edges among them.

        Of a ring that has not all its nodes shown, those with a known label come
        first, then those that are joined to more of the nodes inside.

        Parameters
        ----------
        name
            Its id.
        hops
            How many rings.
        limit
            How many nodes, at most, itself counted; each ring but the last leaves
            half of the room to those after it.
        """
        start = self.row(name)
        rings, whole = self._rings(start, hops)
        room, shown = limit - 1, [np.array([start])]
        for number, ring in enumerate(rings):
            later = sum(map(len, rings[number + 1 :]))
            take = max(room - later, -(-room // 2)) if later else room
            if number and len(shown[-1]) < len(rings[number - 1]):
                # Only those that hang on one that is shown.
                near, _ = self._neighbours(shown[-1], np.zeros(0, dtype=np.int64))
                ring = near[np.isin(near, ring)]
            shown.append(ring[:take])
            room -= len(shown[-1])
        rows = np.concatenate(shown)
        distance = np.repeat(np.arange(hops + 1), list(map(len, shown)))
        left_out = [
            len(ring) - len(part) if number < whole else None
            for number, (ring, part) in enumerate(zip(rings, shown[1:], strict=True))
        ]
        return Surroundings(
            id=name,
            hops=hops,
            directed=self.graph.directed is not None,
            nodes=[
                self._near(row, ring)
                for row, ring in zip(rows.tolist(), distance.tolist(), strict=True)
            ],
            edges=self._edges_among(rows),
            left_out=left_out,
            words=_left_out_words(left_out, [len(part) for part in shown[1:]]),
        )

    def _rings(self, start: int, hops: int) -> tuple[list[NDArray[np.int64]], int]:
        """Return the rings around a node, and how many of them are there as a whole."""
        rings, whole, complete = [np.array([start])], 0, True
        for _ in range(hops):
            ring, all_of_it = self._neighbours(rings[-1], np.concatenate(rings))
            complete = complete and all_of_it
            whole += complete
            rings.append(ring)
        return rings[1:], whole

    def _neighbours(
        self, nodes: NDArray[np.int64], inside: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], bool]:
        """Return the neighbours of nodes that are not inside, the best to show first.

        And whether they are all; of very large rings no more is looked at.
        """
        adj, degrees = self.graph.adj, self.graph.degrees
        total = np.cumsum(degrees[nodes])
        enough = max(int(np.searchsorted(total, _WALKED, side="right")), 1)
        parts = [_row(adj, row)[:_WALKED] for row in nodes[:enough].tolist()]
        joined = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        complete = not len(nodes) or bool(total[-1] <= _WALKED)
        found, times = np.unique(joined, return_counts=True)
        outside = ~np.isin(found, inside)
        found, times = found[outside].astype(np.int64), times[outside]
        order = np.lexsort((found, -times, self.graph.y[found] < 0))
        return found[order], complete

    def _near(self, row: int, ring: int) -> NearNode:
        truth, said = self._truth(row), int(self._said[row])
        return NearNode(
            id=self._ids[row],
            ring=ring,
            label=self._classes[said] if truth is None else truth,
            known=truth is not None,
            probability=round(float(self._shares[row, said]), _DIGITS),
            degree=int(self.graph.degrees[row]),
        )

    def _edges_among(self, rows: NDArray[np.int64]) -> list[NearEdge]:
        """Return the edges among some nodes, each once."""
        edges = []
        for place, row in enumerate(rows.tolist()):
            there = _joined(self.graph.adj, row, rows)
            for other in np.flatnonzero(there).tolist():
                if place < other:
                    edges.append(self._edge(rows, place, other))
        return edges

    def _edge(self, rows: NDArray[np.int64], one: int, two: int) -> NearEdge:
        directed = self.graph.directed
        if directed is None:
            return NearEdge(one, two, both=True)
        forth, back = (
            bool(_joined(directed, int(rows[a]), rows[b : b + 1])[0])
            for a, b in ((one, two), (two, one))
        )
        if back and not forth:
            one, two = two, one
        return NearEdge(one, two, both=forth == back)


def _row(matrix: CSR, row: int) -> NDArray[np.integer]:
    """Return the columns that have an entry in a row."""
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]])


def _joined(matrix: CSR, row: int, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which columns have an entry in a row of a sorted CSR matrix."""
    there = _row(matrix, row)
    if not len(there):
        return np.zeros(len(columns), dtype=bool)
    place = np.minimum(np.searchsorted(there, columns), len(there) - 1)
    return np.asarray(there[place] == columns)


def _left_out_words(left_out: Sequence[int | None], shown: Sequence[int]) -> str:
    parts = []
    for hop, (count, here) in enumerate(zip(left_out, shown, strict=True), start=1):
        steps = "1 step" if hop == 1 else f"{hop} steps"
        if count is None:
            parts.append(f"all but {here:,} of very many nodes {steps} away")
        elif count:
            parts.append(f"{count:,} of {count + here:,} nodes {steps} away")
    return f"not shown: {', '.join(parts)}" if parts else ""


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
