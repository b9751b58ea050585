"""The benchmarks: where their files are, how they are read, what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from h2gcn.datasets.geom_gcn import read_geom_gcn
from h2gcn.datasets.planetoid import read_planetoid
from h2gcn.graph import Graph
from h2gcn.io import read_npz

__all__ = ["DATASETS", "SYN_CORA", "DatasetInfo"]


@dataclass(frozen=True)
class DatasetInfo:
    """A benchmark.

    Parameters
    ----------
    folder
        Where its raw files are under the data root (PyG's layout).
    read
        Reads that folder (or file) into a `Graph`.
    files
        The names of the raw files in `folder`.
    summary
        A line for `h2gcn datasets`.
    pyg
        PyG's dataset class and its arguments (the root is put first), which
        download the files; None where these cannot be had from there.
    checksum
        First 16 hexadecimal digits of the SHA-256 over the raw files.
    metric
        The score that its authors report.
    scaling
        How its features are scaled.
    note
        What a user of this benchmark must know.
    """

    folder: str
    read: Callable[[Path], Graph]
    files: tuple[str, ...]
    summary: str
    pyg: tuple[str, str, dict[str, str]] | None
    checksum: str | None = None
    metric: str = "accuracy"
    scaling: str = "rows"
    note: str = ""


def _splits(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_split_0.6_0.2_{i}.npz" for i in range(10))


def _text(
    prefix: str,
    folder: str,
    pyg: tuple[str, str, dict[str, str]] | None,
    summary: str,
    checksum: str,
    note: str = "",
) -> DatasetInfo:
    return DatasetInfo(
        folder=folder,
        read=partial(read_geom_gcn, prefix=prefix, word_lists=prefix == "film"),
        files=(
            "out1_node_feature_label.txt",
            "out1_graph_edges.txt",
            *_splits(prefix),
        ),
        summary=summary,
        pyg=pyg,
        checksum=checksum,
        note=note,
    )


def _citation(name: str, n_topics: str, checksum: str, note: str = "") -> DatasetInfo:
    prefix = name.lower()
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return DatasetInfo(
        folder=f"{name}/geom-gcn/raw",
        read=partial(read_planetoid, prefix=prefix),
        files=(*(f"ind.{prefix}.{part}" for part in parts), *_splits(prefix)),
        summary=f"papers that cite each other, in {n_topics}",
        pyg=("Planetoid", "", {"name": name, "split": "geom-gcn"}),
        checksum=checksum,
        note=note,
    )


def _platonov(name: str, summary: str, checksum: str) -> DatasetInfo:
    file = f"{name.lower()}.npz"
    return DatasetInfo(
        folder=f"{name.lower()}/raw",
        read=lambda folder: read_npz(folder / file),
        files=(file,),
        summary=summary,
        pyg=("HeterophilousGraphDataset", "", {"name": name}),
        checksum=checksum,
        metric="roc_auc",
        scaling="standard",
        note="two unbalanced classes: the score is ROC-AUC",
    )


_WEB = "web pages of a university, linked; kinds of page"
_TWINS = (
    "most test nodes have a twin in training: the same links and the same label "
    "(Platonov et al. 2023)"
)

DATASETS: dict[str, DatasetInfo] = {
    "texas": _text(
        "texas",
        "texas/raw",
        ("WebKB", "", {"name": "texas"}),
        _WEB,
        "2ed3ad36371d6fa6",
        "one class is a single node",
    ),
    "wisconsin": _text(
        "wisconsin",
        "wisconsin/raw",
        ("WebKB", "", {"name": "wisconsin"}),
        _WEB,
        "bf60ed592d59dbea",
    ),
    "cornell": _text(
        "cornell",
        "cornell/raw",
        ("WebKB", "", {"name": "cornell"}),
        _WEB,
        "f36540c90f489fc9",
        "the file as repaired in 2022; the paper's figures are of cornell-2020",
    ),
    "cornell-2020": _text(
        "cornell",
        "paper-2020/cornell/raw",
        None,
        "Cornell's links with the features and labels of Texas",
        "dc2ce4717232373e",
        "the broken file of 2020, which the paper used; no longer to be downloaded",
    ),
    "actor": _text(
        "film",
        "actor/raw",
        ("Actor", "actor", {}),
        "actors on the same Wikipedia pages; words of their own pages",
        "21996e6df720bac8",
    ),
    "chameleon": _text(
        "chameleon",
        "chameleon/geom_gcn/raw",
        ("WikipediaNetwork", "", {"name": "chameleon"}),
        "Wikipedia pages, linked; five levels of traffic",
        "4fa16dd6ffbbdd40",
        _TWINS,
    ),
    "squirrel": _text(
        "squirrel",
        "squirrel/geom_gcn/raw",
        ("WikipediaNetwork", "", {"name": "squirrel"}),
        "Wikipedia pages, linked; five levels of traffic",
        "d160fab2b315f0ab",
        _TWINS,
    ),
    "cora": _citation("Cora", "seven topics", "a0bb3143beff0540"),
    "citeseer": _citation(
        "CiteSeer",
        "six topics",
        "a94218dd2d81548d",
        "15 nodes have neither features nor label and are in no split",
    ),
    "pubmed": _citation("PubMed", "three topics", "4c8328f6180d34b8"),
    "minesweeper": _platonov(
        "Minesweeper", "a 100 by 100 board; mine or not", "945ae161b6be5f61"
    ),
    "tolokers": _platonov(
        "Tolokers", "workers who shared a task; banned or not", "00f8519e939801b0"
    ),
    "cora-full": DatasetInfo(
        folder="cora/raw",
        read=lambda folder: read_npz(folder / "cora.npz"),
        files=("cora.npz",),
        summary="papers that cite each other, in seventy topics",
        pyg=("CitationFull", "", {"name": "Cora"}),
        note="no split inside: the paper drew three of 25/25/50",
    ),
}
"""The benchmarks by name."""

SYN_CORA = {
    "syn-cora/h0.00-r1": "53362560c147fd08",
    "syn-cora/h0.00-r2": "2027b702bae027cd",
    "syn-cora/h0.00-r3": "77d1f5cb8d0d6721",
    "syn-cora/h0.10-r1": "bc7bc1ce66b482a6",
    "syn-cora/h0.10-r2": "e8afd934587e4543",
    "syn-cora/h0.10-r3": "925e5b826709ef07",
    "syn-cora/h0.20-r1": "0fbb97cb4bdc6ac7",
    "syn-cora/h0.20-r2": "94f9ce5f818d1576",
    "syn-cora/h0.20-r3": "234481ab5db9df8d",
    "syn-cora/h0.30-r1": "fc245d1292dfee34",
    "syn-cora/h0.30-r2": "e76d28d2d2ee0390",
    "syn-cora/h0.30-r3": "1b6c04a5df6fd1d5",
    "syn-cora/h0.40-r1": "7c115d7a453e4c4f",
    "syn-cora/h0.40-r2": "ca62c29cbbe2ce90",
    "syn-cora/h0.40-r3": "99210ecd358a55c4",
    "syn-cora/h0.50-r1": "4c9d0e4189f04f44",
    "syn-cora/h0.50-r2": "44720053f447f1e5",
    "syn-cora/h0.50-r3": "2d8dc1182b0aa9f6",
    "syn-cora/h0.60-r1": "3641b84043662cb1",
    "syn-cora/h0.60-r2": "e3693a6b27a2fce6",
    "syn-cora/h0.60-r3": "a6772801470c8042",
    "syn-cora/h0.70-r1": "47af551ec2755ef8",
    "syn-cora/h0.70-r2": "ce5aa210f793cf65",
    "syn-cora/h0.70-r3": "77c0d403f7ac6358",
    "syn-cora/h0.80-r1": "d5ced9af692bf35a",
    "syn-cora/h0.80-r2": "8180d970d670b82c",
    "syn-cora/h0.80-r3": "e2b25e81f5ee4f77",
    "syn-cora/h0.90-r1": "aa3c2bb458e4a520",
    "syn-cora/h0.90-r2": "ee0427b44c6b3bb6",
    "syn-cora/h0.90-r3": "e74323f18785bdcf",
    "syn-cora/h0.99-r1": "14ce81bee199ed76",
    "syn-cora/h0.99-r2": "3cb8b1967aaffac7",
    "syn-cora/h0.99-r3": "6e5546c1f1f41c8d",
    "syn-cora/h1.00-r1": "455bdd83fdd19d91",
    "syn-cora/h1.00-r2": "8db37b3e99c2d6af",
    "syn-cora/h1.00-r3": "1ff7d1623ab581bb",
}
"""The authors' synthetic graphs, three for each homophily, with their checksums."""
