"""Settings of a model, ranked on validation nodes: a grid, or a search beyond it.

Each run is fitted once and kept in a store. The search proposes by Optuna's sampler,
and keeps its trials in that same store. Optuna's storage would not go on to the bit:
the sampler's random state is not in it, a trial that was killed stays "running", and it
knows nothing of the single splits of a trial.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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
    fit_options,
    input_width,
    mean_and_deviation,
    plan_operators,
    resolve_cap,
    resolve_device,
    resolve_seed,
    table_schema,
)
from h2gcn.exceptions import InputError
from h2gcn.experiments.definition import Setting, classifier_of, flatten, nest
from h2gcn.experiments.runs import Seconds, Share, Store, check_kind, key_of
from h2gcn.graph import Graph, Split, fingerprint
from h2gcn.io import Count, shown
from h2gcn.models import ALIASES, find_model

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = [
    "OnRanking",
    "Ranked",
    "Space",
    "Trials",
    "TuneProgress",
    "check_optuna",
    "distinct",
    "rank",
    "search",
    "sum_up",
    "tune",
    "without_test",
]

RATES = {
    "learning_rate": (1e-3, 1e-1),
    "l2": (1e-7, 1e-2),
    "C": (1.0, 1e4),
}
"""Searched on a logarithmic scale."""
DROPOUT = (0.0, 0.9, 0.1)
"""From, to, step."""
AUTO = "auto"
"""The scaling of a setting that names none."""
ATTEMPTS = 50
"""Draws in a row of what was tried before, after which nothing new is expected."""


def tune(
    graph: Graph,
    model: str,
    settings: Sequence[Setting],
    splits: Sequence[Split],
    *,
    seed: int,
    store: Store,
    device: str = "auto",
    machine: Mapping[str, Any] | None = None,
    on_run: Callable[[TuneProgress], None] | None = None,
    on_ranking: OnRanking | None = None,
) -> list[Ranked]:
    """Fit a model with each of some settings on each of some splits; best first.

    The test part of a split is not looked at. A setting with a run that fails, as by
    divergence, comes last, and the others go on.

    Parameters
    ----------
    graph, model, splits, seed, store, device, machine, on_run, on_ranking
        As of `h2gcn.experiments.tuning.Trials`.
    settings
        Arguments of `NodeClassifier`, as `find_grid` gives
        them.
    """
    trials = Trials(
        graph,
        model,
        splits,
        seed=seed,
        store=store,
        device=device,
        machine=machine,
        on_run=on_run,
        on_ranking=on_ranking,
    )
    trials.begin(settings)
    return rank([trials.run(setting) for setting in settings])


def search(
    graph: Graph,
    model: str,
    settings: Sequence[Setting],
    splits: Sequence[Split],
    *,
    n_trials: int,
    seed: int,
    store: Store,
    device: str = "auto",
    machine: Mapping[str, Any] | None = None,
    on_run: Callable[[TuneProgress], None] | None = None,
    on_ranking: OnRanking | None = None,
) -> list[Ranked]:
    """Try given settings first, then what Optuna makes of the results; best first.

    The next setting follows from the seed and from what is in the store. So a search
    that was ended goes on as if it had not been, and stops at `n_trials` in all.

    Parameters
    ----------
    graph, model, splits, seed, store, device, machine, on_run, on_ranking
        As of `h2gcn.experiments.tuning.Trials`.
    settings
        Tried first; what is not searched for is as in the first of them.
    n_trials
        How many settings to try, these included. There may be fewer, where the
        model has so few, or more in the store.
    """
    check_optuna()
    trials = Trials(
        graph,
        model,
        splits,
        seed=seed,
        store=store,
        device=device,
        machine=machine,
        on_run=on_run,
        on_ranking=on_ranking,
    )
    space = Space(model, settings)
    first = list(settings[:n_trials])
    known = [record["config"] for record in store.records]
    more = distinct(s for s in known if trials.is_possible(s) and space.holds(s))
    more = [s for s in more if s not in first and trials.find(s) is not None]
    trials.begin(first + more, total=max(n_trials, len(first + more)))
    results = [trials.run(setting) for setting in first + more]
    while len(results) < n_trials:
        setting = space.propose(results, seed)
        if setting is None:
            break
        results.append(trials.run(setting))
    return rank(results)


def check_optuna() -> None:
    """Say how to install Optuna where it is not there."""
    if find_spec("optuna") is None:
        raise InputError(
            "to search beyond the grid, Optuna is needed: pip install 'h2gcn[bench]'"
        )


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Return settings without repetitions, in the order of their first places."""
    found: list[Setting] = []
    for setting in settings:
        if setting not in found:
            found.append(setting)
    return found


class Space:
    """What may be set of a model, and settings as points of it.

    Learning rate and L2 penalty, dropout, activation and width where the model has
    them, and those of its own options whose kind says what to try: an integer from
    half to twice its default, a share from 0.01 to 0.99. All reach as far as the
    settings given; the scaling of features is chosen among theirs, where they differ
    in it; and what they have besides is taken from the first.

    Parameters
    ----------
    model
        A name of `h2gcn.models.MODELS`.
    settings
        Arguments of `NodeClassifier`, at least one.
    """

    def __init__(self, model: str, settings: Sequence[Setting]) -> None:
        self._own = {"scaling": AUTO} | find_model(model).params
        self._base = flatten(settings[0])
        self._given = list(settings)
        tried = [{"scaling": AUTO} | flatten(setting) for setting in settings]
        axes = {
            name: _axis(name, default, [v[name] for v in tried if name in v])
            for name, default in self._own.items()
        }
        self.axes = {name: axis for name, axis in axes.items() if axis is not None}

    def holds(self, setting: Setting) -> bool:
        """Return whether a setting is one of those given, or a point of the space."""
        return setting in self._given or self._setting(self._point(setting)) == setting

    def propose(self, results: Sequence[Ranked], seed: int) -> Setting | None:
        """Return a setting that was not tried, or None if none can be found.

        It depends on nothing but the results, their order and the seed.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        tried = [result.setting for result in results]
        history = [
            optuna.trial.create_trial(
                params=self._point(result.setting),
                distributions=self.axes,
                # What fails is as bad as can be, and so is what lies near.
                value=result.mean or 0.0,
            )
            for result in results
        ]
        for attempt in range(ATTEMPTS):
            state = np.random.SeedSequence([seed, len(results), attempt])
            sampler = optuna.samplers.TPESampler(seed=int(state.generate_state(1)[0]))
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(history)
            setting = self._setting(study.ask(self.axes).params)
            if setting not in tried:
                return setting
        return None

    def _point(self, setting: Setting) -> dict[str, Any]:
        """Return the point of a setting, or the nearest one to it."""
        values = self._own | flatten(setting)
        return {name: _nearest(values[name], axis) for name, axis in self.axes.items()}

    def _setting(self, point: dict[str, Any]) -> Setting:
        values = {name: _short(value) for name, value in point.items()}
        if values.get("scaling") == AUTO and "scaling" not in self._base:
            del values["scaling"]  # as the settings given have it
        return nest(self._base | values)


def _axis(name: str, default: Any, tried: Sequence[Any]) -> BaseDistribution | None:
    """Return what to choose from, or None where the kind of value does not say."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    values = [default, *tried]
    if name == "scaling":
        found = list(dict.fromkeys(tried))
        return CategoricalDistribution(found) if len(found) > 1 else None
    if name in RATES:
        positive = [*RATES[name], *(value for value in values if value > 0)]
        return FloatDistribution(min(positive), max(positive), log=True)
    if name == "dropout":
        low, high, step = DROPOUT
        return FloatDistribution(low, high, step=step)
    if name == "activation":
        return CategoricalDistribution(list(dict.fromkeys(["relu", "none", *values])))
    if name == "hidden_channels":
        powers = [2**k for k in range(2, 12) if default <= 4 * 2**k <= 16 * default]
        return CategoricalDistribution(sorted({*powers, *values}))
    if isinstance(default, int) and not isinstance(default, bool) and default >= 1:
        ends = [max(1, default // 2), 2 * default, *tried]
        return IntDistribution(min(ends), max(ends))
    if isinstance(default, float) and 0 < default < 1:
        return FloatDistribution(min([0.01, *tried]), max([0.99, *tried]))
    return None


def _nearest(value: Any, axis: BaseDistribution) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(axis, FloatDistribution | IntDistribution):
        value = min(max(value, axis.low), axis.high)
        if isinstance(axis, FloatDistribution) and axis.step is not None:
            value = round(value / axis.step) * axis.step
        return value
    assert isinstance(axis, CategoricalDistribution)
    return value if value in axis.choices else axis.choices[0]


def _short(value: Any) -> Any:
    """Return three digits of a number: more do not matter, and can be read."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


# ------------------------------------------------------------------------------- trials


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
        spec = find_model(self.model).with_options(setting.get("options"))
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
        params["ring_cap"] = resolve_cap(params, self.graph)
        seed, n_classes = resolve_seed(self.seed + number), self.graph.n_classes
        schema = table_schema(params, self.graph, (params["ring_cap"], seed))
        width = input_width(params, self.graph.n_features, n_classes, schema)
        module = blank_module(params, width, n_classes)
        rings = fit_options(params, seed, module, self.graph, self.splits[number])
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
