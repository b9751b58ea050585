"""The table of a graph, each block computed once, and as modules take it.

`TableInput` is what a module is given: blocks of columns, and labels that can be
masked. `TableMaker` makes it, for all nodes or for some without any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import sparse
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, Graph, edge_aggregates
from h2gcn.ring_table.neighbourhoods import (
    DIRECTIONS,
    RINGS,
    Neighbourhoods,
    RingRows,
    extremes,
    multiply,
    shares,
)
from h2gcn.ring_table.recipe import (
    Schema,
    check_recipe,
    expand,
    far_rings,
    is_computed,
)
from h2gcn.rings import ComputedOperator, NeighborIndex, RowRule, distinct
from h2gcn.sparse import Operator, to_tensor

__all__ = [
    "Blocks",
    "Input",
    "LabelCounts",
    "Made",
    "MakesRows",
    "SomeRows",
    "TableInput",
    "TableMaker",
    "nodes_checksum",
    "table_rules",
]

WHOLE = 2**24
"""Up to here, float32 has every whole number."""


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Counts known labels over a neighbourhood, of which a node is never a member.

    Parameters
    ----------
    steps
        Binary operators, whose product counts the walks to each member, [n, n]; of
        the first, only the rows of some nodes, of the last only the columns of the k
        whose labels are given.
    closed
        How many of those walks lead back to the node itself, [m].
    nodes
        Whose neighbourhoods they are, as numbers among the k, [m].
    many
        Whether a node has more walks than float32 can count.
    """

    steps: tuple[Operator, ...]
    closed: Tensor
    nodes: Tensor
    many: bool = False

    @classmethod
    def of(
        cls, steps: Sequence[CSR], device: torch.device | str = "cpu"
    ) -> LabelCounts:
        """Return the counts of a neighbourhood as its matrices give it."""
        n = steps[0].shape[0]
        closed, many = torch.zeros(n), False
        if len(steps) == 2:
            ends = np.diff(steps[1].indptr).astype(np.float64)
            many = bool((steps[0] @ ends).max(initial=0) > WHOLE)
            both = steps[0].multiply(CSR(steps[1].T))
            closed = torch.from_numpy(np.asarray(both.sum(axis=1), dtype=np.float32))
        return cls(
            tuple(Operator(step, device=device) for step in steps),
            closed.reshape(-1).to(device),
            torch.arange(n, device=device),
            many,
        )

    def rows(self, index: NDArray[np.int64]) -> LabelCounts:
        """Return the counts for some of the nodes alone."""
        first, *others = self.steps
        at = torch.from_numpy(index).to(self.closed.device)
        return LabelCounts(
            (first.rows(index), *others), self.closed[at], self.nodes[at], self.many
        )

    def columns(self, known: Tensor) -> Tensor:
        """Return the share of each class, and the logarithm of their number.

        All counts are whole numbers, so that what is taken away leaves nothing.

        Parameters
        ----------
        known
            One-hot labels of the nodes that are known, zero elsewhere, [k, C].

        Returns
        -------
        Tensor
            [m, C + 1]; zero where none is known.
        """
        counts = self._walks(known)
        counts = counts - self.closed[:, None] * known.index_select(0, self.nodes)
        total = counts.sum(dim=1, keepdim=True)
        return torch.cat([counts / total.clamp(min=1), total.log1p()], dim=1).float()

    def _walks(self, known: Tensor) -> Tensor:
        """Return how many walks lead to nodes of each class, [m, C], exactly."""
        if self.many:
            found = known.cpu().double().numpy()
            for step in reversed(self.steps):
                found = step.scipy @ found
            return torch.from_numpy(found).to(known.device)
        counts = known
        for step in reversed(self.steps):
            counts = step @ counts
        return counts


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """The nodes whose labels are given, of a graph in which they are few.

    Parameters
    ----------
    nodes
        Ascending, [k].
    place
        Where each node of the graph is among them, k where it is not, [n].
    """

    nodes: NDArray[np.int64]
    place: NDArray[np.int32]
    _ends: dict[str, CSR] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: NDArray[np.int64], n: int) -> GivenLabels:
        """Return some nodes of a graph of n."""
        place = np.full(n, len(nodes), dtype=np.int32)
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        return cls(nodes, place)

    def columns(self, matrix: CSR) -> CSR:
        """Return their columns of a matrix [m, n], and an empty one, [m, k + 1]."""
        to = self.place[matrix.indices]
        kept = to < len(self.nodes)
        ends = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
        shape = (matrix.shape[0], len(self.nodes) + 1)
        return CSR((matrix.data[kept], to[kept], ends), shape=shape)

    def ends(self, name: str, matrix: CSR) -> CSR:
        """Return the same of a matrix of all nodes; it is kept by its name."""
        if name not in self._ends:
            self._ends[name] = self.columns(matrix)
        return self._ends[name]


@dataclass(frozen=True, eq=False)
class TableInput:
    """A table of nodes, or of some of them.

    Parameters
    ----------
    blocks
        Columns by the name of their block, [m, width]: tensors, or operators where
        most entries are zero.
    labels
        How the blocks of labels are counted, where they can be masked.
    known
        The labels that they are made of, [n, C], or [k, C].
    nodes
        Whose rows there are, ascending, [m], where rows are asked for by the numbers of
        the graph's nodes and not all of them are there; else None.
    among
        Whose labels `known` has, ascending, [k], and how many nodes the graph has;
        None where it has a row for each.
    """

    blocks: Mapping[str, Tensor | Operator]
    labels: Mapping[str, LabelCounts]
    known: Tensor
    nodes: NDArray[np.int64] | None = None
    among: tuple[NDArray[np.int64], int] | None = None

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Nodes and columns."""
        values = self.blocks.values()
        count = next(iter(values)).shape[0] if self.nodes is None else self._n_nodes
        return count, sum(b.shape[1] for b in values)

    @property
    def _n_nodes(self) -> int:
        """Of the graph."""
        return len(self.known) if self.among is None else self.among[1]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.known.device

    @property
    def entries(self) -> int:
        """Stored numbers of all blocks."""
        return sum(
            b.numel() if isinstance(b, Tensor) else b.scipy.nnz
            for b in self.blocks.values()
        )

    def rows(self, index: NDArray[np.int64]) -> TableInput:
        """Return the table of some of the nodes."""
        if self.nodes is not None:
            index = _places_in(self.nodes, index)
        at = torch.from_numpy(index).to(self.device)
        blocks = {
            name: b[at] if isinstance(b, Tensor) else b.rows(index)
            for name, b in self.blocks.items()
        }
        labels = {name: counts.rows(index) for name, counts in self.labels.items()}
        return TableInput(blocks, labels, self.known, among=self.among)

    def masked(self, share: float) -> TableInput:
        """Return the table as it would be if a share of the labels were not known.

        They are drawn anew at each call, by torch's generator.
        """
        if share == 0 or not self.labels:
            return self
        # One number for each node: the same, whoever's labels are given.
        kept = torch.rand(self._n_nodes, 1, device=self.device) >= share
        if self.among is not None:
            kept = kept[torch.from_numpy(self.among[0]).to(self.device)]
        known = self.known * kept
        seen = {name: counts.columns(known) for name, counts in self.labels.items()}
        return replace(self, blocks={**self.blocks, **seen})

    def dense(self) -> NDArray[np.float32]:
        """Return all columns side by side, [m, width]."""
        parts = [
            b.cpu().numpy() if isinstance(b, Tensor) else b.scipy.toarray()
            for b in self.blocks.values()
        ]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def matrix(self) -> NDArray[np.float32] | CSR:
        """Return all columns side by side, [m, width]: CSR where that is smaller."""
        blocks = list(self.blocks.values())
        if 2 * self.entries >= sum(b.shape[0] * b.shape[1] for b in blocks):
            return self.dense()
        parts = [
            CSR(b.cpu().numpy()) if isinstance(b, Tensor) else b.scipy for b in blocks
        ]
        return CSR(sp.hstack(parts, format="csr", dtype=np.float32))


def _places_in(nodes: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where some nodes are among others, which are ascending and have them."""
    place = np.searchsorted(nodes, index)
    assert np.array_equal(nodes.take(place, mode="clip"), index), "rows are missing"
    return place


Blocks = Sequence[tuple[str, int]]
"""Names of blocks, and how many columns each has."""

Input = sparse.Input | TableInput
"""What a module takes as `x`: one matrix of any form, or a table."""


Made = tuple[Mapping[str, Features], Mapping[str, RingRows]]
"""Rows of blocks, [m, width] each, and of rings, by their names."""


class MakesRows(Protocol):
    """Makes rows of a table elsewhere, for some nodes."""

    def rows(self, blocks: Blocks, rings: Mapping[str, bool]) -> Made:
        """Return rows of blocks and of rings.

        Parameters
        ----------
        blocks
            Such as are made of the features of others.
        rings
            Rings beyond the first, and whether their sizes are all that is wanted.
        """
        ...


@dataclass(eq=False)
class TableMaker:
    """Makes tables of one graph; what several of them share is computed once.

    Parameters
    ----------
    graph
        The graph. Its own labels are not looked at: those that may be known are
        given.
    ring_cap, seed
        Of rings beyond the first, at most so many members are drawn, by this seed;
        None is all of them.
    """

    graph: Graph
    ring_cap: int | None = None
    seed: int = 0
    _near: Neighbourhoods = field(init=False)
    _kept: dict[Hashable, Features] = field(init=False, default_factory=dict)
    _given: GivenLabels | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # A copy has the same arrays: whoever keeps makers by graph lets the graph go.
        self.graph = copy(self.graph)
        self._near = Neighbourhoods.of(self.graph, cap=self.ring_cap, seed=self.seed)

    def schema(self, recipe: str, *, labels: bool = True) -> Schema:
        """Return the blocks of a recipe that this graph can fill.

        Parameters
        ----------
        recipe
            See `check_recipe`.
        labels
            Whether labels are known.
        """
        graph = self.graph
        blocks = expand(
            check_recipe(recipe),
            features=graph.n_features > 0,
            edges=graph.adj.nnz > 0,
            directions=self._near.has_directions,
            labels=labels,
            carried=graph.edge_columns is not None,
        )
        if not blocks:
            has = {
                "edges": graph.adj.nnz > 0,
                "directions": self._near.has_directions,
                "columns of edges": graph.edge_columns is not None,
            }
            lacks = ", ".join(name for name, there in has.items() if not there)
            raise InputError(
                f"{graph.name} has nothing for a ring table of {recipe!r}; it has no "
                f"{lacks}"
            )
        widths = tuple(self._width(block) for block in blocks)
        adjacency = any(block.startswith("adjacency") for block in blocks)
        return Schema(
            blocks,
            widths,
            graph.feature_names,
            tuple(map(str, graph.classes)),
            self._carried[0] if "edges" in blocks else (),
            nodes=nodes_checksum(graph) if adjacency else None,
        )

    def _width(self, block: str) -> int:
        kind = block.partition(".")[0]
        if kind == "labels":
            return self.graph.n_classes + 1
        if kind == "adjacency":
            return self.graph.n_nodes
        if kind == "edges":
            return len(self._carried[0])
        if kind == "degrees":
            return 4 if self._near.has_directions else 2
        return self.graph.n_features

    @cached_property
    def _carried(self) -> tuple[tuple[str, ...], NDArray[np.float32]]:
        """Names and values of what a node's edges carry, [n, K], of a modest size."""
        return self._carried_of(None)

    def _carried_of(
        self, nodes: NDArray[np.int64] | None
    ) -> tuple[tuple[str, ...], NDArray[np.float32]]:
        """Return names and values of what the edges of all nodes carry, or of some.

        Amounts may be of any size, and maps want numbers of about one: means and
        extremes become sign(v) · log(1 + |v|), as sums are already.
        """
        graph = self.graph
        assert graph.edge_columns is not None
        names, values = edge_aggregates(graph.edge_columns, graph.n_nodes, nodes)
        raw = np.array([name.startswith(("mean", "max", "min")) for name in names])
        some = values[:, raw]
        values[:, raw] = np.copysign(np.log1p(np.abs(some)), some)
        told = zip(names, raw, strict=True)
        return tuple(f"{n} (signed log)" if of else n for n, of in told), values

    def edges(
        self, wanted: tuple[str, ...], nodes: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return what edges carry in the order of some names, [n, len(wanted)].

        A category that this graph has not is zero.

        Parameters
        ----------
        wanted
            The names.
        nodes
            Whose edges, each node once, ascending; None is all.
        """
        if self.graph.edge_columns is None:
            raise InputError(
                f"{self.graph.name}: its edges carry nothing, and the model was "
                f"trained on {len(wanted)} columns of edges, such as {wanted[0]!r}"
            )
        names, values = self._carried if nodes is None else self._carried_of(nodes)
        place = {name: column for column, name in enumerate(names)}
        lost = [n for n in wanted if n not in place and not n.startswith("share of")]
        if lost:
            raise InputError(
                f"{self.graph.name}: its edges lack what the model was trained on, "
                f"such as {lost[0]!r}"
            )
        found = np.zeros((len(values), len(wanted)), dtype=np.float32)
        for column, name in enumerate(wanted):
            if name in place:
                found[:, column] = values[:, place[name]]
        return found

    def build(
        self,
        schema: Schema,
        x: Features,
        key: Hashable,
        known: Tensor,
        *,
        maskable: bool = False,
    ) -> TableInput:
        """Return the table of a schema.

        Parameters
        ----------
        schema
            Of this graph, or of the graph of training.
        x
            Features, scaled and in the schema's order, [n, F].
        key
            What tells these features apart from others of this graph; blocks made
            with an equal key are taken again.
        known
            One-hot labels of the nodes that may be seen, zero elsewhere, [n, C].
        maskable
            Whether labels are to be masked, which takes the rings to be kept.
        """
        self.check(schema)
        blocks: dict[str, Tensor | Operator] = {}
        counted: dict[str, LabelCounts] = {}
        for block, width in zip(schema.blocks, schema.widths, strict=True):
            kind, _, place = block.partition(".")
            if kind == "labels":
                counts = LabelCounts.of(self._near.steps(place), known.device)
                blocks[block] = counts.columns(known)
                if maskable:
                    counted[block] = counts
                continue
            if kind == "edges":
                carried = self.edges(schema.edge_columns)
                blocks[block] = to_tensor(carried, known.device)
                continue
            name = (block, width, _key(block, key))
            if name not in self._kept:
                self._kept[name] = self._values(block, width, x)
            blocks[block] = to_tensor(self._kept[name], known.device)
        return TableInput(blocks, counted, known)

    def build_some(
        self,
        schema: Schema,
        nodes: NDArray[np.int64],
        own: Callable[[], Features],
        key: Hashable,
        classes: NDArray[np.int64],
        makes: MakesRows,
        device: torch.device,
        *,
        maskable: bool = False,
    ) -> TableInput:
        """Return the table of a schema with the rows of some nodes, made elsewhere.

        Parameters
        ----------
        schema, key, maskable
            As of `build`.
        nodes
            Whose rows, ascending, [m].
        own
            Gives their own features, scaled, [m, F].
        classes
            Of the nodes that may be seen, -1 elsewhere, [n].
        makes
            Gives the rows of blocks that are made of the features of others, and who
            is in rings.
        device
            Where the table shall be.
        """
        self.check(schema)
        pairs = list(zip(schema.blocks, schema.widths, strict=True))
        # Whoever makes blocks finds the rings for them; here labels are counted.
        seen = [block for block in schema.blocks if not is_computed(block)]
        rings = {
            ring: counted
            for ring, counted in far_rings(seen).items()
            if not self._near.knows(ring, nodes, counted=counted)
        }
        names = {
            block: (block, width, _key(block, key), nodes.tobytes())
            for block, width in pairs
            if is_computed(block)
        }
        missing = [pair for pair in pairs if names.get(pair[0]) not in self._kept]
        missing = [pair for pair in missing if pair[0] in names]
        if missing or rings:
            made, found = makes.rows(missing, rings)
            self._kept.update({names[block]: made[block] for block, _ in missing})
            for ring, rows in found.items():
                self._near.learn(ring, nodes, rows)
        given = self._given_labels(classes)
        known = torch.zeros(len(given.nodes) + 1, len(schema.classes), device=device)
        known[np.arange(len(given.nodes)), classes[given.nodes]] = 1.0
        blocks: dict[str, Tensor | Operator] = {}
        counted_labels: dict[str, LabelCounts] = {}
        values: Features
        for block, width in pairs:
            kind, _, place = block.partition(".")
            if kind == "labels":
                counts = self._counts(place, nodes, given, device)
                blocks[block] = counts.columns(known)
                if maskable:
                    counted_labels[block] = counts
                continue
            if kind == "edges":
                values = self.edges(schema.edge_columns, nodes)
            elif kind == "own":
                values = own()
            elif kind == "adjacency":
                values = self._near.rows(_ADJACENCY[place], nodes)
            elif kind == "degrees":
                values = self._degrees(width, nodes)
            else:
                values = self._kept[names[block]]
            blocks[block] = to_tensor(values, device)
        among = np.append(given.nodes, 0)  # nobody's row stays zero, whoever's it is
        return TableInput(blocks, counted_labels, known, nodes, (among, len(classes)))

    def _given_labels(self, classes: NDArray[np.int64]) -> GivenLabels:
        """Return whose labels are given; those asked for last are kept."""
        nodes = np.flatnonzero(classes >= 0)
        if self._given is None or not np.array_equal(self._given.nodes, nodes):
            self._given = GivenLabels.of(nodes, len(classes))
        return self._given

    def _counts(
        self,
        place: str,
        nodes: NDArray[np.int64],
        given: GivenLabels,
        device: torch.device,
    ) -> LabelCounts:
        """Return how labels are counted for some nodes; no other's ring is found.

        Parameters
        ----------
        place
            The neighbourhood.
        nodes
            Whose neighbourhoods, [m].
        given
            Whose labels there are.
        device
            Where labels are counted.
        """
        first, *others = place.split("-")
        rows = self._near.rows(first, nodes)
        steps: tuple[CSR, ...] = (rows,)
        closed, many = torch.zeros(len(nodes)), False
        if others:
            (second,) = self._near.steps(others[0])
            back = self._near.rows(_REVERSED[others[0]], nodes)
            both = np.asarray(rows.multiply(back).sum(axis=1), dtype=np.float32)
            closed = torch.from_numpy(both.reshape(-1))
            near, members = _compact(rows)  # no more than the first step leads to
            reached = second.indptr[members + 1] - second.indptr[members]
            many = bool((near @ reached.astype(np.float64)).max(initial=0) > WHOLE)
            steps = (near, CSR(given.ends(others[0], second)[members]))
        else:
            steps = (given.columns(rows),)
        return LabelCounts(
            tuple(Operator(step, device=device) for step in steps),
            closed.to(device),
            torch.from_numpy(given.place[nodes].astype(np.int64)).to(device),
            many,
        )

    def some_rows(
        self,
        block: str,
        width: int,
        x: Features,
        nodes: NDArray[np.int64],
    ) -> Features:
        """Return rows of a block, to the bits that `build` gives them, [m, width].

        Parameters
        ----------
        block
            One that is made of the features of others.
        width
            Its columns: of dense features any of `column_slices`.
        x
            As of `build`, so many of its columns, [n, width].
        nodes
            Whose rows, [m].
        """
        if not isinstance(x, np.ndarray):
            # Whether it stays sparse, the whole of it says.
            return self._values(block, width, x)[nodes]
        return self._values(block, width, x, nodes)

    def seen(self, block: str, nodes: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return whose features rows of a block take, ascending, if they are few.

        Parameters
        ----------
        block
            One that is made of the features of others.
        nodes
            Whose rows, [m].

        Returns
        -------
        NDArray | None
            Those in a ring beyond the first; None where they are half of all nodes, or
            the block is made of no such ring.
        """
        for ring in far_rings([block]):
            n = self.graph.n_nodes
            members = distinct(self._near.rows(ring, nodes).indices, n)
            return members if 2 * len(members) < n else None
        return None

    def members(
        self, block: str, node: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return whose features a block weighs and sums up for a node.

        Parameters
        ----------
        block
            Of a schema.
        node
            The node.

        Returns
        -------
        tuple[NDArray, NDArray] | None
            Nodes and their weights, [m] each: of labels how many walks lead to each,
            the node itself left out. None where a block is no such sum.
        """
        near = self._near
        kind, _, more = block.partition(".")
        if kind == "labels":
            nodes, walks = near.members(more, node, mean=False)
            return nodes[nodes != node], walks[nodes != node]
        if block == "own":
            return np.array([node]), np.ones(1)
        if kind in (*RINGS, *DIRECTIONS) and more in ("", "sum"):
            return near.members(kind, node, mean=not more)
        if kind.startswith("hop") and more in ("mean", "sum"):
            steps = "-".join(["ring1"] * int(kind.removeprefix("hop")))
            return near.members(steps, node, mean=more == "mean")
        for steps in ("power", "loops"):
            if kind.startswith(steps):
                k = int(kind.removeprefix(steps))
                return near.power_members(k, node, self_loops=steps == "loops")
        return None

    def find_rows(
        self, ring: str, nodes: NDArray[np.int64], *, counted: bool = False
    ) -> RingRows:
        """Return the rows of some nodes of a ring beyond the first.

        Parameters
        ----------
        ring
            Its name.
        nodes
            Whose rows.
        counted
            Whether their sizes are all that is wanted.
        """
        return self._near.find_rows(ring, nodes, counted=counted)

    def learn(self, ring: str, nodes: NDArray[np.int64], found: RingRows) -> None:
        """Take what `find_rows` returned elsewhere, until other nodes are asked for."""
        self._near.learn(ring, nodes, found)

    def forget(self) -> None:
        """Give back the memory of blocks that no table holds."""
        self._kept.clear()

    def kept(self, block: str, width: int, key: Hashable) -> Features | None:
        """Return a block that was made before, [n, width], if it was and is kept."""
        return self._kept.get((block, width, _key(block, key)))

    def check(self, schema: Schema) -> None:
        """Raise where this graph cannot fill the blocks of another graph's schema."""
        if schema.nodes is not None and schema.nodes != nodes_checksum(self.graph):
            raise InputError(
                f"{self.graph.name}: the model has the block 'adjacency', a column for "
                "each node of the graph it was trained on, and this is another graph; "
                "train without that block to predict here"
            )
        directed = [
            block
            for block, width in zip(schema.blocks, schema.widths, strict=True)
            if _place(block) in DIRECTIONS or (block, width) == ("degrees", 4)
        ]
        if directed and not self._near.has_directions:
            raise InputError(
                f"{self.graph.name}: the edges have no directions, and the model has "
                f"the block '{directed[0]}'"
            )

    def _values(
        self,
        block: str,
        width: int,
        x: Features,
        nodes: NDArray[np.int64] | None = None,
    ) -> Features:
        """Return a block of all nodes, or of some."""
        near = self._near
        kind, _, more = block.partition(".")
        if block == "own":
            return np.array(x) if isinstance(x, np.memmap) else x
        if block == "degrees":
            return self._degrees(width, nodes)
        if kind == "adjacency":
            return CSR(near.steps(_ADJACENCY[more])[0])
        if kind in (*RINGS, *DIRECTIONS):
            if more in ("max", "min"):
                if nodes is None:
                    return extremes(near.steps(kind)[0], x, more == "max")
                return extremes(near.rows(kind, nodes), x, more == "max")
            return near.sum(kind, x, nodes) if more else near.mean(kind, x, nodes)
        if kind.startswith("hop"):
            for _ in range(int(kind.removeprefix("hop")) - 1):
                x = self._hop(more, x, None)
            return self._hop(more, x, nodes)
        loops = kind.startswith("loops")
        steps = int(kind.removeprefix("loops" if loops else "power"))
        return near.power(steps, x, self_loops=loops, nodes=nodes)

    def _degrees(
        self, width: int, nodes: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        """Return the logarithms of how many are near all nodes or some, [m, width]."""
        places = ("ring1", "ring2", "out", "in")[:width]
        sizes = [np.log1p(self._near.sizes(place, nodes)) for place in places]
        return np.stack(sizes, axis=1).astype(np.float32)

    def _hop(
        self, reducer: str, x: Features, nodes: NDArray[np.int64] | None
    ) -> Features:
        if reducer in ("max", "min"):
            adj = self.graph.adj if nodes is None else CSR(self.graph.adj[nodes])
            return extremes(adj, x, reducer == "max")
        aggregate = self._near.mean if reducer == "mean" else self._near.sum
        return aggregate("ring1", x, nodes)


_ADJACENCY = {"all": "ring1", "out": "out", "in": "in"}
_REVERSED = {"out": "in", "in": "out"}


def _key(block: str, key: Hashable) -> Hashable:
    """Return by what a block is told apart: some do not depend on the features."""
    return None if block.startswith(("degrees", "adjacency")) else key


def _place(block: str) -> str:
    kind, _, more = block.partition(".")
    return more if kind in ("labels", "adjacency") else kind


def nodes_checksum(graph: Graph) -> str:
    """Return a checksum of the nodes' ids, in order; without ids, of the edges.

    Every graph without ids has a node 0, and it is never the same one.
    """
    digest = hashlib.sha256()
    if not graph.has_ids:
        for part in (graph.adj.indptr, graph.adj.indices):
            digest.update(part.astype("<i8").tobytes())
    for name in graph.node_ids:
        digest.update(str(name).encode() + b"\n")
    return digest.hexdigest()


# ---------------------------------------------------------------------- some rows alone


Index = NDArray[np.int64]


class SomeRows:
    """A table of which rows are made when they are asked for.

    Parameters
    ----------
    maker
        Of the graph; blocks that it has made are taken from it.
    near
        Of the same graph.
    schema
        Of this graph, or of the graph of training.
    features
        Gives the features of some nodes, scaled and in the schema's order, [m, F].
    key
        What tells these features apart from others of the graph.
    known
        Gives one-hot labels of some nodes, zero where they are not known, [m, C].
    device
        Where rows shall be.
    wanted
        Which nodes have more than their own features; others have zeros there. None is
        all. For models that look at the rest of a row for these nodes alone.
    """

    def __init__(
        self,
        maker: TableMaker,
        near: NeighborIndex,
        schema: Schema,
        features: Callable[[Index], Features],
        key: Hashable,
        known: Callable[[Index], Tensor],
        device: torch.device,
        wanted: Index | None = None,
    ) -> None:
        maker.check(schema)
        self._maker, self._near, self._schema = maker, near, schema
        self._features, self._key, self._known = features, key, known
        self._device, self._wanted = device, wanted
        self._patterns: dict[tuple[str, bytes], CSR] = {}
        self.shape = (near.n, schema.width)

    def rows(self, index: Index) -> TableInput:
        """Return the rows of some nodes, each once and ascending, [m, width]."""
        place: Index | None = None
        among = index
        if self._wanted is not None:
            among = np.intersect1d(index, self._wanted)
            place = np.searchsorted(index, among)
        blocks: dict[str, Tensor | Operator] = {}
        for block, width in zip(self._schema.blocks, self._schema.widths, strict=True):
            if block == "own" or place is None:
                blocks[block] = self._block(block, width, index)
                continue
            found = self._block(block, width, among)
            rows = torch.zeros(len(index), width, device=self._device)
            some = (
                found
                if isinstance(found, Tensor)
                else torch.from_numpy(found.scipy.toarray())
            )
            rows[torch.from_numpy(place).to(self._device)] = some
            blocks[block] = rows
        self._patterns.clear()
        none = torch.zeros(len(index), len(self._schema.classes), device=self._device)
        return TableInput(blocks, {}, none)

    def _block(self, block: str, width: int, index: Index) -> Tensor | Operator:
        kind, _, place = block.partition(".")
        if kind == "labels":
            return self._labels(place.split("-"), index)
        if kind == "edges":
            carried = self._maker.edges(self._schema.edge_columns, index)
            return to_tensor(carried, self._device)
        kept = self._maker.kept(block, width, self._key)
        values = self._values(block, width, index) if kept is None else kept[index]
        return to_tensor(values, self._device)

    def _values(self, block: str, width: int, index: Index) -> Features:
        kind, _, more = block.partition(".")
        if block == "own":
            return self._features(index)
        if block == "degrees":
            steps = ("ring1", "ring2", "out", "in")[:width]
            sizes = [self._near.sizes(*_way(step), index)[index] for step in steps]
            counts = [np.log1p(one.astype(np.int64)) for one in sizes]
            return np.stack(counts, axis=1).astype(np.float32)
        if kind == "adjacency":
            return self._rows({"all": "ring1"}.get(more, more), index)
        if kind in (*RINGS, *DIRECTIONS):
            return self._reduced(kind.split("-"), more or "mean", index)
        if kind.startswith("hop"):
            return self._reduced(["ring1"] * _count(kind, "hop"), more, index)
        loops = kind.startswith("loops")
        rule = RowRule(self_loops=loops)
        operator = ComputedOperator(self._near, rule)
        return self._power(operator, _count(kind, "loops" if loops else "power"), index)

    def _rows(self, step: str, index: Index) -> CSR:
        """Return who is one step away, or in a ring, [m, n]; ones, unless drawn."""
        key = step, index.tobytes()
        if key not in self._patterns:
            cap = self._maker.ring_cap if step in RINGS[1:] else None
            rows, _ = self._near.rows(
                *_way(step), index, max_neighbors=cap, seed=self._maker.seed
            )
            self._patterns[key] = rows
        return self._patterns[key]

    def _reduced(self, steps: Sequence[str], reducer: str, index: Index) -> Features:
        """Return features of what is so many steps away, reduced at each of them."""
        if not steps:
            return self._features(index)
        matrix, members = _compact(self._rows(steps[0], index))
        x = self._reduced(steps[1:], reducer, members)
        if reducer in ("max", "min"):
            return extremes(matrix, x, reducer == "max")
        return _product(shares(matrix) if reducer == "mean" else matrix, x)

    def _power(self, operator: ComputedOperator, power: int, index: Index) -> Features:
        if not power:
            return self._features(index)
        matrix, members = _compact(operator.take(index))
        return _product(matrix, self._power(operator, power - 1, members))

    def _labels(self, steps: Sequence[str], index: Index) -> Tensor:
        """Return shares of the labels in a neighbourhood and their number, [m, C + 1].

        As `LabelCounts.of` the whole graph has them: in whole numbers.
        """
        first, members = _compact(self._rows(steps[0], index))
        matrices, ends = [first], members
        if len(steps) == 2:
            second, ends = _compact(self._rows(steps[1], members))
            matrices.append(second)
        everyone = distinct(np.concatenate([ends, index]), self._near.n)
        place = np.searchsorted(everyone, ends)
        last = matrices[-1]
        parts = (last.data, place[last.indices], last.indptr)
        matrices[-1] = CSR(parts, shape=(last.shape[0], len(everyone)))
        own = np.searchsorted(everyone, index)
        closed, many = torch.zeros(len(index)), False
        if len(steps) == 2:
            second = matrices[-1]
            reached = np.diff(second.indptr).astype(np.float64)
            many = bool((first @ reached).max(initial=0) > WHOLE)
            back = CSR(second.tocsc()[:, own].T)
            both = np.asarray(first.multiply(back).sum(axis=1), dtype=np.float32)
            closed = torch.from_numpy(both.reshape(-1))
        counts = LabelCounts(
            tuple(Operator(one, device=self._device) for one in matrices),
            closed.to(self._device),
            torch.from_numpy(own).to(self._device),
            many,
        )
        return counts.columns(self._known(everyone))


def table_rules(schema: Schema) -> tuple[int, int]:
    """Return how many steps follow one another in a table's blocks, and the last ring.

    Both 0 where no block looks beyond the node itself.
    """
    steps, hop = 0, 0
    for block in schema.blocks:
        kind, _, more = block.partition(".")
        name = more if kind == "labels" else kind
        if name in RINGS:
            steps, hop = max(steps, 1), max(hop, int(name[-1]))
        elif name in DIRECTIONS:
            steps, hop = max(steps, name.count("-") + 1), max(hop, 1)
        elif kind in ("degrees", "adjacency", "edges"):
            steps, hop = max(steps, 1), max(hop, 2 if kind == "degrees" else 1)
        elif kind != "own":
            count = int("".join(filter(str.isdecimal, kind)))
            steps, hop = max(steps, count), max(hop, 1)
    return steps, hop


def _way(step: str) -> tuple[str, int]:
    """Return way and distance of a ring or a direction."""
    return ("ring", int(step[-1])) if step in RINGS else (step, 1)


def _count(kind: str, name: str) -> int:
    return int(kind.removeprefix(name))


def _compact(matrix: CSR) -> tuple[CSR, Index]:
    """Return a matrix without its empty columns, and which are left, ascending."""
    inside = np.zeros(matrix.shape[1], dtype=bool)
    inside[matrix.indices] = True
    members = np.flatnonzero(inside)
    place = np.empty(matrix.shape[1], dtype=np.int32)  # read for members alone
    place[members] = np.arange(len(members), dtype=np.int32)
    parts = (matrix.data, place[matrix.indices], matrix.indptr)
    return CSR(parts, shape=(matrix.shape[0], len(members))), members


def _product(matrix: CSR, x: Features) -> Features:
    if not matrix.nnz:
        return np.zeros((matrix.shape[0], x.shape[1]), dtype=np.float32)
    return multiply(matrix, x)
