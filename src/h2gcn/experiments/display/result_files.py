"""The files of results: written by an experiment, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from h2gcn.exceptions import InputError
from h2gcn.experiments.display.figures import draw, why_no_figures
from h2gcn.experiments.display.tables import csv_text, latex, markdown
from h2gcn.experiments.results import Result
from h2gcn.io import atomic_write, check_not_stdout, existing_file, usable_path

__all__ = [
    *("RUNS", "check_protocol", "make_folder", "read_result", "read_results"),
    "write_result",
]

RUNS = "runs.jsonl"
"""The store in the folder of results."""
ORDER = (
    *("table-1", "syn-cora", "syn-cora-own", "syn-products", "ablation", "degree"),
    *("real", "ranks", "statistics", "theory"),
)
"""The paper's; others come after, by name."""
_WRITERS = {".md": markdown, ".csv": csv_text, ".tex": latex}


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
    folder = make_folder(out / result.experiment)
    whole = json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False)
    texts = {"result.json": whole}
    for table in result.tables:
        for suffix, render in _WRITERS.items():
            texts[f"{table.name}{suffix}"] = render(result, table)
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
    try:
        text = existing_file(path).read_text(encoding="utf-8")
        # What has no value is shown as such, whoever wrote the file.
        content = json.loads(text, parse_constant=lambda _: None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}: not JSON ({error.msg}, {where})") from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError(f"{path}: not JSON (not text in UTF-8)") from None
    try:
        return Result.from_json(content)
    except InputError as error:
        raise InputError(f"{path}: not a result of h2gcn reproduce: {error}") from None


def _place(experiment: str) -> tuple[int, str]:
    known = ORDER.index(experiment) if experiment in ORDER else len(ORDER)
    return known, experiment
