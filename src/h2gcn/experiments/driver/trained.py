"""An experiment that trains models: choose, run, report, one column after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments.analysis import (
    Choices,
    NotRun,
    choose,
    final_runs,
    results,
    selection_runs,
)
from h2gcn.experiments.definition import Experiment, Protocol
from h2gcn.experiments.running import AtHand, Run, Store, look, with_the_graphs_there

__all__ = ["Execute", "Result", "graph_checksums", "trained"]

Execute = Callable[[Sequence[Run]], None]
"""Runs what is missing of some runs, and puts it into the store."""

Result = dict[str, Any]
"""What `result.json` holds."""

OGB = "The features are those of ogbn-products."
GAUSSIANS = (
    "The features of ogbn-products are not in $H2GCN_DATA/ogbn_products/raw (OGB's "
    "package puts them there): the graphs have class-conditional Gaussian features "
    "whose separation gives the MLP the paper's accuracy."
)


def trained(
    experiment: Experiment,
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
    experiment, protocol
        What, and how thoroughly.
    store
        Holds the runs.
    execute
        Brings runs into the store; one that does nothing sums up what is there.
    on_result
        Called after each column.
    left_out
        Graphs that are neither opened nor run.
    """
    experiment = with_the_graphs_there(experiment, protocol)
    there = look(experiment, protocol, left_out)
    _check_graphs(store, there)
    chooser, judged = experiment.chooser(), list[Run]()
    choices: Choices = {}
    if experiment.synthetic and there.columns:
        columns = list(dict.fromkeys((*chooser.shown(protocol), *there.columns)))
        judged = selection_runs(chooser, protocol, columns)
        execute(judged)
        choices = choose(chooser, protocol, columns, _scores(store))
    reported: dict[tuple[str, str], list[Run]] = {}
    result = _result(experiment, protocol, there, choices, reported, judged, store)
    for column in there.columns:
        if not experiment.synthetic:
            runs = selection_runs(experiment, protocol, [column])
            execute(runs)
            judged += runs
            choices |= choose(experiment, protocol, [column], _scores(store))
        cells = final_runs(experiment, protocol, [column], choices)
        execute([run for runs in cells.values() for run in runs])
        reported |= cells
        result = _result(experiment, protocol, there, choices, reported, judged, store)
        on_result(result)
    _select(store, f"{protocol.name}/{experiment.name}", reported.values())
    return result


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
                f"checksums {found[name]} and {checksum}; another --out for one of "
                "them."
            )
    return found


def _check_graphs(store: Store, there: AtHand) -> None:
    """Refuse a store with runs on a graph that is not the one at hand."""
    for record in store.records:
        card = there.cards.get(record["dataset"])
        if card and record.get("checksum") not in (None, card["checksum"]):
            raise InputError(
                f"{store.path}: the runs on {record['dataset']} are of a graph with "
                f"the checksum {record['checksum']}, and the one at hand has "
                f"{card['checksum']}; another --out, or the files of then."
            )


def _scores(store: Store) -> Callable[[Run], float | None]:
    def score(run: Run) -> float | None:
        if run.key not in store:
            raise NotRun
        found: float | None = store[run.key]["val_accuracy"]
        return found

    return score


def _result(
    experiment: Experiment,
    protocol: Protocol,
    there: AtHand,
    choices: Choices,
    reported: results.Reported,
    judged: Sequence[Run],
    store: Store,
) -> Result:
    runs = [run for cell in reported.values() for run in cell]
    records = {r.key: store[r.key] for r in (*judged, *runs) if r.key in store}
    failed = [record for record in records.values() if record.get("error")]
    if experiment.name == "degree":
        table, figure = results.degree_result(protocol, reported, records)
        figures = [figure]
    else:
        table = results.accuracy_table(experiment, protocol, reported, records)
        figures = results.line_figures(experiment, table)
    done = [records[run.key] for run in runs if run.key in records]
    return {
        "title": experiment.title,
        "notes": _notes(experiment, protocol, there, done),
        "tables": [table],
        "figures": figures,
        "cards": there.cards,
        "checksums": graph_checksums(store, done),
        "not_run": list(there.missing),
        "failed": [_failure(record) for record in failed],
        "settings": [
            {"model": model, "column": column, "config": choices[model, column]}
            for model, column in reported
        ],
    }


def _notes(
    experiment: Experiment,
    protocol: Protocol,
    there: AtHand,
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
