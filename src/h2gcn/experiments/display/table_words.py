"""The cells and lines of a table as short texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "NONE",
    "NOT_RUN",
    "Line",
    "category",
    "lines",
    "number",
    "of_models",
    "ours",
    "papers",
    "plain",
    "verdict",
]

NOT_RUN = "not run"
NONE = "–"
"""What is shown where there is nothing to tell."""

Table = Mapping[str, Any]
Cell = Mapping[str, Any]


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
    if cell.get("mean") is None:
        return NOT_RUN if category(cell, table) == NOT_RUN else NONE
    return _pair(cell["mean"], cell.get("std"), table)


def papers(cell: Cell, table: Table) -> str:
    """Return the paper's figure."""
    paper = cell.get("paper")
    if paper is None or paper.get("mean") is None:
        return NONE
    mean, count = paper["mean"], isinstance(cell.get("mean"), int)
    return _pair(
        int(mean) if count and mean == int(mean) else mean, paper.get("std"), table
    )


def of_models(table: Table) -> bool:
    """Return whether the rows of a table are models, of which one can be better."""
    return str(table.get("corner", "model")).startswith("model")


def category(cell: Cell, table: Table) -> str:
    """Return what a cell counts as.

    "better", "within", "worse", "none" (not judged) or "not run". Where rows are no
    models, whatever is not as the paper's "differs", since a graph is not better with
    more nodes.
    """
    if cell.get("mean") is None:
        return "none" if cell.get("verdict") == "none" else NOT_RUN
    told = str(cell.get("verdict", "none"))
    if of_models(table) or told == "within":
        return told
    compared = (cell.get("paper") or {}).get("mean") is not None
    return "differs" if compared or told != "none" else "none"


def verdict(cell: Cell, table: Table) -> str:
    """Return the verdict on a cell in a few words."""
    kind, difference = category(cell, table), cell.get("difference")
    if kind == "within":
        deviation = (cell.get("paper") or {}).get("std") or cell.get("std")
        return "within 1 sd" if deviation else "as the paper"
    if kind not in ("better", "worse", "differs"):
        return NONE
    if difference is None:
        return kind
    if kind == "differs":
        sign = "−" if difference < 0 else "+"
        return f"differs by {sign}{number(abs(difference), _decimals(table))}"
    return f"{kind} by {number(abs(difference), _decimals(table))}"


def lines(table: Table) -> Iterator[Line]:
    """Return the lines of a table: our figures, and beneath them the paper's."""
    for row in table["rows"]:
        cells = row["cells"]
        yield Line(
            str(row["name"]),
            tuple(ours(cell, table) for cell in cells),
            best=tuple(bool(cell.get("best")) for cell in cells),
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
    text = number(mean, _decimals(table))
    return text if std is None else f"{text} ± {number(std, _decimals(table))}"


def _decimals(table: Table) -> int:
    return int(table.get("decimals", 2))
