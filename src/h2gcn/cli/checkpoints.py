"""The checkpoints of `h2gcn train`: a folder for each split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2gcn.exceptions import InputError
from h2gcn.io import cannot_write, check_folder
from h2gcn.training import MINUTES, Stage, check_resume, find_stage

__all__ = ["Checkpoints", "find_checkpoints"]


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints are, and whether to go on from them.

    Parameters
    ----------
    folder
        That of split 0 is `folder/split-0`, and so on.
    resume
        Go on from those that are there; splits without one are begun.
    minutes
        How often they are written.
    """

    folder: Path
    resume: bool
    minutes: float

    def open(self, splits: Sequence[int]) -> None:
        """Make the folder, or say why these splits cannot be trained with it."""
        held = [number for number in splits if find_stage(self._of(number)) is not None]
        check_resume(self._of((held or splits)[0]), bool(held), self.resume)
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from None

    def close(self) -> None:
        """Remove the folder where no split has left anything in it.

        An empty one that was there before goes too: nothing is lost with it.
        """
        with suppress(OSError):  # it is not empty
            self.folder.rmdir()

    def stage(self, split: int) -> Stage | None:
        """Return how far a split is that is gone on with; None for a new one."""
        return find_stage(self._of(split)) if self.resume else None

    def arguments(self, split: int) -> dict[str, Any]:
        """Return the arguments of `NodeClassifier.fit` for a split."""
        return {
            "checkpoint": self._of(split),
            "resume": self.stage(split) is not None,
            "checkpoint_minutes": self.minutes,
        }

    def _of(self, split: int) -> Path:
        return self.folder / f"split-{split}"


def find_checkpoints(
    folder: Path | None, resume: bool, minutes: float | None
) -> Checkpoints | None:
    """Return what the options of the command line ask for, None without a folder."""
    if folder is None:
        options = {"--resume": resume, "--checkpoint-minutes": minutes is not None}
        for name in (name for name, given in options.items() if given):
            raise InputError(
                f"{name} needs --checkpoint, the folder of the checkpoints"
            )
        return None
    check_folder(folder, "a checkpoint", re.compile(r"split-\d+").fullmatch)
    return Checkpoints(folder, resume, MINUTES if minutes is None else minutes)
