"""Everything that can be told of a graph before a model is trained on it."""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__, homophily
from h2gcn._validation import check_integer
from h2gcn.diagnosis.advice import Design, QuickFit, Verdict, judge
from h2gcn.diagnosis.auditing import Audit, audit, large_rings
from h2gcn.exceptions import UndefinedMeasureWarning
from h2gcn.graph import Graph
from h2gcn.homophily import (
    DegreeRange,
    DirectionShare,
    RingShare,
    direction_shares,
    edge_ends,
    graph_card,
    ring_shares,
)
from h2gcn.rings import RingForecast, forecast_rings

__all__ = [
    "MEASURES",
    "ClassShare",
    "DegreeBin",
    "Design",
    "Diagnosis",
    "RingShare",
    "Verdict",
    "diagnose",
]

MAX_RING_ENTRIES = 200_000_000
"""The largest ring that a diagnosis looks at, some rows at a time; some seconds."""
MEASURES: dict[str, str] = {
    "edge_homophily": "share of the edges that join equal labels",
    "node_homophily": "share of equal labels among a node's neighbours, mean",
    "class_insensitive_homophily": "excess over class size, mean over classes; "
    "0 is chance",
    "adjusted_homophily": "edge homophily beyond chance; 0 is chance, 1 is all alike",
    "label_informativeness": "what a neighbour's label says about a node's own; "
    "0 nothing, 1 all",
    "label_smoothness": "share of the edges that join different labels; 0 is smooth",
    "feature_smoothness": "how far apart neighbours' features are; 0 is equal, "
    "2 as far as can be",
}
"""The measures that a diagnosis takes, and what each means."""


@dataclass(frozen=True)
class DegreeBin:
    """How many nodes have `low` to `high` neighbours, both in."""

    low: int
    high: int
    count: int


@dataclass(frozen=True)
class ClassShare:
    """A class: its labelled nodes, and the share of its edge ends that stay in it."""

    name: str
    size: int
    homophily: float | None


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found, as plain data; None is a value that is not defined.

    Parameters
    ----------
    card
        The graph's card (`h2gcn.homophily.measures.graph_card`).
    verdict
        What kind of graph it is, and what follows.
    measures, undefined
        Value of each of `MEASURES`, and why there is none.
    labelled_edges
        How many edges, between two labelled nodes, the measures rest on.
    classes
        The classes in the graph's order, [C].
    compatibility
        Share of class i's edge ends that lead to class j, [C, C]; None without labels.
    rings
        How alike the nodes at distance 1, 2, … are.
    degree_homophily
        Mean node homophily in ranges of the number of labelled neighbours.
    degrees
        The histogram of the degree: 0, 1, 2 to 3, 4 to 7, …
    forecast
        How large the rings are.
    audit
        What could mislead, or hardly fits in memory.
    record
        What the reader merged, symmetrised and dropped, a sentence each.
    directions
        What labels tell along directions; none without directions or labels.
    quick
        What a quick fit of cheap models found; None where there was none.
    """

    card: dict[str, object]
    verdict: Verdict
    measures: dict[str, float | None]
    undefined: dict[str, str]
    labelled_edges: int
    classes: tuple[ClassShare, ...]
    compatibility: tuple[tuple[float | None, ...], ...] | None
    rings: tuple[RingShare, ...]
    degree_homophily: tuple[DegreeRange, ...]
    degrees: tuple[DegreeBin, ...]
    forecast: RingForecast
    audit: Audit
    record: tuple[str, ...]
    directions: tuple[DirectionShare, ...] = ()
    quick: QuickFit | None = None

    @property
    def name(self) -> str:
        """The graph's name."""
        return str(self.card["name"])

    def to_json(self) -> dict[str, Any]:
        """Return all of it in dicts, lists and plain values, never NaN."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        plain["verdict"]["sentences"] = self.verdict.sentences
        return {**plain, "version": __version__}


def diagnose(
    graph: Graph,
    *,
    hops: int = 2,
    max_ring_entries: int = MAX_RING_ENTRIES,
    quick: QuickFit | None = None,
) -> Diagnosis:
    """Measure and audit a graph, and say what kind of graph it is.

    Parameters
    ----------
    graph
        The graph; unlabelled ones are welcome.
    hops
        The largest distance to look at.
    max_ring_entries
        Larger rings, by the forecast, are not looked at (ring 1 always is).
    quick
        What `h2gcn.estimator.quick_fit` found on the graph, for the advice to rest on;
        None leaves it to the measures.

    Examples
    --------
    >>> square = np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1)
    >>> found = diagnose(Graph(x=np.eye(4), adj=square, y=[0, 1, 0, 1]))
    >>> found.verdict.kind, [ring.homophily for ring in found.rings]
    ('heterophilous', [0.0, 1.0])
    """
    check_integer("hops", hops, 1)
    check_integer("max_ring_entries", max_ring_entries, 0)
    measures, undefined = {}, {}
    for key in MEASURES:
        measures[key], reason = _measure(getattr(homophily, key), graph)
        if reason:
            undefined[key] = reason
    labelled_edges = int(edge_ends(graph.adj, graph).sum()) // 2
    shares = _compatibility(graph)
    sizes = np.bincount(graph.y[graph.labelled], minlength=graph.n_classes)
    forecast = forecast_rings(graph.adj, hops=hops)
    rings = ring_shares(graph, forecast, max_ring_entries)
    directions = tuple(direction_shares(graph)) if graph.labelled.size else ()
    report = audit(graph).joined(large_rings(graph, forecast))
    return Diagnosis(
        card=graph_card(graph),
        verdict=judge(
            graph,
            measures["adjusted_homophily"],
            measures["label_informativeness"],
            rings,
            report.findings,
            labelled_edges,
            directions,
            quick,
        ),
        measures=measures,
        undefined=undefined,
        labelled_edges=labelled_edges,
        classes=tuple(
            ClassShare(str(name), int(sizes[k]), shares[k][k])
            for k, name in enumerate(graph.classes)
        ),
        compatibility=shares if graph.labelled.size else None,
        rings=tuple(rings),
        degree_homophily=tuple(homophily.degree_homophily(graph)),
        degrees=_histogram(graph.degrees),
        forecast=forecast,
        audit=report,
        record=tuple(graph.record.sentences()),
        directions=directions,
        quick=quick,
    )


def _measure(take: Callable[[Graph], float], graph: Graph) -> tuple[float | None, str]:
    """Return a measure's value, or None and why it has none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedMeasureWarning)
        value = take(graph)
    if not math.isnan(value):
        return value, ""
    reason = str(caught[-1].message).rpartition("(NaN): ")[2].removesuffix(".")
    if reason == homophily.NO_EDGE and not graph.labelled.size:
        return None, "nothing is labelled"
    return None, reason


def _compatibility(graph: Graph) -> tuple[tuple[float | None, ...], ...]:
    with warnings.catch_warnings():
        # A row of None says the same as the warning.
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        matrix = homophily.compatibility_matrix(graph)
    return tuple(
        tuple(None if math.isnan(share) else share for share in row)
        for row in matrix.tolist()
    )


def _histogram(degrees: NDArray[np.int64]) -> tuple[DegreeBin, ...]:
    """Count nodes by degree: 0, 1, 2 to 3, 4 to 7, … up to the highest."""
    powers = range(int(degrees.max(initial=0)).bit_length() + 1)
    bounds = [0, *(2**power for power in powers)]
    counts, _ = np.histogram(degrees, bins=bounds)
    return tuple(
        DegreeBin(low, high - 1, count)
        for (low, high), count in zip(pairwise(bounds), counts.tolist(), strict=True)
    )
