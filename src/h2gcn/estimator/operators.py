"""Operators that a model wants of a graph: planned, built, kept with the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch

from h2gcn.graph import CSR, Graph
from h2gcn.models import ModelSpec, find_model
from h2gcn.rings import (
    CAPPED,
    MEMORY,
    BlockedRing,
    RingOptions,
    RingPlan,
    build_rings,
    check_memory,
    forecast_ring,
    plan_rings,
)
from h2gcn.sparse import Operator

__all__ = [
    "AnyOperator",
    "OperatorPlan",
    "build_operators",
    "plan_operators",
    "remembered_operators",
]

EXACT = RingOptions()

AnyOperator = Operator | BlockedRing


@dataclass(frozen=True)
class OperatorPlan:
    """Where a model's operators of a graph shall live.

    Parameters
    ----------
    graph, spec, device, options
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
    spec: ModelSpec
    device: torch.device
    options: RingOptions
    storage: str
    rings: RingPlan | None = None
    ready: tuple[AnyOperator, ...] | None = None

    @property
    def key(self) -> Key:
        """What tells operators of one graph apart, beside the storage."""
        return self.spec, self.device, self.options


Key = tuple[ModelSpec, torch.device, RingOptions]

_REMEMBERED: WeakKeyDictionary[Graph, tuple[Key, str, tuple[AnyOperator, ...]]] = (
    WeakKeyDictionary()
)
"""Those built last, with their key and storage, for each graph that is still in use."""


def plan_operators(
    graph: Graph,
    model: str,
    device: torch.device,
    options: RingOptions = EXACT,
    *,
    given: Mapping[str, Any] | None = None,
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
    given
        The options of the model that are not its defaults.
    """
    spec = find_model(model).given(given)
    asked = OperatorPlan(graph, spec, device, options, MEMORY)
    remembered = _REMEMBERED.get(graph)
    if remembered is not None and remembered[0] == asked.key and options.limit is None:
        _, storage, ready = remembered
        if storage in (MEMORY, CAPPED):  # what is in memory needs no more of it
            return replace(asked, storage=storage, ready=ready)
    planned, matrix = asked, spec.matrix_of(graph)
    if spec.rings and not spec.directed:
        known = _with_model(options, spec)
        rings = plan_rings(matrix, spec.fixed["hops"], known, device=device)
        planned = replace(asked, storage=rings.storage, rings=rings)
    else:
        entries = _entries(spec, matrix)
        known = _with_model(options, spec) if spec.rings else options
        check_memory(graph.n_nodes, entries, known, symmetric=spec.symmetric)
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
    graph, spec = plan.graph, plan.spec
    matrix = spec.matrix_of(graph)
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
    operators: tuple[AnyOperator, ...]
    if plan.rings is not None:
        self_loops = spec.fixed["self_loops"]
        operators = build_rings(
            matrix, plan.rings, self_loops=self_loops, device=plan.device
        )
    else:
        operators = tuple(
            Operator(made, symmetric=spec.symmetric, device=plan.device)
            for made in spec.operators(matrix)
        )
    _REMEMBERED[graph] = plan.key, plan.storage, operators
    return operators


def remembered_operators(
    graph: Graph, spec: ModelSpec, device: torch.device, options: RingOptions
) -> tuple[AnyOperator, ...] | None:
    """Return a model's operators of a graph where they were built and are kept.

    Parameters
    ----------
    graph, device, options
        As of `plan_operators`.
    spec
        The model with its options.
    """
    remembered = _REMEMBERED.get(graph)
    if remembered is None or remembered[0] != (spec, device, options):
        return None
    return remembered[2]


def _entries(spec: ModelSpec, matrix: CSR) -> tuple[int, ...]:
    """Return about how many entries each operator has that is not a planned ring."""
    if not spec.rings:
        return spec.entries(matrix)
    hops = spec.fixed["hops"]
    sizes = forecast_ring(matrix, hops=max(hops)).entries
    return tuple(sizes[hop - 1] for hop in hops for _ in ("along", "against"))


def _with_model(options: RingOptions, spec: ModelSpec) -> RingOptions:
    """Return the options of a prediction with what the model says about itself."""
    if options.work.n_train:
        return options
    reach, self_loops = max(spec.fixed["final"]), spec.fixed["self_loops"]
    work = replace(options.work, reach=reach, self_loops=self_loops)
    return replace(options, work=work)
