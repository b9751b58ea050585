"""Checkpoints: the state of a training in a folder, whole after a kill.

The tensors are written beside the old ones under the name of their checksum, and count
once a manifest that names them has replaced the old one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, NamedTuple

import msgspec
import torch

from h2gcn import __version__
from h2gcn._validation import check_bool, check_real
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split, fingerprint, split_fingerprint
from h2gcn.io import cannot_read, cannot_write, check_folder, locked, write_whole
from h2gcn.training.journal import GROUPS, STAGE_GROUPS, Snapshot, Stage, Tensors
from h2gcn.training.manifest import (
    Sha256,
    plain,
    read_signed,
    read_tensors,
    signed,
    to_bytes,
)
from h2gcn.training.stopping import Epoch

__all__ = [
    "MANIFEST",
    "MINUTES",
    "OF_THE_MACHINE",
    "Checkpoint",
    "Identity",
    "Position",
    "check_resume",
    "find_position",
    "holds_state",
    "identify",
]

MINUTES = 2.0  # between two checkpoints
FORMAT = 1
MANIFEST = "checkpoint.json"
OF_THE_MACHINE = ("memory_limit", "device")  # parameters, not the model's
_WITHOUT_EFFECT = (*OF_THE_MACHINE, "calibrate", "epochs")  # on what is trained
_OWN = re.compile(r"(checkpoint\.json|state-[0-9a-f]{16}\.safetensors)(\.\w+\.part)?")

Identity = Mapping[str, Any]  # what `identify` returns


class _IdentityJson(msgspec.Struct):
    graph: str
    checksum: str
    split: str
    params: dict[str, Any]
    directions: str | None = None


class _StageJson(msgspec.Struct):
    epochs: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    limit: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _CheckpointJson(msgspec.Struct):
    identity: _IdentityJson
    stages: list[_StageJson]
    epoch: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    stopped: bool
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    state_sha256: Sha256


def identify(
    params: Mapping[str, Any], graph: Graph, split: Split, *, directed: bool
) -> Identity:
    """Return all that the result of a training depends on, as JSON holds it.

    The number of epochs is not part of it: a longer training goes on where a shorter
    one ended. Nor is where matrices and features are kept, which changes the order of
    sums alone.

    Parameters
    ----------
    params
        Resolved, of a `NodeClassifier`.
    directed
        Whether the model uses the directions of edges.
    """
    named = {name: v for name, v in params.items() if name not in _WITHOUT_EFFECT}
    model, options = named.pop("model"), named.pop("options")
    seed = named.pop("random_state")
    if not isinstance(seed, Integral):
        raise InputError(
            "a checkpoint needs a number as 'random_state', since anything else gives "
            f"another seed each time. Got {seed!r} instead."
        )
    # The version and the model first: where they differ, others follow from them.
    described = {"h2gcn": __version__, "model": model, **named, **options}
    identity = {
        "graph": graph.name,
        "checksum": fingerprint(graph),
        "directions": fingerprint(graph, directions=True) if directed else None,
        "split": split_fingerprint(split),
        "params": plain(described | {"seed": int(seed)}),
    }
    # As it will be read again: a tuple is then a list.
    return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def _difference(saved: Identity, current: Identity) -> str | None:
    """Return the first difference between two trainings in words, if there is one."""
    if saved["checksum"] != current["checksum"]:
        names = [saved["graph"], current["graph"]]
        if names[0] == names[1]:
            names = [f"checksum {one['checksum'][:16]}" for one in (saved, current)]
        return f"is of another graph ({names[0]:.60}, not {names[1]:.60})"
    before, after = saved["params"], current["params"]
    for name in before | after:
        if before.get(name) != after.get(name):
            values = [f"{params.get(name)!s:.60}" for params in (before, after)]
            return f"was made with {name:.60} {values[0]}, not {values[1]}"
    if saved["directions"] != current["directions"]:
        return "is of a graph whose edges have other directions"
    if saved["split"] != current["split"]:
        return "is of another split"
    return None


class Position(NamedTuple):
    """How far the training of a checkpoint is, and whether its rule has stopped it."""

    epoch: int
    stopped: bool
    seconds: float


class Checkpoint:
    """A folder with the state of one training after one of its epochs.

    The folder is checked at once, before any work is done. It is made, and locked
    against other trainings, while it is `held`.

    Parameters
    ----------
    folder
        Need not exist; its parent must.
    epochs
        How long it is trained at most; a checkpoint beyond that is refused.
    minutes
        How long to go on without writing; 0 writes after every epoch. The first epoch
        is always written.
    resume
        Whether to go on from the state in the folder; else there must be none.

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
        self._seconds, self._resume = 60 * minutes, resume
        self._due = -math.inf
        self._last: Snapshot | None = None
        check_folder(self._folder, "a checkpoint", _is_own)
        exists = self._folder.is_dir()
        with locked(self._folder) if exists else nullcontext():
            self.found = self._find()
        try:
            with TemporaryFile(dir=self._folder if exists else self._folder.parent):
                pass
        except OSError as error:
            raise cannot_write(self._folder, error) from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and lock it; leave none if training ends before an epoch."""
        is_new = not self._folder.exists()
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        with locked(self._folder):
            try:
                self.found = self._find()  # another training may have written since
                if self.found is not None:
                    self._due = time.monotonic() + self._seconds
                yield
            finally:
                if is_new:
                    with suppress(OSError):  # it is not empty
                        self._folder.rmdir()

    def _find(self) -> Snapshot | None:
        check_resume(self._folder, holds_state(self._folder), self._resume)
        if not self._resume:
            return None
        return _read_state(self._folder, self._identity, self._epochs)

    def keep(self, snapshot: Snapshot) -> None:
        """Take the state after an epoch, and write it if it is time to."""
        # Ctrl-C comes in the middle of an epoch, when it is too late for a copy.
        self._last = snapshot
        if time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Write the last copy, unless it is written."""
        if self._last is None:
            return
        self._due = time.monotonic() + self._seconds
        try:
            _write_state(self._folder, self._identity, self._last)
        except InputError as error:
            # Hours of training are worth more than a checkpoint on a full disk.
            warnings.warn(f"{error}; training goes on", H2GCNWarning, stacklevel=2)
        else:
            self._last = None


def check_resume(folder: Path, holds: bool, resume: bool) -> None:
    """Refuse to start where there is a checkpoint, or to go on where there is none."""
    if holds and not resume:
        raise InputError(
            f"{folder}: already holds a checkpoint; add resume=True to go on from it, "
            "or choose another folder"
        )
    if resume and not holds:
        raise InputError(
            f"{folder}: holds no checkpoint; leave out resume=True to begin"
        )


def holds_state(folder: Path) -> bool:
    """Return whether there is a checkpoint in a folder."""
    try:
        return (folder / MANIFEST).exists()
    except OSError as error:
        raise cannot_read(folder, error) from None


def find_position(folder: Path) -> Position | None:
    """Return how far the checkpoint of a folder is; None where there is none."""
    if not holds_state(folder):
        return None
    manifest = _read_manifest(folder)
    return Position(manifest.epoch, manifest.stopped, manifest.seconds)


def _read_state(folder: Path, identity: Identity, epochs: int) -> Snapshot:
    manifest = _read_manifest(folder)
    if words := _difference(msgspec.to_builtins(manifest.identity), identity):
        raise InputError(f"{folder}: {words}")
    if manifest.epoch > epochs:
        raise InputError(
            f"{folder}: is at epoch {manifest.epoch}, beyond the {epochs} asked for"
        )
    file = _state_file(folder, manifest.state_sha256)
    tensors = read_tensors(file, manifest.state_sha256)
    history = tensors.pop("history", torch.zeros(0))
    fits = [*history.shape] == [manifest.epoch, 3] and history.dtype == torch.float64
    if not fits or bool(history.isnan().any()):
        raise InputError(f"{file}: history is not of {manifest.epoch} epochs")
    stages = [
        Stage(stage.epochs, stage.limit, **_take(tensors, STAGE_GROUPS, f"stages.{i}."))
        for i, stage in enumerate(manifest.stages)
    ]
    groups = _take(tensors, GROUPS)
    if tensors:
        raise InputError(f"{file}: does not hold the state of a training")
    rows = history.tolist()
    return Snapshot(
        tuple(stages),
        **groups,
        history=tuple(Epoch(number, *row) for number, row in enumerate(rows, start=1)),
        stopped=manifest.stopped,
        seconds=manifest.seconds,
        source=str(folder),
    )


def _take(
    tensors: Tensors, groups: Sequence[str], prefix: str = ""
) -> dict[str, Tensors]:
    """Remove the tensors of some groups, and return them by their names in these."""
    taken: dict[str, Tensors] = {group: {} for group in groups}
    for group, named in taken.items():
        start = f"{prefix}{group}."
        for name in [name for name in tensors if name.startswith(start)]:
            named[name.removeprefix(start)] = tensors.pop(name)
    return taken


def _write_state(folder: Path, identity: Identity, snapshot: Snapshot) -> None:
    tensors = {
        f"{group}.{name}": tensor
        for group, named in snapshot.groups()
        for name, tensor in named.items()
    }
    # As a tensor too, since JSON has no infinite numbers.
    rows = [(e.loss, e.val_score, e.val_loss) for e in snapshot.history]
    tensors["history"] = torch.tensor(rows, dtype=torch.float64)
    content = to_bytes(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    manifest = {
        "format": FORMAT,
        "identity": identity,
        "stages": [{"epochs": s.epochs, "limit": s.limit} for s in snapshot.stages],
        "epoch": len(rows),
        "stopped": snapshot.stopped,
        "seconds": snapshot.seconds,
        "state_sha256": sha256,
    }
    file = _state_file(folder, sha256)
    write_whole(file, content)
    write_whole(folder / MANIFEST, signed(manifest))
    try:
        for other in folder.iterdir():
            # The previous state, and what a kill may have left.
            if _is_own(other.name) and other.name not in (MANIFEST, file.name):
                other.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _read_manifest(folder: Path) -> _CheckpointJson:
    return read_signed(folder / MANIFEST, "a checkpoint", FORMAT, _CheckpointJson)


def _state_file(folder: Path, sha256: str) -> Path:
    return folder / f"state-{sha256[:16]}.safetensors"


def _is_own(name: str) -> bool:
    return _OWN.fullmatch(name) is not None
