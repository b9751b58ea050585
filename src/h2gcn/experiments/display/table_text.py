"""What a table says: cells and lines as short texts, and how they are to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from h2gcn.diagnosis import number as shown_share
from h2gcn.experiments.results import Cell, Result, Table

__all__ = [
    *("NONE", "NOT_RUN", "Line", "about", "category", "cell_notes", "lines", "number"),
    *("of_models", "ours", "papers", "plain", "reading", "verdict"),
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
