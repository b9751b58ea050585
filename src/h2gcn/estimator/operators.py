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
    farthest_hop,
    spec_of,
)
from h2gcn.features import FeatureTable, LazyTable, TableSchema, walk_extent
from h2gcn.graph import CSR, Graph
from h2gcn.models import ModelSpec, find_model
from h2gcn.rings import (
    ComputedOperator,
    NeighborIndex,
    RingOptions,
    RingPlan,
    build_rings,
    check_memory,
    forecast_rings,
    plan_rings,
    training_bytes,
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
    rings
        How operators are made of the rules of a model that has them.
    ready
        The operators, where they were built before and need no more memory.
    """

    graph: Graph
    spec: ModelSpec
    device: torch.device
    options: RingOptions
    rings: RingPlan | None = None
    ready: tuple[AnyOperator, ...] | None = None

    @property
    def on_demand(self) -> bool:
        """Whether rows are computed when needed: their products sum in other orders."""
        return self.rings is not None and self.rings.on_demand

    @property
    def key(self) -> Key:
        """What tells operators of one graph apart, beside `on_demand`."""
        return self.spec, self.device, self.options


Key = tuple[ModelSpec, torch.device, RingOptions]

_REMEMBERED: WeakKeyDictionary[Graph, tuple[Key, bool, tuple[AnyOperator, ...]]] = (
    WeakKeyDictionary()
)
"""Those built last, for each graph that is still in use, with their key and whether
their rows are computed on demand."""


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
        What the operators may take, and how rings are sampled.
    given
        The options of the model that are not its defaults.
    """
    spec = find_model(model).with_options(given)
    plan = OperatorPlan(graph, spec, device, options)
    key, on_demand, ready = _REMEMBERED.get(graph, (None, False, None))
    if key == plan.key and options.limit is None and not on_demand:
        return replace(plan, ready=ready)  # they need no more memory
    if spec.rules is None:
        entries = spec.entries(spec.matrix_of(graph))
        check_memory(graph.n_nodes, entries, options, symmetric=spec.symmetric)
    else:
        rings = plan_rings(NeighborIndex.from_graph(graph), spec.rules, options)
        plan = replace(plan, rings=rings)
    if (key, on_demand) == (plan.key, plan.on_demand):
        return replace(plan, ready=ready)
    return plan


def build_operators(plan: OperatorPlan) -> tuple[AnyOperator, ...]:
    """Return a model's operators of a graph as they were planned, [n, n] each.

    fit, predict and score mostly see one graph, and its rings are the dear part:
    they are computed once, and go when the graph goes.
    """
    if plan.ready is not None:
        return plan.ready
    graph, spec, device = plan.graph, plan.spec, plan.device
    _REMEMBERED.pop(graph, None)  # not beside those that are made now
    operators: tuple[AnyOperator, ...]
    if plan.rings is not None:
        index = NeighborIndex.from_graph(graph)
        operators = build_rings(index, plan.rings, device)
    else:
        operators = tuple(
            Operator(matrix, symmetric=spec.symmetric, device=device)
            for matrix in spec.build_matrices(spec.matrix_of(graph))
        )
    _REMEMBERED[graph] = plan.key, plan.on_demand, operators
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
    key, _, operators = _REMEMBERED.get(graph, (None, False, None))
    return operators if key == (spec, device, options) else None


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
    rows = (rule.rows(near, nodes, max_neighbors=k, seed=seed) for rule in spec.rules)
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
    ring_sizes = forecast_rings(graph.adj, hops=farthest_hop(rules)).entries
    rows, n_train, n_val = (
        -(-count // workers) for count in (n, work.n_train, work.n_val)
    )
    own = replace(work, features=work.features // workers, n_train=n_train, n_val=n_val)
    held = training_bytes(
        rows,
        rules,
        [-(-ring_sizes[rule.hop - 1] // workers) for rule in rules],
        RingOptions(params["ring_cap"], workload=own),
        symmetric=False,
    )
    exchanged = _ExchangedColumns.of(module, len(rules))
    # The gathered operand, or its gradient and what the others send of theirs.
    held += 2 * 4 * n * exchanged.widest
    sent = 4 * (workers - 1) * rows * (exchanged.forward + exchanged.backward)
    sent += 4 * (workers - 1) * n_val * graph.n_classes
    weights = 4 * sum(weight.numel() for weight in module.parameters())
    return held, sent + 2 * weights * (workers - 1) // workers


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
        steps, hop = module.receptive_field, farthest_hop(spec.rules)
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
    near, k = NeighborIndex.from_graph(graph), options.max_neighbors
    return [ComputedOperator(near, rule, k, options.seed) for rule in spec.rules]


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
