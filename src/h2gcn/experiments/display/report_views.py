"""What the report shows of results, ready for its template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from h2gcn.experiments.display import table_words as words
from h2gcn.experiments.display.table_about import cell_notes, reading

__all__ = [
    "KINDS",
    "CellView",
    "Count",
    "TableView",
    "counts_by_experiment",
    "counts_by_model",
    "counts_of_models",
    "environment_columns",
    "table_view",
]

KINDS = {
    "better": "better",
    "within": "within 1 sd",
    "worse": "worse",
    "differs": "differs",
    "none": "not judged",
    "not run": "not run",
}
"""How a cell counts, and what the page calls it."""


@dataclass(frozen=True)
class CellView:
    """A cell: its lines, its value for sorting, and what it tells when asked."""

    ours: str
    paper: str
    verdict: str
    kind: str
    value: float | None
    best: bool
    tip: str


@dataclass(frozen=True)
class TableView:
    """A table, with rows of a name and its cells."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellView, ...]], ...]
    reading: tuple[str, ...]
    notes: tuple[str, ...]
    compared: bool


@dataclass(frozen=True)
class Count:
    """How many cells count as what; the bar shows the shares of those judged."""

    name: str
    counts: Mapping[str, int]

    @property
    def shares(self) -> list[tuple[str, float, float]]:
        """Kind, start and length of each part of the bar, of 100."""
        judged = ("better", "within", "worse", "differs")
        total = sum(self.counts.get(kind, 0) for kind in judged)
        parts, start = [], 0.0
        for kind in judged:
            length = 100 * self.counts.get(kind, 0) / total if total else 0.0
            if length:
                parts.append((kind, round(start, 2), round(length, 2)))
            start += length
        return parts


def table_view(table: Mapping[str, Any]) -> TableView:
    """Return a table for the page."""
    return TableView(
        title=str(table["title"]),
        corner=str(table.get("corner", "model")),
        columns=tuple(map(str, table["columns"])),
        rows=tuple(
            (
                str(row["name"]),
                tuple(
                    _cell(cell, table, f"{row['name']}, {column}")
                    for column, cell in zip(table["columns"], row["cells"], strict=True)
                ),
            )
            for row in table["rows"]
        ),
        reading=tuple(reading(table)),
        notes=tuple(cell_notes(table)),
        compared=any(line.beneath for line in words.lines(table)),
    )


def _cell(cell: Mapping[str, Any], table: Mapping[str, Any], place: str) -> CellView:
    paper, verdict = words.papers(cell, table), words.verdict(cell, table)
    return CellView(
        ours=words.ours(cell, table),
        paper="" if paper == words.NONE else paper,
        verdict="" if verdict == words.NONE else verdict,
        kind=words.category(cell, table),
        value=cell.get("mean"),
        best=bool(cell.get("best")),
        tip=_tip(cell, int(table.get("decimals", 2)), place),
    )


def _tip(cell: Mapping[str, Any], decimals: int, place: str) -> str:
    """Return the single runs of a cell and its note, "" if there is neither."""
    values = cell.get("values") or ()
    names = cell.get("runs") or ()
    runs = [words.number(value, decimals) for value in values]
    if len(names) == len(runs):
        runs = [f"{name}: {run}" for name, run in zip(names, runs, strict=True)]
    told = runs if len(runs) > 1 else []
    if cell.get("note"):
        told = [*told, str(cell["note"])]
    return "\n".join([place, *told]) if told else ""


def counts_by_experiment(results: Sequence[Mapping[str, Any]]) -> list[Count]:
    """Return how the cells of each experiment count, and of all together."""
    counts = [
        Count(
            result["experiment"],
            Counter(
                words.category(cell, table)
                for table in result.get("tables") or ()
                for row in table["rows"]
                for cell in row["cells"]
            ),
        )
        for result in results
    ]
    return [count for count in counts if count.counts]


def counts_of_models(results: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Return how all cells of models count, without those of graphs and theorems."""
    return Counter(
        words.category(cell, table)
        for result in results
        for table in result.get("tables") or ()
        if words.of_models(table)
        for row in table["rows"]
        for cell in row["cells"]
    )


def counts_by_model(results: Sequence[Mapping[str, Any]]) -> list[Count]:
    """Return how the cells of each model count, where the paper has figures for it."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        for table in result.get("tables") or ():
            if table.get("corner", "model") != "model":
                continue
            for row in table["rows"]:
                kinds = (words.category(cell, table) for cell in row["cells"])
                counts.setdefault(str(row["name"]), Counter()).update(kinds)
    return [
        Count(name, found)
        for name, found in counts.items()
        if found.keys() - {"none", "not run"}
    ]


def environment_columns(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all that results tell of what they were made with."""
    return list(
        dict.fromkeys(name for r in results for name in r.get("environment") or {})
    )
