"""When rings are large: the time they take, and the rule by which they are capped.

The rule looks at numbers of entries alone, so that it is the same on every machine;
seconds are only told.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from h2gcn.graph import CSR
from h2gcn.rings.exact import exact_rings, ring_pattern
from h2gcn.rings.footprint import TRAIN, VAL, RingForecast, Work
from h2gcn.sparse import Operator, gigabytes

__all__ = [
    "RING_CAP",
    "RingSeconds",
    "automatic_cap",
    "cap_words",
    "forecast_seconds",
    "in_words",
    "is_long",
]

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
