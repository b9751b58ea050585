"""A table of a result in words, and as Markdown, CSV, LaTeX and on the screen."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from h2gcn.diagnosis import number as shown_share
from h2gcn.experiments.results import Cell, Result, Table

__all__ = [
    "NONE",
    "NOT_RUN",
    "Line",
    "about",
    "category",
    "cell_notes",
    "csv_text",
    "latex",
    "lines",
    "markdown",
    "markdown_grid",
    "number",
    "of_models",
    "ours",
    "papers",
    "plain",
    "reading",
    "show",
    "verdict",
]

NOT_RUN = "not run"
NONE = "–"
"""What is shown where there is nothing to tell."""


@dataclass(frozen=True)
class Line:
    """A line of a table.

    Parameters
    ----------
    name, cells
        What it shows.
    best
        Which cells are set in bold.
    kinds
        How each cell counts, in a line of verdicts.
    beneath
        Whether it belongs to the line above.
    """

    name: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]
    kinds: tuple[str, ...] = ()
    beneath: bool = False


def plain(text: object) -> str:
    r"""Return a text on one line, without characters that could steer a terminal.

    Examples
    --------
    >>> plain("a\nb\x1b")
    'a b�'
    """
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "�" for c in line)


def number(value: float | None, decimals: int = 2) -> str:
    """Return a figure with fixed decimals; a whole number is a count and has none.

    Examples
    --------
    >>> number(77.4), number(-0.001), number(2708), number(None)
    ('77.40', '0.00', '2,708', '–')
    """
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:z.{decimals}f}"


def ours(cell: Cell, table: Table) -> str:
    """Return our figure: mean ± deviation, or that it was not run or has no value."""
    if cell.mean is None:
        return NOT_RUN if category(cell, table) == NOT_RUN else NONE
    return _pair(cell.mean, cell.std, table)


def papers(cell: Cell, table: Table) -> str:
    """Return the paper's figure."""
    if cell.paper is None:
        return NONE
    mean, count = cell.paper.mean, isinstance(cell.mean, int)
    shown = int(mean) if count and mean == int(mean) else mean
    return _pair(shown, cell.paper.std, table)


def of_models(table: Table) -> bool:
    """Return whether the rows of a table are models, of which one can be better."""
    return table.corner.startswith("model")


def category(cell: Cell, table: Table) -> str:
    """Return what a cell counts as.

    "better", "within", "worse", "none" (not judged) or "not run". Where rows are no
    models, whatever is not as the paper's "differs", since a graph is not better with
    more nodes.
    """
    if cell.mean is None:
        return "none" if cell.verdict == "none" else NOT_RUN
    if of_models(table) or cell.verdict == "within":
        return cell.verdict
    compared = cell.paper is not None or cell.verdict != "none"
    return "differs" if compared else "none"


def verdict(cell: Cell, table: Table) -> str:
    """Return the verdict on a cell in a few words."""
    kind, difference = category(cell, table), cell.difference
    if kind == "within":
        deviation = (cell.paper and cell.paper.std) or cell.std
        return "within 1 sd" if deviation else "as the paper"
    if kind not in ("better", "worse", "differs"):
        return NONE
    if difference is None:
        return kind
    if kind == "differs":
        sign = "−" if difference < 0 else "+"
        return f"differs by {sign}{number(abs(difference), table.decimals)}"
    return f"{kind} by {number(abs(difference), table.decimals)}"


def lines(table: Table) -> Iterator[Line]:
    """Return the lines of a table: our figures, and beneath them the paper's."""
    for row in table.rows:
        cells = row.cells
        yield Line(
            row.name,
            tuple(ours(cell, table) for cell in cells),
            best=tuple(cell.best for cell in cells),
        )
        if not any(papers(cell, table) != NONE for cell in cells):
            continue
        none = (False,) * len(cells)
        yield Line("paper", tuple(papers(c, table) for c in cells), none, beneath=True)
        verdicts = tuple(verdict(cell, table) for cell in cells)
        if set(verdicts) != {NONE}:
            kinds = tuple(category(cell, table) for cell in cells)
            yield Line("verdict", verdicts, none, kinds, beneath=True)


def _pair(mean: float, std: float | None, table: Table) -> str:
    text = number(mean, table.decimals)
    return text if std is None else f"{text} ± {number(std, table.decimals)}"


# ------------------------------------------------------------------- what to know of it

MAX_CARDS = 12
"""Up to so many graphs are told one by one beneath a table."""


def cell_notes(table: Table) -> list[str]:
    """Return what must be said of single cells, with their places."""
    places: dict[str, list[str]] = {}
    filled = 0
    for row, column, cell in table.placed():
        filled += cell.mean is not None
        if cell.note:
            places.setdefault(_sentence(cell.note), []).append(f"{row}, {column}")
    return [
        f"{'every cell' if 1 < filled == len(where) else '; '.join(where)}: {note}"
        for note, where in places.items()
    ]


def about(result: Result, table: Table) -> list[str]:
    """Return what a reader must know of a table, a sentence each.

    How figures were made, how they are judged, the protocol, the versions, the
    graphs and the notes of table and result.
    """
    return [
        *reading(table),
        f"Protocol: {result.protocol or 'not known'}. Versions: "
        f"{', '.join(_versions(result))}.",
        *_graphs(result.cards),
        *map(str, result.notes),
    ]


def reading(table: Table) -> list[str]:
    """Return how the figures of a table were made and are judged, and its notes."""
    cells = list(table.cells)
    notes = map(str, table.notes or ())
    return [*_how_made(cells, table), *_how_judged(cells, table), *notes]


def _how_made(cells: Sequence[Cell], table: Table) -> Iterator[str]:
    done = [cell for cell in cells if cell.mean is not None]
    unit = f", in {table.unit}" if table.unit else ""
    counts = sorted({cell.n or 1 for cell in done})
    if counts and counts[-1] > 1:
        runs = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        yield f"Mean ± sample standard deviation of {runs} runs{unit}."
    elif unit and done:
        yield f"One run a cell{unit}." if of_models(table) else f"In {table.unit}."
    names = {cell.runs for cell in done}
    if len(names) == 1 and (one := names.pop()):
        yield f"Runs: {', '.join(one)}."


def _how_judged(cells: Sequence[Cell], table: Table) -> Iterator[str]:
    kinds = {category(cell, table) for cell in cells}
    if kinds & {"better", "worse", "within"} and of_models(table):
        yield (
            "Verdict on ours: within one standard deviation of the paper's mean (the "
            "paper's deviation; ours where it gives none, or 0.00), else better or "
            "worse by how much."
        )
    if any(cell.best for cell in cells):
        yield (
            "Bold: best of its column, and ahead of every other model by more than "
            "the noise (95 %, paired)."
        )


def _versions(result: Result) -> Iterator[str]:
    yield f"h2gcn {result.version or NONE}"
    for name, value in result.environment.items():
        yield f"{name} {value}"


def _graphs(cards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if len(cards) > MAX_CARDS:
        yield f"Data: {len(cards)} graphs; their cards are in result.json."
    elif cards:
        told = "; ".join(f"{name} ({_card(card)})" for name, card in cards.items())
        yield f"Data: {told}."


def _card(card: Mapping[str, Any]) -> str:
    facts = [
        f"{number(card[name])} {name}"
        for name in ("nodes", "edges", "classes")
        if card.get(name) is not None
    ]
    if card.get("h") is not None:
        facts.append(f"h {shown_share(float(card['h']), 2)}")
    return ", ".join([*facts, f"checksum {card.get('checksum', NONE)}"])


def _sentence(text: object) -> str:
    said = str(text)
    return said if said.endswith((".", "!", "?")) else f"{said}."


# ----------------------------------------------------------- in files and on the screen

CSV_COLUMNS = (
    *("table", "row", "column", "mean", "std", "n", "values", "runs"),
    *("paper_mean", "paper_std", "difference", "verdict", "best"),
    *("against", "interval_low", "interval_high", "note"),
    *("unit", "protocol", "version", "environment", "notes"),
)
UPRIGHT = 6
"""Columns of a LaTeX table that have room across a page."""
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|])")
_LATEX = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"},
    **{"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"},
    **{"±": r"$\pm$", "–": "--", "—": "---", "−": "$-$", "×": r"$\times$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$"},
    **{"…": r"\dots{}", "²": "$^2$", "³": "$^3$", "½": r"$\frac{1}{2}$"},
    **{"δ": r"$\delta$", "λ": r"$\lambda$", "σ": r"$\sigma$"},
}


def markdown(result: Result, table: Table) -> str:
    """Return a table as Markdown; beneath each row the paper's, and the verdict.

    Parameters
    ----------
    result
        The result of an experiment.
    table
        One of its tables.
    """
    said = [*about(result, table), *cell_notes(table)]
    listed = [f"- {_md(sentence)}" for sentence in said]
    heading = f"# {_md(table.title)}"
    return "\n".join([heading, "", markdown_grid(table), "", *listed, ""])


def markdown_grid(table: Table) -> str:
    """Return the rows and columns of a table as Markdown, and nothing around them."""
    heads = [table.corner, *table.columns]
    rows = [[_md(head) for head in heads]]
    for line in lines(table):
        name = f"· {_md(line.name)}" if line.beneath else _md(line.name)
        cells = (
            f"**{_md(cell)}**" if bold else _md(cell)
            for cell, bold in zip(line.cells, line.best, strict=True)
        )
        rows.append([name, *cells])
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(heads))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (w - 1) + ":" for w in widths[1:])]
    shown = [_md_row(rows[0], widths), _md_row(rule, widths)]
    return "\n".join([*shown, *(_md_row(row, widths) for row in rows[1:])])


def csv_text(result: Result, table: Table) -> str:
    """Return a table as CSV, a line a cell, with all that `markdown` tells.

    Figures are not rounded; nothing stands for "not there". `against` is the best
    other model with the same runs, the interval that of the difference to it. Every
    line repeats the protocol and the versions, so that files can be joined and cut; the
    notes, which may be long, are on the first line.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    ending = (
        *(table.unit, result.protocol, result.version),
        "; ".join(f"{name} {value}" for name, value in result.environment.items()),
    )
    said = [*result.notes, *(table.notes or ())]
    notes = " ".join(map(str, said))
    for row, column, cell in table.placed():
        paper, interval = cell.paper or (None, None), cell.interval or (None, None)
        writer.writerow(
            (
                *(table.name, row, column, cell.mean, cell.std, cell.n),
                " ".join(map(str, cell.values)),
                "; ".join(map(str, cell.runs)),
                *(*paper, cell.difference, category(cell, table)),
                "yes" if cell.best else "no",
                *(cell.against, *interval, cell.note),
                *(*ending, notes),
            )
        )
        notes = ""
    return file.getvalue()


def latex(result: Result, table: Table) -> str:
    """Return a table for LaTeX with booktabs, as wide as the text at most.

    One with many columns lies on its side, or its figures could not be read.
    """
    columns = table.columns
    sideways = len(columns) > UPRIGHT
    kind = "sidewaystable" if sideways else "table"
    label = re.sub(r"[^A-Za-z0-9]+", "-", str(table.name)).strip("-")
    body: list[str] = []
    for line in lines(table):
        if body and not line.beneath:
            body.append(r"\addlinespace")
        cells = (
            rf"\textbf{{{_tex(cell)}}}" if bold else _tex(cell)
            for cell, bold in zip(line.cells, line.best, strict=True)
        )
        name = rf"\quad {_tex(line.name)}" if line.beneath else _tex(line.name)
        body.append(" & ".join([name, *cells]) + r" \\")
    heads = map(_tex, [table.corner, *columns])
    said = [*about(result, table), *cell_notes(table)]
    return "\n".join(
        [
            rf"% \usepackage{{booktabs,{'rotating' if sideways else 'graphicx'}}}",
            rf"\begin{{{kind}}}" + ("" if sideways else "[t]"),
            r"\centering",
            rf"\caption{{{_tex(table.title)}}}",
            rf"\label{{tab:{label}}}",
            r"\medskip",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\par\smallskip\footnotesize\raggedright",
            *map(_tex, said),
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _md_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.ljust(width) if i == 0 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join([first, *others])} |"


def _md(text: object) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))


def _tex(text: object) -> str:
    return "".join(_LATEX.get(c, c) for c in plain(text))


GAP = 2
"""Blanks after a column; the box has one more."""
_COLOURS = {"better": "green", "worse": "yellow", "differs": "yellow"}


def show(
    result: Result,
    table: Table,
    console: Console | None = None,
) -> None:
    """Print a table to stdout, cut into blocks of columns that fit the screen."""
    console = console or Console(markup=False, emoji=False, highlight=False)
    console.print(Text(plain(table.title), style="bold"))
    rows = list(lines(table))
    corner, columns = table.corner, table.columns
    for block in _blocks(corner, columns, rows, console.width):
        shown = Grid(box=box.SIMPLE_HEAD, padding=(0, GAP, 0, 0), show_edge=False)
        shown.add_column(Text(plain(corner)), overflow="fold")
        for i in block:
            head = Text(plain(columns[i]), justify="right")
            shown.add_column(head, justify="right", overflow="fold")
        for line in rows:
            if line.beneath and all(line.cells[i] == NONE for i in block):
                continue
            indent, faint = ("  ", "dim") if line.beneath else ("", "")
            cells = [_styled(line, i, faint) for i in block]
            name = Text(indent + plain(line.name), style=faint)
            shown.add_row(name, *(Text(plain(t), style=s) for t, s in cells))
        console.print(shown)
        console.print()
    for sentence in [*about(result, table), *cell_notes(table)]:
        console.print(Text(plain(sentence), style="dim"))
    console.print()


def _blocks(
    corner: str, columns: Sequence[str], lines: Sequence[Line], width: int
) -> Iterator[list[int]]:
    """Return the columns of each block, at least one in each."""
    first = max(len(corner), *(len(line.name) + 2 for line in lines), 0) + GAP + 1
    block: list[int] = []
    used = first
    for i, column in enumerate(columns):
        wide = (
            max(len(str(column)), *(len(line.cells[i]) for line in lines), 0) + GAP + 1
        )
        if block and used + wide > width:
            yield block
            block, used = [], first
        block.append(i)
        used += wide
    yield block


def _styled(line: Line, i: int, style: str) -> tuple[str, str]:
    if line.kinds:
        style = _COLOURS.get(line.kinds[i], style)
    return line.cells[i], "bold" if line.best[i] else style
