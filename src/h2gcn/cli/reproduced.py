"""How far a plan is, as a bar on a terminal and as lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from h2gcn.cli.output import say

if TYPE_CHECKING:
    from h2gcn.experiments import Event

__all__ = ["plan_bar", "words_of"]

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def plan_bar(title: str, *, show: bool) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows an event of the runner."""
    if not show:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
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
