"""Whether the rings of a graph are too large to be trained on without a thought."""

import numpy as np

from h2gcn.diagnosis.auditing import Finding
from h2gcn.graph import Graph
from h2gcn.rings import CAPS, TRAIN, VAL, Needs, RingForecast, Work
from h2gcn.sparse import available_memory, gigabytes

__all__ = ["LARGE_RINGS", "large_rings"]

LARGE_RINGS = "large_rings"
"""The kind of finding."""
MEMORY_PART = 0.25
"""Rings that take a larger part of the memory there is are large."""
TIMES, BYTES = 50, 1e9
"""So are those with so many times the graph's entries, if they take so many bytes."""
LESS = 0.5
"""A cap is worth naming that leaves this part of the memory at most."""
MOST = 0.5
"""Hubs are named until their neighbours make up this part of the second ring."""


def large_rings(graph: Graph, forecast: RingForecast) -> list[Finding]:
    """Return a warning if the rings beyond the first are large, else nothing.

    It says how large they are, which hubs make them so, and what a cap would leave.

    Parameters
    ----------
    graph
        The graph.
    forecast
        What `forecast_ring` says of it.
    """
    near, far = forecast.entries[0], sum(forecast.entries[1:])
    many = far >= TIMES * near and forecast.bytes >= BYTES
    much = forecast.bytes > MEMORY_PART * available_memory()
    if far <= near or not (many or much):
        return []
    about = "" if forecast.exact else "about "
    what = "The 2-hop ring holds"
    if len(forecast.entries) > 2:
        what = f"The rings of 2 to {len(forecast.entries)} hops hold"
    times = "" if far < 2 * near else f", {far / near:,.0f} times those of the graph"
    message = (
        f"{what} {about}{far:,} entries{times}, and training with it takes {about}"
        f"{gigabytes(forecast.bytes)}: {_hubs(graph, forecast)}. "
        f"{_remedy(graph, forecast)}"
    )
    return [Finding(LARGE_RINGS, "warning", message, far)]


def _hubs(graph: Graph, forecast: RingForecast) -> str:
    """Name the nodes whose neighbours, two hops from one another, fill the ring."""
    degrees = graph.degrees
    order = np.argsort(-degrees, kind="stable")
    pairs = np.cumsum(degrees[order].astype(np.float64) * (degrees[order] - 1))
    count = min(int((pairs < MOST * forecast.entries[1]).sum()) + 1, len(order))
    hub, highest = graph.node_ids[order[0]], int(degrees[order[0]])
    if count == 1:
        return f"node {hub} is a hub of {highest:,} neighbours, at most two hops apart"
    lowest = int(degrees[order[count - 1]])
    return (
        f"{count:,} hubs have from {lowest:,} to {highest:,} neighbours (node {hub}), "
        "at most two hops apart"
    )


def _remedy(graph: Graph, forecast: RingForecast) -> str:
    """Say which cap makes the rings small, or that they can be left out."""
    n, (near, *far) = graph.n_nodes, forecast.entries
    work = Work(n_train=round(TRAIN * n), n_val=round(VAL * n))
    needs = Needs(n, (near,), tuple(far), work)
    for cap in CAPS:
        if needs.capped(cap) <= LESS * forecast.bytes:
            return (
                f"With ring_cap={cap}, which draws {cap} entries a node, it is about "
                f"{gigabytes(needs.capped(cap))}."
            )
    return "The model h2gcn-s1 leaves it out."
