"""The raw files of the benchmarks: downloaded, known by checksums, read with care."""

from __future__ import annotations

import hashlib
import logging
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import cannot_read, cannot_write, listed

__all__ = [
    "MOST_COLUMNS",
    "DownloadProgress",
    "check_files",
    "download_files",
    "known_checksums",
    "reading",
]

logger = logging.getLogger(__name__)

DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, its bytes so far, and all of them (0: not known)."""

MOST_BYTES = 2**26
"""Of a benchmark's file; the largest that is known has a third of that."""
MOST_COLUMNS = 1_000_000
"""Of features: a few bytes of a damaged file can ask for any number of them."""
RETRIES = 2
"""How often a download is begun again where that may help."""
TIMEOUT = 30
"""Seconds without a word from the server."""

_WAY_OUT = (
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
        raise InputError(f"{path}: the file is damaged ({words})") from None


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
    """
    unknown, other = [], []
    for file in files:
        found, known = _sha256(root / file), known_checksums().get(file)
        if found == known:
            continue
        if known is None or file in rebuilt:
            unknown.append(Path(file).name)
            continue
        other.append(Path(file).name)
        if not trust_data:
            again = "; once it is removed, it is downloaded again" if served else ""
            raise InputError(
                f"{name}: {root / file} is not the known file: its SHA-256 is {found}, "
                f"that of the known one {known}{again}; {_WAY_OUT}"
            )
    folder = (root / files[0]).parent
    for names, why in (
        (other, "their SHA-256 is not that of the known files"),
        (unknown, "no SHA-256 of theirs is known"),
    ):
        if names:
            said = f"{name}: {listed(names, 2)} in {folder}: {why}; they are read"
            warnings.warn(f"{said} all the same", H2GCNWarning, stacklevel=4)


def _sha256(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(f"{path}: this is not a file")
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(
                f"{path}: no file of a benchmark has more than {MOST_BYTES:,} bytes. "
                f"Got {size:,}."
            )
        return hashlib.sha256(path.read_bytes()).hexdigest()
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
    progress: DownloadProgress | None = None,
) -> None:
    """Download files, each whole and known, or not at all.

    Parameters
    ----------
    root
        The folder of all benchmarks.
    addresses
        Of the files that are missing, by their places under the root.
    rebuilt, trust_data
        See `check_files`.
    progress
        Called as bytes arrive.
    """
    import pooch

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
    with _folders_of(root / file for file in addresses), _quiet(pooch.get_logger()):
        for file, address in addresses.items():
            fetch = _Fetch(Path(file).name, progress)
            try:
                keeper.fetch(file, downloader=fetch)
                # The temporary file was its owner's alone.
                (root / file).chmod(0o644)
            except _NoUse as error:
                raise InputError(f"{address}: {error}") from None
            except InputError:
                raise
            except OSError as error:
                raise _told(address, root / file, error) from None
            except ValueError:  # of pooch, by which it tells of a checksum
                raise InputError(
                    f"{address}: what came is not the known file: its SHA-256 is "
                    f"{fetch.found}, that of the known one {sums[file]}; "
                    f"{_WAY_OUT}"
                ) from None
            logger.info("downloaded %s", address)


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
    return InputError(f"{address}: {why}, {1 + RETRIES} times")


def _status(error: Any) -> str:
    answer = getattr(error, "response", None)
    return f"{answer.status_code} {answer.reason}" if answer is not None else "nothing"


class _Fetch:
    """Downloads a file for pooch: over TLS that is verified, and not without end."""

    def __init__(self, file: str, progress: DownloadProgress | None) -> None:
        self.file, self.progress = file, progress
        self.found = ""
        self._answers: list[Any] = []

    def __call__(self, url: str, output_file: Any, keeper: Any) -> None:
        """Download a file to a place, or raise."""
        import pooch
        import requests
        from urllib3.exceptions import NewConnectionError

        download = pooch.HTTPDownloader(
            progressbar=_Bar(self.file, self.progress),
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
        self.found = _sha256(Path(output_file))

    def _look_at(self, answer: Any, *_: object, **__: object) -> None:
        """Refuse an answer that sends on from an encrypted address to a plain one."""
        self._answers.append(answer)
        there = urlsplit(answer.headers.get("location", ""))
        if answer.url.startswith("https:") and there.scheme == "http":
            raise _NoUse("it sends on to an address without encryption")


class _Bar:
    """What pooch takes for a progress bar, and what ends a download without end."""

    def __init__(self, file: str, progress: DownloadProgress | None) -> None:
        self.file, self.progress = file, progress
        self.done = self.total = 0

    def update(self, count: int) -> None:
        """Count bytes that arrived."""
        self.done += count
        if self.done > MOST_BYTES + 2**16:  # it counts the last chunk as a whole one
            raise _NoUse(f"it does not end after {MOST_BYTES:,} bytes")
        if self.progress is not None:
            done = min(self.done, self.total) if self.total else self.done
            self.progress(self.file, done, self.total)

    def reset(self) -> None:
        """Begin again."""
        self.done = 0

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def _folders_of(paths: Iterator[Path]) -> Iterator[None]:
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
