"""`h2gcn evaluate`: what a saved model is worth on nodes that it did not see."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2gcn import estimator, io
from h2gcn.cli import options as src
from h2gcn.cli.console import (
    notes_of,
    say,
    show_card,
    show_confusion,
    table,
    tell,
    tell_json,
)
from h2gcn.cli.options import MemoryLimit
from h2gcn.exceptions import H2GCNWarning

if TYPE_CHECKING:
    from h2gcn.estimator import ScoreCard

__all__ = ["command"]


@partial(src.with_tables, only=(*src.READ_AGAIN, "label_column"))
def command(
    model_dir: src.ModelDir,
    source: src.Source = None,
    all_nodes: Annotated[
        bool,
        typer.Option(
            "--all-nodes", help="All labelled nodes, those that training saw too."
        ),
    ] = False,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of the node table, dates or numbers, to group nodes by.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="The share that prediction sets may miss; their coverage is counted."
        ),
    ] = 0.1,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the draws that intervals are made of.",
            callback=src.in_range(0, 2**31),
        ),
    ] = 0,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write it as a page, .html.", show_default=False
        ),
    ] = None,
    force: src.Force = False,
    as_json: src.AsJson = False,
    quiet: src.NoNotes = False,
    *,
    tables: src.Tables,
    batch_size: src.PredictedTogether = None,
    memory_limit: MemoryLimit = None,
    device: src.Device = None,
) -> None:
    """Score the model in DIR on labelled nodes of SOURCE that training did not see.

    On the graph that the model was trained on these are the test nodes; on another
    one all labelled nodes but those whose ids training saw. Tables are read as they
    were for training.

    Each measure is told with an interval of 95 % and a floor, what it takes no model
    to reach; then by class, by number of neighbours and by time, with a confusion
    matrix, and how many prediction sets hold the true class.
    """
    import warnings

    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    src.check_page(page, force=force)
    if page is not None:
        src.check_not_read(page, source, tables)
    io.usable_path(model_dir)
    classifier = estimator.load_bundle(model_dir)
    classifier.move(device, batch_size=batch_size, memory_limit=memory_limit)
    times = None
    if time_column is not None:
        times = io.read_times(io.find_node_table(source, tables.nodes), time_column)
    graph = src.load_as_trained(
        classifier, source, tables, memory_limit, label_required=True
    )
    notes = notes_of(graph) if as_json or not quiet else []
    for note in () if quiet else notes:
        say(f"note: {note}")
    card = classifier.evaluate(
        graph, all_nodes=all_nodes, times=times, alpha=alpha, seed=seed
    )
    if page is not None:
        with io.atomic_write(page, force=force) as beside:
            beside.write_text(estimator.render_scores(card), encoding="utf-8")
    if as_json:
        more_facts = {"time_column": time_column, "notes": notes}
        tell_json({"model": str(model_dir)} | card.to_json() | more_facts)
        return
    show(card, time_column)
    if page is not None:
        tell(f"wrote {page}")


def show(card: ScoreCard, time_column: str | None) -> None:
    """Print a score card as tables."""
    result = card.to_json()
    show_card(result["graph"])
    tell(*estimator.score_lines(card))
    title = f"{card.model} on {card.graph['name']}"
    table(title, ("", "value", "95 %", "floor", "which is"), estimator.score_rows(card))
    scores = ("precision", "95 %", "recall", "95 %", "F1", "95 %")
    table(
        "by class, in percent", ("class", "nodes", *scores), estimator.class_rows(card)
    )
    heads = ("nodes", "accuracy %", "95 %", "calibration error", "by chance")
    degrees = estimator.group_rows(card.by_degree)
    table("by number of neighbours", ("neighbours", *heads), degrees)
    if card.by_time is not None:
        groups = estimator.group_rows(card.by_time.groups)
        table(f"by {time_column}", (card.by_time.by, *heads), groups)
    found, right = (
        [one.recall.value for one in card.by_class],
        [one.precision.value for one in card.by_class],
    )
    show_confusion(result["confusion"], found, right)
    tell(estimator.set_line(card), card.how_sure)
    for remark in card.judgement.remarks:
        tell(f"Note: {remark}.")
