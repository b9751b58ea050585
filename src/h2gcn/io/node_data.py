"""Features and labels of nodes, from how a source has them to how a `Graph` does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features
from h2gcn.sparse import check_room

__all__ = [
    "WIDEST",
    "check_features_room",
    "doubtful_labels",
    "encode_labels",
    "fit_layout",
    "order_classes",
    "structural_features",
    "text_values",
    "worth_sparse",
]

SPARSE_BELOW = 0.25
"""Features are kept sparse where a smaller share of the entries is not zero."""
SPARSE_FROM = 32
"""Narrower matrices are dense in any case: there is nothing to gain."""

WIDEST = 64
"""Texts up to this length are kept in arrays of fixed width."""
COLUMN = 1100
"""Bytes that a feature takes at least: its name, and in a model 64 weights with their
gradient and two moments."""

# "007" or "+1" are names: read as numbers they could fall together with others. But
# programs write a whole number as "1.0" as soon as one label of a column is missing.
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,14})(\.0*)?")

_MISSING_ELSEWHERE = {"-1", "?", "na", "n/a", "nan", "none", "null", "unknown"}


def check_features_room(shape: tuple[int, ...], n_stored: int | None = None) -> None:
    """Refuse features that will not fit in memory, before any of them is made.

    Parameters
    ----------
    shape
        [n, F].
    n_stored
        How many entries a sparse matrix stores; None for a dense one.
    """
    n, n_features = shape
    numbers = 4 * n * n_features
    if n_stored is not None:
        numbers = min(numbers, 8 * n + 16 * n_stored)
    what = f"features of {n:,} nodes in {n_features:,} columns"
    check_room(what, 2 * numbers + COLUMN * n_features)


def worth_sparse(n_nonzero: int, shape: tuple[int, ...]) -> bool:
    """Tell whether features, [n, F], with so many non-zeros are kept as CSR."""
    n, n_features = shape
    return n_features >= SPARSE_FROM and n_nonzero < SPARSE_BELOW * n * n_features


def fit_layout(x: Any) -> Features:
    """Return features, [n, F], as CSR where most entries are zero, else dense."""
    is_sparse: bool = sp.issparse(x)
    if np.ndim(x) == 2:
        check_features_room(x.shape, x.nnz if is_sparse else None)
    if is_sparse:
        with np.errstate(over="ignore"):
            matrix = CSR(x, dtype=np.float32)
        return matrix if worth_sparse(matrix.nnz, matrix.shape) else matrix.toarray()
    with np.errstate(over="ignore"):
        dense: NDArray[np.float32] = np.asarray(x, dtype=np.float32)
    if dense.ndim == 2 and worth_sparse(int(np.count_nonzero(dense)), dense.shape):
        return CSR(dense)
    return dense


def structural_features(
    adj: CSR,
) -> tuple[NDArray[np.float32], tuple[str, ...], str]:
    """Return features made of the graph alone, for graphs that bring none.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n].

    Returns
    -------
    x
        [n, 3]: log(1 + degree), log(1 + mean degree of the neighbours), and 1.
    feature_names
        The names of the three columns.
    note
        A sentence for the record of the reader.
    """
    degree = np.diff(adj.indptr).astype(np.float64)
    neighbours = (adj @ degree) / np.maximum(degree, 1)
    x = np.column_stack([np.log1p(degree), np.log1p(neighbours), np.ones_like(degree)])
    names = ("log1p_degree", "log1p_neighbour_degree", "one")
    note = (
        "the input has no node features; log1p of the degree, log1p of the mean "
        "degree of the neighbours and a constant are used in their place"
    )
    return x.astype(np.float32), names, note


def text_values(texts: Sequence[str]) -> NDArray[Any]:
    """Return texts as an array, [n]: of fixed width, or objects where that wastes.

    A long one among many short ones would make all as long as itself.
    """
    longest = max(map(len, texts), default=0)
    return np.array(texts, dtype=str if longest <= WIDEST else object)


def order_classes(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sort the distinct labels: as numbers where all are integers, else as text.

    Returns
    -------
    classes
        The labels in order, [C]; integers or strings.
    rank
        The class index of each entry of `texts`, [C].
    """
    integers = all(_INTEGER.fullmatch(text) for text in texts)
    values = (
        np.array([int(float(t)) for t in texts]) if integers else text_values(texts)
    )
    classes, rank = np.unique(values, return_inverse=True)
    return classes, rank.astype(np.int64)


def encode_labels(values: Any) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Return class indices, and the classes where the values are their names.

    Integers (and floats that are integers; NaN is unlabelled) are class indices
    already, and no classes are returned. Of anything else, None, NaN and the empty
    string are unlabelled.

    Parameters
    ----------
    values
        A label a node, [n].
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise InputError(
            f"Labels must be one a node, a 1-D array. Got shape {given.shape} instead."
        )
    if given.dtype.kind in "iub":
        _check_labels_fit(given)
        return given.astype(np.int64), None
    if given.dtype.kind == "f":
        known = np.isfinite(given)
        if np.any(given[known] != np.rint(given[known])):
            raise InputError("Labels must be classes; these hold fractions.")
        _check_labels_fit(given[known])
        return np.where(known, given, -1).astype(np.int64), None
    texts = [
        None if v is None or (isinstance(v, Real) and v != v) else str(v).strip()
        for v in given.tolist()
    ]
    distinct = list(dict.fromkeys(text for text in texts if text))
    if not distinct:
        return np.full(len(texts), -1, dtype=np.int64), None
    classes, rank = order_classes(distinct)
    index = dict(zip(distinct, rank.tolist(), strict=True))
    y = np.array([index[text] if text else -1 for text in texts], dtype=np.int64)
    return y, classes


def _check_labels_fit(values: NDArray[Any]) -> None:
    """Raise where numbers are too large for class indices, [m]."""
    largest = float(np.abs(values.astype(np.float64)).max(initial=0))
    if largest > 2**53:
        raise InputError(f"Labels must be classes; these hold {largest:g}.")


def doubtful_labels(classes: NDArray[Any] | None) -> tuple[str, ...]:
    """Return a note for each class whose name elsewhere says "not known"."""
    names = [] if classes is None else [str(name) for name in classes]
    return tuple(
        f"label {name!r} is taken as a class; leave it empty for unlabelled nodes"
        for name in names
        if name.lower() in _MISSING_ELSEWHERE
    )
