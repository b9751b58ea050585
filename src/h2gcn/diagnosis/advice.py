"""What the measures of a graph mean to someone who has to choose a model for it.

The kind is read off adjusted homophily: the plain share of alike edges depends on how
many classes there are and how even their sizes are, the adjusted one does not. Nothing
is heterophilous, however, where most edges join equal labels. Measures are judged as
they are shown, with two decimals, and no sentence says what its numbers do not.

Of the paper's designs, D1 keeps a node's own embedding apart from its neighbours', D2
gives each distance an aggregation of its own, D3 hands the outcome of every round to
the classifier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from h2gcn.diagnosis.auditing import LARGE_RINGS, Finding
from h2gcn.diagnosis.numbers import number, percent, percents
from h2gcn.diagnosis.recommending import QuickFit, Told, places_told, recommend
from h2gcn.graph import Graph
from h2gcn.homophily import DirectionShare, RingShare

__all__ = [
    "Design",
    "Kind",
    "Likeness",
    "Neighbours",
    "Verdict",
    "adjusted_share",
    "expected_designs",
    "is_close",
    "judge",
    "likeness",
]

Likeness = Literal["alike", "unlike", "by chance"]
"""More often alike than by chance, less often, or neither."""

NEAR_CHANCE, NEAR_RATIO, NEAR_ADJUSTED = 0.0201, 0.25, 0.1
"""A share is close to chance if neither the gap is larger, nor its part of the larger
of the two, nor its part of all that chance leaves, as shown with two decimals."""
ERRORS = 2.0
"""So many standard errors are no proof of a difference."""


def likeness(share: float, chance: float, pairs: int) -> Likeness:
    """Return whether nodes are alike more often than chance makes them.

    They are neither alike nor unlike where the share is close to that of chance
    (`is_close`): 79 % where chance gives 77 is no preference, on however many edges.
    Nor where the gap is within two standard errors, √(chance (1 − chance) / pairs).

    Parameters
    ----------
    share
        Of the pairs with equal labels.
    chance
        The share that chance would give.
    pairs
        How many pairs were counted.

    Examples
    --------
    >>> likeness(0.79, 0.77, 10_000), likeness(0.81, 0.18, 10_000)
    ('by chance', 'alike')
    >>> likeness(0.06, 0.27, 300), likeness(0.67, 0.5, 9)
    ('unlike', 'by chance')
    """
    gap = share - chance
    error = math.sqrt(max(chance * (1 - chance), 0.0) / max(pairs, 1))
    if is_close(share, chance) or abs(gap) <= ERRORS * error:
        return "by chance"
    return "alike" if gap > 0 else "unlike"


def is_close(share: float, chance: float) -> bool:
    """Return whether a share is that of chance but for a margin of no importance.

    Examples
    --------
    >>> is_close(0.79, 0.77), is_close(0.03, 0.01), is_close(0.985, 0.98)
    (True, False, False)
    """
    gap = abs(share - chance)
    near = gap <= NEAR_CHANCE and gap <= NEAR_RATIO * max(share, chance)
    near = near and round(abs(adjusted_share(share, chance)), 2) <= NEAR_ADJUSTED
    texts = percents(share, chance)
    return near or texts[0] == texts[1]


def adjusted_share(share: float, chance: float) -> float:
    """Return (share − chance) / (1 − chance); 0 where chance leaves nothing."""
    return (share - chance) / (1 - chance) if chance < 1 else 0.0


RING_GAIN = 0.05
"""By how much ring 2 must be more alike than ring 1 to be named for it."""
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
    excess, expected = rings[1].adjusted or 0.0, rings[1].chance or 0.0
    found = likeness(far, expected, rings[1].labelled or 0)
    alike, by_chance = percents(far, expected)
    if found == "by chance":
        alike, by_chance = percent(far), percent(expected)
    reason = (
        f"{alike} of the pairs two hops apart are alike, "
        f"against {percent(near)} of neighbours"
    )
    chance = f"at that distance chance would give {by_chance}"
    if far >= near + RING_GAIN:
        helps = found == "alike"
        reason += f"; {chance}." if helps else f", but {chance}: no sign of a gain."
    elif found == "alike" and excess >= STILL_ALIKE:
        helps = True
        reason += "; nodes with few neighbours may gain."
    else:
        helps = False
        sign = "little" if found == "alike" else "no"
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


HOMOPHILOUS = 0.5
"""From this adjusted homophily on, a graph is homophilous."""
HETEROPHILOUS = 0.1
"""Up to this adjusted homophily, a graph is heterophilous.

It is mixed nevertheless where more than half of the edges join equal labels.
"""
TELLING = 0.5
"""From this label informativeness on, a neighbour's label says much."""
INFORMATIVE = 0.1
"""From this label informativeness on, a neighbour's label is informative."""
UNINFORMATIVE = 0.02
"""Below this label informativeness, a neighbour's label says almost nothing."""
HALF = 0.0051
"""A share that is nearer to one half is about half, and may be shown as 50 %."""
FEW_EDGES = 50
"""Measures that rest on fewer labelled edges are only a hint."""


@dataclass(frozen=True)
class Verdict:
    """What kind of graph it is, and what follows.

    Parameters
    ----------
    kind
        What adjusted homophily says, and whether most neighbours are alike.
    neighbours
        What label informativeness says; None where it has no value.
    summary
        The kind in words, a sentence each.
    designs
        D1, D2 and D3; none where nothing is known about neighbours.
    models
        Names of the models to take, the first first.
    advice
        What to do next, and why, a sentence each.
    cautions
        What to know before trusting a result, a sentence each.
    """

    kind: Kind
    neighbours: Neighbours | None
    summary: tuple[str, ...]
    designs: tuple[Design, ...] = ()
    models: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """All of it in reading order."""
        designs = [
            f"{design.name}, {design.title}: {design.reason}" for design in self.designs
        ]
        return [*self.summary, *self.advice, *designs, *self.cautions]


def judge(
    graph: Graph,
    adjusted: float | None,
    informativeness: float | None,
    rings: Sequence[RingShare],
    findings: Sequence[Finding],
    labelled_edges: int,
    directions: Sequence[DirectionShare] = (),
    quick: QuickFit | None = None,
) -> Verdict:
    """Return the verdict on a graph.

    Parameters
    ----------
    graph
        The graph.
    adjusted, informativeness
        Its adjusted homophily and label informativeness; None where undefined.
    rings
        How alike the nodes at distance 1, 2, … are.
    findings
        What the audit found.
    labelled_edges
        How many edges join two labelled nodes.
    directions
        What labels tell along directions; none without directions.
    quick
        What a quick fit found; None where there was none.
    """
    cautions = tuple(_cautions(findings))
    told = places_told(rings, directions)
    if adjusted is None or informativeness is None:
        return _unknown(graph, labelled_edges, cautions, told, quick)
    share, chance = rings[0].homophily or 0.0, rings[0].chance or 0.0
    kind = _kind(share, adjusted)
    neighbours = _neighbours(adjusted, informativeness)
    if labelled_edges < FEW_EDGES:
        edges = "1 edge" if labelled_edges == 1 else f"{labelled_edges} edges"
        few = f"All this rests on {edges} between labelled nodes: a hint, no more."
        cautions = (few, *cautions)
    designs = expected_designs(kind, neighbours, rings)
    summary = (
        _kind_sentence(kind, share, chance, adjusted, labelled_edges),
        _neighbour_sentence(neighbours, share, informativeness, _elsewhere(told)),
    )
    models, advice = recommend(graph, kind, told, _alike(rings), quick)
    if neighbours == "uninformative" and quick is None:
        mlp = "If mlp, which sees no edges, is as good, the graph does not help."
        advice = (*advice, mlp)
    return Verdict(kind, neighbours, summary, designs, models, advice, cautions)


def _kind(share: float, adjusted: float) -> Kind:
    shown = round(adjusted, 2)
    if shown >= HOMOPHILOUS:
        return "homophilous"
    return "heterophilous" if shown <= HETEROPHILOUS and share <= 0.5 else "mixed"


def _neighbours(adjusted: float, informativeness: float) -> Neighbours:
    shown = round(informativeness, 2)
    if shown >= INFORMATIVE:
        return "informative"
    without = shown < UNINFORMATIVE and round(abs(adjusted), 2) <= HETEROPHILOUS
    return "uninformative" if without else "weak"


def _alike(rings: Sequence[RingShare]) -> list[str]:
    """Return the rings that are more alike than by chance."""
    return [
        f"ring{ring.hop}"
        for ring in rings
        if ring.homophily is not None
        and ring.chance is not None
        and likeness(ring.homophily, ring.chance, ring.labelled or 0) == "alike"
    ]


def _elsewhere(told: Told) -> bool:
    """Return whether labels beyond the neighbours' tell something."""
    return any(
        round(value, 2) >= INFORMATIVE
        for place, (value, _) in told.items()
        if place != "ring1"
    )


def _kind_sentence(
    kind: Kind, share: float, chance: float, adjusted: float, edges: int
) -> str:
    """Say how alike neighbours are, against one half and against chance."""
    name, found = kind.capitalize(), likeness(share, chance, edges)
    alike = "most neighbours are alike"
    if abs(share - 0.5) < HALF:
        alike = "about half of the neighbours are alike"
    elif share < 0.5:
        alike = "most neighbours are unlike"
    unlike = alike.endswith("unlike")
    texts = percents(share, chance)
    if is_close(share, chance):
        name += ", or rather without preference for the own class"
        alike = "neighbours are no more alike than by chance"
        texts = percent(share), percent(chance)
    elif found == "by chance":
        counted = "1 edge" if edges == 1 else f"{edges:,} edges"
        alike += f", which may be chance on {counted}"
    elif found == "alike":
        alike += f", {'but alike ' if unlike else ''}more often than by chance"
    elif unlike:
        alike += ", and alike less often than by chance"
    else:
        alike += ", but less often than by chance"
    return (
        f"{name}: {alike} ({texts[0]} of the edges join equal labels, where chance "
        f"would give {texts[1]}; adjusted homophily {number(adjusted, 2)})."
    )


def _neighbour_sentence(
    neighbours: Neighbours, share: float, value: float, elsewhere: bool
) -> str:
    told = f"(label informativeness {number(value, 2)})"
    if neighbours == "uninformative" and elsewhere:
        return (
            f"Neighbours' labels say almost nothing about a node's own {told}, but "
            "those of other nodes nearby do."
        )
    if neighbours == "uninformative":
        return (
            f"Neighbours' labels say almost nothing about a node's own {told}: the "
            "features, its own and perhaps theirs, have to decide."
        )
    if neighbours == "weak":
        return (
            f"A neighbour's label says little about a node's own {told}; many "
            "neighbours together may say more."
        )
    says = "much" if round(value, 2) >= TELLING else "something"
    if share <= 0.5 - HALF:
        return (
            "Informative although mostly unlike: which class a neighbour is of says "
            f"{says} about a node's own {told}."
        )
    return f"A neighbour's label says {says} about a node's own {told}."


def _cautions(findings: Sequence[Finding]) -> list[str]:
    cautions = [
        f"These splits give worthless results: {found.message}"
        for found in findings
        if found.severity == "error"
    ]
    for found in findings:
        if found.kind == "twins":
            cautions.append(
                f"Twins: {found.message} Whoever copies a twin's label gets these "
                "right whatever the features say: look at the score without them too."
            )
        elif found.kind == LARGE_RINGS:
            cautions.append(found.message)
    return cautions


def _unknown(
    graph: Graph,
    labelled_edges: int,
    cautions: tuple[str, ...],
    told: Told,
    quick: QuickFit | None,
) -> Verdict:
    """Return the verdict on a graph where homophily is undefined."""
    if not graph.labelled.size:
        nothing = (
            "Nothing is labelled: how alike neighbours are is not known, and nothing "
            "can be trained on this graph alone."
        )
        return Verdict("unlabelled", None, (nothing,), cautions=cautions)
    if np.ptp(graph.y[graph.labelled]) == 0:
        reason = "all labelled nodes are of a single class: nothing to tell apart."
    elif not graph.n_edges:
        reason = "there are no edges, hence no neighbours; only features can decide."
    elif not labelled_edges:
        reason = "no edge joins two labelled nodes."
    else:
        reason = "all edges between labelled nodes lie in a single class."
    summary = (f"How alike neighbours are has no value here: {reason}",)
    if np.ptp(graph.y[graph.labelled]) == 0:
        return Verdict("undefined", None, summary, cautions=cautions)
    models, advice = recommend(graph, "undefined", told, quick=quick)
    return Verdict("undefined", None, summary, (), models, advice, cautions)
