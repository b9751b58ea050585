"""Write docs/frontier.md from results/frontier/runs.jsonl alone.

Nothing is run, and no benchmark file is needed.

    python paper/frontier_page.py
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from h2gcn.experiments import (
    RUNS,
    Cell,
    Result,
    Table,
    check_splits,
    frontier_result,
    markdown_grid,
    read_records,
)

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("frontier_page.md")
PUBLISHED = Path(__file__).with_name("frontier_published.json")
SPLITS = 10
NOT_RUN = "not run"
PER_SPLIT = "best member, per split"


def read_splits(folder: Path) -> list[dict[str, Any]]:
    """Return the records in a folder of results, none where there is no store."""
    path = folder / "frontier" / RUNS
    if not path.is_file():
        return []
    records = read_records(path)
    check_splits(path, records)
    return records


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/frontier.md."""
    result = frontier_result(records)
    tables = {table.name: table for table in result.tables}
    goals = json.loads(PUBLISHED.read_text("utf-8"))
    parts = {
        "done": done_line(tables["frontier"], result, records),
        "wanted": wanted_table(tables["frontier"], goals["benchmarks"]),
        "published": published_table(tables["frontier"], goals["benchmarks"]),
        "sources": "\n".join(f"- {source}" for source in goals["sources"]),
        "chosen": chosen_table(tables["frontier"]),
        "calibration": calibration_list(tables["probabilities"], goals),
        "behind member": f"{goals['behind_member']:g}",
        "behind mlp": f"{goals['behind_mlp']:g}",
    }
    for name, table in tables.items():
        parts[f"table {name}"] = markdown_grid(table) if table.rows else "Not run."
    return re.sub(
        r"\{\{(.+?)\}\}", lambda found: parts[found[1]], TEMPLATE.read_text("utf-8")
    )


def done_line(
    table: Table, result: Result, records: Sequence[Mapping[str, Any]]
) -> str:
    """Return in a sentence how much is run, and by which version."""
    counts = [row["splits"].mean or 0 for row in _rows(table).values()]
    total, done = SPLITS * len(counts), int(sum(counts))
    if not done:
        return f"**Not run**: none of the {total} splits is in the store."
    versions = ", ".join(sorted({record["version"] for record in records}))
    failed = f"; {len(result.failed)} failed" if result.failed else ""
    return (
        f"In the store now: {done} of {total} splits, of version {versions} of this "
        f"package{failed}."
    )


def wanted_table(table: Table, goals: Mapping[str, Any]) -> str:
    """Return what was wanted of `auto` beside what it reached."""
    heads = (
        *("benchmark", "splits", "auto", "wanted", "reached", "honest band"),
        *("less one member", "less mlp"),
    )
    lines = []
    for name, row in _rows(table).items():
        goal, auto = goals[name], row["auto"]
        low, high = goal["band"]
        lines.append(
            (
                *(name, _number(row["splits"].mean, 0), _pair(auto)),
                f"{goal['wanted']:.1f}",
                _reached(auto, goal["wanted"]),
                f"{low:.1f} to {high:.1f}",
                *(_less(auto, row[other]) for other in (PER_SPLIT, "mlp")),
            )
        )
    return _grid(heads, lines)


def published_table(table: Table, goals: Mapping[str, Any]) -> str:
    """Return the best that is published, and how it was chosen."""
    heads = ("benchmark", "auto", "published", "model", "how its setting was chosen")
    lines = [
        (
            *(name, _pair(row["auto"]), f"{goals[name]['best']:.1f}"),
            *(goals[name]["model"] or "–", goals[name]["chosen"]),
        )
        for name, row in _rows(table).items()
    ]
    return _grid(heads, lines, words=2)


def chosen_table(table: Table) -> str:
    """Return which member it is that is best over all splits."""
    columns = [column for column in table.columns if column.startswith("best member, ")]
    columns.remove(PER_SPLIT)
    heads = ("benchmark", *(column.partition(", ")[2] for column in columns))
    lines = [
        (name, *(row[column].note or NOT_RUN for column in columns))
        for name, row in _rows(table).items()
    ]
    return _grid(heads, lines, words=len(columns))


def calibration_list(table: Table, goals: Mapping[str, Any]) -> str:
    """Return what was wanted of probabilities and time, and whether it is so."""
    rows = _rows(table)
    error, sets, time = goals["calibration_error"], goals["coverage"], goals["seconds"]
    lines = []
    for name in error["benchmarks"]:
        cell = rows[name]["calibration error"]
        kept = cell.mean is not None and _rounded(cell.mean) <= error["most"]
        asked = f"at most {error['most']:g}"
        told = _told(cell, kept, asked)
        chance = rows[name]["of it by chance"].mean
        if chance is not None:
            told += f" Perfect probabilities would have {chance:.3f} by chance."
        lines.append(f"- {name}, calibration error: {told}")
    for name in sets["benchmarks"]:
        cell = rows[name]["coverage of 90 % sets"]
        mean = _rounded(cell.mean or 0.0)
        kept = sets["least"] <= mean <= sets["most"]
        asked = f"{sets['least']:g} to {sets['most']:g}"
        lines.append(f"- {name}, coverage: {_told(cell, kept, asked)}")
    for name in time["benchmarks"]:
        cell = rows[name]["seconds"]
        kept = cell.mean is not None and cell.mean <= time["most"]
        asked = f"at most {time['most']:g}"
        lines.append(f"- {name}, seconds: {_told(cell, kept, asked, decimals=0)}")
    return "\n".join(lines)


def _rounded(value: float) -> float:
    """Return a figure without its last bits, which depend on how it was summed."""
    return round(value, 9)


def _told(cell: Cell, kept: bool, asked: str, decimals: int = 3) -> str:
    if cell.mean is None:
        return f"{NOT_RUN}; wanted: {asked}."
    verdict = "reached" if kept else "**missed**"
    if cell.n < SPLITS:
        verdict = f"{cell.n} of {SPLITS} splits"
    return f"{cell.mean:.{decimals}f}; wanted: {asked}; {verdict}."


def _rows(table: Table) -> dict[str, dict[str, Cell]]:
    return {row.name: table.row(row.name) for row in table.rows}


def _reached(cell: Cell, wanted: float) -> str:
    if cell.mean is None:
        return NOT_RUN
    if cell.n < SPLITS:
        return f"{cell.n} of {SPLITS} splits"
    short = wanted - cell.mean
    return "yes" if _rounded(short) <= 0 else f"**no**, by {short:.1f}"


def _less(one: Cell, other: Cell) -> str:
    """Return the mean difference, over the splits that both have."""
    theirs = dict(zip(other.runs, other.values, strict=True))
    both = [
        value - theirs[run]
        for run, value in zip(one.runs, one.values, strict=True)
        if run in theirs
    ]
    if not both:
        return NOT_RUN if one.mean is None else "–"
    return f"{sum(both) / len(both):+z.1f}".replace("-", "−")


def _pair(cell: Cell) -> str:
    if cell.mean is None:
        return NOT_RUN
    told = f"{cell.mean:.1f}"
    return told if cell.std is None else f"{told} ± {cell.std:.1f}"


def _number(value: float | None, decimals: int) -> str:
    return NOT_RUN if value is None else f"{value:.{decimals}f}"


def _grid(heads: Sequence[str], lines: Iterable[Sequence[str]], words: int = 0) -> str:
    """Return a table in Markdown; the last so many columns are words."""
    figures = len(heads) - 1 - words
    rule = [":--", *["--:"] * figures, *[":--"] * words]
    shown = (f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
    return "\n".join(shown)


def main() -> None:
    """Write it."""
    records = read_splits(ROOT / "results")
    (ROOT / "docs" / "frontier.md").write_text(page(records), "utf-8")
    print(f"docs/frontier.md: {len(records)} splits")


if __name__ == "__main__":
    main()
