"""Which models to take, and why: from what labels tell, and from quick scores."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from h2gcn.diagnosis.numbers import number, percents
from h2gcn.graph import Graph
from h2gcn.homophily import DirectionShare, RingShare

__all__ = [
    "METRIC_WORDS",
    "PLACES",
    "QuickFit",
    "QuickScore",
    "Told",
    "place_sentences",
    "places_told",
    "recommend",
]

METRIC_WORDS = {"accuracy": "accuracy", "macro_f1": "macro F1", "roc_auc": "ROC-AUC"}
"""How metrics are called in a sentence."""
ERRORS = 2.0
"""A model that is so many standard errors behind the best is told from it."""


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
TELLING = 0.1
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
    if place is None or round(told[place][0], 2) < TELLING:
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
    tells = {place for place, (value, _) in told.items() if round(value, 2) >= TELLING}
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
