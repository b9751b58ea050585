"""`h2gcn datasets`: the benchmarks and where their files are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from h2gcn.cli.console import table, tell, tell_json
from h2gcn.cli.options import AsJson

if TYPE_CHECKING:
    from h2gcn.datasets import DatasetInfo

__all__ = ["command"]


def _has(root: Path, info: DatasetInfo) -> bool:
    """Return whether all files of a benchmark are there."""
    return all((root / info.folder / file).is_file() for file in info.files)


def command(
    as_json: AsJson = False,
) -> None:
    """List the benchmarks that commands know by name."""
    from h2gcn.datasets import DATASETS, data_root, known_checksums
    from h2gcn.io import cannot_read

    root = data_root()
    try:
        there = {name: _has(root, info) for name, info in DATASETS.items()}
    except OSError as error:
        raise cannot_read(root, error) from None
    syn_cora = sorted(path.stem for path in (root / "syn-cora").glob("h*.npz"))
    rows = []
    for name, info in DATASETS.items():
        known = [
            file not in info.rebuilt and f"{info.folder}/{file}" in known_checksums()
            for file in info.files
        ]
        rows.append(
            (name, there[name], all(known), info.metric, info.summary, info.note)
        )
    about = f"the authors' synthetic graphs; {len(syn_cora)} files here"
    rows.append(("syn-cora/hX.XX-rN", bool(syn_cora), True, "accuracy", about, ""))
    if as_json:
        keys = ("name", "available", "checksums_known", "metric", "about", "note")
        listed = [dict(zip(keys, row, strict=True)) for row in rows]
        tell_json({"root": str(root), "datasets": listed})
        return
    said = {True: "yes", False: "no"}
    shown = [
        (name, said[here], said[known], metric, f"{about}; {note}" if note else about)
        for name, here, known, metric, about, note in rows
    ]
    columns = ("name", "files", "checked", "score", "what")
    table(f"benchmarks under {root}", columns, shown, text=5)
    tell("Missing files are downloaded on first use; $H2GCN_DATA names the folder.")
    tell("Checked: the checksums of all files are known, and others are refused.")
