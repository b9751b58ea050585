"""Cells of a table: settings chosen, mean and deviation, the paper beside them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from h2gcn.experiments.definition import Experiment, Protocol, Published, Unit
from h2gcn.experiments.results import Cell
from h2gcn.experiments.running import Run

__all__ = [
    "Choices",
    "NotRun",
    "Records",
    "Reported",
    "choose",
    "final_runs",
    "finished",
    "lead",
    "mark_best",
    "measured",
    "not_run",
    "paired_interval",
    "pairs",
    "run_name",
    "selection_runs",
    "verdict",
]

Records = Mapping[str, Mapping[str, Any]]
"""The records of the store by key."""
Reported = Mapping[tuple[str, str], Sequence[Run]]
"""The runs of each model and column."""

CONFIDENCE = 0.95
ROUNDING = 0.005
"""Half of the last decimal of the paper's figures."""


def measured(
    values: Sequence[float],
    runs: Sequence[str],
    paper: Published | None,
    note: str = "",
    overlap: float = 0.0,
) -> Cell:
    """Return the cell of some runs, in percent.

    Parameters
    ----------
    values
        The test accuracy of each run, fractions of 1.
    runs
        What each run was on, for whoever asks.
    paper
        The paper's figure.
    note
        What must be said of this cell.
    overlap
        As of `paired_interval`.
    """
    percent = [100 * value for value in values]
    mean = float(np.mean(percent))
    std = float(np.std(percent, ddof=1)) if len(percent) > 1 else None
    return Cell(
        mean,
        std,
        len(percent),
        tuple(percent),
        tuple(runs),
        paper,
        verdict(mean, paper, std),
        None if paper is None else mean - paper.mean,
        note=note,
        overlap=overlap,
    )


def not_run(paper: Published | None, note: str = "") -> Cell:
    """Return the cell of what was not run."""
    return Cell(paper=paper, verdict="not run", note=note, overlap=0.0)


def verdict(mean: float, paper: Published | None, std: float | None = None) -> str:
    """Return "better", "within" (one standard deviation), "worse" or "none".

    Parameters
    ----------
    mean
        Ours.
    paper
        The paper's figure; its deviation is the measure.
    std
        Our deviation, the measure where the paper gives none, or 0.00. Without either,
        only what rounds to the paper's figure is within.

    Examples
    --------
    >>> verdict(99.9, Published(100.0, 0.0)), verdict(99.9, Published(100.0, 0.0), 0.2)
    ('worse', 'within')
    """
    if paper is None:
        return "none"
    difference = mean - paper.mean
    if abs(difference) <= (paper.std or std or 0.0) + ROUNDING:
        return "within"
    return "better" if difference > 0 else "worse"


def paired_interval(
    first: Sequence[float], second: Sequence[float], overlap: float = 0.0
) -> tuple[float, float]:
    """Return the confidence interval of the mean of paired differences.

    Student's t over the graphs or splits that both were run on; without at least two
    pairs it is unbounded. Splits of one graph share most of their training nodes, so
    their differences vary less than those of new data would; Nadeau and Bengio
    (Machine Learning 52, 2003) add `overlap` to 1 / n for it.

    Parameters
    ----------
    first, second
        The values, one pair a run.
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs.
    """
    differences = np.subtract(first, second)
    n = differences.size
    if n < 2:
        return -math.inf, math.inf
    error = float(differences.std(ddof=1)) * math.sqrt(1 / n + overlap)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    mean = float(differences.mean())
    return mean - reach, mean + reach


def pairs(first: Cell, second: Cell) -> tuple[list[float], list[float]]:
    """Return the values of two cells on the runs that both have."""
    one = dict(zip(first.runs, first.values, strict=True))
    two = dict(zip(second.runs, second.values, strict=True))
    both = [run for run in one if run in two]
    return [one[run] for run in both], [two[run] for run in both]


def lead(first: Cell, second: Cell) -> tuple[float, float]:
    """Return the interval of a cell's lead over another, on the runs of both."""
    return paired_interval(*pairs(first, second), first.overlap or 0.0)


def mark_best(column: Mapping[str, Cell]) -> dict[str, Cell]:
    """Set each cell against the best other one, and mark the leader of a column.

    The leader is marked if all models have the same runs, and its lead over every one
    is beyond the noise: the runner-up by mean may be behind for certain, and another
    one, less steady, not. Its note tells the interval of its lead, whatever it is.

    Parameters
    ----------
    column
        The cells by model.

    Returns
    -------
    dict
        The cells with `against`, the best other model with the same runs, and
        `interval`, that of the difference to that one; both may be None.
    """
    means = {n: cell.mean for n, cell in column.items() if cell.mean is not None}
    done = {name: _set_against(name, column, means) for name in means}
    if not done:
        return dict(column)
    name = max(means, key=means.__getitem__)
    first = done[name]
    if first.interval is not None:
        peers = _peers(name, done)
        best = len(peers) + 1 == len(column) and all(
            lead(first, peer)[0] > 0 for peer in peers.values()
        )
        low, high = first.interval
        told = f"ahead of {first.against} by {low:.1f} to {high:.1f} (95 %, paired)"
        note = f"{first.note}; {told}" if first.note else told
        done[name] = replace(first, best=best, note=note)
    return {**column, **done}


def finished(record: Mapping[str, Any] | None) -> bool:
    """Return whether a run is there and did not fail."""
    return record is not None and record.get("test_accuracy") is not None


def run_name(run: Run) -> str:
    """Return what a run was on: a synthetic graph, or a split of a real one."""
    return run.dataset if run.dataset.startswith("syn-") else f"split {run.split}"


def _set_against(
    name: str, column: Mapping[str, Cell], means: Mapping[str, float]
) -> Cell:
    """Return a cell with the best of its peers, and its lead over that one."""
    cell = column[name]
    peers = _peers(name, {other: column[other] for other in means})
    if not peers:
        return cell
    against = max(peers, key=means.__getitem__)
    interval = None if len(cell.values) < 2 else lead(cell, peers[against])
    return replace(cell, against=against, interval=interval)


def _peers(name: str, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the other cells with the same runs; others cannot be paired."""
    runs = cells[name].runs
    return {
        other: cell
        for other, cell in cells.items()
        if other != name and runs and cell.runs == runs
    }


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
