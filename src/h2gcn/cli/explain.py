"""`h2gcn explain`: why a model says what it says, of one node or over all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.options import MemoryLimit

if TYPE_CHECKING:
    from h2gcn.diagnosis import ReasonChart
    from h2gcn.estimator import (
        Explanation,
        Importance,
        ImportanceRow,
        NodeClassifier,
        Term,
    )
    from h2gcn.graph import Graph

__all__ = ["command"]

HALF = 8
"""Characters of a bar to each side of zero."""
TERMS = 40
"""Terms that a table shows, at most."""


@partial(src.with_tables, only=src.READ_AGAIN)
def command(
    model_dir: src.ModelDir,
    source: src.Source = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The node to explain; without, all of them."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="The class to explain; else what is said."),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            help="Columns and nodes that are shown of each part.",
            callback=src.in_range(0),
        ),
    ] = 5,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Permutations of each part, without --node (default: 5).",
            callback=src.in_range(1, 1000),
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        int | None,
        typer.Option(
            help="Single columns that are tried, without --node (default: 20).",
            callback=src.in_range(0),
            show_default=False,
        ),
    ] = None,
    seed: src.Seed = 0,
    as_json: src.AsJson = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page to this .html file."),
    ] = None,
    force: src.Force = False,
    quiet: src.NoNotes = False,
    *,
    tables: src.Tables,
    memory_limit: MemoryLimit = None,
    device: src.Device = None,
) -> None:
    """Say why the model in DIR says of a node of SOURCE what it says.

    With --node, the logit of a class as a sum of terms: blocks of columns or paths of
    rings, and of each its largest columns and neighbours. The sum is exact where the
    model is linear from some stage on, and for trees by Shapley values; else, and for
    auto as a whole, it is what changes when a part is left out, and that is said.

    Without --node, which columns and blocks matter over all nodes: each is permuted
    among nodes that training did not see, and what the score and the log-loss lose by
    it is told, with its standard error.
    """
    import warnings

    from h2gcn.cli.console import say
    from h2gcn.estimator import load_bundle
    from h2gcn.exceptions import H2GCNWarning, InputError
    from h2gcn.io import atomic_write, usable_path

    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    given = {"--repeats": repeats, "--columns": columns}
    idle = [flag for flag, value in given.items() if value is not None]
    if node is not None and idle:
        raise InputError(f"{idle[0]} is for all nodes; it does not go with --node")
    if node is None and label is not None:
        raise InputError("--label is for one node; name it by --node")
    src.check_page(page, force=force)
    usable_path(model_dir)
    classifier = load_bundle(model_dir)
    classifier.move(device, memory_limit=memory_limit)
    graph = src.load_as_trained(
        classifier, source, tables, memory_limit, label_required=False
    )
    found: Any
    text: Callable[[Any, int], None]
    draw: Callable[[Any, int], str]
    if node is not None:
        from h2gcn.estimator import find_node

        found = classifier.explain(graph, find_node(graph, node), label=label)
        content, text, draw = found.to_json(top), _show, _page_of_node
    else:
        found = _over_all(classifier, graph, repeats, columns, seed, quiet)
        content, text, draw = found.to_json(), _show_all, _page_of_all
    if page is not None:
        drawn = draw(found, top)
        with atomic_write(page, force=force) as beside:
            beside.write_text(drawn, encoding="utf-8")
        say(f"wrote {page}")
    if as_json:
        from h2gcn import __version__
        from h2gcn.cli.console import tell_json

        tell_json(content | {"folder": str(model_dir), "version": __version__})
    else:
        text(found, top)


def _over_all(
    classifier: NodeClassifier,
    graph: Graph,
    repeats: int | None,
    columns: int | None,
    seed: int,
    quiet: bool,
) -> Any:
    from h2gcn.exceptions import InputError

    seen = classifier.seen_
    if seen is not None and not seen.unseen(graph)[0].size:
        raise InputError(
            f"{graph.name}: no node is left to permute on: training saw all that have "
            "a label; --node explains a single one"
        )
    with _steps_bar(show=not quiet) as on_step:
        return classifier.importance(
            graph,
            repeats=5 if repeats is None else repeats,
            columns=20 if columns is None else columns,
            random_state=seed,
            on_step=on_step,
        )


@contextmanager
def _steps_bar(*, show: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many permutations are done, and the time left, on a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("permutations {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(bar_width=None),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# ------------------------------------------------------------- as text


def _bar(value: float, largest: float) -> str:
    """Return a bar to the left of zero, or to the right, of characters that all have.

    Examples
    --------
    >>> _bar(-1, 2), _bar(2, 2)
    ('    ----|        ', '        |++++++++')
    """
    length = round(HALF * abs(value) / largest) if largest else 0
    sign = "-" if value < 0 else "+"
    below, above = (sign * length, "") if value < 0 else ("", sign * length)
    return f"{below:>{HALF}}|{above:<{HALF}}"


def _sorted(terms: Sequence[Term]) -> list[Term]:
    return sorted(terms, key=lambda term: -abs(term.value))


def _show(found: Explanation, top: int) -> None:
    from h2gcn.cli.console import table, tell

    said = "" if found.said == found.label else f"; the model says {found.said}"
    tell(
        f"node {found.node_id} of {found.graph}, by {found.model}: {found.label} with "
        f"{100 * found.probability:.1f} % (logit {found.logit:.3f}, temperature "
        f"{found.temperature:.3f}){said}",
        found.how,
    )
    what = f"{found.of} of {found.label}" if found.exact else "change"
    largest = max((abs(term.value) for term in found.groups), default=0.0)
    rows: list[tuple[str, ...]] = []
    for term in found.groups[:TERMS]:
        rows.append((term.name, _bar(term.value, largest), f"{term.value:+.3f}"))
        for mark, parts in (("", term.columns), ("node ", term.nodes)):
            rows += [
                (
                    f"  {mark if one.group != 'rest' else ''}{one.name}",
                    "",
                    f"{one.value:+.3f}",
                )
                for one in parts[:top]
            ]
    if found.exact:
        total = sum(term.value for term in found.terms)
        rows.append(("sum", "", f"{total:+.3f}"))
    table("", ("", "", what), rows, text=2)
    near = found.neighbours[:top]
    if near:
        names = ", ".join(f"{one.name} ({one.value:+.3f})" for one in near)
        tell(f"the nodes that mattered most: {names}")
    for one in found.members:
        share = f"{100 * one.weight:.0f} %"
        tell("", f"{one.name}, which has {share} of the answer:")
        _show(one.explanation, top)
    if found.notes:
        tell(*found.notes)


def _rise(mean: float, error: float | None, digits: int = 3) -> str:
    told = f"{round(mean, digits) + 0.0:+.{digits}f}"  # no minus before a zero
    return told if error is None else f"{told} ± {error:.{digits}f}"


def _show_all(found: Importance, _: int) -> None:
    from h2gcn.cli.console import SCORES, percent, table, tell

    tell(
        f"what {found.model} needs on {found.graph}: each part permuted "
        f"{found.repeats} times among {found.nodes:,} nodes that training did not see"
    )
    lost = f"{SCORES[found.metric]} lost"
    largest = max((abs(row.log_loss) for row in found.rows), default=0.0)
    for title, rows in _by_kind(found):
        cells = [
            (
                row.name,
                _bar(row.log_loss, largest),
                _rise(row.log_loss, row.log_loss_error),
                _percents(row.drop, row.drop_error),
            )
            for row in rows
        ]
        table(title, ("", "", "log-loss +", lost), cells, text=2)
    name = SCORES[found.metric].removesuffix("%").strip() or "accuracy"
    tell(
        f"with nothing permuted: log-loss {found.log_loss:.3f}, {name} "
        f"{percent(found.score)} %",
        *found.notes,
    )


def _by_kind(found: Importance) -> Iterator[tuple[str, list[ImportanceRow]]]:
    """Return the parts and the single columns, each with a title."""
    for title, column in (("parts", False), ("single columns", True)):
        rows = [row for row in found.rows if (row.kind == "column") == column]
        if rows:
            yield title, rows


def _percents(mean: float | None, error: float | None) -> str:
    from h2gcn.diagnosis import NONE

    if mean is None:
        return NONE
    return _rise(100 * mean, None if error is None else 100 * error, 2)


# ------------------------------------------------------------- as a page


def _charts_of(found: Explanation, top: int, before: str = "") -> list[ReasonChart]:
    from h2gcn.diagnosis import ReasonChart

    what = f"the {found.of} of {found.label}"
    title = f"What {what} is the sum of" if found.exact else "What changes without it"
    terms, groups = _sorted(found.terms)[:TERMS], found.groups
    how = f"{found.how[:1].upper()}{found.how[1:]}."
    charts = [ReasonChart(before + title, how, _bars(groups), bool(before))]
    if len(groups) < len(terms):
        head = f"{before}The same by block"
        charts.append(ReasonChart(head, "", _bars(terms), closed=True))
    for term in terms:
        for name, parts in (("columns", term.columns), ("nodes", term.nodes)):
            shown = [*parts] if len(parts) <= 4 * top else _cut(parts, 4 * top)
            if shown:
                head = f"{before}{term.name}: {name}"
                charts.append(ReasonChart(head, "", _bars(shown), closed=True))
    return charts


def _cut(terms: Sequence[Term], most: int) -> list[Term]:
    from h2gcn.estimator import together

    return [*terms[:most], together(terms[most:])]


def _bars(terms: Sequence[Term]) -> tuple[tuple[str, float, str], ...]:
    return tuple((term.name, term.value, f"{term.value:+.3f}") for term in terms)


def _page_of_node(found: Explanation, top: int) -> str:
    from h2gcn.diagnosis import ReasonChart, render_reasons

    facts = [
        ("class", found.label),
        ("probability", f"{100 * found.probability:.1f} %"),
        ("logit", f"{found.logit:.3f} (temperature {found.temperature:.3f})"),
        ("model", found.model),
    ]
    if found.said != found.label:
        facts.insert(1, ("the model says", found.said))
    charts = _charts_of(found, top)
    if found.neighbours:
        near = found.neighbours
        shown = _cut(near, 4 * top) if len(near) > 4 * top else [*near]
        note = "Over all parts that can be split by node."
        charts.insert(1, ReasonChart("Which nodes mattered", note, _bars(shown)))
    for one in found.members:
        before = f"{one.name} ({100 * one.weight:.0f} % of the answer): "
        charts += _charts_of(one.explanation, top, before)
    title = f"Why node {found.node_id} of {found.graph}"
    return render_reasons(title, facts, found.notes, charts)


def _page_of_all(found: Importance, _: int) -> str:
    from h2gcn.cli.console import percent
    from h2gcn.diagnosis import ReasonChart, render_reasons

    facts = [
        ("model", found.model),
        ("nodes", f"{found.nodes:,}, which training did not see"),
        ("log-loss", f"{found.log_loss:.3f}"),
        (found.metric, f"{percent(found.score)} %"),
    ]
    note = (
        "How much the log-loss rises where it is another node's, with the standard "
        f"error over {found.repeats} permutations."
    )
    charts = []
    for head, parts in _by_kind(found):
        bars = [
            (p.name, p.log_loss, _rise(p.log_loss, p.log_loss_error)) for p in parts
        ]
        charts.append(ReasonChart(head.capitalize(), note, tuple(bars)))
    title = f"What {found.model} needs on {found.graph}"
    return render_reasons(title, facts, found.notes, charts)
