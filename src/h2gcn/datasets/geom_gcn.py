"""Geom-GCN's text files: WebKB, Actor and the Wikipedia networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, Split
from h2gcn.io import adjacency_from_edges

__all__ = ["read_geom_gcn", "read_split_files"]


def read_geom_gcn(folder: Path, prefix: str, *, word_lists: bool = False) -> Graph:
    """Read a folder of Geom-GCN's text files.

    Parameters
    ----------
    folder
        Holds `out1_node_feature_label.txt`, `out1_graph_edges.txt` and the ten
        split files.
    prefix
        What the split files' names begin with.
    word_lists
        Whether a node's features are the numbers of its words (Actor), or a whole
        row of values.
    """
    ids, feature_texts, y = _read_nodes(folder / "out1_node_feature_label.txt")
    n = len(ids)
    place = np.full(ids.max() + 1, -1)
    place[ids] = np.arange(n)
    if n != len(place) or (place < 0).any():
        raise InputError(f"{folder}: the node ids must be 0 to {n - 1}, each once.")
    order = place  # rows in the order of the ids
    texts = [feature_texts[i] for i in order]
    x = _word_lists(texts) if word_lists else _value_rows(texts)
    edges = np.loadtxt(
        folder / "out1_graph_edges.txt", dtype=np.int64, skiprows=1, ndmin=2
    )
    adj, directed, record = adjacency_from_edges(edges[:, 0], edges[:, 1], n)
    return Graph(
        x=x,
        adj=adj,
        directed=directed,
        y=y[order],
        splits=read_split_files(folder, prefix),
        record=record,
    )


def _read_nodes(path: Path) -> tuple[NDArray[np.int64], list[str], NDArray[np.int64]]:
    with path.open(encoding="utf-8") as file:
        next(file)
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip()]
    ids = np.array([int(row[0]) for row in rows])
    return ids, [row[1] for row in rows], np.array([int(row[2]) for row in rows])


def _word_lists(texts: list[str]) -> CSR:
    words = [np.unique(np.array(text.split(","), dtype=np.int64)) for text in texts]
    indptr = np.cumsum([0, *map(len, words)])
    indices = np.concatenate(words)
    ones = np.ones(len(indices), dtype=np.float32)
    return CSR((ones, indices, indptr), shape=(len(texts), int(indices.max()) + 1))


def _value_rows(texts: list[str]) -> CSR:
    rows = [CSR(np.array([text.split(",")], dtype=np.float32)) for text in texts]
    return CSR(sp.vstack(rows))


def read_split_files(folder: Path, prefix: str) -> tuple[Split, ...]:
    """Read the ten Geom-GCN splits of a dataset (48/32/20, whatever their names)."""
    splits = []
    for number in range(10):
        path = folder / f"{prefix}_split_0.6_0.2_{number}.npz"
        with np.load(path, allow_pickle=False) as masks:
            parts = [masks[f"{part}_mask"] > 0 for part in ("train", "val", "test")]
        splits.append(Split(*parts))
    return tuple(splits)
