"""What is run: benchmarks, splits, and the seconds that `auto` has on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from h2gcn._validation import nearest
from h2gcn.auto import default_time_limit
from h2gcn.datasets import DATASETS
from h2gcn.estimator import AUTO
from h2gcn.exceptions import InputError
from h2gcn.experiments.running import MissingData, Run, find_checksum, open_graph
from h2gcn.graph import Graph

__all__ = [
    "BENCHMARKS",
    "FRONTIER",
    "N_SPLITS",
    "find_time_limit",
    "on_hand",
    "plan_splits",
]

FRONTIER = "frontier"
"""How the experiment is called."""
BENCHMARKS = (
    *("texas", "wisconsin", "cornell-2020", "chameleon", "cora", "citeseer", "actor"),
    *("minesweeper", "squirrel", "pubmed", "tolokers"),
)
"""The small graphs first."""
N_SPLITS = 10
TIME_LIMITS = {"minesweeper": 600.0, "squirrel": 400.0}
"""Seconds where it takes more than the size of the graph would tell."""


def plan_splits(
    only: Sequence[str] | None = None, splits: Sequence[int] | None = None
) -> list[Run]:
    """Return the runs, benchmark by benchmark.

    What a split is run with besides, such as the time limit, is not part of its key: a
    split that is in the store is not run again.

    Parameters
    ----------
    only
        Benchmarks; None is all.
    splits
        Their numbers; None is all ten.
    """
    for name in only or ():
        if name not in BENCHMARKS:
            raise InputError(
                f"only={[name]}: no benchmark of {FRONTIER}.{nearest(name, BENCHMARKS)}"
                f" Benchmarks: {', '.join(BENCHMARKS)}."
            )
    for number in splits or ():
        if not 0 <= number < N_SPLITS:
            raise InputError(f"splits={[number]}: they are 0 to {N_SPLITS - 1}")
    numbers = range(N_SPLITS) if splits is None else sorted({*splits})
    return [
        Run(FRONTIER, name, AUTO, {"metric": DATASETS[name].metric}, number)
        for name in BENCHMARKS
        if only is None or name in only
        for number in numbers
    ]


def on_hand(
    runs: Sequence[Run], records: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Run], list[str]]:
    """Return the runs whose files are there, and why the others are not run.

    Benchmarks that are done are not opened.

    Parameters
    ----------
    runs
        Of `plan_splits`.
    records
        Of the store, by key. Those on another graph of the same name are refused.
    """
    reasons: dict[str, str] = {}
    done = {key for key, record in records.items() if not record.get("error")}
    for name in dict.fromkeys(run.dataset for run in runs if run.key not in done):
        try:
            open_graph(name)
        except MissingData as error:
            reasons[name] = str(error)
            continue
        here = find_checksum(name)
        for record in records.values():
            if record["dataset"] == name and record.get("checksum", here) != here:
                raise InputError(
                    f"the splits of {name} in the store are of a graph with the "
                    f"checksum {record['checksum']}, and the one at hand has {here}; "
                    "another out=…, or the files of then."
                )
    return [run for run in runs if run.dataset not in reasons], list(reasons.values())


def find_time_limit(graph: Graph, asked: float | None) -> float:
    """Return the seconds that `auto` has on a split.

    Parameters
    ----------
    graph
        A benchmark.
    asked
        What was asked for; None is what the benchmark needs.
    """
    if asked is not None:
        return asked
    return TIME_LIMITS.get(graph.name, default_time_limit(graph))
