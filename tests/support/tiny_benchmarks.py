"""Benchmarks of a few nodes, in the formats of all that have a name."""

import collections
import gzip
import io
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from support.webkb import write_tiny_webkb

__all__ = ["PRODUCTS", "TINY", "write_files"]


def _webkb(prefix: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_webkb(Path(folder), prefix)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _actor() -> dict[str, bytes]:
    lines = ["node_id\tfeature\tlabel", "0\t3,1\t0", "1\t0\t1", "2\t2,2\t1", "3\t1\t0"]
    nodes = "\n".join([*lines, ""]).encode()
    return _webkb("film") | {"out1_node_feature_label.txt": nodes}


def _planetoid(prefix: str) -> dict[str, bytes]:
    """Five nodes, of which the last but one is described nowhere."""
    known, test = np.array([[1.0, 0], [0, 2]]), np.array([[0.0, 3], [4, 0]])
    classes = np.eye(2, dtype=np.int32)
    lists = {0: [1, 2], 1: [0], 2: [0, 4, 4], 4: [2]}
    parts: dict[str, Any] = {
        "x": sp.csr_matrix(known[:1]),
        "tx": sp.csr_matrix(test),
        "allx": sp.csr_matrix(known),
        "y": classes[:1],
        "ty": classes,
        "ally": classes,
        "graph": collections.defaultdict(list, lists),
    }
    files = {f"ind.{prefix}.{part}": pickle.dumps(v, 3) for part, v in parts.items()}
    masks = {"train": [1, 0, 0, 0, 0], "val": [0, 1, 0, 1, 0], "test": [0, 0, 1, 0, 1]}
    split = _npz(**{f"{part}_mask": np.array(mask) for part, mask in masks.items()})
    splits = {f"{prefix}_split_0.6_0.2_{number}.npz": split for number in range(10)}
    return files | {f"ind.{prefix}.test.index": b"4\n2\n"} | splits


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _platonov() -> bytes:
    masks = np.eye(3, 6, dtype=bool)
    return _npz(
        node_features=np.arange(12, dtype=np.float32).reshape(6, 2),
        node_labels=np.array([0, 1, 0, 1, 0, 1]),
        edges=np.array([[0, 1], [1, 2], [4, 5]]),
        train_masks=masks[:1],
        val_masks=masks[1:2],
        test_masks=masks[2:],
    )


def _csr() -> bytes:
    adj = sp.csr_array(np.diag(np.ones(7), 1))
    attr = sp.csr_array(np.eye(8, 3))
    parts = {
        f"{name}_{part}": getattr(matrix, part)
        for name, matrix in (("adj", adj), ("attr", attr))
        for part in ("data", "indices", "indptr", "shape")
    }
    return _npz(labels=np.arange(8) % 2, **parts)


TINY: dict[str, dict[str, bytes]] = {
    name: {f"{folder}/{file}": content for file, content in files.items()}
    for name, folder, files in (
        ("texas", "texas/raw", _webkb("texas")),
        ("actor", "actor/raw", _actor()),
        ("cora", "Cora/geom-gcn/raw", _planetoid("cora")),
        ("minesweeper", "minesweeper/raw", {"minesweeper.npz": _platonov()}),
        ("cora-full", "cora/raw", {"cora.npz": _csr()}),
        ("syn-cora/h0.10-r1", "syn-cora", {"h0.10-r1.npz": _csr()}),
    )
}
"""A benchmark of each format: its files by their places under the data root."""

PRODUCTS = {
    "ogbn_products/raw/node-feat.csv.gz": gzip.compress(
        b"0.5,1\n2,3\n4,5\n6,7", mtime=0
    ),
    "ogbn_products/raw/node-label.csv.gz": gzip.compress(b"0\n1\n0\n1\n", mtime=0),
}
"""The features of ogbn-products, of four nodes."""


def write_files(root: Path, files: dict[str, bytes]) -> None:
    """Write files under a data root."""
    for place, content in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(content)
