"""Where the rings of a training are, told before they are made."""

from __future__ import annotations

import torch

from h2gcn.graph import Graph
from h2gcn.models import find_model
from h2gcn.operators import _REMEMBERED
from h2gcn.ring_plan import CAPPED, MEMORY, RingOptions, plan_rings

__all__ = ["ring_place"]


def ring_place(
    graph: Graph, model: str, device: torch.device, rings: RingOptions
) -> str:
    """Return where `find_operators` has the rings of a graph, or will put them.

    Sums of the same numbers in another order differ in their last bits, and each
    place has its own order.

    Parameters
    ----------
    graph, model, device, rings
        As `find_operators` takes them.
    """
    spec = find_model(model)
    if not spec.rings:
        return MEMORY
    remembered = _REMEMBERED.get(graph)
    if (
        remembered is not None
        and remembered[0] == (model, device, rings)
        and remembered[1] in (MEMORY, CAPPED)
        and rings.limit is None
    ):
        return remembered[1]  # they take no more memory than they do already
    return plan_rings(graph.adj, spec.fixed["hops"], rings)[0]
