"""Operators that a model wants of a graph: planned, built, kept with the graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch

from h2gcn.graph import Graph
from h2gcn.models import ModelSpec, find_model
from h2gcn.rings import (
    CAPPED,
    MEMORY,
    BlockedRing,
    RingOptions,
    RingPlan,
    build_rings,
    check_memory,
    plan_rings,
)
from h2gcn.sparse import Operator

__all__ = ["AnyOperator", "OperatorPlan", "build_operators", "plan_operators"]

EXACT = RingOptions()

AnyOperator = Operator | BlockedRing


@dataclass(frozen=True)
class OperatorPlan:
    """Where a model's operators of a graph shall live.

    Parameters
    ----------
    graph, model, device, options
        What was asked for.
    storage
        "memory", "capped", "disk" or "on demand". Each sums in an order of its own,
        so that the last bits differ.
    rings
        Of a model that has rings, unless its operators are ready.
    ready
        The operators, where they were built before and need no more memory.
    """

    graph: Graph
    model: str
    device: torch.device
    options: RingOptions
    storage: str
    rings: RingPlan | None = None
    ready: tuple[AnyOperator, ...] | None = None

    @property
    def key(self) -> tuple[str, torch.device, RingOptions]:
        """What tells operators of one graph apart, beside the storage."""
        return self.model, self.device, self.options


_REMEMBERED: WeakKeyDictionary[
    Graph, tuple[tuple[str, torch.device, RingOptions], str, tuple[AnyOperator, ...]]
] = WeakKeyDictionary()
"""Those built last, with their key and storage, for each graph that is still in use."""


def plan_operators(
    graph: Graph,
    model: str,
    device: torch.device,
    options: RingOptions = EXACT,
) -> OperatorPlan:
    """Choose where a model's operators of a graph shall live, if they fit at all.

    Parameters
    ----------
    graph
        The graph.
    model
        A name of `MODELS`.
    device
        Where the operators shall live.
    options
        What the operators may take, and the rings of a model that has them.
    """
    asked = OperatorPlan(graph, model, device, options, MEMORY)
    remembered = _REMEMBERED.get(graph)
    if remembered is not None and remembered[0] == asked.key and options.limit is None:
        _, storage, ready = remembered
        if storage in (MEMORY, CAPPED):  # what is in memory needs no more of it
            return replace(asked, storage=storage, ready=ready)
    spec, planned = find_model(model), asked
    if spec.rings:
        known = _with_model(options, spec)
        rings = plan_rings(graph.adj, spec.fixed["hops"], known, device=device)
        planned = replace(asked, storage=rings.storage, rings=rings)
    else:
        count = 0 if spec.fixed.get("hops") == () else 1  # mlp has no operator
        check_memory(graph.adj, count, options, symmetric=spec.symmetric)
    if remembered is not None and remembered[:2] == (planned.key, planned.storage):
        return replace(planned, ready=remembered[2])
    return planned


def build_operators(plan: OperatorPlan) -> tuple[AnyOperator, ...]:
    """Return a model's operators of a graph as they were planned, [n, n] each.

    fit, predict and score mostly see one graph, and its rings are the dear part:
    they are computed once, and go when the graph goes.
    """
    if plan.ready is not None:
        return plan.ready
    graph, spec = plan.graph, find_model(plan.model)
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
    operators: tuple[AnyOperator, ...]
    if plan.rings is not None:
        self_loops = spec.fixed["self_loops"]
        operators = build_rings(
            graph.adj, plan.rings, self_loops=self_loops, device=plan.device
        )
    else:
        operators = tuple(
            Operator(matrix, symmetric=spec.symmetric, device=plan.device)
            for matrix in spec.operators(graph.adj)
        )
    _REMEMBERED[graph] = plan.key, plan.storage, operators
    return operators


def _with_model(options: RingOptions, spec: ModelSpec) -> RingOptions:
    """Return the options of a prediction with what the model says about itself."""
    if options.work.n_train:
        return options
    reach, self_loops = max(spec.fixed["final"]), spec.fixed["self_loops"]
    work = replace(options.work, reach=reach, self_loops=self_loops)
    return replace(options, work=work)
