"""The raw files of the benchmarks: downloaded, known by checksums, read with care.

An address may name a member of a zip archive, `https://…/arxiv.zip#arxiv/raw/edge.csv`:
then the archive is downloaded once, and what is wanted of it unpacked.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import struct
import threading
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import atomic_write, cannot_read, cannot_write, listed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "LARGE_FILE",
    "MIDDLE_FILE",
    "MOST_COLUMNS",
    "WAY_OUT",
    "DownloadProgress",
    "RawFile",
    "check_files",
    "download_files",
    "known_checksums",
    "opened",
    "reading",
    "telling",
]

logger = logging.getLogger(__name__)

DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, its bytes so far, and all of them (0: not known)."""

MOST_BYTES = 2**26
"""Of a benchmark's file; the largest of the paper's has a third of that."""
MIDDLE_FILE, LARGE_FILE = 2**28, 2**34
"""Of a file of those benchmarks that are larger, or known to be large."""
SHOWN = 2**25
"""From so many bytes on, it is told how far the reading of a file is."""
MOST_COLUMNS = 1_000_000
"""Of features: a few bytes of a damaged file can ask for any number of them."""
RETRIES = 2
"""How often a download is begun again where that may help."""
TIMEOUT = 30
"""Seconds without a word from the server."""

WAY_OUT = (
    "if it can be trusted, trust_data=True (or $H2GCN_TRUST_DATA=1) reads it all the "
    "same"
)
_DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError),
    *(RuntimeError, StopIteration, SyntaxError, TypeError, ValueError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What readers run into where a file is cut off or something else."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell in one line, with the name of the file, what a reader runs into.

    Parameters
    ----------
    path
        The file that is read, or the folder that is made into a graph.
    """
    try:
        yield
    except InputError as error:
        said = str(error)
        named = said.startswith(str(path))
        raise InputError(said if named else f"{path}: {said}") from None
    except _DAMAGE as error:
        words = " ".join(str(error).split()) or type(error).__name__
        if len(words) > 200:
            words = f"{words[:199]}…"
        raise InputError(f"the file is damaged ({words})", where=str(path)) from None


_TOLD: ContextVar[DownloadProgress | None] = ContextVar("_TOLD", default=None)
"""Who is told how far the reading of large files is."""


@contextmanager
def telling(progress: DownloadProgress | None) -> Iterator[None]:
    """Have those who read large files by `opened` tell how far they are."""
    token = _TOLD.set(progress)
    try:
        yield
    finally:
        _TOLD.reset(token)


class RawFile(io.FileIO):
    """A file that tells how far it is read, in the thread that opened it.

    Parameters
    ----------
    path
        The file.
    doing
        What is done to it, in a word.
    """

    def __init__(self, path: Path, doing: str) -> None:
        super().__init__(path, "rb")
        self._size = os.fstat(self.fileno()).st_size
        self._title = f"{doing} {path.name}"
        self._told = _TOLD.get() if self._size >= SHOWN else None
        self._thread = threading.get_ident()

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Read some bytes."""
        count = super().readinto(buffer)
        self.tell_progress()
        return count

    def tell_progress(self) -> None:
        """Tell how far it is; for those whose reading is done by other threads."""
        if self._told is not None and threading.get_ident() == self._thread:
            self._told(self._title, self.tell(), self._size)


@contextmanager
def opened(path: Path, doing: str = "reading") -> Iterator[io.BufferedReader[RawFile]]:
    """Open a file to read bytes from; its `raw` tells how far it is.

    Parameters
    ----------
    path
        The file.
    doing
        What is done to it, in a word, for who watches.
    """
    with RawFile(path, doing) as raw, io.BufferedReader(raw, 2**20) as file:
        yield file


@cache
def known_checksums() -> Mapping[str, str]:
    """Return the SHA-256 of the benchmarks' files by their places under the root."""
    sums = resources.files(__package__) / "sha256sums.txt"
    lines = sums.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def check_files(
    name: str,
    root: Path,
    files: Sequence[str],
    *,
    rebuilt: Sequence[str] = (),
    served: bool = False,
    trust_data: bool = False,
    most_bytes: int | None = None,
) -> None:
    """Refuse files that are not the known ones, before anything of them is read.

    Parameters
    ----------
    name
        Of the benchmark, for messages.
    root
        The folder of all benchmarks.
    files
        Places under it.
    rebuilt
        Those of them that may differ from the known ones.
    served
        Whether the files can be downloaded.
    trust_data
        Warn instead.
    most_bytes
        How large a file may be; by default `MOST_BYTES`.
    """
    unknown: list[str] = []
    copies: list[str] = []
    other: list[str] = []
    for file in files:
        known = known_checksums().get(file)
        _check_size(root / file, most_bytes)
        found = None if known is None else _sha256(root / file)
        if known is not None and found == known:
            continue
        if known is None or file in rebuilt:
            (unknown if known is None else copies).append(Path(file).name)
            continue
        other.append(Path(file).name)
        if not trust_data:
            again = "; once it is removed, it is downloaded again" if served else ""
            raise InputError(
                f"{name}: {root / file} is not the known file: its SHA-256 is {found}, "
                f"that of the known one {known}{again}; {WAY_OUT}"
            )
    folder = os.path.commonpath([(root / file).parent for file in files])
    for names, why in (
        (other, "their SHA-256 is not that of the known files"),
        (unknown, "no SHA-256 of theirs is known"),
        (copies, "their SHA-256 is not that of the copy that is known"),
    ):
        if names:
            said = f"{name}: {listed(names, 2)} in {folder}: {why}; they are read"
            warnings.warn(f"{said} all the same", H2GCNWarning, stacklevel=4)


def _check_size(path: Path, most_bytes: int | None) -> None:
    """Refuse what is no file, or too large for one."""
    most = MOST_BYTES if most_bytes is None else most_bytes
    try:
        if not path.is_file():
            raise InputError("this is not a file", where=str(path))
        size = path.stat().st_size
    except OSError as error:
        raise cannot_read(path, error) from None
    if size > most:
        raise InputError(
            f"no file of a benchmark has more than {most:,} bytes, got {size:,}",
            where=str(path),
        )


def _sha256(path: Path) -> str:
    try:
        with opened(path, "checking") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from None


class _NoUse(Exception):
    """Why a download failed in a way that a second try does not mend."""


def download_files(
    root: Path,
    addresses: Mapping[str, str],
    *,
    rebuilt: Sequence[str] = (),
    trust_data: bool = False,
    most_bytes: int | None = None,
    progress: DownloadProgress | None = None,
) -> None:
    """Download files, each whole and known, or not at all.

    Parameters
    ----------
    root
        The folder of all benchmarks.
    addresses
        Of the files that are missing, by their places under the root.
    rebuilt, trust_data, most_bytes
        See `check_files`.
    progress
        Called as bytes arrive.
    """
    import pooch

    # What is packed comes as its archive, in the folder that has it all.
    packed = {file: address for file, address in addresses.items() if "#" in address}
    archives: dict[str, dict[str, str]] = {}
    for file, address in packed.items():
        there, member = urldefrag(address)
        archives.setdefault(there, {})[file] = member
    places = {
        there: f"{Path(next(iter(members))).parts[0]}/{Path(urlsplit(there).path).name}"
        for there, members in archives.items()
    }
    whole = {file: at for file, at in addresses.items() if file not in packed}
    addresses = {place: there for there, place in places.items()} | whole
    sums = {
        file: None if trust_data or file in rebuilt else known_checksums().get(file)
        for file in addresses
    }
    keeper = pooch.Pooch(
        path=root.absolute(),
        base_url="",
        registry=sums,
        urls=dict(addresses),
        retry_if_failed=RETRIES,
    )
    made = [root / file for file in (*addresses, *packed)]
    with _folders_of(made), _quiet(pooch.get_logger()):
        for file, address in addresses.items():
            fetch = _Fetch(
                Path(file).name,
                progress,
                MOST_BYTES if most_bytes is None else most_bytes,
                known=sums[file] is not None,
            )
            try:
                keeper.fetch(file, downloader=fetch)
                # The temporary file was its owner's alone.
                (root / file).chmod(0o644)
            except _NoUse as error:
                raise InputError(str(error), where=str(address)) from None
            except InputError:
                raise
            except OSError as error:
                raise _told(address, root / file, error) from None
            except ValueError:  # of pooch, by which it tells of a checksum
                raise InputError(
                    f"what came is not the known file: its SHA-256 is "
                    f"{fetch.found}, that of the known one {sums[file]}",
                    where=str(address),
                    hint=WAY_OUT,
                ) from None
            logger.info("downloaded %s", address)
            if address in archives:
                _unpack(root, file, archives[address], fetch.most_bytes, progress)


def _unpack(
    root: Path,
    archive: str,
    members: Mapping[str, str],
    most_bytes: int,
    progress: DownloadProgress | None,
) -> None:
    """Write members of an archive to their places, and take the archive away.

    Parameters
    ----------
    root, archive
        The folder of all benchmarks, and the place of the archive under it.
    members
        What they are called in the archive, by their places under the root.
    most_bytes, progress
        As of `download_files`.
    """
    try:
        with reading(root / archive), zipfile.ZipFile(root / archive) as packed:
            for place, member in members.items():
                if member not in packed.NameToInfo:
                    raise InputError(f"there is no {member} in it.")
                info = packed.getinfo(member)
                if info.file_size > most_bytes:
                    raise InputError(
                        f"no file of a benchmark has more than {most_bytes:,} "
                        f"bytes, got {info.file_size:,} of {member}"
                    )
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                title = f"unpacking {Path(place).name}"
                with packed.open(info) as source, atomic_write(root / place) as beside:
                    with beside.open("wb") as target:
                        while content := source.read(2**20):
                            try:
                                target.write(content)
                            except OSError as error:
                                raise cannot_write(root / place, error) from None
                            if progress is not None:
                                progress(title, target.tell(), info.file_size)
                    beside.chmod(0o644)
    except InputError:
        (root / archive).unlink(missing_ok=True)
        raise
    (root / archive).unlink()


def _told(address: str, path: Path, error: OSError) -> InputError:
    """Return what the network or the disk had to say, in one line."""
    import requests

    if not isinstance(error, requests.RequestException):
        return cannot_write(path, error)
    host = urlsplit(address).hostname
    words = {
        requests.HTTPError: f"{host} answers with {_status(error)}",
        requests.Timeout: f"{host} is silent for {TIMEOUT} s",
    }
    why = next(
        (text for kind, text in words.items() if isinstance(error, kind)),
        f"the connection to {host} broke off",
    )
    return InputError(f"{why}, {1 + RETRIES} times", where=str(address))


def _status(error: Any) -> str:
    answer = getattr(error, "response", None)
    return f"{answer.status_code} {answer.reason}" if answer is not None else "nothing"


class _Fetch:
    """Downloads a file for pooch: over TLS that is verified, and not without end."""

    def __init__(
        self,
        file: str,
        progress: DownloadProgress | None,
        most_bytes: int,
        *,
        known: bool,
    ) -> None:
        self.file, self.progress, self.most_bytes = file, progress, most_bytes
        self.known, self.found = known, ""
        self._answers: list[Any] = []

    def __call__(self, url: str, output_file: Any, keeper: Any) -> None:
        """Download a file to a place, or raise."""
        import pooch
        import requests
        from urllib3.exceptions import NewConnectionError

        download = pooch.HTTPDownloader(
            progressbar=_Bar(self.file, self.progress, self.most_bytes),
            chunk_size=2**16,
            timeout=TIMEOUT,
            hooks={"response": self._look_at},
        )
        host = urlsplit(url).hostname
        try:
            download(url, output_file, keeper)
        except requests.exceptions.SSLError as error:
            if "CERTIFICATE_VERIFY_FAILED" not in str(error):
                raise
            raise _NoUse(f"the certificate of {host} cannot be verified") from None
        except requests.exceptions.HTTPError as error:
            if error.response.status_code < 500:
                raise _NoUse(f"{host} answers with {_status(error)}") from None
            raise
        except requests.exceptions.ConnectionError as error:
            cause = error.args[0] if error.args else None
            if isinstance(getattr(cause, "reason", None), NewConnectionError):
                raise _NoUse(f"there is no connection to {host}") from None
            raise
        except ValueError as error:
            if isinstance(error, OSError):  # of requests
                raise
            raise _NoUse(f"the answer of {host} makes no sense") from None
        finally:
            for answer in self._answers:  # pooch leaves them open
                answer.close()
        if self.known:
            self.found = _sha256(Path(output_file))

    def _look_at(self, answer: Any, *_: object, **__: object) -> None:
        """Refuse an answer that sends on to a plain address, or is a page.

        Some servers answer with a page, and no failure, where a file was asked for too
        often.
        """
        self._answers.append(answer)
        there = urlsplit(answer.headers.get("location", ""))
        if answer.url.startswith("https:") and there.scheme == "http":
            raise _NoUse("it sends on to an address without encryption")
        kind = answer.headers.get("content-type", "")
        if answer.status_code == 200 and kind.startswith("text/html"):
            raise _NoUse(f"{urlsplit(answer.url).hostname} answers with a page")


class _Bar:
    """What pooch takes for a progress bar, and what ends a download without end."""

    def __init__(
        self, file: str, progress: DownloadProgress | None, most_bytes: int
    ) -> None:
        self.file, self.progress, self.most_bytes = file, progress, most_bytes
        self.done = self.total = 0

    def update(self, count: int) -> None:
        """Count bytes that arrived."""
        self.done += count
        # It counts the last chunk as a whole one.
        if self.done > self.most_bytes + 2**16:
            raise _NoUse(f"it does not end after {self.most_bytes:,} bytes")
        if self.progress is not None:
            done = min(self.done, self.total) if self.total else self.done
            self.progress(self.file, done, self.total)

    def reset(self) -> None:
        """Begin again."""
        self.done = 0

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def _folders_of(paths: Sequence[Path]) -> Iterator[None]:
    """Take folders away again that were made for files which then did not come."""
    around = {folder for path in paths for folder in path.parents}
    new = sorted((folder for folder in around if not folder.exists()), reverse=True)
    try:
        yield
    finally:
        for folder in new:
            with suppress(OSError):  # it holds something
                folder.rmdir()


@contextmanager
def _quiet(log: logging.Logger) -> Iterator[None]:
    """Keep pooch from writing to stderr."""
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
