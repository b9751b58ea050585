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
from typing import NamedTuple

from h2gcn._validation import (
    check_bool,
    check_callable,
    check_path,
    check_type,
    nearest,
)
from h2gcn.datasets.formats import read_geom_gcn, read_planetoid
from h2gcn.datasets.later_formats import (
    read_archive,
    read_facebook,
    read_graphland,
    read_matlab,
    read_ogb,
    read_twitch_gamers,
)
from h2gcn.datasets.raw_files import (
    LARGE_FILE,
    MIDDLE_FILE,
    WAY_OUT,
    DownloadProgress,
    check_files,
    download_files,
    reading,
    telling,
)
from h2gcn.exceptions import InputError, short_repr
from h2gcn.graph import Graph, stratified_split
from h2gcn.io import cannot_read, listed, read_npz

__all__ = [
    "DATASETS",
    "SIZES",
    "SYN_CORA",
    "DatasetInfo",
    "Size",
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
        downloaded from; None where they cannot be. `https://…/a.zip#b` is what the
        archive `a.zip` holds as `b`.
    summary
        A line for `h2gcn datasets`.
    source
        Whose it is: those who published it in this form.
    rebuilt
        Those of the files of which `sha256sums.txt` knows a copy that was put
        together from another source: their addresses may serve other bytes.
    metric
        The score that its authors report.
    scaling
        How its features are scaled.
    note
        What a user of this benchmark must know.
    licence
        Under which its files are published, where that is known.
    draws, shares
        How many splits are drawn where the files hold none, each by its number as
        seed and class by class, and their shares of train, val and test.
    most_bytes
        How large a file may be; by default that of a small benchmark.
    """

    folder: str
    read: Callable[[Path], Graph]
    files: Mapping[str, str | None]
    summary: str
    source: str = "Zhu et al. 2020"
    rebuilt: tuple[str, ...] = ()
    metric: str = "accuracy"
    scaling: str = "rows"
    note: str = ""
    licence: str = ""
    draws: int = 3
    shares: tuple[float, float, float] = (0.25, 0.25, 0.5)
    most_bytes: int | None = None


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


def _platonov(
    name: str,
    summary: str,
    *,
    metric: str = "accuracy",
    scaling: str = "standard",
    directed: bool = False,
    note: str = "",
) -> DatasetInfo:
    """Return a benchmark of Platonov et al. (2023), or of the files beside theirs."""
    stem = name.replace("-", "_")
    if metric == "roc_auc":
        note = "two unbalanced classes: the score is ROC-AUC"
    return DatasetInfo(
        folder=f"{stem}/raw",
        read=partial(read_archive, file=f"{stem}.npz", directed=directed),
        files={f"{stem}.npz": f"{_PLATONOV}/{stem}.npz"},
        summary=summary,
        source="Platonov et al. 2023",
        metric=metric,
        scaling=scaling,
        note=note,
        licence="MIT",
        most_bytes=MIDDLE_FILE,
    )


_LINKX = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data"
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_ZENODO = "https://zenodo.org/records/16895532/files"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"

_linkx = partial(
    DatasetInfo,
    source="Lim et al. 2021",
    scaling="none",
    draws=5,
    shares=(0.5, 0.25, 0.25),
    most_bytes=MIDDLE_FILE,
)
"""A benchmark of LINKX's; its splits, where there are no files of them, are five."""


def _facebook(name: str, file: str, splits: str | None = None) -> DatasetInfo:
    files = {"data.mat": f"{_LINKX}/facebook100/{file.replace(' ', '%20')}.mat"}
    if splits is not None:
        files[splits] = f"{_LINKX}/splits/{splits}"
    return _linkx(
        folder=f"{name.replace('-', '')}/raw",
        read=partial(read_facebook, file="data.mat", splits=splits),
        files=files,
        summary=f"friends at {file.rstrip('0123456789')}; gender, where known",
        note="no split inside: five of ours, 50/25/25" if splits is None else "",
    )


def _ogb_files(zipped: str, split: str, *more: str) -> dict[str, str | None]:
    tables = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
    names = [f"raw/{table}.csv.gz" for table in (*tables, *more)]
    names += [f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test")]
    return {one: f"{_OGB}/{zipped}.zip#{zipped}/{one}" for one in names}


def _ogb(
    name: str,
    split: str,
    files: dict[str, str | None],
    summary: str,
    *,
    licence: str,
    directed: bool | None,
    note: str,
) -> DatasetInfo:
    return DatasetInfo(
        folder=name.replace("-", "_"),
        read=partial(read_ogb, name=name, split=split, directed=directed),
        files=files,
        summary=summary,
        source="Hu et al. 2020 (OGB)",
        scaling="standard",
        note=note,
        licence=licence,
        most_bytes=LARGE_FILE,
    )


_ARXIV = _ogb_files("arxiv", "time", "node_year")
"""Of two benchmarks, for the archive to be downloaded once."""
_YEARS = "arxiv-year-splits.npy"


def _graphland(
    name: str, summary: str, *, directed: bool = False, two: bool = False
) -> DatasetInfo:
    """Return a benchmark of GraphLand's; `two` are its classes, or they are more."""
    timed = name != "city-reviews"
    splits = ("RL", "RH", "TH") if timed else ("RL", "RH")
    names = ["info", "features", "targets", "edgelist"]
    names += [f"split_masks_{split}" for split in splits]
    files = [f"{one}.yaml" if one == "info" else f"{one}.csv" for one in names]
    note = "split 0 is RL, 10/10/80, 1 is RH, 50/25/25"
    if timed:
        note += ", 2 is TH, by time"
    if two:
        note += "; the score is PR-AUC"
    return DatasetInfo(
        folder=f"{name}/raw/{name}",
        read=partial(read_graphland, name=name, directed=directed, splits=splits),
        files={file: f"{_ZENODO}/{name}.zip#{name}/{file}" for file in files},
        summary=summary,
        source="Bazhenov et al. 2025 (GraphLand)",
        metric="pr_auc" if two else "accuracy",
        scaling="standard",
        note=note,
        most_bytes=LARGE_FILE,
    )


def _shchur(folder: str, file: str, summary: str) -> DatasetInfo:
    return DatasetInfo(
        folder=f"{folder}/raw",
        read=partial(read_archive, file=f"{file}.npz", words=True),
        files={f"{file}.npz": f"{_SHCHUR}/{file}.npz"},
        summary=summary,
        source="Shchur et al. 2018",
        note="no split inside: ten of ours, 60/20/20",
        licence="MIT",
        most_bytes=MIDDLE_FILE,
        draws=10,
        shares=(0.6, 0.2, 0.2),
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
    "cora-full": DatasetInfo(
        folder="cora/raw",
        read=partial(read_archive, file="cora.npz"),
        files={"cora.npz": f"{_GRAPH2GAUSS}/cora.npz"},
        summary="papers that cite each other, in seventy topics",
        note="no split inside: the paper drew three of 25/25/50",
    ),
    "minesweeper": _platonov(
        "minesweeper", "a 100 by 100 board; mine or not", metric="roc_auc"
    ),
    "tolokers": _platonov(
        "tolokers", "workers who shared a task; banned or not", metric="roc_auc"
    ),
    "roman-empire": _platonov("roman-empire", "words of an article; their roles"),
    "amazon-ratings": _platonov("amazon-ratings", "products bought together; rating"),
    "questions": _platonov(
        "questions", "users who answered each other; active or not", metric="roc_auc"
    ),
    **{
        f"{name}-filtered{ending}": _platonov(
            f"{name}-filtered{ending}",
            f"{name} without twins",
            scaling="rows",
            directed=bool(ending),
            note="its links with their directions" if ending else "",
        )
        for name in ("chameleon", "squirrel")
        for ending in ("", "-directed")
    },
    "penn94": _facebook("penn94", "Penn94", "fb100-Penn94-splits.npy"),
    "amherst41": _facebook("amherst41", "Amherst41"),
    "cornell5": _facebook("cornell5", "Cornell5"),
    "johns-hopkins55": _facebook("johns-hopkins55", "Johns Hopkins55"),
    "reed98": _facebook("reed98", "Reed98"),
    "genius": _linkx(
        folder="genius/raw",
        read=partial(
            read_matlab, file="data.mat", name="genius", splits="genius-splits.npy"
        ),
        files={
            "data.mat": f"{_LINKX}/genius.mat",
            "genius-splits.npy": f"{_LINKX}/splits/genius-splits.npy",
        },
        summary="users of a lyrics site, following; gone or not",
        metric="roc_auc",
        scaling="standard",
        note="two unbalanced classes: the score is ROC-AUC",
    ),
    "twitch-gamers": _linkx(
        folder="twitch-gamers/raw",
        read=partial(read_twitch_gamers, splits="twitch-gamer-splits.npy"),
        files={
            "twitch-gamer_feat.csv": f"{_DRIVE}1fA9VIIEI8N0L27MSQfcBzJgRQLvSbrvR",
            "twitch-gamer_edges.csv": f"{_DRIVE}1XLETC6dG3lVl7kDmytEJ52hvDMVdxnZ0",
            "twitch-gamer-splits.npy": f"{_LINKX}/splits/twitch-gamer-splits.npy",
        },
        summary="followers of each other; for adults or not",
        scaling="standard",
        most_bytes=LARGE_FILE,
    ),
    "pokec": _linkx(
        folder="pokec/raw",
        read=partial(
            read_matlab, file="pokec.mat", name="pokec", splits="pokec-splits.npy"
        ),
        files={
            "pokec.mat": f"{_DRIVE}1dNs5E7BrWJbgcHeQ_zuy5Ozp2tRCWG0y",
            "pokec-splits.npy": f"{_DRIVE}1ZhpAiyTNc0cE_hhgyiqxnkKREHK7MK-_",
        },
        summary="friends on a social network; gender",
        scaling="standard",
        most_bytes=LARGE_FILE,
    ),
    "snap-patents": _linkx(
        folder="snap-patents/raw",
        read=partial(
            read_matlab,
            file="snap_patents.mat",
            name="snap-patents",
            splits="snap-patents-splits.npy",
            years=True,
        ),
        files={
            "snap_patents.mat": f"{_DRIVE}1ldh23TSY1PwXia6dU0MYcpyEgX-w3Hia",
            "snap-patents-splits.npy": f"{_DRIVE}12xbBRqd8mtG_XkNLH8dRRNZJvVM4Pw-N",
        },
        summary="patents that cite each other; fifths by year",
        most_bytes=LARGE_FILE,
    ),
    "arxiv-year": _linkx(
        folder="ogbn_arxiv",
        read=partial(read_ogb, name="arxiv-year", split="time", years=_YEARS),
        files={**_ARXIV, _YEARS: f"{_LINKX}/splits/{_YEARS}"},
        summary="ogbn-arxiv; fifths by year",
        scaling="standard",
        licence="ODC-BY",
        most_bytes=LARGE_FILE,
    ),
    "ogbn-arxiv": _ogb(
        "ogbn-arxiv",
        "time",
        _ARXIV,
        "papers that cite each other; 40 topics",
        licence="ODC-BY",
        directed=None,
        note="one split, by year",
    ),
    "ogbn-products": _ogb(
        "ogbn-products",
        "sales_ranking",
        _ogb_files("products", "sales_ranking"),
        "products bought together; 47 kinds",
        licence="Amazon",
        directed=False,
        note="one split, by sales; 1.4 GB to download",
    ),
    "coauthor-cs": _shchur("CS", "ms_academic_cs", "authors together; 15 fields"),
    "coauthor-physics": _shchur(
        "Physics", "ms_academic_phy", "authors together; 5 fields"
    ),
    "amazon-photo": _shchur(
        "Photo", "amazon_electronics_photo", "products bought together; 8 kinds"
    ),
    "amazon-computers": _shchur(
        "Computers",
        "amazon_electronics_computers",
        "products bought together; 10 kinds",
    ),
    "hm-categories": _graphland(
        "hm-categories", "products bought together; their kind"
    ),
    "pokec-regions": _graphland(
        "pokec-regions", "friends on a social network; region", directed=True
    ),
    "web-topics": _graphland("web-topics", "websites, linked; topic", directed=True),
    "tolokers-2": _graphland("tolokers-2", "tolokers, more is told of them", two=True),
    "city-reviews": _graphland(
        "city-reviews", "reviewers of the same places; fraud or not", two=True
    ),
    "artnet-exp": _graphland(
        "artnet-exp", "artists, following; explicit or not", two=True
    ),
    "web-fraud": _graphland(
        "web-fraud", "websites, linked; fraud or not", directed=True, two=True
    ),
}
"""The benchmarks by name."""


class Size(NamedTuple):
    """How large a benchmark is; edges are pairs of nodes, or links with directions."""

    nodes: int
    edges: int
    classes: int | None = None


SIZES: dict[str, Size] = {
    "texas": Size(183, 279, 5),
    "wisconsin": Size(251, 450, 5),
    "cornell": Size(183, 277, 5),
    "cornell-2020": Size(183, 277, 5),
    "actor": Size(7_600, 26_659, 5),
    "chameleon": Size(2_277, 31_371, 5),
    "squirrel": Size(5_201, 198_353, 5),
    "cora": Size(2_708, 5_278, 7),
    "citeseer": Size(3_327, 4_552, 6),
    "pubmed": Size(19_717, 44_324, 3),
    "cora-full": Size(19_793, 63_421, 70),
    "minesweeper": Size(10_000, 39_402, 2),
    "tolokers": Size(11_758, 519_000, 2),
    "roman-empire": Size(22_662, 32_927, 18),
    "amazon-ratings": Size(24_492, 93_050, 5),
    "questions": Size(48_921, 153_540, 2),
    "penn94": Size(41_554, 1_362_229, 2),
    "genius": Size(421_961, 984_979, 2),
    "twitch-gamers": Size(168_114, 6_797_557, 2),
    "pokec": Size(1_632_803, 30_622_564, 2),
    "snap-patents": Size(2_923_922, 13_975_788, 5),
    "arxiv-year": Size(169_343, 1_166_243, 5),
    "ogbn-arxiv": Size(169_343, 1_166_243, 40),
    "ogbn-products": Size(2_449_029, 61_859_140, 47),
    "coauthor-cs": Size(18_333, 81_894, 15),
    "coauthor-physics": Size(34_493, 247_962, 5),
    "amazon-photo": Size(7_650, 119_081, 8),
    "amazon-computers": Size(13_752, 245_861, 10),
    "hm-categories": Size(46_563, 10_730_995),
    "pokec-regions": Size(1_632_803, 30_622_564),
    "web-topics": Size(2_890_331, 12_895_369),
    "tolokers-2": Size(11_758, 519_000, 2),
    "city-reviews": Size(148_801, 1_165_415, 2),
    "artnet-exp": Size(50_405, 280_348, 2),
    "web-fraud": Size(2_890_331, 12_895_369, 2),
}
"""Of the paper's, minesweeper and tolokers, what the known files hold; of the others
what is published with them. Those that are not here were not found published."""

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
        Called as a file is downloaded, and as a large one is read, with its name, its
        bytes so far and all of them (0 where the server does not say).

    Returns
    -------
    Graph
        With its splits: those of Geom-GCN or of the dataset's authors. Where these
        give none they are drawn, as `DatasetInfo.draws` and `shares` say, and the
        graph's record tells it; one of 25/25/50 for syn-cora.
    """
    check_type("name", name, str, "a text")
    check_callable("progress", progress)
    base = data_root() if root is None else check_path("root", root)
    if trust_data is None:
        trust_data = os.environ.get("H2GCN_TRUST_DATA") == "1"
    trust_data = check_bool("trust_data", trust_data)
    if name in SYN_CORA:
        return _load_syn_cora(base, name, trust_data)
    if name not in DATASETS:
        known = [*DATASETS, *SYN_CORA]
        raise InputError(
            f"there is no dataset {short_repr(name)}.{nearest(name, known)} "
            "h2gcn.datasets.DATASETS names them; others are syn-cora/hX.XX-rN."
        )
    info = DATASETS[name]
    folder = base / info.folder
    if missing := [file for file in info.files if not _is_there(folder / file)]:
        _download(name, info, base, missing, trust_data, progress)
    with telling(progress):
        check_files(
            name,
            base,
            [f"{info.folder}/{file}" for file in info.files],
            rebuilt=[f"{info.folder}/{file}" for file in info.rebuilt],
            served=None not in info.files.values(),
            trust_data=trust_data,
            most_bytes=info.most_bytes,
        )
        with reading(folder):
            graph = info.read(folder)
            if graph.name != name:  # else it need not be copied
                graph = replace(graph, name=name)
            if not graph.splits:
                graph = _with_drawn_splits(graph, info)
    return _with_size_checked(graph, folder, trust_data)


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
        graph = replace(read_npz(path), name=name)
        return replace(graph, splits=(stratified_split(graph.y, (0.25, 0.25, 0.5)),))


def _with_size_checked(graph: Graph, folder: Path, trust_data: bool) -> Graph:
    """Refuse a graph with fewer or more nodes than published; note other edges.

    Most of these files have no known checksum: what was cut off shows here.
    """
    size = SIZES.get(graph.name)
    counts = {graph.n_edges}
    if graph.directed is not None:
        counts.add(graph.directed.nnz)
    if size is None or (graph.n_nodes == size.nodes and size.edges in counts):
        return graph
    told = (
        f"{graph.n_nodes:,} nodes and {max(counts):,} edges, where {size.nodes:,} and "
        f"{size.edges:,} are published"
    )
    if graph.n_nodes != size.nodes and not trust_data:
        raise InputError(
            f"{graph.name}: {folder} has {told}: cut off, or another version? Files "
            f"that are removed are downloaded again; {WAY_OUT}"
        )
    record = replace(graph.record, notes=(*graph.record.notes, told))
    return replace(graph, record=record)


def _with_drawn_splits(graph: Graph, info: DatasetInfo) -> Graph:
    """Return a graph with splits that are drawn, and a note that they are."""
    splits = [stratified_split(graph.y, info.shares, i) for i in range(info.draws)]
    parts = "/".join(f"{100 * share:g}" for share in info.shares)
    told = f"no split inside; {info.draws} of {parts} are drawn, class by class"
    record = replace(graph.record, notes=(*graph.record.notes, told))
    return replace(graph, splits=tuple(splits), record=record)


def _download(
    name: str,
    info: DatasetInfo,
    base: Path,
    missing: list[str],
    trust_data: bool,
    progress: DownloadProgress | None,
) -> None:
    whose = f"{missing[0]} is not" if len(missing) == 1 else "its files are not"
    hint = f"{name}: {whose} in {base / info.folder}"
    if len(missing) > 1:
        hint += f" ({listed(missing, 2)})"
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
            most_bytes=info.most_bytes,
            progress=progress,
        )
    except InputError as error:
        raise InputError(
            f"{hint}, and downloading failed: {error}; or set $H2GCN_DATA to a "
            "folder that has them"
        ) from None
