"""What the measures of a graph mean to someone who has to choose a model for it.

The kind is read off adjusted homophily: the plain share of alike edges depends on how
many classes there are and how even their sizes are, the adjusted one does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from h2gcn.diagnosis.designs import Design, Kind, Neighbours, expected_designs
from h2gcn.diagnosis.findings import Finding
from h2gcn.graph import Graph
from h2gcn.homophily import RingShare

__all__ = ["Verdict", "judge"]

HOMOPHILOUS = 0.5
"""From this adjusted homophily on, a graph is homophilous."""
HETEROPHILOUS = 0.1
"""Up to this adjusted homophily, a graph is heterophilous."""
INFORMATIVE = 0.1
"""From this label informativeness on, a neighbour's label is informative."""
UNINFORMATIVE = 0.02
"""Below this label informativeness, a neighbour's label says almost nothing."""
FEW_EDGES = 50
"""Measures that rest on fewer labelled edges are only a hint."""


@dataclass(frozen=True)
class Verdict:
    """What kind of graph it is, and what follows.

    Parameters
    ----------
    kind
        What adjusted homophily says.
    neighbours
        What label informativeness says; None where it has no value.
    summary
        The kind in words, a sentence each.
    designs
        D1, D2 and D3; none where nothing is known about neighbours.
    models
        Names of the models to compare.
    advice
        A sentence about these models.
    cautions
        What to know before trusting a result, a sentence each.
    """

    kind: Kind
    neighbours: Neighbours | None
    summary: tuple[str, ...]
    designs: tuple[Design, ...] = ()
    models: tuple[str, ...] = ()
    advice: str = ""
    cautions: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """All of it in reading order."""
        designs = [
            f"{design.name}, {design.title}: {design.reason}" for design in self.designs
        ]
        advice = [self.advice] if self.advice else []
        return [*self.summary, *designs, *advice, *self.cautions]


def judge(
    graph: Graph,
    adjusted: float | None,
    informativeness: float | None,
    rings: Sequence[RingShare],
    findings: Sequence[Finding],
    labelled_edges: int,
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
    """
    cautions = tuple(_cautions(findings))
    if adjusted is None or informativeness is None:
        return _unknown(graph, labelled_edges, cautions)
    kind: Kind = "mixed"
    if adjusted >= HOMOPHILOUS:
        kind = "homophilous"
    elif adjusted <= HETEROPHILOUS:
        kind = "heterophilous"
    neighbours: Neighbours = "weak"
    if informativeness >= INFORMATIVE:
        neighbours = "informative"
    elif informativeness < UNINFORMATIVE and abs(adjusted) <= HETEROPHILOUS:
        neighbours = "uninformative"
    if labelled_edges < FEW_EDGES:
        edges = "1 edge" if labelled_edges == 1 else f"{labelled_edges} edges"
        few = f"All this rests on {edges} between labelled nodes: a hint, no more."
        cautions = (few, *cautions)
    gcn = () if kind == "heterophilous" else ("gcn",)
    models = ("h2gcn-1", "h2gcn-2", "mlp", *gcn)
    designs = expected_designs(kind, neighbours, rings)
    summary = (
        _kind_sentence(kind, neighbours, adjusted, rings[0]),
        _neighbour_sentence(kind, neighbours, informativeness),
    )
    advice = f"Compare {', '.join(models[:-1])} and {models[-1]}."
    if neighbours == "uninformative":
        advice += " If mlp, which sees no edges, is as good, the graph does not help."
    return Verdict(kind, neighbours, summary, designs, models, advice, cautions)


def _kind_sentence(
    kind: Kind, neighbours: Neighbours, adjusted: float, ring: RingShare
) -> str:
    numbers = (
        f"{ring.homophily:.0%} of the edges join equal labels, where chance would give "
        f"{ring.chance:.0%}; adjusted homophily {adjusted:z.2f}"
    )
    if kind == "homophilous":
        return f"Homophilous: most neighbours are alike ({numbers})."
    if kind == "mixed":
        return f"Mixed: neighbours are alike more often than by chance ({numbers})."
    # Among many classes chance itself is near 0, and so is what lies below it.
    if adjusted < -HETEROPHILOUS or neighbours == "informative":
        return f"Heterophilous: neighbours are mostly unlike ({numbers})."
    return (
        "Heterophilous, or rather without preference: neighbours are alike about as "
        f"often as by chance ({numbers})."
    )


def _neighbour_sentence(kind: Kind, neighbours: Neighbours, value: float) -> str:
    number = f"(label informativeness {value:z.2f})"
    if neighbours == "uninformative":
        return (
            f"Neighbours' labels say almost nothing about a node's own {number}: the "
            "features, its own and perhaps theirs, have to decide."
        )
    if neighbours == "weak":
        return (
            f"A neighbour's label says little about a node's own {number}; many "
            "neighbours together may say more."
        )
    if kind == "heterophilous":
        return (
            f"Informative although unlike: which class a neighbour is of says "
            f"something about a node's own {number}."
        )
    return f"A neighbour's label says much about a node's own {number}."


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
    return cautions


def _unknown(graph: Graph, labelled_edges: int, cautions: tuple[str, ...]) -> Verdict:
    """Return the verdict on a graph where homophily is undefined."""
    if not graph.labelled.size:
        nothing = (
            "Nothing is labelled: how alike neighbours are is not known, and nothing "
            "can be trained on this graph alone."
        )
        return Verdict("unlabelled", None, (nothing,), cautions=cautions)
    models: tuple[str, ...] = ("h2gcn-1", "h2gcn-2", "mlp", "gcn")
    advice = f"Compare {', '.join(models[:-1])} and {models[-1]} on validation nodes."
    if np.ptp(graph.y[graph.labelled]) == 0:
        reason = "all labelled nodes are of a single class: nothing to tell apart."
        models, advice = (), ""
    elif not graph.n_edges:
        reason = "there are no edges, hence no neighbours; only features can decide."
        models, advice = ("mlp",), "Use mlp, which needs no edges."
    elif not labelled_edges:
        reason = "no edge joins two labelled nodes."
    else:
        reason = "all edges between labelled nodes lie in a single class."
    summary = (f"How alike neighbours are has no value here: {reason}",)
    return Verdict("undefined", None, summary, (), models, advice, cautions)
