"""How a model looks in every figure: one colour, marker and line for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MARKERS", "STYLES", "Style", "styles_of"]


@dataclass(frozen=True)
class Style:
    """A way to draw a series.

    Parameters
    ----------
    colour, on_dark
        On white and on a dark page.
    marker
        matplotlib's name of the marker.
    dashes
        Lengths of strokes and gaps in points; () is a solid line.
    hatch
        matplotlib's pattern of a bar.
    """

    colour: str
    on_dark: str
    marker: str
    dashes: tuple[float, ...]
    hatch: str


STYLES = (
    Style("#d55e00", "#ff8a3d", "o", (), ""),
    Style("#0072b2", "#58b0e8", "s", (), "///"),
    Style("#009e73", "#2fcf9f", "^", (6, 2), "..."),
    Style("#b0478a", "#e796c5", "D", (6, 2), "xxx"),
    Style("#b87a00", "#f0b428", "v", (8, 2, 2, 2), "\\\\\\"),
    Style("#3590c8", "#9ad7ff", "P", (8, 2, 2, 2), "|||"),
    Style("#7a1f4d", "#d06a9c", "X", (3, 1.5), "---"),
    Style("#4d4d4d", "#c4c4c4", "*", (10, 3), "+++"),
    Style("#3d9b91", "#7fd8cf", "<", (3, 1.5), "oo"),
    Style("#332288", "#a99cf0", ">", (10, 3), "//"),
    Style("#85852a", "#cfcf63", "h", (8, 2, 2, 2, 2, 2), ".."),
    Style("#8b5a2b", "#cf9b66", "d", (8, 2, 2, 2, 2, 2), "xx"),
)
"""After Okabe and Ito, and Tol, for all eyes; marker and dashes tell them in grey.

Dots are left to the paper's lines.
"""

MARKERS = {
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "s": "M-3.6-3.6h7.2v7.2h-7.2z",
    "^": "M0-4.8L4.6 3.4H-4.6z",
    "v": "M0 4.8L4.6-3.4H-4.6z",
    "<": "M-4.8 0L3.4 4.6V-4.6z",
    ">": "M4.8 0L-3.4 4.6V-4.6z",
    "D": "M0-5L5 0 0 5-5 0z",
    "d": "M0-5.6L3.4 0 0 5.6-3.4 0z",
    "P": "M-1.7-4.9h3.4v3.2h3.2v3.4h-3.2v3.2h-3.4v-3.2h-3.2v-3.4h3.2z",
    "X": "M-4.7-2.3L-2.3-4.7 0-2.3 2.3-4.7 4.7-2.3 2.3 0 4.7 2.3 2.3 4.7 0 2.3-2.3"
    " 4.7-4.7 2.3-2.3 0z",
    "*": "M0-5.8L1.6-1.9 5.5-1.8 2.4.8 3.4 4.7 0 2.4-3.4 4.7-2.4.8-5.5-1.8-1.6-1.9z",
    "h": "M0-5L4.4-2.5V2.5L0 5-4.4 2.5V-2.5z",
}
"""Outlines of matplotlib's markers around (0, 0)."""

_PLACES = {
    **{"h2gcn-1": 0, "h2gcn-2": 1, "graphsage": 2, "gcn-cheby": 3, "mixhop": 4},
    **{"gcn": 5, "gat": 6, "mlp": 7, "graphsage-jk": 8, "gcn-cheby-jk": 9},
    **{"gcn-jk": 10, "geom-gcn": 11, "h2gcn-s1": 2, "h2gcn-ns0": 4, "h2gcn-ns1": 3},
    **{"h2gcn-n0": 5, "h2gcn-n1": 6, "h2gcn-k0": 4, "h2gcn-k1": 2, "h2gcn-r2": 3},
    "h2gcn-nonlinear": 7,
}
"""Of models that are shown together no two are the same."""


def styles_of(names: Sequence[str]) -> list[int]:
    """Return the place in `STYLES` of each name: a model's own, else the next free.

    Beyond as many names as styles, they come again.

    Examples
    --------
    >>> styles_of(["mine", "h2gcn-1", "mine too"])
    [1, 0, 2]
    """
    known = {name: _PLACES[name] for name in names if name in _PLACES}
    taken = set(known.values())
    free = [place for place in range(len(STYLES)) if place not in taken]
    used: set[int] = set()
    places: list[int] = []
    for name in names:
        place = known.get(name)
        if place is None or place in used:
            place = free.pop(0) if free else len(places) % len(STYLES)
        used.add(place)
        places.append(place)
    return places
