"""Runs a plan: what is missing of it, side by side, each kept as it finishes."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from h2gcn.experiments.running.pools import LocalPool, Record
from h2gcn.experiments.running.runs import Run, Store

__all__ = ["Event", "Outcome", "Pool", "is_done", "run_plan"]


class Pool(Protocol):
    """Workers: `LocalPool` on this machine, `RayPool` on many."""

    @property
    def size(self) -> int:
        """How many runs it takes at a time."""
        ...

    @property
    def running(self) -> int:
        """How many of them are being worked on."""
        ...

    def submit(self, run: Run) -> None:
        """Have a run done."""
        ...

    def next(self) -> tuple[Run, Record]:
        """Wait for one that was submitted, whichever is first."""
        ...


@dataclass(frozen=True)
class Event:
    """How far a plan is.

    Parameters
    ----------
    total
        Runs of the plan.
    found
        Those that the store had at the start.
    done
        Those that it has now, `found` included, without those that failed.
    failed
        Those that failed since the start.
    running
        Those under way.
    seconds_left
        An estimate; None before the first run has finished.
    run
        The one that has just finished; None at the start.
    """

    total: int
    found: int
    done: int
    failed: int
    running: int
    seconds_left: float | None
    run: Run | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a plan: how many runs, which of them failed, how long it took."""

    total: int
    found: int
    done: int
    failed: tuple[Run, ...]
    seconds: float


def is_done(store: Store, run: Run) -> bool:
    """Return whether a run is in the store and did not fail."""
    return run.key in store and store[run.key].get("error") is None


def run_plan(
    runs: Iterable[Run],
    store: Store,
    *,
    jobs: int | None = None,
    pool: Pool | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Outcome:
    """Do what is missing of a plan, and put each run into the store as it finishes.

    A run that failed, now or at an earlier start, does not stop the others, and is
    tried again at the next start. Ctrl-C, a full disk and a kill leave in the store
    what has finished by then.

    Parameters
    ----------
    runs
        The plan; of runs with the same key the first counts.
    store
        Written to by this process alone.
    jobs
        As of `LocalPool`, which is started and ended here.
    pool
        Workers to use instead, which stay; they must have no other runs.
    on_event
        Called at the start and after every run.
    """
    start = time.perf_counter()
    plan: dict[str, Run] = {}
    for run in runs:
        plan.setdefault(run.key, run)
    missing = [run for run in plan.values() if not is_done(store, run)]
    waiting, tally = deque(_by_graph(missing)), _Tally(len(plan), missing, store)
    with ExitStack() as stack:
        workers = stack.enter_context(LocalPool(jobs)) if pool is None else pool
        _refill(workers, waiting, tally.left)
        tally.tell(on_event, workers)
        while tally.left:
            run, record = workers.next()
            # First, so that no worker waits for the disk.
            _refill(workers, waiting, tally.left - 1)
            store.append(record)
            tally.add(run, record)
            tally.tell(on_event, workers, run)
    return tally.outcome(time.perf_counter() - start)


def _refill(pool: Pool, waiting: deque[Run], left: int) -> None:
    """Submit as many of the waiting runs as a pool takes beside those under way."""
    under_way = left - len(waiting)
    for _ in range(min(pool.size - under_way, len(waiting))):
        pool.submit(waiting.popleft())


def _by_graph(runs: Sequence[Run]) -> list[Run]:
    """Put runs on one graph together, and those of one model on it.

    A process remembers the last graphs, and of each the last model's operators.
    """
    datasets = list(dict.fromkeys(run.dataset for run in runs))
    models = list(dict.fromkeys(run.model for run in runs))
    place = {name: number for number, name in enumerate(datasets + models)}
    return sorted(runs, key=lambda run: (place[run.dataset], place[run.model]))


class _Tally:
    """Counts runs, and guesses how long the rest of them takes."""

    def __init__(self, total: int, missing: Sequence[Run], store: Store) -> None:
        self.total, self.left = total, len(missing)
        self.found = total - len(missing)
        self.failed: list[Run] = []
        self._left = Counter((run.dataset, run.model) for run in missing)
        self._runs: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        for record in store.records:
            if _group(record) in self._left:
                self._time(record)

    def add(self, run: Run, record: Record) -> None:
        """Count a run that has just finished."""
        self.left -= 1
        self._left[_group(record)] -= 1
        self._time(record)
        if record.get("error") is not None:
            self.failed.append(run)

    def tell(
        self,
        on_event: Callable[[Event], None] | None,
        pool: Pool,
        run: Run | None = None,
    ) -> None:
        """Tell whoever wants to know how far it is."""
        if on_event is not None:
            failed = len(self.failed)
            done = self.total - self.left - failed
            seconds = self._seconds_left(pool)
            counts = (self.total, self.found, done, failed, pool.running)
            on_event(Event(*counts, seconds, run))

    def outcome(self, seconds: float) -> Outcome:
        """Return the counts at the end."""
        done = self.total - len(self.failed)
        return Outcome(self.total, self.found, done, tuple(self.failed), seconds)

    def _seconds_left(self, pool: Pool) -> float | None:
        """Take the mean of the same model on the same graph, or of all runs."""
        if not self._runs:
            return None
        mean = sum(self._seconds.values()) / self._runs.total()
        means = {group: self._seconds[group] / n for group, n in self._runs.items()}
        rest = sum(n * means.get(group, mean) for group, n in self._left.items())
        return rest / max(pool.running, 1)

    def _time(self, record: Record) -> None:
        if record.get("error") is None:
            self._runs[_group(record)] += 1
            self._seconds[_group(record)] += record["seconds"]


def _group(record: Record) -> tuple[str, str]:
    return record["dataset"], record["model"]
