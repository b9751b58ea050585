"""What a model remembers of its training nodes: their labels, and which they were."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split
from h2gcn.io import Count, conform

__all__ = ["KnownLabels", "KnownLabelsJson", "Seen"]

PART = 2**20
"""How many numbers are hashed at a time: another width must not double a graph."""
ROWS = 100
"""How many nodes' features stand for those of all."""


@dataclass(frozen=True)
class KnownLabels:
    """Nodes whose class is known, by id, so that another graph can be given them.

    Parameters
    ----------
    ids
        Ids of the nodes, as text.
    classes
        Their class indices, as many.
    n_classes
        Number of classes C.
    model
        The model that spreads them, for messages.
    edges
        A checksum of the training graph's edges where its nodes have no ids, else
        None. Every such graph has a node 0, and it is never the same one.
    trimmed
        Whether blanks around the ids were left out, as versions up to 0.1.0 did.
    """

    ids: tuple[str, ...]
    classes: tuple[int, ...]
    n_classes: int
    model: str
    edges: str | None = None
    trimmed: bool = False

    @classmethod
    def of(cls, graph: Graph, nodes: NDArray[np.int64], model: str) -> KnownLabels:
        """Remember the labels of some nodes; no two nodes may have one id."""
        _rows(graph)
        ids = tuple(map(str, graph.node_ids[nodes]))
        classes = tuple(map(int, graph.y[nodes]))
        edges = None if graph.has_ids else _checksum(graph)
        return cls(ids, classes, graph.n_classes, model, edges)

    def one_hot(
        self, graph: Graph, device: torch.device, *, must: bool = True
    ) -> Tensor:
        """Return the labels as rows of a graph's nodes, zero elsewhere, [n, C].

        The graph is that of `fit`, or another one that shares nodes with it.

        Parameters
        ----------
        graph
            The graph to predict on.
        device
            Where the rows shall be.
        must
            Whether a graph of which no label is known is an error; else it has none.
        """
        rows = torch.zeros(graph.n_nodes, self.n_classes, device=device)
        other = self.edges is not None and (
            graph.has_ids or _checksum(graph) != self.edges
        )
        if other and not must:
            return rows
        if other:
            raise InputError(
                f"{graph.name}: {self.model} spreads the labels of its training nodes, "
                "and the training graph's nodes have no ids; only that graph can be "
                "predicted"
            )
        place = _rows(graph)
        if self.trimmed:
            # An id that is the same to the letter goes first.
            place = {name.strip(): row for name, row in place.items()} | place
        found = [
            (place[name], index)
            for name, index in zip(self.ids, self.classes, strict=True)
            if name in place
        ]
        if not found and not must:
            return rows
        if not found:
            raise InputError(
                f"{graph.name}: {self.model} spreads the labels of its training nodes, "
                f"by their ids, and none of those {len(self.ids):,} nodes (such as "
                f"{self.ids[0]}) is in this graph; a model that learns from features "
                "can predict here ('h2gcn models' lists them)"
            )
        nodes, classes = zip(*found, strict=True)
        rows[list(nodes), list(classes)] = 1.0
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return the labels as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> KnownLabels:
        """Return what `to_json` wrote."""
        return conform(KnownLabelsJson, content, "known labels").labels()


class KnownLabelsJson(msgspec.Struct):
    """The schema of known labels in a file; old ones have fewer fields."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1)]
    classes: list[Count]
    n_classes: Count
    model: str
    edges: str | None = None
    trimmed: bool = True

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.classes):
            raise ValueError("not a class for each id")
        if max(self.classes, default=0) >= self.n_classes:
            raise ValueError("a class that is not there")

    def labels(self) -> KnownLabels:
        """Return the labels themselves."""
        ids, classes = tuple(self.ids), tuple(self.classes)
        more = (self.n_classes, self.model, self.edges, self.trimmed)
        return KnownLabels(ids, classes, *more)


@dataclass(frozen=True, eq=False)
class Seen:
    """Which nodes training saw, to be known again in the same graph or another.

    Parameters
    ----------
    graph
        A checksum of the training graph's edges and some of its features.
    rows
        The training and validation nodes, [m].
    test
        The test nodes, [k].
    ids
        64 bits of a hash of the ids of `rows`, [m]; None where nodes have no ids.
    """

    graph: str
    rows: NDArray[np.int64]
    test: NDArray[np.int64]
    ids: NDArray[np.int64] | None

    @classmethod
    def of(cls, graph: Graph, split: Split) -> Seen:
        """Remember a split of a graph."""
        rows = np.concatenate([split.train, split.val])
        ids = _hashed(graph.node_ids[rows]) if graph.has_ids else None
        return cls(_looks(graph), rows, split.test, ids)

    def is_of(self, graph: Graph) -> bool:
        """Return whether a graph is that of `fit`; its labels may be others."""
        return _looks(graph) == self.graph

    def unseen(self, graph: Graph) -> tuple[NDArray[np.int64], int]:
        """Return labelled nodes that training did not see, and how many it saw.

        In the graph of `fit` they are the test nodes, if there are any.
        """
        labelled = graph.labelled
        if self.is_of(graph):
            seen = np.isin(labelled, self.rows)
            test = labelled[np.isin(labelled, self.test)]
            if test.size:
                return test, int(seen.sum())
        elif self.ids is not None and graph.has_ids:
            seen = np.isin(_hashed(graph.node_ids[labelled]), self.ids)
        else:
            seen = np.zeros(labelled.size, dtype=bool)
        return labelled[~seen], int(seen.sum())

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the nodes, which are saved beside the checksum."""
        arrays = {"rows": self.rows, "test": self.test, "ids": self.ids}
        return {
            name: torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
            for name, array in arrays.items()
            if array is not None
        }


def _hashed(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return 64 bits for each id, by its text; two ids never share them in practice."""
    codes = b"".join(
        hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in ids
    )
    return np.frombuffer(codes, dtype="<i8").astype(np.int64)


def _looks(graph: Graph) -> str:
    """Return a checksum of the edges, and of the features of some nodes."""
    rows = np.linspace(0, graph.n_nodes - 1, min(graph.n_nodes, ROWS)).astype(np.int64)
    some = graph.x[rows]
    dense = some if isinstance(some, np.ndarray) else some.toarray()
    features = np.ascontiguousarray(dense, dtype="<f4")
    return hashlib.sha256(_checksum(graph).encode() + features.tobytes()).hexdigest()


def _rows(graph: Graph) -> dict[str, int]:
    """Return the row of each id, or raise where two nodes have the same."""
    names = list(map(str, graph.node_ids))
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        name, times = Counter(names).most_common(1)[0]
        raise InputError(
            f"{graph.name}: labels are remembered by node id, and {times} nodes have "
            f"the id {name}"
        )
    return rows


def _checksum(graph: Graph) -> str:
    digest = hashlib.sha256()
    for piece in (graph.adj.indptr, graph.adj.indices):
        for start in range(0, len(piece), PART):
            # One width and byte order, so that equal numbers are equal bytes.
            part = piece[start : start + PART]
            digest.update(np.ascontiguousarray(part, dtype="<i8").data)
    return digest.hexdigest()
