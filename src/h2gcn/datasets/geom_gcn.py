"""Geom-GCN's text files: WebKB, Actor and the Wikipedia networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn.datasets.raw_files import MOST_COLUMNS, reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph, Split
from h2gcn.io import Archive, adjacency_from_edges

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
    with reading(path := folder / "out1_node_feature_label.txt"):
        ids, texts, labels = _read_nodes(path)
        n = len(ids)
        order = np.argsort(ids, kind="stable")  # rows in the order of the ids
        if not np.array_equal(ids[order], np.arange(n)):
            raise InputError(f"the node ids must be 0 to {n - 1}, each once.")
        ordered = [texts[row] for row in order]
        x = _word_lists(ordered) if word_lists else _value_rows(ordered)
    with reading(path := folder / "out1_graph_edges.txt"):
        edges = _read_edges(path)
        adj, directed, record = adjacency_from_edges(edges[:, 0], edges[:, 1], n)
    splits = read_split_files(folder, prefix, n)
    with reading(folder):
        return Graph(
            x=x,
            adj=adj,
            directed=directed,
            y=labels[order],
            splits=splits,
            record=record,
        )


def _rows(path: Path, columns: str, separator: str | None) -> list[list[str]]:
    """Return the cells of a table without its header.

    Parameters
    ----------
    path
        A text file.
    columns
        What is in a line, in words, as many as there are columns.
    separator
        What stands between two cells; None for any blanks.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    rows = [line.split(separator) for line in lines if line.strip()]
    width = len(columns.split(", "))
    for number, row in enumerate(rows, start=2):
        if len(row) != width:
            raise InputError(
                f"a line must hold {columns}, {width} cells. "
                f"Got {len(row)} in line {number}."
            )
    return rows


def _read_nodes(path: Path) -> tuple[NDArray[np.int64], list[str], NDArray[np.int64]]:
    rows = _rows(path, "id, features, label", "\t")
    if not rows:
        raise InputError("there are no nodes in it.")
    ids = np.array([int(row[0]) for row in rows], dtype=np.int64)
    labels = np.array([int(row[2]) for row in rows], dtype=np.int64)
    return ids, [row[1] for row in rows], labels


def _read_edges(path: Path) -> NDArray[np.int64]:
    rows = _rows(path, "source, target", None)
    ends = np.array([int(end) for row in rows for end in row], dtype=np.int64)
    return ends.reshape(-1, 2)


def _word_lists(texts: list[str]) -> CSR:
    words = [np.unique(np.array(text.split(","), dtype=np.int64)) for text in texts]
    indptr = np.cumsum([0, *map(len, words)])
    indices = np.concatenate(words)
    last = int(indices.max())
    if indices.min() < 0 or last >= MOST_COLUMNS:
        raise InputError(
            f"the numbers of words must be 0 to {MOST_COLUMNS - 1:,}. "
            f"Got {indices.min()} to {last}."
        )
    ones = np.ones(len(indices), dtype=np.float32)
    return CSR((ones, indices, indptr), shape=(len(texts), last + 1))


def _value_rows(texts: list[str]) -> CSR:
    widths = {text.count(",") + 1 for text in texts}
    if len(widths) > 1 or max(widths) > MOST_COLUMNS:
        raise InputError(
            f"every node must have the same number of values, at most "
            f"{MOST_COLUMNS:,}. Got {min(widths)} to {max(widths)}."
        )
    rows = [CSR(np.array([text.split(",")], dtype=np.float64)) for text in texts]
    x = CSR(sp.vstack(rows))
    if not (np.abs(x.data) <= np.finfo(np.float32).max).all():
        raise InputError("the values must be finite in single precision.")
    return x.astype(np.float32)


def read_split_files(folder: Path, prefix: str, n_nodes: int) -> tuple[Split, ...]:
    """Read the ten Geom-GCN splits of a dataset (48/32/20, whatever their names).

    Parameters
    ----------
    folder, prefix
        Where the files are, and what their names begin with.
    n_nodes
        How long their masks must be.
    """
    splits = []
    for number in range(10):
        with reading(path := folder / f"{prefix}_split_0.6_0.2_{number}.npz"):
            archive = Archive(path)
            masks = [
                _mask(archive, f"{part}_mask", n_nodes)
                for part in ("train", "val", "test")
            ]
            splits.append(Split(*masks))
    return tuple(splits)


def _mask(archive: Archive, key: str, n_nodes: int) -> NDArray[Any]:
    mask = archive.get(key)
    if mask is None:
        raise InputError(f"'{key}' is missing.")
    if mask.shape != (n_nodes,) or mask.dtype.kind not in "biuf":
        raise InputError(
            f"'{key}' must be [{n_nodes}], numbers. "
            f"Got shape {mask.shape} and dtype {mask.dtype}."
        )
    return mask > 0
