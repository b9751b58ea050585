"""How alike the nodes at each distance are, and how alike chance would make them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import Graph
from h2gcn.homophily.counts import (
    edge_ends,
    informativeness_by_chance,
    informativeness_of,
)
from h2gcn.rings import RingForecast, exact_rings
from h2gcn.sparse import available_memory

__all__ = ["RingShare", "ring_shares"]


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
    reasons = _not_built(graph, forecast, max_entries)
    build = next((hop for hop, reason in enumerate(reasons) if reason), len(reasons))
    rings = exact_rings(graph.adj, hops=build) if build else []
    shares = [
        _share(hop, ring.nnz, edge_ends(ring, graph))
        for hop, ring in enumerate(rings, start=1)
    ]
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
    fits = forecast.bytes <= available_memory()
    reasons = [""]
    for entries in forecast.entries[1:]:
        size = f"left out, as it would hold {about}{entries:,} entries"
        if entries > max_entries:
            reasons.append(f"{size}, more than the limit of {max_entries:,}")
        else:
            reasons.append("" if fits else f"{size}, more than fit in memory")
    return reasons


def _share(hop: int, entries: int, ends: NDArray[np.int64]) -> RingShare:
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
