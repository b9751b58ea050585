"""New nodes and edges of a request, as a graph that has grown by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph
from h2gcn.io import TableOptions, shown

__all__ = ["Growing"]

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
    fill
        Numbers for those that a row lacks, by name.
    sparse
        Whether a number that a row lacks is 0.
    """

    def __init__(
        self,
        what: str,
        names: Sequence[str],
        fill: Mapping[str, float],
        *,
        sparse: bool = False,
    ) -> None:
        self.what, self.width = what, len(names)
        self._fill, self._sparse = fill, sparse
        self._numbers: dict[str, int] = {}
        self._categories: dict[str, dict[str, int]] = {}
        for place, name in enumerate(names):
            column, sign, value = name.partition("=")
            if sign:
                self._categories.setdefault(column, {})[value] = place
            else:
                self._numbers[name] = place

    @cached_property
    def _known(self) -> list[str]:
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
                known = self._known
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
                raise InputError(f"{where}: lacks {shown(name)}, a number")
        for name, known in self._categories.items():
            value = row.get(name)
            text = MISSING if value is None or value == "" else value
            if isinstance(text, bool) or not isinstance(text, str | int):
                raise InputError(
                    f"{where}.{name}: must be text, a category. Got {shown(text)} "
                    "instead."
                )
            if str(text) in known:
                yield known[str(text)], 1.0
            elif text != MISSING:
                unknown[f"{name}={text}"[:100]] = None


def _number(where: str, value: Any) -> float:
    if not (isinstance(value, int | float) and abs(value) <= _LARGEST):
        raise InputError(
            f"{where}: must be a finite number of 32 bits. Got {shown(value)} instead."
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
        sparse = not isinstance(graph.x, np.ndarray)
        self._nodes = _Columns(
            "nodes", graph.feature_names, tables.fill_values, sparse=sparse
        )
        carried = () if graph.edge_columns is None else graph.edge_columns.names
        self._edges = _Columns("edges", carried, tables.edge_fill_values)
        self._id_names = _both("id", graph.record.id_column, tables.id_column)
        self._ends = (
            _both("source", tables.source_column),
            _both("target", tables.target_column),
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
                    f"edges.{number}: must join two nodes. Got {shown(name)} twice."
                )
        return ends


def _both(name: str, *others: str | None) -> tuple[str, ...]:
    """Return names that mean the same, each once."""
    return tuple(dict.fromkeys([name, *filter(None, others)]))


def _id_of(where: str, row: Row, names: Sequence[str]) -> str:
    """Return the id that stands in a row under one of some names."""
    found = next((row[name] for name in names if name in row), None)
    if found is None:
        raise InputError(f"{where}: lacks {shown(names[0])}, the id of a node")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise InputError(
            f"{where}.{names[0]}: must be an id, text or an integer. Got "
            f"{shown(found)} instead."
        )
    return str(found)
