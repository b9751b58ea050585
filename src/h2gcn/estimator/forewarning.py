"""What is told before a fit: rings that are capped or large, findings that mislead."""

from __future__ import annotations

import warnings
from weakref import WeakSet

from h2gcn.diagnosis import audit
from h2gcn.estimator.parameters import Params, far_hops, operator_hops, spec_of
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import Graph, Split
from h2gcn.rings import (
    RING_CAP,
    automatic_cap,
    cap_words,
    forecast_ring,
    forecast_seconds,
    in_words,
    is_long,
)

__all__ = ["choose_cap", "resolve_cap", "warn_of_findings", "without_findings"]

WALKS = 10_000_000
"""Walks of length two below which no ring is large, and no forecast is made."""


def resolve_cap(params: Params, graph: Graph) -> int | None:
    """Return how many of each ring a fit draws, None for all; tell what it chose.

    Parameters
    ----------
    params
        Of a `NodeClassifier` of one model, checked.
    graph
        The graph of training.
    """
    cap, hops = params["ring_cap"], far_hops(params)
    if hops < 2 or params["ring_store"] is not None:
        return None if isinstance(cap, str) else cap
    # What rings among the operators take is told where they are built.
    return choose_cap(
        cap or "exact", graph, hops, tell=operator_hops(spec_of(params)) < 2
    )


def choose_cap(
    cap: int | str, graph: Graph, hops: int = 2, *, tell: bool = True
) -> int | None:
    """Return how many of each ring are drawn, None for all; tell what was chosen.

    Parameters
    ----------
    cap
        A number; "exact"; or "auto": `h2gcn.rings.automatic_cap` says.
    graph
        The graph.
    hops
        How many rings there are.
    tell
        Whether to tell of exact rings that take long.
    """
    if not isinstance(cap, str):
        return cap
    if int((graph.degrees**2).sum()) < WALKS:  # they bound the entries of ring 2
        return None
    forecast = forecast_ring(graph.adj, hops=hops)
    found = automatic_cap(forecast, graph.n_nodes) if cap == "auto" else None
    said = ""
    if found is not None:
        said = cap_words(forecast, graph.n_nodes, found)
    elif tell and is_long(forecast, graph.n_nodes):
        seconds = forecast_seconds(forecast, graph.n_nodes)
        said = (
            f"the rings are large: {forecast}; it takes {in_words(seconds.build)} to "
            f"build them; ring_cap={RING_CAP} takes a sample of each node's"
        )
    if said:
        warnings.warn(said, H2GCNWarning, stacklevel=3)
    return found


MISLEADING = {"leakage", "label_features", "twins"}
"""Findings of the audit that make scores look better than they are."""
_LOOKED_AT: WeakSet[Graph] = WeakSet()
"""Graphs that have been through the audit: it is told once."""


def without_findings(graph: Graph) -> None:
    """Have fits on a graph say nothing of it, for one who has looked at it already.

    Parameters
    ----------
    graph
        The graph.
    """
    _LOOKED_AT.add(graph)


def warn_of_findings(graph: Graph, split: Split) -> None:
    """Warn of what makes scores on a graph look better than they are, once a graph.

    Parameters
    ----------
    graph
        The graph.
    split
        The first that a model is fitted on.
    """
    if graph in _LOOKED_AT:
        return
    _LOOKED_AT.add(graph)
    for finding in audit(graph, split).findings:
        if finding.kind in MISLEADING and finding.severity != "note":
            warnings.warn(
                f"{graph.name}: {finding.message}", H2GCNWarning, stacklevel=3
            )
