"""How large rings and training will be, told before anything is made.

The rule by which rings are capped looks at numbers of entries alone, so that it is the
same on every machine; seconds are only told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from h2gcn._validation import check_integer
from h2gcn.graph import CSR
from h2gcn.io import usable_path
from h2gcn.rings.exact import exact_rings, ring_pattern, ring_sizes
from h2gcn.sparse import Operator, gigabytes

__all__ = [
    "RING_CAP",
    "PieceSize",
    "RingForecast",
    "RingOptions",
    "RingSeconds",
    "Work",
    "automatic_cap",
    "cap_words",
    "forecast_ring",
    "forecast_seconds",
    "in_words",
    "is_long",
    "operator_bytes",
    "piece_bytes",
    "piece_size",
]

MAX_INT32 = 2**31 - 1
SLACK = 1.2
"""What the allocator takes beside what it hands out, measured on trainings."""
SCRATCH = 2**22
"""Entries for which there is something beside them while a ring is made."""


def operator_bytes(
    entries: int,
    n: int,
    *,
    train: float = 0.0,
    val: float = 0.0,
    self_loops: bool = False,
    symmetric: bool = True,
) -> int:
    """Return the peak that a sparse operator takes, from its making to training.

    An entry is its value and its column, 4 bytes each; beyond 2³¹ entries scipy makes
    the columns 8. The training nodes' rows are held once more with their transpose,
    for the gradient, those of validation once.

    Parameters
    ----------
    entries
        Stored entries, without self-loops.
    n
        Number of nodes; the operator is [n, n].
    train, val
        Which share of the rows is trained and validated on; zero for batches, which
        take their rows as they come.
    self_loops
        Whether each node is an entry of its own row too.
    symmetric
        Whether no other transpose is needed than those rows'.
    """
    entries += n * self_loops
    wide = entries > MAX_INT32
    column = 8 if wide else 4
    copies = (1 if symmetric else 2) + 2 * train + val
    held = entries * (column + 4) * copies + column * n * (copies + 1)
    # Self-loops are added to a pattern of bytes; wide columns are copied from narrow.
    made = entries * (column + 4 + 4 * wide + (column + 2) * self_loops)
    scratch = 8 * min(entries, SCRATCH) + 24 * n
    return round(SLACK * (max(held, made) + scratch))


class PieceSize(NamedTuple):
    """How much of a graph a batch needs: rows of operators, and nodes."""

    rows: int
    nodes: int


def piece_size(entries: Sequence[int], n: int, batch: int, reach: int) -> PieceSize:
    """Return about how many rows and nodes a batch brings in, at most all.

    Parameters
    ----------
    entries
        Stored entries of each operator, [n, n] each.
    n
        Number of nodes.
    batch
        How many nodes are wanted.
    reach
        How many products with operators follow one another.
    """
    row = sum(entries) / max(n, 1)
    rows = nodes = min(batch, n)
    for _ in range(reach):
        rows, nodes = nodes, min(n, round(nodes * (1 + row)))
    return PieceSize(rows, nodes)


def piece_bytes(entries: Sequence[int], n: int, rows: int) -> int:
    """Return what so many rows of all operators take in a batch.

    They are held as they were taken while they are joined and renumbered, beside the
    rows of the batch before, which have their transpose.
    """
    taken = rows * sum(entries) // max(n, 1)
    return round(SLACK * taken * (52 if taken > MAX_INT32 else 36))


def _nothing(n_nodes: int, n_targets: int) -> int:
    del n_nodes, n_targets
    return 0


@dataclass(frozen=True)
class Work:
    """What a training takes beside its operators; by default nothing.

    Parameters
    ----------
    features
        Bytes of the features as they are multiplied.
    step
        What a step holds for so many nodes, of which so many are trained on, in bytes.
    width
        Of the embedding.
    n_train, n_val
        How many nodes are trained and validated on.
    entry
        Bytes for an entry of an operator, of models that weight them anew each step.
    reach
        How many products with operators follow one another; None where each logit
        depends on the whole graph.
    self_loops
        Whether each node is in its own neighbourhoods too.
    """

    features: int = 0
    step: Callable[[int, int], int] = _nothing
    width: int = 0
    n_train: int = 0
    n_val: int = 0
    entry: int = 0
    reach: int | None = 1
    self_loops: bool = False

    @classmethod
    def of_prediction(cls, width: int) -> Work:
        """Return what a module takes to predict with an embedding of this width."""
        return cls(step=lambda nodes, _: 8 * width * nodes, width=width)

    def whole(self, n: int, entries: int = 0) -> int:
        """Return the bytes of a step on the whole graph."""
        step = self.step(n, self.n_train) + self.entry * entries
        # Features are scaled beside themselves, before the first step.
        return round(SLACK * (self.features + max(step, self.features)))

    def batch(self, n: int, nodes: int, targets: int, entries: int = 0) -> int:
        """Return the bytes of a step on so many of the graph's nodes."""
        own = self.features * nodes // max(n, 1)
        step = self.step(nodes, min(targets, nodes)) + own + self.entry * entries
        return round(SLACK * (self.features + max(step, self.features)))

    def embedding_only(self, n: int, batch: int | None = None) -> int:
        """Return the bytes of the same training without a graph, as mlp does it."""
        nodes = n if batch is None else min(n, batch)
        step = nodes * 29 * self.width
        return round(SLACK * (self.features + max(step, self.features)))


WIDTH = 64
"""Of the embedding of a model that does not say."""


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
        What is done with them; by default nothing is trained.
    on_demand
        Whether rows may be computed each time they are needed.
    batch
        How many nodes are taken together; None for all.
    """

    cap: int | None = None
    store: Path | None = None
    seed: int = 0
    limit: float | None = field(default=None, compare=False)
    work: Work = field(default=Work(), compare=False)
    on_demand: bool = field(default=False, compare=False)
    batch: int | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        params: Mapping[str, Any],
        seed: int,
        work: Work | None = None,
        *,
        on_demand: bool,
    ) -> RingOptions:
        """Return what the parameters of a `NodeClassifier` ask for.

        Parameters
        ----------
        params
            By name.
        seed
            Of the draw of a capped ring.
        work
            What training takes beside the rings; None for a prediction.
        on_demand
            Whether rows may be computed each time they are needed.
        """
        if work is None:
            work = Work.of_prediction(params.get("hidden_channels") or WIDTH)
        cap, store, limit = (
            params[name] for name in ("ring_cap", "ring_store", "memory_limit")
        )
        return cls(
            cap,
            None if store is None else usable_path(store),
            0 if cap is None else seed,
            None if limit is None else limit * 1e9,
            work,
            on_demand,
            params["batch_size"],
        )


TRAIN, VAL = 0.6, 0.2
"""Shares of the nodes that are trained and validated on where data bring no split."""
FORECAST_ROWS = 1024
"""How many rows a forecast looks at."""


@dataclass(frozen=True)
class RingForecast:
    """How large the rings of a graph will be.

    Parameters
    ----------
    entries
        Stored entries of ring 1, 2, …
    bytes
        Peak memory that building them and training on them will take, for the usual
        split where none is known.
    exact
        Whether every row was counted, or the rings extrapolated from a sample.
    """

    entries: tuple[int, ...]
    bytes: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        return (
            f"{about}{sum(self.entries):,} entries in the rings 1 to "
            f"{len(self.entries)}, {about}{gigabytes(self.bytes)}"
        )


def forecast_ring(
    adj: CSR, *, hops: int = 2, rows: int = FORECAST_ROWS
) -> RingForecast:
    """Forecast the size of the rings without building them.

    Rows are counted one by one: all of them in a small graph, else a
    sample that is even over the rows' upper bounds (the number of walks). The
    sample's share of its bound is then applied to all rows.

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
    bound = np.diff(adj.indptr).astype(np.float64)
    bounds = []
    for _ in range(1, hops):
        bound = np.minimum(adj @ bound, n)
        bounds.append(bound)
    order = np.argsort(bound, kind="stable")
    exact = n <= rows
    sample = (
        order if exact else order[np.linspace(0, n - 1, rows).round().astype(np.int64)]
    )
    entries = [int(adj.nnz)]
    for hop, bound in enumerate(bounds, start=2):
        counted = ring_sizes(adj, hop, sample).sum()
        share = counted / max(bound[sample].sum(), 1)
        entries.append(round(float(share * bound.sum())))
    taken = sum(operator_bytes(size, n, train=TRAIN, val=VAL) for size in entries)
    return RingForecast(tuple(entries), taken, exact)


# -------------------------------------------------------------- when they are too large


RING_CAP = 64
"""How many of a node's ring are drawn by itself: accuracy does not suffer from it on
the benchmarks (docs/performance.md)."""
MANY, TIMES = 50_000_000, 50
"""Entries from which on rings are capped, about 1 GB in training, if they are also so
many times those of the graph. The largest of the benchmarks has 45 million, 44 times
its own (tolokers); squirrel has 8 million, 21 times, chameleon 1 million, 19 times."""
TOO_MANY = 200_000_000
"""Entries from which on they are, whatever the graph: 5 GB, some ten seconds an
epoch. A million nodes of average degree 10 have 160 million, and stay exact."""
LESS = 0.5
"""The part of the entries that a cap must leave at most to be worth it."""


def automatic_cap(forecast: RingForecast, n: int) -> int | None:
    """Return the cap of rings that are much larger than their graph, None for others.

    Parameters
    ----------
    forecast
        Of the rings.
    n
        Number of nodes.
    """
    near, *beyond = forecast.entries
    far = sum(beyond)
    large = far >= TOO_MANY or (far >= MANY and far >= TIMES * near)
    drawn = sum(min(size, RING_CAP * n) for size in beyond)
    return RING_CAP if large and drawn <= LESS * far else None


@dataclass(frozen=True)
class RingSeconds:
    """About how long rings take on this machine.

    Parameters
    ----------
    build
        To find them.
    epoch
        To train an epoch on them.
    """

    build: float
    epoch: float


def forecast_seconds(
    forecast: RingForecast, n: int, work: Work | None = None, cap: int | None = None
) -> RingSeconds:
    """Forecast the seconds that rings take, from how fast this machine is at a sample.

    It is rough: other programs, and graphs that fit the caches better or worse, make
    it half or twice as long.

    Parameters
    ----------
    forecast
        Of the rings.
    n
        Number of nodes.
    work
        Of the training; None is that of h2gcn-1 on the usual split.
    cap
        At most so many entries in a row of a ring beyond the first.
    """
    if work is None:
        work = Work(width=64, n_train=round(TRAIN * n), n_val=round(VAL * n))
    near, *beyond = forecast.entries
    most = sum(beyond) if cap is None else cap * n
    entries = near + sum(min(size, most) for size in beyond)
    # The last round is made for the nodes that count, forward and back to train, once
    # more to validate; rounds before it for all, of which each is wider by the rings.
    counting = (2 * work.n_train + work.n_val) / max(n, 1)
    rounds, wide = max(work.reach or 1, 1), len(forecast.entries)
    passes = sum(3 * wide**r for r in range(rounds - 1)) + counting * wide ** (
        rounds - 1
    )
    found, multiplied = _speeds()
    return RingSeconds(
        sum(beyond) / found, entries * passes * max(work.width, 1) / multiplied
    )


SAMPLE_NODES, SAMPLE_DEGREE, SAMPLE_WIDTH = 65_536, 6, 64
"""Of the random graph that speeds are measured on: two million entries."""


@cache
def _speeds() -> tuple[float, float]:
    """Return entries found a second, and entries times columns multiplied a second."""
    n, rng = SAMPLE_NODES, np.random.default_rng(0)
    ends = rng.integers(n, size=(2, n * SAMPLE_DEGREE // 2))
    both = np.concatenate([ends, ends[::-1]], axis=1)
    ones = np.ones(both.shape[1], dtype=np.float32)
    (first,) = exact_rings(CSR((ones, (both[0], both[1])), shape=(n, n)), hops=1)
    ring_pattern(first, 2, np.arange(8))  # compiled before it is timed
    start = time.perf_counter()
    columns, starts = ring_pattern(first)
    found = len(columns) / (time.perf_counter() - start)
    values = np.ones(len(columns), dtype=np.float32)
    ring = Operator(CSR((values, columns, starts.astype(np.int32)), shape=(n, n)))
    dense = torch.ones(n, SAMPLE_WIDTH)
    _ = ring @ dense[:, :1]
    start = time.perf_counter()
    _ = ring @ dense
    seconds = time.perf_counter() - start
    return found, len(columns) * SAMPLE_WIDTH / seconds


LONG_SECONDS, LONG_BYTES = 10.0, 1e9
"""What takes longer, or more, is told before it begins."""
UNTOLD = 10_000_000
"""Entries below which it is quick on every machine, and nothing is measured."""


def is_long(forecast: RingForecast, n: int, work: Work | None = None) -> bool:
    """Return whether somebody should be told how large rings are before they begin.

    Parameters
    ----------
    forecast, n, work
        As of `forecast_seconds`.
    """
    if forecast.bytes >= LONG_BYTES:
        return True
    if sum(forecast.entries) < UNTOLD:
        return False
    seconds = forecast_seconds(forecast, n, work)
    return seconds.build + seconds.epoch >= LONG_SECONDS


def in_words(seconds: float) -> str:
    """Return a rough time as text.

    Examples
    --------
    >>> in_words(0.2), in_words(44), in_words(200), in_words(9000)
    ('less than a second', 'about 44 seconds', 'about 3 minutes', 'about 2.5 hours')
    """
    if seconds < 1:
        return "less than a second"
    for unit, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= 2 * size or size == 1:
            count = seconds / size
            text = f"{count:.1f}" if size == 3600 and count < 10 else f"{count:.0f}"
            text = text.removesuffix(".0")
            return f"about {text} {unit}{'' if text == '1' else 's'}"
    raise AssertionError


def cap_words(forecast: RingForecast, n: int, cap: int) -> str:
    """Return why rings were capped, what exact ones would take, and how to have them.

    Parameters
    ----------
    forecast
        Of the rings.
    n
        Number of nodes.
    cap
        What was chosen.
    """
    near, *beyond = forecast.entries
    far = sum(beyond)
    about = "" if forecast.exact else "about "
    seconds = forecast_seconds(forecast, n)
    return (
        f"the 2-hop ring would hold {about}{far:,} entries, {far / max(near, 1):,.0f} "
        f"times those of the graph, take {gigabytes(forecast.bytes)}, "
        f"{in_words(seconds.build)} to build and {in_words(seconds.epoch)} an epoch of "
        f"h2gcn-1: of each node's ring {cap} are drawn instead, weighted by its true "
        f"size (ring_cap={cap}); ring_cap='exact' takes all of them"
    )
