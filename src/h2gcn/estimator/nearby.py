"""A few nodes of a graph: whether they are computed alone, and what that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.estimator.inputs import (
    Drawn,
    KnownLabels,
    Scaler,
    SomeFeatures,
    scaling_key,
    table_maker,
)
from h2gcn.estimator.operators import remembered_operators
from h2gcn.graph import Graph
from h2gcn.models import ModelSpec, NodeModule
from h2gcn.ring_table import Schema, SomeRows, table_rules
from h2gcn.rings import RingOptions, RowOperator, Vicinity
from h2gcn.training import HasRows, TakesRows

__all__ = ["are_few", "prepare_rows", "rows_of_input", "rows_of_operators"]

SHARE = 0.25
"""Of the work for all nodes, up to which some are computed alone.

Rows that are made one by one, renumbered and stacked cost two or three times as much as
the same rows among all, and sizes are counted for their columns besides.
"""


def are_few(
    graph: Graph,
    spec: ModelSpec,
    module: NodeModule,
    schema: Schema | None,
    nodes: NDArray[np.int64],
) -> bool:
    """Return whether some nodes are better computed alone than with all others.

    It is forecast, by the walks that lead to the rows that are needed; a model that
    looks at the whole graph for each node never is. Nor is one that takes what edges
    weigh: that is beside the mean of all.

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
    if spec.rows is None or module.reach is None:
        return False
    if graph.edge_weight is not None and spec.weighted:
        return False
    near = Vicinity.of(graph)
    if len(nodes) > SHARE * near.n:
        return False
    steps, hop = (0, 0) if schema is None else table_rules(schema)
    ways: tuple[str, ...] = ("ring",)
    if spec.rows:
        # A table beside operators is looked at for the nodes alone.
        steps, hop = module.reach, max(rule.hop for rule in spec.rows)
        ways = tuple(dict.fromkeys(rule.way for rule in spec.rows))
    if steps == 0:
        return True
    inner = near.ball(ways, nodes, (steps - 1) * hop, SHARE * near.n)
    if inner is None:
        return False
    return all(
        near.work(way, hop, inner) <= SHARE * near.work(way, hop, None) for way in ways
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
        The model with its options, which has `rows`.
    """
    kept = remembered_operators(graph, spec, device, options)
    if kept is not None:
        return kept
    assert spec.rows is not None
    # As where all rows are made, directed rings are not capped.
    cap = None if spec.directed else options.cap
    near = Vicinity.of(graph)
    return [RowOperator(near, rule, cap=cap, seed=options.seed) for rule in spec.rows]


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
    near = Vicinity.of(graph)
    everyone = np.arange(near.n)
    for rule in spec.rows or ():
        near.sizes(rule.way, rule.hop, everyone)
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
    schema: Schema | None,
    drawn: Drawn,
    wanted: NDArray[np.int64] | None,
) -> HasRows:
    """Return what a module takes as `x`, of which rows are made when they are needed.

    Parameters
    ----------
    graph, known, scaler, names, device, schema, drawn
        As of `build_input`.
    wanted
        Which nodes have more in a table than their own features; None is all.
    """
    features = SomeFeatures(graph, scaler, names, device)
    if schema is None:
        return features
    return SomeRows(
        table_maker(graph, drawn),
        Vicinity.of(graph),
        schema,
        features.of,
        scaling_key(scaler, names),
        _labels(graph, known, len(schema.classes), device),
        device,
        wanted,
    )


def _labels(
    graph: Graph, known: KnownLabels | None, n_classes: int, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return what gives one-hot labels of some nodes."""

    def rows(index: NDArray[np.int64]) -> Tensor:
        found = torch.zeros(len(index), n_classes, device=device)
        if known is not None:
            classes = known.classes_in(graph, must=False)[index]
            there = np.flatnonzero(classes >= 0)
            found[there, classes[there]] = 1.0
        return found

    return rows
