"""The files that an experiment leaves: its result, its tables, its figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from h2gcn.exceptions import InputError
from h2gcn.experiments.display import tables
from h2gcn.experiments.display.result_files import read_result
from h2gcn.io import atomic_write, check_not_stdout

__all__ = ["RUNS", "check_protocol", "make_folder", "write_result"]

RUNS = "runs.jsonl"
"""The store in the folder of results."""
_WRITERS = {".md": tables.markdown, ".csv": tables.csv_text, ".tex": tables.latex}


def make_folder(path: Path) -> Path:
    """Return a folder that can be written to, made if it was not there."""
    check_not_stdout(path, "results need a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be made a folder ({error.strerror})"
        ) from None
    return path


def check_protocol(out: Path, names: Iterable[str], protocol: str) -> None:
    """Refuse to put the results of one protocol in the place of another's."""
    for name in names:
        file = out / name / "result.json"
        if not file.is_file():
            continue
        found = read_result(file).get("protocol")
        if found != protocol:
            raise InputError(
                f"{file}: holds results of the {found} protocol; give those of the "
                f"{protocol} protocol a folder of their own, --out DIR"
            )


def write_result(out: Path, result: Mapping[str, Any]) -> list[Path]:
    """Write a result to the folder of its experiment; return the files.

    Parameters
    ----------
    out
        The folder of all results.
    result
        As `h2gcn.experiments.driver.reproducing.reproduce` returns it.
    """
    from h2gcn.experiments.display.figures import draw

    folder = make_folder(out / result["experiment"])
    texts = {"result.json": json.dumps(result, ensure_ascii=False, allow_nan=False)}
    for table in result["tables"]:
        for suffix, render in _WRITERS.items():
            texts[f"{table['name']}{suffix}"] = render(result, table)
    for name, text in texts.items():
        with atomic_write(folder / name) as beside:
            beside.write_text(text, encoding="utf-8")
    written = [folder / name for name in texts]
    for figure in result["figures"]:
        written += draw(figure, folder / figure["name"])
    return written
