"""How large the rings of a graph will be, told before they are built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from h2gcn._validation import check_integer
from h2gcn.graph import CSR
from h2gcn.rings.exact import ring_sizes
from h2gcn.rings.footprint import operator_bytes
from h2gcn.sparse import gigabytes

__all__ = ["RingForecast", "forecast_ring"]

TRAIN, VAL = 0.6, 0.2
"""Shares of the nodes that are trained and validated on where data bring no split."""
FORECAST_ROWS = 1024
"""How many rows a forecast looks at."""


@dataclass(frozen=True)
class RingForecast:
    """How large the rings of a graph will be.

    Parameters
    ----------
    entries
        Stored entries of ring 1, 2, …
    bytes
        Peak memory that building them and training on them will take, for the usual
        split where none is known.
    exact
        Whether every row was counted, or the rings extrapolated from a sample.
    """

    entries: tuple[int, ...]
    bytes: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        return (
            f"{about}{sum(self.entries):,} entries in the rings 1 to "
            f"{len(self.entries)}, {about}{gigabytes(self.bytes)}"
        )


def forecast_ring(
    adj: CSR, *, hops: int = 2, rows: int = FORECAST_ROWS
) -> RingForecast:
    """Forecast the size of the rings without building them.

    Rows are counted one by one: all of them in a small graph, else a
    sample that is even over the rows' upper bounds (the number of walks). The
    sample's share of its bound is then applied to all rows.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    hops
        The largest distance.
    rows
        How many rows to count.
    """
    check_integer("forecast_ring", "hops", hops, 1)
    check_integer("forecast_ring", "rows", rows, 1)
    n = adj.shape[0]
    bound = np.diff(adj.indptr).astype(np.float64)
    bounds = []
    for _ in range(1, hops):
        bound = np.minimum(adj @ bound, n)
        bounds.append(bound)
    order = np.argsort(bound, kind="stable")
    exact = n <= rows
    sample = (
        order if exact else order[np.linspace(0, n - 1, rows).round().astype(np.int64)]
    )
    entries = [int(adj.nnz)]
    for hop, bound in enumerate(bounds, start=2):
        counted = ring_sizes(adj, hop, sample).sum()
        share = counted / max(bound[sample].sum(), 1)
        entries.append(round(float(share * bound.sum())))
    taken = sum(operator_bytes(size, n, train=TRAIN, val=VAL) for size in entries)
    return RingForecast(tuple(entries), taken, exact)
