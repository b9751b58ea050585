"""The files of results, written and read again, and all of them as one HTML page.

The page needs nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from h2gcn import __version__
from h2gcn.diagnosis import STEPS, find_template, heat_palette, number
from h2gcn.exceptions import InputError
from h2gcn.experiments import tables as words
from h2gcn.experiments.figures import describe, draw, svg_text, why_no_figures
from h2gcn.experiments.results import Cell, Figure, Result, Table
from h2gcn.experiments.tables import cell_notes, csv_text, latex, markdown, reading
from h2gcn.io import (
    atomic_write,
    cannot_read,
    new_folder,
    parse_json,
    read_own,
    usable_path,
)

__all__ = [
    "RUNS",
    "check_protocol",
    "count_cells",
    "is_results_page",
    "read_result",
    "read_results",
    "render_html",
    "summary_line",
    "write_result",
]

RUNS = "runs.jsonl"
"""The store in the folder of results."""
GENERATOR = b'<meta name="generator" content="h2gcn reproduce">'
"""In the head of the page of results."""
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
                f"holds results of the {found} protocol; give those of the {protocol} "
                "protocol a folder of their own, by out=…",
                where=str(file),
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
            "there is no such folder; h2gcn reproduce makes one", where=str(folder)
        )
    if not root.is_dir():
        raise InputError("not a folder; results are in a folder", where=str(folder))
    try:
        files = sorted(root.glob("*/result.json"))
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(folder)
        ) from None
    if not files:
        raise InputError(
            "no results here (EXPERIMENT/result.json); h2gcn reproduce makes them",
            where=str(folder),
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


def render_html(results: Sequence[Result]) -> str:
    """Return results as a self-contained HTML page.

    All names are escaped, and the page's policy lets no script run but its own.

    Parameters
    ----------
    results
        What experiments left.
    """
    script, cards = _script(), card_views(results)
    return find_template("report.html", "h2gcn.experiments").render(
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=__version__,
        palette=heat_palette(),
        kinds=_kinds(results),
        by_experiment=counts_by_experiment(results),
        by_model=counts_by_model(results),
        headline=_headline(results),
        places={result.experiment: i for i, result in enumerate(results)},
        experiments=[_experiment(result) for result in results],
        facts=list(FACTS.values()),
        cards=cards,
        matrices=[card for card in cards if card.matrix],
        environment=environment_columns(results),
        results=results,
    )


def is_results_page(file: Path) -> bool:
    """Return whether a file is a page that `render_html` made."""
    try:
        with file.open("rb") as stream:
            return GENERATOR in stream.read(4096)
    except OSError as error:
        raise cannot_read(file, error) from None


def count_cells(results: Sequence[Result]) -> dict[str, int]:
    """Return how many cells count as what, by "better", "within", "worse" and so on."""
    total = _total(results)
    return {kind: total[kind] for kind in KINDS if total[kind]}


def summary_line(results: Sequence[Result]) -> str:
    """Return in one line how many cells count as what."""
    told = [f"{n:,} {KINDS[kind]}" for kind, n in count_cells(results).items()]
    return f"{_count(len(results), 'experiment')}; cells: {', '.join(told) or 'none'}"


def _headline(results: Sequence[Result]) -> list[str]:
    """Return what came out, a sentence each."""
    total, models = _total(results), counts_of_models(results)
    judged = models["better"] + models["within"] + models["worse"]
    others = total["within"] - models["within"] + total["differs"]
    experiments = _count(len(results), "experiment")
    said = [f"{experiments}; no figure of a model beside the paper's."]
    if judged:
        said = [
            f"{experiments}, {_count(judged, 'figure')} of models beside the paper's: "
            f"{models['within']:,} within one standard deviation or equal, "
            f"{models['better']:,} better, {models['worse']:,} worse."
        ]
    if others:
        said.append(
            f"{_count(others, 'figure')} of graphs and theorems beside the paper's: "
            f"{others - total['differs']:,} in agreement, {total['differs']:,} not."
        )
    failed = sum(len(result.failed) for result in results)
    if total["not run"]:
        said.append(f"{_count(total['not run'], 'cell')} of the tables not run.")
    if failed:
        said.append(f"{_count(failed, 'run')} failed.")
    protocols = sorted({r.protocol or "not known" for r in results})
    said.append(f"Protocol: {', '.join(protocols)}.")
    return said


def _total(results: Sequence[Result]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts_by_experiment(results):
        total.update(count.counts)
    return total


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def _experiment(result: Result) -> dict[str, Any]:
    return {
        "name": result.experiment,
        "title": result.title or result.experiment,
        "protocol": result.protocol or "not known",
        "notes": result.notes,
        "tables": [table_view(table) for table in result.tables],
        "figures": [figure_view(figure) for figure in result.figures],
        "not_run": result.not_run,
        "failed": result.failed,
    }


def _kinds(results: Sequence[Result]) -> dict[str, str]:
    """Return the kinds of cells to show; rare ones only where there are any."""
    found = _total(results).keys()
    always = {"better", "within", "worse", "not run"}
    return {k: name for k, name in KINDS.items() if k in found | always}


def _script() -> str:
    text = files("h2gcn.experiments").joinpath("templates/report.js").read_text("utf-8")
    return text.replace("\r\n", "\n")


FACTS = {
    "nodes": "nodes",
    "edges": "edges",
    "features": "features",
    "classes": "classes",
    "mean_degree": "mean degree",
    "max_degree": "highest degree",
    "h": "h",
    "adjusted_homophily": "adjusted homophily",
    "label_informativeness": "label informativeness",
    "splits": "splits",
    "checksum": "checksum",
}
"""What is shown of a card, and its heading."""


@dataclass(frozen=True)
class CardView:
    """A graph's card: facts as value and text, and its compatibility matrix."""

    name: str
    facts: tuple[tuple[float | None, str], ...]
    classes: tuple[str, ...]
    matrix: tuple[tuple[tuple[str, int | None], ...], ...]
    top: float

    @property
    def upright(self) -> bool:
        """Whether the matrix's column heads must be turned to fit."""
        return max(map(len, self.classes)) > 6 or len(self.classes) > 12


def card_views(results: Sequence[Result]) -> list[CardView]:
    """Return the cards of all graphs, each once."""
    cards: dict[tuple[str, Any], Mapping[str, Any]] = {}
    for result in results:
        for name, card in result.cards.items():
            key = (name, card.get("checksum"))
            # The same graph may come with its matrix in one result only.
            if key not in cards or not cards[key].get("compatibility"):
                cards[key] = card
    return [_card(name, card) for (name, _), card in cards.items()]


def _card(name: str, card: Mapping[str, Any]) -> CardView:
    matrix = card.get("compatibility") or []
    shares = [share or 0.0 for row in matrix for share in row]
    top = next(t for t in (0.1, 0.2, 0.5, 1.0) if t >= min(max(shares, default=1), 1))
    given = card.get("class_names") or []
    named = given if len(given) == len(matrix) else range(len(matrix))
    return CardView(
        name=name,
        facts=tuple(_fact(card.get(fact)) for fact in FACTS),
        classes=tuple(map(str, named)),
        matrix=tuple(
            tuple(
                (_text(share), None if share is None else _step(share, top))
                for share in row
            )
            for row in matrix
        ),
        top=top,
    )


def _step(share: float, top: float) -> int:
    return round(STEPS * min(max(share / top, 0.0), 1.0))


def _fact(value: object) -> tuple[float | None, str]:
    if isinstance(value, (int, float)):
        return value, _text(value)
    return None, words.NONE if value is None else str(value)


def _text(value: float | None) -> str:
    return words.number(value) if isinstance(value, int) else number(value, 2)


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
class FigureView:
    """A figure: its heading, what it shows in words, and the drawing or why not."""

    title: str
    words: str
    source: str
    why_not: str


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


def table_view(table: Table) -> TableView:
    """Return a table for the page."""
    return TableView(
        title=table.title,
        corner=table.corner,
        columns=tuple(map(str, table.columns)),
        rows=tuple(
            (
                row.name,
                tuple(
                    _cell(cell, table, f"{row.name}, {column}")
                    for column, cell in zip(table.columns, row.cells, strict=True)
                ),
            )
            for row in table.rows
        ),
        reading=tuple(reading(table)),
        notes=tuple(cell_notes(table)),
        compared=any(line.beneath for line in words.lines(table)),
    )


def figure_view(figure: Figure) -> FigureView:
    """Return a figure for the page, the drawing as the address of an image.

    An image is a document of its own: names in it clash with none of another figure,
    and nothing in it runs.
    """
    why_not = why_no_figures()
    source = ""
    if not any(mean is not None for one in figure.series for mean in one.mean):
        why_not = "Not run."
    elif not why_not:
        packed = base64.b64encode(svg_text(figure).encode()).decode()
        source = f"data:image/svg+xml;base64,{packed}"
    return FigureView(figure.title, describe(figure), source, why_not)


def _cell(cell: Cell, table: Table, place: str) -> CellView:
    paper, verdict = words.papers(cell, table), words.verdict(cell, table)
    return CellView(
        ours=words.ours(cell, table),
        paper="" if paper == words.NONE else paper,
        verdict="" if verdict == words.NONE else verdict,
        kind=words.category(cell, table),
        value=cell.mean,
        best=cell.best,
        tip=_tip(cell, table.decimals, place),
    )


def _tip(cell: Cell, decimals: int, place: str) -> str:
    """Return the single runs of a cell and its note, "" if there is neither."""
    runs = [words.number(value, decimals) for value in cell.values]
    if len(cell.runs) == len(runs):
        runs = [f"{name}: {run}" for name, run in zip(cell.runs, runs, strict=True)]
    told = runs if len(runs) > 1 else []
    if cell.note:
        told = [*told, cell.note]
    return "\n".join([place, *told]) if told else ""


def counts_by_experiment(results: Sequence[Result]) -> list[Count]:
    """Return how the cells of each experiment count, and of all together."""
    counts = [
        Count(
            result.experiment,
            Counter(
                words.category(cell, table)
                for table in result.tables
                for cell in table.cells
            ),
        )
        for result in results
    ]
    return [count for count in counts if count.counts]


def counts_of_models(results: Sequence[Result]) -> Counter[str]:
    """Return how all cells of models count, without those of graphs and theorems."""
    return Counter(
        words.category(cell, table)
        for result in results
        for table in result.tables
        if words.of_models(table)
        for cell in table.cells
    )


def counts_by_model(results: Sequence[Result]) -> list[Count]:
    """Return how the cells of each model count, where the paper has figures for it."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        for table in result.tables:
            if table.corner != "model":
                continue
            for row in table.rows:
                kinds = (words.category(cell, table) for cell in row.cells)
                counts.setdefault(row.name, Counter()).update(kinds)
    return [
        Count(name, found)
        for name, found in counts.items()
        if found.keys() - {"none", "not run"}
    ]


def environment_columns(results: Sequence[Result]) -> list[str]:
    """Return all that results tell of what they were made with."""
    return list(dict.fromkeys(name for r in results for name in r.environment))
