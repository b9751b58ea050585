"""Where the rings of a graph shall live: in memory, capped, in a file, or nowhere."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from h2gcn.blocked_ring import BlockedRing, ComputedRing
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.memory import available_memory, gigabytes
from h2gcn.ring_cap import capped_ring
from h2gcn.ring_forecast import BYTES_PER_ENTRY, RingForecast, forecast_ring
from h2gcn.ring_store import store_ring
from h2gcn.rings import exact_rings, normalised_ring
from h2gcn.sparse import Operator

__all__ = ["RingOptions", "plan_rings", "ring_operators"]

MEMORY, CAPPED, DISK, ON_DEMAND = "memory", "capped", "disk", "on demand"
SUGGESTED_CAP = 64
"""What a refusal proposes: on the benchmarks, accuracy does not suffer from it."""
SUGGESTED_BATCH = 1024


@dataclass(frozen=True)
class RingOptions:
    """What the rings may take, and how.

    Parameters
    ----------
    cap
        At most so many entries in a row of a ring beyond the first; None for all.
    store
        A folder for rings that do not fit in memory.
    seed
        Of the draw of a capped ring.
    limit
        Bytes that may be used; None for what the machine has free.
    work
        Bytes that training takes beside the rings.
    on_demand
        Whether rows may be computed each time they are needed.
    """

    cap: int | None = None
    store: Path | None = None
    seed: int = 0
    limit: float | None = field(default=None, compare=False)
    work: int = field(default=0, compare=False)
    on_demand: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls, params: dict[str, Any], seed: int, work: int = 0, *, on_demand: bool
    ) -> RingOptions:
        """Return what the parameters of a `NodeClassifier` ask for."""
        cap, store, limit = (
            params[name] for name in ("ring_cap", "ring_store", "memory_limit")
        )
        return cls(
            cap,
            None if store is None else Path(store).expanduser(),
            0 if cap is None else seed,
            None if limit is None else limit * 1e9,
            work,
            on_demand,
        )


def plan_rings(
    adj: CSR, hops: Sequence[int], options: RingOptions
) -> tuple[str, RingForecast | None]:
    """Return where the rings beyond the first shall live, and how large they are.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hops
        The rings that are wanted.
    options
        What they may take.
    """
    if max(hops, default=0) < 2:
        return MEMORY, None
    forecast = forecast_ring(adj, hops=max(hops))
    limit = available_memory() if options.limit is None else options.limit
    if options.cap is not None:
        _check_fits(_capped_bytes(adj, forecast, options.cap), options, limit, forecast)
        return CAPPED, forecast
    if forecast.bytes + options.work <= limit:
        return MEMORY, forecast
    if options.store is not None:
        return DISK, forecast
    if options.on_demand:
        return ON_DEMAND, forecast
    raise InputError(_refusal(adj, forecast, options, limit))


def ring_operators(
    adj: CSR,
    hops: Sequence[int],
    options: RingOptions,
    *,
    self_loops: bool = False,
    device: torch.device | str = "cpu",
) -> tuple[Operator | BlockedRing, ...]:
    """Return the normalised rings of a graph, one for each of `hops`, [n, n] each.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hops
        Which rings.
    options
        What they may take.
    self_loops
        Whether each node is in its own rings too.
    device
        Where those in memory live.
    """
    place, forecast = plan_rings(adj, hops, options)
    if place == DISK and not options.on_demand and str(device) != "cpu":
        raise InputError(
            "rings in a file are multiplied by the processor: add --device cpu, or "
            "train in batches (--batch-size)"
        )
    _say(place, forecast, options)
    first = exact_rings(adj, hops=1)[0]

    def ring(hop: int) -> Operator | BlockedRing:
        if hop > 1 and place == ON_DEMAND:
            return BlockedRing(ComputedRing(first, hop=hop), self_loops=self_loops)
        if hop > 1 and place == DISK:
            assert options.store is not None
            stored = store_ring(first, options.store, hop=hop)
            return BlockedRing(stored, self_loops=self_loops)
        if hop > 1 and place == CAPPED:
            assert options.cap is not None
            capped = capped_ring(
                first, options.cap, hop=hop, seed=options.seed, self_loops=self_loops
            )
            return Operator(capped, device=device)
        matrix = normalised_ring(first, hop, self_loops=self_loops)
        return Operator(matrix, symmetric=True, device=device)

    return tuple(ring(hop) for hop in hops)


def _capped_bytes(adj: CSR, forecast: RingForecast, cap: int) -> int:
    beyond = sum(min(size, cap * adj.shape[0]) for size in forecast.entries[1:])
    return (forecast.entries[0] + beyond) * BYTES_PER_ENTRY


def _say(place: str, forecast: RingForecast | None, options: RingOptions) -> None:
    """Tell what was chosen, where there was a choice."""
    if forecast is None or options.cap is not None:
        return
    if place == MEMORY and options.store is not None:
        said = f"the rings fit in memory ({forecast}); {options.store} is not needed"
    elif place == DISK:
        size = gigabytes(4 * sum(forecast.entries[1:]))
        said = (
            f"the rings would not fit in memory ({forecast}); {size} of them are kept "
            f"in {options.store}"
        )
    elif place == ON_DEMAND:
        said = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
            "when they are needed"
        )
    else:
        return
    warnings.warn(said, H2GCNWarning, stacklevel=2)


def _check_fits(
    rings: int, options: RingOptions, limit: float, forecast: RingForecast
) -> None:
    if rings + options.work > limit:
        raise InputError(
            f"the capped rings will not fit in memory: {gigabytes(rings)}, "
            f"{gigabytes(options.work)} for the training, of {forecast}, but "
            f"{_have(options, limit)}; take a smaller --ring-cap, or --batch-size"
        )


def _refusal(
    adj: CSR, forecast: RingForecast, options: RingOptions, limit: float
) -> str:
    """Return why the rings are refused, and which of the other ways would fit."""
    first = forecast.entries[0] * BYTES_PER_ENTRY
    rows = SUGGESTED_BATCH * sum(forecast.entries[1:]) // max(adj.shape[0], 1)
    ways = {
        f"--ring-cap {SUGGESTED_CAP}": options.work
        + _capped_bytes(adj, forecast, SUGGESTED_CAP),
        "--ring-store DIR": options.work + first,
        f"--batch-size {SUGGESTED_BATCH}": first + rows * BYTES_PER_ENTRY,
        "--model h2gcn-s1 (D1 and D3, 1-hop only)": options.work + first,
    }
    fits = [
        f"{way}: {gigabytes(size)}"
        + (
            f" and {gigabytes(4 * sum(forecast.entries[1:]))} on disk"
            if "store" in way
            else ""
        )
        for way, size in ways.items()
        if size <= limit
    ]
    advice = "; ".join(fits) or "--model mlp, which needs no rings"
    return (
        f"the rings will not fit in memory: {forecast}, and "
        f"{gigabytes(options.work)} for the training, but {_have(options, limit)}; "
        f"what fits: {advice}"
    )


def _have(options: RingOptions, limit: float) -> str:
    if options.limit is None:
        return f"{gigabytes(limit)} are free"
    return f"the limit is {gigabytes(limit)}"
