"""An experiment from nothing: choose settings, run what is missing, sum it up."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from os import cpu_count
from typing import Any

from h2gcn import __version__
from h2gcn.card import graph_card
from h2gcn.experiments import results
from h2gcn.experiments.definitions import EXPERIMENTS, Experiment
from h2gcn.experiments.graphs import MissingData, has_products, open_graph
from h2gcn.experiments.plan import Run
from h2gcn.experiments.protocols import Protocol
from h2gcn.experiments.ranks import ranks_table
from h2gcn.experiments.selection import choose, final_runs, selection_runs
from h2gcn.experiments.statistics import (
    REAL_COLUMNS,
    real_statistics,
    synthetic_names,
    synthetic_statistics,
)
from h2gcn.experiments.store import Store
from h2gcn.homophily import compatibility_matrix

__all__ = ["Execute", "environment", "reproduce"]

Execute = Callable[[Sequence[Run]], None]
"""Runs what is missing of some runs, and puts it into the store."""

Result = dict[str, Any]

PRODUCTS = "The features are those of ogbn-products."
GAUSSIANS = (
    "The features of ogbn-products are not at hand: the graphs have class-conditional "
    "Gaussian features whose separation gives the MLP the paper's accuracy."
)


def reproduce(name: str, protocol: Protocol, store: Store, execute: Execute) -> Result:
    """Return the result of an experiment, as `result.json` holds it.

    Parameters
    ----------
    name
        Of one experiment.
    protocol
        How thoroughly.
    store
        Holds the runs.
    execute
        Brings runs into the store.
    """
    if name == "theory":
        from h2gcn.experiments.theory_result import theory_result

        made = theory_result(protocol.name)
    elif name == "statistics":
        made = _statistics(protocol)
    elif name == "ranks":
        made = _ranks(protocol, store, execute)
    else:
        made = _trained(EXPERIMENTS[name], protocol, store, execute)
    return {
        "experiment": name,
        "protocol": protocol.name,
        "version": __version__,
        "environment": environment(),
        "notes": [],
        "figures": [],
        "cards": {},
        "not_run": [],
        "failed": [],
        **made,
    }


def environment() -> dict[str, str]:
    """Return what the figures may depend on."""
    packages = ("torch", "numpy", "scipy", "python-graphblas", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": platform.platform(terse=True),
        "cores": str(cpu_count()),
    }


def _trained(
    experiment: Experiment, protocol: Protocol, store: Store, execute: Execute
) -> Result:
    experiment = _at_hand(experiment, protocol)
    columns, cards, missing = _open(experiment, protocol)
    execute(selection_runs(experiment, protocol, columns))
    score = partial(_val_accuracy, store)
    choices = choose(experiment, protocol, columns, score)
    reported = final_runs(experiment, protocol, columns, choices)
    runs = [run for of_cell in reported.values() for run in of_cell]
    execute(runs)
    _select(store, runs)
    records = {record["key"]: record for record in store.records}
    result: Result = {
        "title": experiment.title,
        "notes": _notes(experiment, protocol),
        "cards": cards,
        "not_run": missing,
        "failed": [_failure(records[run.key]) for run in runs if _failed(records, run)],
        "settings": [
            {"model": model, "column": column, "config": config}
            for (model, column), config in choices.items()
        ],
    }
    if experiment.name == "degree":
        table, figure = results.degree_result(protocol, reported, records)
        return result | {"tables": [table], "figures": [figure]}
    table = results.accuracy_table(experiment, protocol, reported, records)
    return result | {
        "tables": [table],
        "figures": results.line_figures(experiment, table),
    }


def _ranks(protocol: Protocol, store: Store, execute: Execute) -> Result:
    real = _trained(EXPERIMENTS["real"], protocol, store, execute)
    return {
        "title": "Average rank of the models on real benchmarks",
        "notes": [
            "Heterophily: h ≤ 0.3; homophily: h ≥ 0.7. The benchmark of cornell is the "
            "one of 2020. Only benchmarks that all models were run on count.",
            *real["notes"],
        ],
        "tables": [ranks_table(real["tables"][0])],
        "not_run": real["not_run"],
    }


def _statistics(protocol: Protocol) -> Result:
    real: dict[str, Any] = {}
    synthetic: dict[str, Any] = {}
    missing: list[str] = []
    names = dict.fromkeys(EXPERIMENTS["real"].columns, real)
    names |= dict.fromkeys(synthetic_names(protocol), synthetic)
    for name, cards in names.items():
        card, reason = _card(name)
        cards[name] = card
        missing += [reason] if reason else []
    return {
        "title": "Statistics of the benchmarks",
        "notes": [
            "The paper counts self-loops as edges, and swaps the numbers of classes of "
            "Cora (7) and Citeseer (6)."
        ],
        "tables": [real_statistics(real), synthetic_statistics(synthetic)],
        "cards": {n: c for n, c in (real | synthetic).items() if c is not None},
        "not_run": missing,
        "columns": list(REAL_COLUMNS),
    }


def _at_hand(experiment: Experiment, protocol: Protocol) -> Experiment:
    """Take graphs of our generator where the authors' are not there."""
    if experiment.synthetic != "syn-cora":
        return experiment
    first = experiment.units(experiment.columns[0], protocol)[0][0]
    try:
        open_graph(first)
    except MissingData:
        return replace(experiment, synthetic="syn-cora-own")
    return experiment


def _open(
    experiment: Experiment, protocol: Protocol
) -> tuple[list[str], dict[str, Any], list[str]]:
    """Return the columns whose data are there, their cards, and what is missing."""
    columns, cards, missing = [], {}, []
    shown = experiment.shown(protocol)
    for column in shown:
        name = experiment.units(column, protocol)[0][0]
        card, reason = _card(name)
        if card is None:
            missing.append(reason)
            continue
        columns.append(column)
        cards[name] = card
    left = [column for column in experiment.columns if column not in shown]
    if left:
        missing.append(f"{', '.join(left)}: not part of the {protocol.name} protocol")
    return columns, cards, missing


def _card(name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a graph's card with its compatibility matrix, or why there is none."""
    try:
        graph = open_graph(name)
    except MissingData as error:
        return None, str(error)
    matrix = compatibility_matrix(graph)
    card = dict(graph_card(graph))
    card["class_names"] = [str(label) for label in graph.classes]
    # A class without neighbours has a row without values, which JSON cannot hold.
    card["compatibility"] = [
        [None if value != value else round(float(value), 4) for value in row]
        for row in matrix
    ]
    return card, ""


def _notes(experiment: Experiment, protocol: Protocol) -> list[str]:
    notes = [f"Protocol {protocol.name}: {protocol.summary}."]
    if experiment.synthetic == "syn-cora":
        notes.append("The graphs are the authors' own.")
    if experiment.synthetic == "syn-cora-own":
        notes.append("The graphs are of our generator, with Cora's features.")
    if experiment.synthetic == "syn-products":
        notes.append(PRODUCTS if has_products() else GAUSSIANS)
    if experiment.synthetic == "syn-products" and "mixhop" in experiment.models:
        notes.append(
            "MixHop's program made every non-zero feature 1, which explains its low "
            "figures in the paper; ours takes features as they are."
        )
    if not experiment.synthetic:
        notes.append(
            "The paper copies Geom-GCN's figures from its own paper, without deviation."
        )
    return notes


def _val_accuracy(store: Store, run: Run) -> float | None:
    score: float | None = store[run.key]["val_accuracy"] if run.key in store else None
    return score


def _select(store: Store, runs: Sequence[Run]) -> None:
    """Say in the store which runs a table reports."""
    for run in runs:
        if run.key in store and not store[run.key].get("selected"):
            record = {k: v for k, v in store[run.key].items() if k != "format"}
            store.append(record | {"selected": True})


def _failed(records: results.Records, run: Run) -> bool:
    return run.key in records and records[run.key].get("error") is not None


def _failure(record: Any) -> dict[str, Any]:
    last = str(record["error"]).strip().splitlines()[-1]
    kept = {name: record[name] for name in ("key", "dataset", "model", "split")}
    return kept | {"error": last}
