"""What a fit shows while it goes on, and a fitted classifier in a notebook.

It is a bar on a terminal or in a notebook, else a line from time to time. The command
line shows the same bars.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from h2gcn.graph import Graph, html_card, html_table

if TYPE_CHECKING:  # bars of other work do not wait for torch
    from rich.console import Console
    from rich.progress import Progress as Bar, ProgressColumn

    from h2gcn.auto import Progress
    from h2gcn.training import Epoch

__all__ = [
    "contest_bar",
    "epoch_bar",
    "fitted_card",
    "live_bar",
    "outcome",
    "watch",
]

SHOWN = 12
"""Classes that a card names."""
LINE_SECONDS = 10.0
"""How often a line is written where there is no bar."""


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def live_bar(*columns: str | ProgressColumn) -> Bar:
    """Return a bar for stderr that leaves no trace: title, bar, and some columns."""
    from rich.progress import BarColumn, Progress, TextColumn

    title = TextColumn("{task.description}", markup=False)
    told = [TextColumn(one) if isinstance(one, str) else one for one in columns]
    return Progress(
        title, BarColumn(bar_width=None), *told, console=_console(), transient=True
    )


@contextmanager
def epoch_bar(title: str, epochs: int) -> Iterator[Callable[[Epoch], None]]:
    """Show epoch, loss, validation score, the best of these and the time left.

    Parameters
    ----------
    title
        What is fitted.
    epochs
        At most so many.
    """
    from rich.progress import TimeRemainingColumn

    told, done = _epoch_words(), "epoch {task.completed:.0f}/{task.total:.0f}"
    with live_bar(done, "{task.fields[scores]}", TimeRemainingColumn()) as bar:
        task = bar.add_task(title, total=epochs, scores="")

        def update(epoch: Epoch) -> None:
            bar.update(task, completed=epoch.number, scores=told(epoch))

        yield update


@contextmanager
def contest_bar(title: str) -> Iterator[Callable[[Progress], None]]:
    """Show the member of "auto" that is fitted, and the time left.

    Parameters
    ----------
    title
        What is fitted.
    """
    left = "at most {task.fields[left]} s left"
    with live_bar("{task.fields[member]}", left) as bar:
        task = bar.add_task(title, total=1, member="", left="")
        shown = ""

        def update(at: Progress) -> None:
            nonlocal shown
            before, shown = shown, f"{at.number}/{at.members} {at.member}"
            bar.update(
                task,
                completed=at.number - 1,
                total=at.members,
                member=shown,
                left=f"{at.left:.0f}",
                refresh=shown != before,  # each is seen, however short it takes
            )

        yield update


def _epoch_words() -> Callable[[Epoch], str]:
    """Return what tells an epoch in words, and remembers the best score."""
    best = -math.inf

    def told(epoch: Epoch) -> str:
        nonlocal best
        best = max(best, epoch.val_score)
        return f"loss {epoch.loss:.3f}  val {epoch.val_score:.3f}  best {best:.3f}"

    return told


@contextmanager
def watch(
    title: str,
    epochs: int | None,
    on_epoch: Callable[[Epoch], None] | None,
    on_progress: Callable[[Progress], None] | None,
) -> Iterator[
    tuple[
        Callable[[Epoch], None] | None,
        Callable[[Progress], None] | None,
        Callable[[str], None],
    ]
]:
    """Show a fit, and call what else wants to know.

    Yields what is to be called after an epoch, on the way of "auto", and with a line
    to be said.

    Parameters
    ----------
    title
        What is fitted; characters that could steer a terminal are shown as "?".
    epochs
        At most so many; None of "auto".
    on_epoch, on_progress
        As of `NodeClassifier.fit`.
    """
    console = _console()
    title = "".join(c if c.isprintable() else "?" for c in title)

    def say(line: str) -> None:
        console.print(f"{title}: {line}", soft_wrap=True)

    bars = console.is_terminal or console.is_jupyter
    if epochs is None:
        with contest_bar(title) if bars else _lines(say, _member_words) as show:
            yield on_epoch, _both(show, on_progress), say
    else:
        lines = _lines(say, _numbered(epochs))
        with epoch_bar(title, epochs) if bars else lines as show:
            yield _both(show, on_epoch), on_progress, say


def _both(
    first: Callable[[Any], None], second: Callable[[Any], None] | None
) -> Callable[[Any], None]:
    def call(at: Any) -> None:
        first(at)
        if second is not None:
            second(at)

    return call


def _member_words(at: Progress) -> str:
    return f"{at.number}/{at.members} {at.member}, at most {at.left:.0f} s left"


def _numbered(epochs: int) -> Callable[[Epoch], str]:
    words = _epoch_words()
    return lambda epoch: f"epoch {epoch.number}/{epochs}  {words(epoch)}"


@contextmanager
def _lines(
    say: Callable[[str], None], words: Callable[[Any], str]
) -> Iterator[Callable[[Any], None]]:
    """Write a line from time to time."""
    last = time.monotonic()

    def update(at: Any) -> None:
        nonlocal last
        line = words(at)
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            say(line)

    yield update


def outcome(classifier: Any, graph: Graph) -> str:
    """Return in a line what a fit has come to.

    Parameters
    ----------
    classifier
        A `NodeClassifier` that was fitted here.
    graph
        The graph of its fit.
    """
    metric, said = classifier.params_["metric"], []
    if classifier.leaderboard_ is not None:
        said.append(classifier.leaderboard_.answering.rstrip("."))
    elif classifier.n_iter_:
        epochs, best = classifier.n_iter_, classifier.best_epoch_
        said.append(f"the best of {epochs:,} epochs is {best:,}")
    said.append(f"{metric} {classifier.val_score_:.3f} on held-out nodes")
    if metric == "accuracy":
        labels = graph.y[classifier.split_.val].tolist()
        (_, most), *_ = Counter(labels).most_common(1)
        said.append(f"always the largest class {most / len(labels):.3f}")
    said.append(f"{classifier.seconds_:.1f} s")
    if classifier.interrupted_:
        said.insert(0, "interrupted, and the best so far is kept")
    return "; ".join(said)


def fitted_card(classifier: Any) -> str:
    """Return what a classifier has learned as HTML; nothing where it is not fitted.

    Parameters
    ----------
    classifier
        A `NodeClassifier`, fitted here, loaded, or new.
    """
    if not hasattr(classifier, "classes_"):
        return ""
    params, board = classifier.params_, classifier.leaderboard_
    # A saved model does not know how its training went.
    split, seconds = (
        getattr(classifier, name, None) for name in ("split_", "seconds_")
    )
    classes = ", ".join(str(label) for label in classifier.classes_[:SHOWN])
    classes += ", …" if len(classifier.classes_) > SHOWN else ""
    sizes = None if split is None else " / ".join(f"{n:,}" for n in split.sizes)
    best, ended = classifier.best_epoch_, getattr(classifier, "interrupted_", False)
    facts = [
        ("model", params["model"]),
        ("classes", f"{len(classifier.classes_):,}: {classes}"),
        ("features", f"{classifier.n_features_in_:,}"),
        ("train/val/test", sizes),
        (f"{params['metric']} on held-out nodes", f"{classifier.val_score_:.4f}"),
        ("best epoch", f"{best:,}" if best else None),
        ("2-hop neighbours drawn", params["ring_cap"]),
        ("seconds", None if seconds is None else f"{seconds:.1f}"),
        ("interrupted", "yes" if ended else None),
    ]
    if board is None:
        return html_card("fitted", facts)
    heads = ("leaderboard", "answers", board.metric, "log-loss", "seconds")
    rows = [
        (
            row.name,
            f"{row.weight:.0%}" if row.weight else "",
            "" if row.score is None else f"{row.score:.4f}",
            f"{row.log_loss:.3f}",
            f"{row.seconds:.1f}",
        )
        for row in board.rows
        if row.log_loss is not None
    ]
    notes = [told for told in (board.answering, board.graph, board.caution) if told]
    notes += [f"{row.name}: {row.note}" for row in board.rows if row.note]
    return html_card("fitted", facts, [html_table(heads, rows)], notes)
