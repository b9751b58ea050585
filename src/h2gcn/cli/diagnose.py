"""`h2gcn diagnose`: what kind of graph this is, before anything is trained.

On a terminal it is readable at 80 columns, and in a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from h2gcn import diagnosis as words
from h2gcn.cli import options as src
from h2gcn.cli.console import fitting_status, say, shown, tell_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from h2gcn.diagnosis import ClassShare, Diagnosis

__all__ = ["command", "show"]

MAX_MATRIX = 12
"""Up to this many classes the compatibility matrix is printed."""
ROOMY = 8
"""Up to this many classes the matrix has wide gaps."""
MAX_CLASSES = 20
"""How many classes are listed; the JSON and the page have them all."""
EXTREMES = 3
"""How many of the most and least alike classes stand in for a larger matrix."""
_MARKS = {"error": "✗", "warning": "!", "note": "·"}
_STYLES = {"error": "bold red", "warning": "yellow", "note": ""}
_Justify = Literal["left", "right"]


@src.with_tables
def command(
    source: src.Source = None,
    as_json: src.AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page to this .html file."),
    ] = None,
    no_fit: Annotated[
        bool,
        typer.Option("--no-fit", help="Measure only: no quick fit of cheap models."),
    ] = False,
    force: src.Force = False,
    tables: src.Tables = src.Tables(),
) -> None:
    """Say what kind of graph SOURCE is, and what to do with it.

    Measures how alike neighbours are and what their labels tell, by class,
    degree, distance and direction; fits cheap models for some seconds, on
    nodes held out from those; and looks for what could mislead: twins
    across a split, classes too small, isolated nodes. Without labels only
    the structure can be told.
    """
    from h2gcn.io import atomic_write

    src.check_page(html, force=force)
    options = tables.options()
    graph = src.load_source(source, tables, options)
    quick = None
    if not no_fit and graph.labelled.size:
        from h2gcn.estimator import quick_fit

        with fitting_status() as tell:
            quick = quick_fit(src.past_of(graph, options), on_member=tell)
    diagnosis = _in_options(words.diagnose(graph, quick=quick))
    if html is not None:
        page = words.render_html(diagnosis)
        with atomic_write(html, force=force) as beside:
            beside.write_text(page, encoding="utf-8")
        say(f"wrote {html}")
    if as_json:
        tell_json(diagnosis.to_json())
    else:
        show(diagnosis)


def _in_options(diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis that names options of the command line, not parameters."""
    audit, verdict = diagnosis.audit, diagnosis.verdict
    large = next((one for one in audit.findings if one.kind == words.LARGE_RINGS), None)
    if large is None:
        return diagnosis
    # The last one: before it there are names of the user's.
    before, named, after = large.message.rpartition("ring_cap=")
    said = f"{before}{'--ring-cap ' if named else ''}{after}"
    findings = (
        replace(one, message=said) if one is large else one for one in audit.findings
    )
    cautions = (text.replace(large.message, said) for text in verdict.cautions)
    return replace(
        diagnosis,
        audit=replace(audit, findings=tuple(findings)),
        verdict=replace(verdict, cautions=tuple(cautions)),
    )


def show(diagnosis: Diagnosis) -> None:
    """Print a diagnosis to stdout."""
    from rich.console import Console

    # Names come from the user's data: never to be read as markup or emoji codes.
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(_text(f"Diagnosis of {diagnosis.name}", "bold"))
    _verdict(console, diagnosis)
    _quick(console, diagnosis)
    _heading(console, "Card")
    _list(console, words.card_facts(diagnosis))
    _heading(console, "How alike neighbours are")
    _table(
        console, ("measure", "value", "meaning"), words.measure_rows(diagnosis), "lrl"
    )
    if diagnosis.compatibility is not None:
        _matrix(console, diagnosis)
        _heading(console, "By distance")
        heads = ("hops", "pairs", "labelled", "alike", "by chance", "adjusted", "tells")
        _noted(console, heads, words.ring_rows(diagnosis), "rrrrrrr")
        if diagnosis.directions:
            _heading(console, "By direction (walks that follow edges out or in)")
            rows = [(row[0], *row[2:]) for row in words.direction_rows(diagnosis)]
            names = ("path", "walks", "alike", "by chance", "tells")
            _noted(console, names, rows, "lrrrr")
        console.print(_text("tells: how much a label there says about a node's own"))
        _by_degree(console, diagnosis)
        _classes(console, diagnosis.classes)
    _heading(console, "Audit")
    findings = diagnosis.audit.findings
    for found in findings:
        mark, style = _MARKS[found.severity], _STYLES[found.severity]
        _bullet(console, mark, f"{found.severity}: {found.message}", style)
    if not findings:
        console.print("Nothing found.")
    _heading(console, "What the reader did")
    for sentence in diagnosis.record:
        _bullet(console, "·", sentence)
    if not diagnosis.record:
        console.print("Nothing was merged, symmetrised or dropped.")


def _verdict(console: Console, diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict
    console.print()
    for sentence in verdict.summary:
        console.print(_text(sentence))
    if verdict.advice:
        console.print()
    for place, sentence in enumerate(verdict.advice):
        _bullet(console, "→" if not place else "·", sentence, "" if place else "bold")
    if verdict.designs:
        console.print()
    for design in verdict.designs:
        said = f"{design.title} ({words.expectation(design.helps)}): {design.reason}"
        _bullet(console, design.name, said)
    for caution in verdict.cautions:
        _bullet(console, "!", caution, "yellow")


def _quick(console: Console, diagnosis: Diagnosis) -> None:
    quick = diagnosis.quick
    if quick is None:
        return
    _heading(console, "Quick fit")
    console.print(_text(words.quick_sentence(quick)))
    if not quick.rows:
        return
    # What a model sees is on the page: here it would leave no room for the note.
    heads, rows = words.quick_heads(quick), words.quick_rows(quick)
    kept = [(row[0], *row[2:]) for row in rows]
    _noted(console, (heads[0], *heads[2:-1]), kept, "lrrr")


def _noted(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]], align: str
) -> None:
    """Print a table whose last column, the notes, is left out where all are empty."""
    if any(row[-1] for row in rows):
        _table(console, (*heads, "note"), rows, align + "l")
    else:
        _table(console, heads, [row[:-1] for row in rows], align)


def _matrix(console: Console, diagnosis: Diagnosis) -> None:
    classes, shares = diagnosis.classes, diagnosis.compatibility or ()
    _heading(console, "Compatibility: share of a class's edges that lead to each class")
    if len(classes) > MAX_MATRIX:
        known = [found for found in classes if found.homophily is not None]
        known.sort(key=lambda found: -(found.homophily or 0.0))
        for title, some in (
            ("most alike within", known[:EXTREMES]),
            ("least alike within", known[: -EXTREMES - 1 : -1]),
        ):
            named = (f"{c.name} {words.number(c.homophily, 2)}" for c in some)
            console.print(_text(f"{title}: {', '.join(named)}"))
        console.print(f"{len(classes)} classes: the whole matrix is in --html, --json.")
        return
    texts = [[words.number(share, 2) for share in row] for row in shares]
    # "<0.01" is wider than the others.
    width = max(len(text) for row in texts for text in row)
    names, letters = [found.name for found in classes], _letters(console, classes)
    heads, corner = letters or names, "from \\ to"
    if letters:
        # The whole names are in the list of classes, by the same letters.
        room = max(console.width - len(names) * (width + _gap(classes)), 8)
        pairs = zip(letters, names, strict=True)
        names = [_cut(f"{letter}  {name}", room) for letter, name in pairs]
        corner = corner if room >= len(corner) else "from"
    rows = [(name, *row) for name, row in zip(names, texts, strict=True)]
    align = "l" + "r" * len(names)
    _table(console, [corner, *heads], rows, align, tight=len(names) > ROOMY)


def _letters(console: Console, classes: Sequence[ClassShare]) -> list[str]:
    """Return letters for the classes if their names are too long for columns."""
    widths = [max(len(found.name), 5) + _gap(classes) for found in classes]
    room = console.width - max(widths, default=0)
    return list(ascii_lowercase[: len(classes)]) if sum(widths) > room else []


def _gap(classes: Sequence[ClassShare]) -> int:
    return 1 if len(classes) > ROOMY else 3


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else name[: room - 1] + "…"


def _by_degree(console: Console, diagnosis: Diagnosis) -> None:
    _heading(console, "By degree (labelled neighbours)")
    rows = [
        (words.degree_range(part.low, part.high), f"{part.nodes:,}", part.homophily)
        for part in diagnosis.degree_homophily
    ]
    if rows:
        shown = [(*row[:2], words.number(row[2]), _bar(row[2])) for row in rows]
        _table(console, ("degree", "nodes", "homophily", ""), shown, "rrrl")
    else:
        console.print("No edge joins two labelled nodes.")


def _classes(console: Console, classes: Sequence[ClassShare]) -> None:
    _heading(console, "Classes")
    total = sum(found.size for found in classes) or 1
    letters = _letters(console, classes) if len(classes) <= MAX_MATRIX else []
    marks = [f"{letter}  " for letter in letters] or [""] * len(classes)
    marked = zip(marks, classes, strict=True)
    listed = sorted(marked, key=lambda pair: -pair[1].size)[:MAX_CLASSES]
    rows = [
        (
            mark + found.name,
            f"{found.size:,}",
            words.percent(found.size / total, 1),
            words.number(found.homophily),
        )
        for mark, found in listed
    ]
    _table(console, ("class", "nodes", "share", "alike within"), rows, "lrrr")
    if len(classes) > len(listed):
        console.print(f"and {len(classes) - len(listed)} others.")


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(_text(title, "bold underline"))


def _list(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, text in rows:
        grid.add_row(_text(name), _text(text))
    console.print(grid)


def _bullet(console: Console, mark: str, text: str, style: str = "") -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_row(_text(mark, style), _text(text))
    console.print(grid)


def _table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    align: str,
    *,
    tight: bool = False,
) -> None:
    """Print a table; only text wraps, never a number."""
    from rich import box
    from rich.table import Table

    padding = (0, 0) if tight else (0, 1)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=padding)
    for head, side in zip(heads, align, strict=True):
        justify: _Justify = "right" if side == "r" else "left"
        no_wrap = side == "r"
        table.add_column(_text(head), justify=justify, no_wrap=no_wrap, overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    console.print(table)


def _bar(share: float) -> str:
    return "█" * round(20 * share)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(shown(text), style)
