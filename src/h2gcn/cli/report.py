"""`h2gcn report`: all results of a folder on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from h2gcn.cli.console import say, tell, tell_json
from h2gcn.cli.options import AsJson, Force, check_page

__all__ = ["command"]


def command(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="The folder that reproduce wrote to."),
    ] = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The .html file to write; RESULTS/report.html if none.",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make one HTML page of all results in the folder RESULTS.

    It shows every table and figure beside the paper's, the graphs, what was not run
    and what failed. The page needs no network and no other file.
    """
    from h2gcn import __version__
    from h2gcn.experiments import (
        count_cells,
        read_results,
        render_html,
        summary_line,
        why_no_figures,
    )
    from h2gcn.io import atomic_write

    file = results / "report.html" if out is None else out
    if results.is_dir():
        check_page(file, force=force)
    found = read_results(results)
    page = render_html(found)
    with atomic_write(file, force=force) as beside:
        beside.write_text(page, encoding="utf-8")
    if why := why_no_figures():
        say(why)
    say(f"wrote {file}")
    if as_json:
        result = {
            "report": str(file),
            "experiments": [one.experiment for one in found],
            "cells": count_cells(found),
            "version": __version__,
        }
        tell_json(result)
    else:
        tell(summary_line(found))
