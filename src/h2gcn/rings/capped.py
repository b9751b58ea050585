"""Capped rings: a sample of each node's ring, weighted by the ring's true size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_integer
from h2gcn.graph import CSR
from h2gcn.rings.exact import ring_pattern, ring_scale, ring_sizes
from h2gcn.rings.row_work import in_threads, narrow, row_blocks, row_starts

__all__ = ["capped_ring"]

BLOCK = 2**24
"""Entries of the exact ring that are looked at together, about."""


def capped_ring(
    adj: CSR, cap: int, *, hop: int = 2, seed: int = 0, self_loops: bool = False
) -> CSR:
    r"""Return the normalised ring `hop` with at most `cap` entries in a row, [n, n].

    With d the true sizes of the rings, a node v with more than `cap` keeps that many,
    all alike likely to be drawn, each weighted :math:`d_v / cap` times what it weighs
    in the exact matrix :math:`d_v^{-1/2} d_u^{-1/2}`: so a product with a row is right
    on average, and exact where nothing was left out. The result is not symmetric.

    The exact rows are made block by block and forgotten; what is drawn depends on the
    seed and the node alone.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    cap
        At least 1.
    hop
        The distance, at least 2.
    seed
        Of the draw.
    self_loops
        Whether each node is in its ring too; it does not count against the cap.
    """
    check_integer("capped_ring", "cap", cap, 1)
    n = adj.shape[0]
    sizes = ring_sizes(adj, hop)
    starts = row_starts(np.minimum(sizes, cap))
    columns = np.empty(starts[-1], dtype=np.int32)
    for first, last in row_blocks(sizes, BLOCK):
        nodes, to = np.arange(first, last), starts[first : last + 1]
        ring, rows = ring_pattern(adj, hop, nodes, sizes[first:last])
        _draw(ring, rows, nodes, cap, seed, to, columns)
    scale = ring_scale(sizes + self_loops)
    weight = scale * (np.maximum(sizes, cap) / cap).astype(np.float32)
    values = np.repeat(weight, np.diff(starts)) * scale[columns]
    capped = CSR((values, columns, narrow(starts, starts[-1])), shape=(n, n))
    if self_loops:
        ego = CSR((scale**2, np.arange(n), np.arange(n + 1)), shape=(n, n))
        capped = CSR(capped + ego)
    return capped


def _draw(
    ring: NDArray[np.int32],
    rows: NDArray[np.int64],
    nodes: NDArray[np.int64],
    cap: int,
    seed: int,
    to: NDArray[np.int64],
    columns: NDArray[np.int32],
) -> None:
    """Write the drawn columns of each node's row to their places in `columns`."""
    from h2gcn.rings.kernels import draw_rows

    def draw(part: slice) -> None:
        ends = slice(part.start, part.stop + 1)
        draw_rows(rows[ends], ring, nodes[part], cap, seed, to[ends], columns)

    in_threads(draw, np.diff(rows))
