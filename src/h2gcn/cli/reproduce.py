"""`h2gcn reproduce`: a table or figure of the paper from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from h2gcn.experiments import Pool, Run

__all__ = ["command"]

FAILED = 1
"""Exit code when a run failed; the others are in the tables."""


def command(
    name: Annotated[
        str,
        typer.Argument(
            help="table-1, syn-cora, syn-cora-own, syn-products, ablation, degree, "
            "real, ranks, statistics, theory or all.",
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
            help="Processes side by side, one thread each.",
            min=1,
            show_default="one a core",
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
            help="Of the real benchmarks run this one; may be given again for more.",
            show_default="all",
        ),
    ] = None,
    only_tables: Annotated[
        bool,
        typer.Option("--no-run", help="Train nothing: tables of what is in the store."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no tables.")
    ] = False,
) -> int:
    """Rebuild a table or figure of the paper, ours beside the paper's.

    Settings are chosen on validation nodes. Finished runs are kept one by one in
    OUT/runs.jsonl; the same command does only what is missing. Tables come as
    Markdown, CSV and LaTeX, figures as SVG and PNG, all of it in OUT/report.html.
    """
    import warnings
    from functools import partial

    from h2gcn.cli.output import say
    from h2gcn.cli.reproduced import plan_bar
    from h2gcn.exceptions import H2GCNWarning
    from h2gcn.experiments import (
        REAL,
        RUNS,
        Store,
        check_protocol,
        check_records,
        find_benchmarks,
        find_experiments,
        find_protocol,
        make_folder,
        read_results,
        render_html,
        reproduce,
        run_plan,
        show,
        write_result,
    )
    from h2gcn.io import atomic_write

    names, how = find_experiments(name), find_protocol(protocol)
    left_out = set(REAL) - find_benchmarks(only, names, how) if only else set()
    out = make_folder(out.expanduser())
    check_protocol(out, names, how.name)
    warnings.simplefilter("ignore", H2GCNWarning)
    failed: set[str] = set()
    with Store(out / RUNS) as store, _pool(jobs, ray) as pool:
        check_records(store)
        # What the store has of the others stays in the tables.
        needless = {*REAL} if only_tables else left_out
        unopened = needless - {record["dataset"] for record in store.records}
        for experiment in names:

            def execute(runs: Sequence[Run], title: str = experiment) -> None:
                # One that has failed would fail again: that is for the next start.
                fresh = [
                    run
                    for run in runs
                    if run.key not in failed and run.dataset not in left_out
                ]
                if only_tables or not fresh:
                    return
                with plan_bar(title, show=not quiet) as on_event:
                    outcome = run_plan(fresh, store, pool=pool, on_event=on_event)
                failed.update(run.key for run in outcome.failed)

            save = partial(write_result, out)
            result = reproduce(experiment, how, store, execute, save, unopened)
            save(result)
            for reason in result["not_run"]:
                say(f"not run: {reason}")
            for failure in result["failed"]:
                failed.add(failure["key"])
                say(
                    "failed: {dataset} {model} split {split}: {error}".format(**failure)
                )
            if not quiet:
                for table in result["tables"]:
                    show(result, table)
                print(f"{experiment}: tables and figures are in {out / experiment}")
    with atomic_write(out / "report.html") as beside:
        beside.write_text(render_html(read_results(out)), encoding="utf-8")
    print(f"everything on one page: {out / 'report.html'}")
    if failed:
        say(f"{len(failed)} runs failed; the same command tries them again")
    return FAILED if failed else 0


def _pool(jobs: int | None, ray: str | None) -> AbstractContextManager[Pool]:
    from h2gcn.exceptions import InputError
    from h2gcn.experiments import LocalPool, RayPool

    if ray is None:
        return LocalPool(jobs)
    if jobs is not None:
        raise InputError("--jobs and --ray: one or the other")
    return RayPool(ray)
