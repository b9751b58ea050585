"""Exact H2GCN over workers: each has rows of the graph, and all train one model.

Ray Train starts the workers, joins them into a group of `torch.distributed` (gloo), and
starts all of them anew where one dies. What they know together is kept by an actor
beside the program that asked, the desk: the epochs so far, the state of the last
checkpoint, from which they go on, and in the end the model. So no folder need be seen
by all of them but that of the graph.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np

from h2gcn.cluster.connection import ATTEMPTS, ENVIRONMENT, Cluster
from h2gcn.estimator import (
    CheckedFit,
    NodeClassifier,
    check_fit,
    check_spread,
    forecast_spread,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split
from h2gcn.io import locked, open_store, write_store, write_whole
from h2gcn.sparse import gigabytes, keep_freed_memory
from h2gcn.training import (
    MANIFEST,
    MINUTES,
    Epoch,
    check_resume,
    checkpoint_files,
    holds_state,
)

__all__ = ["Spread", "fit_over_workers"]

MOST_WORKERS = 4096
"""That are proposed where fewer have too little memory."""
_SECONDS_TO_LOOK = 0.2
"""Between two looks at how far the workers are."""
_SECONDS_TO_WAIT = 1800
"""For the others, in a product: they may be on slower machines."""


@dataclass(frozen=True)
class Spread:
    """How a training went over workers.

    Parameters
    ----------
    workers
        How many there were.
    starts
        How often they were started: once, and again after one died.
    sent, forecast_sent
        Bytes that the first of them sent in an epoch, and those that were forecast.
    peak, forecast_bytes
        Bytes of memory that a worker took at most, the mapped graph included, and those
        that were forecast without it.
    """

    workers: int
    starts: int
    sent: int
    forecast_sent: int
    peak: int
    forecast_bytes: int


def fit_over_workers(
    classifier: NodeClassifier,
    checked: CheckedFit,
    cluster: Cluster,
    *,
    store: str | Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    checkpoint_minutes: float = MINUTES,
) -> Spread:
    """Fit a classifier in place, by all workers of a cluster together.

    It is what `NodeClassifier.fit` gives, up to the order of sums, and the same to the
    bit for any number of workers. A worker that dies costs the epochs since the last
    checkpoint, from which another number of workers may go on too.

    Parameters
    ----------
    classifier
        With a model that `h2gcn.estimator.check_spread` takes.
    checked
        Of `h2gcn.estimator.check_fit`, with the parameters of this classifier.
    cluster
        Whose workers they are.
    store
        The folder of a graph store with this graph, which all workers see. None writes
        one for the time of the training, for workers of this machine.
    on_epoch, checkpoint, resume, checkpoint_minutes
        As of `NodeClassifier.fit`. The folder is one of this machine.
    """
    checked = check_spread(checked)
    workers = cluster.workers
    forecast, sent = _check_memory(checked, cluster, workers)
    with ExitStack() as during:
        state = during.enter_context(_state(checkpoint, resume))
        own = Path(during.enter_context(TemporaryDirectory(prefix="h2gcn-")))
        if store is None:
            store = _written(checked.graph, own, cluster)
        given = _Given(
            str(Path(store).absolute()),  # workers are in folders of their own
            checked.split,
            dict(checked.params),
            checked.seed,
            checkpoint_minutes,
        )
        desk = cluster.actor(_Desk, state.files)
        told = _watch(cluster, desk, _start(given, desk, workers, own), on_epoch, state)
        if told["failure"] is not None:
            raise InputError(told["failure"])
        if told["fitted"] is None:
            raise InputError(
                f"a worker died in each of {told['starts']} starts; is there enough "
                f"memory? ({told['why']})"
            )
        _adopt(classifier, checked, told["fitted"], own / "model")
    more = told["fitted"]["sent"], sent, max(told["peaks"].values()), forecast
    return Spread(workers, told["starts"], *more)


def _check_memory(
    checked: CheckedFit, cluster: Cluster, workers: int
) -> tuple[int, int]:
    """Return what a worker will take and send; raise where it is too much."""
    held, sent = forecast_spread(checked, workers)
    limit = checked.params["memory_limit"]
    free = min(one.free // one.workers for one in cluster.machines)
    room = free if limit is None else min(free, int(limit * 1e9))
    if held <= room:
        return held, sent
    count = workers
    while count < MOST_WORKERS and forecast_spread(checked, count)[0] > room:
        count += max(1, count // 8)
    would = f"about {count} such workers would do"
    if count >= MOST_WORKERS:
        would = "a ring_cap, or machines with more memory, would help"
    raise InputError(
        f"to train {checked.params['model']} on {checked.graph.name} takes about "
        f"{gigabytes(held)} a worker with {workers}, and there are {gigabytes(room)} "
        f"for each; {would}"
    )


def _written(graph: Graph, folder: Path, cluster: Cluster) -> Path:
    """Write the graph where workers of this machine can map it."""
    if len(cluster.machines) > 1:
        raise InputError(
            "workers of other machines do not see what is in memory here; convert the "
            "graph into a store in a folder that all of them see"
        )
    write_store(graph, folder / "graph")
    return folder / "graph"


# ----------------------------------------------------------------------- the checkpoint


class _State:
    """The files of a checkpoint: those that there were, and where new ones go."""

    def __init__(self, folder: Path | None, files: Mapping[str, bytes]) -> None:
        self.folder, self.files = folder, dict(files)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write new files, the one that names the others last; remove the old."""
        if self.folder is None or not files or files == self.files:
            return
        for name in sorted(files, key=lambda name: name.endswith(".json")):
            if name.endswith(".json") or name not in self.files:
                write_whole(self.folder / name, files[name])
        for name in self.files.keys() - files.keys():
            (self.folder / name).unlink(missing_ok=True)
        self.files = dict(files)


@contextmanager
def _state(checkpoint: str | Path | None, resume: bool) -> Iterator[_State]:
    """Yield the state of a training; its folder is kept from others meanwhile."""
    if checkpoint is None:
        if resume:
            raise InputError("'resume' needs 'checkpoint', the folder to go on from.")
        yield _State(None, {})
        return
    folder = Path(checkpoint)
    check_resume(folder, holds_state(folder), resume)
    folder.mkdir(exist_ok=True)
    with locked(folder):
        yield _State(folder, checkpoint_files(folder) if resume else {})


# -------------------------------------------------------------------------- the workers


@dataclass(frozen=True)
class _Given:
    """What every worker is told."""

    store: str
    split: Split
    params: Mapping[str, Any]
    seed: int
    minutes: float


class _Desk:
    """What the workers of a training know together; lives in a process of its own."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._epochs: list[Epoch] = []
        self._starts, self._peaks = 0, {0: 0}
        self._failure: str | None = None
        self._fitted: dict[str, Any] | None = None

    def begin(self, rank: int) -> tuple[bool, dict[str, bytes]]:
        """Return whether there is anything to do, and where to go on from."""
        self._starts += rank == 0
        return self._failure is None, self._files

    def tell(self, epoch: Epoch, files: Mapping[str, bytes] | None) -> None:
        """Take an epoch, and the files of a new checkpoint."""
        self._epochs.append(epoch)
        if files is not None:
            self._files = dict(files)

    def fail(self, why: str) -> None:
        """Take why the training cannot be."""
        self._failure = why

    def end(
        self,
        rank: int,
        peak: int,
        fitted: Mapping[str, Any],
        files: Mapping[str, bytes],
    ) -> None:
        """Take what a worker found in the end, and the memory that it took."""
        self._peaks[rank] = peak
        if rank == 0:
            self._fitted, self._files = dict(fitted), dict(files)

    def news(self) -> tuple[list[Epoch], dict[str, bytes]]:
        """Return the epochs since the last call, and the last checkpoint."""
        epochs, self._epochs = self._epochs, []
        return epochs, self._files

    def told(self) -> dict[str, Any]:
        """Return all that is known in the end."""
        return {
            "failure": self._failure,
            "fitted": self._fitted,
            "starts": self._starts,
            "peaks": self._peaks,
        }


def _work(given: Mapping[str, Any]) -> None:
    """Train as one of the workers: what Ray Train calls in each of them."""
    import ray
    from ray import train

    task: _Given = given["task"]
    desk, rank = given["desk"], train.get_context().get_world_rank()
    going_on, files = ray.get(desk.begin.remote(rank))
    if not going_on:
        return
    try:
        with TemporaryDirectory(prefix="h2gcn-") as own:
            _train(task, desk, rank, files, Path(own))
    except InputError as error:
        ray.get(desk.fail.remote(str(error)))


def _train(
    task: _Given, desk: Any, rank: int, files: Mapping[str, bytes], own: Path
) -> None:
    import ray
    import torch

    torch.set_num_threads(1)
    keep_freed_memory()  # the process is for nothing else
    params = dict(task.params)
    if not isinstance(params["random_state"], Integral):
        params["random_state"] = task.seed
    classifier = NodeClassifier(**params)
    graph = open_store(task.store)
    checked = replace(check_fit(params, graph, task.split), seed=task.seed)
    state, sent = own / "state", _Sent()
    if files:
        state.mkdir()
        for name, content in files.items():
            write_whole(state / name, content)

    def on_epoch(epoch: Epoch) -> None:
        desk.tell.remote(epoch, sent.new(state))

    classifier.fit_checked(
        checked,
        on_epoch=on_epoch,
        checkpoint=state,
        resume=bool(files),
        checkpoint_minutes=task.minutes,
        spread=True,
    )
    fitted: dict[str, Any] = {}
    if rank == 0:
        classifier.save(own / "model")
        nodes = np.concatenate([classifier.split_.val, classifier.split_.test])
        fitted = {
            "files": _files(own / "model"),
            "split": classifier.split_,
            "history": classifier.history_,
            "seconds": classifier.seconds_,
            "nodes": nodes,
            "logits": classifier.predict_logits(graph, nodes),
            "sent": classifier.bytes_sent_,
        }
    ray.get(desk.end.remote(rank, peak_memory(), fitted, checkpoint_files(state)))


def peak_memory() -> int:
    """Return the most memory that this process had, in bytes; 0 where none says so."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class _Sent:
    """Which checkpoint was sent last."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, folder: Path) -> dict[str, bytes] | None:
        """Return the files of a checkpoint, if it is not the one that was sent."""
        manifest = folder / MANIFEST
        made = manifest.stat().st_mtime_ns if manifest.exists() else self._last
        if made == self._last:
            return None
        self._last = made
        return checkpoint_files(folder)


def _files(folder: Path) -> dict[str, bytes]:
    """Return what all files of a folder hold, by their names in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# ------------------------------------------------------------------------ and the desk


class _Run(Thread):
    """Ray Train at work, and what it came to."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(daemon=True, name="h2gcn training over workers")
        self._trainer = trainer
        self.why = ""

    def run(self) -> None:
        """Train until the workers end, or have died too often."""
        try:
            self._trainer.fit()
        except Exception as error:  # of Ray, or of what the workers did
            self.why = " ".join(str(error).split())[-300:]


def _start(given: _Given, desk: Any, workers: int, folder: Path) -> _Run:
    """Have Ray Train start the workers."""
    try:
        train, of_torch = import_module("ray.train"), import_module("ray.train.torch")
    except ModuleNotFoundError as error:
        raise InputError(
            f"to train over workers, Ray Train needs {error.name}: pip install "
            "'h2gcn[ray]'"
        ) from None
    logging.getLogger("ray.train").setLevel(logging.ERROR)
    trainer = of_torch.TorchTrainer(
        _work,
        train_loop_config={"task": given, "desk": desk},
        scaling_config=train.ScalingConfig(
            num_workers=workers, resources_per_worker={"CPU": 1}
        ),
        run_config=train.RunConfig(
            name="run",
            storage_path=str(folder),
            failure_config=train.FailureConfig(max_failures=ATTEMPTS),
            worker_runtime_env={"env_vars": ENVIRONMENT},
        ),
        torch_config=of_torch.TorchConfig(backend="gloo", timeout_s=_SECONDS_TO_WAIT),
    )
    run = _Run(trainer)
    run.start()
    return run


def _watch(
    cluster: Cluster,
    desk: Any,
    run: _Run,
    on_epoch: Callable[[Epoch], None] | None,
    state: _State,
) -> dict[str, Any]:
    """Pass on what the workers tell, until they end; return what they found."""
    seen = 0
    with redirect_stdout(sys.stderr):  # where Ray says that a worker died
        while True:
            ended = not run.is_alive()
            epochs, files = cluster.result(desk.news.remote())
            state.write(files)
            for epoch in epochs:  # those after a worker's death come again
                if on_epoch is not None and epoch.number > seen:
                    on_epoch(epoch)
                seen = max(seen, epoch.number)
            if ended:
                break
            time.sleep(_SECONDS_TO_LOOK)
        told: dict[str, Any] = cluster.result(desk.told.remote())
    return {**told, "why": run.why}


def _adopt(
    classifier: NodeClassifier,
    checked: CheckedFit,
    fitted: Mapping[str, Any],
    folder: Path,
) -> None:
    """Make a classifier the one that the workers fitted."""
    for name, content in fitted["files"].items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    found = NodeClassifier.load(folder)
    learned = {name: v for name, v in vars(found).items() if name.endswith("_")}
    vars(classifier).update(learned)
    classifier.split_ = fitted["split"]
    classifier.history_ = tuple(fitted["history"])
    classifier.n_iter_ = len(classifier.history_)
    classifier.seconds_ = fitted["seconds"]
    classifier.interrupted_ = False
    classifier.remember(checked.graph, fitted["nodes"], fitted["logits"])
