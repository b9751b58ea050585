"""The operators that a model wants of a graph, remembered with the graph."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from h2gcn.blocked_ring import BlockedRing
from h2gcn.graph import Graph
from h2gcn.models import find_model
from h2gcn.ring_plan import RingOptions, ring_operators
from h2gcn.sparse import Operator

__all__ = ["AnyOperator", "find_operators"]

EXACT = RingOptions()

AnyOperator = Operator | BlockedRing
_REMEMBERED: WeakKeyDictionary[
    Graph, tuple[tuple[str, torch.device, RingOptions], tuple[AnyOperator, ...]]
] = WeakKeyDictionary()
"""Those asked for last, for each graph that is still in use."""


def find_operators(
    graph: Graph,
    model: str,
    device: torch.device,
    rings: RingOptions = EXACT,
) -> tuple[AnyOperator, ...]:
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
    rings
        What the rings of a model that has them may take.
    """
    key, remembered = (model, device, rings), _REMEMBERED.get(graph)
    if remembered is not None and remembered[0] == key:
        return remembered[1]
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
    spec = find_model(model)
    operators: tuple[AnyOperator, ...]
    if spec.rings:
        hops, self_loops = spec.fixed["hops"], spec.fixed["self_loops"]
        operators = ring_operators(
            graph.adj, hops, rings, self_loops=self_loops, device=device
        )
    else:
        operators = tuple(
            Operator(matrix, symmetric=spec.symmetric, device=device)
            for matrix in spec.operators(graph.adj)
        )
    _REMEMBERED[graph] = key, operators
    return operators
