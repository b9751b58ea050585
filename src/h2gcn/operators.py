"""The operators that a model wants of a graph, remembered with the graph."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from h2gcn.graph import Graph
from h2gcn.models import find_model
from h2gcn.sparse import Operator

__all__ = ["find_operators"]

_REMEMBERED: WeakKeyDictionary[
    Graph, tuple[tuple[str, torch.device], tuple[Operator, ...]]
] = WeakKeyDictionary()
"""Those asked for last, for each graph that is still in use."""


def find_operators(
    graph: Graph, model: str, device: torch.device
) -> tuple[Operator, ...]:
    """Return a model's operators of a graph, [n, n] each.

    fit, predict and score mostly see one graph, and its rings are the dear part:
    they are computed once, and go when the graph goes.

    Parameters
    ----------
    graph
        The graph.
    model
        A name of `MODELS`.
    device
        Where the operators shall live.
    """
    key, remembered = (model, device), _REMEMBERED.get(graph)
    if remembered is not None and remembered[0] == key:
        return remembered[1]
    spec = find_model(model)
    operators = tuple(
        Operator(matrix, symmetric=spec.symmetric, device=device)
        for matrix in spec.operators(graph.adj)
    )
    _REMEMBERED[graph] = key, operators
    return operators
