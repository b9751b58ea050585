"""One experiment from its definition to its result: run, or out of its store alone."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from os import cpu_count
from typing import Any

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments.analysis import (
    Choices,
    NotRun,
    Records,
    Reported,
    accuracy_table,
    choose,
    degree_result,
    final_runs,
    line_figures,
    ranks_table,
    real_statistics,
    selection_runs,
    synthetic_statistics,
)
from h2gcn.experiments.definition import EXPERIMENTS, Experiment, Protocol
from h2gcn.experiments.results import Figure, Result, Row, Table
from h2gcn.experiments.runs import (
    Available,
    Run,
    RunJson,
    Store,
    available_columns,
    card_of,
    check_kind,
    on_available_graphs,
)

__all__ = ["check_records", "environment", "reproduce", "stored_result"]

Execute = Callable[[Sequence[Run]], None]
"""Runs what is missing of some runs, and puts it into the store."""

OGB = "The features are those of ogbn-products."
NO_OGB = (
    "The features of ogbn-products are not in $H2GCN_DATA/ogbn_products/raw (OGB's "
    "package puts them there): the graphs have "
)
MANY_KINDS = (
    f"{NO_OGB}features of twenty Gaussians a class, as far apart as gives the MLP "
    "about the paper's accuracy."
)
GAUSSIANS = (
    f"{NO_OGB}class-conditional Gaussian features whose separation gives the MLP the "
    "paper's accuracy."
)
STAND_INS = ("syn-products-ogb", "syn-products-kinds", "syn-products")
"""The families of syn-products, the ones that are nearest to the paper's first."""


def reproduce(
    name: str,
    protocol: Protocol,
    store: Store,
    execute: Execute,
    on_result: Callable[[Result], object] = lambda _: None,
    left_out: Collection[str] = (),
) -> Result:
    """Run an experiment and return its result.

    After each column `on_result` gets the result so far: an experiment of hours that
    is stopped leaves the columns that it finished.

    Parameters
    ----------
    name
        Of one experiment.
    protocol
        How thoroughly.
    store
        Holds the runs.
    execute
        Brings runs into the store; one that does nothing sums up what is there.
    on_result
        Called after each column.
    left_out
        Graphs that are neither opened nor run.
    """
    if name == "theory":
        from h2gcn.experiments.theorems import theory_result

        made = theory_result(protocol.name)
        return replace(made, version=__version__, environment=environment())
    if name == "statistics":
        return _statistics(protocol, left_out)
    if name == "ranks":
        experiment = EXPERIMENTS["real"]
        return _ranks(_run(experiment, protocol, store, execute, left_out=left_out))
    return _run(EXPERIMENTS[name], protocol, store, execute, on_result, left_out)


def stored_result(
    name: str,
    protocol: Protocol,
    records: Iterable[Mapping[str, Any]],
    family: str | None = None,
) -> Result:
    """Return tables and figures of an experiment, out of finished runs.

    No data files are needed, and nothing is run. A cell counts when all of its runs
    are there; else it is "not run", for the mean of some splits is not the one of all.

    Parameters
    ----------
    name
        Of an experiment that trains models, or "ranks".
    protocol
        The one that the runs were made with.
    records
        Those of a store; of two with the same key the later one counts.
    family
        Of an experiment on syn-products, which of `STAND_INS` its graphs are of; by
        default the first that the store has runs on.
    """
    found = {record["key"]: record for record in records}
    if name == "ranks":
        real = stored_result("real", protocol, found.values())
        table = ranks_table(_run_by_all(real.tables[0]))
        return replace(real, experiment=name, tables=(table,), figures=())
    experiment = _on_stored_graphs(EXPERIMENTS[name], found, family)
    walked = _walk(experiment, protocol, experiment.shown(protocol), found)
    whole = {
        key: runs
        for key, runs in walked.reported.items()
        if all(found.get(run.key, {}).get("test_accuracy") is not None for run in runs)
    }
    table, figures = _table_and_figures(experiment, protocol, whole, found)
    return Result(
        name,
        experiment.title,
        protocol.name,
        tables=(table,),
        figures=figures,
        settings=_settings(whole, walked.choices),
    )


def check_records(store: Store) -> None:
    """Refuse a store whose records are not of runs, or of two graphs of one name."""
    check_kind(RunJson, store.path, store.records)
    graph_checksums(store, store.records)


def environment() -> dict[str, str]:
    """Return what the figures may depend on."""
    packages = ("torch", "numpy", "scipy", "numba", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": str(cpu_count()),
    }


# ---------------------------------------------------------------------------- the walk


@dataclass
class _Walked:
    """What was chosen and run: settings, the runs of each cell, those they were by."""

    choices: Choices = field(default_factory=dict)
    reported: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    judged: list[Run] = field(default_factory=list)


def _walk(
    experiment: Experiment,
    protocol: Protocol,
    columns: Sequence[str],
    records: Records,
    execute: Execute = lambda _: None,
    on_column: Callable[[_Walked], object] = lambda _: None,
) -> _Walked:
    """Choose settings and have the runs done, one column after the other.

    Parameters
    ----------
    experiment, protocol, columns
        What to go through.
    records
        The runs by key, to which `execute` adds.
    execute
        Does what is missing; by default nothing is.
    on_column
        Called after each column.
    """
    walked = _Walked()

    def settle(chooser: Experiment, together: Sequence[str]) -> None:
        runs = selection_runs(chooser, protocol, together)
        execute(runs)
        walked.judged += runs
        walked.choices |= choose(chooser, protocol, together, _scores(records))

    if experiment.synthetic and columns:
        # One setting for all values of h.
        chooser = experiment.chooser()
        settle(chooser, list(dict.fromkeys((*chooser.shown(protocol), *columns))))
    for column in columns:
        if not experiment.synthetic:
            settle(experiment, [column])
        cells = final_runs(experiment, protocol, [column], walked.choices)
        execute([run for runs in cells.values() for run in runs])
        walked.reported |= cells
        on_column(walked)
    return walked


def _scores(records: Records) -> Callable[[Run], float | None]:
    def score(run: Run) -> float | None:
        if run.key not in records:
            raise NotRun
        found: float | None = records[run.key]["val_accuracy"]
        return found

    return score


def _table_and_figures(
    experiment: Experiment, protocol: Protocol, reported: Reported, records: Records
) -> tuple[Table, tuple[Figure, ...]]:
    if experiment.name == "degree":
        table, figure = degree_result(protocol, reported, records)
        return table, (figure,)
    table = accuracy_table(experiment, protocol, reported, records)
    return table, line_figures(experiment, table)


def _settings(
    cells: Iterable[tuple[str, str]], choices: Choices
) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"model": model, "column": column, "config": choices[model, column]}
        for model, column in cells
    )


def _on_stored_graphs(
    experiment: Experiment, records: Records, family: str | None
) -> Experiment:
    """Return the experiment on the graphs that the store has runs on.

    syn-products has several kinds of features; the store says which there are.
    """
    if experiment.synthetic != "syn-products":
        return experiment
    if family is None:
        there = {record["dataset"].partition("/")[0] for record in records.values()}
        family = next((one for one in STAND_INS if one in there), experiment.synthetic)
    return replace(experiment, synthetic=family)


# ------------------------------------------------------------------ models are trained


def _run(
    experiment: Experiment,
    protocol: Protocol,
    store: Store,
    execute: Execute,
    on_result: Callable[[Result], object] = lambda _: None,
    left_out: Collection[str] = (),
) -> Result:
    """Walk through what can be run, and say in the store what the table reports."""
    experiment = on_available_graphs(experiment, protocol)
    there = available_columns(experiment, protocol, left_out)
    _check_graphs(store, there)

    def result(walked: _Walked) -> Result:
        return _sum_up(experiment, protocol, there, walked, store)

    walked = _walk(
        experiment,
        protocol,
        there.columns,
        store,
        execute,
        lambda so_far: on_result(result(so_far)),
    )
    made = result(walked)
    _select(store, f"{protocol.name}/{experiment.name}", walked.reported.values())
    return made


def graph_checksums(
    store: Store, records: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """Return the checksum of each graph that runs are on; refuse two of one name."""
    found: dict[str, str] = {}
    for record in records:
        name, checksum = record["dataset"], record.get("checksum")
        if checksum and found.setdefault(name, checksum) != checksum:
            raise InputError(
                f"{store.path}: the runs on {name} are of two graphs, with the "
                f"checksums {found[name]} and {checksum}; another out=… for one of "
                "them."
            )
    return found


def _check_graphs(store: Store, there: Available) -> None:
    """Refuse a store with runs on a graph that is not the one at hand."""
    for record in store.records:
        card = there.cards.get(record["dataset"])
        if card and record.get("checksum") not in (None, card["checksum"]):
            raise InputError(
                f"{store.path}: the runs on {record['dataset']} are of a graph with "
                f"the checksum {record['checksum']}, and the one at hand has "
                f"{card['checksum']}; another out=…, or the files of then."
            )


def _sum_up(
    experiment: Experiment,
    protocol: Protocol,
    there: Available,
    walked: _Walked,
    store: Store,
) -> Result:
    runs = [run for cell in walked.reported.values() for run in cell]
    records = {r.key: store[r.key] for r in (*walked.judged, *runs) if r.key in store}
    done = [records[run.key] for run in runs if run.key in records]
    table, figures = _table_and_figures(experiment, protocol, walked.reported, records)
    return Result(
        experiment.name,
        experiment.title,
        protocol.name,
        __version__,
        environment(),
        tuple(_notes(experiment, protocol, there, done)),
        (table,),
        figures,
        there.cards,
        tuple(there.missing),
        tuple(_failure(record) for record in records.values() if record.get("error")),
        graph_checksums(store, done),
        _settings(walked.reported, walked.choices),
    )


def _notes(
    experiment: Experiment,
    protocol: Protocol,
    there: Available,
    done: Sequence[Mapping[str, Any]],
) -> list[str]:
    notes = [
        f"Protocol {protocol.name}: {protocol.summary}.",
        "The run on split i has seed i; a synthetic graph has one split, 0.",
        {
            "": "The paper copies Geom-GCN's figures from its own paper, without "
            "deviation.",
            "syn-cora": "The graphs are the authors' own.",
            "syn-cora-own": "The graphs are of our generator, with Cora's features; "
            "the authors' are read from $H2GCN_DATA/syn-cora.",
            "syn-products": GAUSSIANS,
            "syn-products-kinds": MANY_KINDS,
            "syn-products-ogb": OGB,
        }[experiment.synthetic],
    ]
    if (
        experiment.synthetic.startswith("syn-products")
        and "mixhop" in experiment.models
    ):
        notes.append(
            "MixHop's program made every non-zero feature 1, which explains its low "
            "figures in the paper; ours takes features as they are."
        )
    versions = {record["version"] for record in done} - {__version__}
    if versions:
        notes.append(f"Some runs are of version {', '.join(sorted(versions))}.")
    return notes + there.warnings


def _select(store: Store, table: str, cells: Iterable[Sequence[Run]]) -> None:
    """Say in the store which runs a table reports, and which it no longer does."""
    reported = {run.key for runs in cells for run in runs}
    for record in store.records:
        before = set(record.get("reported_by", ()))
        after = before - {table}
        if record["key"] in reported and not record.get("error"):
            after |= {table}
        if after != before:
            kept = {name: value for name, value in record.items() if name != "format"}
            by = {"selected": bool(after), "reported_by": sorted(after)}
            store.append(kept | by)


def _failure(record: Mapping[str, Any]) -> dict[str, Any]:
    last = str(record["error"]).strip().splitlines()[-1]
    kept = {name: record[name] for name in ("key", "dataset", "model", "split")}
    return kept | {"error": last}


# ------------------------------------------------------------------ nothing is trained


def _ranks(real: Result) -> Result:
    return replace(
        real,
        experiment="ranks",
        title="Average rank of the models on real benchmarks",
        notes=(
            "Heterophily: h ≤ 0.3; homophily: h ≥ 0.7. The benchmark of cornell is the "
            "one of 2020. Only benchmarks that all models were run on count.",
            *real.notes,
        ),
        tables=(ranks_table(real.tables[0]),),
        figures=(),
    )


def _run_by_all(table: Table) -> Table:
    """Return a table without the columns that some row lacks: those have no ranks."""
    kept = [
        i
        for i in range(len(table.columns))
        if all(row.cells[i].mean is not None for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(
            Row(row.name, tuple(row.cells[i] for i in kept)) for row in table.rows
        ),
    )


def _statistics(protocol: Protocol, left_out: Collection[str]) -> Result:
    real: dict[str, Any] = {}
    synthetic: dict[str, Any] = {}
    missing: list[str] = []
    families = (EXPERIMENTS["syn-cora"], EXPERIMENTS["syn-products"])
    names = dict.fromkeys(EXPERIMENTS["real"].columns, real)
    for experiment in (on_available_graphs(e, protocol) for e in families):
        for column in experiment.shown(protocol):
            names[experiment.units(column, protocol)[0][0]] = synthetic
    for name, cards in names.items():
        cards[name], reason = (None, "") if name in left_out else card_of(name)
        missing += [reason] if reason else []
    return Result(
        "statistics",
        "Statistics of the benchmarks",
        protocol.name,
        __version__,
        environment(),
        (
            "The paper counts self-loops as edges, and swaps the numbers of classes of "
            "Cora (7) and Citeseer (6).",
            "Of the synthetic graphs the paper says: syn-cora 1,490 nodes, 2,965 to "
            "2,968 edges, degrees 1 to 94, mean 3.98; syn-products 10,000 nodes, "
            "59,640 to 59,648 edges, degrees 1 to 336, mean 11.93.",
        ),
        (real_statistics(real), synthetic_statistics(synthetic)),
        cards={n: c for n, c in (real | synthetic).items() if c is not None},
        not_run=tuple(missing),
    )
