"""Benchmarks of a few nodes, in the formats of all that have a name."""

import collections
import gzip
import io
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch

from h2gcn.datasets import DATASETS, known_checksums
from support.webkb import write_tiny_webkb

__all__ = ["AT_HAND", "PRODUCTS", "TINY", "mat", "packed", "split_list", "write_files"]

AT_HAND = tuple(
    name
    for name, info in DATASETS.items()
    if all(f"{info.folder}/{file}" in known_checksums() for file in info.files)
)
"""The benchmarks whose files are known; of the others tests have none."""


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


def mat(**variables: Any) -> bytes:
    """Return a .mat file, packed as most are."""
    file = io.BytesIO()
    scipy.io.savemat(file, variables, do_compression=True)
    return file.getvalue()


def packed(text: str | bytes) -> bytes:
    """Return a text packed by gzip, the same at any time."""
    content = text.encode() if isinstance(text, str) else text
    return gzip.compress(content, mtime=0)


def split_list(
    *splits: tuple[Any, Any, Any], kind: Callable[[Any], Any] = np.array
) -> bytes:
    """Return LINKX's file of splits: dictionaries of arrays, pickled by numpy."""
    things = np.empty(len(splits), dtype=object)
    for number, parts in enumerate(splits):
        arrays = (part if isinstance(part, list) else [*part] for part in parts)
        keys = ("train", "valid", "test")
        things[number] = dict(zip(keys, map(kind, arrays), strict=True))
    file = io.BytesIO()
    np.save(file, things, allow_pickle=True)
    return file.getvalue()


_SPLITS = split_list(([3, 0], [1], [2]), ([1], [2, 3], [0]))
"""Two splits of four nodes."""
_TENSORS = split_list(([3, 0], [1], [2]), ([1], [2, 3], [0]), kind=torch.tensor)


def _facebook() -> bytes:
    """Four people in a ring, of whom the last has no gender."""
    ring = sp.csc_matrix(np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1))
    info = np.array(
        [
            [1, 1, 20, 0, 5, 2008, 7],
            [1, 2, 20, 0, 0, 2007, 8],
            [2, 2, 30, 0, 5, 2007, 9],
            [1, 0, 0, 4, 5, 2008, 7],
        ],
        dtype=float,
    )
    return mat(A=ring, local_info=info)


def _genius() -> bytes:
    return mat(
        edge_index=np.array([[0, 1, 2, 3, 0], [1, 2, 3, 3, 1]]),
        node_feat=np.arange(8.0).reshape(4, 2),
        label=np.array([[0], [1], [1], [-1]]),
    )


def _patents() -> bytes:
    return mat(
        edge_index=np.array([[0, 1, 2], [1, 0, 3]]),
        node_feat=sp.csc_matrix(np.eye(4, 3)),
        num_nodes=4,
        years=np.array([[1990.0, 1980, 1999, 1970]]),
    )


_GAMERS = {
    "twitch-gamer_feat.csv": b"""\
views,mature,life_time,created_at,updated_at,numeric_id,dead_account,language,affiliate
7879,1,969,2016-02-16,2018-10-12,0,0,EN,1
500,0,2699,2011-05-19,2018-10-08,1,0,DE,0
382502,1,3149,2010-02-27,2018-10-12,3,1,EN,1
386,0,1344,2015-01-26,2018-10-01,2,0,FR,0
""",
    "twitch-gamer_edges.csv": b"numeric_id_1,numeric_id_2\n0,1\n3,2\n1,0\n",
    "twitch-gamer-splits.npy": _SPLITS,
}


def _ogb(split: str) -> dict[str, bytes]:
    """Return four papers, one of which cites two."""
    return {
        "raw/edge.csv.gz": packed("0,1\n0,2\n3,2\n2,2\n"),
        "raw/num-edge-list.csv.gz": packed("4\n"),
        "raw/num-node-list.csv.gz": packed("4\n"),
        "raw/node-feat.csv.gz": packed("0.5,1\n2,3\n4,5\n6,7\n"),
        "raw/node-label.csv.gz": packed("0\n1\n0\n2\n"),
        f"split/{split}/train.csv.gz": packed("3\n0\n"),
        f"split/{split}/valid.csv.gz": packed("1\n"),
        f"split/{split}/test.csv.gz": packed("2\n"),
    }


_ARXIV = _ogb("time") | {"raw/node_year.csv.gz": packed("2010\n2018\n2014\n2010\n")}

_INFO = b"""\
dataset_name: tolokers-2
task: binary_classification
metric: AP
target_name: banned
numerical_features_names:
- age
- rate
fraction_features_names: [rate]
categorical_features_names: ['sex',
  "country"]
graph_is_directed: false
"""
_MASKS = (
    b",train,val,test\n0,True,False,False\n1,False,True,False\n2,True,False,False\n"
)
_LAND = {
    "info.yaml": _INFO,
    "features.csv": b"""\
node_id,country,age,rate,sex
0,2,30,0.5,0
1,0,,0.25,1
2,7,41,,1
3,0,30,0.25,0
""",
    "targets.csv": b"node_id,banned\n0,1.0\n1,0.0\n2,\n3,0.0\n",
    "edgelist.csv": b"source,target\n0,1\n1,2\n3,0\n0,3\n",
    "split_masks_RL.csv": _MASKS + b"3,False,False,True\n",
    "split_masks_RH.csv": _MASKS + b"3,True,False,False\n",
    "split_masks_TH.csv": _MASKS + b"3,False,True,False\n",
}


TINY: dict[str, dict[str, bytes]] = {
    name: {f"{folder}/{file}": content for file, content in files.items()}
    for name, folder, files in (
        ("texas", "texas/raw", _webkb("texas")),
        ("actor", "actor/raw", _actor()),
        ("cora", "Cora/geom-gcn/raw", _planetoid("cora")),
        ("minesweeper", "minesweeper/raw", {"minesweeper.npz": _platonov()}),
        ("cora-full", "cora/raw", {"cora.npz": _csr()}),
        ("syn-cora/h0.10-r1", "syn-cora", {"h0.10-r1.npz": _csr()}),
        (
            "squirrel-filtered-directed",
            "squirrel_filtered_directed/raw",
            {"squirrel_filtered_directed.npz": _platonov()},
        ),
        ("coauthor-cs", "CS/raw", {"ms_academic_cs.npz": _csr()}),
        (
            "penn94",
            "penn94/raw",
            {"data.mat": _facebook(), "fb100-Penn94-splits.npy": _SPLITS},
        ),
        ("reed98", "reed98/raw", {"data.mat": _facebook()}),
        (
            "genius",
            "genius/raw",
            {"data.mat": _genius(), "genius-splits.npy": _SPLITS},
        ),
        (
            "snap-patents",
            "snap-patents/raw",
            {"snap_patents.mat": _patents(), "snap-patents-splits.npy": _TENSORS},
        ),
        ("twitch-gamers", "twitch-gamers/raw", _GAMERS),
        ("ogbn-arxiv", "ogbn_arxiv", _ARXIV),
        ("ogbn-products", "ogbn_products", _ogb("sales_ranking")),
        ("arxiv-year", "ogbn_arxiv", _ARXIV | {"arxiv-year-splits.npy": _SPLITS}),
        ("tolokers-2", "tolokers-2/raw/tolokers-2", _LAND),
    )
}
"""A benchmark of each format: its files by their places under the data root."""

PRODUCTS = {
    "ogbn_products/raw/node-feat.csv.gz": packed("0.5,1\n2,3\n4,5\n6,7"),
    "ogbn_products/raw/node-label.csv.gz": packed("0\n1\n0\n1\n"),
}
"""The features of ogbn-products, of four nodes."""


def write_files(root: Path, files: dict[str, bytes]) -> None:
    """Write files under a data root."""
    for place, content in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(content)
