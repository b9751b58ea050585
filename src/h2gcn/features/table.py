"""A feature table as modules take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import sparse
from h2gcn.graph import CSR, Features
from h2gcn.sparse import Operator

__all__ = ["FeatureTable", "Input", "LabelCounter", "LazyTable"]

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelCounter:
    """Counts labels around some nodes; a node's own label is never counted.

    Parameters
    ----------
    steps
        One or two matrices in float64 whose product counts the walks from each of m
        nodes to each of `members`.
    members
        Where the walks end, [k].
    returning
        How many walks of each node lead back to itself, [m].
    nodes
        The m nodes.
    """

    steps: tuple[CSR, ...]
    members: Index
    returning: NDArray[np.float64]
    nodes: Index

    def shares(self, labels: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return shares of the labels and log(1 + their number), [m, C + 1].

        Walks that return to the node are subtracted. Counts are whole numbers in
        float64, so that nothing is left of the node's own label.

        Parameters
        ----------
        labels
            One-hot labels, [n, C], or any that indexes like it; zero where unknown.
        """
        counts = labels[self.members]
        for step in reversed(self.steps):
            counts = step @ counts
        counts = counts - self.returning[:, None] * labels[self.nodes]
        total = counts.sum(axis=1, keepdims=True)
        shares = counts / np.maximum(total, 1)
        return np.hstack([shares, np.log1p(total)]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The rows of all nodes, or of some.

    Parameters
    ----------
    blocks
        Columns of each block, [m, width]: tensors, or operators where most are zero.
    labels
        The known labels, one-hot, [n, C]; no rows in a table of some nodes.
    counters
        How blocks of labels are counted, for models that count others than `labels`.
    nodes
        The nodes that have a row, ascending, if `rows` takes node numbers of the graph
        and not all have one; else None.
    n_nodes
        Number of nodes of the graph; needed with `nodes`.
    """

    blocks: Mapping[str, Tensor | Operator]
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    counters: Mapping[str, LabelCounter] = field(default_factory=dict)
    nodes: Index | None = None
    n_nodes: int = 0

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and columns."""
        blocks = list(self.blocks.values())
        rows = blocks[0].shape[0] if self.nodes is None else self.n_nodes
        return rows, sum(block.shape[1] for block in blocks)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return next(iter(self.blocks.values())).device

    @property
    def entries(self) -> int:
        """Number of stored values."""
        blocks = self.blocks.values()
        return sum(b.numel() if isinstance(b, Tensor) else b.scipy.nnz for b in blocks)

    def rows(self, index: Index) -> FeatureTable:
        """Return the table of some of the nodes."""
        if self.nodes is not None:
            position = np.searchsorted(self.nodes, index)
            found = self.nodes.take(position, mode="clip")
            assert np.array_equal(found, index), "rows are missing"
            index = position
        at = torch.from_numpy(index).to(self.device)
        blocks = {
            name: b[at] if isinstance(b, Tensor) else b.rows(index)
            for name, b in self.blocks.items()
        }
        return FeatureTable(blocks, self.labels)

    def with_labels(self, labels: Tensor) -> FeatureTable:
        """Return the table with blocks of other labels, [n, C], also soft ones."""
        rows = labels.cpu().double().numpy()
        counted = {
            name: torch.from_numpy(counter.shares(rows)).to(self.device)
            for name, counter in self.counters.items()
        }
        return replace(self, blocks={**self.blocks, **counted})

    def arrays(self) -> dict[str, Features]:
        """Return the columns of each block, [m, width]."""
        return {
            name: b.cpu().numpy() if isinstance(b, Tensor) else b.scipy
            for name, b in self.blocks.items()
        }

    def dense(self) -> NDArray[np.float32]:
        """Return all columns side by side, [m, width]."""
        arrays = self.arrays().values()
        parts = [a if isinstance(a, np.ndarray) else a.toarray() for a in arrays]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def matrix(self) -> NDArray[np.float32] | CSR:
        """Return all columns side by side, [m, width], CSR where that is smaller."""
        blocks = list(self.blocks.values())
        if 2 * self.entries >= sum(b.shape[0] * b.shape[1] for b in blocks):
            return self.dense()
        parts = [CSR(array) for array in self.arrays().values()]
        return CSR(sp.hstack(parts, format="csr", dtype=np.float32))


@dataclass(eq=False)
class LazyTable:
    """A table whose rows are computed when they are needed.

    Parameters
    ----------
    build
        Returns the table of some nodes.
    shape
        Number of nodes of the graph and of columns.
    wanted
        The nodes, ascending, that have more than block `ego`; the others have zeros
        there. For models that read the rest of a row for these nodes alone; None is
        all.
    """

    build: Callable[[Index, tuple[str, ...] | None], FeatureTable]
    shape: tuple[int, int]
    wanted: Index | None = None

    def rows(self, index: Index) -> FeatureTable:
        """Return the rows of some nodes, each once and ascending."""
        if self.wanted is None:
            return self.build(index, None)
        among = np.intersect1d(index, self.wanted)
        full, ego = self.build(among, None), self.build(index, ("ego",))
        at = torch.from_numpy(np.searchsorted(index, among))
        blocks: dict[str, Tensor | Operator] = {}
        for name, block in full.blocks.items():
            if name in ego.blocks:
                blocks[name] = ego.blocks[name]
                continue
            if isinstance(block, Operator):
                block = torch.from_numpy(block.scipy.toarray())  # noqa: PLW2901
            rows = torch.zeros(len(index), block.shape[1], device=block.device)
            rows[at.to(block.device)] = block
            blocks[name] = rows
        return FeatureTable(blocks)


Input = sparse.Input | FeatureTable
"""What a module takes as `x`: one matrix of any form, or a table."""
