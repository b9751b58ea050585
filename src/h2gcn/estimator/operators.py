"""Operators that a model wants of a graph: planned, built, kept with the graph.

Of a few nodes they are made for these alone, where that takes less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.estimator.inputs import (
    Drawn,
    KnownLabels,
    Scaler,
    SomeFeatures,
    feature_builder,
    scaling_key,
)
from h2gcn.estimator.parameters import (
    CheckedFit,
    blank_module,
    estimate_work,
    spec_of,
)
from h2gcn.features import FeatureTable, LazyTable, TableSchema, walk_extent
from h2gcn.graph import CSR, Graph
from h2gcn.models import ModelSpec, find_model
from h2gcn.rings import (
    CAPPED,
    IN_MEMORY,
    SLACK,
    ComputedOperator,
    NeighborIndex,
    RingOptions,
    RingPlan,
    build_rings,
    check_memory,
    forecast_rings,
    operator_bytes,
    plan_rings,
)
from h2gcn.sparse import Operator, Propagation, StepCache
from h2gcn.training import (
    HasRows,
    NodeModule,
    RowParallelOperator,
    TakesRows,
    TorchGroup,
    row_bounds,
    seeded,
)

__all__ = [
    "AnyOperator",
    "OperatorPlan",
    "are_few",
    "build_operators",
    "can_be_alone",
    "distributed_operators",
    "estimate_distributed",
    "plan_operators",
    "prepare_rows",
    "remembered_operators",
    "rows_of_input",
    "rows_of_operators",
]

EXACT = RingOptions()

AnyOperator = Operator | ComputedOperator


@dataclass(frozen=True)
class OperatorPlan:
    """Where a model's operators of a graph shall live.

    Parameters
    ----------
    graph, spec, device, options
        What was asked for.
    storage
        "memory", "capped" or "on demand". Each sums in an order of its own, so that
        the last bits differ.
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
    spec = find_model(model).with_options(given)
    asked = OperatorPlan(graph, spec, device, options, IN_MEMORY)
    remembered = _REMEMBERED.get(graph)
    if remembered is not None and remembered[0] == asked.key and options.limit is None:
        _, storage, ready = remembered
        if storage in (IN_MEMORY, CAPPED):  # what is in memory needs no more of it
            return replace(asked, storage=storage, ready=ready)
    planned, matrix = asked, spec.matrix_of(graph)
    if spec.rings and not spec.directed:
        known = _with_model(options, spec)
        rings = plan_rings(matrix, spec.fixed["hops"], known)
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
            matrix,
            plan.rings,
            self_loops=self_loops,
            device=plan.device,
            index=NeighborIndex.from_graph(graph) if matrix is graph.adj else None,
        )
    else:
        operators = tuple(
            Operator(made, symmetric=spec.symmetric, device=plan.device)
            for made in spec.build_matrices(matrix)
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
    sizes = forecast_rings(matrix, hops=max(hops)).entries
    return tuple(sizes[hop - 1] for hop in hops for _ in ("along", "against"))


def _with_model(options: RingOptions, spec: ModelSpec) -> RingOptions:
    """Return the options of a prediction with what the model says about itself."""
    if options.workload.n_train:
        return options
    reach, self_loops = max(spec.fixed["final"]), spec.fixed["self_loops"]
    workload = replace(options.workload, reach=reach, self_loops=self_loops)
    return replace(options, workload=workload)


# ------------------------------------------------------------ for several processes


def distributed_operators(
    graph: Graph, spec: ModelSpec, options: RingOptions
) -> tuple[TorchGroup, tuple[RowParallelOperator, ...]]:
    """Return this process's part of the nodes, and its rows of a model's operators.

    All processes need the sizes of all rings, to normalize by: each counts those of
    some nodes. Then the nodes are cut so that all have about as many entries of
    features and operators.

    Parameters
    ----------
    graph
        The whole graph, the same in every process.
    spec
        The model with its options; it must have `rows`.
    options
        `max_neighbors` and `seed` of its rings.
    """
    assert spec.rules
    near, size = NeighborIndex.from_graph(graph), dist.get_world_size()
    walks = graph.adj @ graph.degrees.astype(np.float64)
    counting = TorchGroup(row_bounds(1 + walks, size))
    nodes = np.arange(counting.own.start, counting.own.stop)
    costs = np.full(graph.n_nodes, float(graph.n_features))
    if not isinstance(graph.x, np.ndarray):
        costs = np.diff(graph.x.indptr).astype(np.float64)
    for rule in spec.rules:
        own_sizes = near.sizes(rule.direction, rule.hop, nodes)[nodes]
        sizes = counting.all_gather(torch.from_numpy(own_sizes)).numpy()
        near.set_sizes(rule.direction, rule.hop, sizes)
        cap = options.max_neighbors if rule.hop > 1 else None
        costs += sizes if cap is None else np.minimum(sizes, cap)
    group = TorchGroup(row_bounds(costs, size))
    nodes = np.arange(group.own.start, group.own.stop)
    k, seed = options.max_neighbors, options.seed
    rows = (
        ComputedOperator(near, rule, max_neighbors=k, seed=seed).take(nodes)
        for rule in spec.rules
    )
    return group, tuple(RowParallelOperator(matrix, group) for matrix in rows)


def estimate_distributed(checked: CheckedFit, workers: int) -> tuple[int, int]:
    """Estimate the bytes that each worker holds, and those it sends in an epoch.

    A worker holds its part of the rows and their transpose, of the features and of the
    work, and the gathered operand of a product. Memory of mapped files is not counted.

    Parameters
    ----------
    checked
        Of `check_distributed`.
    workers
        How many there are.
    """
    graph, params = checked.graph, checked.params
    n, rules = graph.n_nodes, spec_of(params).rules or ()
    module = blank_module(params, graph.n_features, graph.n_classes)
    work = estimate_work(module, graph, checked.split)
    ring_sizes = forecast_rings(graph.adj, hops=max(rule.hop for rule in rules))
    held = 0.0
    for rule in rules:
        entries = ring_sizes.entries[rule.hop - 1]
        cap = params["ring_cap"] if rule.hop > 1 else None
        if cap is not None:
            entries = min(entries, n * cap)
        held += SLACK * operator_bytes(
            -(-round(entries + n * work.self_loops) // workers),
            train=work.n_train / max(n, 1),
            val=work.n_val / max(n, 1),
            symmetric=False,
        )
    rows = -(-n // workers)
    held += work.features // workers + work.step(rows, -(-work.n_train // workers))
    exchanged = _ExchangedColumns.of(module, len(rules))
    # The gathered operand, or its gradient and what the others send of theirs.
    held += 2 * 4 * n * exchanged.widest
    sent = 4 * (workers - 1) * rows * (exchanged.forward + exchanged.backward)
    sent += 4 * (workers - 1) * -(-work.n_val // workers) * graph.n_classes
    weights = 4 * sum(weight.numel() for weight in module.parameters())
    return round(held), sent + 2 * weights * (workers - 1) // workers


class _ExchangedColumns:
    """Stands for an operator of one node, and counts what an epoch would exchange."""

    device, shape = torch.device("cpu"), (1, 1)

    def __init__(self) -> None:
        self.forward = self.backward = self.widest = 0

    @classmethod
    def of(cls, module: NodeModule, n_operators: int) -> _ExchangedColumns:
        """Trace an epoch of a module: a step, and the validation after it."""
        module = module.to_empty(device="cpu")
        count, index = cls(), torch.zeros(1, dtype=torch.int64)
        cache: StepCache = {}
        graph = Propagation([count] * n_operators, index, cache=cache)
        x = torch.zeros(1, module.in_channels)
        with seeded(0):
            for _ in range(2):  # a step takes over what the validation computed
                count.forward = count.backward = 0
                module.train()(x, graph).sum().backward()
                cache.clear()
                with torch.no_grad():
                    module.eval()(x, graph)
        return count

    def __matmul__(self, dense: Tensor) -> Tensor:
        columns = dense.shape[1]
        self.forward += columns
        self.widest = max(self.widest, columns)
        result = dense.clone()
        if dense.requires_grad:
            result.register_hook(lambda _: self._count_backward(columns))
        return result

    def _count_backward(self, columns: int) -> None:
        self.backward += columns

    def take(self, index: NDArray[np.int64]) -> CSR:
        raise NotImplementedError

    def rows(self, index: NDArray[np.int64]) -> _ExchangedColumns:
        del index
        return self


# ----------------------------------------------------------------- for some nodes alone


SHARE = 0.25
"""Of the work for all nodes, up to which some are computed alone.

Rows that are made one by one, renumbered and stacked cost two or three times as much as
the same rows among all, and sizes are counted for their columns besides.
"""


def can_be_alone(graph: Graph, spec: ModelSpec, module: NodeModule) -> bool:
    """Return whether some nodes can be computed without all others.

    Not by a model that looks at the whole graph for each node, nor by one that takes
    what edges weigh: that is beside the mean of all.

    Parameters
    ----------
    graph
        Whose nodes they are.
    spec
        The model with its options.
    module
        Its module.
    """
    if spec.rules is None or module.receptive_field is None:
        return False
    return graph.edge_weight is None or not spec.weighted


def are_few(
    graph: Graph,
    spec: ModelSpec,
    module: NodeModule,
    schema: TableSchema | None,
    nodes: NDArray[np.int64],
) -> bool:
    """Return whether some nodes are better computed alone than with all others.

    It is forecast, by the walks that lead to the rows that are needed; those of a model
    for which `can_be_alone` is False never are.

    Parameters
    ----------
    graph
        Whose nodes they are.
    spec
        The model with its options.
    module
        Its module.
    schema
        Of the table that it takes, if it does.
    nodes
        The nodes.
    """
    if not can_be_alone(graph, spec, module):
        return False
    near = NeighborIndex.from_graph(graph)
    if len(nodes) > SHARE * near.n:
        return False
    steps, hop = (0, 0) if schema is None else walk_extent(schema)
    ways: tuple[str, ...] = ("ring",)
    if spec.rules:
        # A table beside operators is looked at for the nodes alone.
        assert module.receptive_field is not None
        steps, hop = module.receptive_field, max(rule.hop for rule in spec.rules)
        ways = tuple(dict.fromkeys(rule.direction for rule in spec.rules))
    if steps == 0:
        return True
    inner = near.within(ways, nodes, (steps - 1) * hop, SHARE * near.n)
    if inner is None:
        return False
    return all(
        near.cost(way, hop, inner) <= SHARE * near.cost(way, hop, None) for way in ways
    )


def rows_of_operators(
    graph: Graph, spec: ModelSpec, device: torch.device, options: RingOptions
) -> Sequence[TakesRows]:
    """Return a model's operators, of which rows can be taken: those kept, if they are.

    Parameters
    ----------
    graph, device, options
        As of `plan_operators`.
    spec
        The model with its options, which has `rules`.
    """
    kept = remembered_operators(graph, spec, device, options)
    if kept is not None:
        return kept
    assert spec.rules is not None
    # As where all rows are made, directed rings are not capped.
    cap = None if spec.directed else options.max_neighbors
    near = NeighborIndex.from_graph(graph)
    return [
        ComputedOperator(near, rule, max_neighbors=cap, seed=options.seed)
        for rule in spec.rules
    ]


def prepare_rows(graph: Graph, spec: ModelSpec, known: KnownLabels | None) -> None:
    """Count and look up, once, what the rows of any node may want of a graph.

    Parameters
    ----------
    graph
        The graph.
    spec
        The model with its options.
    known
        The labels of a model that takes them, else None.
    """
    near = NeighborIndex.from_graph(graph)
    everyone = np.arange(near.n)
    for rule in spec.rules or ():
        near.sizes(rule.direction, rule.hop, everyone)
    if known is not None:
        known.classes_in(graph, must=False)
    if graph.has_ids:
        len(graph.places)


def rows_of_input(
    graph: Graph,
    known: KnownLabels | None,
    scaler: Scaler,
    names: tuple[str, ...],
    device: torch.device,
    schema: TableSchema | None,
    drawn: Drawn,
) -> HasRows:
    """Return what a module takes as `x`, of which rows are made when they are needed.

    Parameters
    ----------
    graph, known, scaler, names, device, schema, drawn
        As of `build_input`.
    """
    features = SomeFeatures(graph, scaler, names, device)
    if schema is None:
        return features
    builder, key = feature_builder(graph, drawn), scaling_key(scaler, names)
    builder.check(schema)

    def rows(index: NDArray[np.int64]) -> FeatureTable:
        classes = None if known is None else known.classes_in(graph, must=False)
        return builder.table(schema, features, classes, index, key=key, device=device)

    return LazyTable(rows, (graph.n_nodes, schema.width))
