"""A table as modules take it: blocks of columns, and labels that can be masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import sparse
from h2gcn.graph import CSR
from h2gcn.sparse import Operator

__all__ = ["Input", "LabelCounts", "TableInput"]

WHOLE = 2**24
"""Up to here, float32 has every whole number."""


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Counts known labels over a neighbourhood, of which a node is never a member.

    Parameters
    ----------
    steps
        Binary operators, whose product counts the walks to each member, [n, n]; of
        the first, only the rows of `nodes`.
    closed
        How many of those walks lead back to the node itself, [m].
    nodes
        Whose neighbourhoods they are, [m].
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
            One-hot labels of the nodes that are known, zero elsewhere, [n, C].

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
        The labels that they are made of, [n, C].
    """

    blocks: Mapping[str, Tensor | Operator]
    labels: Mapping[str, LabelCounts]
    known: Tensor

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Nodes and columns."""
        values = self.blocks.values()
        return next(iter(values)).shape[0], sum(b.shape[1] for b in values)

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
        at = torch.from_numpy(index).to(self.device)
        blocks = {
            name: b[at] if isinstance(b, Tensor) else b.rows(index)
            for name, b in self.blocks.items()
        }
        labels = {name: counts.rows(index) for name, counts in self.labels.items()}
        return TableInput(blocks, labels, self.known)

    def masked(self, share: float) -> TableInput:
        """Return the table as it would be if a share of the labels were not known.

        They are drawn anew at each call, by torch's generator.
        """
        if share == 0 or not self.labels:
            return self
        kept = torch.rand(len(self.known), 1, device=self.device) >= share
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


Input = sparse.Input | TableInput
"""What a module takes as `x`: one matrix of any form, or a table."""
