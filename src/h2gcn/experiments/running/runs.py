"""Runs, and the store that keeps them: JSON lines, whole whatever ends the program.

A run is one fit of a model on one split of a graph. A plan is a list of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.io import (
    Count,
    cannot_write,
    conform,
    lock,
    parse_json,
    plain_path,
    read_own,
    shown,
    sync_folder,
)

__all__ = [
    *("FORMAT", "Run", "RunJson", "Seconds", "Share", "Store", "check_kind", "key_of"),
    "read_records",
]

LARGEST = 2**32
"""Bytes of a store."""

FORMAT = 1
"""A field of every record, so that files can be joined and cut line by line."""


def key_of(**what_defines_it: Any) -> str:
    """Return 16 hexadecimal digits that stand for a run.

    Parameters
    ----------
    what_defines_it
        All that the result depends on, as what JSON can hold; the order of names
        does not count.

    Examples
    --------
    >>> key_of(model="gcn", split=0) == key_of(split=0, model="gcn")
    True
    >>> key_of(model="gcn", split=0) == key_of(model="gcn", split=1)
    False
    """
    text = json.dumps(
        what_defines_it, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a store, without a lock and without changing it.

    A last line that was cut off is left out: its program was killed, or is about to
    write the rest.
    """
    return _parse(Path(path), read_own(Path(path), LARGEST))[0]


class Store(Mapping[str, dict[str, Any]]):
    """An append-only file with a record a line, one for each finished run, by key.

    A record is on the disk before `append` returns. A line that was cut off by a kill
    or a power cut is removed when the store is opened again. While it is open, no
    other program can open it.

    Parameters
    ----------
    path
        The file; made if it is not there, its folder must be.

    Attributes
    ----------
    records
        All records in the order of the file; each has a `key`, and of two with the
        same key the later one counts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = plain_path(path)
        self._new, new = False, not self.path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        try:
            self._file = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        try:
            lock(self._file, self.path)
            self._new = new  # and nobody else's
            content = read_own(self.path, LARGEST)
            records, whole = _parse(self.path, content)
            self._repair(content, whole)
            if new:
                sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise
        self._records = {record["key"]: record for record in records}

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records in the order of the file."""
        return list(self._records.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._records[key]

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record with its `key`; it is on the disk when this returns."""
        full = {"format": FORMAT, **record}
        line = json.dumps(full, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except BaseException as error:
            # A full disk, or Ctrl-C: the lines before this one stay as they were.
            with suppress(OSError):
                os.ftruncate(self._file, size)
            if isinstance(error, OSError):
                raise cannot_write(self.path, error) from None
            raise
        self._records[record["key"]] = full

    def close(self) -> None:
        """Give the file to others; one that was made for nothing is removed."""
        if self._file < 0:
            return
        if self._new and not os.fstat(self._file).st_size:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._file)
        self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repair(self, content: bytes, whole: int) -> None:
        """Make the file end with a whole line, as `append` takes for granted."""
        try:
            if whole < len(content):
                os.ftruncate(self._file, whole)
            elif content and not content.endswith(b"\n"):
                os.write(self._file, b"\n")
            else:
                return
            os.fsync(self._file)
        except OSError as error:
            raise cannot_write(self.path, error) from None


def _parse(path: Path, content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the records, and how many bytes are whole lines."""
    *lines, last = content.split(b"\n")
    records = [
        _check(path, number, _record(line))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    # No beginning of an object is an object: one that can be read is whole.
    if not last.strip() or (record := _record(last)) is None:
        return records, len(content) - len(last)
    return [*records, _check(path, len(lines) + 1, record)], len(content)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = parse_json(line, "a record")
    except InputError:
        return None
    return record if isinstance(record, dict) else None


def _check(path: Path, number: int, record: dict[str, Any] | None) -> dict[str, Any]:
    found = FORMAT if record is None else record.get("format", FORMAT)
    if found != FORMAT:
        raise InputError(
            f"{path}, line {number}: format {shown(found)}; this version of h2gcn "
            f"({__version__}) reads format {FORMAT}"
        )
    if record is None or not isinstance(record.get("key"), str):
        raise InputError(
            f"{path}, line {number}: not a record of a run; was it changed by hand?"
        )
    return record


def check_kind(
    kind: type[msgspec.Struct], path: object, records: Iterable[Mapping[str, Any]]
) -> None:
    """Refuse records that are not of a kind.

    Parameters
    ----------
    kind
        The schema.
    path
        The store that they are of, for messages.
    records
        With a `key` each.
    """
    for record in records:
        conform(kind, dict(record), f"{path}, record {shown(record['key'])}")


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A score, as a fraction of 1."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class RunJson(msgspec.Struct):
    """The schema of the record of a run."""

    key: str
    experiment: str
    dataset: str
    model: str
    config: dict[str, Any]
    split: Count
    seed: Count
    selected: bool
    val_accuracy: Share | None
    test_accuracy: Share | None
    seconds: Seconds
    version: str
    best_epoch: Count | None = None
    epochs: Count | None = None
    checksum: str | None = None
    error: str | None = None
    reported_by: list[str] = []
    by_degree: list[tuple[Count, Count, Count, Count]] = []


@dataclass(frozen=True)
class Run:
    """All that defines a run.

    Parameters
    ----------
    experiment
        What it was first planned for; experiments share runs, so it is not part of
        the key.
    dataset
        A name that `h2gcn.experiments.running.graphs.open_graph` knows.
    model
        A name of `h2gcn.models.MODELS`.
    config
        Arguments of `NodeClassifier`.
    split
        Number of the graph's split.
    seed
        The run on split i is seeded by seed + i.

    Examples
    --------
    >>> one = Run("real", "texas", "h2gcn-1", {"l2": 1e-5}, split=0)
    >>> one.key == Run("ranks", "texas", "h2gcn-1", {"l2": 1e-5}, split=0).key
    True
    >>> Run.from_json(one.to_json()) == one
    True
    """

    experiment: str
    dataset: str
    model: str
    config: Mapping[str, Any]
    split: int
    seed: int = 0

    @property
    def key(self) -> str:
        """16 hexadecimal digits of what the result depends on."""
        return key_of(
            dataset=self.dataset,
            model=self.model,
            config=dict(self.config),
            split=self.split,
            seed=self.seed,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the run as what JSON can hold."""
        return {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "model": self.model,
            "config": dict(self.config),
            "split": self.split,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote; a record's other fields do not matter."""
        names = ("experiment", "dataset", "model", "config", "split", "seed")
        return cls(**{name: content[name] for name in names})
