"""The Planetoid files of Cora, Citeseer and Pubmed, which are pickles.

A pickle can run any program when it is read. These hold numpy arrays, scipy
matrices and a dictionary of lists, so only what rebuilds those may be named in
them; anything else is refused before it is touched.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.datasets.geom_gcn import read_split_files
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, Split
from h2gcn.io import adjacency_from_edges

__all__ = ["RestrictedUnpickler", "read_planetoid"]


def _empty_array(*_: object) -> NDArray[Any]:
    """Return the array that a pickle fills; whatever it asked for is ignored."""
    return np.empty(0, dtype="b")


class _ArrayMark:
    """Stands for numpy.ndarray, which pickles name but have no reason to call."""


_ALLOWED = {
    ("numpy", "ndarray"): _ArrayMark,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): sp.csr_matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class RestrictedUnpickler(pickle.Unpickler):
    """Reads pickles of numpy arrays, scipy matrices, lists and dictionaries."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle names, if it is on the list."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise InputError(
                f"the pickle names {module}.{name}, which no Planetoid file needs; "
                "it was not read"
            ) from None


_BROKEN = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    TypeError,
    ValueError,
)
"""What reading a pickle that is not one can raise."""


def _unpickle(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            read = RestrictedUnpickler(file, encoding="latin1").load()
        if isinstance(read, sp.csr_matrix):
            read.check_format(full_check=True)
        return read
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except _BROKEN as error:
        raise InputError(f"{path}: not a Planetoid file ({error})") from None


def read_planetoid(folder: Path, prefix: str) -> Graph:
    """Read the Planetoid files `ind.<prefix>.*` and the Geom-GCN splits beside them.

    Nodes of the test range that no file describes (Citeseer has 15) get no
    features and no label, and are taken out of every split.
    """
    x, y = _read_features_and_labels(folder, prefix)
    neighbours: dict[int, list[int]] = _unpickle(folder / f"ind.{prefix}.graph")
    sources = np.repeat(
        np.fromiter(neighbours, dtype=np.int64), [len(v) for v in neighbours.values()]
    )
    targets = np.array([v for row in neighbours.values() for v in row], dtype=np.int64)
    adj, directed, record = adjacency_from_edges(sources, targets, x.shape[0])
    unlabelled = np.flatnonzero(y < 0)
    splits = tuple(
        Split(*(np.setdiff1d(part, unlabelled) for part in split.parts.values()))
        for split in read_split_files(folder, prefix)
    )
    return Graph(x=x, adj=adj, directed=directed, y=y, splits=splits, record=record)


def _read_features_and_labels(
    folder: Path, prefix: str
) -> tuple[CSR, NDArray[np.int64]]:
    def part(name: str) -> Any:
        return _unpickle(folder / f"ind.{prefix}.{name}")

    test = np.loadtxt(folder / f"ind.{prefix}.test.index", dtype=np.int64)
    known, known_labels = CSR(part("allx")), part("ally")
    n = int(test.max()) + 1
    # Row i of tx belongs to the node that line i of the index file names.
    placed = sp.coo_array(part("tx"))
    rest = CSR(
        (placed.data, (test[placed.coords[0]] - known.shape[0], placed.coords[1])),
        shape=(n - known.shape[0], known.shape[1]),
    )
    y = np.full(n, -1, dtype=np.int64)
    y[: len(known_labels)] = known_labels.argmax(axis=1)
    y[test] = part("ty").argmax(axis=1)
    return CSR(sp.vstack([known, rest])), y
