"""Exact i-hop neighbourhoods: who is at shortest distance exactly i.

The paper writes ring 2 as I[A² − A − I > 0]; taken to the letter with integer
matrices that keeps most 1-hop neighbours, for they are also reached by walks of
length two. What is meant, and computed here, is the shortest distance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_integer
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR

__all__ = [
    "RingForecast",
    "available_memory",
    "check_memory",
    "exact_rings",
    "forecast_ring",
    "normalise",
]

BYTES_PER_ENTRY = 24
"""Peak bytes for an entry of a ring, from its construction to training.

GraphBLAS keeps 8 for the column; the int32 copy takes 4 and the value 4; the rows
of the training nodes are held once more with their transpose.
"""
FORECAST_ROWS = 1024
"""How many rows a forecast looks at."""


def exact_rings(adj: CSR, *, hops: int = 2) -> list[CSR]:
    """Return the rings 1 to `hops` of a graph.

    Ring i is the binary matrix of the pairs at shortest distance exactly i: no
    diagonal, symmetric, disjoint from the other rings.

    The next ring is the product of the last one with A over the semiring
    (any, pair) under the complemented mask of what is nearer: GraphBLAS never
    computes a number of walks, nor keeps an entry that the mask forbids.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix without self-loops, [n, n].
    hops
        The largest distance, at least 1.

    Returns
    -------
    list of csr_array
        `hops` matrices, [n, n], float32 ones, sorted int32 indices.

    Examples
    --------
    >>> path = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> exact_rings(path, hops=2)[1].toarray()
    array([[0., 0., 1.],
           [0., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    check_integer("exact_rings", "hops", hops, 1)
    rings = [_binary(adj)]
    if hops == 1:
        return rings

    import graphblas as gb

    n = adj.shape[0]
    step = gb.io.from_scipy_sparse(rings[0].astype(bool))
    ego = gb.Vector.from_scalar(True, n, dtype=bool).diag()
    nearer = gb.Matrix(bool, n, n)
    nearer << step.ewise_add(ego, gb.binary.pair)
    ring = step
    for hop in range(2, hops + 1):
        wider = gb.Matrix(bool, n, n)
        wider(~nearer.S) << gb.semiring.any_pair[bool](ring @ step)
        if hop < hops:
            nearer(accum=gb.binary.lor) << wider
        ring = wider
        rings.append(_to_scipy(ring, last=hop == hops))
    return rings


def _binary(adj: CSR) -> CSR:
    ring = CSR(adj, copy=True)
    if ring.diagonal().any():
        ring.setdiag(0)
    ring.eliminate_zeros()
    ring.sort_indices()
    return _ones(ring.indices, ring.indptr, ring.shape[0])


def _to_scipy(matrix: Any, *, last: bool) -> CSR:
    """Return a GraphBLAS matrix as CSR; the last one gives its memory away."""
    n = matrix.nrows
    parts = matrix.ss.export("csr", sort=True, give_ownership=last)
    return _ones(parts["col_indices"], parts["indptr"], n)


def _ones(indices: NDArray[Any], indptr: NDArray[Any], n: int) -> CSR:
    """Return the binary matrix of a pattern, with 32-bit indices where they fit."""
    dtype = np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64
    values = np.ones(len(indices), dtype=np.float32)
    columns = indices.astype(dtype, copy=False)
    return CSR((values, columns, indptr.astype(dtype, copy=False)), shape=(n, n))


def normalise(ring: CSR, *, self_loops: bool = False) -> CSR:
    """Return D^-1/2 A D^-1/2 by the matrix's own degrees; empty rows stay zero.

    Parameters
    ----------
    ring
        Symmetric binary matrix, [n, n].
    self_loops
        Add the identity first (Kipf's Â, and the paper's NS variants).
    """
    matrix = CSR(ring + sp.eye_array(ring.shape[0])) if self_loops else ring
    matrix.sort_indices()
    degrees = np.diff(matrix.indptr)
    scale = np.zeros(len(degrees), dtype=np.float32)
    np.divide(1, np.sqrt(degrees), out=scale, where=degrees > 0, casting="unsafe")
    values = np.repeat(scale, degrees)
    values *= scale[matrix.indices]
    # The pattern is shared with the ring: a second copy of it would be the peak.
    return CSR((values, matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True)
class RingForecast:
    """How large the rings of a graph will be.

    Parameters
    ----------
    entries
        Stored entries of ring 1, 2, …
    bytes
        Peak memory that building and training on them will take.
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
            f"{len(self.entries)}, {about}{self.bytes / 1e9:,.1f} GB"
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
    bounds = [np.diff(adj.indptr).astype(np.float64)]
    for _ in range(1, hops):
        bounds.append(np.minimum(adj @ bounds[-1], n))
    order = np.argsort(bounds[-1], kind="stable")
    exact = n <= rows
    sample = (
        order if exact else order[np.linspace(0, n - 1, rows).round().astype(np.int64)]
    )
    counted = _count_rows(adj, sample, hops)
    entries = [int(adj.nnz)]
    for hop in range(1, hops):
        bound = bounds[hop]
        share = counted[:, hop].sum() / max(bound[sample].sum(), 1)
        entries.append(round(float(share * bound.sum())))
    total = sum(entries)
    return RingForecast(tuple(entries), total * BYTES_PER_ENTRY, exact)


def _count_rows(adj: CSR, nodes: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
    """Count the neighbours at distance 1..hops of each node, [len(nodes), hops]."""
    counts = np.zeros((len(nodes), hops), dtype=np.int64)
    n = adj.shape[0]
    for row, node in enumerate(nodes):
        seen = np.zeros(n, dtype=bool)
        seen[node] = True
        frontier = np.array([node])
        for hop in range(hops):
            reached = np.zeros(n, dtype=bool)
            reached[adj[frontier].indices] = True
            reached &= ~seen
            seen |= reached
            frontier = np.flatnonzero(reached)
            counts[row, hop] = len(frontier)
    return counts


def available_memory() -> int:
    """Return the bytes that this process may still take."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:  # a container's limit, where there is one
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))


def check_memory(
    adj: CSR, hops: Sequence[int], way_out: str, *, available: int | None = None
) -> RingForecast | None:
    """Refuse, before anything is allocated, rings that will not fit.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    hops
        The rings that are wanted.
    way_out
        What the user can do instead, for the message.
    available
        Bytes that may be used; default what the machine has free.
    """
    if max(hops, default=0) < 2:
        return None
    forecast = forecast_ring(adj, hops=max(hops))
    limit = available_memory() if available is None else available
    if forecast.bytes > limit:
        raise InputError(
            f"the rings will not fit in memory: {forecast}, but {limit / 1e9:,.1f} GB "
            f"are free; {way_out}"
        )
    return forecast
