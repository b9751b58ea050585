"""One run after the other, each fitted once and kept in a store."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from h2gcn import __version__
from h2gcn.estimator import (
    NodeClassifier,
    blank_module,
    build_operators,
    check_labels,
    check_split,
    check_types,
    estimate_work,
    input_width,
    mean_and_deviation,
    plan_operators,
    resolve_device,
    resolve_seed,
    table_schema,
)
from h2gcn.exceptions import InputError
from h2gcn.experiments.definition import Setting, classifier_of
from h2gcn.experiments.running import Seconds, Share, Store, check_kind, key_of
from h2gcn.graph import Graph, Split, fingerprint
from h2gcn.io import Count, shown
from h2gcn.models import ALIASES, find_model
from h2gcn.rings import RingOptions

__all__ = [
    *("OnRanking", "Ranked", "Trials", "TuneProgress", "rank", "sum_up"),
    "without_test",
]


@dataclass(frozen=True)
class Ranked:
    """A setting and how it did on the validation nodes.

    Parameters
    ----------
    setting
        Arguments of a `NodeClassifier`.
    mean, deviation
        Of the validation score over the splits, as fractions of 1; None where a run
        failed, and the deviation also of one split.
    n
        Number of splits.
    seconds
        Of all of them.
    error
        Why a run failed.
    runs
        The keys of its records in the store, by split.
    """

    setting: Setting
    mean: float | None
    deviation: float | None
    n: int
    seconds: float
    error: str | None = None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TuneProgress:
    """How far it is: runs that are done, in all, and already there at the start."""

    done: int
    total: int
    found: int
    best: float | None


class TrialJson(msgspec.Struct):
    """The schema of the record of a trial."""

    key: str
    dataset: str
    checksum: str
    model: str
    config: dict[str, Any]
    split: Count
    seed: Count
    seconds: Seconds
    version: str
    val_score: Share | None
    error: str | msgspec.UnsetType = msgspec.UNSET
    best_epoch: Count | None = None
    epochs: Count | None = None
    val_accuracy: Share | None = None

    def __post_init__(self) -> None:
        if (self.val_score is None) != (self.error is not msgspec.UNSET):
            raise ValueError("it has a score and an error, or neither")


def check_trials(store: Store) -> None:
    """Refuse a store whose records are not of trials."""
    check_kind(TrialJson, store.path, store.records)
    for record in store.records:
        place = f"{store.path}, record {shown(record['key'])}"
        check_types(record["config"], place, "config")


OnRanking = Callable[[list[Ranked], NodeClassifier | None], None]
"""Takes the settings done so far, the best first, and the best one's classifier."""


class Trials:
    """Runs settings of one model on splits of one graph, each run once.

    Parameters
    ----------
    graph
        With labels for some nodes.
    model
        A name of `h2gcn.models.MODELS`.
    splits
        Their training and validation parts are used.
    seed
        The run on split i is seeded by seed + i.
    store
        Keeps each run as it ends; those that are in it are not run again.
    device
        As of `NodeClassifier`; where a run was computed does not make it another.
    machine
        More parameters of `NodeClassifier` about this machine, such as
        `memory_limit`; they do not make it another either.
    on_run
        Called at the start and after every run.
    on_ranking
        Called at the start, if the store has all runs of some setting, and after every
        setting. The classifier is the best setting's on the first split; None where
        it was not fitted just now. So the best so far can be kept on the way.
    """

    def __init__(
        self,
        graph: Graph,
        model: str,
        splits: Sequence[Split],
        *,
        seed: int,
        store: Store,
        device: str = "auto",
        machine: Mapping[str, Any] | None = None,
        on_run: Callable[[TuneProgress], None] | None = None,
        on_ranking: OnRanking | None = None,
    ) -> None:
        check_labels(graph)
        check_trials(store)
        self.graph, self.model = graph, model
        self.splits = [check_split(graph, without_test(split)) for split in splits]
        self.seed, self.store, self.device = seed, store, device
        self.machine = dict(machine or {})
        self._on_run, self._on_ranking = on_run, on_ranking
        self._results: list[Ranked] = []
        self._checksum, self._checksum_directed = (
            fingerprint(graph, directions=seen)[:16] for seen in (False, True)
        )
        self._parts = [_digest(split) for split in self.splits]
        self._total = self._found = self._new = 0
        self._best: float | None = None

    def begin(self, settings: Sequence[Setting], total: int | None = None) -> None:
        """Check settings before the first is run, and count what is there of them."""
        for setting in settings:
            self._classifier(setting).check_params(self.graph.n_classes)
        self._total = len(self.splits) * (len(settings) if total is None else total)
        self._found = sum(self._n_done(setting) for setting in settings)
        self._report()
        found = [self.find(setting) for setting in settings]
        self._results = [result for result in found if result is not None]
        if self._results:
            self._rank(None)

    def is_possible(self, setting: Setting) -> bool:
        """Return whether a setting is one of the model's; a store may hold others."""
        try:
            self._classifier(setting).check_params(self.graph.n_classes)
        except InputError:
            return False
        return True

    def key(self, setting: Setting, number: int) -> str:
        """Return the key of the run of a setting on a split."""
        return key_of(
            checksum=self._checksum_of(setting),
            model=ALIASES.get(self.model, self.model),
            config=setting,
            parts=self._parts[number],
            seed=self.seed + number,
        )

    def _checksum_of(self, setting: Setting) -> str:
        """Return what stands for the graph as a setting's model sees it."""
        spec = find_model(self.model).given(setting.get("options"))
        return self._checksum_directed if spec.directed else self._checksum

    def find(self, setting: Setting) -> Ranked | None:
        """Return how a setting did if all of its runs are in the store."""
        if self._n_done(setting) < len(self.splits):
            return None
        return sum_up(setting, self._records(setting))

    def run(self, setting: Setting) -> Ranked:
        """Run a setting on the splits that are missing."""
        first: NodeClassifier | None = None
        for number in range(len(self.splits)):
            if self._n_done(setting) == len(self.splits):
                break
            if self.key(setting, number) not in self.store:
                before = self._n_done(setting)
                record, fitted = self._fit(setting, number)
                self.store.append(record)
                first = fitted if number == 0 else first
                self._new += self._n_done(setting) - before
                self._report()
        result = sum_up(setting, self._records(setting))
        if result.mean is not None:
            self._best = max(result.mean, self._best or 0.0)
        self._report()
        if all(result.runs != known.runs for known in self._results):
            self._results.append(result)
            self._rank(first)
        return result

    def _records(self, setting: Setting) -> list[dict[str, Any]]:
        keys = [self.key(setting, number) for number in range(len(self.splits))]
        return [self.store[key] for key in keys if key in self.store]

    def _n_done(self, setting: Setting) -> int:
        """Return how many runs are done; after a failure the others are spared."""
        records = self._records(setting)
        failed = any("error" in record for record in records)
        return len(self.splits) if failed else len(records)

    def _report(self) -> None:
        if self._on_run is not None:
            done = self._found + self._new
            self._on_run(TuneProgress(done, self._total, self._found, self._best))

    def _rank(self, last: NodeClassifier | None) -> None:
        """Show the ranking so far; `last` is the classifier of the last result."""
        if self._on_ranking is not None:
            ranking = rank(self._results)
            leads = ranking[0] is self._results[-1]
            self._on_ranking(ranking, last if leads else None)

    def _fit(
        self, setting: Setting, number: int
    ) -> tuple[dict[str, Any], NodeClassifier]:
        """Return the record of a run, an impossible one with its `error`, and more."""
        seed = self.seed + number
        fitted = self._classifier(setting, seed)
        # What the machine cannot do is no fault of the setting, and not recorded.
        self._find_operators(setting, number)
        start, error = time.perf_counter(), None
        try:
            fitted.fit(self.graph, self.splits[number])
        except InputError as failure:
            error = str(failure)
        seconds = time.perf_counter() - start
        record: dict[str, Any] = {
            "key": self.key(setting, number),
            "dataset": self.graph.name,
            "checksum": self._checksum,
            "model": self.model,
            "config": dict(setting),
            "split": number,
            "seed": seed,
            "seconds": round(seconds, 3),
            "version": __version__,
        }
        if error is None and fitted.interrupted_:
            raise KeyboardInterrupt
        if error is None and math.isnan(fitted.val_score_):
            error = f"the metric {fitted.metric} has no value on the validation nodes"
        if error is not None:
            return record | {"val_score": None, "error": error}, fitted
        record |= {"val_score": fitted.val_score_, "best_epoch": fitted.best_epoch_}
        if fitted.metric == "accuracy":
            record["val_accuracy"] = fitted.val_score_
        return record | {"epochs": fitted.n_iter_}, fitted

    def _classifier(
        self, setting: Setting, random_state: int | None = None
    ) -> NodeClassifier:
        more = {**self.machine, "device": self.device, "random_state": random_state}
        return classifier_of(self.model, setting, **more)

    def _find_operators(self, setting: Setting, number: int) -> None:
        """Make the operators of a run, or say why this machine cannot."""
        params = self._classifier(setting).get_params()
        schema, n_classes = table_schema(params, self.graph), self.graph.n_classes
        width = input_width(params, self.graph.n_features, n_classes, schema)
        module = blank_module(params, width, n_classes)
        rings = RingOptions.of(
            params,
            resolve_seed(self.seed + number),
            estimate_work(module, self.graph, self.splits[number]),
            on_demand=params["batch_size"] is not None,
        )
        device = resolve_device(self.device)
        given = params["options"]
        plan = plan_operators(self.graph, self.model, device, rings, given=given)
        build_operators(plan)


def without_test(split: Split) -> Split:
    """Return a split whose test part is empty: nobody can look at what is not there."""
    return Split(split.train, split.val, np.array([], dtype=np.int64))


def sum_up(setting: Setting, records: Sequence[Mapping[str, Any]]) -> Ranked:
    """Return how a setting did, from the records of its runs, one a split."""
    seconds = sum(record["seconds"] for record in records)
    runs = tuple(record["key"] for record in records)
    errors = [record["error"] for record in records if "error" in record]
    if errors:
        scored = len(records) - len(errors)
        return Ranked(dict(setting), None, None, scored, seconds, errors[0], runs)
    scores = mean_and_deviation([record["val_score"] for record in records])
    mean, deviation = scores["mean"], scores["std"]
    return Ranked(dict(setting), mean, deviation, len(records), seconds, runs=runs)


def rank(results: Sequence[Ranked]) -> list[Ranked]:
    """Sort by the mean score, the best first; on a tie the order given stays."""

    def place(result: Ranked) -> float:
        # Rounded, so that sums of the same shares in another order are equal.
        return math.inf if result.mean is None else -round(result.mean, 12)

    return sorted(results, key=place)


def _digest(split: Split) -> str:
    """Return what stands for the parts that are used: their nodes, in any order."""
    digest = hashlib.sha256()
    for part in (split.train, split.val):
        digest.update(hashlib.sha256(np.sort(part).astype("<i8").tobytes()).digest())
    return digest.hexdigest()[:16]
