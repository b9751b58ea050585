"""What `h2gcn reproduce` does with its experiments, and how far it is with them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2gcn import __version__
from h2gcn.cli.console import live_bar, say, tell

if TYPE_CHECKING:
    from rich.progress import TaskID

    from h2gcn.experiments import Event, Pool, Protocol, Result, Run, Store

__all__ = ["Reproduction", "plan_bar", "words_of"]

SECONDS_BETWEEN_LINES = 60.0
_UNTRAINED = ("statistics", "theory")
"""Experiments without runs: of those there is all or nothing."""


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
        from h2gcn.experiments import REAL, reproduce, show

        self._under_way = name
        # What the store has of the others stays in the tables.
        needless = {*REAL} if pool is None else self.left_out
        unopened = needless - {record["dataset"] for record in self.store.records}

        def execute(runs: Sequence[Run]) -> None:
            if pool is not None:
                self._run(name, runs, pool)

        how = self.protocol
        result = reproduce(name, how, self.store, execute, self._write, unopened)
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
                show(result, table)
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

    def write_page(self) -> Path:
        """Make one page of all results of the folder; return the file."""
        from h2gcn.experiments import read_results, render_html
        from h2gcn.io import atomic_write

        page = self.out / "report.html"
        with atomic_write(page) as beside:
            beside.write_text(render_html(read_results(self.out)), encoding="utf-8")
        return page

    def to_json(self) -> dict[str, Any]:
        """Return what was made, as one object for JSON."""
        from h2gcn.experiments import count_cells

        return {
            "folder": str(self.out),
            "protocol": self.protocol.name,
            "experiments": [
                {
                    "name": one.experiment,
                    "cells": count_cells([one]),
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
        from h2gcn.experiments import run_plan

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
                done = run_plan(fresh, self.store, pool=pool, on_event=on_event)
            self.failed.update(run.key for run in done.failed)
        finally:
            self.n_new += len(self.store) - before

    def _write(self, result: Result) -> None:
        from h2gcn.experiments import write_result

        if self.interrupted and not result.interrupted:
            note = "Interrupted: what was not run by then is missing."
            result = replace(result, interrupted=True, notes=(*result.notes, note))
        write_result(self.out, result)


@contextmanager
def plan_bar(title: str, *, show: bool) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows an event of the runner."""
    if not show:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    with live_bar("{task.fields[words]}") as bar:
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
