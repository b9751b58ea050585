"""The operators that a model wants of a graph, remembered with the graph."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from h2gcn.blocked_ring import BlockedRing
from h2gcn.graph import Graph
from h2gcn.models import find_model
from h2gcn.models.spec import ModelSpec
from h2gcn.ring_plan import CAPPED, MEMORY, RingOptions, plan_rings, ring_operators
from h2gcn.sparse import Operator

__all__ = ["AnyOperator", "find_operators"]

EXACT = RingOptions()

AnyOperator = Operator | BlockedRing
_REMEMBERED: WeakKeyDictionary[
    Graph, tuple[tuple[str, torch.device, RingOptions], str, tuple[AnyOperator, ...]]
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
    spec = find_model(model)
    if remembered is not None and remembered[0] == key:
        # What is in memory already needs no more of it; else as it would be chosen now.
        at_hand = remembered[1] in (MEMORY, CAPPED) and rings.limit is None
        if not spec.rings or at_hand or _place(graph, spec, rings) == remembered[1]:
            return remembered[2]
    place = _place(graph, spec, rings) if spec.rings else MEMORY
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
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
    _REMEMBERED[graph] = key, place, operators
    return operators


def _place(graph: Graph, spec: ModelSpec, rings: RingOptions) -> str:
    return plan_rings(graph.adj, spec.fixed["hops"], rings)[0]
