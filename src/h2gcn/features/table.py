"""A feature table as modules take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import sparse
from h2gcn.graph import CSR, Features
from h2gcn.sparse import Operator

Index = NDArray[np.int64]


class RowSource(Protocol):
    """A row for each node: an array, CSR, or rows made on demand."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return the rows of some nodes."""
        ...


LabelCounter = Callable[[RowSource], NDArray[np.float32]]
"""Returns a block of labels, given one-hot labels in float64, [n, C]."""


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The rows of all nodes, or of some: blocks of columns, sparse where most are zero.

    Parameters
    ----------
    labels
        The known labels, one-hot, [n, C]; no rows in a table of some nodes.
    counters
        How blocks of labels are counted, for models that count others than `labels`.
    nodes
        The nodes that have a row, ascending, if `rows` takes node numbers of a graph of
        `n_nodes` nodes and not all have one; else None.
    """

    blocks: Mapping[str, Tensor | Operator]
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    counters: Mapping[str, LabelCounter] = field(default_factory=dict)
    nodes: Index | None = None
    n_nodes: int = 0

    @property
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
            name: torch.from_numpy(counter(rows)).to(self.device)
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
        parts = list(self.arrays().values())
        if 2 * self.entries >= sum(part.shape[0] * part.shape[1] for part in parts):
            return self.dense()
        return CSR(sp.hstack(list(map(CSR, parts)), format="csr", dtype=np.float32))


@dataclass(eq=False)
class LazyTable:
    """A table of all nodes whose `rows` are computed when they are needed."""

    rows: Callable[[Index], FeatureTable]
    shape: tuple[int, int]


Input = sparse.Input | FeatureTable
"""What a module takes as `x`: one matrix of any form, or a table."""
