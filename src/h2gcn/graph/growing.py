"""What a graph grew out of, and new entries in matrices that stay sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph.checks import CSR

__all__ = ["Growth", "grown_from", "grown_matrix", "remember_growth"]


@dataclass(frozen=True)
class Growth:
    """How a graph differs from the one that it was made of by adding to it.

    Parameters
    ----------
    base
        The graph before; its nodes have the same numbers.
    touched
        The new nodes, and all ends of new edges, ascending.
    """

    base: Any
    touched: NDArray[np.int64]


_GROWN: WeakKeyDictionary[Any, tuple[ReferenceType[Any], NDArray[np.int64]]] = (
    WeakKeyDictionary()
)
"""Of each graph that grew, what it was before: gone, where nobody else has it."""


def remember_growth(graph: Any, base: Any, touched: NDArray[np.int64]) -> None:
    """Remember that a graph is another one and more.

    Parameters
    ----------
    graph, base
        After and before.
    touched
        As of `Growth`.
    """
    _GROWN[graph] = ref(base), touched


def grown_from(graph: Any) -> Growth | None:
    """Return what a graph grew out of, where that is known and still in use.

    Whoever remembers something of a graph can take it from there, but for what is near
    what was touched.
    """
    if graph not in _GROWN:
        return None
    before, touched = _GROWN[graph]
    base = before()
    return None if base is None else Growth(base, touched)


def grown_matrix(
    matrix: CSR, rows: NDArray[np.int64], columns: NDArray[np.int64], n: int
) -> CSR:
    """Return a matrix with more rows and columns, and ones at some places, [n, n].

    Where it has an entry already, that stays. What was there is copied once.

    Parameters
    ----------
    matrix
        Square, sorted, without duplicates.
    rows, columns
        Of the new entries, [m] each, below n; in any order, also repeatedly.
    n
        How many rows there shall be, at least as many as there are.

    Examples
    --------
    >>> one = CSR(np.array([[0, 1], [1, 0]], dtype=np.float32))
    >>> grown_matrix(one, np.array([2, 0]), np.array([0, 2]), 3).toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    before = matrix.shape[0]
    places = np.unique(rows * np.int64(n) + columns)
    rows, columns = places // n, places % n
    inside = int(np.searchsorted(rows, before))  # those of rows that were there
    at, there = _find(matrix, rows[:inside], columns[:inside])
    at = at[~there]
    kept = np.concatenate([~there, np.ones(len(rows) - inside, dtype=bool)])
    rows, columns = rows[kept], columns[kept]
    inside = len(at)
    total = int(matrix.nnz) + len(rows)
    fits = max(total, n) <= np.iinfo(np.int32).max
    kind = np.int32 if fits else np.int64
    sizes = np.zeros(n, dtype=np.int64)
    sizes[:before] = np.diff(matrix.indptr)
    sizes += np.bincount(rows, minlength=n)
    starts = np.zeros(n + 1, dtype=kind)
    np.cumsum(sizes, out=starts[1:])
    # Where each entry goes, by how many new ones come before it.
    new = np.concatenate([at, np.full(len(rows) - inside, matrix.nnz)])
    new += np.arange(len(rows))
    indices, values = np.empty(total, dtype=kind), np.ones(total, matrix.data.dtype)
    old = np.ones(total, dtype=bool)
    old[new] = False
    indices[old], values[old] = matrix.indices, matrix.data
    indices[new] = columns
    return CSR((values, indices, starts), shape=(n, n))


def _find(
    matrix: CSR, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where entries are or would be among those stored, and which are, [m]."""
    low = matrix.indptr[rows].astype(np.int64)
    end = matrix.indptr[rows + 1].astype(np.int64)
    high = end.copy()
    indices = matrix.indices
    while True:
        open_ = np.flatnonzero(low < high)
        if not open_.size:
            break
        middle = (low[open_] + high[open_]) // 2
        less = indices[middle] < columns[open_]
        low[open_[less]] = middle[less] + 1
        high[open_[~less]] = middle[~less]
    there = low < end
    there[there] = indices[low[there]] == columns[there]
    return low, there
