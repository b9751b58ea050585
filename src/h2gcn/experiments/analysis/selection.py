"""Which setting a model is reported with, by its scores on validation nodes alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from h2gcn.experiments.definition import Experiment, Protocol, Unit
from h2gcn.experiments.running import Run

__all__ = ["Choices", "NotRun", "choose", "final_runs", "selection_runs"]

Choices = dict[tuple[str, str], dict[str, Any]]
"""The setting of each model and column."""

Score = Callable[[Run], float | None]
"""The validation score of a run, None where it failed; raises `NotRun`."""


class NotRun(Exception):
    """A run that the choice depends on has not been run."""


def selection_runs(
    experiment: Experiment, protocol: Protocol, columns: Iterable[str]
) -> list[Run]:
    """Return the runs that the choice is made by; none where there is no choice."""
    return [
        run
        for column in columns
        for model in experiment.models
        for setting in _settings(experiment, protocol, column, model, only_choices=True)
        for run in _runs(
            experiment, _judged(experiment, protocol, column), model, setting
        )
    ]


def choose(
    experiment: Experiment, protocol: Protocol, columns: Sequence[str], score: Score
) -> Choices:
    """Return the best setting of each model in each column.

    On a real benchmark it is the one with the best mean over its splits; on a
    synthetic one the paper takes one setting for all values of h: the one that is best
    for most of them. A setting with a run that failed is not chosen; where all have
    one, the first is. Where runs are still missing, nothing is chosen.

    Parameters
    ----------
    experiment, protocol, columns
        What is run.
    score
        Gives the validation score of a run; raises `NotRun` where it was not run.
    """
    choices: Choices = {}
    for model in experiment.models:
        with suppress(NotRun):
            best = _best(experiment, protocol, columns, model, score)
            choices |= {(model, column): setting for column, setting in best.items()}
    return choices


def _best(
    experiment: Experiment,
    protocol: Protocol,
    columns: Sequence[str],
    model: str,
    score: Score,
) -> dict[str, dict[str, Any]]:
    """Return a model's best setting in each column."""
    best: dict[str, dict[str, Any]] = {}
    for column in columns:
        settings = _settings(experiment, protocol, column, model)
        units = _judged(experiment, protocol, column)
        means = [
            _mean([score(run) for run in _runs(experiment, units, model, setting)])
            if len(settings) > 1
            else 0.0
            for setting in settings
        ]
        best[column] = settings[int(np.argmax(means))]
    if not experiment.synthetic or not best:
        return best
    counted = Counter(json.dumps(setting) for setting in best.values())
    winner = json.loads(counted.most_common(1)[0][0])
    return dict.fromkeys(best, winner)


def final_runs(
    experiment: Experiment, protocol: Protocol, columns: Iterable[str], choices: Choices
) -> dict[tuple[str, str], list[Run]]:
    """Return the runs that the table reports, by model and column."""
    return {
        (model, column): _runs(
            experiment,
            experiment.units(column, protocol),
            model,
            choices[model, column],
        )
        for column in columns
        for model in experiment.models
        if (model, column) in choices
    }


def _settings(
    experiment: Experiment,
    protocol: Protocol,
    column: str,
    model: str,
    *,
    only_choices: bool = False,
) -> list[dict[str, Any]]:
    dataset = experiment.units(column, protocol)[0][0]
    settings = protocol.settings(dataset, model)
    return [] if only_choices and len(settings) < 2 else settings


def _judged(experiment: Experiment, protocol: Protocol, column: str) -> list[Unit]:
    units = experiment.units(column, protocol)
    if experiment.synthetic:
        return units
    return units[: protocol.judged_on.get(column, protocol.judged)]


def _runs(
    experiment: Experiment,
    units: Iterable[Unit],
    model: str,
    setting: Mapping[str, Any],
) -> list[Run]:
    return [
        Run(experiment.name, dataset, model, setting, split) for dataset, split in units
    ]


def _mean(scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None]
    return float(np.mean(known)) if len(known) == len(scores) else -1.0
