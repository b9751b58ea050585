"""The command line: one thin module a command."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from h2gcn.cli import (
    datasets,
    demo,
    diagnose,
    generate,
    models,
    predict,
    report,
    reproduce,
    train,
    tune,
)
from h2gcn.exceptions import H2GCNWarning, InputError

__all__ = ["app", "entry_point", "main"]

# Read when torch is loaded, which commands do late. Threads that wait by spinning
# make an epoch several times slower as soon as another program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="h2gcn",
    help="Classify the nodes of a graph, whether neighbours are alike or not.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module in (
    *(demo, diagnose, train, predict, tune, generate),
    *(reproduce, report, datasets, models),
):
    app.command(_module.__name__.rpartition(".")[2])(_module.command)

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

# The base of all that typer's parser raises; its home differs by version.
_ParserError: Any = typer.BadParameter.__mro__[2]


def _version(value: bool) -> None:
    if value:
        from h2gcn import __version__

        print(f"h2gcn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    del version


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a user's mistake is one line and 2."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", H2GCNWarning)
        warnings.showwarning = _Said()
        try:
            result = app(arguments, prog_name="h2gcn", standalone_mode=False)
        except InputError as error:
            return _fail(_by_options(str(error), arguments))
        except _ParserError as error:
            return _fail(error.format_message())
        except (KeyboardInterrupt, typer.Abort):
            result = INTERRUPTED
        except MemoryError:
            return _fail("the machine has not enough memory for this")
    if result == INTERRUPTED:
        print("h2gcn: interrupted", file=sys.stderr)
    return result if isinstance(result, int) else 0


def entry_point() -> None:
    """Run the command line as a program."""
    from h2gcn.sparse import keep_freed_memory

    keep_freed_memory()
    sys.exit(main())


def _by_options(message: str, arguments: Sequence[str]) -> str:
    """Name parameters of the library as the command line does, by its options."""
    command: Any = typer.main.get_command(app)
    options: dict[str, str] = {
        option.name: option.opts[0]
        for option in getattr(command.commands.get(arguments[0]), "params", ())
        if option.opts[0].startswith("--")
    }
    used = {word.partition("=")[0] for word in arguments}

    def by_option(name: str) -> str | None:
        if name in options and (options[name] in used or "--settings" not in used):
            return options[name]
        if "option" in options and any(w.startswith(f"{name}=") for w in arguments):
            return f"--option {name}"
        return f"'{name}' of --settings" if "--settings" in used else None

    def named(found: re.Match[str]) -> str:
        names = [by_option(name) for name in found.groups() if name]
        return found[0] if None in names else " and ".join(map(str, names))

    return re.sub(r"The '(\w+)'(?: and '(\w+)')? parameters? of \w+", named, message)


def _fail(message: str) -> int:
    print(f"h2gcn: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


class _Said:
    """Prints the library's warnings, each once a command."""

    def __init__(self) -> None:
        self._messages: set[str] = set()

    def __call__(
        self, message: Warning | str, category: type[Warning], *_: Any, **__: Any
    ) -> None:
        if issubclass(category, H2GCNWarning) and str(message) not in self._messages:
            self._messages.add(str(message))
            print(f"h2gcn: note: {message}", file=sys.stderr)
