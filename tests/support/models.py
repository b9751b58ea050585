"""Saved models that several tests read: each is trained once in a process."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

__all__ = ["copy_of_saved"]


@cache
def kept() -> Path:
    """Return a folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="h2gcn-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def copy_of_saved(name: str, save: Callable[[Path], object], target: Path) -> Path:
    """Return a copy of a saved model, which a test may change.

    Parameters
    ----------
    name
        What it is kept under, in this process.
    save
        Trains the model and saves it in a folder; called for the first copy.
    target
        Where the copy goes.
    """
    folder = kept() / name
    if not folder.exists():
        beside = Path(tempfile.mkdtemp(dir=kept())) / name
        save(beside)
        beside.rename(folder)  # so that one that could not be saved is not taken
    shutil.copytree(folder, target)
    return target
