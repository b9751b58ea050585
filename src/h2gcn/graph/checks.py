"""The arrays of a graph: their types, the rules they keep, and blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import as_array
from h2gcn.exceptions import InputError, shorten

__all__ = [
    "CSR",
    "MAX_SPLITS",
    "Features",
    "as_list",
    "as_matrix",
    "check_adjacency",
    "check_classes",
    "check_features",
    "check_labels",
    "check_length",
    "check_split_count",
    "check_times",
    "first_beyond",
    "first_not_finite",
    "first_repeated",
    "row_slices",
    "slices",
    "tidy",
]

CSR = sp.csr_array
"""The sparse format of the library: scipy's CSR array, sorted, int32 where it fits."""
Features = NDArray[np.float32] | CSR
"""Node features, [n, F]: a dense array, or CSR where most entries are zero."""

MAX_CLASSES = 1_000_000
"""More cannot be meant: such numbers are ids or dates."""
MAX_SPLITS = 10_000
"""More cannot be meant: each is a training of its own."""
NUMBERS = 2**22
"""How many numbers of a matrix are looked at together, about: 16 MB of float32."""


def tidy(matrix: Any) -> CSR:
    """Return a copy: CSR, float32, sorted, no duplicates, int32 where it fits."""
    try:
        copied = CSR(matrix, dtype=np.float32, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"must hold numbers ({error})", param="adj") from None
    copied.sum_duplicates()
    if max(copied.nnz, *copied.shape) <= np.iinfo(np.int32).max:
        copied.indices = copied.indices.astype(np.int32, copy=False)
        copied.indptr = copied.indptr.astype(np.int32, copy=False)
    return copied


def as_matrix(name: str, matrix: Any) -> CSR:
    """Return what `tidy` makes of a matrix of numbers, or raise, [n, m]."""
    try:
        found = tidy(matrix)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError):
        found = None
    if found is None or found.ndim != 2:
        raise InputError(
            "must be a matrix of numbers, dense or scipy sparse",
            param=name,
            value=matrix,
        )
    return found


def as_list(name: str, values: Any) -> NDArray[Any]:
    """Return a copy of an array that has one dimension, or raise, [n]."""
    found = as_array(name, values)
    if found.ndim != 1:
        raise InputError(f"must be 1-D, got shape {found.shape}", param=name)
    return found.copy()


def check_adjacency(adj: Any) -> CSR:
    """Return a symmetric, binary matrix without loops, or raise, [n, n]."""
    matrix = as_matrix("adj", adj)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"must be square, got shape {matrix.shape}", param="adj")
    matrix.eliminate_zeros()
    hint = "h2gcn.io.from_scipy turns any matrix into such a graph"
    if matrix.nnz and not (matrix.data == 1).all():
        raise InputError("must hold only 0 and 1", param="adj", hint=hint)
    if matrix.diagonal().any():
        raise InputError("must not have self-loops", param="adj", hint=hint)
    transposed = CSR(matrix.T)
    transposed.sort_indices()
    if not (
        np.array_equal(matrix.indptr, transposed.indptr)
        and np.array_equal(matrix.indices, transposed.indices)
    ):
        raise InputError("must be symmetric", param="adj", hint=hint)
    return matrix


def check_features(x: Any, n: int) -> Features:
    """Return finite features, dense or CSR, or raise, [n, F].

    A memory-mapped file of float32 stays one, since it may be larger than the memory;
    all else is copied.
    """
    mapped = isinstance(x, np.memmap) and x.dtype == np.float32
    features: Features = x if mapped else _copy_features(x)
    if features.ndim != 2 or features.shape[0] != n:
        raise InputError(
            f"must have a row for each of the {n} nodes of 'adj', got shape "
            f"{features.shape}",
            param="x",
        )
    if features.shape[1] == 0:
        raise InputError("must have at least one feature column", param="x")
    found = first_not_finite(features)
    if found is not None:
        row, column = found
        raise InputError(
            f"must be finite, got {features[row, column]} in row {row}, column "
            f"{column}",
            param="x",
        )
    return features


def _copy_features(x: Any) -> Features:
    dense = not sp.issparse(x)
    if getattr(getattr(x, "dtype", None), "kind", "") == "c":
        raise InputError(f"must hold real numbers, got dtype {x.dtype}", param="x")
    try:
        # What 32 bits cannot hold becomes infinite, and is told as such.
        with np.errstate(over="ignore"):
            if dense:
                return np.array(x, dtype=np.float32)
            return CSR(x, dtype=np.float32, copy=True)
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            f"must hold numbers ({shorten(str(error))})", param="x"
        ) from None


def first_not_finite(features: Features) -> tuple[int, int] | None:
    """Return row and column of the first entry that is not finite, if there is one."""
    return first_beyond(features, float(np.finfo(np.float32).max))


def first_beyond(features: Features, limit: float) -> tuple[int, int] | None:
    """Return row and column of the first entry beyond ±limit, or NaN, if any."""
    if isinstance(features, np.ndarray):
        for rows in row_slices(features.shape):
            within = np.abs(features[rows]) <= limit
            if not within.all():
                row, column = np.argwhere(~within)[0]
                return rows.start + int(row), int(column)
        return None
    places = np.flatnonzero(~(np.abs(features.data) <= limit))
    if not places.size:
        return None
    row = np.searchsorted(features.indptr, places[0], side="right") - 1
    return int(row), int(features.indices[places[0]])


def check_labels(y: Any, n: int) -> NDArray[np.int64]:
    """Return class indices, -1 for unlabelled, or raise, [n]."""
    labels = np.full(n, -1) if y is None else as_array("y", y)
    if labels.dtype.kind not in "iu":
        raise InputError(
            "must hold class indices (integers, -1 for unlabelled), got dtype "
            f"{labels.dtype}",
            param="y",
        )
    if labels.ndim != 1:
        raise InputError(f"must be 1-D, got shape {labels.shape}", param="y")
    labels = labels.astype(np.int64)
    check_length("y", labels, n)
    if labels.size and labels.min() < -1:
        raise InputError("must be at least -1", param="y", value=int(labels.min()))
    return labels


def check_classes(classes: Any, y: NDArray[np.int64]) -> NDArray[Any]:
    """Return a label for each class index, or raise, [C]."""
    n_classes = int(y.max(initial=-1)) + 1
    if classes is None and n_classes > MAX_CLASSES:
        raise InputError(
            "must hold class indices, 0 to C - 1", param="y", value=int(n_classes - 1)
        )
    known = as_list("classes", np.arange(n_classes) if classes is None else classes)
    if len(known) < n_classes:
        raise InputError(
            f"Graph: 'y' uses {n_classes} classes, but 'classes' names {len(known)}."
        )
    return known


def check_length(name: str, values: Any, n: int) -> Any:
    """Return the values if there are n of them, else raise."""
    if len(values) != n:
        raise InputError(f"must have {n} entries", param=name, value=len(values))
    return values


def check_times(times: Any, n: int) -> NDArray[Any]:
    """Return dates (of microseconds) or numbers, or raise, [n]; NaT and NaN are none.

    Parameters
    ----------
    times
        As they were given.
    n
        How many there must be.
    """
    found = as_array("times", times)
    if found.shape != (n,) or found.dtype.kind not in "Miuf":
        raise InputError(
            f"must be {n} dates (datetime64) or numbers, 1-D, got shape {found.shape} "
            f"and dtype {found.dtype}",
            param="times",
        )
    kind = "datetime64[us]" if found.dtype.kind == "M" else np.float64
    return found.astype(kind)


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first of some names that was there before, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def check_split_count(count: int) -> None:
    """Raise where a graph comes with more splits than can be meant."""
    if count > MAX_SPLITS:
        raise InputError(f"a graph has at most {MAX_SPLITS:,} splits, got {count:,}")


def slices(count: int, size: int) -> Iterator[slice]:
    """Return slices of at most `size` that cover `count` in order.

    Examples
    --------
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def row_slices(shape: tuple[int, ...]) -> Iterator[slice]:
    """Return slices that cover the rows of a matrix, [n, F], in order."""
    count, columns = shape
    return slices(count, max(1, NUMBERS // max(columns, 1)))
