"""A training that can go on: its state in a folder, whole whatever ends the program."""

from __future__ import annotations

import hashlib
import math
import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import torch

from h2gcn._files import cannot_write, check_folder, write_whole
from h2gcn._identity import Identity, difference
from h2gcn._manifest import read_signed, read_tensors, signed, to_bytes
from h2gcn._validation import check_bool, check_real
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.progress import Progress, Snapshot, Tensors
from h2gcn.stopping import Epoch

__all__ = ["MINUTES", "Checkpoint", "Stage", "check_resume", "find_stage"]

FORMAT = 1
MINUTES = 2.0
"""How long a training goes on without a checkpoint."""
MANIFEST = "checkpoint.json"
_OWN = re.compile(r"(checkpoint\.json|state-[0-9a-f]{16}\.safetensors)(\.\w+\.part)?")
_GROUPS = ("weights", "best_weights", "optimiser", "random")
"""The fields of a snapshot that are tensors by name."""


class Checkpoint:
    """A folder with the state of one training after one of its epochs.

    `checkpoint.json` says what is trained, and names the file of the tensors by its
    checksum. A new state lies beside the old one, and counts from the moment in which
    a new `checkpoint.json` takes the place of the old.

    Parameters
    ----------
    folder
        Made if it is not there; the one around it must be.
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
        folder: Path,
        identity: Identity,
        *,
        epochs: int,
        minutes: float = MINUTES,
        resume: bool = False,
    ) -> None:
        check_real("NodeClassifier", "checkpoint_minutes", minutes, "[0, inf)")
        check_bool("NodeClassifier", "resume", resume)
        check_folder(folder, "a checkpoint", _OWN.fullmatch)
        check_resume(folder, (folder / MANIFEST).exists(), resume)
        self.found = _read(folder, identity, epochs) if resume else None
        try:
            folder.mkdir(exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise cannot_write(folder, error) from None
        self._folder, self._identity, self._minutes = folder, identity, minutes
        self._due = -math.inf
        self._last: Snapshot | None = None

    def restore(self, progress: Progress) -> None:
        """Bring a training to where the checkpoint is, if there is one."""
        if self.found is not None:
            progress.restore(self.found)
            self._due = time.monotonic() + 60 * self._minutes

    def keep(self, progress: Progress) -> None:
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
            self._write(self._last)
        except InputError as error:
            # Hours of training are worth more than a checkpoint on a full disk.
            warnings.warn(f"{error}; training goes on", H2GCNWarning, stacklevel=2)
        else:
            self._last = None

    def _write(self, snapshot: Snapshot) -> None:
        tensors = {
            f"{group}.{name}": tensor
            for group in _GROUPS
            for name, tensor in getattr(snapshot, group).items()
        }
        # As a tensor too, since JSON has no infinite numbers.
        rows = [(e.loss, e.val_score, e.val_loss) for e in snapshot.history]
        tensors["history"] = torch.tensor(rows, dtype=torch.float64)
        content = to_bytes(tensors)
        manifest = {
            "format": FORMAT,
            "identity": self._identity,
            "epoch": len(rows),
            "stopped": snapshot.stopped,
            "seconds": snapshot.seconds,
            "state_sha256": hashlib.sha256(content).hexdigest(),
        }
        state = _state_file(self._folder, manifest)
        write_whole(state, content)
        write_whole(self._folder / MANIFEST, signed(manifest))
        for file in self._folder.iterdir():
            # The state before, and what a kill may have left.
            if _OWN.fullmatch(file.name) and file.name not in (MANIFEST, state.name):
                file.unlink(missing_ok=True)


class Stage(NamedTuple):
    """How far the training of a checkpoint is, and whether its rule has stopped it."""

    epoch: int
    stopped: bool
    seconds: float


def find_stage(folder: Path) -> Stage | None:
    """Return how far the checkpoint of a folder is, None where there is none."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = _read_manifest(folder)
    return Stage(manifest["epoch"], manifest["stopped"], manifest["seconds"])


def check_resume(folder: Path, holds: bool, resume: bool) -> None:
    """Refuse to begin where there is a checkpoint, or to go on where there is none."""
    if holds and not resume:
        raise InputError(
            f"{folder}: already holds a checkpoint; add --resume (resume=True) to go "
            "on from it, or choose another folder"
        )
    if resume and not holds:
        raise InputError(
            f"{folder}: holds no checkpoint; leave out --resume (resume=True) to begin"
        )


def _read(folder: Path, identity: Identity, epochs: int) -> Snapshot:
    manifest = _read_manifest(folder)
    if words := difference(manifest["identity"], identity):
        raise InputError(f"{folder}: {words}")
    if manifest["epoch"] > epochs:
        raise InputError(
            f"{folder}: is at epoch {manifest['epoch']}, beyond the {epochs} asked for"
        )
    state = _state_file(folder, manifest)
    tensors = read_tensors(state, manifest["state_sha256"])
    rows = tensors.pop("history").tolist()
    groups: dict[str, Tensors] = {group: {} for group in _GROUPS}
    for key, tensor in tensors.items():
        group, _, name = key.partition(".")
        groups[group][name] = tensor
    return Snapshot(
        **groups,
        history=tuple(Epoch(number, *row) for number, row in enumerate(rows, start=1)),
        stopped=manifest["stopped"],
        seconds=manifest["seconds"],
    )


def _read_manifest(folder: Path) -> dict[str, Any]:
    return read_signed(folder / MANIFEST, "a checkpoint", FORMAT)


def _state_file(folder: Path, manifest: Mapping[str, Any]) -> Path:
    return folder / f"state-{manifest['state_sha256'][:16]}.safetensors"
