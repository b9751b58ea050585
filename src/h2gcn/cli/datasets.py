"""`h2gcn datasets`: the benchmarks and where their files are."""

from __future__ import annotations

from dataclasses import replace
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


def _sums(info: DatasetInfo) -> str:
    """Return whether the checksums of all files are known: "yes", "copy" or "no"."""
    from h2gcn.datasets import known_checksums

    if any(f"{info.folder}/{file}" not in known_checksums() for file in info.files):
        return "no"
    return "copy" if info.rebuilt else "yes"


def _size(name: str) -> str:
    """Return how large a benchmark is, as far as that is published."""
    from h2gcn.datasets import SIZES

    if (size := SIZES.get(name)) is None:
        return ""
    told = f"{size.nodes:,} nodes, {size.edges:,} edges"
    return told if size.classes is None else f"{told}, {size.classes} classes"


def command(
    as_json: AsJson = False,
) -> None:
    """List the benchmarks that commands know by name."""
    from h2gcn.datasets import DATASETS, SIZES, data_root
    from h2gcn.io import cannot_read

    root = data_root()
    try:
        there = {name: _has(root, info) for name, info in DATASETS.items()}
    except OSError as error:
        raise cannot_read(root, error) from None
    syn_cora = sorted(path.stem for path in (root / "syn-cora").glob("h*.npz"))
    first = next(iter(DATASETS.values()))
    own = replace(
        first,
        summary=f"the authors' synthetic graphs; {len(syn_cora)} files here",
        note="",
    )
    listed = {**DATASETS, "syn-cora/hX.XX-rN": own}
    there["syn-cora/hX.XX-rN"] = bool(syn_cora)
    if as_json:
        rows = [
            {
                "name": name,
                "available": there[name],
                "checksums_known": _sums(info) == "yes",
                "tested_on": "its format" if _sums(info) == "no" else "its files",
                "metric": info.metric,
                "about": info.summary,
                "note": info.note,
                "source": info.source,
                "licence": info.licence or None,
                "published": SIZES[name]._asdict() if name in SIZES else None,
            }
            for name, info in listed.items()
        ]
        tell_json({"root": str(root), "datasets": rows})
        return
    tell(f"Benchmarks under {root}, by who published them")
    for source in dict.fromkeys(info.source for info in listed.values()):
        shown = [
            (
                name,
                "yes" if there[name] else "no",
                _sums(info),
                _SCORES[info.metric],
                "; ".join(filter(None, (info.summary, _size(name), info.note))),
            )
            for name, info in listed.items()
            if info.source == source
        ]
        table(source, ("name", "files", "sums", "score", "what"), shown, text=5)
    tell("Files: whether they are there; others are downloaded on first use.")
    tell("Sums: the checksums of all files are known, and other files are refused.")
    tell(
        "  copy: of one put together from another source; others are read with a note."
    )
    tell("  no: this program was tested on small files of that format, not on these;")
    tell("  they are refused if they have not as many nodes as are published.")
    tell("Score: accuracy, ROC-AUC or PR-AUC. $H2GCN_DATA names the folder.")


_SCORES = {"accuracy": "acc", "roc_auc": "AUC", "pr_auc": "PR"}
