"""The benchmarks by name: what they are, where their files are, and their graphs.

Files are read where they are, or downloaded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from h2gcn._validation import (
    check_bool,
    check_callable,
    check_path,
    check_type,
    nearest,
    quoted,
)
from h2gcn.datasets.formats import read_geom_gcn, read_planetoid
from h2gcn.datasets.raw_files import (
    DownloadProgress,
    check_files,
    download_files,
    reading,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, stratified_split
from h2gcn.io import cannot_read, read_npz

__all__ = [
    "DATASETS",
    "SYN_CORA",
    "DatasetInfo",
    "data_root",
    "is_dataset",
    "load_dataset",
]

logger = logging.getLogger(__name__)


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


# ------------------------------------------------------------------ a benchmark by name


def data_root() -> Path:
    """Return the folder of the benchmark files: $H2GCN_DATA, else the user's cache."""
    if given := os.environ.get("H2GCN_DATA"):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("h2gcn")) / "data"


def is_dataset(name: str) -> bool:
    """Return whether a name is that of a benchmark."""
    return name in DATASETS or name in SYN_CORA


def load_dataset(
    name: str,
    *,
    root: str | Path | None = None,
    trust_data: bool | None = None,
    progress: DownloadProgress | None = None,
) -> Graph:
    """Load a benchmark by name; what is missing of its files is downloaded.

    Parameters
    ----------
    name
        One of `DATASETS`, or `syn-cora/h0.10-r1` and the like.
    root
        Folder of the files; default `data_root()`.
    trust_data
        Whether files are read that are not the known ones, by their SHA-256. They are
        refused unless it is True; None: unless $H2GCN_TRUST_DATA is 1.
    progress
        Called as a file is downloaded, with its name, its bytes so far and all of
        them (0 where the server does not say).

    Returns
    -------
    Graph
        With its splits: the ten of Geom-GCN or of the dataset's authors; one of
        25/25/50 per class for syn-cora, three for cora-full.
    """
    check_type("load_dataset", "name", name, str, "a text")
    check_callable("load_dataset", "progress", progress)
    base = data_root() if root is None else check_path("load_dataset", "root", root)
    if trust_data is None:
        trust_data = os.environ.get("H2GCN_TRUST_DATA") == "1"
    trust_data = check_bool("load_dataset", "trust_data", trust_data)
    if name in SYN_CORA:
        return _load_syn_cora(base, name, trust_data)
    if name not in DATASETS:
        known = [*DATASETS, *SYN_CORA]
        raise InputError(
            f"there is no dataset {quoted(name)}.{nearest(name, known)} "
            f"Datasets: {', '.join(DATASETS)}, syn-cora/hX.XX-rN."
        )
    info = DATASETS[name]
    folder = base / info.folder
    if missing := [file for file in info.files if not _is_there(folder / file)]:
        _download(name, info, base, missing, trust_data, progress)
    check_files(
        name,
        base,
        [f"{info.folder}/{file}" for file in info.files],
        rebuilt=[f"{info.folder}/{file}" for file in info.rebuilt],
        served=None not in info.files.values(),
        trust_data=trust_data,
    )
    with reading(folder):
        graph = replace(info.read(folder), name=name)
        return graph if graph.splits else _with_splits(graph, 3)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()  # what is no file is refused with the others
    except OSError as error:
        raise cannot_read(path, error) from None


def _load_syn_cora(base: Path, name: str, trust_data: bool) -> Graph:
    path = base / f"{name}.npz"
    if not _is_there(path):
        raise InputError(
            f"{name}: no file {path}; h2gcn.datasets.generate_graph makes graphs of "
            "the same kind"
        )
    check_files(name, base, [f"{name}.npz"], trust_data=trust_data)
    with reading(path):
        return _with_splits(replace(read_npz(path), name=name), 1)


def _with_splits(graph: Graph, count: int) -> Graph:
    splits = [stratified_split(graph.y, (0.25, 0.25, 0.5), i) for i in range(count)]
    return replace(graph, splits=tuple(splits))


def _download(
    name: str,
    info: DatasetInfo,
    base: Path,
    missing: list[str],
    trust_data: bool,
    progress: DownloadProgress | None,
) -> None:
    hint = (
        f"{name}: {len(missing)} of its files are not in {base / info.folder} "
        f"({missing[0]}, …)"
    )
    addresses = {
        f"{info.folder}/{file}": address
        for file in missing
        if (address := info.files[file]) is not None
    }
    if len(addresses) < len(missing):
        raise InputError(f"{hint}, and they cannot be downloaded; put them there")
    logger.info("%s; downloading", hint)
    try:
        download_files(
            base,
            addresses,
            rebuilt=[f"{info.folder}/{file}" for file in info.rebuilt],
            trust_data=trust_data,
            progress=progress,
        )
    except InputError as error:
        raise InputError(
            f"{hint}, and downloading them failed: {error}; otherwise set $H2GCN_DATA "
            "to a folder that has them"
        ) from None
