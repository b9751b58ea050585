"""An experiment out of its store alone: no data files, and nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from h2gcn.experiments.analysis import (
    Choices,
    NotRun,
    choose,
    final_runs,
    ranks_table,
    results,
)
from h2gcn.experiments.definition import EXPERIMENTS, Experiment, Protocol
from h2gcn.experiments.running import Run

__all__ = ["stored_result"]

Records = Mapping[str, Mapping[str, Any]]


def stored_result(
    name: str, protocol: Protocol, records: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return table and figures of an experiment, out of finished runs.

    A cell counts when all of its runs are there; else it is "not run", for the mean of
    some splits is not the one of all.

    Parameters
    ----------
    name
        Of an experiment that trains models, or "ranks".
    protocol
        The one that the runs were made with.
    records
        Those of a store; of two with the same key the later one counts.

    Returns
    -------
    dict
        `title`, `tables`, `figures` and `settings` as in `result.json`; `synthetic`,
        the graphs that the runs are on.
    """
    found = {record["key"]: record for record in records}
    if name == "ranks":
        real = stored_result("real", protocol, found.values())
        table = ranks_table(_run_by_all(real["tables"][0]))
        return real | {"tables": [table], "figures": []}
    experiment = _as_stored(EXPERIMENTS[name], found)
    cells = final_runs(
        experiment,
        protocol,
        experiment.shown(protocol),
        _choices(experiment, protocol, found),
    )
    whole = {
        key: runs
        for key, runs in cells.items()
        if all(_accuracy(found.get(run.key)) is not None for run in runs)
    }
    if name == "degree":
        table, figure = results.degree_result(protocol, whole, found)
        figures = [figure]
    else:
        table = results.accuracy_table(experiment, protocol, whole, found)
        figures = results.line_figures(experiment, table)
    return {
        "title": experiment.title,
        "tables": [table],
        "figures": figures,
        "settings": [
            {"model": model, "column": column, "config": dict(runs[0].config)}
            for (model, column), runs in whole.items()
        ],
        "synthetic": experiment.synthetic,
    }


def _run_by_all(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without the columns that some row lacks: those have no ranks."""
    rows = table["rows"]
    kept = [
        i
        for i in range(len(table["columns"]))
        if all(row["cells"][i]["mean"] is not None for row in rows)
    ]
    return {
        **table,
        "columns": [table["columns"][i] for i in kept],
        "rows": [{**row, "cells": [row["cells"][i] for i in kept]} for row in rows],
    }


def _accuracy(record: Mapping[str, Any] | None) -> float | None:
    return None if record is None else record.get("test_accuracy")


def _as_stored(experiment: Experiment, records: Records) -> Experiment:
    """Return the experiment on the graphs that the store has runs on.

    syn-products has two kinds of features; the store says which were at hand.
    """
    ogb = "syn-products-ogb"
    if experiment.synthetic == "syn-products" and any(
        record["dataset"].startswith(f"{ogb}/") for record in records.values()
    ):
        return replace(experiment, synthetic=ogb)
    return experiment


def _choices(experiment: Experiment, protocol: Protocol, records: Records) -> Choices:
    def score(run: Run) -> float | None:
        if run.key not in records:
            raise NotRun
        found: float | None = records[run.key]["val_accuracy"]
        return found

    columns = experiment.shown(protocol)
    if experiment.synthetic:
        chooser = experiment.chooser()
        together = list(dict.fromkeys((*chooser.shown(protocol), *columns)))
        return choose(chooser, protocol, together, score)
    choices: Choices = {}
    for column in columns:
        choices |= choose(experiment, protocol, [column], score)
    return choices
