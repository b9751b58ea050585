"""Ring tables of graphs: their schema, makers kept with the graph, their memory."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np

from h2gcn.estimator.parameters import Params, resolve_params, spec_of
from h2gcn.estimator.scaling import Scaler
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.ring_table import Schema, TableMaker
from h2gcn.sparse import available_memory, gigabytes

__all__ = ["input_width", "scaling_key", "table_maker", "table_schema"]

_MAKERS: WeakKeyDictionary[Graph, TableMaker] = WeakKeyDictionary()
"""Of each graph that is still in use: several models take the same blocks."""


def table_maker(graph: Graph) -> TableMaker:
    """Return the maker of a graph's tables, with the blocks it has made before."""
    if graph not in _MAKERS:
        _MAKERS[graph] = TableMaker(graph)
    return _MAKERS[graph]


def table_schema(params: Params, graph: Graph) -> Schema | None:
    """Return the blocks that a model takes of a graph; None if it takes no table.

    Raises where they do not fit into memory.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    graph
        The graph of training.
    """
    spec = spec_of(params)
    if spec.inputs != "table":
        return None
    recipe = spec.table or resolve_params(params)["options"]["table"]
    schema = table_maker(graph).schema(recipe)
    limit = params["memory_limit"]
    allowed = available_memory() if limit is None else int(limit * 1e9)
    need = _bytes(schema, graph)
    if need > allowed:
        raise InputError(
            f"{graph.name}: the ring table of {params['model']} will not fit in "
            f"memory: it takes about {gigabytes(need)}, the limit is "
            f"{gigabytes(allowed)}; "
            "options={'table': …} with fewer blocks takes less, such as "
            "'own+ring1+labels'"
        )
    return schema


def _bytes(schema: Schema, graph: Graph) -> int:
    """Return about what a table takes, and a copy of the rows of a step."""
    total = 0
    degree = graph.adj.nnz / max(graph.n_nodes, 1)
    for block, width in zip(schema.blocks, schema.widths, strict=True):
        full = 4 * width * graph.n_nodes
        if block.startswith("adjacency"):
            full = 8 * graph.adj.nnz
        elif not isinstance(graph.x, np.ndarray) and width == graph.n_features:
            filled = 8 * graph.x.nnz * (1 if block == "own" else degree)
            full = min(full, int(filled))
        total += full
    return 2 * total


def input_width(
    params: Params, n_features: int, n_classes: int, schema: Schema | None
) -> int | tuple[int, ...]:
    """Return the columns of a model's input, of each block where it is a table.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    n_features, n_classes
        Of the graph.
    schema
        Of its table; None where it is not known yet, and stands for one block.
    """
    inputs = spec_of(params).inputs
    if inputs == "table":
        return (n_features,) if schema is None else schema.widths
    return n_classes if inputs == "labels" else n_features


def scaling_key(scaler: Scaler, names: tuple[str, ...]) -> Hashable:
    """Return what tells the features of one graph apart: which they are, how scaled."""
    digest = hashlib.sha256()
    for numbers in (scaler.mean, scaler.deviation):
        if numbers is not None:
            digest.update(np.ascontiguousarray(numbers).tobytes())
    return scaler.kind, digest.hexdigest(), names
