"""Exact H2GCN over the workers of a cluster, each with some rows of the graph.

Ray Train starts the workers, joins them into a `torch.distributed` group (gloo), and
starts all of them again where one dies. They go on from the checkpoint folder, which
rank 0 writes; what they report is collected by an actor beside the calling program.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
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
    check_distributed,
    check_fit,
    estimate_distributed,
    resolve_params,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split
from h2gcn.io import open_store, write_store
from h2gcn.sparse import format_bytes, tune_allocator
from h2gcn.training import (
    MINUTES,
    Checkpoint,
    Epoch,
    holds_state,
    identify,
)

__all__ = ["DistributedFitResult", "fit_over_workers"]

MAX_WORKERS = 4096  # that a message proposes where fewer have too little memory
_POLL_SECONDS = 0.2
_FAILURE_SECONDS = 10.0  # for the other workers to end after one has failed
_GLOO_TIMEOUT_SECONDS = 1800  # workers may be on slower machines


@dataclass(frozen=True)
class DistributedFitResult:
    """How a training over workers went.

    Parameters
    ----------
    workers
        How many there were.
    starts
        How often they were started: once, and again after one died.
    sent, forecast_sent
        Bytes that rank 0 sent in an epoch, and the estimate.
    peak, forecast_bytes
        The largest memory of a worker in bytes, mapped files included, and the
        estimate without them.
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
) -> DistributedFitResult:
    """Fit a classifier in place, with all workers of a cluster together.

    The result equals that of `NodeClassifier.fit` up to rounding. A worker that dies
    costs the epochs since the last checkpoint; another number of workers may go on
    from it.

    Parameters
    ----------
    classifier
        With a model that `h2gcn.estimator.check_distributed` accepts.
    checked
        The result of `h2gcn.estimator.check_fit` for this classifier.
    cluster
        The workers.
    store
        The folder of a graph store with this graph, which all workers see. None writes
        a temporary one, for workers of this machine.
    on_epoch, resume, checkpoint_minutes
        As in `NodeClassifier.fit`.
    checkpoint
        A folder that all workers see. None uses a temporary one on this machine; with
        several machines, workers then start again from the first epoch.
    """
    checked = check_distributed(checked)
    workers = cluster.workers
    estimated_bytes, estimated_sent = _check_memory(checked, cluster, workers)
    with ExitStack() as stack:
        own = Path(stack.enter_context(TemporaryDirectory(prefix="h2gcn-")))
        folder = stack.enter_context(
            _checkpoint_folder(checked, checkpoint, resume, checkpoint_minutes)
        )
        if folder is None and len(cluster.machines) == 1:
            folder = own / "state"
            folder.mkdir()
        if store is None:
            store = _write_graph(checked.graph, own, cluster)
        task = _Task(
            str(Path(store).absolute()),  # workers run in folders of their own
            checked.split,
            dict(checked.params),
            checked.seed,
            None if folder is None else str(folder.absolute()),
            checkpoint_minutes,
        )
        actor = cluster.actor(_ProgressActor)
        run = _Run(_make_trainer(task, actor, workers, own))
        run.start()
        progress = _follow(cluster, actor, run, on_epoch)
        if progress.failure is not None:
            raise progress.failure
        if progress.fitted is None:
            raise InputError(
                f"a worker died in each of {progress.starts} starts; is there enough "
                f"memory? ({run.error})"
            )
        _adopt(classifier, checked.graph, progress.fitted, own / "model")
    return DistributedFitResult(
        workers,
        progress.starts,
        progress.fitted["sent"],
        estimated_sent,
        max(progress.peaks.values()),
        estimated_bytes,
    )


def _check_memory(
    checked: CheckedFit, cluster: Cluster, workers: int
) -> tuple[int, int]:
    """Return the bytes that a worker will hold and send; raise if it holds too much."""
    held, sent = estimate_distributed(checked, workers)
    limit = checked.params["memory_limit"]
    available = min(one.free // one.workers for one in cluster.machines)
    if limit is not None:
        available = min(available, int(limit * 1e9))
    if held <= available:
        return held, sent
    count = workers
    while count < MAX_WORKERS and estimate_distributed(checked, count)[0] > available:
        count += max(1, count // 8)
    hint = f"about {count} such workers would do"
    if count >= MAX_WORKERS:
        hint = "a ring_cap, or machines with more memory, would help"
    raise InputError(
        f"to train {checked.params['model']} on {checked.graph.name} takes about "
        f"{format_bytes(held)} a worker with {workers}, and there are "
        f"{format_bytes(available)} for each",
        hint=hint,
    )


def _write_graph(graph: Graph, folder: Path, cluster: Cluster) -> Path:
    """Write the graph where workers of this machine can map it."""
    if len(cluster.machines) > 1:
        raise InputError(
            "workers of other machines do not see what is in memory here; convert the "
            "graph into a store in a folder that all of them see"
        )
    write_store(graph, folder / "graph")
    return folder / "graph"


@contextmanager
def _checkpoint_folder(
    checked: CheckedFit, checkpoint: str | Path | None, resume: bool, minutes: float
) -> Iterator[Path | None]:
    """Yield the folder of the checkpoint, made and checked before workers start."""
    if checkpoint is None:
        if resume:
            raise InputError("'resume' needs 'checkpoint', the folder to go on from.")
        yield None
        return
    graph, params = checked.graph, checked.params
    identity = identify(resolve_params(params), graph, checked.split, directed=False)
    epochs = checked.config.epochs
    Checkpoint(checkpoint, identity, epochs=epochs, minutes=minutes, resume=resume)
    folder = Path(checkpoint)
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


# -------------------------------------------------------------------------- the workers


@dataclass(frozen=True)
class _Task:
    """What every worker trains."""

    store: str
    split: Split
    params: Mapping[str, Any]
    seed: int
    checkpoint: str | None
    minutes: float


class _ProgressActor:
    """Keeps what workers report until the calling program polls it."""

    def __init__(self) -> None:
        self._reports: list[tuple[str, Any]] = []

    def put(self, name: str, value: Any) -> None:
        """Add a report."""
        self._reports.append((name, value))

    def poll(self) -> list[tuple[str, Any]]:
        """Return the reports since the last call."""
        reports, self._reports = self._reports, []
        return reports


def _work(config: Mapping[str, Any]) -> None:
    """Train as one of the workers; Ray Train calls it in each of them."""
    import ray
    from ray import train

    actor, rank = config["actor"], train.get_context().get_world_rank()
    if rank == 0:
        actor.put.remote("start", None)
    try:
        _train(config["task"], actor, rank)
    except InputError as error:  # another start would fail alike
        ray.get(actor.put.remote("failure", error))


def _train(task: _Task, actor: Any, rank: int) -> None:
    import ray
    import torch

    torch.set_num_threads(1)
    tune_allocator()  # the process does nothing else
    params = dict(task.params)
    if not isinstance(params["random_state"], Integral):
        params["random_state"] = task.seed
    classifier = NodeClassifier(**params)
    graph = open_store(task.store)
    checked = replace(check_fit(params, graph, task.split), seed=task.seed)
    folder = None if task.checkpoint is None else Path(task.checkpoint)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: workers do not see the folder of the checkpoint")
    on_rank_zero = rank == 0 and folder is not None
    classifier.fit_checked(
        checked,
        on_epoch=lambda epoch: actor.put.remote("epoch", epoch),
        checkpoint=folder if on_rank_zero else None,
        resume=on_rank_zero and holds_state(folder),  # type: ignore[arg-type]
        checkpoint_minutes=task.minutes,
        distributed=True,
    )
    if rank == 0:
        actor.put.remote("fitted", _fitted(classifier, graph))
    ray.get(actor.put.remote("peak", (rank, peak_memory())))


def _fitted(classifier: NodeClassifier, graph: Graph) -> dict[str, Any]:
    """Return what the calling program needs of the fitted classifier."""
    with TemporaryDirectory(prefix="h2gcn-") as folder:
        classifier.save(Path(folder) / "model")
        model = Path(folder) / "model"
        files = {
            str(path.relative_to(model)): path.read_bytes()
            for path in sorted(model.rglob("*"))
            if path.is_file()
        }
    nodes = np.concatenate([classifier.split_.val, classifier.split_.test])
    return {
        "files": files,
        "split": classifier.split_,
        "history": classifier.history_,
        "seconds": classifier.seconds_,
        "nodes": nodes,
        "logits": classifier.predict_logits(graph, nodes),
        "sent": classifier.bytes_sent_,
    }


def peak_memory() -> int:
    """Return the largest memory of this process in bytes; 0 where it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# ------------------------------------------------------------------ the calling program


class _Run(Thread):
    """A training of Ray Train, and the error that it ended with."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(daemon=True, name="h2gcn training over workers")
        self._trainer = trainer
        self.error = ""

    def run(self) -> None:
        """Train until the workers end, or have died too often."""
        try:
            self._trainer.fit()
        except Exception as error:  # of Ray, or of what the workers did
            self.error = " ".join(str(error).split())[-300:]


def _make_trainer(task: _Task, actor: Any, workers: int, folder: Path) -> Any:
    try:
        train, of_torch = import_module("ray.train"), import_module("ray.train.torch")
    except ModuleNotFoundError as error:
        raise InputError(
            f"to train over workers, Ray Train needs {error.name}: pip install "
            "'h2gcn[ray]'"
        ) from None
    logging.getLogger("ray.train").setLevel(logging.ERROR)
    return of_torch.TorchTrainer(
        _work,
        train_loop_config={"task": task, "actor": actor},
        scaling_config=train.ScalingConfig(
            num_workers=workers, resources_per_worker={"CPU": 1}
        ),
        run_config=train.RunConfig(
            name="run",
            storage_path=str(folder),
            failure_config=train.FailureConfig(max_failures=ATTEMPTS),
            worker_runtime_env={"env_vars": ENVIRONMENT},
        ),
        torch_config=of_torch.TorchConfig(
            backend="gloo", timeout_s=_GLOO_TIMEOUT_SECONDS
        ),
    )


@dataclass
class _Progress:
    """What the workers have reported."""

    starts: int = 0
    epoch: int = 0
    failure: InputError | None = None
    peaks: dict[int, int] = field(default_factory=dict)
    fitted: dict[str, Any] | None = None


def _follow(
    cluster: Cluster,
    actor: Any,
    run: _Run,
    on_epoch: Callable[[Epoch], None] | None,
) -> _Progress:
    """Pass on the epochs of the workers until they end."""
    progress, deadline = _Progress(), float("inf")
    with redirect_stdout(sys.stderr):  # where Ray says that a worker died
        while True:
            ended = not run.is_alive() or time.monotonic() > deadline
            for name, value in cluster.result(actor.poll.remote()):
                if name == "start":
                    progress.starts += 1
                elif name == "failure":
                    progress.failure = value
                    deadline = time.monotonic() + _FAILURE_SECONDS
                elif name == "fitted":
                    progress.fitted = value
                elif name == "peak":
                    rank, peak = value
                    progress.peaks[rank] = peak
                elif value.number > progress.epoch:  # a restart repeats some epochs
                    progress.epoch = value.number
                    if on_epoch is not None:
                        on_epoch(value)
            if ended:
                return progress
            time.sleep(_POLL_SECONDS)


def _adopt(
    classifier: NodeClassifier, graph: Graph, fitted: Mapping[str, Any], folder: Path
) -> None:
    """Make a classifier the one that the workers fitted."""
    for name, content in fitted["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    loaded = NodeClassifier.load(folder)
    state = {name: v for name, v in vars(loaded).items() if name.endswith("_")}
    vars(classifier).update(state)
    classifier.split_ = fitted["split"]
    classifier.history_ = tuple(fitted["history"])
    classifier.n_iter_ = len(classifier.history_)
    classifier.seconds_ = fitted["seconds"]
    classifier.interrupted_ = False
    classifier.remember(graph, fitted["nodes"], fitted["logits"])
