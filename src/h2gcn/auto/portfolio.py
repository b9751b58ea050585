"""The members: presets that differ in what they see of a graph, the quickest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from h2gcn.graph import Graph

__all__ = ["Member", "default_time_limit", "find_portfolio", "quick_members"]

WIDE = 300
"""Features from which on a table leaves out means along walks of two directions."""
FEW_NODES, MANY_NODES = 1_000, 50_000
"""Nodes between which the rows of the adjacency are worth being columns; a graph of
fewer is small."""
TIME_LIMIT_SECONDS, LARGE_TIME_LIMIT_SECONDS = 180.0, 600.0
LARGE_EDGES = 1_000_000  # from which on the longer time limit is the default


Recipe = dict[str, Any]
"""Parameters of a `NodeClassifier`."""


@dataclass(frozen=True)
class Member:
    """A preset with a name.

    Parameters
    ----------
    name
        On the leaderboard.
    model
        A name of `h2gcn.models.MODELS`.
    sees
        What it looks at, in words.
    params
        Further parameters of a `NodeClassifier`.
    uses_graph
        Whether it looks at edges.
    """

    name: str
    model: str
    sees: str
    params: Mapping[str, Any] = field(default_factory=dict)
    uses_graph: bool = True


def default_time_limit(graph: Graph) -> float:
    """Return the time limit in seconds of a contest where none is given."""
    large = graph.n_edges >= LARGE_EDGES
    return LARGE_TIME_LIMIT_SECONDS if large else TIME_LIMIT_SECONDS


_NET: Recipe = {"epochs": 400, "patience": 30, "stopping": "loss"}
"""How members with epochs are trained: until the validation loss rises."""
SMALL_L2 = 5e-3
"""Weight decay for counts that are taken as they are, in a graph of few nodes."""


def find_portfolio(graph: Graph, scaling: str = "auto") -> tuple[Member, ...]:
    """Return the members that make sense for a graph, in the order to be fitted.

    Parameters
    ----------
    graph
        With or without edges and directions.
    scaling
        Of the features; "auto" lets members differ in it.
    """
    found = _without_graph(graph, scaling)
    if graph.adj.nnz:
        found += _quick(graph) + _slow(graph, scaling)
    order = {name: place for place, name in enumerate(_ORDER)}
    return tuple(sorted(found, key=lambda member: order[member.name]))


_ORDER = (
    "label-propagation",
    "logistic",
    "label-propagation-2hop",
    "linbp",
    "mlp",
    "c-ignn",
    "h2gcn-1",
    "gpr-gnn",
    "acm-gcn",
    "boosted-trees",
    "ring-table",
    "h2gcn-2",
    "boosted-trees-alone",
    "ring-table-adjacency",
    "residual-gcn",
)
"""By worth per second: what is quick, or often best, goes first."""


def _table(*parts: str) -> dict[str, Any]:
    return {"options": {"table": "+".join(part for part in parts if part)}}


def _without_graph(graph: Graph, scaling: str) -> list[Member]:
    """Return members that look at own features alone."""
    net, _, _ = _trained(graph, scaling)
    found = [Member("mlp", "mlp", "own features", net, False)]
    if graph.n_features <= WIDE:
        found.append(
            Member(
                "boosted-trees-alone",
                "boosted-trees",
                "own features",
                _table("ego"),
                False,
            )
        )
    if not graph.adj.nnz:
        found.append(
            Member("logistic", "logistic", "own features", _table("ego"), False)
        )
    return found


_NEAR = "degrees+edges+labels"
"""Blocks of a table that are narrow, and say much."""


def _quick(graph: Graph) -> list[Member]:
    """Return members that are fitted in one go."""
    sees = "own features, rings, labels nearby"
    table = _table("ego+rings", _walks(graph), _NEAR)
    return [
        Member("logistic", "logistic", sees, table),
        Member("boosted-trees", "boosted-trees", sees, table),
        *_SPREADING,
    ]


def _walks(graph: Graph) -> str:
    """Return the blocks of a table that follow directions, "" without any."""
    if graph.directed is None:
        return ""
    return "out+in" if graph.n_features > WIDE else "directions"


_SPREADING = (
    Member("label-propagation", "label-propagation", "labels of neighbours"),
    Member("linbp", "linbp", "labels, and which classes are neighbours"),
    Member("label-propagation-2hop", "label-propagation-2hop", "labels two hops away"),
)
"""Members that look at labels and edges alone; the last needs the 2-hop ring."""


def _slow(graph: Graph, scaling: str) -> list[Member]:
    """Return members that are trained in epochs."""
    net, own, raw = _trained(graph, scaling)
    found = [
        Member("h2gcn-1", "h2gcn-1", "rings", net),
        Member("h2gcn-2", "h2gcn-2", "rings, twice", raw),
        Member("gpr-gnn", "gpr-gnn", "ten steps, each with its weight", own),
        Member("acm-gcn", "acm-gcn", "neighbours, and how one differs from them", own),
        Member(
            "c-ignn",
            "c-ignn",
            "neighbours",
            {**raw, **_table("ego+power1")},
        ),
        Member(
            "ring-table",
            "ring-table",
            "rings, degrees, labels nearby",
            {**own, **_table("ego+rings", _NEAR)},
        ),
        Member(
            "residual-gcn",
            "residual-gcn",
            "twelve steps",
            {
                **own,
                "epochs": 1000,
                "patience": 100,
                "dropout": 0.2,
                "l2": 0.0,
                "options": {"layers": 12},
            },
        ),
    ]
    if FEW_NODES <= graph.n_nodes <= MANY_NODES:
        places = "directions" if graph.directed is not None else "rings"
        found.append(
            Member(
                "ring-table-adjacency",
                "ring-table",
                f"{places}, labels nearby, who the neighbours are",
                {**raw, **_table("ego", places, _NEAR, "adjacency")},
            )
        )
    return found


def _trained(graph: Graph, scaling: str) -> tuple[Recipe, Recipe, Recipe]:
    """Return how members are trained: most of them, on scaled features, and on counts.

    Counts, such as words, may stay as they are. In a graph of few nodes most members
    have a smaller log-loss so, with more weight decay (found on held-out nodes of the
    three smallest benchmarks).
    """
    scaled = {**_NET, "scaling": scaling}
    if scaling != "auto" or not _holds_counts(graph):
        return scaled, scaled, scaled
    raw = {**_NET, "scaling": "none"}
    if graph.n_nodes >= FEW_NODES:
        return scaled, scaled, raw
    raw["l2"] = SMALL_L2
    return raw, scaled, raw


def _holds_counts(graph: Graph) -> bool:
    """Return whether features are counts, such as words: not below 0, and mostly 0."""
    if isinstance(graph.x, np.ndarray):
        first = graph.x[:1000]
        return bool((first >= 0).all() and (first == 0).mean() > 0.5)
    return bool((graph.x.data >= 0).all())


QUICK_C = 10.0  # of a quick fit, where a search for C would take most of the time


def quick_members(graph: Graph, *, far: bool = True) -> tuple[Member, ...]:
    """Return the models of a quick fit that make sense for a graph.

    Parameters
    ----------
    graph
        The graph.
    far
        Whether its 2-hop ring is small enough to be looked at.
    """
    alone = _regression("logistic-alone", "own features", "ego", graph=False)
    if not graph.n_edges:
        return (alone,)
    sees = "own features, neighbours' and their labels"
    recipe = ["ego", "rings", "degrees", "edges", "labels"]
    if not far:
        recipe = ["ego", "ring1", "edges", "labels.ring1"]
    if walks := _walks(graph):
        recipe += [walks, *([] if far else ["labels.out", "labels.in"])]
        sees += ", by directions"
    seeing = _regression("logistic", sees, "+".join(recipe), graph=True)
    return (alone, *(_SPREADING if far else _SPREADING[:-1]), seeing)


def _regression(name: str, sees: str, table: str, *, graph: bool) -> Member:
    options = {"table": table, "C": QUICK_C}
    return Member(name, "logistic", sees, {"options": options}, graph)
