"""`h2gcn reproduce`: a table or figure of the paper from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from h2gcn.experiments import Pool

__all__ = ["command"]

FAILED = 1
"""Exit code when a run failed; the others are in the tables."""


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
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Send the runs to a Ray cluster: host:port, or auto.",
            show_default=False,
        ),
    ] = None,
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
    import warnings

    from h2gcn.cli.console import KEPT, say, tell, tell_json
    from h2gcn.cli.frontier import Asked, reproduce_frontier
    from h2gcn.cli.reproduced import Reproduction
    from h2gcn.exceptions import H2GCNWarning
    from h2gcn.experiments import (
        FRONTIER,
        REAL,
        RUNS,
        Store,
        check_protocol,
        check_records,
        find_benchmarks,
        find_experiments,
        find_protocol,
        why_no_figures,
    )
    from h2gcn.io import check_not_stdout, new_folder, usable_path

    if name == FRONTIER:
        _refuse(name, {"protocol": protocol != "standard", "ray": ray is not None})
        asked = Asked(only, splits, time_limit, jobs, run=not only_tables)
        return reproduce_frontier(out, asked, as_json=as_json, quiet=quiet)
    given = {"splits": splits is not None, "time-limit": time_limit is not None}
    _refuse(name, given)
    names, how = find_experiments(name), find_protocol(protocol)
    left_out = set(REAL) - find_benchmarks(only, names, how) if only else set()
    check_not_stdout(out, "results need a folder")
    out = usable_path(out)
    check_protocol(out, names, how.name)
    warnings.simplefilter("ignore", H2GCNWarning)
    if why := why_no_figures():
        say(why)
    with new_folder(out, parents=True), Store(out / RUNS) as store:
        check_records(store)
        work = Reproduction(
            out, how, store, left_out, quiet=quiet, tables=not (quiet or as_json)
        )
        try:
            with _pool(jobs, ray) as pool:
                for experiment in names:
                    work.make(experiment, None if only_tables else pool)
        except KeyboardInterrupt:
            work.sum_up_interrupted()
    page = work.write_page()
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
    from h2gcn.exceptions import InputError

    for flag, was_given in given.items():
        if was_given:
            raise InputError(f"{name} has no --{flag}")


def _pool(jobs: int | None, ray: str | None) -> AbstractContextManager[Pool]:
    from h2gcn.exceptions import InputError
    from h2gcn.experiments import LocalPool, RayPool

    if ray is None:
        return LocalPool(jobs)
    if jobs is not None:
        raise InputError("--jobs and --ray: one or the other")
    return RayPool(ray)
