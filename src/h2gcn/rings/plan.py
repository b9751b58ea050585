"""Plan of rings: in memory, capped, in a file, or computed when they are needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.rings.advice import Needs, refusal
from h2gcn.rings.blocked import BlockedRing, ComputedRing
from h2gcn.rings.capped import capped_ring
from h2gcn.rings.exact import exact_rings, normalised_ring
from h2gcn.rings.footprint import RingOptions
from h2gcn.rings.forecast import RingForecast, forecast_ring
from h2gcn.rings.stored import store_ring
from h2gcn.sparse import Operator, available_memory, gigabytes

__all__ = ["RingOptions", "RingPlan", "build_rings", "check_memory", "plan_rings"]

MEMORY, CAPPED, DISK, ON_DEMAND = "memory", "capped", "disk", "on demand"


@dataclass(frozen=True)
class RingPlan:
    """Where the rings of a graph shall live, and how large they are.

    Parameters
    ----------
    hops
        The rings that are wanted.
    options
        What they may take.
    storage
        Of those beyond the first: "memory", "capped", "disk" or "on demand".
    forecast
        Of their size; None where there are none beyond the first.
    """

    hops: tuple[int, ...]
    options: RingOptions
    storage: str
    forecast: RingForecast | None


def plan_rings(
    adj: CSR,
    hops: Sequence[int],
    options: RingOptions,
    *,
    device: torch.device | str = "cpu",
) -> RingPlan:
    """Choose where the rings of a graph shall live, or say why none of it fits.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hops
        The rings that are wanted.
    options
        What they may take.
    device
        Where those in memory live.
    """
    hops = tuple(hops)
    if max(hops, default=0) < 2:
        check_memory(adj.shape[0], (int(adj.nnz),) * len(hops), options)
        return RingPlan(hops, options, MEMORY, None)
    forecast = forecast_ring(adj, hops=max(hops))
    sizes = {hop: forecast.entries[hop - 1] for hop in hops}
    near, far = (
        tuple(size for hop, size in sizes.items() if (hop > 1) == beyond)
        for beyond in (False, True)
    )
    needs = Needs(adj.shape[0], near, far, options.work)
    forecast = replace(forecast, bytes=needs.operators(near + far, options.batch))
    storage = _choose_storage(needs, forecast, options)
    if storage == DISK and not options.on_demand and str(device) != "cpu":
        raise InputError(
            "rings in a file are multiplied by the processor: add device='cpu', or "
            "train in batches ('batch_size')"
        )
    return RingPlan(hops, options, storage, forecast)


def _choose_storage(needs: Needs, forecast: RingForecast, options: RingOptions) -> str:
    """Return the first storage that fits, or raise with those that would."""
    limit = _limit(options)
    if options.cap is not None:
        need = needs.capped(options.cap, options.batch)
        if need <= limit:
            return CAPPED
    else:
        need = needs.memory(options.batch)
        if need <= limit:
            return MEMORY
        if options.store is not None or options.on_demand:
            need = needs.elsewhere(options.batch)
            if need <= limit:
                return ON_DEMAND if options.store is None else DISK
    raise InputError(refusal(needs, forecast, options, need, limit))


def check_memory(
    n: int, entries: Sequence[int], options: RingOptions, *, symmetric: bool = True
) -> None:
    """Refuse to train where a model's operators and the training do not fit.

    Parameters
    ----------
    n
        Number of nodes.
    entries
        Stored entries of each operator, self-loops left out.
    options
        What training may take.
    symmetric
        Whether they are symmetric.
    """
    needs = Needs(n, tuple(entries), (), options.work, symmetric)
    need, limit = needs.memory(options.batch), _limit(options)
    if need > limit:
        raise InputError(refusal(needs, None, options, need, limit))


def _limit(options: RingOptions) -> float:
    return available_memory() if options.limit is None else options.limit


def build_rings(
    adj: CSR,
    plan: RingPlan,
    *,
    self_loops: bool = False,
    device: torch.device | str = "cpu",
) -> tuple[Operator | BlockedRing, ...]:
    """Return the normalised rings of a graph as they were planned, [n, n] each.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    plan
        Of `plan_rings` for this graph.
    self_loops
        Whether each node is in its own rings too.
    device
        Where those in memory live.
    """
    options, storage = plan.options, plan.storage
    _say(plan)
    first = exact_rings(adj, hops=1)[0]

    def ring(hop: int) -> Operator | BlockedRing:
        if hop > 1 and storage == ON_DEMAND:
            return BlockedRing(ComputedRing(first, hop=hop), self_loops=self_loops)
        if hop > 1 and storage == DISK:
            assert options.store is not None
            stored = store_ring(first, options.store, hop=hop)
            return BlockedRing(stored, self_loops=self_loops)
        if hop > 1 and storage == CAPPED:
            assert options.cap is not None
            capped = capped_ring(
                first, options.cap, hop=hop, seed=options.seed, self_loops=self_loops
            )
            return Operator(capped, device=device)
        matrix = normalised_ring(first, hop, self_loops=self_loops)
        return Operator(matrix, symmetric=True, device=device)

    return tuple(ring(hop) for hop in plan.hops)


def _say(plan: RingPlan) -> None:
    """Tell what was chosen, where there was a choice."""
    storage, forecast, options = plan.storage, plan.forecast, plan.options
    if forecast is None or options.cap is not None:
        return
    if storage == MEMORY and options.store is not None:
        said = f"the rings fit in memory ({forecast}); {options.store} is not needed"
    elif storage == DISK:
        size = gigabytes(4 * sum(forecast.entries[1:]))
        said = (
            f"the rings would not fit in memory ({forecast}); {size} of them are kept "
            f"in {options.store}"
        )
    elif storage == ON_DEMAND:
        said = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
            "when they are needed"
        )
    else:
        return
    warnings.warn(said, H2GCNWarning, stacklevel=2)
