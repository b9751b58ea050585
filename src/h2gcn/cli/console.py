"""How commands show things, what their streams take, and how Ctrl-C ends them.

Messages of the library name parameters as Python does. Who typed a command knows
flags: `Speech` writes `--ring-cap 64` in their place.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
import unicodedata
from _thread import interrupt_main
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from h2gcn import estimator
from h2gcn.exceptions import MISSING, H2GCNWarning, InputError, python_name

if TYPE_CHECKING:
    from rich.progress import TaskID

    from h2gcn.auto import Progress as ContestProgress
    from h2gcn.experiments import TuneProgress
    from h2gcn.graph import Graph, Split
    from h2gcn.training import Epoch

__all__ = [
    "INTERRUPTED",
    "KEPT",
    "NOBODY_READS",
    "SCORES",
    "OutputError",
    "Speech",
    "as_flags",
    "contest_bar",
    "download_bar",
    "end_streams",
    "fitting",
    "fitting_status",
    "flags_of",
    "guarded_streams",
    "in_flags",
    "notes_of",
    "open_streams",
    "parts_bar",
    "percent",
    "printable",
    "progress_bar",
    "runs_bar",
    "say",
    "say_what_was_read",
    "settings_of",
    "show_card",
    "show_confusion",
    "shown",
    "sigterm_as_ctrl_c",
    "speaking",
    "stage_bar",
    "table",
    "tell",
    "tell_json",
]

# What stands in quotes and what may be a path are the user's own words.
_OWN = r"""(?<!\w)'(?:[^'\\]|\\.)*'|(?<!\w)"(?:[^"\\]|\\.)*"|\S*[/\\]\S*"""
# What is left of Python in prose, such as `ring_cap=64`.
_ARGUMENT = (
    r"(?<!['\"\w])(?P<name>\w+)="
    r"(?P<value>\[[^\]]*\]|'[^']*'|…|[\w.-]*[\w-])(?!['\"\w=])"
)
_ALIASES = {"random_state": "seed"}
Message = InputError | H2GCNWarning


class Speech:
    """The command that runs, what was typed, and the words for its parameters.

    Parameters
    ----------
    command
        Returns the command, as typer builds it; called once there is a message.
    arguments
        What was typed.
    """

    def __init__(
        self,
        command: Callable[[], Any] = lambda: None,
        arguments: Sequence[str] = (),
    ) -> None:
        self._command, self.arguments = command, arguments
        self.settings: dict[str, str] = {}
        self.answered = False

    @cached_property
    def flags(self) -> dict[str, str]:
        """The flags of the command by the names that the library has for them."""
        return flags_of(self._command())

    @property
    def wants_json(self) -> bool:
        """Whether one JSON object is asked for and not printed yet."""
        return "--json" in self.arguments and not self.answered

    def flag(self, param: str, value: object = MISSING) -> str:
        """Return a parameter as it is typed, alone or with a value to set."""
        flag = self.flags.get(param) or self.flags.get(_ALIASES.get(param, ""))
        if value is None or value is False or (flag is None and not self._own(param)):
            return python_name(param, value)
        if flag is None:
            option = f"{self.flags['option']} {param}"
            return option if value is MISSING else f"{option}={_typed(value)}"
        return flag if value is MISSING or value is True else f"{flag} {_typed(value)}"

    def _own(self, param: str) -> bool:
        """Return whether a parameter is a model's own, which --option sets."""
        if "option" not in self.flags:
            return False
        if any(word.startswith(f"{param}=") for word in self.arguments):
            return True
        models = sys.modules.get("h2gcn.models")  # else no model has said anything
        specs = models.MODELS.values() if models is not None else ()
        return any(param in spec.options for spec in specs)

    def is_typed(self, param: str) -> bool:
        """Return whether a parameter stands on the command line."""
        words = {word.partition("=")[0] for word in self.arguments}
        return param in words or self.flags.get(param) in words

    def located(self, message: Message) -> Message:
        """Return a message with the settings file that its parameter is from."""
        if message.where is None and self._is_setting(message.param):
            return message.at(self.settings[str(message.param)])
        return message

    def _is_setting(self, param: str | None) -> bool:
        """Return whether a parameter is from a file of settings."""
        return param in self.settings and not self.is_typed(param)

    def render(self, message: Message) -> str:
        """Return a message of the library in the words of the command."""
        message = copy(self.located(message))
        if message.where is None:
            message.rule = self.prose(message.rule)
        if isinstance(message.hint, str):
            message.hint = self.prose(message.hint)
        if self._is_setting(message.param):  # which has no flag in its file
            message.rule = f"{message.param} {message.rule}"
            message.param = None
        return message.render(self.flag)

    def prose(self, text: str) -> str:
        """Return prose of the library with flags in place of its arguments.

        What was typed stays as it is.
        """
        own = {part for word in self.arguments for part in (word, _value_of(word))}
        paths = [Path(word) for word in own]
        own |= {part for path in paths for part in (str(path), path.name, path.stem)}
        own = {word for word in own if "=" in word and word[:1] != "-"}
        return in_flags(text, self.flags, own)


_NOBODY = Speech()
_SPEECH: ContextVar[Speech] = ContextVar("the command that runs", default=_NOBODY)


@contextmanager
def speaking(command: Callable[[], Any], arguments: Sequence[str]) -> Iterator[Speech]:
    """Have messages speak of a command and its arguments, as long as it runs."""
    before = _SPEECH.set(Speech(command, arguments))
    try:
        yield _SPEECH.get()
    finally:
        _SPEECH.reset(before)


def settings_of(path: Path, names: Iterable[str]) -> None:
    """Have messages about these parameters name the file that they are from."""
    _SPEECH.get().settings |= dict.fromkeys(names, str(path))


def as_flags(text: str) -> str:
    """Return prose of the library in the words of the command that runs."""
    return _SPEECH.get().prose(text)


def flags_of(command: Any) -> dict[str, str]:
    """Return the flags of a command by the names that the library has for them.

    Parameters
    ----------
    command
        As typer builds it; None, or one without options, has none.
    """
    flags: dict[str, str] = {}
    for option in getattr(command, "params", ()):
        flag: str = option.opts[0]
        if flag.startswith("--"):
            name = flag[2:].replace("-", "_")
            # A list of columns is one flag that is repeated.
            flags |= {f"{name}s": flag, name: flag, str(option.name): flag}
    return flags


def in_flags(text: str, flags: Mapping[str, str], own: Iterable[str] = ()) -> str:
    """Return prose of the library with flags in place of its arguments.

    What stands in quotes, what may be a path, and the words `own` stay as they are.

    Examples
    --------
    >>> flags = {"ring_cap": "--ring-cap", "fill_missing": "--fill-missing"}
    >>> in_flags("use ring_cap=64, or fill_missing=True", flags)
    'use --ring-cap 64, or --fill-missing'
    """
    longest_first = sorted(own, key=len, reverse=True)
    known = "|".join([*map(re.escape, longest_first), _OWN, _ARGUMENT])
    return re.sub(known, lambda found: _argument(found, flags), text)


def _argument(found: re.Match[str], flags: Mapping[str, str]) -> str:
    flag, value = flags.get(found["name"] or ""), found["value"]
    if flag is None or value == "None":
        return found[0]
    if value == "True":
        return flag
    values = [one.strip().strip("'\"") for one in value.strip("[]").split(",")]
    return f"{flag} {','.join(values)}"


def _typed(value: object) -> str:
    """Return a value as a shell takes it; a list is separated by commas."""
    values = value if isinstance(value, list | tuple) else [value]
    return shlex.quote(",".join(map(str, values)))


def _value_of(word: str) -> str:
    return word.partition("=")[2] if word.startswith("--") else ""


SCORES = {
    "accuracy": "%",
    "macro_f1": "macro F1 %",
    "roc_auc": "ROC-AUC %",
    "pr_auc": "PR-AUC %",
}
"""How the columns of each metric are headed."""

MAX_CLASSES_SHOWN = 12
"""Classes of a confusion matrix that is printed, at most."""

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
    _SPEECH.get().answered = True
    print(json.dumps(content, allow_nan=False))


def say_what_was_read(graph: Graph, splits: Sequence[Split] = ()) -> None:
    """Tell what the reader did to the input and what the audit finds in it."""
    estimator.without_findings(graph)  # they are told here
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
    with estimator.epoch_bar(printable(title), epochs) as update:
        yield update


@contextmanager
def download_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show the file that is downloaded or read, its bytes and the time left."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import DownloadColumn, TimeRemainingColumn

    with estimator.live_bar(DownloadColumn(), TimeRemainingColumn()) as bar:
        tasks: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int) -> None:
            if file not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[file] = bar.add_task(file, total=total or None)
            bar.update(tasks[file], completed=done, total=total or None)

        yield update


@contextmanager
def stage_bar(
    title: str, *, show: bool
) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show the stage of a work, how far it is, and the time left, on a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import TimeRemainingColumn

    with estimator.live_bar(
        "{task.fields[stage]}", "{task.percentage:>3.0f} %", TimeRemainingColumn()
    ) as bar:
        tasks: dict[str, TaskID] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[stage] = bar.add_task(printable(title), total=total, stage=stage)
            bar.update(tasks[stage], completed=done, total=total, visible=True)

        yield update


@contextmanager
def contest_bar(
    title: str, *, show: bool
) -> Iterator[Callable[[ContestProgress], None] | None]:
    """Show the member that is fitted, and the time left, on a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    with estimator.contest_bar(printable(title)) as update:
        yield update


@contextmanager
def runs_bar(title: str, *, show: bool) -> Iterator[Callable[[TuneProgress], None]]:
    """Show runs done, the best score so far and the time left on a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import TimeRemainingColumn

    runs_done = "run {task.completed:.0f}/{task.total:.0f}"
    best = "best {task.fields[best]} %"
    with estimator.live_bar(runs_done, best, TimeRemainingColumn()) as bar:
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


@contextmanager
def parts_bar(
    *titles: str, show: bool
) -> Iterator[tuple[Callable[[int, int], None] | None, ...]]:
    """Show parts done and the time left on a terminal: a line for each title."""
    if not show or not sys.stderr.isatty():
        yield (None,) * len(titles)
        return
    from rich.progress import TimeRemainingColumn

    parts_done = "part {task.completed:.0f}/{task.total:.0f}"
    with estimator.live_bar(parts_done, TimeRemainingColumn()) as bar:
        tasks: dict[str, TaskID] = {}

        def update(title: str, done: int, total: int) -> None:
            if title not in tasks:
                tasks[title] = bar.add_task(printable(title), total=total)
            bar.update(tasks[title], completed=done)

        yield tuple(partial(update, title) for title in titles)


def show_card(card: Mapping[str, Any]) -> None:
    """Print in a line what graph it is."""
    from h2gcn.diagnosis import number

    tell(
        f"{card['name']}: {card['nodes']:,} nodes, {card['edges']:,} edges, "
        f"{card['labelled']:,} labelled, {card['classes']} classes, "
        f"h = {number(card['h'], 2)}, checksum {card['checksum']}"
    )


def show_confusion(
    confusion: Mapping[str, Any],
    found: Sequence[float | None],
    right: Sequence[float | None],
) -> None:
    """Print a confusion matrix, unless it is of many classes.

    Parameters
    ----------
    confusion
        `classes` and `counts`, a row for each true class.
    found, right
        The recall and the precision of each class, [C].
    """
    names = confusion["classes"]
    if len(names) > MAX_CLASSES_SHOWN:
        return
    rows: list[tuple[object, ...]] = [
        (name, *counts, percent(share))
        for name, counts, share in zip(names, confusion["counts"], found, strict=True)
    ]
    rows.append(("right %", *map(percent, right), ""))
    columns = ("", *names, "found %")
    table("true class (row), predicted (column)", columns, rows)


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
    from h2gcn.diagnosis import points

    if value is None or deviation is None:
        return points(value)
    return f"{points(value)} ± {points(deviation)}"


SIGNS = {
    **dict.fromkeys("–—−‐‑─━╴╶╸╺", "-"),
    **{"→": "->", "←": "<-", "≥": ">=", "≤": "<=", "±": "+-", "≈": "~", "∝": "~"},
    **{"…": "...", "×": "x", "✗": "x", "✓": "v", "·": "*", "•": "*", "█": "#"},
    **{"¹": "^1", "²": "^2", "³": "^3", "⁴": "^4", "⁶": "^6", "⁻": "^-", "½": "1/2"},
    **{"₀": "0", "₁": "1", "₂": "2", "ᵀ": "^T", "ᵏ": "^k", "ᐟ": "/", "√": "sqrt "},
    **{"‖": "||", "│": "|", "┃": "|", "∈": " in ", "∪": " or ", "Σ": "sum "},
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon"},
    **{"λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau"},
    **{"φ": "phi", "ψ": "psi", "∏": "product ", "≠": "!=", "⊗": " (x) "},
    **{"χ": "chi", "Â": "A^", "Ã": "A~", "Ĥ": "H^", "Ê": "E^", "č": "c", "ć": "c"},
    **{"Ā": "A-", "\u0302": "^", "\u0303": "~", "\u0304": "-", "\u0305": "-"},
    **{"‘": "'", "’": "'", "“": '"', "”": '"', "⌈": "ceil(", "⌉": ")", "�": "?"},
}
"""The signs that we print, in ASCII; so are super- and subscripts, and all others are
shown as escapes."""

_JOINERS = "\u200c\u200d"
"""They have no width and steer nothing, and Persian, Hindi and emoji need them."""


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with escapes in place of what could steer a terminal.

    Parameters
    ----------
    text
        Of anybody: a label, an id, the name of a column or of a file.
    keep
        Further characters that stay, such as the line breaks of a cell.

    Examples
    --------
    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    if text.isprintable():
        return text
    kept = _JOINERS + keep
    return "".join(c if c.isprintable() or c in kept else _escape(c) for c in text)


def fitting(text: str, encoding: str | None) -> str:
    """Return a text in the characters of an encoding: signs in ASCII, else escapes.

    Parameters
    ----------
    text
        What is to be written.
    encoding
        That of the stream; None takes everything.

    Examples
    --------
    >>> fitting("81.2 ± 0.3", "ascii")
    '81.2 +- 0.3'
    """
    if encoding is None or _fits(text, encoding):
        return text
    return "".join(
        c if _fits(c, encoding) else SIGNS.get(c) or _unraised(c) or _escape(c)
        for c in text
    )


def _unraised(sign: str) -> str:
    """Return the letter of a super- or subscript; nothing for any other sign."""
    kind, _, code = unicodedata.decomposition(sign).partition(" ")
    return chr(int(code, 16)) if kind in ("<super>", "<sub>") else ""


def shown(text: str, keep: str = "") -> str:
    """Return anybody's text as stdout can show it, before it is laid out in a table.

    Parameters
    ----------
    text, keep
        As of `printable`.
    """
    return fitting(printable(text, keep), getattr(sys.stdout, "encoding", None))


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


NOBODY_READS = 141
"""Exit code where the reader of a pipe is gone, as shells have it."""


class OutputError(Exception):
    """The output cannot be written.

    Not an OSError: those that print for us, and those that write files, would take it
    for one of theirs.

    Parameters
    ----------
    error
        Why not.
    """

    def __init__(self, error: OSError | ValueError) -> None:
        super().__init__(f"stdout cannot be written ({_reason(error)})")
        self.nobody_reads = getattr(error, "errno", None) == errno.EPIPE


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)


class _Guarded:
    """A stream that takes every text.

    Parameters
    ----------
    stream
        Of text; all but writing is left to it.
    needed
        Whether it is a failure that it cannot be written; else what is written to
        it is lost, as there is nowhere else to say so.
    """

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream, self._needed = stream, needed

    def write(self, text: str) -> int:
        """Write a text, in characters that the stream has."""
        try:
            self._stream.write(fitting(text, self._stream.encoding))
        except (OSError, ValueError) as error:
            self._lost(error)
        return len(text)

    def flush(self) -> None:
        """Write what waits."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._lost(error)

    def _lost(self, error: OSError | ValueError) -> None:
        if self._needed:
            raise OutputError(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Have stdout and stderr take every text, as long as a command runs."""
    before = sys.stdout, sys.stderr
    out: Any = _Guarded(sys.stdout, needed=True)
    err: Any = _Guarded(sys.stderr, needed=False)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def open_streams() -> None:
    """Open those of the three streams that were closed, on nothing.

    Else the next file that is opened would have the number of stdout, and what
    libraries print would go there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def end_streams() -> None:
    """Drop what cannot be written, so that Python does not complain as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())


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
            timer = threading.Timer(_SECONDS_TO_TRY_AGAIN, _terminate_main)
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


def _terminate_main() -> None:
    """Send the main thread SIGTERM, which also ends what it may be waiting for."""
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        assert main is not None  # it has begun
        signal.pthread_kill(main, signal.SIGTERM)
    else:  # Windows, where a wait goes on to its end
        interrupt_main(signal.SIGTERM)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
