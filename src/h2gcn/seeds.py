"""The training labels of a model that spreads them, remembered by node id."""

from __future__ import annotations

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
    """

    ids: tuple[str, ...]
    classes: tuple[int, ...]
    n_classes: int
    model: str

    @classmethod
    def of(cls, graph: Graph, nodes: NDArray[np.int64], model: str) -> Seeds:
        """Remember the labels of some nodes."""
        ids = tuple(map(str, graph.node_ids[nodes]))
        classes = tuple(map(int, graph.y[nodes]))
        return cls(ids, classes, graph.n_classes, model)

    def one_hot(self, graph: Graph, device: torch.device) -> Tensor:
        """Return the labels as rows of a graph's nodes, zero elsewhere, [n, C].

        The graph is that of `fit`, or another one that shares nodes with it.
        """
        place = {str(name): row for row, name in enumerate(graph.node_ids)}
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
        return cls(ids, classes, content["n_classes"], content["model"])
