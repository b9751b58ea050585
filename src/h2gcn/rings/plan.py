"""How large rings will be, whether a fit on them fits in memory, and what would."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from h2gcn._validation import check_integer
from h2gcn.exceptions import H2GCNWarning, InputError, python_name
from h2gcn.graph import CSR
from h2gcn.rings.neighbors import (
    BLOCK_ENTRIES,
    ComputedOperator,
    NeighborIndex,
)
from h2gcn.rings.rings import exact_rings, is_weighted, normalize, ring_sizes
from h2gcn.rings.rules import RowRule
from h2gcn.sparse import Operator, available_memory, format_bytes

__all__ = [
    "CAPPED",
    "CAPS",
    "IN_MEMORY",
    "LARGE_BYTES",
    "MAX_NEIGHBORS",
    "ON_DEMAND",
    "SLACK",
    "TRAIN_FRACTION",
    "VAL_FRACTION",
    "MemoryLimitError",
    "RingForecast",
    "RingOptions",
    "RingPlan",
    "Workload",
    "auto_max_neighbors",
    "build_rings",
    "check_memory",
    "forecast_rings",
    "operator_bytes",
    "plan_rings",
    "training_bytes",
]

IN_MEMORY, CAPPED, ON_DEMAND = "memory", "capped", "on demand"  # where rings are kept

MAX_INT32 = 2**31 - 1
SLACK = 1.2  # what the allocator takes, measured on trainings
BLOCK_BYTES = 28  # per entry of a block of rows that is multiplied and dropped
BATCH_BYTES = 36  # per entry that a batch takes, stacks and renumbers
DEFAULT_WIDTH = 64
TRAIN_FRACTION, VAL_FRACTION = 0.6, 0.2  # of the nodes, if data bring no split
SAMPLE_ROWS = 1024
LARGE_BYTES = 1e9  # the user hears of exact rings that take more

# Accuracy does not suffer from 64 sampled neighbors on the benchmarks. Rings are capped
# from a number of entries on if a cap leaves at most half of them: from 50 million if
# they are also 50 times those of the graph (tolokers has 45 million, 44 times its own),
# from 200 million on any graph (a million nodes of degree 10 have 160 million).
MAX_NEIGHBORS = 64
CAPPED_ENTRIES, CAPPED_RATIO = 50_000_000, 50
ALWAYS_CAPPED_ENTRIES = 200_000_000
CAPPED_FRACTION = 0.5

CAPS, BATCH_SIZES = (MAX_NEIGHBORS, 16), (1024, 256, 64)  # that a refusal tries


def _no_bytes(n_nodes: int, n_targets: int) -> int:
    del n_nodes, n_targets
    return 0


@dataclass(frozen=True)
class Workload:
    """What training takes beside the operators; by default nothing.

    Parameters
    ----------
    features
        Bytes of the features as they are multiplied.
    step
        Bytes that a step on so many nodes holds, of which so many are trained on.
    width
        Of the embedding.
    n_train, n_val
        How many nodes are trained and validated on; none in a prediction.
    entry
        Bytes per entry of an operator that a step holds.
    reach
        How many products with operators follow one another; None if each logit
        depends on the whole graph.
    self_loops
        Whether each node is in its own rings too.
    """

    features: int = 0
    step: Callable[[int, int], int] = _no_bytes
    width: int = 0
    n_train: int = 0
    n_val: int = 0
    entry: int = 0
    reach: int | None = 1
    self_loops: bool = False

    @classmethod
    def for_prediction(cls, width: int) -> Workload:
        """Return what a prediction takes with an embedding of this width."""
        return cls(step=lambda nodes, _: 8 * width * nodes, width=width)


@dataclass(frozen=True)
class RingOptions:
    """What the rings may take, and how they are sampled.

    Parameters
    ----------
    max_neighbors
        Members of a row beyond the first ring, at most; None for all.
    seed
        Of the sample.
    limit
        Bytes that may be used; None for what the machine has free.
    workload
        What is done with the rings; by default nothing is trained.
    on_demand
        Whether rows may be computed each time they are needed.
    batch_size
        How many nodes a step takes; None for all.
    """

    max_neighbors: int | None = None
    seed: int = 0
    limit: float | None = field(default=None, compare=False)
    workload: Workload = field(default=Workload(), compare=False)
    on_demand: bool = field(default=False, compare=False)
    batch_size: int | None = field(default=None, compare=False)

    @classmethod
    def from_params(
        cls,
        params: Mapping[str, Any],
        seed: int,
        workload: Workload | None = None,
        *,
        on_demand: bool,
    ) -> RingOptions:
        """Return what the parameters of a `NodeClassifier` ask for.

        Without a workload, they are options of a prediction.
        """
        if workload is None:
            width = params.get("hidden_channels") or DEFAULT_WIDTH
            workload = Workload.for_prediction(width)
        k, limit, batch_size = (
            params[name] for name in ("ring_cap", "memory_limit", "batch_size")
        )
        seed, limit = 0 if k is None else seed, None if limit is None else limit * 1e9
        return cls(k, seed, limit, workload, on_demand, batch_size)


@dataclass(frozen=True)
class RingForecast:
    """How large the rings of a graph will be.

    Parameters
    ----------
    entries
        Stored entries of ring 1, 2, …
    bytes
        Peak memory of building them and training on them, for the usual split.
    exact
        Whether every row was counted, and not only a sample.
    """

    entries: tuple[int, ...]
    bytes: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        return (
            f"{about}{sum(self.entries):,} entries in the rings 1 to "
            f"{len(self.entries)}, {about}{format_bytes(self.bytes)}"
        )


@dataclass(frozen=True)
class RingPlan:
    """Where the rings of a graph are kept, and how large they are.

    Parameters
    ----------
    hops
        Which rings.
    options
        What they may take.
    storage
        Of those beyond the first: "memory", "capped" or "on demand".
    forecast
        Of their size; None if there are none beyond the first.
    """

    hops: tuple[int, ...]
    options: RingOptions
    storage: str
    forecast: RingForecast | None


class MemoryLimitError(InputError):
    """A fit or a prediction would take more memory than there is.

    Parameters
    ----------
    rule
        What does not fit.
    needed, available
        Bytes.
    alternatives
        Parameters to set, each with the bytes that it would take.
    **fields
        As of `InputError`.
    """

    def __init__(
        self,
        rule: str,
        *,
        needed: int = 0,
        available: float = 0.0,
        alternatives: Iterable[tuple[Mapping[str, Any], int]] = (),
        **fields: Any,
    ) -> None:
        super().__init__(rule, **fields)
        self.needed, self.available = needed, available
        self.alternatives = tuple(alternatives)

    def render(self, name: Callable[..., str] = python_name) -> str:
        """Return the message with the parameters that would fit."""
        ways = [
            f"{' and '.join(name(*one) for one in change.items())}: "
            f"{format_bytes(size)}"
            for change, size in self.alternatives
        ]
        fits = f"what fits: {'; '.join(ways)}" if ways else "nothing fits"
        return f"{super().render(name)}; {fits}"


# --------------------------------------------------------------------------- forecasts


def forecast_rings(adj: CSR, *, hops: int = 2, rows: int = SAMPLE_ROWS) -> RingForecast:
    """Forecast the sizes of the rings without building them.

    Rows are counted one by one: all of them in a small graph, else a sample that is
    even over the rows' upper bounds (the number of walks). The sample's fraction of its
    bound is then applied to all rows.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    hops
        The largest distance.
    rows
        How many rows to count.
    """
    check_integer("hops", hops, 1)
    check_integer("rows", rows, 1)
    n = adj.shape[0]
    bound, bounds = np.diff(adj.indptr).astype(np.float64), []
    for _ in range(1, hops):
        bound = np.minimum(adj @ bound, n)
        bounds.append(bound)
    sample, exact = np.argsort(bound, kind="stable"), n <= rows
    if not exact:
        sample = sample[np.linspace(0, n - 1, rows).round().astype(np.int64)]
    entries = [int(adj.nnz)]
    for hop, bound in enumerate(bounds, start=2):
        counted = ring_sizes(adj, hop, sample).sum()
        fraction = counted / max(bound[sample].sum(), 1)
        entries.append(round(float(fraction * bound.sum())))
    usual = Workload(n_train=round(TRAIN_FRACTION * n), n_val=round(VAL_FRACTION * n))
    taken = training_bytes(n, entries[:1], entries[1:], RingOptions(workload=usual))
    return RingForecast(tuple(entries), taken, exact)


def auto_max_neighbors(forecast: RingForecast, n: int) -> int | None:
    """Return how many neighbors to sample if rings are much larger than their graph.

    The rule looks at numbers of entries alone, so that it is the same on every machine.
    """
    near, *beyond = forecast.entries
    far = sum(beyond)
    large = far >= ALWAYS_CAPPED_ENTRIES
    large |= far >= CAPPED_ENTRIES and far >= CAPPED_RATIO * near
    sampled = sum(min(size, MAX_NEIGHBORS * n) for size in beyond)
    return MAX_NEIGHBORS if large and sampled <= CAPPED_FRACTION * far else None


def operator_bytes(
    entries: int, *, train: float = 0.0, val: float = 0.0, symmetric: bool = True
) -> float:
    """Return what an operator takes: a value and a column per entry.

    The rows of training nodes are held once more with their transpose, for the
    gradient, those of validation nodes once.

    Parameters
    ----------
    entries
        Stored entries.
    train, val
        Fractions of the rows that are trained and validated on.
    symmetric
        Whether the operator is its own transpose.
    """
    entry = 8 if entries <= MAX_INT32 else 12
    return entry * entries * ((1 if symmetric else 2) + 2 * train + val)


def training_bytes(
    n: int,
    near: Sequence[int],
    far: Sequence[int],
    options: RingOptions,
    *,
    computed: bool = False,
    symmetric: bool = True,
) -> int:
    """Return about the peak memory of a training or a prediction.

    Parameters
    ----------
    n
        Number of nodes.
    near, far
        Entries of the operators that are always in memory, and of the rings beyond
        the first, without self-loops.
    options
        With the workload, and how the rings are sampled.
    computed
        Whether the rows of the far rings are computed when they are needed.
    symmetric
        Whether the operators are.
    """
    work, k, batch_size = options.workload, options.max_neighbors, options.batch_size
    if k is not None:
        far = [min(size, k * n) for size in far]
        symmetric &= work.reach == 1
    loops = n * work.self_loops
    entries = sum(near) + sum(far) + loops * (len(near) + len(far))
    held = [size + loops for size in (near if computed else (*near, *far))]
    if batch_size is None:
        train, val = work.n_train / max(n, 1), work.n_val / max(n, 1)
        taken = sum(
            operator_bytes(size, train=train, val=val, symmetric=symmetric)
            for size in held
        )
        step = work.step(n, work.n_train) + work.entry * entries
        if computed:
            taken += BLOCK_BYTES * min(max(far, default=0), BLOCK_ENTRIES)
    else:
        rows, nodes = _batch_extent(entries, n, batch_size, work.reach or 0)
        in_batch = rows * entries // max(n, 1)
        taken = sum(map(operator_bytes, held)) + BATCH_BYTES * in_batch
        step = work.step(nodes, min(batch_size, nodes)) + work.entry * in_batch
        step += work.features * nodes // max(n, 1)
    # Features are scaled beside themselves, before the first step.
    beside = work.features + max(step, work.features)
    return round(SLACK * (taken + beside + 24 * n * len([*near, *far])))


def _batch_extent(entries: int, n: int, batch_size: int, reach: int) -> tuple[int, int]:
    """Return how many rows and nodes a batch brings in, at most all."""
    row = entries / max(n, 1)
    rows = nodes = min(batch_size, n)
    for _ in range(reach):
        rows, nodes = nodes, min(n, round(nodes * (1 + row)))
    return rows, nodes


# ------------------------------------------------------------------------------- plans


def plan_rings(adj: CSR, hops: Iterable[int], options: RingOptions) -> RingPlan:
    """Choose where the rings of a graph are kept, or raise a `MemoryLimitError`."""
    hops, n = tuple(hops), adj.shape[0]
    if max(hops, default=0) < 2:
        check_memory(n, (int(adj.nnz),) * len(hops), options)
        return RingPlan(hops, options, IN_MEMORY, None)
    forecast = forecast_rings(adj, hops=max(hops))
    near = [forecast.entries[0] for hop in hops if hop == 1]
    far = [forecast.entries[hop - 1] for hop in hops if hop > 1]
    needed = training_bytes(n, near, far, options)
    storage, least = _choose_storage(n, near, far, options)
    if storage is None:
        raise _refuse(n, near, far, options, least, forecast)
    return RingPlan(hops, options, storage, replace(forecast, bytes=needed))


def check_memory(
    n: int, entries: Sequence[int], options: RingOptions, *, symmetric: bool = True
) -> None:
    """Raise a `MemoryLimitError` if operators of so many entries do not fit."""
    needed = training_bytes(n, entries, (), options, symmetric=symmetric)
    if needed > _available(options):
        raise _refuse(n, entries, (), options, needed, None)


def _available(options: RingOptions) -> float:
    return available_memory() if options.limit is None else options.limit


def _choose_storage(
    n: int, near: Sequence[int], far: Sequence[int], options: RingOptions
) -> tuple[str | None, int]:
    """Return the first storage that fits, if one does, and the bytes that it takes."""
    exact, limit = options.max_neighbors is None, _available(options)
    needed = training_bytes(n, near, far, options)
    if needed <= limit:
        return IN_MEMORY if exact else CAPPED, needed
    if far and exact and options.on_demand:
        needed = min(needed, training_bytes(n, near, far, options, computed=True))
        if needed <= limit:
            return ON_DEMAND, needed
    return None, needed


def _refuse(
    n: int,
    near: Sequence[int],
    far: Sequence[int],
    options: RingOptions,
    needed: int,
    forecast: RingForecast | None,
) -> MemoryLimitError:
    """Return an error that names what is needed, what there is, and what would fit."""
    available = _available(options)
    task = "training" if options.workload.n_train else "prediction"
    if options.batch_size is not None:
        what = f"a batch of {options.batch_size:,} nodes"
    elif forecast is None:
        what = f"the {task}"
    else:
        what = "the rings" if options.max_neighbors is None else "the capped rings"
    size = "" if forecast is None else f", with {str(forecast).rpartition(', ')[0]}"
    free = f"{format_bytes(available)} are free"
    if options.limit is not None:
        free = f"the limit is {format_bytes(available)}"
    return MemoryLimitError(
        f"{what} will not fit in memory: the {task} takes "
        f"{format_bytes(needed)}{size}, but {free}",
        needed=needed,
        available=available,
        alternatives=_alternatives(n, near, far, options),
    )


def _alternatives(
    n: int, near: Sequence[int], far: Sequence[int], options: RingOptions
) -> list[tuple[Mapping[str, Any], int]]:
    """Return a cap and a batch size that fit, else both together; and a model."""
    cap, batch_size, work = options.max_neighbors, options.batch_size, options.workload
    caps = [{"ring_cap": k} for k in CAPS if far and work.n_train and k < (cap or n)]
    batches = [{"batch_size": b} for b in BATCH_SIZES if b < (batch_size or n)]
    if work.reach is None:
        batches = []

    def first_fit(changes: Iterable[dict[str, int]]) -> list[tuple[Any, int]]:
        for change in changes:
            trial = replace(
                options,
                max_neighbors=change.get("ring_cap", cap),
                batch_size=change.get("batch_size", batch_size),
                on_demand=options.on_demand or "batch_size" in change,
            )
            storage, needed = _choose_storage(n, near, far, trial)
            if storage is not None:
                return [(change, needed)]
        return []

    found = [*first_fit(caps), *first_fit(batches)]
    found = found or first_fit(one | other for one, other in product(caps, batches))
    needed = training_bytes(n, near, (), options)
    if far and work.n_train and needed <= _available(options):
        found.append(({"model": "h2gcn-s1"}, needed))
    return found


def build_rings(
    adj: CSR,
    plan: RingPlan,
    *,
    self_loops: bool = False,
    device: torch.device | str = "cpu",
    index: NeighborIndex | None = None,
) -> tuple[Operator | ComputedOperator, ...]:
    """Return the normalized rings of a graph as they were planned, [n, n] each.

    Parameters
    ----------
    adj
        Symmetric, without self-loops, [n, n]. Weights count in the first ring alone.
    plan
        Of `plan_rings` for this graph.
    self_loops
        Whether each node is in its own rings too.
    device
        Where those in memory are.
    index
        Of the graph, if there is one already.
    """
    options, storage = plan.options, plan.storage
    _warn_of_size(plan)
    (first,) = exact_rings(adj, hops=1)
    index = NeighborIndex(first) if index is None else index

    def build(hop: int) -> Operator | ComputedOperator:
        if hop == 1:
            near = normalize(adj if is_weighted(adj) else first, self_loops=self_loops)
            return Operator(near, symmetric=True, device=device)
        ring = ComputedOperator(
            index,
            RowRule(hop=hop, self_loops=self_loops),
            max_neighbors=options.max_neighbors,
            seed=options.seed,
        )
        if storage == ON_DEMAND:
            return ring
        rows = ring.take(np.arange(index.n))
        return Operator(rows, symmetric=storage == IN_MEMORY, device=device)

    return tuple(build(hop) for hop in plan.hops)


def _warn_of_size(plan: RingPlan) -> None:
    """Say that exact rings are large, or are not kept."""
    forecast = plan.forecast
    if forecast is None or plan.storage == CAPPED:
        return
    if plan.storage == ON_DEMAND:
        text = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
            "when they are needed"
        )
    elif forecast.bytes >= LARGE_BYTES:
        text = (
            f"the rings are large: {forecast}; ring_cap={MAX_NEIGHBORS} takes a sample "
            "of each node's"
        )
    else:
        return
    warnings.warn(text, H2GCNWarning, stacklevel=3)
