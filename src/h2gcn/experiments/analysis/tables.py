"""Tables and figures out of cells: accuracies, average ranks, statistics of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from h2gcn.experiments.analysis.cells import (
    Records,
    Reported,
    finished,
    mark_best,
    measured,
    not_run,
    run_name,
)
from h2gcn.experiments.definition import (
    REAL,
    Experiment,
    Protocol,
    Published,
    published,
    published_rows,
)
from h2gcn.experiments.results import Cell, Figure, Row, Series, Table

__all__ = [
    *("GROUPS", "REAL_COLUMNS", "accuracy_table", "average_ranks", "line_figures"),
    *("ranks_table", "real_statistics", "synthetic_statistics"),
]

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
        benchmark: rankdata([-scores[m][benchmark] for m in models], method="min")
        for benchmark in groups["overall"]
        if all(benchmark in scores[model] for model in models)
    }
    return {
        model: {
            group: _mean([by_benchmark[b][i] for b in benchmarks if b in by_benchmark])
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


def _mean(ranks: list[float]) -> float:
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
