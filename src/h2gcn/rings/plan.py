"""How large rings will be, whether a fit on them fits in memory, and what would."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product
from typing import Any

import numpy as np
import torch

from h2gcn._validation import check_integer
from h2gcn.exceptions import H2GCNWarning, InputError, python_name
from h2gcn.graph import CSR
from h2gcn.rings.neighbors import NeighborIndex
from h2gcn.rings.rings import ring_sizes
from h2gcn.rings.rules import BLOCK_ENTRIES, ComputedOperator, RowRule
from h2gcn.sparse import Operator, available_memory, format_bytes

__all__ = [
    "CAPS",
    "LARGE_BYTES",
    "MAX_NEIGHBORS",
    "MemoryLimitError",
    "RingForecast",
    "RingOptions",
    "RingPlan",
    "Workload",
    "auto_max_neighbors",
    "build_rings",
    "check_memory",
    "forecast_rings",
    "plan_rings",
    "training_bytes",
    "usual_bytes",
]

SLACK = 1.2  # what the allocator takes, measured on trainings
ENTRY_BYTES = 8  # a value and a column
BLOCK_BYTES = 28  # per entry of a block of rows that is multiplied and dropped
BATCH_BYTES = 36  # per entry that a batch takes, stacks and renumbers
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


@dataclass(frozen=True)
class Workload:
    """What is done with the matrices; by default nothing.

    Parameters
    ----------
    features
        Bytes of the features as they are multiplied.
    step
        Bytes that a step holds beside the matrices, given how many nodes it sees, how
        many of them are trained on, and how many entries of matrices it sees.
    n_train, n_val
        How many nodes are trained and validated on; none in a prediction.
    receptive_field
        How many products with matrices follow one another; None if each logit
        depends on the whole graph.
    """

    features: int = 0
    step: Callable[[int, int, int], int] = lambda *_: 0
    n_train: int = 0
    n_val: int = 0
    receptive_field: int | None = 1


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

    So many rows are counted one by one: all of them in a small graph, else a sample
    that is even over the rows' upper bounds (the number of walks). The sample's
    fraction of its bound is then applied to all rows.
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

    The rule looks at numbers of entries alone, so that it is the same on every machine.
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
    """Return the memory of training on rings 1, 2, … with so many entries."""
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
    near = far = 0
    for rule, size in zip(rules, entries, strict=True):
        symmetric &= rule.symmetric
        if rule.hop == 1:
            near += size + n * rule.self_loops
        else:
            far += (size if k is None else min(size, k * n)) + n * rule.self_loops
    symmetric &= k is None or work.receptive_field == 1
    total, stored = near + far, near if on_demand else near + far
    if batch_size is None or work.receptive_field is None:
        copies = (2 * work.n_train + work.n_val) / max(n, 1) + (1 if symmetric else 2)
        matrices = ENTRY_BYTES * stored * copies
        if on_demand:
            matrices += BLOCK_BYTES * min(far, BLOCK_ENTRIES)
        step = work.step(n, work.n_train, total)
    else:
        rows = nodes = targets = min(batch_size, n)
        for _ in range(work.receptive_field):
            rows, nodes = nodes, min(n, round(nodes * (1 + total / max(n, 1))))
        in_batch = rows * total // max(n, 1)
        matrices = ENTRY_BYTES * stored + BATCH_BYTES * in_batch
        step = work.step(nodes, targets, in_batch)
        step += work.features * nodes // max(n, 1)
    # Features are scaled beside themselves, before the first step.
    return round(SLACK * (matrices + work.features + max(step, work.features)))


# ------------------------------------------------------------------------------- plans


def plan_rings(
    index: NeighborIndex, rules: Iterable[RowRule], options: RingOptions
) -> RingPlan:
    """Choose where the matrices of some rules are, or raise a `MemoryLimitError`."""
    n, rules = index.n, tuple(rules)
    hops = max((rule.hop for rule in rules), default=1)
    forecast = forecast_rings(index.adj, hops=hops) if hops > 1 else None
    sizes = () if forecast is None else forecast.entries
    entries = [
        sizes[rule.hop - 1] if rule.hop > 1 else int(index.matrix(rule.direction).nnz)
        for rule in rules
    ]
    if forecast is not None:
        stored = training_bytes(n, rules, entries, options)
        forecast = replace(forecast, bytes=stored)
    on_demand = _check_memory(n, rules, entries, options, forecast)
    return RingPlan(rules, options, on_demand, forecast)


def check_memory(
    n: int, entries: Sequence[int], options: RingOptions, *, symmetric: bool = True
) -> None:
    """Raise a `MemoryLimitError` if matrices of so many entries do not fit."""
    rule = RowRule(norm="sym" if symmetric else "row")
    _check_memory(n, [rule] * len(entries), entries, options, None)


def _check_memory(
    n: int,
    rules: Sequence[RowRule],
    entries: Sequence[int],
    options: RingOptions,
    forecast: RingForecast | None,
) -> bool:
    """Return whether rows are computed on demand, or raise a `MemoryLimitError`."""
    needed, on_demand = _least_bytes(n, rules, entries, options)
    available = _available(options)
    if needed <= available:
        return on_demand
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
    raise MemoryLimitError(
        f"{what} will not fit in memory: the {task} takes "
        f"{format_bytes(needed)}{size}, but {free}",
        needed=needed,
        available=available,
        alternatives=_alternatives(n, rules, entries, options),
    )


def _least_bytes(
    n: int, rules: Sequence[RowRule], entries: Sequence[int], options: RingOptions
) -> tuple[int, bool]:
    """Return what the matrices take, and whether that is with rows on demand.

    Rows are computed only where they would not fit, and never for all nodes in each
    epoch of a training.
    """
    needed = training_bytes(n, rules, entries, options)
    exact_rings = _has_rings(rules) and options.max_neighbors is None
    full_batch = options.workload.n_train > 0 and options.batch_size is None
    if needed <= _available(options) or full_batch or not exact_rings:
        return needed, False
    computed = training_bytes(n, rules, entries, options, on_demand=True)
    return min(needed, computed), computed < needed


def _alternatives(
    n: int, rules: Sequence[RowRule], entries: Sequence[int], options: RingOptions
) -> list[tuple[Mapping[str, Any], int]]:
    """Return a cap and a batch size that fit, else both together; and a model."""
    cap, batch_size, work = options.max_neighbors, options.batch_size, options.workload
    sampled = _has_rings(rules) and work.n_train > 0
    caps = [{"ring_cap": k} for k in CAPS if sampled and k < (cap or n)]
    batches = [{"batch_size": b} for b in BATCH_SIZES if b < (batch_size or n)]
    if work.receptive_field is None:
        batches = []
    found: list[tuple[Mapping[str, Any], int]] = []
    for change in [*caps, *batches, *(a | b for a, b in product(caps, batches))]:
        if any(known.keys() <= change.keys() for known, _ in found):
            continue  # a smaller change is enough
        trial = replace(
            options,
            max_neighbors=change.get("ring_cap", cap),
            batch_size=change.get("batch_size", batch_size),
        )
        needed, _ = _least_bytes(n, rules, entries, trial)
        if needed <= _available(options):
            found.append((change, needed))
    near = [rule.hop == 1 for rule in rules]
    needed = training_bytes(
        n, [*compress(rules, near)], [*compress(entries, near)], options
    )
    if sampled and needed <= _available(options):
        found.append(({"model": "h2gcn-s1"}, needed))
    return found


def _available(options: RingOptions) -> float:
    return available_memory() if options.limit is None else options.limit


def _has_rings(rules: Sequence[RowRule]) -> bool:
    return any(rule.hop > 1 for rule in rules)


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
    """Say that exact rings are large, or are not kept."""
    forecast = plan.forecast
    if forecast is None or plan.options.max_neighbors is not None:
        return
    if plan.on_demand:
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
