"""Builds feature tables of a graph, for all nodes or for some without any other."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.features.blocks import (
    BLOCKS,
    EXTREMES,
    POWERS,
    RINGS,
    Block,
    TableSchema,
    parse_blocks,
)
from h2gcn.features.edges import edge_feature_names, edge_features
from h2gcn.features.reduce import reduce_rows
from h2gcn.features.table import FeatureTable, LabelCounter, RowSource
from h2gcn.graph import CSR, Features, Graph, row_slices
from h2gcn.rings import NeighborIndex, RowRule
from h2gcn.sparse import Operator, to_tensor

MAX_NUMERIC = 300  # columns for max, min and std
REVERSED = {"out": "in", "in": "out"}

Index = NDArray[np.int64]
T = TypeVar("T")


class _OneHot:
    """One-hot rows of class numbers, zero where the class is -1."""

    def __init__(self, classes: Index, n_classes: int) -> None:
        self._classes, self._rows = classes, np.eye(n_classes + 1)[:, :-1]

    def __getitem__(self, nodes: Index | slice) -> NDArray[np.float64]:
        return self._rows[self._classes[nodes]]


class FeatureBuilder:
    """Builds tables of one graph; whole-graph blocks are kept for the next table.

    Parameters
    ----------
    graph
        Its labels are not read: known ones are passed to `table`. The builder holds a
        copy, so that a cache of builders does not keep the graph alive.
    max_neighbors, seed
        How to sample rings beyond the first, see `ring_rows`; default not.
    """

    def __init__(
        self, graph: Graph, max_neighbors: int | None = None, seed: int = 0
    ) -> None:
        self.graph, self.index = copy(graph), NeighborIndex.from_graph(graph)
        self.max_neighbors, self.seed = max_neighbors, seed
        self._blocks: dict[Hashable, Features] = {}
        self._matrices: dict[Hashable, CSR] = {}
        self._last_ring: tuple[Hashable, CSR] = None, CSR((0, 0))  # of some nodes

    # -------------------------------------------------------------------------- schema

    def schema(self, blocks: str, *, labels: bool = True) -> TableSchema:
        """Return the blocks of a description (`parse_blocks`) that this graph can fill.

        `adjacency.ring1` gives way to the two directions if they are among them; blocks
        of labels need known `labels`.
        """
        graph = self.graph
        filled = [BLOCKS[name] for name in parse_blocks(blocks)]
        filled = [block for block in filled if self._can_fill(block, labels)]
        names = [block.name for block in filled]
        if {"adjacency.out", "adjacency.in"} & set(names):
            names = [name for name in names if name != "adjacency.ring1"]
        if not names:
            raise InputError(
                "must name something that the graph has",
                param="blocks",
                value=blocks,
                where=graph.name,
            )
        adjacency = any(block.kind == "adjacency" for block in filled)
        return TableSchema(
            blocks=tuple(names),
            features=graph.feature_names,
            classes=tuple(map(str, graph.classes)),
            edge_columns=edge_feature_names(graph) if "edges" in names else (),
            numeric=self._numeric if any(block.numeric for block in filled) else (),
            directed=graph.directed is not None,
            n_nodes=graph.n_nodes,
            nodes=_nodes_checksum(graph) if adjacency else None,
        )

    def _can_fill(self, block: Block, labels: bool) -> bool:
        """Return whether the graph has anything for a block."""
        graph = self.graph
        if block.kind == "ego":
            return True
        if not graph.adj.nnz or (block.directed and graph.directed is None):
            return False
        has = {"labels": labels, "edges": graph.edge_columns is not None}
        return has.get(block.kind, not block.numeric or bool(self._numeric))

    @cached_property
    def _numeric(self) -> tuple[str, ...]:
        """The first features with values beside 0 and 1."""
        x = self.graph.x
        numeric = np.zeros(x.shape[1], dtype=bool)
        if isinstance(x, np.ndarray):
            for rows in row_slices(x.shape):
                numeric |= ((x[rows] != 0) & (x[rows] != 1)).any(axis=0)
        else:
            numeric[x.indices[(x.data != 0) & (x.data != 1)]] = True
        columns = np.flatnonzero(numeric)[:MAX_NUMERIC]
        return tuple(self.graph.feature_names[i] for i in columns)

    def check(self, schema: TableSchema) -> None:
        """Raise if this graph cannot fill the blocks of another graph's schema."""
        graph = self.graph
        if schema.nodes is not None and schema.nodes != _nodes_checksum(graph):
            raise InputError(
                "the model has the block 'adjacency', a column for each node of the "
                "graph it was trained on, and this is another graph",
                where=graph.name,
                hint="train without that block to predict here",
            )
        if graph.directed is not None or not schema.directed:
            return
        directed = [b.name for b in schema.parsed if b.directed or b.kind == "degrees"]
        if directed:
            raise InputError(
                f"the edges have no directions, and the model has {directed[0]!r}",
                where=graph.name,
            )

    # --------------------------------------------------------------------------- table

    def table(
        self,
        schema: TableSchema,
        x: RowSource,
        labels: Index | None = None,
        nodes: Index | None = None,
        *,
        key: Hashable = None,
        device: torch.device | str = "cpu",
        recount: bool = False,
    ) -> FeatureTable:
        """Return the table of a schema, of this graph or of the graph of training.

        Parameters
        ----------
        x
            Features in the schema's order, scaled, [n, F]; only needed rows are taken.
        labels
            The class of each node whose label may be seen, else -1, [n]; default none.
        nodes
            Whose rows, [m]; default all.
        key
            Identifies these features: blocks of all nodes are cached for the next table
            with an equal key. None caches no block of features.
        recount
            Whether the model counts other labels, see `FeatureTable.with_labels`.
        """
        self.check(schema)
        n = self.graph.n_nodes
        known = np.full(n, -1, dtype=np.int64) if labels is None else labels
        one_hot = _OneHot(known, len(schema.classes))
        blocks: dict[str, Tensor | Operator] = {}
        counters: dict[str, LabelCounter] = {}
        for block in schema.parsed:
            if block.kind == "labels":
                counters[block.name] = partial(self.label_shares, block, nodes=nodes)
                values: Features = counters[block.name](one_hot)
            else:
                values = self._columns(block, schema, x, nodes, key)
            blocks[block.name] = to_tensor(values, device)
        whole = one_hot[np.arange(n if nodes is None else 0)].astype(np.float32)
        return FeatureTable(
            blocks, torch.from_numpy(whole).to(device), counters if recount else {}
        )

    def _columns(
        self,
        block: Block,
        schema: TableSchema,
        x: RowSource,
        nodes: Index | None,
        key: Hashable,
    ) -> Features:
        """Return the columns of a block other than one of labels, [m, width]."""
        if block.kind == "edges":
            return edge_features(self.graph, schema.edge_columns, nodes)
        if block.kind == "degrees":
            everyone = np.arange(self.graph.n_nodes) if nodes is None else nodes
            return self._log_degrees(schema.directed, everyone)
        if block.kind == "adjacency":
            return self._step(block, nodes)
        numeric = schema.numeric if block.numeric else None
        name = block.name, numeric, key
        if name in self._blocks:
            return _take(self._blocks[name], nodes)
        columns = None if numeric is None else list(map(schema.features.index, numeric))
        values = self.values(block, x, nodes, columns)
        if key is not None and nodes is None:
            self._blocks[name] = values
        return values

    def _log_degrees(self, directed: bool, nodes: Index) -> NDArray[np.float32]:
        """Return log(1 + size) of rings 1 and 2, if directed also of out and in."""
        places = [("ring", 1), ("ring", 2)] + directed * [("out", 1), ("in", 1)]
        sizes = [self.index.sizes(*place, nodes)[nodes] for place in places]
        return np.log1p(np.stack(sizes, axis=1, dtype=np.float64)).astype(np.float32)

    def values(
        self,
        block: Block,
        x: RowSource,
        nodes: Index | None = None,
        columns: list[int] | None = None,
    ) -> Features:
        """Return the reduction of some columns of x over a block's walks, [m, width].

        No row of another node than `nodes` is computed.
        """
        if not block.steps:
            rows: Features = x[slice(None) if nodes is None else nodes]
            rows = np.array(rows) if isinstance(rows, np.memmap) else rows
            return rows if columns is None else rows[:, columns]
        matrix, members = self._step(block, nodes), None
        if nodes is not None:  # leave out the columns that are empty
            inside = np.zeros(matrix.shape[1], dtype=bool)
            inside[matrix.indices] = True
            members = np.flatnonzero(inside)
            matrix = CSR(matrix[:, members])
        rest = replace(block, steps=block.steps[1:])
        inner = self.values(rest, x, members, columns)
        return reduce_rows(matrix, inner, block.reduce)

    def label_shares(
        self, block: Block, labels: RowSource, nodes: Index | None = None
    ) -> NDArray[np.float32]:
        """Return shares of the labels and log(1 + their number), [m, C + 1].

        A node's own label is never counted: walks that return to it are subtracted.
        Counts are whole numbers in float64, so that nothing is left of it by rounding.

        Parameters
        ----------
        labels
            One-hot labels, [n, C], in float64; zero where unknown.
        """
        counts = self.values(block, labels, nodes)
        if len(block.steps) == 2:
            first = self._step(block, nodes)
            back = self._step(replace(block, steps=(REVERSED[block.steps[1]],)), nodes)
            returning = first.multiply(back).sum(axis=1, dtype=np.float64)
            own = labels[slice(None) if nodes is None else nodes]
            counts = counts - returning.reshape(-1, 1) * own
        total = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
        shares = counts / np.maximum(total, 1)
        return np.hstack([shares, np.log1p(total)]).astype(np.float32)

    def members(
        self, block: str, node: int
    ) -> tuple[Index, NDArray[np.float64]] | None:
        """Return the nodes whose features a block sums up for a node, and weights.

        Of labels it is the number of walks to each node but the node itself. None for a
        block that is no such sum.
        """
        walk = BLOCKS[block]
        if walk.kind not in ("ego", "features", "labels") or walk.reduce in EXTREMES:
            return None
        identity = sp.eye_array(self.graph.n_nodes, format="csr")
        row = CSR(self.values(walk, identity, np.array([node])))
        row.sort_indices()
        other = row.indices != node if walk.kind == "labels" else slice(None)
        return row.indices[other].astype(np.int64), row.data[other].astype(np.float64)

    # --------------------------------------------------------------------------- steps

    def _step(self, block: Block, nodes: Index | None) -> CSR:
        """Return the matrix of a walk's first step, [m, n]; all rows are kept.

        It has the weights of the edges, except for labels, maxima and minima.
        """
        name = block.steps[0]
        if name in RINGS[1:]:
            return self._ring(name, nodes)
        if block.reduce in POWERS:
            return self._normalized(block.reduce, nodes)
        weighted = self.graph.edge_weight is not None and block.kind == "features"
        key = name, weighted and block.reduce not in ("max", "min")
        if key not in self._matrices:
            self._matrices[key] = self._matrix(*key)
        return _take(self._matrices[key], nodes)

    def _normalized(self, reduce: str, nodes: Index | None) -> CSR:
        """Return D^-1/2 A D^-1/2, for "loops" with self-loops; that of all is kept."""
        if reduce in self._matrices:
            return _take(self._matrices[reduce], nodes)
        matrix = RowRule(self_loops=reduce == "loops").rows(self.index, nodes)
        if nodes is None:
            self._matrices[reduce] = matrix
        return matrix

    def _matrix(self, name: str, weighted: bool) -> CSR:
        graph = self.graph
        if not weighted:
            return self.index.matrix("ring" if name == "ring1" else name)
        weights = graph.weights if name == "ring1" else graph.directed_weights
        assert weights is not None
        return CSR(weights.T).sorted_indices() if name == "in" else weights

    def _ring(self, name: str, nodes: Index | None) -> CSR:
        """Return who is in a ring beyond the first, [m, n]: ones unless sampled.

        That of all nodes is kept, and of some nodes the last one, for another block.
        """
        if name in self._matrices:
            return _take(self._matrices[name], nodes)
        key = None if nodes is None else (name, nodes.tobytes())
        last, ring = self._last_ring
        if key is None or key != last:
            everyone = np.arange(self.graph.n_nodes)
            sample = {"max_neighbors": self.max_neighbors, "seed": self.seed}
            ring, _ = self.index.rows(
                "ring", int(name[-1]), _take(everyone, nodes), **sample
            )
        if key is None:
            self._matrices[name] = ring
        else:
            self._last_ring = key, ring
        return ring


def _take(values: T, nodes: Index | None) -> T:
    """Return the rows of some nodes; of all, the values as they are."""
    return values if nodes is None else values[nodes]  # type: ignore[index]


def _nodes_checksum(graph: Graph) -> str:
    """Return a checksum of the nodes' ids, in order; without ids, of the edges."""
    digest = hashlib.sha256()
    if not graph.has_ids:
        for part in (graph.adj.indptr, graph.adj.indices):
            digest.update(part.astype("<i8").tobytes())
    for name in graph.node_ids:
        digest.update(str(name).encode() + b"\n")
    return digest.hexdigest()
