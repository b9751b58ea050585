"""What a reader must know of a table: how it was made, on what, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from h2gcn.diagnosis import number
from h2gcn.experiments.display import table_words as words

__all__ = ["about", "cell_notes", "reading"]

MAX_CARDS = 12
"""Up to so many graphs are told one by one beneath a table."""


def cell_notes(table: Mapping[str, Any]) -> list[str]:
    """Return what must be said of single cells, with their places."""
    places: dict[str, list[str]] = {}
    filled = 0
    for row in table["rows"]:
        for column, cell in zip(table["columns"], row["cells"], strict=True):
            filled += cell.get("mean") is not None
            if cell.get("note"):
                where = f"{row['name']}, {column}"
                places.setdefault(_sentence(cell["note"]), []).append(where)
    return [
        f"{'every cell' if 1 < filled == len(where) else '; '.join(where)}: {note}"
        for note, where in places.items()
    ]


def about(result: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know of a table, a sentence each.

    How figures were made, how they are judged, the protocol, the versions, the
    graphs and the notes of table and result.
    """
    return [
        *reading(table),
        f"Protocol: {result.get('protocol') or 'not known'}. Versions: "
        f"{', '.join(_versions(result))}.",
        *_graphs(result.get("cards") or {}),
        *map(str, result.get("notes") or ()),
    ]


def reading(table: Mapping[str, Any]) -> list[str]:
    """Return how the figures of a table were made and are judged, and its notes."""
    cells = [cell for row in table["rows"] for cell in row["cells"]]
    notes = map(str, table.get("notes") or ())
    return [*_how_made(cells, table), *_how_judged(cells, table), *notes]


def _how_made(
    cells: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
) -> Iterator[str]:
    done = [cell for cell in cells if cell.get("mean") is not None]
    unit = f", in {table['unit']}" if table.get("unit") else ""
    counts = sorted({cell.get("n") or 1 for cell in done})
    if counts and counts[-1] > 1:
        runs = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        yield f"Mean ± sample standard deviation of {runs} runs{unit}."
    elif unit and done:
        yield (
            f"One run a cell{unit}."
            if words.of_models(table)
            else f"In {table['unit']}."
        )
    names = {tuple(cell.get("runs") or ()) for cell in done}
    if len(names) == 1 and (one := names.pop()):
        yield f"Runs: {', '.join(one)}."


def _how_judged(
    cells: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
) -> Iterator[str]:
    kinds = {words.category(cell, table) for cell in cells}
    if kinds & {"better", "worse", "within"} and words.of_models(table):
        yield (
            "Verdict on ours: within one standard deviation of the paper's mean (the "
            "paper's deviation; ours where it gives none, or 0.00), else better or "
            "worse by how much."
        )
    if any(cell.get("best") for cell in cells):
        yield (
            "Bold: best of its column, and ahead of every other model by more than "
            "the noise (95 %, paired)."
        )


def _versions(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"h2gcn {result.get('version', words.NONE)}"
    for name, value in (result.get("environment") or {}).items():
        yield f"{name} {value}"


def _graphs(cards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if len(cards) > MAX_CARDS:
        yield f"Data: {len(cards)} graphs; their cards are in result.json."
    elif cards:
        told = "; ".join(f"{name} ({_card(card)})" for name, card in cards.items())
        yield f"Data: {told}."


def _card(card: Mapping[str, Any]) -> str:
    facts = [
        f"{words.number(card[name])} {name}"
        for name in ("nodes", "edges", "classes")
        if card.get(name) is not None
    ]
    if card.get("h") is not None:
        facts.append(f"h {number(float(card['h']), 2)}")
    return ", ".join([*facts, f"checksum {card.get('checksum', words.NONE)}"])


def _sentence(text: object) -> str:
    said = str(text)
    return said if said.endswith((".", "!", "?")) else f"{said}."
