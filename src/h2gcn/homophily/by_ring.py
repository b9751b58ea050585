"""How alike nodes are at each distance, and along each direction."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_choice, check_real, check_type
from h2gcn.graph import CSR, Graph, check_is_graph
from h2gcn.homophily.measures import (
    edge_ends,
    informativeness_by_chance,
    informativeness_of,
    ring_ends,
)
from h2gcn.rings import RingForecast

__all__ = [
    "DIRECTION_PATHS",
    "DirectionShare",
    "RingShare",
    "direction_shares",
    "ring_shares",
    "walk_ends",
]


@dataclass(frozen=True)
class RingShare:
    """The share of equal labels among the pairs at distance exactly `hop`.

    Parameters
    ----------
    hop
        The distance.
    entries
        Stored entries of the ring, two for each pair; a forecast where the ring was
        not built (`exact` is then False, unless all its rows were counted).
    exact
        Whether `entries` is exact.
    homophily
        The share of equal labels among labelled pairs; None where not known.
    chance
        The share that chance would give: Σ_k p_k², where p_k is the share of the
        ring's ends that are at class k.
    adjusted
        (homophily − chance) / (1 − chance): 0 is chance, 1 is all alike.
    note
        Why something is None, or "".
    labelled
        Pairs of which both have a label; None where the ring was not built.
    informativeness
        How much the label of one of a pair tells of the other's (`informativeness_of`):
        0 nothing, 1 all.
    informativeness_chance
        About what counting so few pairs gives where labels tell nothing.
    """

    hop: int
    entries: int
    exact: bool
    homophily: float | None = None
    chance: float | None = None
    adjusted: float | None = None
    note: str = ""
    labelled: int | None = None
    informativeness: float | None = None
    informativeness_chance: float | None = None


def ring_shares(
    graph: Graph, forecast: RingForecast, max_entries: int
) -> list[RingShare]:
    """Return how alike the nodes at distance 1, 2, … are, [hops].

    Rings from the first one on that would be too large are not built.

    Parameters
    ----------
    graph
        The graph.
    forecast
        What `forecast_ring` says of it; one ring for each of its entries.
    max_entries
        The most entries that a ring beyond the first may have.

    Examples
    --------
    >>> from h2gcn.rings import forecast_ring
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph = Graph(x=np.eye(3), adj=path, y=[0, 1, 0])
    >>> [ring.homophily for ring in ring_shares(graph, forecast_ring(graph.adj), 9)]
    [0.0, 1.0]
    """
    check_is_graph("ring_shares", graph)
    check_type("ring_shares", "forecast", forecast, RingForecast, "a RingForecast")
    check_real("ring_shares", "max_entries", max_entries, "[0, inf]")
    reasons = _not_built(graph, forecast, max_entries)
    build = next((hop for hop, reason in enumerate(reasons) if reason), len(reasons))
    shares = [_ring_share(hop, *ring_ends(graph, hop)) for hop in range(1, build + 1)]
    for hop in range(build + 1, len(reasons) + 1):
        entries, exact = forecast.entries[hop - 1], forecast.exact or hop == 1
        note = reasons[hop - 1] or f"left out, as ring {build + 1} was"
        shares.append(RingShare(hop, entries, exact, note=note))
    return shares


def _not_built(graph: Graph, forecast: RingForecast, max_entries: int) -> list[str]:
    """Return for each ring why it is not built, or ""."""
    if not graph.labelled.size:
        return ["nothing is labelled"] * len(forecast.entries)
    about = "" if forecast.exact else "about "
    reasons = [
        f"left out, as it would hold {about}{entries:,} entries, more than the limit "
        f"of {max_entries:,}"
        if entries > max_entries
        else ""
        for entries in forecast.entries[1:]
    ]
    return ["", *reasons]


def _ring_share(hop: int, entries: int, ends: NDArray[np.int64]) -> RingShare:
    total = int(ends.sum())
    if not total:
        note = f"no two labelled nodes are at distance {hop}"
        return RingShare(hop, entries, True, note=note, labelled=0)
    alike = float(ends.trace() / total)
    chance = float(((ends.sum(axis=1) / total) ** 2).sum())
    if math.isclose(chance, 1):
        note = f"all labelled nodes at distance {hop} are of a single class"
        return RingShare(hop, entries, True, alike, chance, None, note, total // 2)
    adjusted = (alike - chance) / (1 - chance)
    return RingShare(
        hop,
        entries,
        True,
        alike,
        chance,
        adjusted,
        "",
        total // 2,
        informativeness_of(ends),
        informativeness_by_chance(ends, directed=False),
    )


DIRECTION_PATHS = ("out", "in", "out-out", "out-in", "in-out", "in-in")
"""Where edges lead to and come from; of two steps, "out-in" goes along an edge and
then against another: to the nodes that lead to the same one."""


@dataclass(frozen=True)
class DirectionShare:
    """How alike a node and those that a path leads to are, and what their labels tell.

    Parameters
    ----------
    path
        One of `DIRECTION_PATHS`.
    walks
        How many walks lead from a labelled node to another one: of two steps, two
        nodes count as often as walks join them.
    homophily
        The share of equal labels among them; None without any.
    chance
        The share that chance would give: Σ_k p_k q_k, where p_k is the share of walks
        that begin at class k, and q_k of those that end there.
    informativeness
        How much the label at the end tells of the one at the beginning
        (`informativeness_of`): 0 nothing, 1 all; None where it has no value.
    informativeness_chance
        About what counting so few walks gives where labels tell nothing.
    note
        Why something is None, or "".
    """

    path: str
    walks: int
    homophily: float | None = None
    chance: float | None = None
    informativeness: float | None = None
    informativeness_chance: float | None = None
    note: str = ""


def direction_shares(graph: Graph) -> list[DirectionShare]:
    """Return what labels tell along each of `DIRECTION_PATHS`; none without directions.

    Walks are counted, not listed: the work is about that of a look at each edge, and
    all are exact, however many there are.

    Examples
    --------
    >>> circle = np.roll(np.eye(4), 1, axis=1)
    >>> both = circle + circle.T
    >>> graph = Graph(x=np.eye(4), adj=both, y=[0, 0, 1, 1], directed=circle)
    >>> [(share.path, share.homophily) for share in direction_shares(graph)][:3]
    [('out', 0.5), ('in', 0.5), ('out-out', 0.0)]
    """
    check_is_graph("direction_shares", graph)
    if graph.directed is None:
        return []
    return [_direction_share(path, walk_ends(graph, path)) for path in DIRECTION_PATHS]


def walk_ends(graph: Graph, path: str) -> NDArray[np.int64]:
    """Count walks by the classes of their first and their last node, [C, C].

    Walks that end where they began do not count, nor those from or to a node without a
    label; what is in between may be without one.

    Parameters
    ----------
    graph
        With directions.
    path
        One of `DIRECTION_PATHS`.

    Examples
    --------
    >>> path = np.diag([1, 1], 1)
    >>> graph = Graph(x=np.eye(3), adj=path + path.T, y=[0, -1, 1], directed=path)
    >>> walk_ends(graph, "out-out")
    array([[0, 1],
           [0, 0]])
    """
    check_is_graph("walk_ends", graph)
    check_choice("walk_ends", "path", path, DIRECTION_PATHS)
    along = _binary(graph.directed if graph.directed is not None else graph.adj)
    against = CSR(along.T)
    steps = [along if step == "out" else against for step in path.split("-")]
    if len(steps) == 1:
        return edge_ends(steps[0], graph)
    first, second = steps
    labelled = graph.labelled
    columns = graph.y[labelled], np.ones(labelled.size, dtype=np.int64)
    shape = (graph.n_nodes, graph.n_classes)
    known = sp.csr_array((columns[1], (labelled, columns[0])), shape=shape)
    # Through each node in the middle: those who get there, times where it leads.
    found = (first.T @ known).T @ (second @ known)
    ends: NDArray[np.int64] = found.toarray().astype(np.int64)
    back = np.asarray(first.multiply(second.T).sum(axis=1)).ravel()[labelled]
    np.subtract.at(ends, (columns[0], columns[0]), back.astype(np.int64))
    return ends


def _binary(matrix: CSR) -> CSR:
    """Return ones where a matrix has entries, none on the diagonal."""
    found = sp.coo_array(matrix)
    rows, columns = found.coords
    kept = (rows != columns) & (found.data != 0)
    ones = np.ones(int(kept.sum()), dtype=np.int64)
    return CSR((ones, (rows[kept], columns[kept])), shape=matrix.shape)


def _direction_share(path: str, ends: NDArray[np.int64]) -> DirectionShare:
    total = int(ends.sum())
    if not total:
        return DirectionShare(path, 0, note="no such walk joins two labelled nodes")
    alike = float(ends.trace() / total)
    chance = float(ends.sum(axis=1) / total @ (ends.sum(axis=0) / total))
    told = informativeness_of(ends)
    if math.isnan(told):
        note = "all of them begin in a single class"
        return DirectionShare(path, total, alike, chance, note=note)
    by_chance = informativeness_by_chance(ends, directed=True)
    return DirectionShare(path, total, alike, chance, told, by_chance)
