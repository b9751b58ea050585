"""How commands show things, and how Ctrl-C ends them."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from h2gcn.cli.streams import printable, shown
from h2gcn.cli.wording import as_flags

if TYPE_CHECKING:
    from rich.progress import TaskID

    from h2gcn.auto import Leaderboard, Progress
    from h2gcn.experiments import TuneProgress
    from h2gcn.graph import Graph, Split
    from h2gcn.training import Epoch

__all__ = [
    "INTERRUPTED",
    "KEPT",
    "SCORES",
    "contest_bar",
    "download_bar",
    "fitting_status",
    "notes_of",
    "percent",
    "progress_bar",
    "runs_bar",
    "say",
    "say_what_was_read",
    "show_leaderboard",
    "sigterm_as_ctrl_c",
    "table",
    "tell",
    "tell_json",
]

SCORES = {"accuracy": "%", "macro_f1": "macro F1 %", "roc_auc": "ROC-AUC %"}
"""How the columns of each metric are headed."""

LONGEST = 4000
"""Characters of a line on stderr, at most: a cell of a table may have any number."""

_TOLD = {
    ("leakage", "error"),
    ("label_features", "warning"),
    ("twins", "warning"),
    ("unlabelled_in_split", "warning"),
    ("single_node_class", "warning"),
    ("empty_class", "warning"),
    ("isolated", "note"),
    ("zero_features", "note"),
}
"""The findings of the audit that matter before every training."""


def say(message: str) -> None:
    """Print a line to stderr, the middle of a very long one left out."""
    line = printable(" ".join(message.splitlines()))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    print(f"h2gcn: {line}", file=sys.stderr)


def tell(*lines: str) -> None:
    """Print lines to stdout; a line break inside of one is somebody's text."""
    for line in lines:
        print(shown(line))


def tell_json(content: Any) -> None:
    """Print one JSON object to stdout, in ASCII."""
    print(json.dumps(content, allow_nan=False))


def say_what_was_read(graph: Graph, splits: Sequence[Split] = ()) -> None:
    """Tell what the reader did to the input and what the audit finds in it."""
    for note in notes_of(graph, splits):
        say(f"note: {note}")


def notes_of(graph: Graph, splits: Sequence[Split] = ()) -> list[str]:
    """Return what the reader did to the input and what the audit finds in it."""
    from h2gcn.diagnosis import audit

    said = graph.record.sentences()
    notes = [f"{graph.name}: {as_flags('; '.join(said))}"] if said else []
    return notes + [
        as_flags(finding.message)
        for finding in audit(graph, splits or None).findings
        if (finding.kind, finding.severity) in _TOLD
    ]


@contextmanager
def fitting_status() -> Iterator[Callable[[str], None] | None]:
    """Show which model of a quick fit is fitted, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(
        "quick fit of cheap models", spinner="line"
    ) as status:
        yield lambda name: status.update(f"quick fit: {name}")


@contextmanager
def progress_bar(
    title: str, epochs: int, *, show: bool
) -> Iterator[Callable[[Epoch], None] | None]:
    """Show epoch, loss, validation score and time left on a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("epoch {task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[scores]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(title), total=epochs, scores="")

        def update(epoch: Epoch) -> None:
            scores = f"loss {epoch.loss:.3f}  val {epoch.val_score:.3f}"
            bar.update(task, completed=epoch.number, scores=scores)

        yield update


@contextmanager
def download_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show the file that is downloaded, its bytes and the time left, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int) -> None:
            if file not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[file] = bar.add_task(file, total=total or None)
            bar.update(tasks[file], completed=done, total=total or None)

        yield update


@contextmanager
def contest_bar(
    title: str, *, show: bool
) -> Iterator[Callable[[Progress], None] | None]:
    """Show the member that is fitted, and the time left, on a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[member]}"),
        TextColumn("at most {task.fields[left]} s left"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(title), total=1, member="", left="")

        def update(at: Progress) -> None:
            bar.update(
                task,
                completed=at.number - 1,
                total=at.members,
                member=f"{at.number}/{at.members} {at.member}",
                left=f"{at.left:.0f}",
            )

        yield update


def show_leaderboard(board: Leaderboard) -> None:
    """Print how the members of auto stand, and what that says."""
    heads = ("", "answers", SCORES[board.metric], "log-loss", "behind", "seconds")
    rows = [
        (
            row.name,
            f"{100 * row.weight:.0f} %" if row.weight else "",
            percent(row.score),
            "" if row.log_loss is None else f"{row.log_loss:.3f}",
            board.behind(row) if row.gap else "",
            f"{row.seconds:.1f}",
        )
        for row in board.rows
        if row.log_loss is not None
    ]
    rows.append(("always the largest class", "", percent(board.majority), "", "", ""))
    table(f"leaderboard, on {board.held_out}", heads, rows)
    for row in board.rows:
        if row.note:
            tell(f"{row.name}: {as_flags(row.note)}")
    for sentence in (board.answering, board.graph, board.caution):
        if sentence:
            tell(sentence)


@contextmanager
def runs_bar(title: str, *, show: bool) -> Iterator[Callable[[TuneProgress], None]]:
    """Show runs done, the best score so far and the time left on a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("run {task.completed:.0f}/{task.total:.0f}"),
        TextColumn("best {task.fields[best]} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: list[TaskID] = []

        def update(runs: TuneProgress) -> None:
            if not tasks:
                # Begun here: what was there from before tells nothing of the speed.
                total, there = runs.total, runs.found
                tasks.append(
                    bar.add_task(
                        printable(title), total=total, completed=there, best="–"
                    )
                )
            bar.update(tasks[0], completed=runs.done, best=percent(runs.best))

        yield update


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    text: int = 1,
) -> None:
    """Print a table to stdout; the first `text` columns align left, the rest right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if title:
        console.print(Text(shown(title), style="bold"))
    grid = Table(box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if number < text else "right"
        # Folded and not cut off where the terminal is too narrow.
        grid.add_column(
            Text(shown(column, "\n"), overflow="fold"), justify=side, overflow="fold"
        )
    for row in rows:
        grid.add_row(*(Text(shown(str(cell), "\n")) for cell in row))
    boundless = console.options.update(width=sys.maxsize)
    if console.measure(grid, options=boundless).maximum > console.width:
        grid.collapse_padding = True
    console.print(grid)


def percent(value: float | None, deviation: float | None = None) -> str:
    """Return a fraction of 1 as percent, with its deviation if there is one."""
    from h2gcn.diagnosis import NONE, rounded

    if value is None:
        return NONE
    text = rounded(100 * value, 2, 100)
    return text if deviation is None else f"{text} ± {rounded(100 * deviation, 2, 100)}"


INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells have it."""
KEPT = "interrupted, and the best so far is kept"
"""What a command returns that was interrupted, has said so and shown its result."""
_SECONDS_OF_ONE = 2.0
"""timeout(1) sends SIGTERM twice, to the process and to its group."""
_SECONDS_TO_TRY_AGAIN = 0.2


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[list[float]]:
    """Take SIGTERM for Ctrl-C; yield a list of the times when it came.

    Only in the main thread, where alone Python can, and only where nobody has said
    yet what SIGTERM does.
    """
    received: list[float] = []
    waiting = False

    def stop(_: int, frame: FrameType | None) -> None:
        nonlocal waiting
        now = time.monotonic()
        again = received and now - received[-1] < _SECONDS_OF_ONE
        if not waiting and again:
            return
        received.append(now)
        waiting = _importing(frame)
        if waiting:
            # torch drops an exception that comes while it is being imported.
            tries = (_SECONDS_TO_TRY_AGAIN, interrupt_main, [signal.SIGTERM])
            timer = threading.Timer(*tries)
            timer.daemon = True
            timer.start()
            return
        raise KeyboardInterrupt

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
