"""What each way to keep the rings of a graph takes, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from h2gcn.rings import blocked as blocked_ring, capped as ring_cap
from h2gcn.rings.footprint import SLACK, Work, operator_bytes, piece_bytes, piece_size

__all__ = ["Needs"]

BLOCK_ENTRY = 28
"""Bytes for one of a block: rows that do not follow one another are looked up."""


@dataclass(frozen=True)
class Needs:
    """What training on a graph takes, for each way to keep its rings.

    Parameters
    ----------
    n
        Number of nodes.
    near, far
        Entries of the operators that are always in memory, and of the rings beyond
        the first, one number each.
    work
        What the training takes beside them.
    symmetric
        Whether the operators are.
    """

    n: int
    near: tuple[int, ...]
    far: tuple[int, ...]
    work: Work
    symmetric: bool = True

    def memory(self, batch: int | None = None) -> int:
        """Return the bytes with everything in memory."""
        held = self.operators(self.near + self.far, batch)
        return held + self.beside(self.near + self.far, batch)

    def capped(self, cap: int, batch: int | None = None) -> int:
        """Return the bytes with at most `cap` entries in a row of a ring."""
        drawn = self._capped(cap)
        # A drawn ring is not symmetric: a product after another has its transpose.
        own = batch is None and self.work.reach != 1
        held = self.operators(self.near, batch)
        held += self.operators(drawn, batch, symmetric=not own)
        held += round(SLACK * 4 * min(sum(self.far), ring_cap.BLOCK))
        return held + self.beside(self.near + drawn, batch)

    def elsewhere(self, batch: int | None = None) -> int:
        """Return the bytes with the rings beyond the first in no memory."""
        held = self.operators(self.near, batch) + 32 * self.n
        if batch is None:  # the dense side is scaled, and filled up, for each product
            block = BLOCK_ENTRY * min(max(self.far, default=0), blocked_ring.BLOCK)
            held += round(SLACK * (block + 12 * self.n * self.work.width))
        return held + self.beside(self.near + self.far, batch)

    def beside(self, entries: Sequence[int], batch: int | None) -> int:
        """Return the bytes that a step takes beside the operators as they are kept."""
        if batch is None:
            return self.work.whole(self.n, sum(entries))
        rows, nodes = piece_size(entries, self.n, batch, self.work.reach or 0)
        taken = rows * sum(entries) // max(self.n, 1)
        work = self.work.batch(self.n, nodes, batch, taken)
        return piece_bytes(entries, self.n, rows) + work

    def without_rings(self) -> Needs:
        """Return the needs of the same model on the first ring alone."""
        return replace(self.one_round(), far=())

    def one_round(self) -> Needs:
        """Return about the needs of the same model with a single product."""
        return replace(self, work=replace(self.work, reach=1))

    def _capped(self, cap: int) -> tuple[int, ...]:
        return tuple(min(size, cap * self.n) for size in self.far)

    def operators(
        self, entries: Sequence[int], batch: int | None, *, symmetric: bool = True
    ) -> int:
        """Return the bytes of operators of so many entries each."""
        whole = batch is None
        return sum(
            operator_bytes(
                size,
                self.n,
                train=self.work.n_train / max(self.n, 1) if whole else 0.0,
                val=self.work.n_val / max(self.n, 1) if whole else 0.0,
                self_loops=self.work.self_loops,
                symmetric=symmetric and self.symmetric,
            )
            for size in entries
        )
