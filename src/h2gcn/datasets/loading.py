"""The benchmarks by name, from files that are there or that are downloaded."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

from h2gcn._validation import (
    check_bool,
    check_callable,
    check_path,
    check_type,
    nearest,
    quoted,
)
from h2gcn.datasets.catalogue import DATASETS, SYN_CORA, DatasetInfo
from h2gcn.datasets.raw_files import (
    DownloadProgress,
    check_files,
    download_files,
    reading,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, stratified_split
from h2gcn.io import cannot_read, read_npz

__all__ = ["data_root", "is_dataset", "load_dataset"]

logger = logging.getLogger(__name__)


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
