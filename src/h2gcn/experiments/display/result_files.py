"""The files of results: written by an experiment, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from h2gcn.exceptions import InputError
from h2gcn.experiments.display.figures import draw, why_no_figures
from h2gcn.experiments.display.tables import csv_text, latex, markdown
from h2gcn.experiments.results import Result
from h2gcn.io import atomic_write, new_folder, parse_json, read_own, usable_path

__all__ = [
    *("RUNS", "check_protocol", "read_result", "read_results", "write_result"),
]

RUNS = "runs.jsonl"
"""The store in the folder of results."""
ORDER = (
    *("table-1", "syn-cora", "syn-cora-own", "syn-products", "ablation", "degree"),
    *("real", "ranks", "statistics", "theory"),
)
"""The paper's; others come after, by name."""
_WRITERS = {".md": markdown, ".csv": csv_text, ".tex": latex}


def check_protocol(out: Path, names: Iterable[str], protocol: str) -> None:
    """Refuse to put the results of one protocol in the place of another's."""
    for name in names:
        file = out / name / "result.json"
        if not file.is_file():
            continue
        found = read_result(file).protocol
        if found != protocol:
            raise InputError(
                f"{file}: holds results of the {found} protocol; give those of the "
                f"{protocol} protocol a folder of their own, by out=…"
            )


def write_result(out: Path, result: Result) -> list[Path]:
    """Write a result to the folder of its experiment; return the files.

    Without matplotlib there are no figures among them.

    Parameters
    ----------
    out
        The folder of all results.
    result
        As `h2gcn.experiments.reproduce` returns it.
    """
    whole = json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False)
    texts = {"result.json": whole}
    for table in result.tables:
        for suffix, render in _WRITERS.items():
            texts[f"{table.name}{suffix}"] = render(result, table)
    with new_folder(out / result.experiment) as folder:
        for name, text in texts.items():
            with atomic_write(folder / name) as beside:
                beside.write_text(text, encoding="utf-8")
    written = [folder / name for name in texts]
    for figure in () if why_no_figures() else result.figures:
        written += draw(figure, folder / figure.name)
    return written


def read_results(folder: str | Path) -> list[Result]:
    """Return the results in a folder, in the paper's order.

    Parameters
    ----------
    folder
        What `h2gcn reproduce` wrote to: a folder for each experiment, a `result.json`
        in each.
    """
    root = usable_path(folder)
    if not root.exists():
        raise InputError(
            f"{folder}: there is no such folder; h2gcn reproduce makes one"
        )
    if not root.is_dir():
        raise InputError(f"{folder}: not a folder; results are in a folder")
    try:
        files = sorted(root.glob("*/result.json"))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    if not files:
        raise InputError(
            f"{folder}: no results here (EXPERIMENT/result.json); h2gcn reproduce "
            "makes them"
        )
    results = [read_result(file) for file in files]
    return sorted(results, key=lambda result: _place(result.experiment))


def read_result(path: str | Path) -> Result:
    """Return the result in a file; NaN and infinities are None."""
    # What has no value is shown as such, whoever wrote the file.
    content = parse_json(read_own(Path(path)), path, constants=lambda _: None)
    return Result.from_json(content, f"{path}: not a result of h2gcn reproduce")


def _place(experiment: str) -> tuple[int, str]:
    known = ORDER.index(experiment) if experiment in ORDER else len(ORDER)
    return known, experiment
