"""Runs, and the store that keeps them: JSON lines, whole whatever ends the program.

A run is one fit of a model on one split of a graph. A plan is a list of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec

from h2gcn import __version__
from h2gcn.datasets import (
    DATASETS,
    PRESETS,
    SYN_CORA,
    BenchmarkFeatures,
    FeatureSource,
    GaussianFeatures,
    ProductsFeatures,
    data_root,
    generate_graph,
    load_dataset,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, fingerprint
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

if TYPE_CHECKING:  # with it, whoever starts processes would wait for torch
    from h2gcn.experiments.definition import Experiment, Protocol

__all__ = [
    "FORMAT",
    "Available",
    "MissingData",
    "Run",
    "RunJson",
    "Seconds",
    "Share",
    "Store",
    "available_columns",
    "card_of",
    "check_kind",
    "find_checksum",
    "has_products",
    "key_of",
    "on_available_graphs",
    "open_graph",
    "read_records",
]

REMEMBERED = 3
"""Graphs that a process keeps: those that its next runs are likely to be on."""

_GENERATED = re.compile(
    r"(?P<family>syn-products-ogb|syn-products-kinds|syn-products|syn-cora-own)"
    r"(-(?P<nodes>[1-9]\d{2,6}))?/h(?P<h>0\.\d\d|1\.00)-r(?P<number>[1-9]\d*)"
)

KINDS = GaussianFeatures(separation=9.53125, kinds=20)
"""Features of syn-products where those of ogbn-products are not at hand.

A class of products has many kinds in it. Of 1, 5 and 20 Gaussians a class, 20 came
nearest to the paper (`paper/feature_kinds.py`), and they are as far apart as gives the
MLP about the paper's accuracy.
"""


class MissingData(InputError):
    """A dataset whose files are not there and could not be had."""


def open_graph(name: str) -> Graph:
    """Return a graph with its splits; the last few are remembered.

    Parameters
    ----------
    name
        A benchmark's, such as `cora` or `syn-cora/h0.10-r1`. Others are generated:
        `syn-products/h0.10-r1` (homophily 0.10, the first graph that has it) with
        Gaussian features, `syn-products-kinds/h0.10-r1` with `KINDS`,
        `syn-products-ogb/h0.10-r1` with those of ogbn-products,
        `syn-cora-own/h0.10-r1` with Cora's. `syn-products-2000/h0.10-r1` has 2,000
        nodes.

    Raises
    ------
    MissingData
        Where the files are not there; the message says where they should be.
    """
    return _open(name, data_root())


def find_checksum(name: str) -> str:
    """Return the first 16 digits of a graph's fingerprint."""
    return _checksum(name, data_root())


def has_products() -> bool:
    """Return whether the data root has the features of ogbn-products."""
    return ProductsFeatures(data_root()).available()


@lru_cache(maxsize=REMEMBERED)
def _open(name: str, root: Path) -> Graph:
    if (match := _GENERATED.fullmatch(name)) is None:
        return _load(name, root)
    family, h = match["family"], float(match["h"])
    shape = PRESETS["syn-cora" if family == "syn-cora-own" else "syn-products"].copy()
    if match["nodes"]:
        shape["n_nodes"] = int(match["nodes"])
    return generate_graph(
        **shape,
        homophily=h,
        features=_features(name, family, root),
        seed=1000 * int(match["number"]) + round(100 * h),
        name=name,
    )


@cache
def _checksum(name: str, root: Path) -> str:
    return fingerprint(_open(name, root))[:16]


def _features(name: str, family: str, root: Path) -> FeatureSource:
    if family == "syn-products":
        return GaussianFeatures()
    if family == "syn-products-kinds":
        return KINDS
    if family == "syn-products-ogb":
        products = ProductsFeatures(root)
        if not products.available():
            raise MissingData(f"{name}: the features of ogbn-products are not there")
        return products
    try:
        return BenchmarkFeatures(_open("cora", root))
    except MissingData as error:
        raise MissingData(f"{name} takes its features from {error}") from None


def _load(name: str, root: Path) -> Graph:
    try:
        return load_dataset(name, root=root)
    except InputError as error:
        with suppress(OSError):  # a place that cannot be looked at
            if any(not path.is_file() for path in _files(name, root)):
                raise MissingData(str(error)) from None
        raise


def _files(name: str, root: Path) -> list[Path]:
    """Return the files of a benchmark, none where there is no such benchmark."""
    if name in SYN_CORA:
        return [root / f"{name}.npz"]
    if name not in DATASETS:
        return []
    info = DATASETS[name]
    return [root / info.folder / file for file in info.files]


@dataclass
class Available:
    """What can be run of an experiment.

    Parameters
    ----------
    columns
        Those whose graphs are there, in the order to run them.
    cards
        Of the first graph of each.
    missing
        Why the others are not run.
    warnings
        What the readers warned of.
    """

    columns: list[str] = field(default_factory=list)
    cards: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def on_available_graphs(experiment: Experiment, protocol: Protocol) -> Experiment:
    """Return the experiment on the graphs that the data root has.

    The authors' syn-cora where all of its graphs are there, else ours; the features of
    ogbn-products for syn-products where they are there, else `KINDS`.
    """
    if experiment.synthetic == "syn-products":
        family = "syn-products-ogb" if has_products() else "syn-products-kinds"
        return replace(experiment, synthetic=family)
    if experiment.synthetic != "syn-cora":
        return experiment
    try:
        for column in experiment.shown(protocol):
            for name, _ in experiment.units(column, protocol):
                open_graph(name)
    except MissingData:
        return replace(experiment, synthetic="syn-cora-own")
    return experiment


def available_columns(
    experiment: Experiment, protocol: Protocol, left_out: Collection[str] = ()
) -> Available:
    """Return which columns of an experiment can be run.

    Graphs that are `left_out` are not opened, which may mean to download them.
    """
    found, shown = Available(), experiment.shown(protocol)
    for column in shown:
        name = experiment.units(column, protocol)[0][0]
        if name in left_out:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", H2GCNWarning)
            card, reason = card_of(name)
        found.warnings += [str(warning.message) for warning in said]
        if card is None:
            found.missing.append(reason)
        else:
            found.columns.append(column)
            found.cards[name] = card
    left = [column for column in experiment.columns if column not in shown]
    if left:
        reason = f"not part of the {protocol.name} protocol"
        found.missing.append(f"{', '.join(left)}: {reason}")
    return found


def card_of(name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a graph's card with its compatibility matrix, or why there is none."""
    from h2gcn.homophily import compatibility_matrix, graph_card

    try:
        graph = open_graph(name)
    except MissingData as error:
        return None, str(error)
    card = dict(graph_card(graph))
    card["class_names"] = [str(label) for label in graph.classes]
    # A class without neighbours has a row without values, which JSON cannot hold.
    card["compatibility"] = [
        [None if value != value else round(float(value), 4) for value in row]
        for row in compatibility_matrix(graph)
    ]
    return card, ""


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
        A name that `h2gcn.experiments.runs.open_graph` knows.
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
