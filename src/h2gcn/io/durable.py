"""Files and folders that are whole whatever ends the program."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from h2gcn.exceptions import InputError

__all__ = [
    "cannot_read",
    "cannot_write",
    "check_folder",
    "check_not_stdout",
    "sync_folder",
    "whole_file",
    "write_whole",
]


def check_folder(path: Path, what: str, is_own: Callable[[str], object]) -> None:
    """Refuse a folder that something cannot be saved to, before the work is done.

    Parameters
    ----------
    path
        The folder; it need not be there, the one around it must.
    what
        What is saved, such as "a model".
    is_own
        Whether a name may be in the folder.
    """
    check_not_stdout(path, f"{what} is saved as a folder")
    try:
        around, there = path.parent.is_dir(), path.exists()
        names = [file.name for file in path.iterdir()] if path.is_dir() else None
    except OSError as error:
        raise cannot_read(path, error) from None
    if not around:
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if path.name in ("", ".."):
        raise InputError(f"{path}: {what} needs a folder of its own")
    if there and names is None:
        raise InputError(f"{path}: is a file; {what} is saved as a folder")
    if not all(is_own(name) for name in names or ()):
        raise InputError(f"{path}: holds other files; {what} needs a folder of its own")


def check_not_stdout(path: str | Path, rule: str) -> None:
    """Refuse "-", by which other programs mean standard output.

    Parameters
    ----------
    path
        Where something is to be written.
    rule
        What it must be instead.
    """
    if str(path) == "-":
        raise InputError(f"-: nothing is written to standard output; {rule}")


@contextmanager
def whole_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a file that is written beside, and gets its name once it is on the disk.

    Beside means under a name of its own, so that two who write do not meet.
    """
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except (OSError, KeyboardInterrupt) as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise cannot_write(file, error) from None
        raise
    sync_folder(file.parent)


def write_whole(file: Path, content: bytes) -> None:
    """Write a file beside, and take its name once all of it is on the disk."""
    with whole_file(file) as stream:
        stream.write(content)


def sync_folder(folder: Path) -> None:
    """Put a new file's name on the disk, where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_read(path: Path, error: OSError) -> InputError:
    """Return the error of a place that cannot be read."""
    return InputError(f"{path}: cannot be read ({error.strerror or error})")


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error of a place that cannot be written to."""
    return InputError(f"{path}: cannot be written ({error.strerror or error})")
