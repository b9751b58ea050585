"""Settings of a model, ranked on validation nodes: a grid, or a search beyond it.

The search proposes by Optuna's sampler, and keeps its trials in our own store. Optuna's
storage would not go on to the bit: the sampler's random state is not in it, a trial
that was killed stays "running", and it knows nothing of the single splits of a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from h2gcn.exceptions import InputError
from h2gcn.experiments.definition import Setting, flatten, nest
from h2gcn.experiments.running import Store
from h2gcn.experiments.tuning.trials import (
    OnRanking,
    Ranked,
    Trials,
    TuneProgress,
    rank,
)
from h2gcn.graph import Graph, Split
from h2gcn.models import find_model

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Space", "check_optuna", "distinct", "rank", "search", "tune"]

RATES = {
    "learning_rate": (1e-3, 1e-1),
    "l2": (1e-7, 1e-2),
    "strength": (1e-2, 1e2),
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
        As of `h2gcn.experiments.tuning.trials.Trials`.
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
        As of `h2gcn.experiments.tuning.trials.Trials`.
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
            "to search beyond the grid, Optuna is needed: pip install 'h2gcn[tune]'"
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
        self._own = {"scaling": AUTO} | find_model(model).settings
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
