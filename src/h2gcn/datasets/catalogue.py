"""The benchmarks: where their files are, how they are read, what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from h2gcn.datasets.geom_gcn import read_geom_gcn
from h2gcn.datasets.planetoid import read_planetoid
from h2gcn.datasets.raw_files import reading
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
        The raw files in `folder` by name, with the addresses that they are
        downloaded from; None where they cannot be.
    summary
        A line for `h2gcn datasets`.
    rebuilt
        Those of the files of which `sha256sums.txt` knows a copy that was put
        together from another source: their addresses may serve other bytes.
    metric
        The score that its authors report.
    scaling
        How its features are scaled.
    note
        What a user of this benchmark must know.
    """

    folder: str
    read: Callable[[Path], Graph]
    files: Mapping[str, str | None]
    summary: str
    rebuilt: tuple[str, ...] = ()
    metric: str = "accuracy"
    scaling: str = "rows"
    note: str = ""


_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn"
_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PLATONOV = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
_GRAPH2GAUSS = "https://github.com/abojchevski/graph2gauss/raw/master/data"
_NODES, _EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"


def _splits(prefix: str, revision: str = "master") -> dict[str, str | None]:
    names = [f"{prefix}_split_0.6_0.2_{number}.npz" for number in range(10)]
    return {name: f"{_GEOM_GCN}/{revision}/splits/{name}" for name in names}


def _text(
    prefix: str,
    folder: str,
    summary: str,
    note: str = "",
    *,
    revision: str | None = "master",
    rebuilt: tuple[str, ...] = (),
) -> DatasetInfo:
    """Return a benchmark of Geom-GCN's; without a revision, not to be downloaded."""
    files: dict[str, str | None] = {
        name: f"{_GEOM_GCN}/{revision}/new_data/{prefix}/{name}"
        for name in (_NODES, _EDGES)
    }
    files |= _splits(prefix, revision or "")
    return DatasetInfo(
        folder=folder,
        read=partial(read_geom_gcn, prefix=prefix, word_lists=prefix == "film"),
        files=files if revision else dict.fromkeys(files),
        summary=summary,
        rebuilt=rebuilt,
        note=note,
    )


def _citation(name: str, n_topics: str, note: str = "") -> DatasetInfo:
    prefix = name.lower()
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    names = [f"ind.{prefix}.{part}" for part in parts]
    return DatasetInfo(
        folder=f"{name}/geom-gcn/raw",
        read=partial(read_planetoid, prefix=prefix),
        files={name: f"{_PLANETOID}/{name}" for name in names} | _splits(prefix),
        summary=f"papers that cite each other, in {n_topics}",
        note=note,
    )


def _read_archive(folder: Path, file: str) -> Graph:
    with reading(folder / file):
        return read_npz(folder / file)


def _platonov(name: str, summary: str) -> DatasetInfo:
    file = f"{name}.npz"
    return DatasetInfo(
        folder=f"{name}/raw",
        read=partial(_read_archive, file=file),
        files={file: f"{_PLATONOV}/{file}"},
        summary=summary,
        metric="roc_auc",
        scaling="standard",
        note="two unbalanced classes: the score is ROC-AUC",
    )


_WEB = "web pages of a university, linked; kinds of page"
_TWINS = (
    "most test nodes have a twin in training: the same links and the same label "
    "(Platonov et al. 2023)"
)

_OLDER = "f1fc0d14b3b019c562737240d06ec83b07d16a8f"
"""Of Geom-GCN's files: the last with the Wikipedia networks as the paper had them."""

DATASETS: dict[str, DatasetInfo] = {
    "texas": _text("texas", "texas/raw", _WEB, "one class is a single node"),
    "wisconsin": _text("wisconsin", "wisconsin/raw", _WEB),
    "cornell": _text(
        "cornell",
        "cornell/raw",
        _WEB,
        "the file as repaired in 2022; the paper's figures are of cornell-2020",
        rebuilt=(_NODES, _EDGES),
    ),
    "cornell-2020": _text(
        "cornell",
        "paper-2020/cornell/raw",
        "Cornell's links with the features and labels of Texas",
        "the broken file of 2020, which the paper used; no longer to be downloaded",
        revision=None,
    ),
    "actor": _text(
        "film",
        "actor/raw",
        "actors on the same Wikipedia pages; words of their own pages",
    ),
    "chameleon": _text(
        "chameleon",
        "chameleon/geom_gcn/raw",
        "Wikipedia pages, linked; five levels of traffic",
        _TWINS,
        revision=_OLDER,
        rebuilt=(_NODES,),
    ),
    "squirrel": _text(
        "squirrel",
        "squirrel/geom_gcn/raw",
        "Wikipedia pages, linked; five levels of traffic",
        _TWINS,
        revision=_OLDER,
        rebuilt=(_NODES,),
    ),
    "cora": _citation("Cora", "seven topics"),
    "citeseer": _citation(
        "CiteSeer",
        "six topics",
        "15 nodes have neither features nor label and are in no split",
    ),
    "pubmed": _citation("PubMed", "three topics"),
    "minesweeper": _platonov("minesweeper", "a 100 by 100 board; mine or not"),
    "tolokers": _platonov("tolokers", "workers who shared a task; banned or not"),
    "cora-full": DatasetInfo(
        folder="cora/raw",
        read=partial(_read_archive, file="cora.npz"),
        files={"cora.npz": f"{_GRAPH2GAUSS}/cora.npz"},
        summary="papers that cite each other, in seventy topics",
        note="no split inside: the paper drew three of 25/25/50",
    ),
}
"""The benchmarks by name."""

SYN_CORA = tuple(
    f"syn-cora/h{homophily:.2f}-r{number}"
    for homophily in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1)
    for number in (1, 2, 3)
)
"""The authors' synthetic graphs, three for each homophily."""
