"""`h2gcn reproduce frontier`: what is missing of it, and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from h2gcn import __version__
from h2gcn.cli.console import KEPT, say, tell, tell_json
from h2gcn.cli.reproduced import plan_bar
from h2gcn.exceptions import InputError

if TYPE_CHECKING:
    from h2gcn.experiments import Pool, Run, Store

__all__ = ["Asked", "find_numbers", "reproduce_frontier"]

FAILED = 1
SHOWN = 3
"""Tables on the screen; those of single members are in the files."""
_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


@dataclass(frozen=True)
class Asked:
    """What of it is to be run, and how.

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
    """

    only: list[str] | None = None
    splits: str | None = None
    time_limit: float | None = None
    jobs: int | None = None
    run: bool = True


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


def reproduce_frontier(
    out: Path, asked: Asked, *, as_json: bool, quiet: bool
) -> int | str:
    """Run what is missing, and make tables of what is there.

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
    from h2gcn.experiments import (
        FRONTIER,
        RUNS,
        Store,
        check_splits,
        environment,
        frontier_result,
        plan_splits,
        read_results,
        render_html,
        show,
        write_result,
    )
    from h2gcn.io import atomic_write, check_not_stdout, new_folder, usable_path

    if asked.time_limit is not None and not asked.time_limit > 0:
        raise InputError(f"--time-limit {asked.time_limit:g}: it must be above 0")
    numbers = None if asked.splits is None else find_numbers(asked.splits)
    runs = plan_splits(asked.only, numbers)
    check_not_stdout(out, "results need a folder")
    out = usable_path(out)
    folder = out / FRONTIER
    interrupted, reasons = False, []
    with new_folder(folder, parents=True), Store(folder / RUNS) as store:
        check_splits(store.path, store.records)
        before = len(store)
        try:
            if asked.run:
                reasons = _run(runs, store, asked, show_bar=not quiet)
        except KeyboardInterrupt:
            if not len(store):
                raise
            interrupted = True
            say(f"interrupted; {len(store)} splits are kept, the same command goes on")
        result = frontier_result(store.records, environment())
        done = len(store)
    write_result(out, result)
    page = out / "report.html"
    with atomic_write(page) as beside:
        beside.write_text(render_html(read_results(out)), encoding="utf-8")
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
        for table in result.tables[:SHOWN]:
            show(result, table)
    if not as_json:
        tell(f"{FRONTIER}: tables are in {folder}; everything on one page: {page}")
    if interrupted:
        return KEPT
    return FAILED if result.failed else 0


def _run(runs: list[Run], store: Store, asked: Asked, *, show_bar: bool) -> list[str]:
    """Run what is missing; return why some are not run."""
    from h2gcn.experiments import FRONTIER, on_hand, run_plan

    there, reasons = on_hand(runs, store)
    with _pool(asked) as pool, plan_bar(FRONTIER, show=show_bar) as on_event:
        run_plan(there, store, pool=pool, on_event=on_event)
    return reasons


@contextmanager
def _pool(asked: Asked) -> Iterator[Pool]:
    from h2gcn.experiments import LocalPool, OneAfterAnother, measure

    work = partial(measure, time_limit=asked.time_limit)
    if asked.jobs is None:
        yield OneAfterAnother(work)
    else:
        with LocalPool(asked.jobs, work=work) as pool:
            yield pool
