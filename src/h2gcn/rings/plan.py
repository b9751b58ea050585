"""Where rings are kept: what each way needs, which is taken, and what would fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.rings import blocked as blocked_ring, exact
from h2gcn.rings.blocked import BlockedRing, ComputedRing, store_ring
from h2gcn.rings.exact import (
    capped_ring,
    exact_rings,
    is_weighted,
    normalised_ring,
)
from h2gcn.rings.footprint import (
    RING_CAP,
    SLACK,
    RingForecast,
    RingOptions,
    Work,
    forecast_ring,
    forecast_seconds,
    in_words,
    is_long,
    operator_bytes,
    piece_bytes,
    piece_size,
)
from h2gcn.sparse import Operator, available_memory, gigabytes

__all__ = [
    "Needs",
    "RingOptions",
    "RingPlan",
    "build_rings",
    "check_memory",
    "plan_rings",
    "refusal",
    "ways_that_fit",
]

BLOCK_ENTRY = 28
"""Bytes for one of a block: rows that do not follow one another are looked up."""


@dataclass(frozen=True)
class Needs:
    """What training on a graph takes, for each way to keep its rings.

    Parameters
    ----------
    n
        Number of nodes.
    near, far
        Entries of the operators that are always in memory, and of the rings beyond
        the first, one number each.
    work
        What the training takes beside them.
    symmetric
        Whether the operators are.
    """

    n: int
    near: tuple[int, ...]
    far: tuple[int, ...]
    work: Work
    symmetric: bool = True

    def memory(self, batch: int | None = None) -> int:
        """Return the bytes with everything in memory."""
        held = self.operators(self.near + self.far, batch)
        return held + self.beside(self.near + self.far, batch)

    def capped(self, cap: int, batch: int | None = None) -> int:
        """Return the bytes with at most `cap` entries in a row of a ring."""
        drawn = self._capped(cap)
        # A drawn ring is not symmetric: a product after another has its transpose.
        own = batch is None and self.work.reach != 1
        held = self.operators(self.near, batch)
        held += self.operators(drawn, batch, symmetric=not own)
        held += round(SLACK * 4 * min(sum(self.far), exact.DRAW_BLOCK))
        return held + self.beside(self.near + drawn, batch)

    def elsewhere(self, batch: int | None = None) -> int:
        """Return the bytes with the rings beyond the first in no memory."""
        held = self.operators(self.near, batch) + 32 * self.n
        if batch is None:  # the dense side is scaled, and filled up, for each product
            block = BLOCK_ENTRY * min(max(self.far, default=0), blocked_ring.BLOCK)
            held += round(SLACK * (block + 12 * self.n * self.work.width))
        return held + self.beside(self.near + self.far, batch)

    def beside(self, entries: Sequence[int], batch: int | None) -> int:
        """Return the bytes that a step takes beside the operators as they are kept."""
        if batch is None:
            return self.work.whole(self.n, sum(entries))
        rows, nodes = piece_size(entries, self.n, batch, self.work.reach or 0)
        taken = rows * sum(entries) // max(self.n, 1)
        work = self.work.batch(self.n, nodes, batch, taken)
        return piece_bytes(entries, self.n, rows) + work

    def without_rings(self) -> Needs:
        """Return the needs of the same model on the first ring alone."""
        return replace(self.one_round(), far=())

    def one_round(self) -> Needs:
        """Return about the needs of the same model with a single product."""
        return replace(self, work=replace(self.work, reach=1))

    def _capped(self, cap: int) -> tuple[int, ...]:
        return tuple(min(size, cap * self.n) for size in self.far)

    def operators(
        self, entries: Sequence[int], batch: int | None, *, symmetric: bool = True
    ) -> int:
        """Return the bytes of operators of so many entries each."""
        whole = batch is None
        return sum(
            operator_bytes(
                size,
                self.n,
                train=self.work.n_train / max(self.n, 1) if whole else 0.0,
                val=self.work.n_val / max(self.n, 1) if whole else 0.0,
                self_loops=self.work.self_loops,
                symmetric=symmetric and self.symmetric,
            )
            for size in entries
        )


CAPS, BATCHES = (RING_CAP, 16), (1024, 256, 64)
"""What is proposed. On the benchmarks, accuracy does not suffer from a cap of 64."""


def refusal(
    needs: Needs,
    forecast: RingForecast | None,
    options: RingOptions,
    need: int,
    limit: float,
) -> str:
    """Return why a training is refused, and which of the other ways would fit.

    Parameters
    ----------
    needs
        Of the model that was asked for.
    forecast
        Of its rings; None where it has none beyond the first.
    options
        What was asked for.
    need
        What that takes, in bytes.
    limit
        Bytes that there are.
    """
    entries = needs.near + needs.far
    beside = gigabytes(needs.beside(entries, options.batch))
    doing = "training" if needs.work.n_train else "prediction"
    if forecast is None:
        what = f"the {doing} will not fit in memory: {gigabytes(need)}"
    elif options.cap is not None:
        what = f"the capped rings will not fit in memory: {gigabytes(need)}"
        what += f" with the {doing}, of {forecast}"
    elif options.batch is not None:
        rows = piece_size(entries, needs.n, options.batch, needs.work.reach or 0).rows
        what = (
            f"a batch of {options.batch:,} nodes will not fit in memory: {beside} for "
            f"about {rows:,} rows of the rings ({forecast}) and the {doing}"
        )
    else:
        what = f"the rings will not fit in memory: {forecast}, and {beside} for the "
        what += doing
    fits, least = ways_that_fit(needs, options, limit)
    disk = gigabytes(4 * sum(needs.far))
    said = "; ".join(
        f"{way}: {gigabytes(size)}" + (f" and {disk} on disk" if "store" in way else "")
        for way, size in fits.items()
    )
    have = f"the limit is {gigabytes(limit)}"
    if options.limit is None:
        have = f"{gigabytes(limit)} are free"
    advice = f"what fits: {said}"
    if not fits:
        advice = f"nothing fits: {gigabytes(least)} at least"
    return f"{what}, but {have}; {advice}"


def ways_that_fit(
    needs: Needs, options: RingOptions, limit: float
) -> tuple[dict[str, int], int]:
    """Return the arguments that would fit with the bytes of each, and the least of all.

    Parameters
    ----------
    needs
        Of the model that was asked for.
    options
        What was asked for, and does not fit.
    limit
        Bytes that there are.
    """
    sizes: list[int] = []
    fits: dict[str, int] = {}

    def offer(ways: Iterable[tuple[str, int]]) -> bool:
        """Take the first of some like ways that fits, if one does."""
        for way, size in ways:
            sizes.append(size)
            if size <= limit:
                fits[way] = size
                return True
        return False

    cap, batch, trained = options.cap, options.batch, bool(needs.work.n_train)
    caps = [c for c in CAPS if trained and needs.far and (cap is None or c < cap)]
    batches = [b for b in BATCHES if b < (batch or needs.n)]
    if needs.work.reach is None:
        batches = []

    def rows(of: Needs, size: int) -> int:
        return of.elsewhere(size) if cap is None else of.capped(cap, size)

    offer((f"ring_cap={c}", needs.capped(c, batch)) for c in caps)
    if needs.far and cap is None and options.store is None:
        offer([("ring_store=…", needs.elsewhere(batch))])
    alone = offer((f"batch_size={b}", rows(needs, b)) for b in batches)
    if not fits:
        both = [(c, b) for c in caps for b in batches]
        offer((f"ring_cap={c} and batch_size={b}", needs.capped(c, b)) for c, b in both)
    if not trained:
        if batch is not None:
            offer([("no 'batch_size'", needs.elsewhere())])
        return fits, min(sizes, default=needs.elsewhere(batch))
    if needs.far and needs.work.reach != 1 and not alone:
        one = needs.one_round()
        offer((f"model='h2gcn-1' and batch_size={b}", rows(one, b)) for b in batches)
    if needs.far:
        near = needs.without_rings().memory(batch)
        offer([("model='h2gcn-s1' (1-hop only)", near)])
    if not fits:
        offer(_without_graph(needs, batches))
    return fits, min(sizes)


def _without_graph(needs: Needs, batches: Sequence[int]) -> Iterator[tuple[str, int]]:
    yield "model='mlp' (no graph)", needs.work.embedding_only(needs.n)
    for batch in batches:
        size = needs.work.embedding_only(needs.n, batch)
        yield f"model='mlp' and batch_size={batch} (no graph)", size


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
        Symmetric, without self-loops, [n, n]. What its pairs weigh, if it is not
        binary, counts in the first ring; further ones are of steps.
    plan
        Of `plan_rings` for this graph.
    self_loops
        Whether each node is in its own rings too.
    device
        Where those in memory live.
    """
    options, storage = plan.options, plan.storage
    _say(plan, adj.shape[0])
    first = exact_rings(adj, hops=1)[0]
    near = adj if is_weighted(adj) else first

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
        source = near if hop == 1 else first
        matrix = normalised_ring(source, hop, self_loops=self_loops)
        return Operator(matrix, symmetric=True, device=device)

    return tuple(ring(hop) for hop in plan.hops)


def _say(plan: RingPlan, n: int) -> None:
    """Tell what was chosen, where there was a choice, and what takes long."""
    storage, forecast, options = plan.storage, plan.forecast, plan.options
    if forecast is None or options.cap is not None:
        return
    if storage == MEMORY and options.store is not None:
        said = f"the rings fit in memory ({forecast}); {options.store} is not needed"
    elif storage == MEMORY and is_long(forecast, n, options.work):
        said = f"the rings are large: {forecast}; {_times(plan, n)}"
    elif storage == DISK:
        size = gigabytes(4 * sum(forecast.entries[1:]))
        said = (
            f"the rings would not fit in memory ({forecast}); {size} of them are kept "
            f"in {options.store}; {_times(plan, n)}"
        )
    elif storage == ON_DEMAND:
        said = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
            "when they are needed"
        )
    else:
        return
    warnings.warn(said, H2GCNWarning, stacklevel=2)


def _times(plan: RingPlan, n: int) -> str:
    """Return about how long the exact rings take, and that a cap makes it shorter."""
    assert plan.forecast is not None
    work = plan.options.work
    seconds = forecast_seconds(plan.forecast, n, work)
    said = f"it takes {in_words(seconds.build)} to build them"
    if not work.n_train:
        return said
    if plan.options.batch is None:
        said += f" and {in_words(seconds.epoch)} an epoch"
    return f"{said}; ring_cap={RING_CAP} takes a sample of each node's"
