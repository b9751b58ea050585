"""Finding and checking the results that experiments left in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from h2gcn.exceptions import InputError

__all__ = ["check_result", "read_result", "read_results"]

ORDER = (
    *("table-1", "syn-cora", "syn-cora-own", "syn-products", "ablation", "degree"),
    *("real", "ranks", "statistics", "theory"),
)
"""The paper's; others come after, by name."""
_NONE = type(None)
_NUMBER = (int, float, _NONE)


def read_results(folder: str | Path) -> list[dict[str, Any]]:
    """Return the results in a folder, in the paper's order.

    Parameters
    ----------
    folder
        What `h2gcn reproduce --out` named: a folder for each experiment, a
        `result.json` in each.
    """
    root = Path(folder).expanduser()
    if not root.exists():
        raise InputError(
            f"{folder}: there is no such folder; h2gcn reproduce NAME --out {folder} "
            "makes it"
        )
    if not root.is_dir():
        raise InputError(f"{folder}: not a folder; results are in a folder")
    try:
        files = sorted(root.glob("*/result.json"))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    if not files:
        raise InputError(
            f"{folder}: no results here (EXPERIMENT/result.json); h2gcn reproduce NAME "
            f"--out {folder} makes them"
        )
    results = [read_result(file) for file in files]
    return sorted(results, key=lambda result: _place(result["experiment"]))


def read_result(path: str | Path) -> dict[str, Any]:
    """Return the result in a file, checked; NaN and infinities are None."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        # What has no value is shown as such, whoever wrote the file.
        result = json.loads(text, parse_constant=lambda _: None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}: not JSON ({error.msg}, {where})") from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError(f"{path}: not JSON (not text in UTF-8)") from None
    check_result(result, str(path))
    checked: dict[str, Any] = result
    return checked


def check_result(result: object, where: str) -> None:
    """Raise InputError if a result has not the form that tables and figures take."""
    for problem in _problems(result):
        raise InputError(f"{where}: not a result of h2gcn reproduce: {problem}")


def _problems(result: object) -> Iterator[str]:
    if not isinstance(result, dict):
        yield "not an object"
        return
    yield from _kinds(result, "", experiment=str)
    yield from _kinds(result, "", optional=True, notes=list, not_run=list, failed=list)
    yield from _kinds(result, "", optional=True, environment=dict, cards=dict)
    yield from _kinds(result, "", optional=True, tables=list, figures=list)
    for name, card in (result.get("cards") or {}).items():
        yield from _card(card, f"card {name!r}: ")
    for failed in result.get("failed") or ():
        if not isinstance(failed, dict):
            yield "an entry of 'failed' must be an object"
    for i, table in enumerate(result.get("tables") or ()):
        yield from _table(table, f"table {i}: ")
    for i, figure in enumerate(result.get("figures") or ()):
        yield from _figure(figure, f"figure {i}: ")


def _table(table: object, where: str) -> Iterator[str]:
    yield from _kinds(table, where, name=str, title=str, columns=list, rows=list)
    yield from _kinds(table, where, optional=True, decimals=int, unit=str, corner=str)
    yield from _kinds(table, where, optional=True, notes=list)
    for row in table["rows"]:  # type: ignore[index]
        yield from _kinds(row, f"{where}a row: ", name=str, cells=list)
        n = len(table["columns"])  # type: ignore[index]
        if len(row["cells"]) != n:
            yield f"{where}row {row['name']!r} has {len(row['cells'])} cells, not {n}"
        for cell in row["cells"]:
            at = f"{where}row {row['name']!r}: "
            yield from _kinds(cell, at, optional=True, verdict=str, note=str)
            yield from _kinds(cell, at, mean=_NUMBER)
            yield from _kinds(cell, at, optional=True, std=_NUMBER, n=_NUMBER)
            yield from _kinds(cell, at, optional=True, difference=_NUMBER, paper=dict)
            yield from _kinds(cell, at, optional=True, values=list, runs=list)
            yield from _kinds(cell, at, optional=True, overlap=_NUMBER)
            yield from _kinds(cell, at, optional=True, against=str, interval=list)
            if cell.get("interval") is not None and len(cell["interval"]) != 2:
                yield f"{at}'interval' must be two numbers"
            if cell.get("paper") is not None:
                yield from _kinds(cell["paper"], at, mean=_NUMBER)
                yield from _kinds(cell["paper"], at, optional=True, std=_NUMBER)


def _figure(figure: object, where: str) -> Iterator[str]:
    yield from _kinds(figure, where, name=str, title=str, series=list)
    yield from _kinds(figure, where, optional=True, x_ticks=list)
    for series in figure["series"]:  # type: ignore[index]
        yield from _kinds(series, f"{where}a series: ", name=str, x=list, mean=list)
        at = f"{where}series {series['name']!r}: "
        yield from _kinds(series, at, optional=True, std=list, paper=list, runs=list)
        lists = [series.get(name) for name in ("mean", "std", "paper", "runs")]
        if any(v is not None and len(v) != len(series["x"]) for v in lists):
            yield f"{at}not as many values as 'x' has"
        for values in lists[:3]:
            if not all(isinstance(value, _NUMBER) for value in values or ()):
                yield f"{at}values must be numbers"


def _card(card: object, where: str) -> Iterator[str]:
    yield from _kinds(card, where, optional=True, compatibility=list, class_names=list)
    matrix: Sequence[object] = card.get("compatibility") or ()  # type: ignore[attr-defined]
    if not all(isinstance(row, list) and len(row) == len(matrix) for row in matrix):
        yield f"{where}'compatibility' must be a square matrix"


def _kinds(
    thing: object,
    where: str,
    *,
    optional: bool = False,
    **kinds: type | tuple[type, ...],
) -> Iterator[str]:
    if not isinstance(thing, Mapping):
        yield f"{where or 'it '}must be an object".replace(": must", " must")
        return
    for name, kind in kinds.items():
        if name not in thing and not optional:
            yield f"{where}{name!r} is missing"
        elif optional and thing.get(name) is None:
            continue
        elif not isinstance(thing.get(name), kind):
            yield f"{where}{name!r} is of the wrong kind"


def _place(experiment: str) -> tuple[int, str]:
    known = ORDER.index(experiment) if experiment in ORDER else len(ORDER)
    return known, experiment
