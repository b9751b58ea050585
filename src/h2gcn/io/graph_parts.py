"""Features, labels and edges as a `Graph` has them, from how a source does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, Graph, ReadRecord, Split
from h2gcn.sparse import check_memory

__all__ = [
    "WIDEST",
    "adjacency_from_edges",
    "carried_note",
    "check_features_room",
    "doubtful_column",
    "doubtful_labels",
    "encode_labels",
    "fit_layout",
    "from_scipy",
    "label_amounts",
    "order_classes",
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
EDGE = 32
"""Bytes that an edge takes at least while a matrix is made of it."""

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
    check_memory(what, 2 * numbers + COLUMN * n_features)


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


# ------------------------------------------------------------------------------- labels


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
            f"Labels must be one a node, a 1-D array, got shape {given.shape}"
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


def doubtful_labels(
    classes: NDArray[Any] | None, y: NDArray[np.int64] | None = None
) -> tuple[str, ...]:
    """Return notes on labels that may be meant otherwise.

    A class whose name elsewhere says "not known", and labels that are so many different
    numbers that they look like amounts.

    Parameters
    ----------
    classes
        The labels, [C], if there are any.
    y
        Class index of each node, [n].
    """
    names = [] if classes is None else [str(name) for name in classes]
    notes = tuple(
        f"label {name!r} is taken as a class; leave it empty for unlabelled nodes"
        for name in names
        if name.lower() in _MISSING_ELSEWHERE
    )
    if not label_amounts(classes, y):
        return notes
    n_labelled = int(np.count_nonzero(np.asarray(y) >= 0))
    words = (
        f"the labels of {n_labelled:,} nodes are {len(names):,} different numbers, and "
        "are taken as classes, as nothing here predicts amounts; a few ranges, such as "
        "low and high, would do in their place"
    )
    return (*notes, words)


AMOUNTS, FRACTIONS, FEW_EACH = 20, 10, 10
"""Whole numbers, of more than so many values, are amounts where a value has fewer nodes
than the last says, in the mean; so are others of more values than the second says."""


def label_amounts(classes: NDArray[Any] | None, y: NDArray[np.int64] | None) -> bool:
    """Tell whether labels look like numbers that are to be predicted as such.

    Parameters
    ----------
    classes, y
        As of `doubtful_labels`.
    """
    if classes is None or y is None or len(classes) <= FRACTIONS:
        return False
    try:
        numbers = np.array([float(name) for name in classes])
    except ValueError:
        return False
    whole = np.all(numbers == np.rint(numbers))
    if not whole:
        return True
    n_labelled = np.count_nonzero(np.asarray(y) >= 0)
    return len(classes) > AMOUNTS and bool(n_labelled < FEW_EACH * len(classes))


LEAST_ROWS = 20
"""In fewer rows, numbers may look like anything."""
MANY_ROWS = 50
"""From so many rows on, whole numbers of which none is there twice are keys."""
_KEY_WORDS = {
    *("id", "ids", "key", "uuid", "guid", "no", "nr", "ref", "iban", "ssn", "isbn"),
    *("phone", "telephone", "tel", "mobile", "fax", "serial"),
}
_CODE_WORDS = {"code", "zip", "zipcode", "postcode", "plz", "postal", "fips", "naics"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UNIX = (946_684_800, 2_051_222_400)  # 2000 to 2035, in seconds


def doubtful_column(name: str, values: NDArray[Any]) -> str:
    """Return what numbers seem to be that are no amounts, or "".

    Parameters
    ----------
    name
        Of the column: `customer_no`, `zipCode`.
    values
        The numbers that are there, [m].

    Examples
    --------
    >>> doubtful_column("customer_no", np.array([17, 4, 9] * 10))
    'keys, by its name'
    >>> doubtful_column("row", np.arange(30))
    'keys, as it rises from row to row'
    >>> doubtful_column("age", np.arange(30) % 7)
    ''
    """
    if values.dtype.kind == "f":
        values = values[~np.isnan(values)]
    if len(values) < LEAST_ROWS or values.dtype.kind not in "iuf":
        return ""
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)) or high - low < 2:
        return ""
    if np.any(values != np.rint(values)):
        return ""
    # The last word says what it is: customer_id, but id_count.
    words = [word.lower() for word in _WORD.findall(name)]
    if _CODE_WORDS & set(words[-2:]):
        return "codes, by its name"
    if set(words[-1:]) & _KEY_WORDS:
        return "keys, by its name"
    for scale, unit in ((1, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds")):
        if low >= scale * _UNIX[0] and high <= scale * _UNIX[1]:
            return f"times, as {unit} since 1970"
    if _are_days(values, low, high):
        return "dates, as numbers such as 20240601"
    if high - low + 1 < len(values):  # some are there twice
        return ""
    if (values[1:] > values[:-1]).all():
        return "keys, as it rises from row to row"
    if (values[1:] < values[:-1]).all():
        return "keys, as it falls from row to row"
    if len(values) >= MANY_ROWS and len(np.unique(values)) == len(values):
        return "keys, as no value is there twice"
    return ""


def _are_days(values: NDArray[Any], low: float, high: float) -> bool:
    """Tell whether numbers are years, months and days one after the other."""
    if low < 19_000_101 or high > 21_001_231:
        return False
    month, day = values // 100 % 100, values % 100
    return bool(np.all((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)))


# -------------------------------------------------------------------------------- edges


def adjacency_from_edges(
    sources: ArrayLike,
    targets: ArrayLike,
    n_nodes: int,
    *,
    directed: bool | None = None,
) -> tuple[CSR, CSR | None, ReadRecord]:
    """Return the simple undirected graph of an edge list.

    Parameters
    ----------
    sources, targets
        Node indices of the end points of each edge, [m] each.
    n_nodes
        Number of nodes; it comes from the node table, since a list of edges does
        not tell of isolated nodes.
    directed
        False: each entry is one undirected edge, so that (u, v) and (v, u) are
        duplicates and nothing is lost by making the matrix symmetric. Otherwise
        the entries have a direction, which is kept unless each is there both ways.

    Returns
    -------
    adj
        [n, n], symmetric, binary, without self-loops, sorted; float32 and int32.
    one_way
        [n, n], the same edges with the directions of the input; None where these
        say nothing.
    record
        Counts of what was merged, dropped and made symmetric; a loop that is listed
        twice is one loop and one duplicate.

    Examples
    --------
    >>> adj, one_way, record = adjacency_from_edges([0, 1, 1], [1, 0, 2], 3)
    >>> adj.nnz, one_way.nnz, record.symmetrised
    (4, 3, 1)
    """
    check_memory(f"a graph of {np.size(sources):,} edges", EDGE * np.size(sources))
    u = _endpoints("sources", sources, n_nodes)
    v = _endpoints("targets", targets, n_nodes)
    if u.size != v.size:
        raise InputError(
            f"'sources' and 'targets' must have the same length, "
            f"got {u.size} and {v.size}"
        )
    proper = u != v
    n_read, n_proper = int(u.size), int(np.count_nonzero(proper))
    n_loops = np.unique(u[~proper]).size
    if n_proper < n_read:
        u, v = u[proper], v[proper]
    if directed is False:
        u, v = np.minimum(u, v), np.maximum(u, v)
    one_way = _binary(CSR((np.ones(n_proper, np.float32), (u, v)), (n_nodes, n_nodes)))
    adj = _binary(CSR(one_way + CSR(one_way.T)))
    # With b pairs listed both ways and s listed one way, one_way holds 2b + s
    # entries and adj 2b + 2s.
    n_single = 0 if directed is False else int(adj.nnz - one_way.nnz)
    record = ReadRecord(
        edges_read=n_read,
        duplicates_merged=n_read - n_loops - int(one_way.nnz),
        loops_dropped=n_loops,
        symmetrised=n_single,
    )
    return adj, one_way if n_single else None, record


def carried_note(columns: Sequence[str]) -> tuple[str, ...]:
    """Return which columns a graph keeps of its edges, as a note or none.

    Examples
    --------
    >>> carried_note(["'hours'"])
    ("edge column 'hours' is kept for models that use what edges carry",)
    """
    if not columns:
        return ()
    one = len(columns) == 1
    what = f"column {columns[0]} is" if one else f"columns {', '.join(columns)} are"
    return (f"edge {what} kept for models that use what edges carry",)


def _endpoints(name: str, values: ArrayLike, n_nodes: int) -> NDArray[np.integer]:
    index = np.asarray(values).reshape(-1)
    if index.size and index.dtype.kind not in "iu":
        raise InputError(
            f"must hold node indices (integers), got dtype {index.dtype}", param=name
        )
    outside = (index < 0) | (index >= n_nodes)
    if outside.any():
        edge = int(np.argmax(outside))
        raise InputError(
            f"must lie in 0 … {n_nodes - 1}, as there are {n_nodes} nodes, got "
            f"{index[edge]} at edge {edge}",
            param=name,
        )
    fits = n_nodes <= np.iinfo(np.int32).max
    return index.astype(np.int32 if fits else np.int64, copy=False)


def _binary(matrix: CSR) -> CSR:
    """Return the pattern of a matrix: sorted, ones for data, int32 where it fits."""
    matrix.sum_duplicates()
    matrix.data = np.ones(matrix.nnz, dtype=np.float32)
    if matrix.nnz <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


def from_scipy(
    adj: Any,
    x: Any,
    y: Any = None,
    *,
    directed: bool | None = None,
    classes: Any = None,
    node_ids: Any = None,
    feature_names: Sequence[str] | None = None,
    splits: Sequence[Split] = (),
    name: str = "graph",
) -> Graph:
    """Return the graph of a matrix that may be weighted, directed, with loops.

    Parameters
    ----------
    adj
        [n, n], scipy sparse or dense: each entry that is not zero is an edge.
    x
        Features, [n, F], scipy sparse or dense.
    y
        Class index of each node, [n], -1 for unlabelled; or labels of any kind, of
        which classes are made (None or "" for unlabelled).
    directed
        False: the two directions of an edge mean the same (a triangle of a
        symmetric matrix, say), and none is kept.
    classes, node_ids, feature_names, splits, name
        As of `Graph`.

    Examples
    --------
    >>> import numpy as np
    >>> graph = from_scipy([[5.0, 0.3], [0, 0]], np.eye(2), ["spam", "ham"])
    >>> graph.adj.toarray().tolist(), graph.classes.tolist(), graph.y.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], ['ham', 'spam'], [1, 0])
    """
    try:
        matrix = sp.coo_array(adj)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"must be a matrix of numbers ({error})", param="adj"
        ) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"must be square, got shape {matrix.shape}", param="adj")
    weights = np.asarray(matrix.data)
    if weights.dtype.kind not in "biuf" or np.isnan(weights).any():
        raise InputError("must hold numbers; it holds NaN or other values", param="adj")
    there = weights != 0
    edges, one_way, record = adjacency_from_edges(
        matrix.coords[0][there],
        matrix.coords[1][there],
        matrix.shape[0],
        directed=directed,
    )
    if np.any(weights[there] != 1):
        record = replace(record, notes=("edge weights are not used",))
    found: Any = None
    if y is not None:
        y, found = encode_labels(y)
    return Graph(
        x=x,
        adj=edges,
        directed=one_way,
        y=y,
        classes=found if classes is None else classes,
        node_ids=node_ids,
        feature_names=feature_names,  # type: ignore[arg-type]
        splits=tuple(splits),
        name=name,
        record=record,
    )
