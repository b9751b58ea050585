"""A training that can go on: its state in a folder, whole whatever ends the program."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryFile

from h2gcn._validation import check_bool, check_real
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import cannot_write, check_folder, locked
from h2gcn.training.identity import Identity
from h2gcn.training.progress import Progress, Snapshot
from h2gcn.training.state_files import (
    MANIFEST,
    Stage,
    find_stage,
    holds_state,
    is_own,
    read_state,
    write_state,
)

__all__ = ["MANIFEST", "MINUTES", "Checkpoint", "Stage", "check_resume", "find_stage"]

MINUTES = 2.0
"""How long a training goes on without a checkpoint."""


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
            raise InputError(
                "The 'checkpoint' parameter of NodeClassifier must be a folder. "
                f"Got {folder!r} instead."
            )
        check_real("NodeClassifier", "checkpoint_minutes", minutes, "[0, inf)")
        check_bool("NodeClassifier", "resume", resume)
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
            f"{folder}: already holds a checkpoint; add --resume (resume=True) to go "
            "on from it, or choose another folder"
        )
    if resume and not holds:
        raise InputError(
            f"{folder}: holds no checkpoint; leave out --resume (resume=True) to begin"
        )
