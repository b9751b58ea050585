"""The Planetoid files of Cora, Citeseer and Pubmed: matrices and lists in pickles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.datasets.geom_gcn import read_split_files
from h2gcn.datasets.pickles import read_array, read_lists, read_matrix
from h2gcn.datasets.raw_files import reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, Split
from h2gcn.io import adjacency_from_edges

__all__ = ["read_planetoid"]


def read_planetoid(folder: Path, prefix: str) -> Graph:
    """Read the Planetoid files `ind.<prefix>.*` and the Geom-GCN splits beside them.

    Nodes of the test range that no file describes (Citeseer has 15) get no
    features and no label, and are taken out of every split.
    """
    x, y = _read_features_and_labels(folder, prefix)
    with reading(path := folder / f"ind.{prefix}.graph"):
        neighbours = read_lists(path)
        lengths = [len(row) for row in neighbours.values()]
        sources = np.repeat(np.array([*neighbours], dtype=np.int64), lengths)
        targets = np.array(
            [node for row in neighbours.values() for node in row], dtype=np.int64
        )
        adj, directed, record = adjacency_from_edges(sources, targets, x.shape[0])
    unlabelled = np.flatnonzero(y < 0)
    splits = tuple(
        Split(*(np.setdiff1d(part, unlabelled) for part in split.parts.values()))
        for split in read_split_files(folder, prefix, x.shape[0])
    )
    with reading(folder):
        return Graph(x=x, adj=adj, directed=directed, y=y, splits=splits, record=record)


def _read_features_and_labels(
    folder: Path, prefix: str
) -> tuple[CSR, NDArray[np.int64]]:
    def file(part: str) -> Path:
        return folder / f"ind.{prefix}.{part}"

    known, known_labels = read_matrix(file("allx")), read_array(file("ally"))
    placed, placed_labels = read_matrix(file("tx")), read_array(file("ty"))
    for part, labels, matrix in (
        ("ally", known_labels, known),
        ("ty", placed_labels, placed),
    ):
        if len(labels) != matrix.shape[0] or not labels.shape[1]:
            raise InputError(
                f"{file(part)}: must be [{matrix.shape[0]}, classes]. "
                f"Got shape {labels.shape}."
            )
    if placed.shape[1] != known.shape[1]:
        raise InputError(
            f"{file('tx')}: must have {known.shape[1]} columns, as allx has. "
            f"Got {placed.shape[1]}."
        )
    test = _read_test_nodes(file("test.index"), known.shape[0], placed.shape[0])
    n = int(test.max()) + 1
    # Row i of tx belongs to the node that line i of the index file names.
    entries = sp.coo_array(placed)
    rest = CSR(
        (entries.data, (test[entries.coords[0]] - known.shape[0], entries.coords[1])),
        shape=(n - known.shape[0], known.shape[1]),
    )
    y = np.full(n, -1, dtype=np.int64)
    y[: len(known_labels)] = known_labels.argmax(axis=1)
    y[test] = placed_labels.argmax(axis=1)
    return CSR(sp.vstack([known, rest])), y


def _read_test_nodes(path: Path, first: int, count: int) -> NDArray[np.int64]:
    """Return the node of each row of tx; there are `first` nodes before them all."""
    with reading(path):
        words = path.read_text(encoding="ascii").split()
        test = np.array([int(word) for word in words], dtype=np.int64)
        # Few are described by no file, so that most numbers of the range are there.
        last = first + 2 * count - 1
        if (
            not count
            or len(test) != count
            or len(np.unique(test)) != count
            or not first <= test.min() <= test.max() <= last
        ):
            raise InputError(
                f"it must hold the {count} nodes of tx, each once, in {first} to "
                f"{last}. Got {len(test)} nodes."
            )
    return test
