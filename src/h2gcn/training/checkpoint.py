"""State of a training run: kept in memory, and in files that are whole after a kill.

The files are those of saved models too: JSON with its own checksum, and tensors by
theirs.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from h2gcn import __version__
from h2gcn._validation import check_bool, check_real
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split, fingerprint, split_fingerprint
from h2gcn.io import (
    cannot_read,
    cannot_write,
    check_folder,
    conform,
    locked,
    parse_json,
    read_own,
    shown,
    write_whole,
)
from h2gcn.models import NodeModule, find_model, tensor_problem
from h2gcn.rings import CAPPED, DISK, MEMORY, ON_DEMAND
from h2gcn.sparse import (
    available_memory,
    random_problem,
    random_state,
    set_random_state,
)
from h2gcn.training.stopping import Epoch, StoppingRule

__all__ = [
    "DISTRIBUTED",
    "MANIFEST",
    "MINUTES",
    "OF_THE_MACHINE",
    "Checkpoint",
    "Identity",
    "Sha256",
    "Snapshot",
    "Stage",
    "Tensors",
    "TrainingState",
    "check_resume",
    "checkpoint_files",
    "difference",
    "digest",
    "find_stage",
    "holds_state",
    "identify",
    "is_own",
    "optimizer_problem",
    "plain",
    "read_signed",
    "read_state",
    "read_tensors",
    "signed",
    "to_bytes",
    "write_state",
]


Tensors = dict[str, Tensor]
"""Tensors by name."""


def optimizer_problem(
    optimizer: torch.optim.Optimizer, found: Mapping[str, Tensor]
) -> str | None:
    """Return why tensors of a file are not the state of an optimizer, if so.

    Its steps write to them without a look at their shapes.

    Parameters
    ----------
    optimizer
        Adam, or plain gradient steps, with the weights that it is of.
    found
        By "number of the weight.name". A weight that no step has changed has none.
    """
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    wanted: dict[str, Tensor] = {}
    for number, weight in enumerate(weights):
        if isinstance(optimizer, torch.optim.Adam) and any(
            name.startswith(f"{number}.") for name in found
        ):
            wanted[f"{number}.step"] = torch.zeros(())
            wanted[f"{number}.exp_avg"] = wanted[f"{number}.exp_avg_sq"] = weight
    if problem := tensor_problem(found, wanted):
        return problem
    for name, tensor in found.items():
        if name.endswith(".step") and not (tensor >= 1 and tensor == tensor.round()):
            return f"{name} is not a number of steps"
        if name.endswith(".exp_avg_sq") and bool((tensor < 0).any()):
            return f"{name} has squares below 0"
    return None


@dataclass(frozen=True)
class Snapshot:
    """A training after a whole epoch; what comes later does not change it.

    Parameters
    ----------
    weights, best_weights
        The model's after the last epoch, and after the best one.
    given
        What the model prepared for the phase that the last epoch is of.
    optimiser
        The optimiser's state, by "number of the weight.name".
    random
        Torch's random state by type of device, "cpu" and the model's.
    history
        All epochs so far. What the stopping rule knows follows from them.
    stopped
        Whether the rule says that it is enough.
    seconds
        Spent so far.
    """

    weights: Tensors
    best_weights: Tensors
    given: Tensors
    optimiser: Tensors
    random: Tensors
    history: tuple[Epoch, ...]
    stopped: bool
    seconds: float


class TrainingState:
    """A model in training, with its optimiser, its rule and the best epoch so far.

    Parameters
    ----------
    model
        Its weights are those after the last epoch.
    optimiser
        Of these weights.
    rule
        Says which epoch is the best, and after which it is enough.
    spent
        Seconds of work before this.

    Attributes
    ----------
    history
        All epochs so far.
    best, best_weights
        The epoch to keep, and the model's weights after it.
    given
        What the model prepared for its phase, see `NodeModule.prepare`.
    stopped
        Whether the rule says that it is enough.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        rule: StoppingRule,
        spent: float = 0.0,
    ) -> None:
        self.model, self.optimiser = model, optimiser
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.best_weights: Tensors = {}
        self.given: Tensors = {}
        self.stopped = False
        self._rule = rule
        self._start = time.perf_counter() - spent

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return time.perf_counter() - self._start

    def add(self, epoch: Epoch) -> None:
        """Take in an epoch that the model has just been through."""
        self.history.append(epoch)
        decision = self._rule(epoch)
        if decision.keep:
            # Copied first, so that Ctrl-C never pairs it with another epoch.
            self.best, self.best_weights = epoch, self._weights()
        self.stopped = decision.stop

    def _weights(self) -> Tensors:
        """Return a copy of the model's weights."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def snapshot(self) -> Snapshot:
        """Return a copy of it all; only right between two epochs."""
        state = self.optimiser.state_dict()["state"]
        return Snapshot(
            weights=self._weights(),
            best_weights=self.best_weights,
            given=self.given,
            optimiser={
                f"{number}.{name}": value.clone()
                for number, values in state.items()
                for name, value in values.items()
            },
            random=random_state(self._device),
            history=tuple(self.history),
            stopped=self.stopped,
            seconds=self.seconds,
        )

    def restore(
        self, snapshot: Snapshot, probe: Callable[[], object] = lambda: None
    ) -> None:
        """Go on from a snapshot, instead of from the beginning.

        Parameters
        ----------
        snapshot
            Of a training of the same model.
        probe
            Called at the end; fails where what is `given` is not what steps need.

        Raises
        ------
        InputError
            Where a tensor is not what the model, its optimiser, its steps or the
            generators take.
        """
        best = self._check(snapshot)
        self.model.load_state_dict(snapshot.weights)
        state: dict[int, Tensors] = {}
        for key, value in snapshot.optimiser.items():
            number, _, name = key.partition(".")
            # A copy, since steps change it, and what was read may not be aligned.
            state.setdefault(int(number), {})[name] = value.clone()
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        set_random_state(snapshot.random, self._device)
        self.best, self.best_weights = best, snapshot.best_weights
        self.history, self.stopped = list(snapshot.history), snapshot.stopped
        self.given = {n: t.to(self._device) for n, t in snapshot.given.items()}
        self._start -= snapshot.seconds
        try:
            probe()
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
            raise InputError("given is not what the steps of the phase need") from None

    def _check(self, snapshot: Snapshot) -> Epoch:
        """Return the best epoch of a snapshot if all of it fits."""
        state = self.model.state_dict()
        for group, problem in (
            ("weights", tensor_problem(snapshot.weights, state)),
            ("best_weights", tensor_problem(snapshot.best_weights, state)),
            ("given", tensor_problem(snapshot.given, snapshot.given)),
            ("optimiser", optimizer_problem(self.optimiser, snapshot.optimiser)),
            ("random", random_problem(snapshot.random, self._device)),
        ):
            if problem is not None:
                raise InputError(f"{group}.{problem}")
        best = None
        for epoch in snapshot.history:  # shows them to the rule once more
            if self._rule(epoch).keep:
                best = epoch
        if best is None:
            raise InputError("history has no epoch that is the best")
        return best

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


LARGEST = 2**30
"""Bytes of a manifest: a model that spreads labels knows the ids of its nodes."""
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]

_T = TypeVar("_T")


def signed(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as JSON, with its own checksum."""
    full = manifest | {"sha256": digest(manifest)}
    return json.dumps(full, indent=1, ensure_ascii=False).encode()


def digest(manifest: dict[str, Any]) -> str:
    """Return the checksum of a manifest; the order of names does not count."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_signed(file: Path, what: str, version: int, kind: type[_T]) -> _T:
    """Read what `signed` gave, and check it.

    Parameters
    ----------
    file
        It must be there.
    what
        What was saved, such as "a saved model".
    version
        The `format` that can be read.
    kind
        The schema of all of it.
    """
    # NaN was a score that has no value.
    manifest = parse_json(read_own(file, LARGEST), file, constants=float)
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise InputError(f"{file}: not the manifest of {what}")
    if manifest["format"] != version:
        raise InputError(
            f"{file}: format {shown(manifest['format'])}; this version of h2gcn "
            f"({__version__}) reads format {version}"
        )
    if manifest.pop("sha256", None) != digest(manifest):
        raise InputError(f"{file}: was changed after it was saved (checksum)")
    return conform(kind, manifest, file)


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors, none of which is a part of another, in the safetensors format."""
    return save({name: t.contiguous().cpu() for name, t in tensors.items()})


def read_tensors(file: Path, sha256: str) -> dict[str, Tensor]:
    """Read tensors, and check that they are those of a checksum."""
    content = read_own(file, available_memory())
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{file}: truncated, or changed after it was saved (checksum)")
    try:
        return load(content)
    except SafetensorError as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from None


def plain(value: Any) -> Any:
    """Return arrays and numpy's numbers as what JSON can hold, at any depth."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return value


DISTRIBUTED = "distributed"
"""Where rings are of which each of several processes holds some rows."""
OF_THE_MACHINE = ("ring_store", "memory_limit", "device")
"""Parameters that speak of the machine of training, not of the model."""

WITHOUT_EFFECT = (*OF_THE_MACHINE, "calibrate")
"""Parameters that do not change what is trained."""

Identity = Mapping[str, Any]
"""What `identify` returns."""


class IdentityJson(msgspec.Struct):
    """The schema of what `identify` returns."""

    version: str
    graph: str
    checksum: str
    split: str
    params: dict[str, Any]
    rings: str
    features: str
    directions: str | None = None


_WORDS = {
    MEMORY: "in memory",
    CAPPED: "capped",
    DISK: "in a file",
    ON_DEMAND: "computed when needed",
    DISTRIBUTED: "distributed over workers",
}


def identify(
    module: NodeModule,
    params: Mapping[str, Any],
    graph: Graph,
    split: Split,
    storage: str = MEMORY,
) -> Identity:
    """Return all that the result of a training depends on, as JSON holds it.

    Where rings and features are kept belongs to it: each storage has its own order of
    sums, and with it its own last bits. So do the directions of the edges, where the
    model follows them.

    Parameters
    ----------
    module
        The model; whether `epochs` counts depends on it.
    params
        The resolved parameters of a `NodeClassifier`.
    graph, split
        What is trained on.
    storage
        Where its rings are kept, see `h2gcn.rings.plan_rings`.
    """
    named = {name: v for name, v in params.items() if name not in WITHOUT_EFFECT}
    model, options = named.pop("model"), named.pop("options")
    follows = find_model(model).given(options).directed
    seed = named.pop("random_state")
    if not isinstance(seed, Integral):
        raise InputError(
            "a checkpoint needs a number as 'random_state', since anything else gives "
            f"another seed each time. Got {seed!r} instead."
        )
    if module.trained_first() is None and len(module.phases()) == 1:
        # More epochs go on where fewer ended. Not so where a part is trained first, or
        # there are phases: how long those are trained depends on them.
        del named["epochs"]
    identity = {
        "version": __version__,
        "graph": graph.name,
        "checksum": fingerprint(graph),
        "directions": fingerprint(graph, directions=True) if follows else None,
        "split": split_fingerprint(split),
        # The model first: where it differs, others follow from it.
        "params": plain({"model": model, **named, **options, "seed": int(seed)}),
        "rings": storage,
        "features": DISK if isinstance(graph.x, np.memmap) else MEMORY,
    }
    # As it will be read again: a tuple is then a list.
    return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def difference(made: Identity, now: Identity) -> str | None:
    """Return in words the first thing in which two trainings differ, if any does."""
    if made["version"] != now["version"]:
        return f"was made with h2gcn {made['version']:.60}, not {now['version']}"
    if made["checksum"] != now["checksum"]:
        names = [made["graph"], now["graph"]]
        if names[0] == names[1]:
            names = [f"checksum {one['checksum'][:16]}" for one in (made, now)]
        return f"is of another graph ({names[0]:.60}, not {names[1]:.60})"
    before, after = made["params"], now["params"]
    for name in before | after:
        if before.get(name) != after.get(name):
            values = [f"{of.get(name)!s:.60}" for of in (before, after)]
            return f"was made with {name:.60} {values[0]}, not {values[1]}"
    if made["directions"] != now.get("directions"):
        return "is of a graph whose edges have other directions"
    if made["split"] != now["split"]:
        return "is of another split"
    for name, options in (
        ("rings", "'memory_limit' and 'ring_store'"),
        ("features", "features=…"),
    ):
        if made[name] != now[name]:
            places = [_WORDS.get(one[name], one[name]) for one in (made, now)]
            return (
                f"was made with the {name} {places[0]:.60}, not {places[1]}, which "
                f"changes the last bits; set {options} so that they are there again"
            )
    return None


FORMAT = 1
MANIFEST = "checkpoint.json"
_OWN = re.compile(r"(checkpoint\.json|state-[0-9a-f]{16}\.safetensors)(\.\w+\.part)?")


class CheckpointJson(msgspec.Struct):
    """The schema of the manifest of a checkpoint."""

    identity: IdentityJson
    epoch: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    stopped: bool
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    state_sha256: Sha256


_GROUPS = ("weights", "best_weights", "given", "optimiser", "random")
"""The fields of a snapshot that are tensors by name."""
MINUTES = 2.0
"""How long a training goes on without a checkpoint."""


class Stage(NamedTuple):
    """How far the training of a checkpoint is, and whether its rule has stopped it."""

    epoch: int
    stopped: bool
    seconds: float


class Checkpoint:
    """A folder with the state of one training after one of its epochs.

    What is wrong with the folder is said at once, before any work is done. It is
    made, and kept from others, for as long as it is `held`.

    Parameters
    ----------
    folder
        Need not be there; the one around it must be.
    identity
        What is trained, see `identify`.
    epochs
        How long it is trained at most; a checkpoint beyond that is refused.
    minutes
        How long to go on without writing; 0 writes after every epoch. The first
        epoch is always written.
    resume
        Whether to go on from what the folder holds; else it must hold nothing.

    Attributes
    ----------
    found
        What `resume` goes on from, None for a new training.
    """

    def __init__(
        self,
        folder: str | Path,
        identity: Identity,
        *,
        epochs: int,
        minutes: float = MINUTES,
        resume: bool = False,
    ) -> None:
        if not (isinstance(folder, str | os.PathLike) and str(folder)):
            raise InputError("must be a folder", param="checkpoint", value=folder)
        check_real("checkpoint_minutes", minutes, "[0, inf)")
        check_bool("resume", resume)
        self._folder, self._identity, self._epochs = Path(folder), identity, epochs
        self._minutes, self._resume = minutes, resume
        self._due = -math.inf
        self._last: Snapshot | None = None
        check_folder(self._folder, "a checkpoint", is_own)
        there = self._folder.is_dir()
        with locked(self._folder) if there else nullcontext():
            self.found = self._find()
        try:
            with TemporaryFile(dir=self._folder if there else self._folder.parent):
                pass
        except OSError as error:
            raise cannot_write(self._folder, error) from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other trainings out of it for the time of this one.

        A training that ends before its first epoch leaves no folder behind.
        """
        new = not self._folder.exists()
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        with locked(self._folder):
            try:
                self.found = self._find()  # others may have been here since
                yield
            finally:
                if new:
                    with suppress(OSError):  # it is not empty
                        self._folder.rmdir()

    def _find(self) -> Snapshot | None:
        check_resume(self._folder, holds_state(self._folder), self._resume)
        if not self._resume:
            return None
        return read_state(self._folder, self._identity, self._epochs)

    def restore(self, progress: TrainingState, probe: Callable[[], object]) -> None:
        """Bring a training to where the checkpoint is, if there is one.

        Parameters
        ----------
        progress
            The training.
        probe
            As of `TrainingState.restore`.
        """
        if self.found is not None:
            try:
                progress.restore(self.found, probe)
            except InputError as error:
                raise InputError(f"{self._folder}: cannot go on: {error}") from None
            self._due = time.monotonic() + 60 * self._minutes

    def keep(self, progress: TrainingState) -> None:
        """Remember a training after an epoch, and write it if it is time to."""
        # Ctrl-C comes in the middle of an epoch, when it is too late for a copy.
        self._last = progress.snapshot()
        if time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Write what `keep` remembered last, unless that was done."""
        if self._last is None:
            return
        self._due = time.monotonic() + 60 * self._minutes
        try:
            write_state(self._folder, self._identity, self._last)
        except InputError as error:
            # Hours of training are worth more than a checkpoint on a full disk.
            warnings.warn(f"{error}; training goes on", H2GCNWarning, stacklevel=2)
        else:
            self._last = None


def check_resume(folder: Path, holds: bool, resume: bool) -> None:
    """Refuse to begin where there is a checkpoint, or to go on where there is none."""
    if holds and not resume:
        raise InputError(
            f"{folder}: already holds a checkpoint; add resume=True to go on from it, "
            "or choose another folder"
        )
    if resume and not holds:
        raise InputError(
            f"{folder}: holds no checkpoint; leave out resume=True to begin"
        )


def is_own(name: str) -> bool:
    """Whether a file of this name may be a checkpoint's."""
    return _OWN.fullmatch(name) is not None


def holds_state(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    file = folder / MANIFEST
    try:
        if file.is_dir():
            raise InputError(f"{file}: is a folder, not the manifest of a checkpoint")
        return file.exists()
    except OSError as error:
        raise cannot_read(file, error) from None


def checkpoint_files(folder: Path) -> dict[str, bytes]:
    """Return the files of the checkpoint in a folder by name; none where there is none.

    Written anywhere else, they are the same checkpoint.
    """
    if not holds_state(folder):
        return {}
    manifest = _read_manifest(folder)
    files = [_state_file(folder, manifest.state_sha256), folder / MANIFEST]
    return {file.name: read_own(file, available_memory()) for file in files}


def find_stage(folder: Path) -> Stage | None:
    """Return how far the checkpoint of a folder is, None where there is none."""
    if not holds_state(folder):
        return None
    manifest = _read_manifest(folder)
    return Stage(manifest.epoch, manifest.stopped, manifest.seconds)


def read_state(folder: Path, identity: Identity, epochs: int) -> Snapshot:
    """Return the state that a folder holds of a training.

    Parameters
    ----------
    folder
        With a checkpoint.
    identity
        What is trained; a checkpoint of anything else is refused.
    epochs
        How long it is trained at most; a checkpoint beyond that is refused.
    """
    manifest = _read_manifest(folder)
    if words := difference(msgspec.to_builtins(manifest.identity), identity):
        raise InputError(f"{folder}: {words}")
    if manifest.epoch > epochs:
        raise InputError(
            f"{folder}: is at epoch {manifest.epoch}, beyond the {epochs} asked for"
        )
    state = _state_file(folder, manifest.state_sha256)
    tensors = read_tensors(state, manifest.state_sha256)
    groups: dict[str, Tensors] = {group: {} for group in _GROUPS}
    try:
        history = tensors.pop("history")
        for key, tensor in tensors.items():
            group, _, name = key.partition(".")
            groups[group][name] = tensor
    except KeyError:
        raise InputError(f"{state}: does not hold the state of a training") from None
    wanted = [manifest.epoch, 3]
    if (
        [*history.shape] != wanted
        or history.dtype != torch.float64
        or bool(history.isnan().any())
    ):
        raise InputError(f"{state}: history is not of {manifest.epoch} epochs")
    rows = history.tolist()
    return Snapshot(
        **groups,
        history=tuple(Epoch(number, *row) for number, row in enumerate(rows, start=1)),
        stopped=manifest.stopped,
        seconds=manifest.seconds,
    )


def write_state(folder: Path, identity: Identity, snapshot: Snapshot) -> None:
    """Put a state in the place of the one that a folder holds.

    The tensors lie beside the old ones, and count from the moment in which a new
    manifest takes the place of the old.
    """
    tensors = {
        f"{group}.{name}": tensor
        for group in _GROUPS
        for name, tensor in getattr(snapshot, group).items()
    }
    # As a tensor too, since JSON has no infinite numbers.
    rows = [(e.loss, e.val_score, e.val_loss) for e in snapshot.history]
    tensors["history"] = torch.tensor(rows, dtype=torch.float64)
    content = to_bytes(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    manifest = {
        "format": FORMAT,
        "identity": identity,
        "epoch": len(rows),
        "stopped": snapshot.stopped,
        "seconds": snapshot.seconds,
        "state_sha256": sha256,
    }
    state = _state_file(folder, sha256)
    write_whole(state, content)
    write_whole(folder / MANIFEST, signed(manifest))
    try:
        for file in folder.iterdir():
            # The state before, and what a kill may have left.
            if is_own(file.name) and file.name not in (MANIFEST, state.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _read_manifest(folder: Path) -> CheckpointJson:
    return read_signed(folder / MANIFEST, "a checkpoint", FORMAT, CheckpointJson)


def _state_file(folder: Path, sha256: str) -> Path:
    return folder / f"state-{sha256[:16]}.safetensors"
