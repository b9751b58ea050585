"""From stored runs to cells, tables and ranks.

A cell has mean and deviation, and the paper's figure beside them; settings are chosen
on validation nodes. Tables and figures are made of cells.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from h2gcn.experiments.definition import (
    EXPERIMENTS,
    REAL,
    Experiment,
    Protocol,
    Published,
    Unit,
    published,
    published_rows,
)
from h2gcn.experiments.results import Cell, Figure, Row, Series, Table
from h2gcn.experiments.runs import Run
from h2gcn.training import mean_interval

__all__ = [
    "GROUPS",
    "REAL_COLUMNS",
    "Choices",
    "Counts",
    "Degrees",
    "NotRun",
    "Records",
    "Reported",
    "accuracy_table",
    "average_ranks",
    "choose",
    "count",
    "degree_result",
    "final_runs",
    "finished",
    "gap_notes",
    "lead",
    "line_figures",
    "mark_best",
    "measured",
    "merge_ranges",
    "not_run",
    "paired_interval",
    "pairs",
    "ranks_table",
    "real_statistics",
    "run_name",
    "selection_runs",
    "synthetic_statistics",
    "verdict",
]

Records = Mapping[str, Mapping[str, Any]]
"""The records of the store by key."""
Reported = Mapping[tuple[str, str], Sequence[Run]]
"""The runs of each model and column."""

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

    See `h2gcn.training.mean_interval`: over the graphs or splits that both were run on.

    Parameters
    ----------
    first, second
        The values, one pair a run.
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs.
    """
    return mean_interval(np.subtract(first, second), overlap)


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


# ------------------------------------------------------------- the setting of each cell

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
            _mean_score(
                [score(run) for run in _runs(experiment, units, model, setting)]
            )
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


def _mean_score(scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None]
    return float(np.mean(known)) if len(known) == len(scores) else -1.0


# ------------------------------------------------------------------------------- tables

OVERLAP = 20 / 48
"""Test nodes per training node of a real benchmark: its splits are 48/32/20 %."""
OTHER_OVERLAPS = {"cora-full": 50 / 25}
"""Of those that are split otherwise."""

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of an axis of h: the whole of it, however much was run."""


def accuracy_table(
    experiment: Experiment,
    protocol: Protocol,
    reported: Reported,
    records: Records,
) -> Table:
    """Return the table of an experiment: models by columns, the paper's beside.

    Parameters
    ----------
    experiment, protocol
        What was run; columns that the protocol leaves out are there as "not run".
    reported
        The runs of each model and column.
    records
        Those that are done.
    """
    columns = {
        column: mark_best(
            {
                model: _accuracy(experiment, model, column, reported, records)
                for model in experiment.models
            }
        )
        for column in experiment.columns
    }
    return Table(
        experiment.name,
        f"{experiment.title} ({protocol.name} protocol)",
        experiment.columns,
        tuple(
            Row(model, tuple(cells[model] for cells in columns.values()))
            for model in experiment.models
        ),
        unit="%",
    )


def _accuracy(
    experiment: Experiment,
    model: str,
    column: str,
    reported: Reported,
    records: Records,
) -> Cell:
    paper = published(experiment.paper, model, column)
    runs = reported.get((model, column), ())
    done = [run for run in runs if finished(records.get(run.key))]
    if not done:
        return not_run(paper)
    note = "" if len(done) == len(runs) else f"{len(done)} of {len(runs)} runs"
    values = [records[run.key]["test_accuracy"] for run in done]
    overlap = 0.0 if experiment.synthetic else OTHER_OVERLAPS.get(column, OVERLAP)
    return measured(values, [run_name(run) for run in done], paper, note, overlap)


def line_figures(experiment: Experiment, table: Table) -> tuple[Figure, ...]:
    """Return the figures of an experiment over h, out of its table."""
    return tuple(
        Figure(
            name,
            title,
            "edge homophily ratio h",
            "test accuracy (%)",
            tuple(_series(model, table.row(model)) for model in models),
            TICKS,
        )
        for name, (title, models) in experiment.figures.items()
    )


def _series(model: str, cells: Mapping[str, Cell]) -> Series:
    there = {h: cell for h, cell in cells.items() if cell.mean is not None}
    return Series(
        model,
        tuple(map(float, there)),
        tuple(cell.mean for cell in there.values()),
        tuple(cell.std for cell in there.values()),
        tuple(cell.values for cell in there.values()),
        tuple(
            None if cell.paper is None else cell.paper.mean for cell in there.values()
        ),
    )


# ------------------------------------------------------------------------------- ranks

GROUPS = {
    "heterophily": (
        "texas",
        "wisconsin",
        "actor",
        "squirrel",
        "chameleon",
        "cornell-2020",
    ),
    "homophily": ("citeseer", "pubmed", "cora"),
}
"""Benchmarks with h ≤ 0.3 and h ≥ 0.7; overall is over both, as the paper does it."""


def average_ranks(
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return each model's mean rank over benchmarks; 1 is best, equals share it.

    Parameters
    ----------
    scores
        The accuracy of each model on each benchmark; a benchmark counts where every
        model has a score.

    Examples
    --------
    >>> average_ranks({"a": {"cora": 0.9}, "b": {"cora": 0.8}})["b"]
    {'heterophily': nan, 'homophily': 2.0, 'overall': 2.0}
    """
    models = list(scores)
    groups = {**GROUPS, "overall": sum(GROUPS.values(), ())}
    by_benchmark = {
        benchmark: stats.rankdata([-scores[m][benchmark] for m in models], method="min")
        for benchmark in groups["overall"]
        if all(benchmark in scores[model] for model in models)
    }
    return {
        model: {
            group: _mean_rank(
                [by_benchmark[b][i] for b in benchmarks if b in by_benchmark]
            )
            for group, benchmarks in groups.items()
        }
        for i, model in enumerate(models)
    }


def ranks_table(real: Table) -> Table:
    """Return the table of average ranks, out of the table of the real benchmarks."""
    scores = {
        row.name: {
            column: cell.mean
            for column, cell in zip(real.columns, row.cells, strict=True)
            if cell.mean is not None
        }
        for row in real.rows
    }
    present = {name: row for name, row in scores.items() if row}
    ranks = average_ranks(present)
    used = [
        b
        for b in sum(GROUPS.values(), ())
        if present and all(b in row for row in present.values())
    ]
    paper = published_rows("ranks")
    columns = (*GROUPS, "overall")
    return Table(
        "ranks",
        f"Average rank of the models on {', '.join(used) or 'no benchmark'}",
        columns,
        tuple(
            Row(
                model,
                tuple(
                    _rank(ranks.get(model, {}).get(column), paper[model][column])
                    for column in columns
                ),
            )
            for model in scores
        ),
        decimals=1,
    )


def _rank(rank: float | None, paper: float) -> Cell:
    cell = not_run(Published(paper, None))
    if rank is None or np.isnan(rank):
        return cell
    # A rank is no measurement with a deviation of its own: it is shown, not judged.
    return replace(cell, mean=rank, n=1, verdict="none", difference=rank - paper)


def _mean_rank(ranks: list[float]) -> float:
    return float(np.mean(ranks)) if ranks else float("nan")


# -------------------------------------------------------------------------- statistics

Cards = Mapping[str, Mapping[str, Any] | None]
"""The card of each graph; None of one whose data are not there."""

REAL_COLUMNS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "nodes": lambda card: card["nodes"],
    # The paper counts self-loops as edges, and in h.
    "edges": lambda card: card["edges"] + card["loops_dropped"],
    "classes": lambda card: card["classes"],
    "h": lambda card: card["h_with_loops"],
    "features": lambda card: card["features"],
    "h without loops": lambda card: card["h"],
    "max degree": lambda card: card["max_degree"],
}
SYNTHETIC_COLUMNS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "nodes": lambda card: card["nodes"],
    "edges": lambda card: card["edges"],
    "classes": lambda card: card["classes"],
    "features": lambda card: card["features"],
    "h": lambda card: card["h"],
    "max degree": lambda card: card["max_degree"],
    "mean degree": lambda card: card["mean_degree"],
}


def real_statistics(cards: Cards) -> Table:
    """Return the statistics of the real benchmarks, the paper's beside them."""
    return Table(
        "statistics-real",
        "Statistics of the real benchmarks",
        tuple(REAL_COLUMNS),
        tuple(
            Row(
                dataset,
                tuple(
                    _fact(card, value, published("statistics", dataset, name))
                    for name, value in REAL_COLUMNS.items()
                ),
            )
            for dataset, card in ((name, cards.get(name)) for name in REAL)
        ),
        corner="dataset",
    )


def synthetic_statistics(cards: Cards) -> Table:
    """Return the statistics of synthetic graphs, one row each."""
    return Table(
        "statistics-synthetic",
        "Statistics of the synthetic graphs",
        tuple(SYNTHETIC_COLUMNS),
        tuple(
            Row(name, tuple(_fact(card, value) for value in SYNTHETIC_COLUMNS.values()))
            for name, card in cards.items()
        ),
        corner="graph",
    )


def _fact(
    card: Mapping[str, Any] | None,
    value: Callable[[Mapping[str, Any]], float | None],
    paper: Published | None = None,
) -> Cell:
    cell = not_run(paper)
    found = None if card is None else value(card)
    if found is None:
        return cell
    agrees = paper is not None and round(found, 2) == round(paper.mean, 2)
    return replace(
        cell,
        mean=found,
        n=1,
        verdict="within" if agrees else "none",
        difference=None if paper is None else found - paper.mean,
        note="" if agrees or paper is None else "differs from the paper",
    )


# ------------------------------------------------------------------- accuracy by degree

LEAST = 50
"""Test nodes of a range; of fewer, a share says little."""

PAPER_GAPS = {
    ("h2gcn-1", "0.20"): "13",
    ("h2gcn-2", "0.20"): "10",
    ("h2gcn-1", "0.80"): "less than 3",
    ("h2gcn-2", "0.80"): "less than 3",
}
"""Points between the ends, as the paper has them in words."""

Counts = Sequence[Sequence[int]]
"""Of a run: lowest degree, highest degree, test nodes, those predicted right."""


class Degrees(NamedTuple):
    """A range of degrees, both ends included; None is no end.

    Examples
    --------
    >>> str(Degrees(1, 1)), str(Degrees(2, 7)), str(Degrees(64, None))
    ('1', '2–7', '≥ 64')
    """

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return f"≥ {self.low}"
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


def degree_result(
    protocol: Protocol, reported: Reported, records: Records
) -> tuple[Table, Figure]:
    """Return the table and the figure of accuracy by degree, a row a model and h.

    Ranges with few test nodes are merged; the notes of the table tell the gap between
    the highest and the lowest.
    """
    experiment = EXPERIMENTS["degree"]
    counted = {
        key: {
            run_name(run): records[run.key]["by_degree"]
            for run in runs
            if finished(records.get(run.key))
        }
        for key, runs in sorted(reported.items())
    }
    merged = merge_ranges([list(runs.values()) for runs in counted.values()])
    names = tuple(map(str, merged))
    cells = {
        key: tuple(_cell_of_degrees(runs, degrees) for degrees in merged)
        for key, runs in counted.items()
    }
    rows = tuple(
        Row(f"{model}, h = {float(column):g}", cells[model, column])
        for model, column in cells
    )
    table = Table(
        experiment.name,
        f"{experiment.title} ({protocol.name} protocol)",
        names,
        rows,
        corner="model \\ degree",
        unit="%",
        notes=tuple(gap_notes(names, cells)),
    )
    figure = Figure(
        experiment.name,
        experiment.title,
        "degree of the node",
        "test accuracy (%)",
        tuple(
            Series(
                row.name,
                names,
                tuple(cell.mean for cell in row.cells),
                tuple(cell.std for cell in row.cells),
                tuple(cell.values for cell in row.cells),
                (None,) * len(names),
            )
            for row in rows
        ),
        kind="bars",
    )
    return table, figure


def _cell_of_degrees(runs: Mapping[str, Counts], degrees: Degrees) -> Cell:
    """Return the accuracy of the runs that have test nodes in a range."""
    counts = {name: count(run, degrees) for name, run in runs.items()}
    shares = {name: right / n for name, (n, right) in counts.items() if n}
    if not shares:
        return not_run(None)
    nodes = sum(n for n, _ in counts.values())
    note = f"{nodes:,} test nodes"
    return measured(list(shares.values()), list(shares), None, note)


def count(run: Counts, degrees: Degrees) -> tuple[int, int]:
    """Return the test nodes of a run in a range, and those predicted right."""
    inside = [
        (n, right)
        for low, _, n, right in run
        if degrees.low <= low and (degrees.high is None or low <= degrees.high)
    ]
    return sum(n for n, _ in inside), sum(right for _, right in inside)


def merge_ranges(rows: Sequence[Sequence[Counts]], least: int = LEAST) -> list[Degrees]:
    """Merge neighbouring ranges until each holds enough test nodes in every row.

    Parameters
    ----------
    rows
        The counts of each run of each row; a row without runs does not count.
    least
        Test nodes that a range must hold, summed over the runs of a row. Only a
        single range may hold fewer.

    Examples
    --------
    >>> run = [(1, 1, 90, 9), (2, 3, 60, 9), (4, 7, 40, 9), (8, 15, 30, 9)]
    >>> [str(degrees) for degrees in merge_ranges([[run]])]
    ['1', '2–3', '≥ 4']
    """
    found = sorted(
        {(low, high) for runs in rows for run in runs for low, high, *_ in run}
    )
    parts: list[list[tuple[int, int]]] = []
    # From the top, where nodes are few; what is left over at the low end goes upwards.
    for degrees in reversed(found):
        if parts and _fewest(rows, parts[0]) < least:
            parts[0].insert(0, degrees)
        else:
            parts.insert(0, [degrees])
    if len(parts) > 1 and _fewest(rows, parts[0]) < least:
        parts[:2] = [parts[0] + parts[1]]
    merged = [Degrees(part[0][0], part[-1][1]) for part in parts]
    if parts and len(parts[-1]) > 1:
        merged[-1] = Degrees(merged[-1].low, None)
    return merged


def gap_notes(
    names: Sequence[str], rows: Mapping[tuple[str, str], Sequence[Cell]]
) -> list[str]:
    """Return how far apart the ends of the table are, a sentence a model.

    Parameters
    ----------
    names
        Of the ranges.
    rows
        The cells of each model and h.
    """
    if len(names) < 2:
        few = f"Too few test nodes for two ranges of degrees, {LEAST} in each."
        return [few] if names else []
    said = []
    for model, keys in groupby(rows, key=lambda key: key[0]):
        gaps = [gap for key in keys for gap in _gap(key, rows[key])]
        if gaps:
            said.append(
                f"{model}, accuracy at degree {names[-1]} less that at {names[0]}: "
                f"{'; '.join(gaps)}."
            )
    return said


def _gap(key: tuple[str, str], cells: Sequence[Cell]) -> Iterator[str]:
    low, high = cells[0].mean, cells[-1].mean
    if low is None or high is None:
        return
    paper = f" (the paper: {PAPER_GAPS[key]})" if key in PAPER_GAPS else ""
    points = f"{high - low:z.1f}".replace("-", "−")
    yield f"{points} points at h = {float(key[1]):g}{paper}"


def _fewest(rows: Sequence[Sequence[Counts]], part: Sequence[tuple[int, int]]) -> int:
    degrees = Degrees(part[0][0], part[-1][1])
    return min(sum(count(run, degrees)[0] for run in runs) for runs in rows if runs)
