"""How large rings will be, whether a fit on them fits in memory, and what would."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product
from typing import Any, NamedTuple

import numpy as np
import torch

from h2gcn._validation import check_integer
from h2gcn.exceptions import H2GCNWarning, InputError, python_name
from h2gcn.graph import CSR
from h2gcn.rings.neighbors import NeighborIndex
from h2gcn.rings.rings import ring_sizes
from h2gcn.rings.rules import BLOCK_ENTRIES, ComputedOperator, RowRule
from h2gcn.sparse import Operator, available_memory, format_bytes

SLACK = 1.2  # what the allocator takes, measured on trainings
ENTRY_BYTES, WIDE_ENTRY_BYTES = (
    8,
    12,
)  # a value and a column, from 2^31 entries in int64
BLOCK_BYTES = 28  # per entry of a block of rows that is multiplied and dropped
BATCH_BYTES = 36  # per entry that a batch takes, stacks and renumbers
TRAIN_FRACTION, VAL_FRACTION = 0.6, 0.2  # of the nodes, if data bring no split
SAMPLE_ROWS = 1024
LARGE_BYTES = 1e9  # exact rings that take more cause a warning

# Accuracy does not suffer from 64 sampled neighbors on the benchmarks. Rings are capped
# from a number of entries on if a cap leaves at most half of them: from 50 million if
# they are also 50 times those of the graph (tolokers has 45 million, 44 times its own),
# from 200 million on any graph (a million nodes of degree 10 have 160 million).
MAX_NEIGHBORS = 64
CAPPED_ENTRIES, CAPPED_RATIO = 50_000_000, 50
ALWAYS_CAPPED_ENTRIES = 200_000_000
CAPPED_FRACTION = 0.5

CAPS, BATCH_SIZES = (MAX_NEIGHBORS, 16), (1024, 256, 64)  # that a refusal tries


@dataclass(frozen=True)
class Workload:
    """What is done with the matrices; by default nothing."""

    features: int = 0  # bytes, as they are multiplied
    # Bytes of a step beside the matrices, given its nodes, targets, and entries.
    step: Callable[[int, int, int], int] = lambda *_: 0
    n_train: int = 0  # none in a prediction
    n_val: int = 0
    receptive_field: int | None = 1  # products in a row; None: the whole graph


@dataclass(frozen=True)
class RingOptions:
    """What the rings may take, and how they are sampled."""

    max_neighbors: int | None = None  # of a row beyond the first ring; None for all
    seed: int = 0  # of the sample
    limit: float | None = field(default=None, compare=False)  # bytes; None: all free
    workload: Workload = field(default=Workload(), compare=False)
    batch_size: int | None = field(default=None, compare=False)  # None for all nodes


@dataclass(frozen=True)
class RingForecast:
    """How large the rings of a graph will be."""

    entries: tuple[int, ...]  # of ring 1, 2, …
    bytes: int  # peak memory of training on them, for the usual split
    exact: bool  # whether every row was counted, and not only a sample

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        return (
            f"{about}{sum(self.entries):,} entries in the rings 1 to "
            f"{len(self.entries)}, {about}{format_bytes(self.bytes)}"
        )


@dataclass(frozen=True)
class RingPlan:
    """Where the matrices of some rules are kept, and how large their rings are."""

    rules: tuple[RowRule, ...]
    options: RingOptions
    on_demand: bool  # whether rows beyond the first ring are computed when needed
    forecast: RingForecast | None  # None if there are no rings beyond the first


class MemoryLimitError(InputError):
    """A fit or a prediction would take more memory than there is.

    `needed` and `available` are bytes; `alternatives` are parameters to set, each with
    the bytes that it would take.
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
    """Forecast the sizes of the rings 1 to `hops` without building them.

    Up to `rows` rows are counted: all in a small graph, else a sample that is even over
    the rows' upper bounds, the numbers of walks. The sample's fraction of its bound
    applies to all rows.
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
    return RingForecast(tuple(entries), usual_bytes(n, entries), exact)


def auto_max_neighbors(forecast: RingForecast, n: int) -> int | None:
    """Return how many neighbors to sample if rings are much larger than their graph.

    The rule depends on numbers of entries alone: it is the same on every machine.
    """
    near, *beyond = forecast.entries
    far = sum(beyond)
    large = far >= ALWAYS_CAPPED_ENTRIES
    large |= far >= CAPPED_ENTRIES and far >= CAPPED_RATIO * near
    sampled = sum(min(size, MAX_NEIGHBORS * n) for size in beyond)
    return MAX_NEIGHBORS if large and sampled <= CAPPED_FRACTION * far else None


def usual_bytes(
    n: int, entries: Sequence[int], max_neighbors: int | None = None
) -> int:
    """Return the memory of training on rings 1, 2, … of a graph without a split."""
    n_train, n_val = round(TRAIN_FRACTION * n), round(VAL_FRACTION * n)
    work = Workload(n_train=n_train, n_val=n_val)
    rules = [RowRule(hop=hop) for hop in range(1, len(entries) + 1)]
    return training_bytes(n, rules, entries, RingOptions(max_neighbors, workload=work))


def training_bytes(
    n: int,
    rules: Sequence[RowRule],
    entries: Sequence[int],
    options: RingOptions,
    *,
    symmetric: bool = True,
    on_demand: bool = False,
) -> int:
    """Return about the peak memory of a training or a prediction.

    Rows of training nodes are held once more with their transpose, for the gradient,
    and rows of validation nodes once. A transpose of all rows is held where matrices
    are not symmetric. A batch holds its own rows and features.

    Parameters
    ----------
    entries
        Of the matrix of each rule, without sampling and self-loops.
    symmetric
        Whether matrices are symmetric where their rules are.
    on_demand
        Whether rows beyond the first ring are computed when they are needed.
    """
    work, k, batch_size = options.workload, options.max_neighbors, options.batch_size
    total = computed = stored = 0  # entries, entries, bytes
    for rule, whole in zip(rules, entries, strict=True):
        symmetric &= rule.symmetric
        size = whole if k is None or rule.hop == 1 else min(whole, k * n)
        size += n * rule.self_loops
        total += size
        if on_demand and rule.hop > 1:
            computed += size
        else:
            stored += size * (ENTRY_BYTES if size < 2**31 else WIDE_ENTRY_BYTES)
    symmetric &= k is None or work.receptive_field == 1
    if batch_size is None or work.receptive_field is None:
        copies = (2 * work.n_train + work.n_val) / max(n, 1) + (1 if symmetric else 2)
        matrices = stored * copies + BLOCK_BYTES * min(computed, BLOCK_ENTRIES)
        step = work.step(n, work.n_train, total)
    else:
        rows = nodes = targets = min(batch_size, n)
        for _ in range(work.receptive_field):
            rows, nodes = nodes, min(n, round(nodes * (1 + total / max(n, 1))))
        in_batch = rows * total // max(n, 1)
        matrices = stored + BATCH_BYTES * in_batch
        step = work.step(nodes, targets, in_batch)
        step += work.features * nodes // max(n, 1)
    # Features are scaled beside themselves, before the first step.
    return round(SLACK * (matrices + work.features + max(step, work.features)))


# ------------------------------------------------------------------------------- plans


class _Demand(NamedTuple):
    """The arguments of `training_bytes`."""

    n: int
    rules: Sequence[RowRule]
    entries: Sequence[int]
    options: RingOptions

    @property
    def has_rings(self) -> bool:
        return any(rule.hop > 1 for rule in self.rules)

    @property
    def available(self) -> float:
        limit = self.options.limit
        return available_memory() if limit is None else limit

    def least_bytes(self) -> tuple[int, bool]:
        """Return what the matrices take, and whether that is with rows on demand.

        Rows are computed only where they would not fit, and never for all nodes in
        each epoch of a training.
        """
        needed, options = training_bytes(*self), self.options
        full_batch = options.workload.n_train > 0 and options.batch_size is None
        exact_rings = self.has_rings and options.max_neighbors is None
        if needed <= self.available or full_batch or not exact_rings:
            return needed, False
        computed = training_bytes(*self, on_demand=True)
        return min(needed, computed), computed < needed

    def changed(self, change: Mapping[str, Any]) -> _Demand:
        if "model" in change:  # one without rings beyond the first
            near = [rule.hop == 1 for rule in self.rules]
            rules, entries = compress(self.rules, near), compress(self.entries, near)
            return self._replace(rules=tuple(rules), entries=tuple(entries))
        names = {"ring_cap": "max_neighbors", "batch_size": "batch_size"}
        options = {names[name]: value for name, value in change.items()}
        return self._replace(options=replace(self.options, **options))


def plan_rings(
    index: NeighborIndex, rules: Iterable[RowRule], options: RingOptions
) -> RingPlan:
    """Choose where the matrices of some rules are, or raise a `MemoryLimitError`."""
    rules = tuple(rules)
    hops = max((rule.hop for rule in rules), default=1)
    forecast = forecast_rings(index.adj, hops=hops) if hops > 1 else None
    entries = [
        int(index.matrix(rule.direction).nnz)
        if forecast is None or rule.hop == 1
        else forecast.entries[rule.hop - 1]
        for rule in rules
    ]
    demand = _Demand(index.n, rules, entries, options)
    if forecast is not None:
        forecast = replace(forecast, bytes=training_bytes(*demand))
    return RingPlan(rules, options, _check(demand, forecast), forecast)


def check_memory(
    n: int, entries: Sequence[int], options: RingOptions, *, symmetric: bool = True
) -> None:
    """Raise a `MemoryLimitError` if matrices of this many entries do not fit."""
    rule = RowRule(norm="sym" if symmetric else "row")
    _check(_Demand(n, [rule] * len(entries), entries, options), None)


def _check(demand: _Demand, forecast: RingForecast | None) -> bool:
    """Return whether rows are computed on demand, or raise a `MemoryLimitError`."""
    needed, on_demand = demand.least_bytes()
    available, options = demand.available, demand.options
    if needed <= available:
        return on_demand
    task = "training" if options.workload.n_train else "prediction"
    what, size = f"the {task}", ""
    if forecast is not None:
        what = "the rings" if options.max_neighbors is None else "the capped rings"
        size = f", with {str(forecast).rpartition(', ')[0]}"
    if options.batch_size is not None:
        what = f"a batch of {options.batch_size:,} nodes"
    free = "{} are free" if options.limit is None else "the limit is {}"
    raise MemoryLimitError(
        f"{what} will not fit in memory: the {task} takes "
        f"{format_bytes(needed)}{size}, but {free.format(format_bytes(available))}",
        needed=needed,
        available=available,
        alternatives=_alternatives(demand),
    )


def _alternatives(demand: _Demand) -> list[tuple[Mapping[str, Any], int]]:
    """Return a cap and a batch size that fit, else both together; and a model."""
    n, options, work = demand.n, demand.options, demand.options.workload
    sampled = demand.has_rings and work.n_train > 0
    batched = work.receptive_field is not None
    most, largest = options.max_neighbors or n, options.batch_size or n
    caps = [{"ring_cap": k} for k in CAPS if sampled and k < most]
    batches = [{"batch_size": b} for b in BATCH_SIZES if batched and b < largest]
    changes: list[Mapping[str, Any]] = [*caps, *batches]
    changes += [cap | batch for cap, batch in product(caps, batches)]
    changes += [{"model": "h2gcn-s1"}] * sampled
    found: list[tuple[Mapping[str, Any], int]] = []
    for change in changes:
        if any(smaller.keys() <= change.keys() for smaller, _ in found):
            continue
        needed, _ = demand.changed(change).least_bytes()
        if needed <= demand.available:
            found.append((change, needed))
    return found


def build_rings(
    index: NeighborIndex, plan: RingPlan, device: torch.device | str = "cpu"
) -> tuple[Operator | ComputedOperator, ...]:
    """Return the matrices of a graph as they were planned, [n, n] each."""
    _warn_of_size(plan)
    k, seed = plan.options.max_neighbors, plan.options.seed

    def build(rule: RowRule) -> Operator | ComputedOperator:
        if plan.on_demand and rule.hop > 1:
            return ComputedOperator(index, rule)
        symmetric = rule.symmetric and (k is None or rule.hop == 1)
        rows = rule.rows(index, max_neighbors=k, seed=seed)
        return Operator(rows, symmetric=symmetric, device=device)

    return tuple(map(build, plan.rules))


def _warn_of_size(plan: RingPlan) -> None:
    """Warn that exact rings are large, or are not kept."""
    forecast = plan.forecast
    if forecast is None or plan.options.max_neighbors is not None:
        return
    if plan.on_demand:
        text = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
        )
        text += "when they are needed"
    elif forecast.bytes >= LARGE_BYTES:
        text = (
            f"the rings are large: {forecast}; ring_cap={MAX_NEIGHBORS} takes a sample "
        )
        text += "of each node's"
    else:
        return
    warnings.warn(text, H2GCNWarning, stacklevel=3)
