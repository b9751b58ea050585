"""`h2gcn reproduce`: a table or figure of the paper from nothing.

Or how far auto gets, which is called frontier.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn import __version__, estimator, experiments, io
from h2gcn.cli.console import KEPT, say, tell, tell_json
from h2gcn.exceptions import H2GCNWarning, InputError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from h2gcn.experiments import Event, Pool, Protocol, Result, Run, Store

__all__ = [
    "FrontierAsked",
    "Reproduction",
    "command",
    "find_numbers",
    "plan_bar",
    "words_of",
]

PAGE = "report.html"
FAILED = 1
"""Exit code when a run failed; the others are in the tables."""
FRONTIER_SHOWN = 3
"""Tables of frontier on the screen; those of single members are in the files."""
SECONDS_BETWEEN_LINES = 60.0
_UNTRAINED = ("statistics", "theory")
"""Experiments without runs: of those there is all or nothing."""
_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table-1, syn-cora, syn-cora-own, syn-products, ablation, degree, "
            "real, ranks, statistics, theory or all; or frontier: how far auto gets.",
            show_default=False,
        ),
    ],
    protocol: Annotated[
        str, typer.Option(help="paper, standard, or quick (minutes, for a look).")
    ] = "standard",
    out: Annotated[Path, typer.Option(help="The folder for everything.")] = Path(
        "results"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Processes side by side, one thread each (default: one a core).",
            min=1,
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="local:N|ADDRESS",
            help="Send the runs to a Ray cluster: host:port, or auto.",
            show_default=False,
        ),
    ] = None,
    ray: Annotated[str | None, typer.Option(hidden=True, help="As --cluster.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BENCHMARK",
            help="Of the real benchmarks run this one; repeat for more (default: all).",
            show_default=False,
        ),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(
            metavar="0-9",
            help="Of frontier: these splits, such as 0-2 or 0,3,7 (default: all ten).",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Of frontier: seconds of auto a split (default: by the benchmark).",
            show_default=False,
        ),
    ] = None,
    only_tables: Annotated[
        bool,
        typer.Option("--no-run", help="Train nothing: tables of what is in the store."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and no tables.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no tables.")
    ] = False,
) -> int | str:
    """Rebuild a table or figure of the paper, ours beside the paper's.

    Settings are chosen on validation nodes. Finished runs are kept one by one in
    OUT/runs.jsonl; the same command does only what is missing. Tables come as
    Markdown, CSV and LaTeX, figures as SVG and PNG, all of it in OUT/report.html.
    After Ctrl-C or SIGTERM they are of the runs that are done. frontier is not of
    the paper: auto, its members and scikit-learn, a split after the other, kept in
    OUT/frontier/runs.jsonl.
    """
    place = _find_place(jobs, cluster, ray)
    if name == experiments.FRONTIER:
        _refuse(name, {"protocol": protocol != "standard"})
        run = not only_tables
        asked = FrontierAsked(only, splits, time_limit, jobs, run=run, cluster=place)
        return _reproduce_frontier(out, asked, as_json=as_json, quiet=quiet)
    given = {"splits": splits is not None, "time-limit": time_limit is not None}
    _refuse(name, given)
    names, how = experiments.find_experiments(name), experiments.find_protocol(protocol)
    left_out = (
        set(experiments.REAL) - experiments.find_benchmarks(only, names, how)
        if only
        else set()
    )
    io.check_not_stdout(out, "results need a folder")
    out = io.usable_path(out)
    _check_page(out)
    experiments.check_protocol(out, names, how.name)
    warnings.simplefilter("ignore", H2GCNWarning)
    if why := experiments.why_no_figures():
        say(why)
    with (
        io.new_folder(out, parents=True),
        experiments.Store(out / experiments.RUNS) as store,
    ):
        experiments.check_records(store)
        work = Reproduction(
            out, how, store, left_out, quiet=quiet, tables=not (quiet or as_json)
        )
        try:
            with _find_pool(jobs, place) as pool:
                for experiment in names:
                    work.make(experiment, None if only_tables else pool)
        except KeyboardInterrupt:
            work.sum_up_interrupted()
    page = _write_page(out)
    if as_json:
        tell_json(work.to_json())
    else:
        if work.interrupted:
            tell("interrupted: the tables are of the runs that are done")
        tell(f"everything on one page: {page}")
    if work.failed:
        say(f"{len(work.failed)} runs failed; the same command tries them again")
    if work.interrupted:
        return KEPT
    return FAILED if work.failed else 0


def _refuse(name: str, given: dict[str, bool]) -> None:
    """Refuse options that an experiment does not have."""
    for flag, was_given in given.items():
        if was_given:
            raise InputError(f"{name} has no --{flag}")


def _find_place(jobs: int | None, cluster: str | None, ray: str | None) -> str | None:
    """Return where the runs are sent, None for processes of this one."""
    from h2gcn.cluster import check_place

    if cluster is not None and ray is not None:
        raise InputError("--cluster and --ray: one or the other, they are the same")
    place = ray if cluster is None else cluster
    if place is not None and jobs is not None:
        flag = "--ray" if cluster is None else "--cluster"
        raise InputError(f"--jobs and {flag}: one or the other")
    if place is not None:
        check_place(place)
    return place


def _find_pool(jobs: int | None, place: str | None) -> AbstractContextManager[Pool]:
    if place is None:
        return experiments.LocalPool(jobs)
    return experiments.RayPool(place)


def _write_page(out: Path) -> Path:
    """Make one page of all results of a folder; return the file."""
    content = experiments.render_html(experiments.read_results(out))
    is_own = _check_page(out)
    with io.atomic_write(out / PAGE, force=is_own) as beside:
        beside.write_text(content, encoding="utf-8")
    return out / PAGE


def _check_page(out: Path) -> bool:
    """Return whether the folder has a page of results; refuse a page of others."""
    page = io.plain_path(out / PAGE)
    if not page.exists():
        return False
    if not experiments.is_results_page(page):
        raise InputError(
            "already exists, and is no page of results",
            where=str(page),
            hint="choose another folder",
        )
    return True


@dataclass
class Reproduction:
    """Experiments of one protocol, kept in one folder.

    Parameters
    ----------
    out
        The folder.
    protocol
        How thoroughly they are run.
    store
        The runs of the folder.
    left_out
        Benchmarks that are not run.
    quiet
        Without progress.
    tables
        Whether tables are printed.
    """

    out: Path
    protocol: Protocol
    store: Store
    left_out: set[str]
    quiet: bool
    tables: bool
    made: list[Result] = field(default_factory=list)
    """The results so far."""
    failed: set[str] = field(default_factory=set)
    """Keys of the runs that failed."""
    n_new: int = 0
    """Runs that the store did not have at the start."""
    interrupted: bool = False
    """Whether it was ended before all was done."""
    _under_way: str = ""

    def make(self, name: str, pool: Pool | None) -> None:
        """Run what is missing of an experiment, and make its tables and figures.

        Without a pool nothing is run, and no benchmark opened that the store has no
        run of.
        """
        self._under_way = name
        # What the store has of the others stays in the tables.
        needless = {*experiments.REAL} if pool is None else self.left_out
        unopened = needless - {record["dataset"] for record in self.store.records}

        def execute(runs: Sequence[Run]) -> None:
            if pool is not None:
                self._run(name, runs, pool)

        how = self.protocol
        result = experiments.reproduce(
            name, how, self.store, execute, self._write, unopened
        )
        self._write(result)
        self.made.append(result)
        self._under_way = ""
        for reason in result.not_run:
            say(f"not run: {reason}")
        for failure in result.failed:
            self.failed.add(failure["key"])
            say("failed: {dataset} {model} split {split}: {error}".format(**failure))
        if self.tables:
            for table in result.tables:
                experiments.show(result, table)
            tell(f"{name}: tables and figures are in {self.out / name}")

    def sum_up_interrupted(self) -> None:
        """Make what there is of the experiment under way, after Ctrl-C.

        Where there is nothing to show, the interruption is raised again.
        """
        name, n_runs = self._under_way, len(self.store)
        partly = bool(name and name not in _UNTRAINED and n_runs)
        if not (partly or self.made):
            raise KeyboardInterrupt
        self.interrupted = True
        say(f"interrupted; {n_runs} runs are kept, and the same command goes on")
        if partly:
            self.make(name, None)

    def to_json(self) -> dict[str, Any]:
        """Return what was made, as one object for JSON."""
        return {
            "folder": str(self.out),
            "protocol": self.protocol.name,
            "experiments": [
                {
                    "name": one.experiment,
                    "cells": experiments.count_cells([one]),
                    "not_run": list(one.not_run),
                    "failed": list(one.failed),
                }
                for one in self.made
            ],
            "runs": {"new": self.n_new, "failed": len(self.failed)},
            "interrupted": self.interrupted,
            "version": __version__,
        }

    def _run(self, title: str, runs: Sequence[Run], pool: Pool) -> None:
        # One that has failed would fail again: that is for the next start.
        fresh = [
            run
            for run in runs
            if run.key not in self.failed and run.dataset not in self.left_out
        ]
        if not fresh:
            return
        before = len(self.store)
        try:
            with plan_bar(title, show=not self.quiet) as on_event:
                done = experiments.run_plan(
                    fresh, self.store, pool=pool, on_event=on_event
                )
            self.failed.update(run.key for run in done.failed)
        finally:
            self.n_new += len(self.store) - before

    def _write(self, result: Result) -> None:
        if self.interrupted and not result.interrupted:
            note = "Interrupted: what was not run by then is missing."
            result = replace(result, interrupted=True, notes=(*result.notes, note))
        experiments.write_result(self.out, result)


@dataclass(frozen=True)
class FrontierAsked:
    """What of frontier is to be run, and how.

    Parameters
    ----------
    only
        Benchmarks; None is all.
    splits
        Numbers and ranges, such as "0-2,5"; None is all.
    time_limit
        Seconds of auto a split; None is what the benchmark needs.
    jobs
        Processes side by side, one thread each; None does one split after the other,
        with all threads.
    run
        Whether anything is run.
    cluster
        A Ray cluster to send the splits to; None does them here.
    """

    only: list[str] | None = None
    splits: str | None = None
    time_limit: float | None = None
    jobs: int | None = None
    run: bool = True
    cluster: str | None = None


def find_numbers(text: str) -> list[int]:
    """Return the numbers that a text such as "0-2,5" names.

    Examples
    --------
    >>> find_numbers("0-2,5")
    [0, 1, 2, 5]
    """
    numbers: list[int] = []
    for part in text.split(","):
        if (found := _RANGE.fullmatch(part.strip())) is None:
            raise InputError(f"--splits {text[:60]}: numbers and ranges, such as 0-2,5")
        first, last = int(found[1]), int(found[2] or found[1])
        numbers += range(first, last + 1)
    return numbers


def _reproduce_frontier(
    out: Path, asked: FrontierAsked, *, as_json: bool, quiet: bool
) -> int | str:
    """Run what is missing of frontier, and make tables of what is there.

    Parameters
    ----------
    out
        The folder of all results.
    asked
        What to run.
    as_json
        Print one JSON object, and no tables.
    quiet
        No progress, no tables.
    """
    if asked.time_limit is not None and not asked.time_limit > 0:
        raise InputError(f"--time-limit {asked.time_limit:g}: it must be above 0")
    numbers = None if asked.splits is None else find_numbers(asked.splits)
    runs = experiments.plan_splits(asked.only, numbers)
    io.check_not_stdout(out, "results need a folder")
    out = io.usable_path(out)
    _check_page(out)
    folder = out / experiments.FRONTIER
    interrupted, reasons = False, []
    with (
        io.new_folder(folder, parents=True),
        experiments.Store(folder / experiments.RUNS) as store,
    ):
        experiments.check_splits(store.path, store.records)
        before = len(store)
        try:
            if asked.run:
                reasons = _run_frontier(runs, store, asked, show_bar=not quiet)
        except KeyboardInterrupt:
            if not len(store):
                raise
            interrupted = True
            say(f"interrupted; {len(store)} splits are kept, the same command goes on")
        result = experiments.frontier_result(store.records, experiments.environment())
        done = len(store)
    experiments.write_result(out, result)
    page = _write_page(out)
    for reason in reasons:
        say(f"not run: {reason}")
    for failure in result.failed:
        say("failed: {dataset} split {split}: {error}".format(**failure))
    if as_json:
        told = {
            "folder": str(out),
            "splits": {"done": done - len(result.failed), "new": done - before},
            "failed": list(result.failed),
            "not_run": reasons,
            "interrupted": interrupted,
            "tables": [table.to_json() for table in result.tables],
            "version": __version__,
        }
        tell_json(told)
    elif not quiet:
        for table in result.tables[:FRONTIER_SHOWN]:
            experiments.show(result, table)
    if not as_json:
        tell(
            f"{experiments.FRONTIER}: tables are in {folder}; everything on one page: "
            f"{page}"
        )
    if interrupted:
        return KEPT
    return FAILED if result.failed else 0


def _run_frontier(
    runs: list[Run], store: Store, asked: FrontierAsked, *, show_bar: bool
) -> list[str]:
    """Run what is missing of frontier; return why some are not run."""
    there, reasons = experiments.on_hand(runs, store)
    with (
        _frontier_pool(asked) as pool,
        plan_bar(experiments.FRONTIER, show=show_bar) as on_event,
    ):
        experiments.run_plan(there, store, pool=pool, on_event=on_event)
    return reasons


@contextmanager
def _frontier_pool(asked: FrontierAsked) -> Iterator[Pool]:
    work = partial(experiments.measure, time_limit=asked.time_limit)
    if asked.cluster is not None:
        with experiments.RayPool(asked.cluster, work=work) as far:
            yield far
    elif asked.jobs is None:
        yield experiments.OneAfterAnother(work)
    else:
        with experiments.LocalPool(asked.jobs, work=work) as pool:
            yield pool


@contextmanager
def plan_bar(title: str, *, show: bool) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows an event of the runner."""
    if not show:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    with estimator.live_bar("{task.fields[words]}") as bar:
        tasks: list[TaskID] = []

        def update(event: Event) -> None:
            if not tasks:
                tasks.append(bar.add_task(title, total=event.total, words=""))
            done = event.done + event.failed
            bar.update(tasks[0], completed=done, words=words_of(event))

        yield update


class _Lines:
    """Says how far it is, now and then."""

    def __init__(self, title: str) -> None:
        self._title, self._last = title, -SECONDS_BETWEEN_LINES

    def __call__(self, event: Event) -> None:
        ended = event.done + event.failed == event.total
        now = time.monotonic()
        # What was all there from before is no news.
        if event.found == event.total or (
            not ended and now - self._last < SECONDS_BETWEEN_LINES
        ):
            return
        self._last = now
        say(f"{self._title}: {words_of(event)}")


def words_of(event: Event) -> str:
    """Return how far a plan is, in words."""
    said = [f"{event.done} of {event.total} runs done"]
    if event.running:
        said.append(f"{event.running} running")
    if event.failed:
        said.append(f"{event.failed} failed")
    if event.seconds_left is not None and event.running:
        said.append(f"{_duration(event.seconds_left)} left")
    return ", ".join(said)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
