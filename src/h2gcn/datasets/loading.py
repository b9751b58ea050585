"""The benchmarks by name, from files that are there or that PyG downloads."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from h2gcn._validation import import_extra, nearest
from h2gcn.datasets.catalogue import DATASETS, SYN_CORA, DatasetInfo
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, stratified_split
from h2gcn.io import read_npz

__all__ = ["checksum", "data_root", "is_dataset", "load_dataset"]

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


def load_dataset(name: str, *, root: str | Path | None = None) -> Graph:
    """Load a benchmark by name.

    Parameters
    ----------
    name
        One of `DATASETS`, or `syn-cora/h0.10-r1` and the like.
    root
        Folder of the files; default `data_root()`.

    Returns
    -------
    Graph
        With its splits: the ten of Geom-GCN or of the dataset's authors; one of
        25/25/50 per class for syn-cora, three for cora-full.
    """
    base = Path(root) if root is not None else data_root()
    if name in SYN_CORA:
        return _load_syn_cora(base, name)
    if name not in DATASETS:
        known = [*DATASETS, *SYN_CORA]
        raise InputError(
            f"there is no dataset {name!r}.{nearest(name, known)} "
            f"Datasets: {', '.join(DATASETS)}, syn-cora/hX.XX-rN."
        )
    info = DATASETS[name]
    folder = base / info.folder
    if missing := [file for file in info.files if not (folder / file).is_file()]:
        _download(name, info, base, missing)
    _check_files(name, folder, info.files, info.checksum)
    graph = replace(_read(name, info, folder), name=name)
    if not graph.splits:
        graph = _with_splits(graph, 3)
    return graph


_DAMAGE = (
    *(AttributeError, EOFError, IndexError, KeyError, OSError, StopIteration),
    *(TypeError, ValueError, zipfile.BadZipFile),
)
"""What readers run into when a file is cut off or something else."""


def _read(name: str, info: DatasetInfo, folder: Path) -> Graph:
    try:
        return info.read(folder)
    except InputError:
        raise
    except _DAMAGE as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{name}: a file in {folder} is damaged ({why}); once it is removed, it "
            "is downloaded again"
        ) from None


def _load_syn_cora(base: Path, name: str) -> Graph:
    path = base / f"{name}.npz"
    if not path.is_file():
        raise InputError(
            f"{name}: no file {path}; h2gcn.datasets.generate_graph makes graphs of "
            "the same kind"
        )
    _check_files(name, path.parent, [path.name], SYN_CORA[name])
    return _with_splits(replace(read_npz(path), name=name), 1)


def _check_files(
    name: str, folder: Path, files: Iterable[str], expected: str | None
) -> None:
    found = checksum(folder / file for file in files)
    if expected is not None and found != expected:
        warnings.warn(
            f"{name}: the files in {folder} are not the ones of the catalogue "
            f"(checksum {found}, expected {expected})",
            H2GCNWarning,
            stacklevel=3,
        )


def _with_splits(graph: Graph, count: int) -> Graph:
    splits = [stratified_split(graph.y, (0.25, 0.25, 0.5), i) for i in range(count)]
    return replace(graph, splits=tuple(splits))


def checksum(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits over the names and contents of some files."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _download(name: str, info: DatasetInfo, base: Path, missing: list[str]) -> None:
    """Let PyG's dataset class fetch the raw files, and nothing more."""
    hint = (
        f"{name}: {len(missing)} of its files are not in {base / info.folder} "
        f"({missing[0]}, …)"
    )
    if info.pyg is None:
        raise InputError(f"{hint}, and they cannot be downloaded; put them there")
    elsewhere = "set $H2GCN_DATA to a folder that has them"
    class_name, subfolder, arguments = info.pyg
    logger.info("%s; downloading", hint)
    try:
        import_extra("torch_geometric", "to download them")
        import torch_geometric.datasets

        reader = getattr(torch_geometric.datasets, class_name)
        # It would go on to unpickle what it downloaded.
        nothing = {"_process": lambda *_: None, "load": lambda *_, **__: None}
        type("Download", (reader,), nothing)(str(base / subfolder), **arguments)
    except InputError as error:
        raise InputError(f"{hint}; {error}, or {elsewhere}") from None
    except Exception as error:  # whatever the network or the disk had to say
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{hint}, and downloading them failed ({cause}); {elsewhere}"
        ) from None
    if any(not (base / info.folder / file).is_file() for file in info.files):
        raise InputError(f"{hint}, and the download did not bring them")
