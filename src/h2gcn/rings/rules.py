"""What a propagation matrix is, row by row; and all of its rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from h2gcn.graph import CSR
from h2gcn.rings.rings import exact_rings, is_weighted, normalize

__all__ = ["RowRule", "build_matrices"]


@dataclass(frozen=True)
class RowRule:
    """A propagation matrix: how each row is made of a graph, without the other rows.

    Parameters
    ----------
    direction
        "ring" for distances, "out" and "in" for those along the edges and against them.
    hop
        The distance.
    scale
        "both" for D^-1/2 A D^-1/2, with the sizes of both nodes' rings; "rows" for
        D^-1 A; "none" for A.
    self_loops
        Whether the identity is added to A first.
    sign
        What everything is multiplied by.
    weighted
        Whether edge weights, if any, are the entries of A in the first ring.
    """

    direction: str = "ring"
    hop: int = 1
    scale: str = "both"
    self_loops: bool = False
    sign: float = 1.0
    weighted: bool = True

    @property
    def symmetric(self) -> bool:
        """Whether the matrix is symmetric on every graph."""
        return self.direction == "ring" and self.scale != "rows"

    def scaled(self, ring: CSR) -> CSR:
        """Return the matrix of a whole ring, [n, n]: ones, or edge weights."""
        if self.scale == "both":
            matrix = normalize(ring, self_loops=self.self_loops)
        else:
            if self.self_loops:
                ring = CSR(ring + sp.eye_array(ring.shape[0], dtype=np.float32))
            if not ring.has_sorted_indices:
                ring = CSR(ring.sorted_indices())  # the caller's stays as it is
            rows = self.scale == "rows"
            values = _row_fractions(ring) if rows else ring.data.astype(np.float32)
            matrix = CSR((values, ring.indices, ring.indptr), shape=ring.shape)
        if self.sign != 1:
            values = np.float32(self.sign) * matrix.data
            matrix = CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        return matrix


def build_matrices(rules: Sequence[RowRule], adj: CSR) -> tuple[CSR, ...]:
    """Return all rows of some matrices of a graph, [n, n] each.

    Parameters
    ----------
    rules
        What they are.
    adj
        Adjacency matrix, [n, n]: ones, or edge weights. For rings it is symmetric and
        without self-loops; for directions, row i has the nodes that i points to, and
        self-loops do not count.
    """
    if not rules:
        return ()
    hops = max(rule.hop for rule in rules)
    first, further = adj, []
    if hops > 1 or any(rule.direction != "ring" for rule in rules):
        first, *further = exact_rings(adj, hops=hops)
        if is_weighted(adj):
            first = CSR(adj.multiply(first))
    rings = [first, *further]
    return tuple(
        rule.scaled(
            CSR(rings[rule.hop - 1].T)
            if rule.direction == "in"
            else rings[rule.hop - 1]
        )
        for rule in rules
    )


def _row_fractions(matrix: CSR) -> np.ndarray:
    """Return the entries divided by the sums of their rows."""
    degrees = np.diff(matrix.indptr)
    if is_weighted(matrix):
        fractions = matrix.data / np.repeat(matrix.sum(axis=1), degrees)
    else:
        fractions = np.repeat(1 / np.maximum(degrees, 1), degrees)
    return np.asarray(fractions, dtype=np.float32)
