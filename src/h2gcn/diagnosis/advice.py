"""What the measures of a graph mean to someone who has to choose a model for it.

The kind is read off adjusted homophily: the plain share of alike edges depends on how
many classes there are and how even their sizes are, the adjusted one does not. Nothing
is heterophilous, however, where most edges join equal labels. Measures are judged as
they are shown, with two decimals, and no sentence says what its numbers do not.

Of the paper's designs, D1 keeps a node's own embedding apart from its neighbours', D2
gives each distance an aggregation of its own, D3 hands the outcome of every round to
the classifier.

Which models to take follows from what labels tell, and from quick scores.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from h2gcn.diagnosis.auditing import LARGE_RINGS, Finding
from h2gcn.diagnosis.numbers import number, percent, percents
from h2gcn.graph import Graph
from h2gcn.homophily import DirectionShare, RingShare

__all__ = [
    "METRIC_WORDS",
    "PLACES",
    "Design",
    "Kind",
    "Likeness",
    "Neighbours",
    "QuickFit",
    "QuickScore",
    "Told",
    "Verdict",
    "adjusted_share",
    "expected_designs",
    "is_close",
    "judge",
    "likeness",
    "place_sentences",
    "places_told",
    "recommend",
]

METRIC_WORDS = {"accuracy": "accuracy", "macro_f1": "macro F1", "roc_auc": "ROC-AUC"}
"""How metrics are called in a sentence."""
ERRORS = 2.0
"""So many standard errors are no proof of a difference."""


@dataclass(frozen=True)
class QuickScore:
    """One model of a quick fit.

    Parameters
    ----------
    name
        Of the line.
    model
        Of the model; lines of one model differ in what it sees.
    sees
        What it looks at, in words.
    uses_graph
        Whether it looks at edges.
    score
        On the held-out nodes, a fraction of 1; None where it was left out.
    behind, behind_error
        How far it is behind the best on the same nodes, and the standard error of that.
    seconds
        That it took.
    note
        Why it was left out, or what is to be known of its fit; or "".
    """

    name: str
    model: str
    sees: str
    uses_graph: bool
    score: float | None
    behind: float | None
    behind_error: float | None
    seconds: float
    note: str = ""

    @property
    def leads(self) -> bool:
        """Whether the held-out nodes cannot tell it from the best."""
        if self.behind is None or self.behind_error is None:
            return False
        return self.behind <= ERRORS * self.behind_error


@dataclass(frozen=True)
class QuickFit:
    """Cheap models on nodes that they were not fitted to.

    Parameters
    ----------
    rows
        The best first, those that were left out last; none where `note` says why.
    metric
        "accuracy"; "roc_auc" or "macro_f1" where most nodes are of one class.
    nodes
        How many held-out nodes there are.
    folds
        How many folds they come from; 0 where they were held out once.
    majority
        The score of always saying the largest class.
    seconds, time_limit
        That it took, and that it might have taken.
    note
        Why nothing was fitted, or "".
    """

    rows: tuple[QuickScore, ...]
    metric: str
    nodes: int
    folds: int
    majority: float
    seconds: float
    time_limit: float
    note: str = ""

    @property
    def best(self) -> QuickScore | None:
        """The best model; None where there is none."""
        return next((row for row in self.rows if row.score is not None), None)

    @property
    def leaders(self) -> tuple[QuickScore, ...]:
        """The best model, and those that the held-out nodes cannot tell from it."""
        return tuple(row for row in self.rows if row.leads)

    @property
    def held_out(self) -> str:
        """Where the held-out nodes come from, in words."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{nodes} in {self.folds} folds" if self.folds else nodes


TELLING_MORE = 0.05
"""By how much more labels somewhere must tell to be named for it."""
INFORMATIVE = 0.1
"""From this label informativeness on, labels are worth to be looked at."""
MAX_NAMES = 3
"""So many columns of edges are named."""

PLACES = {
    "ring1": "neighbours",
    "ring2": "nodes two hops away",
    "out": "nodes that edges lead to",
    "in": "nodes that edges come from",
    "out-out": "nodes that two edges in a row lead to",
    "out-in": "nodes that lead to the same ones",
    "in-out": "nodes that the same ones lead to",
    "in-in": "nodes that two edges in a row come from",
}
"""Whose labels they are, in words."""

Told = dict[str, tuple[float, float]]
"""By place: what labels tell there, and what chance alone would give."""


def places_told(
    rings: Sequence[RingShare], directions: Sequence[DirectionShare]
) -> Told:
    """Return what labels tell in each place, and what chance alone would give there.

    Parameters
    ----------
    rings, directions
        As measured; those without a value are left out.
    """
    found = {
        f"ring{ring.hop}": (ring.informativeness, ring.informativeness_chance)
        for ring in rings[:2]
    }
    found |= {
        one.path: (one.informativeness, one.informativeness_chance)
        for one in directions
    }
    return {
        place: (told, chance)
        for place, (told, chance) in found.items()
        if told is not None and chance is not None
    }


def _tells_more(told: Told, one: str, other: str) -> bool:
    """Return whether labels in one place tell more, as shown and beyond chance."""
    (here, by_chance), (there, there_by_chance) = told[one], told[other]
    shown = round(here, 2) - round(there, 2)
    beyond = (here - by_chance) - (there - there_by_chance)
    return min(round(shown, 2), beyond) >= TELLING_MORE


def _best(told: Told, places: Sequence[str]) -> str | None:
    known = [place for place in places if place in told]
    return max(known, key=lambda place: told[place][0] - told[place][1], default=None)


def place_sentences(graph: Graph, told: Told) -> list[str]:
    """Return whose labels tell most, where these are not simply the neighbours'.

    Parameters
    ----------
    graph
        The graph.
    told
        Of `places_told`.
    """
    said = []
    if _far_tells_more(told):
        said.append(
            "Labels two hops away tell more than neighbours' (label informativeness "
            f"{_told(told, 'ring2')} against {_told(told, 'ring1')}): two-hop models "
            "can use them."
        )
    place = _direction(told)
    if place is not None:
        rest = _best(told, ("ring1", "ring2"))
        against = "" if rest is None else f" against {_told(told, rest)} without them"
        said.append(
            f"Directions matter: labels of {PLACES[place]} tell most (label "
            f"informativeness {_told(told, place)}{against}), and only models that "
            "follow directions see them apart."
        )
    elif (place := _best(told, _paths(told))) is not None:
        said.append(
            "Labels along directions tell no more than those of rings (label "
            f"informativeness {_told(told, place)} at most); features along them may."
        )
    columns = graph.edge_columns
    if columns is not None and columns.names:
        names = list(map(str, columns.names))
        more = f" and {len(names) - MAX_NAMES} others" if len(names) > MAX_NAMES else ""
        one = len(names) == 1
        said.append(
            f"Edges carry {'a column' if one else f'{len(names)} columns'} "
            f"({', '.join(names[:MAX_NAMES])}{more}) that no measure here looks at; "
            f"{'it' if one else 'they'} may tell what the edges alone do not."
        )
    return said


def _far_tells_more(told: Told) -> bool:
    return {"ring1", "ring2"} <= set(told) and _tells_more(told, "ring2", "ring1")


def _direction(told: Told) -> str | None:
    """Return the path whose labels tell more than any ring's, if there is one."""
    place = _best(told, _paths(told))
    rings = [name for name in told if name.startswith("ring")]
    if place is None or round(told[place][0], 2) < INFORMATIVE:
        return None
    return place if all(_tells_more(told, place, ring) for ring in rings) else None


def _paths(told: Told) -> list[str]:
    return [place for place in told if not place.startswith("ring")]


def _told(told: Told, place: str) -> str:
    return number(told[place][0], 2)


def recommend(
    graph: Graph,
    kind: str,
    told: Told,
    alike: Collection[str] = (),
    quick: QuickFit | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return models to take, and sentences: the first is what to do next.

    Parameters
    ----------
    graph
        With labels of two classes at least.
    kind
        Of the verdict.
    told
        Of `places_told`.
    alike
        Which of "ring1" and "ring2" are more alike than by chance.
    quick
        What a quick fit found; None where there was none.
    """
    best = quick.best if quick is not None else None
    measured = _by_measures(graph, kind, told, alike)
    leading: list[str] = []
    if quick is not None:
        leading = [row.model for row in quick.leaders]
        # What was fitted and is behind is no advice, whatever the measures say.
        behind = {row.model for row in quick.rows if row.score is not None}
        measured = [name for name in measured if name not in behind]
        if any(row.model == "logistic" and row.uses_graph for row in quick.leaders):
            measured = [
                *measured,
                *([] if "ring-table" in measured else ["ring-table"]),
            ]
    said = [_next(quick, best), *_what_the_graph_adds(quick, best)]
    said += place_sentences(graph, told)
    compare = tuple(dict.fromkeys((*leading, *measured)))
    if compare:
        listed = ", ".join(compare[:-1]) + " and " if len(compare) > 1 else ""
        said.append(f"Of single models, compare {listed}{compare[-1]}.")
    return ("auto", *compare), tuple(said)


def _by_measures(
    graph: Graph, kind: str, told: Told, alike: Collection[str]
) -> list[str]:
    """Return models that use what the measures find."""
    if not graph.n_edges:
        return ["mlp"]
    models = ["h2gcn-1", "h2gcn-2", "mlp"]
    tells = {
        place for place, (value, _) in told.items() if round(value, 2) >= INFORMATIVE
    }
    if kind != "heterophilous":
        models.append("gcn")
    if "ring1" in tells:
        models.append("label-propagation" if "ring1" in alike else "linbp")
    # Both spread labels as they are: of use where nodes are alike.
    if "ring2" in tells and "ring2" in alike and _far_tells_more(told):
        models.append("label-propagation-2hop")
    if tells:
        models.append("ring-table")
    if _direction(told) is not None:
        models.append("dir-gnn")
    return models


def _next(quick: QuickFit | None, best: QuickScore | None) -> str:
    todo = (
        "Next: train auto (h2gcn train on one's own data, NodeClassifier(model='auto') "
        "in Python), which fits a dozen models and lets the best answer."
    )
    if quick is None or best is None or best.score is None:
        return todo
    metric = METRIC_WORDS[quick.metric]
    where = f"on {quick.held_out} that it was not fitted to"
    score, floor = percents(best.score, quick.majority)
    if not _beats(best.score, quick):
        return (
            f"{todo} Expect little: no quick model is surely better than always saying "
            f"the largest class ({metric} {floor}); {best.name} has {score} {where}."
        )
    return (
        f"{todo} Expect {_an(metric)} of about {score} or more: {best.name} "
        f"({best.sees}) has that {where}; always saying the largest class has {floor}."
    )


def _an(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _beats(score: float, quick: QuickFit) -> bool:
    """Return whether a score is above that of the largest class, beyond noise."""
    error = math.sqrt(max(score * (1 - score), 0.0) / max(quick.nodes, 1))
    return score - quick.majority > ERRORS * error


def _what_the_graph_adds(quick: QuickFit | None, best: QuickScore | None) -> list[str]:
    """Return in a sentence what the best model with edges gains over one without."""
    if quick is None or best is None:
        return []
    known = [row for row in quick.rows if row.score is not None]
    alone = next((row for row in known if not row.uses_graph), None)
    helped = next((row for row in known if row.uses_graph), None)
    if alone is None or helped is None:
        return []
    assert alone.score is not None
    assert helped.score is not None
    texts = percents(helped.score, alone.score)
    told = (
        f"{METRIC_WORDS[quick.metric]} {texts[0]} with it ({helped.name}), "
        f"{texts[1]} without ({alone.name})"
    )
    behind = helped if best is alone else alone
    if behind.leads:
        return [f"Whether the graph helps, these nodes cannot tell: {told}."]
    if best is alone:
        return [f"The graph does not help the quick models: {told}."]
    return [f"The graph helps: {told}."]


Likeness = Literal["alike", "unlike", "by chance"]
"""More often alike than by chance, less often, or neither."""

NEAR_CHANCE, NEAR_RATIO, NEAR_ADJUSTED = 0.0201, 0.25, 0.1
"""A share is close to chance if neither the gap is larger, nor its part of the larger
of the two, nor its part of all that chance leaves, as shown with two decimals."""


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
