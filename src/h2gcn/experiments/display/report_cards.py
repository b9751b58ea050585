"""The cards of graphs as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from h2gcn.diagnosis import STEPS, number
from h2gcn.experiments.display import table_words as words

__all__ = ["FACTS", "CardView", "card_views"]

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


def card_views(results: Sequence[Mapping[str, Any]]) -> list[CardView]:
    """Return the cards of all graphs, each once."""
    cards: dict[tuple[str, Any], Mapping[str, Any]] = {}
    for result in results:
        for name, card in (result.get("cards") or {}).items():
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
