"""The training labels of a model that spreads them, remembered by node id."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph

__all__ = ["Seeds"]


@dataclass(frozen=True)
class Seeds:
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
    """

    ids: tuple[str, ...]
    classes: tuple[int, ...]
    n_classes: int
    model: str
    edges: str | None = None

    @classmethod
    def of(cls, graph: Graph, nodes: NDArray[np.int64], model: str) -> Seeds:
        """Remember the labels of some nodes; no two nodes may have one id."""
        _rows(graph)
        ids = tuple(map(str, graph.node_ids[nodes]))
        classes = tuple(map(int, graph.y[nodes]))
        edges = None if graph.has_ids else _checksum(graph)
        return cls(ids, classes, graph.n_classes, model, edges)

    def one_hot(self, graph: Graph, device: torch.device) -> Tensor:
        """Return the labels as rows of a graph's nodes, zero elsewhere, [n, C].

        The graph is that of `fit`, or another one that shares nodes with it.
        """
        if self.edges is not None and (graph.has_ids or _checksum(graph) != self.edges):
            raise InputError(
                f"{graph.name}: {self.model} spreads the labels of its training nodes, "
                "and the training graph's nodes have no ids; only that graph can be "
                "predicted"
            )
        place = _rows(graph)
        found = [
            (place[name], index)
            for name, index in zip(self.ids, self.classes, strict=True)
            if name in place
        ]
        if not found:
            raise InputError(
                f"{graph.name}: {self.model} spreads the labels of its training nodes, "
                f"by their ids, and none of those {len(self.ids):,} nodes (such as "
                f"{self.ids[0]}) is in this graph; a model that learns from features "
                "can predict here ('h2gcn models' lists them)"
            )
        rows = torch.zeros(graph.n_nodes, self.n_classes, device=device)
        nodes, classes = zip(*found, strict=True)
        rows[list(nodes), list(classes)] = 1.0
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return the seeds as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Seeds:
        """Return what `to_json` wrote."""
        ids, classes = tuple(content["ids"]), tuple(content["classes"])
        return cls(
            ids,
            classes,
            content["n_classes"],
            content["model"],
            content.get("edges"),  # which bundles have not always had
        )


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
        # One width and byte order, so that equal numbers are equal bytes.
        digest.update(np.ascontiguousarray(piece, dtype="<i8").data)
    return digest.hexdigest()
