"""A table of a result as Markdown, CSV, LaTeX and on the screen."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from h2gcn.experiments.display import table_text as words
from h2gcn.experiments.display.table_text import about, cell_notes
from h2gcn.experiments.results import Result, Table

__all__ = ["csv_text", "latex", "markdown", "markdown_grid", "show"]

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
    for line in words.lines(table):
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
                *(*paper, cell.difference, words.category(cell, table)),
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
    for line in words.lines(table):
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
    return _MARKDOWN.sub(r"\\\1", words.plain(text))


def _tex(text: object) -> str:
    return "".join(_LATEX.get(c, c) for c in words.plain(text))


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
    console.print(Text(words.plain(table.title), style="bold"))
    lines = list(words.lines(table))
    corner, columns = table.corner, table.columns
    for block in _blocks(corner, columns, lines, console.width):
        shown = Grid(box=box.SIMPLE_HEAD, padding=(0, GAP, 0, 0), show_edge=False)
        shown.add_column(Text(words.plain(corner)), overflow="fold")
        for i in block:
            head = Text(words.plain(columns[i]), justify="right")
            shown.add_column(head, justify="right", overflow="fold")
        for line in lines:
            if line.beneath and all(line.cells[i] == words.NONE for i in block):
                continue
            indent, faint = ("  ", "dim") if line.beneath else ("", "")
            cells = [_styled(line, i, faint) for i in block]
            name = Text(indent + words.plain(line.name), style=faint)
            shown.add_row(name, *(Text(words.plain(t), style=s) for t, s in cells))
        console.print(shown)
        console.print()
    for sentence in [*about(result, table), *cell_notes(table)]:
        console.print(Text(words.plain(sentence), style="dim"))
    console.print()


def _blocks(
    corner: str, columns: Sequence[str], lines: Sequence[words.Line], width: int
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


def _styled(line: words.Line, i: int, style: str) -> tuple[str, str]:
    if line.kinds:
        style = _COLOURS.get(line.kinds[i], style)
    return line.cells[i], "bold" if line.best[i] else style
