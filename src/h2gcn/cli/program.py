"""The program `h2gcn`: its commands, its exit codes, and how it tells mistakes."""

from __future__ import annotations

import errno
import inspect
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_type_hints

import typer
import typer.core
from typer.exceptions import TyperException

from h2gcn.cli import (
    convert,
    datasets,
    demo,
    diagnose,
    evaluate,
    explain,
    generate,
    models,
    predict,
    report,
    reproduce,
    serve,
    train,
    tune,
)
from h2gcn.cli.console import (
    INTERRUPTED,
    KEPT,
    NOBODY_READS,
    OutputError,
    Speech,
    end_streams,
    guarded_streams,
    open_streams,
    say,
    sigterm_as_ctrl_c,
    speaking,
    tell,
    tell_json,
)
from h2gcn.exceptions import H2GCNWarning, InputError

__all__ = ["app", "entry_point", "main"]

# Read when torch is loaded, which commands do late. Threads that wait by spinning
# make an epoch several times slower as soon as another program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _plain_flags(base: Any) -> Any:
    """Return a class of commands in whose help a flag does not seem to take a value."""

    class Plain(base):  # type: ignore[misc]
        def get_params(self, ctx: Any) -> Any:
            params = super().get_params(ctx)
            for param in params:
                if getattr(param, "is_flag", False) and param.metavar is None:
                    param.metavar = ""
            return params

    return Plain


class _Command(_plain_flags(typer.core.TyperCommand)):  # type: ignore[misc]
    """A command that takes each option once, unless it is a list."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments, or refuse an option with a value given twice."""
        if ctx.resilient_parsing:  # a shell completes a line
            return super().parse_args(ctx, args)
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        given = set()
        for param in order:
            if param.param_type_name != "option":
                continue
            single = not (param.multiple or param.is_flag or param.count)
            if single and param.name in given:
                raise InputError("was given twice", param=param.name)
            given.add(param.name)
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="h2gcn",
    cls=_plain_flags(typer.core.TyperGroup),
    help="Classify the nodes of a graph, whether neighbours are alike or not.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module in (
    *(demo, diagnose, train, evaluate, predict, explain, serve, tune, convert),
    *(generate, reproduce, report, datasets, models),
):
    # Lines of a paragraph are joined: their breaks would be kept on a screen.
    _text = (inspect.getdoc(_module.command) or "").split("\n\n")
    _help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _text)
    _name = _module.__name__.rpartition(".")[2]
    # Once and not each time that typer looks at them, which it often does.
    _module.command.__annotations__ = get_type_hints(
        _module.command, include_extras=True
    )
    app.command(_name, cls=_Command, help=_help)(_module.command)


def _version(value: bool) -> None:
    if value:
        from h2gcn import __version__

        tell(f"h2gcn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    del version


MISTAKE = 2
"""Exit code where somebody can do something: the command, its files, the machine."""
UNFORESEEN = 70
"""Exit code of a failure that is ours, as sysexits(3) has it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    A user's mistake is one line and 2, an internal error one line and 70;
    after Ctrl-C it is 130, after SIGTERM 143, where nobody reads on 141, as shells have
    it, whether the best so far was kept or nothing was done yet. $H2GCN_DEBUG shows
    the traceback of each failure.
    """
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]

    def command() -> Any:
        group: Any = typer.main.get_command(app)
        return group.commands.get(arguments[0])

    with (
        guarded_streams(),
        speaking(command, arguments) as speech,
        sigterm_as_ctrl_c() as received,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always", H2GCNWarning)
        warnings.showwarning = _Said(speech)
        try:
            result = app(arguments, prog_name="h2gcn", standalone_mode=False)
            sys.stdout.flush()
        except (KeyboardInterrupt, typer.Abort):
            result = INTERRUPTED
        except SystemExit:
            raise
        except BaseException as error:  # what a library written in Rust raises, too
            return _end(error, speech)
        code = 128 + signal.SIGTERM if received else INTERRUPTED
        if result == INTERRUPTED:
            say("interrupted")
            _tell_failure(speech, "interrupted", code)
    if result in (INTERRUPTED, KEPT):
        return code
    return result if isinstance(result, int) else 0


def entry_point() -> None:
    """Run the command line as a program."""
    from h2gcn.sparse import tune_allocator

    open_streams()
    tune_allocator()
    code = main()
    end_streams()
    sys.exit(code)


def _end(error: BaseException, speech: Speech) -> int:
    """Say in a line why a command has failed; return its exit code."""
    if isinstance(error, OutputError) and error.nobody_reads:
        return NOBODY_READS
    if os.environ.get("H2GCN_DEBUG"):
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    if isinstance(error, InputError):
        error = speech.located(error)
    code, message = _told(error, speech)
    message = " ".join(message.splitlines())
    say(f"error: {message}")
    if not isinstance(error, OutputError):
        _tell_failure(speech, message, code, error)
    return code


def _tell_failure(
    speech: Speech, message: str, code: int, error: BaseException | None = None
) -> None:
    """Print why a command has failed as one JSON object, where one is asked for."""
    if not speech.wants_json:
        return
    param = where = None
    if isinstance(error, InputError):
        param, where = error.param, error.where
    elif isinstance(error, TyperException):
        param = getattr(getattr(error, "param", None), "name", None)
    with suppress(OutputError):
        tell_json({"error": message, "exit_code": code, "param": param, "where": where})
        sys.stdout.flush()


_OF_WRITING = (errno.ENOSPC, errno.EPIPE, errno.EIO)


def _told(error: BaseException, speech: Speech) -> tuple[int, str]:
    """Return the exit code of a failure, and what is said of it."""
    if isinstance(error, InputError):
        return MISTAKE, speech.render(error)
    if isinstance(error, TyperException):
        return MISTAKE, error.format_message()
    if isinstance(error, OutputError):
        return MISTAKE, str(error)
    if _is_out_of_memory(error):
        return MISTAKE, "out of memory"
    if isinstance(error, OSError) and error.strerror:
        where = error.filename
        if where is None and error.errno in _OF_WRITING:
            where = "cannot write"
        return (
            MISTAKE,
            error.strerror if where is None else f"{where}: {error.strerror}",
        )
    return UNFORESEEN, (
        f"internal error: {type(error).__name__}: {error}. This is a bug; rerun with "
        "H2GCN_DEBUG=1 and report the traceback."
    )


def _is_out_of_memory(error: BaseException) -> bool:
    # torch has no class for it where the memory is the processor's.
    said = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return said or isinstance(error, MemoryError)


class _Said:
    """Prints the library's warnings, each once a command."""

    def __init__(self, speech: Speech) -> None:
        self._speech, self._messages = speech, set[str]()

    def __call__(
        self, message: Warning | str, category: type[Warning], *_: Any, **__: Any
    ) -> None:
        if not issubclass(category, H2GCNWarning) or str(message) in self._messages:
            return
        self._messages.add(str(message))
        if isinstance(message, H2GCNWarning):
            message = self._speech.render(message)
        say(f"note: {message}")
