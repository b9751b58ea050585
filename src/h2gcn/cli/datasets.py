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
        told = (info.metric, info.summary, info.note, info.source, info.licence or None)
        rows.append((name, there[name], all(known), *told))
    about = f"the authors' synthetic graphs; {len(syn_cora)} files here"
    more = ("accuracy", about, "", rows[0][6], None)
    rows.append(("syn-cora/hX.XX-rN", bool(syn_cora), True, *more))
    if as_json:
        listed = [dict(zip(_KEYS, row, strict=True)) for row in rows]
        tell_json({"root": str(root), "datasets": listed})
        return
    said, score = {True: "yes", False: "no"}, {"accuracy": "acc", "roc_auc": "AUC"}
    tell(f"Benchmarks under {root}, by who published them")
    for source in dict.fromkeys(row[6] for row in rows):
        shown = [
            (
                name,
                said[here],
                said[known],
                score[metric],
                "; ".join(filter(None, what)),
            )
            for name, here, known, metric, *what, whose, _ in rows
            if whose == source
        ]
        table(source, ("name", "files", "sums", "score", "what"), shown, text=5)
    tell("Files: whether they are there; others are downloaded on first use.")
    tell("Sums: the checksums of all files are known, and other files are refused.")
    tell("Score: accuracy or ROC-AUC. $H2GCN_DATA names the folder.")


_KEYS = (
    *("name", "available", "checksums_known", "metric", "about", "note", "source"),
    "licence",
)
