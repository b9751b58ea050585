"""The operators that a model wants of a graph, remembered with the graph."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import torch

from h2gcn.graph import Graph
from h2gcn.models import ModelSpec, find_model
from h2gcn.rings import (
    CAPPED,
    MEMORY,
    BlockedRing,
    RingOptions,
    check_memory,
    plan_operators,
    plan_rings,
)
from h2gcn.sparse import Operator

__all__ = ["AnyOperator", "find_operators", "find_place"]

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
        What the operators may take, and the rings of a model that has them.
    """
    key, remembered = (model, device, rings), _REMEMBERED.get(graph)
    place = find_place(graph, model, device, rings)
    if remembered is not None and remembered[:2] == (key, place):
        return remembered[2]
    spec = find_model(model)
    rings = _with_model(rings, spec)
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
    operators: tuple[AnyOperator, ...]
    if spec.rings:
        hops, self_loops = spec.fixed["hops"], spec.fixed["self_loops"]
        operators = plan_operators(
            graph.adj, hops, rings, self_loops=self_loops, device=device
        )
    else:
        operators = tuple(
            Operator(matrix, symmetric=spec.symmetric, device=device)
            for matrix in spec.operators(graph.adj)
        )
    _REMEMBERED[graph] = key, place, operators
    return operators


def find_place(
    graph: Graph, model: str, device: torch.device, rings: RingOptions = EXACT
) -> str:
    """Return where `find_operators` has a model's operators, or will put them.

    Each place sums in an order of its own, so that the last bits differ.

    Parameters
    ----------
    graph, model, device, rings
        As of `find_operators`.
    """
    key, remembered = (model, device, rings), _REMEMBERED.get(graph)
    known = remembered is not None and remembered[0] == key and rings.limit is None
    if known and (place := _REMEMBERED[graph][1]) in (MEMORY, CAPPED):
        return place  # what is in memory already needs no more of it
    spec = find_model(model)
    return _place(graph, spec, _with_model(rings, spec))


def _place(graph: Graph, spec: ModelSpec, rings: RingOptions) -> str:
    """Return where a model's operators shall live, if they fit at all."""
    if spec.rings:
        return plan_rings(graph.adj, spec.fixed["hops"], rings)[0]
    count = 0 if spec.fixed.get("hops") == () else 1  # mlp has no operator
    check_memory(graph.adj, count, rings, symmetric=spec.symmetric)
    return MEMORY


def _with_model(rings: RingOptions, spec: ModelSpec) -> RingOptions:
    """Return the options of a prediction with what the model says about itself."""
    if rings.work.n_train or not spec.rings:
        return rings
    reach, self_loops = max(spec.fixed["final"]), spec.fixed["self_loops"]
    return replace(rings, work=replace(rings.work, reach=reach, self_loops=self_loops))
