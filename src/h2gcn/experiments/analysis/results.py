"""What an experiment leaves: its tables and figures as one object for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from h2gcn.experiments.analysis import degree_ranges as ranges
from h2gcn.experiments.analysis.cells import Cell, mark_best, measured, not_run
from h2gcn.experiments.definition import EXPERIMENTS, Experiment, Protocol, published
from h2gcn.experiments.running import Run

__all__ = ["Records", "Reported", "accuracy_table", "degree_result", "line_figures"]

Records = Mapping[str, Mapping[str, Any]]
"""The records of the store by key."""

OVERLAP = 20 / 48
"""Test nodes per training node of a real benchmark: its splits are 48/32/20 %."""
OTHER_OVERLAPS = {"cora-full": 50 / 25}
"""Of those that are split otherwise."""

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of an axis of h: the whole of it, however much was run."""

Reported = Mapping[tuple[str, str], Sequence[Run]]
"""The runs of each model and column."""


def accuracy_table(
    experiment: Experiment,
    protocol: Protocol,
    reported: Reported,
    records: Records,
) -> dict[str, Any]:
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
        column: {
            model: _cell(experiment, model, column, reported, records)
            for model in experiment.models
        }
        for column in experiment.columns
    }
    for cells in columns.values():
        mark_best(cells)
    rows = [
        {"name": model, "cells": [columns[column][model] for column in columns]}
        for model in experiment.models
    ]
    return {
        "name": experiment.name,
        "title": f"{experiment.title} ({protocol.name} protocol)",
        "corner": "model",
        "columns": list(experiment.columns),
        "unit": "%",
        "decimals": 2,
        "rows": rows,
    }


def _cell(
    experiment: Experiment,
    model: str,
    column: str,
    reported: Reported,
    records: Records,
) -> Cell:
    paper = published(experiment.paper, model, column)
    runs = reported.get((model, column), ())
    done = [run for run in runs if _done(records.get(run.key))]
    if not done:
        return not_run(paper)
    note = "" if len(done) == len(runs) else f"{len(done)} of {len(runs)} runs"
    values = [records[run.key]["test_accuracy"] for run in done]
    overlap = 0.0 if experiment.synthetic else OTHER_OVERLAPS.get(column, OVERLAP)
    return measured(values, [_name(run) for run in done], paper, note, overlap)


def line_figures(
    experiment: Experiment, table: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the figures of an experiment over h, out of its table."""
    rows = {row["name"]: row["cells"] for row in table["rows"]}
    return [
        {
            "name": name,
            "title": title,
            "x_label": "edge homophily ratio h",
            "x_ticks": list(TICKS),
            "y_label": "test accuracy (%)",
            "series": [
                _series(model, table["columns"], rows[model]) for model in models
            ],
        }
        for name, (title, models) in experiment.figures.items()
    ]


def _series(
    model: str, columns: Sequence[str], cells: Sequence[Cell]
) -> dict[str, Any]:
    there = [
        (h, cell)
        for h, cell in zip(columns, cells, strict=True)
        if cell["mean"] is not None
    ]
    return {
        "name": model,
        "x": [float(h) for h, _ in there],
        "mean": [cell["mean"] for _, cell in there],
        "std": [cell["std"] for _, cell in there],
        "runs": [cell["values"] for _, cell in there],
        "paper": [
            None if cell["paper"] is None else cell["paper"]["mean"]
            for _, cell in there
        ],
    }


def degree_result(
    protocol: Protocol, reported: Reported, records: Records
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the table and the figure of accuracy by degree, a row a model and h.

    Ranges with few test nodes are merged; the notes of the table tell the gap between
    the highest and the lowest.
    """
    experiment = EXPERIMENTS["degree"]
    counted = {
        key: {
            _name(run): records[run.key]["by_degree"]
            for run in runs
            if _done(records.get(run.key))
        }
        for key, runs in sorted(reported.items())
    }
    merged = ranges.merge_ranges([list(runs.values()) for runs in counted.values()])
    names = [str(degrees) for degrees in merged]
    cells = {
        key: [_degree_cell(runs, degrees) for degrees in merged]
        for key, runs in counted.items()
    }
    rows: list[dict[str, Any]] = [
        {"name": f"{model}, h = {float(column):g}", "cells": cells[model, column]}
        for model, column in cells
    ]
    table = {
        "name": experiment.name,
        "title": f"{experiment.title} ({protocol.name} protocol)",
        "corner": "model \\ degree",
        "columns": names,
        "unit": "%",
        "decimals": 2,
        "rows": rows,
        "notes": ranges.gap_notes(names, cells),
    }
    figure = {
        "name": experiment.name,
        "title": experiment.title,
        "kind": "bars",
        "x_label": "degree of the node",
        "y_label": "test accuracy (%)",
        "series": [
            {
                "name": row["name"],
                "x": names,
                "mean": [cell["mean"] for cell in row["cells"]],
                "std": [cell["std"] for cell in row["cells"]],
                "runs": [cell["values"] for cell in row["cells"]],
                "paper": [None] * len(names),
            }
            for row in rows
        ],
    }
    return table, figure


def _degree_cell(runs: Mapping[str, ranges.Counts], degrees: ranges.Degrees) -> Cell:
    """Return the accuracy of the runs that have test nodes in a range."""
    counts = {name: ranges.count(run, degrees) for name, run in runs.items()}
    shares = {name: right / n for name, (n, right) in counts.items() if n}
    if not shares:
        return not_run(None)
    nodes = sum(n for n, _ in counts.values())
    note = f"{nodes:,} test nodes"
    return measured(list(shares.values()), list(shares), None, note)


def _done(record: Mapping[str, Any] | None) -> bool:
    return record is not None and record.get("test_accuracy") is not None


def _name(run: Run) -> str:
    return run.dataset if run.dataset.startswith("syn-") else f"split {run.split}"
