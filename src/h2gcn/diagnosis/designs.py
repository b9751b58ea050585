"""What to expect of the paper's three designs on a graph.

D1 keeps a node's own embedding apart from its neighbours', D2 gives each distance an
aggregation of its own, D3 hands the outcome of every round to the classifier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from h2gcn.diagnosis.numbers import percent, percents
from h2gcn.homophily import RingShare

__all__ = ["Design", "Kind", "Neighbours", "expected_designs"]

RING_GAIN = 0.05
"""By how much ring 2 must be more alike than ring 1 to be named for it."""
ABOVE_CHANCE = 0.02
"""The adjusted homophily from which a ring is more alike than chance makes it."""
STILL_ALIKE = 0.1
"""The adjusted homophily from which ring 2 is of use although ring 1 is more alike."""

Kind = Literal["homophilous", "heterophilous", "mixed", "unlabelled", "undefined"]
Neighbours = Literal["informative", "weak", "uninformative"]


@dataclass(frozen=True)
class Design:
    """One of the paper's designs, and what to expect of it on a graph.

    `helps` is None where that is not known.
    """

    name: str
    title: str
    helps: bool | None
    reason: str


def expected_designs(
    kind: Kind, neighbours: Neighbours, rings: Sequence[RingShare]
) -> tuple[Design, ...]:
    """Return D1, D2 and D3 with what to expect of each.

    Parameters
    ----------
    kind
        What adjusted homophily says of the graph.
    neighbours
        What label informativeness says of it.
    rings
        How alike the nodes at distance 1, 2, … are.
    """
    return _ego(kind, neighbours), _ring(rings), _rounds(kind, neighbours)


def _ego(kind: Kind, neighbours: Neighbours) -> Design:
    reason = "neighbours are alike often enough that mixing them in does little harm."
    if neighbours == "uninformative":
        reason = (
            "what comes from the neighbours can be weighed by itself, or set aside."
        )
    elif kind == "heterophilous":
        reason = (
            "averaged with neighbours of other classes, as gcn does, a node's own "
            "features would be blurred."
        )
    elif kind == "mixed":
        reason = "it matters for the nodes whose neighbours are of other classes."
    helps = kind != "homophilous"
    return Design("D1", "ego and neighbours kept apart", helps, reason)


def _ring(rings: Sequence[RingShare]) -> Design:
    title = "the 2-hop ring by itself"
    if len(rings) < 2 or rings[0].homophily is None or rings[1].homophily is None:
        why = rings[1].note if len(rings) > 1 else "not looked at"
        return Design("D2", title, None, f"{why}.")
    near, far = rings[0].homophily, rings[1].homophily
    excess = rings[1].adjusted or 0.0
    alike, by_chance = percents(far, rings[1].chance or 0.0)
    if excess < ABOVE_CHANCE:
        alike, by_chance = percent(far), percent(rings[1].chance or 0.0)
    reason = (
        f"{alike} of the pairs two hops apart are alike, "
        f"against {percent(near)} of neighbours"
    )
    chance = f"at that distance chance would give {by_chance}"
    if far >= near + RING_GAIN:
        helps = excess >= ABOVE_CHANCE
        reason += f"; {chance}." if helps else f", but {chance}: no sign of a gain."
    elif excess >= STILL_ALIKE:
        helps = True
        reason += "; nodes with few neighbours may gain."
    else:
        helps = False
        sign = "no" if excess < ABOVE_CHANCE else "little"
        reason += f"; {chance}: {sign} sign of a gain (h2gcn-s1 leaves the ring out)."
    return Design("D2", title, helps, reason)


def _rounds(kind: Kind, neighbours: Neighbours) -> Design:
    reason = "a node can be judged by its near and its wide surroundings."
    if neighbours == "uninformative":
        reason = "round 0, the features alone, stays at the classifier's hand."
    elif kind != "homophilous":
        reason = (
            "early rounds still show how a node differs from its surroundings; later "
            "ones smooth that away."
        )
    return Design("D3", "all rounds combined", True, reason)
