"""Builds feature tables of a graph, for all nodes or for some without any other."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.features.blocks import (
    RINGS,
    AvailableParts,
    Block,
    TableSchema,
    parse_blocks,
)
from h2gcn.features.edges import edge_feature_names, edge_features
from h2gcn.features.reduce import compact, reduce_rows, row_normalized, sym_normalized
from h2gcn.features.structure import log_degrees, log_pagerank
from h2gcn.features.table import FeatureTable, LabelCounter
from h2gcn.graph import CSR, Features, Graph, row_slices
from h2gcn.rings import NeighborIndex
from h2gcn.sparse import Operator, to_tensor

__all__ = ["MAX_NUMERIC", "FeatureBuilder"]

MAX_NUMERIC = 300  # columns of which max, min and std are taken
_REVERSED = {"out": "in", "in": "out"}

Index = NDArray[np.int64]


class FeatureRows(Protocol):
    """Features of all nodes: an array, CSR, or rows made on demand."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return the features of some nodes, [m, F]."""
        ...


class _OneHot:
    """One-hot rows of class numbers, zero where they are negative."""

    def __init__(self, classes: Index, n_classes: int) -> None:
        self._classes, self._n_classes = classes, n_classes

    def __getitem__(self, nodes: Index) -> NDArray[np.float64]:
        classes = self._classes[nodes]
        rows = np.zeros((len(classes), self._n_classes))
        known = np.flatnonzero(classes >= 0)
        rows[known, classes[known]] = 1
        return rows


class FeatureBuilder:
    """Builds tables of one graph; whole-graph blocks are kept for the next table.

    Parameters
    ----------
    graph
        The graph. Its labels are not read: known ones are passed to `table`.
    index
        Its neighborhoods; default `NeighborIndex.from_graph(graph)`.
    max_neighbors, seed
        Of rings beyond the first, at most so many members are sampled per node; each
        stands for as many as there are. Default all.
    """

    def __init__(
        self,
        graph: Graph,
        index: NeighborIndex | None = None,
        max_neighbors: int | None = None,
        seed: int = 0,
    ) -> None:
        self.graph = graph
        self.index = NeighborIndex.from_graph(graph) if index is None else index
        self.max_neighbors, self.seed = max_neighbors, seed
        self._kept: dict[Hashable, Features] = {}
        self._patterns: dict[str, CSR] = {}  # of all nodes
        self._some: dict[tuple[str, bytes], CSR] = {}  # of the nodes of one table
        self._scales: dict[bool, NDArray[np.float64]] = {}

    # -------------------------------------------------------------------------- schema

    def schema(self, blocks: str, *, labels: bool = True) -> TableSchema:
        """Return those of some blocks that this graph can fill.

        Parameters
        ----------
        blocks
            See `parse_blocks`.
        labels
            Whether any labels are known.
        """
        graph, names = self.graph, parse_blocks(blocks)
        numeric = any(Block.parse(name).numeric for name in names)  # type: ignore[union-attr]
        available = AvailableParts(
            features=graph.n_features > 0,
            numeric=numeric and bool(self._numeric),
            edges=graph.adj.nnz > 0,
            directions=graph.directed is not None,
            labels=labels,
            edge_features=graph.edge_columns is not None,
        )
        names = available.select(names)
        if not names:
            raise InputError(
                "must name something that the graph has",
                param="blocks",
                value=blocks,
                where=graph.name,
            )
        classes = tuple(map(str, graph.classes))
        schema = TableSchema(names, (1,) * len(names), graph.feature_names, classes)
        if "edges" in names and graph.edge_columns is not None:
            columns = edge_feature_names(graph.edge_columns, graph.n_nodes)
            schema = replace(schema, edge_columns=columns)
        if any(block.numeric for block, _ in schema.parsed()):
            schema = replace(schema, numeric=self._numeric)
        if any(block.kind == "adjacency" for block, _ in schema.parsed()):
            schema = replace(schema, nodes=_nodes_checksum(graph))
        widths = {"degrees": 2 if graph.directed is None else 4}
        widths["adjacency"] = graph.n_nodes
        return replace(
            schema,
            widths=tuple(
                widths.get(block.kind) or schema.expected_width(block)
                for block, _ in schema.parsed()
            ),
        )

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
        name = self.graph.name
        if schema.nodes is not None and schema.nodes != _nodes_checksum(self.graph):
            raise InputError(
                "the model has the block 'adjacency', a column for each node of the "
                "graph it was trained on, and this is another graph",
                where=name,
                hint="train without that block to predict here",
            )
        if self.graph.directed is not None:
            return
        for block, width in schema.parsed():
            if block.directed or (block.kind == "degrees" and width == 4):
                raise InputError(
                    "the edges have no directions, and the model has the block "
                    f"{block.name!r}",
                    where=name,
                )

    # --------------------------------------------------------------------------- table

    def table(
        self,
        schema: TableSchema,
        x: FeatureRows,
        labels: Index | None = None,
        nodes: Index | None = None,
        *,
        key: Hashable = None,
        device: torch.device | str = "cpu",
        recount: bool = False,
    ) -> FeatureTable:
        """Return the table of a schema.

        Parameters
        ----------
        schema
            Of this graph, or of the graph of training.
        x
            Features in the schema's order, scaled, [n, F]; of other nodes than those
            that are needed no row is taken.
        labels
            The class of each node whose label may be seen, else -1, [n]; default none.
        nodes
            Whose rows, [m]; default all.
        key
            What tells these features from others of the graph: blocks of all nodes are
            kept for the next table with an equal key. None keeps no block of features.
        device
            Where the table shall be.
        recount
            Whether the model counts labels anew, see `FeatureTable.with_labels`.
        """
        self.check(schema)
        n, n_classes = self.graph.n_nodes, len(schema.classes)
        known = np.full(n, -1, dtype=np.int64) if labels is None else labels
        hot = _OneHot(known, n_classes)
        columns = [schema.features.index(name) for name in schema.numeric]
        blocks: dict[str, Tensor | Operator] = {}
        counters: dict[str, LabelCounter] = {}
        for block, width in schema.parsed():
            if block.kind == "labels":
                counter = self.label_counter(block, nodes)
                values: Features = counter.shares(hot)  # type: ignore[arg-type]
                if recount:
                    counters[block.name] = counter
            elif block.kind == "edges":
                values = edge_features(self.graph, schema.edge_columns, nodes)
            else:
                values = self._block(block, width, x, nodes, columns, key)
            blocks[block.name] = to_tensor(values, device)
        self._some.clear()
        given = hot[np.arange(n if nodes is None else 0)]
        return FeatureTable(
            blocks, torch.from_numpy(given.astype(np.float32)).to(device), counters
        )

    def _block(
        self,
        block: Block,
        width: int,
        x: FeatureRows,
        nodes: Index | None,
        columns: list[int],
        key: Hashable,
    ) -> Features:
        """Return a block, from those that are kept if it is one."""
        structural = block.kind in ("degrees", "adjacency", "pagerank")
        chosen = tuple(columns) if block.numeric else None
        name = (block.name, width, chosen, None if structural else key)
        keeps = structural or key is not None
        if keeps and name in self._kept:
            kept = self._kept[name]
            return kept if nodes is None else kept[nodes]
        if block.kind == "pagerank":
            self._kept[name] = log_pagerank(self.index.matrix("out"))
            return self._kept[name] if nodes is None else self._kept[name][nodes]
        if block.kind == "degrees":
            everyone = np.arange(self.graph.n_nodes) if nodes is None else nodes
            values: Features = log_degrees(self.index, width, everyone)
        elif block.kind == "adjacency":
            values = self._pattern(block.place, nodes)
        else:
            values = self.values(block, x, nodes, columns if block.numeric else None)
        if keeps and nodes is None:
            self._kept[name] = values
        return values

    def values(
        self,
        block: Block,
        x: FeatureRows,
        nodes: Index | None = None,
        columns: list[int] | None = None,
    ) -> Features:
        """Return the columns of a walk, [m, width]; no row of another node is computed.

        Parameters
        ----------
        block
            Of kind "ego" or "features".
        x
            As of `table`.
        nodes
            Whose rows; default all.
        columns
            Which columns of `x`; default all.
        """
        if not block.steps:
            rows: Features = x[slice(None) if nodes is None else nodes]
            rows = np.array(rows) if isinstance(rows, np.memmap) else rows
            return rows if columns is None else rows[:, columns]
        matrix = self._step(block, nodes)
        members = None
        if nodes is not None:
            matrix, members = compact(matrix)
        inner = self.values(block.after_first_step, x, members, columns)
        return reduce_rows(matrix, inner, block.reduce)

    def label_counter(self, block: Block, nodes: Index | None = None) -> LabelCounter:
        """Return what counts labels in a neighborhood of some nodes, or of all."""
        rows = np.arange(self.graph.n_nodes) if nodes is None else nodes
        first = self._pattern(block.steps[0], nodes)
        returning = np.zeros(len(rows))
        near, members = compact(first)
        steps = [near]
        if len(block.steps) == 2:
            back = self._pattern(_REVERSED[block.steps[1]], nodes)
            returning = np.asarray(first.multiply(back).sum(axis=1), dtype=np.float64)
            second, members = compact(self._pattern(block.steps[1], members))
            steps.append(second)
        exact = tuple(CSR(step.astype(np.float64)) for step in steps)
        return LabelCounter(exact, members, returning.reshape(-1), rows)

    def members(
        self, block: str, node: int
    ) -> tuple[Index, NDArray[np.float64]] | None:
        """Return the nodes whose features a block sums up for a node, and weights.

        Of labels it is the number of walks to each node but the node itself. None for a
        block that is no such sum.
        """
        walk = Block.parse(block)
        assert walk is not None
        nodes, weights = np.array([node]), np.ones(1)
        if walk.kind not in ("ego", "features", "labels"):
            return None
        if walk.reduce in ("max", "min", "std"):
            return None
        labels = walk.kind == "labels"
        while walk.steps:
            if labels:
                rows = self._pattern(walk.steps[0], nodes)
            else:
                rows = self._step(walk, nodes)
                rows = row_normalized(rows) if walk.reduce == "mean" else rows
            total = CSR(sp.csr_array(weights[None, :]) @ rows.astype(np.float64))
            total.sort_indices()
            nodes, weights = total.indices.astype(np.int64), total.data
            walk = walk.after_first_step
        self._some.clear()
        if labels:
            return nodes[nodes != node], weights[nodes != node]
        return nodes, weights

    # --------------------------------------------------------------------------- steps

    def _step(self, block: Block, nodes: Index | None) -> CSR:
        """Return the matrix of a walk's first step, [m, n], with edge weights."""
        name, graph = block.steps[0], self.graph
        if block.reduce in ("max", "min"):
            return self._pattern(name, nodes)
        if block.reduce in ("power", "loops"):
            return self._sym_rows(nodes, self_loops=block.reduce == "loops")
        weights = {"ring1": graph.weights, "out": graph.directed_weights}.get(name)
        if name == "in" and graph.directed_weights is not None:
            weights = self._weights_in
        if weights is None:
            return self._pattern(name, nodes)
        return weights if nodes is None else CSR(weights[nodes])

    @cached_property
    def _weights_in(self) -> CSR:
        assert self.graph.directed_weights is not None
        transposed = CSR(self.graph.directed_weights.T)
        transposed.sort_indices()
        return transposed

    def _pattern(self, name: str, nodes: Index | None) -> CSR:
        """Return who is in a ring, or one step away, [m, n]; ones unless sampled."""
        if name not in RINGS[1:]:
            matrix = self.index.matrix("ring" if name == "ring1" else name)
            return matrix if nodes is None else CSR(matrix[nodes])
        if name in self._patterns:
            whole = self._patterns[name]
            return whole if nodes is None else CSR(whole[nodes])
        if nodes is None:
            everyone = np.arange(self.graph.n_nodes)
            self._patterns[name] = self._ring(name, everyone)
            return self._patterns[name]
        key = name, nodes.tobytes()
        if key not in self._some:
            self._some[key] = self._ring(name, nodes)
        return self._some[key]

    def _ring(self, name: str, nodes: Index) -> CSR:
        options = {"max_neighbors": self.max_neighbors, "seed": self.seed}
        return self.index.rows("ring", int(name[-1]), nodes, **options)[0]

    def _sym_rows(self, nodes: Index | None, *, self_loops: bool) -> CSR:
        """Return rows of D^-1/2 A D^-1/2, or of A + I so normalized, [m, n]."""
        adj = self.graph.adj if self.graph.weights is None else self.graph.weights
        n = self.graph.n_nodes
        if self_loops not in self._scales:
            weights = adj.sum(axis=1, dtype=np.float64) + self_loops
            scale = np.zeros(n)
            np.power(weights, -0.5, out=scale, where=weights > 0)
            self._scales[self_loops] = scale
        rows = adj if nodes is None else CSR(adj[nodes])
        chosen = np.arange(n) if nodes is None else nodes
        if self_loops:
            m = len(chosen)
            loops = CSR(
                (np.ones(m, np.float32), chosen, np.arange(m + 1)), shape=(m, n)
            )
            rows = CSR(rows + loops)
        return sym_normalized(rows, self._scales[self_loops], chosen)


def _nodes_checksum(graph: Graph) -> str:
    """Return a checksum of the nodes' ids, in order; without ids, of the edges."""
    digest = hashlib.sha256()
    if not graph.has_ids:
        for part in (graph.adj.indptr, graph.adj.indices):
            digest.update(part.astype("<i8").tobytes())
    for name in graph.node_ids:
        digest.update(str(name).encode() + b"\n")
    return digest.hexdigest()
