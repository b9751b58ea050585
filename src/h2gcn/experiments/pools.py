"""Runs done side by side: by processes of this machine, or by a Ray cluster.

joblib's loky would not do: where one of its processes dies, all runs under way are lost
and nobody can tell whose it was, and its processes outlive a parent that was killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn._validation import check_integer
from h2gcn.cluster import ATTEMPTS, ENVIRONMENT, Cluster
from h2gcn.exceptions import InputError
from h2gcn.experiments.runs import Run, Store, find_checksum, open_graph

__all__ = [
    "Event",
    "LocalPool",
    "Outcome",
    "Pool",
    "RayPool",
    "Record",
    "count_by_degree",
    "execute",
    "failure",
    "is_done",
    "run_plan",
    "work",
]

Record = dict[str, Any]
"""A run and what came of it, as a line of the store."""


def execute(run: Run) -> Record:
    """Fit a run's model on its split and return the record.

    Returns
    -------
    dict
        The run's fields and `key`; `selected` (False: that is for a table to say);
        `val_accuracy` and `test_accuracy`, fractions of 1; `seconds` of the fit;
        `version`; `best_epoch`, `epochs`, `checksum` of the graph, and `by_degree`,
        see `count_by_degree`. Of a run that fails both accuracies are None, and
        `error` is the traceback.
    """
    start = time.perf_counter()
    try:
        return _fit(run)
    except Exception:  # whatever it is, the other runs go on
        seconds = time.perf_counter() - start
        return failure(run, traceback.format_exc(), seconds)


def work(run: Run) -> Record:
    """Execute a run in a process that is for nothing else: one thread, no warnings."""
    import torch

    from h2gcn.sparse import tune_allocator

    torch.set_num_threads(1)
    tune_allocator()
    with warnings.catch_warnings():
        # The same ones for each split; whoever opens the graph to plan has seen them.
        warnings.simplefilter("ignore")
        return execute(run)


def failure(run: Run, error: str, seconds: float = 0.0) -> Record:
    """Return the record of a run that failed."""
    return _record(run, seconds, None, None) | {"error": error}


def count_by_degree(
    degrees: NDArray[np.int64], right: NDArray[np.bool_]
) -> list[list[int]]:
    """Count nodes, and those predicted right, by ranges of degree.

    Parameters
    ----------
    degrees
        Number of neighbours of each node, [m].
    right
        Whether each was predicted right, [m].

    Returns
    -------
    list
        `[lowest degree, highest degree, nodes, right]` for 0, 1, 2–3, 4–7, 8–15 and
        so on, without the ranges that have no node.

    Examples
    --------
    >>> count_by_degree(np.array([1, 2, 3, 3]), np.array([True, True, False, True]))
    [[1, 1, 1, 1], [2, 3, 3, 2]]
    """
    # The exponent of 2^(k-1) <= d < 2^k; that of 0 is 0.
    ranges = np.frexp(degrees)[1]
    nodes = np.bincount(ranges)
    hits = np.bincount(ranges, weights=right)
    return [
        [2**k // 2, 2**k - 1, int(nodes[k]), int(hits[k])]
        for k in np.flatnonzero(nodes).tolist()
    ]


def _fit(run: Run) -> Record:
    from h2gcn.estimator import without_findings
    from h2gcn.experiments.definition import classifier_of

    graph = open_graph(run.dataset)
    without_findings(graph)  # a benchmark is as it is
    classifier = classifier_of(run.model, run.config, random_state=run.seed + run.split)
    start = time.perf_counter()
    classifier.fit(graph, run.split)
    seconds = time.perf_counter() - start
    if classifier.interrupted_:
        raise KeyboardInterrupt
    val, test = classifier.split_.val, classifier.split_.test
    nodes = np.concatenate([val, test])
    predicted = classifier.predict_logits(graph, nodes).argmax(axis=1)
    right = predicted == graph.y[nodes]
    in_val, in_test = right[: len(val)], right[len(val) :]
    return _record(run, seconds, _share(in_val), _share(in_test)) | {
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "checksum": find_checksum(run.dataset),
        "by_degree": count_by_degree(graph.degrees[test], in_test),
    }


def _share(right: NDArray[np.bool_]) -> float | None:
    return float(right.mean()) if right.size else None


def _record(
    run: Run, seconds: float, val_accuracy: float | None, test_accuracy: float | None
) -> Record:
    return {
        "key": run.key,
        **run.to_json(),
        "selected": False,
        "val_accuracy": val_accuracy,
        "test_accuracy": test_accuracy,
        "seconds": round(seconds, 3),
        "version": __version__,
    }


# ------------------------------------------------------------------------- this machine

_FAILED_STARTS = 3
"""Processes in a row that die before they can work, after which none will."""
_SECONDS_TO_GO = 5.0


class LocalPool:
    """Processes that work on a run each, started when there is a run for them.

    A process that dies, as where memory runs out, takes no other with it: its run is
    begun once more, and fails if that one dies too. If this process dies, so do they.

    Parameters
    ----------
    jobs
        How many processes; by default one for each core.
    work
        What is done with a run, a function that can be imported.

    Attributes
    ----------
    size
        How many runs it takes at a time.
    """

    def __init__(
        self, jobs: int | None = None, *, work: Callable[[Run], Record] = work
    ) -> None:
        jobs = _cores() if jobs is None else jobs
        self.size = check_integer("jobs", jobs, 1)
        self._work = work
        self._workers: list[_Worker] = []
        self._deaths: Counter[str] = Counter()
        self._failed_starts = 0

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return sum(worker.run is not None for worker in self._workers)

    def submit(self, run: Run) -> None:
        """Give a run to a process that has none; there must be fewer than `size`."""
        idle = [worker for worker in self._workers if worker.run is None]
        if not idle:
            idle = [_Worker(self._work)]
            self._workers += idle
        idle[0].give(run)

    def next(self) -> tuple[Run, Record]:
        """Wait for a run that was submitted to finish, and return its record."""
        while True:
            busy = {w.connection: w for w in self._workers if w.run is not None}
            assert busy, "nothing was submitted"
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                if (finished := self._hear(worker)) is not None:
                    return finished

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.end()
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hear(self, worker: _Worker) -> tuple[Run, Record] | None:
        """Take what a process has to say, or notice that it is dead."""
        run = worker.run
        assert run is not None
        try:
            record: Record | None = worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(worker, run)
        if record is None:
            worker.ready, self._failed_starts = True, 0
            return None
        worker.run = None
        return run, record

    def _bury(self, worker: _Worker, run: Run) -> tuple[Run, Record] | None:
        """Begin the run of a dead process once more, or return that it failed."""
        # Its connection is closed a little before it is gone.
        worker.process.join(_SECONDS_TO_GO)
        end = worker.end()
        self._workers.remove(worker)
        if worker.ready:
            self._deaths[run.key] += 1
        else:
            self._failed_starts += 1
        if self._failed_starts == _FAILED_STARTS:
            raise InputError(
                f"processes cannot be started here ({end}); a script that starts "
                "them must do so under: if __name__ == '__main__'"
            )
        if self._deaths[run.key] < ATTEMPTS:
            self.submit(run)
            return None
        why = f"the process that worked on it {end}, {ATTEMPTS} times"
        return run, failure(run, f"{why}; is there enough memory?")


class _Worker:
    """A process, and the run that it works on."""

    def __init__(self, work: Callable[[Run], Record]) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with _born_quiet():
            self.process.start()
        theirs.close()  # so that nobody holds it when the process is gone
        self.run: Run | None = None
        self.ready = False

    def give(self, run: Run) -> None:
        """Send a run."""
        self.run = run
        with suppress(OSError):  # dead: noticed when it is listened to
            self.connection.send(run.to_json())

    def end(self) -> str:
        """Kill the process, and return how it ended."""
        self.process.kill()
        self.process.join()
        self.connection.close()
        code = self.process.exitcode or 0
        self.process.close()
        return f"was killed by signal {-code}" if code < 0 else f"ended with {code}"


def _serve(connection: Connection, work: Callable[[Run], Record]) -> None:
    """Work on one run after the other for as long as somebody wants it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the parent to deal with
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connection.send(None)
    with suppress(EOFError, OSError):
        while True:
            record = work(Run.from_json(connection.recv()))
            connection.send(record)


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _born_quiet() -> Iterator[None]:
    """Let a process begin with one thread, and deaf to Ctrl-C from the start."""
    # It would be started with the first process, and unblock the signal.
    resource_tracker.ensure_running()
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    if hasattr(signal, "pthread_sigmask"):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ------------------------------------------------------------------------ a Ray cluster

_DATA = ("H2GCN_DATA", "H2GCN_TRUST_DATA")
"""Where the benchmarks are, and whether others than the known ones are read."""


class RayPool:
    """A Ray cluster, whose machines must have this package and the data.

    A run whose worker dies is begun once more, elsewhere if need be. Where a machine
    does not set $H2GCN_DATA or $H2GCN_TRUST_DATA, it is as here.

    Parameters
    ----------
    place
        As of `h2gcn.cluster.Cluster`: `local:N`, `host:port` or `auto`.
    work
        What is done with a run, a function that can be imported.
    """

    def __init__(
        self, place: str = "auto", *, work: Callable[[Run], Record] = work
    ) -> None:
        self._cluster = Cluster(place)
        self._given = work
        self._runs: dict[Any, Run] = {}

    @property
    def size(self) -> int:
        """How many runs it takes: some in advance, so that a cluster may grow."""
        return 2 * self._cluster.workers

    @property
    def running(self) -> int:
        """How many runs are under way, so far as can be told from here."""
        return min(len(self._runs), self._cluster.workers)

    def submit(self, run: Run) -> None:
        """Send a run to the cluster."""
        here = {name: os.environ[name] for name in _DATA if name in os.environ}
        given = self._given, run.to_json(), here
        self._runs[self._cluster.submit(_do, *given, name="run")] = run

    def next(self) -> tuple[Run, Record]:
        """Wait for a run that was submitted to finish, and return its record."""
        first = self._cluster.wait(self._runs)
        run = self._runs.pop(first)
        try:
            record: Record = self._cluster.result(first)
        except Exception as error:  # whatever it is, the other runs go on
            record = failure(run, f"Ray: {error}")
        return run, record

    def close(self) -> None:
        """End what is under way, and the connection."""
        self._cluster.cancel(self._runs)
        self._runs = {}
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _do(
    work: Callable[[Run], Record], content: dict[str, Any], data: dict[str, str]
) -> Record:
    for name, value in data.items():
        os.environ.setdefault(name, value)
    return work(Run.from_json(content))


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
