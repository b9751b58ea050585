"""Files and folders that one program at a time may write to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from h2gcn.exceptions import InputError
from h2gcn.io.durable import cannot_read, cannot_write

try:
    import fcntl
except ImportError:  # Windows: whoever starts two programs on one place is not told
    fcntl = None  # type: ignore[assignment]

__all__ = ["lock", "locked"]

_NO_LOCKS = (
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL),
    errno.EBADF,  # of a folder on a network
)
"""What a file system says that has no locks."""


def lock(handle: int, path: Path) -> None:
    """Keep other programs out until `handle` is closed; raise where one is there.

    Parameters
    ----------
    handle
        The open file or folder.
    path
        Its name, for messages.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{path}: another program is writing to it; wait for it, or "
            "write to another place"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise cannot_write(path, error) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other programs out of a folder for a while; no file is made for that."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise cannot_read(folder, error) from None
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)
