"""A table of a result on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from h2gcn.experiments.display import table_words as words
from h2gcn.experiments.display.table_about import about, cell_notes

__all__ = ["show"]

GAP = 2
"""Blanks after a column; the box has one more."""
_COLOURS = {"better": "green", "worse": "yellow", "differs": "yellow"}


def show(
    result: Mapping[str, Any],
    table: Mapping[str, Any],
    console: Console | None = None,
) -> None:
    """Print a table to stdout, cut into blocks of columns that fit the screen."""
    console = console or Console(markup=False, emoji=False, highlight=False)
    console.print(Text(words.plain(table["title"]), style="bold"))
    lines = list(words.lines(table))
    corner, columns = table.get("corner", "model"), table["columns"]
    for block in _blocks(corner, columns, lines, console.width):
        shown = Table(box=box.SIMPLE_HEAD, padding=(0, GAP, 0, 0), show_edge=False)
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
