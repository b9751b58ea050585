"""A library's words as the command line says them: `ring_cap=64` is `--ring-cap 64`.

Messages of the library name arguments as Python does: "The 'dropout' parameter of
H2GCN", `ring_cap=64`, or 'id_column' in quotes. Who typed a command knows flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["as_flags", "flags_of", "in_flags", "speaking"]

_PARAMETERS = re.compile(r"The '(\w+)'(?: and '(\w+)')? parameters? of \w+")
_ARGUMENT = re.compile(
    r"(?<!['\"\w])(?P<name>\w+)="
    r"(?P<value>\[[^\]]*\]|'[^']*'|…|[\w./-]*[\w/-])(?!['\"\w=])"
)
# Without an underscore it may be anything of the user's, such as a column.
_QUOTED = re.compile(r"'([a-z]+(?:_[a-z]+)+)'")

_SPOKEN: ContextVar[tuple[Callable[[], Any], Sequence[str]]] = ContextVar(
    "the command that runs and its arguments", default=(lambda: None, ())
)


@contextmanager
def speaking(command: Callable[[], Any], arguments: Sequence[str]) -> Iterator[None]:
    """Have `as_flags` speak of a command and its arguments, as long as it runs.

    Parameters
    ----------
    command
        Returns the command, as typer builds it; called once there is a message.
    arguments
        What was typed.
    """
    before = _SPOKEN.set((command, arguments))
    try:
        yield
    finally:
        _SPOKEN.reset(before)


def as_flags(message: str) -> str:
    """Return a message of the library in the words of the command that runs."""
    command, arguments = _SPOKEN.get()
    return in_flags(message, flags_of(command()), arguments)


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


def in_flags(message: str, flags: dict[str, str], arguments: Sequence[str]) -> str:
    """Return a message of the library with flags in place of its arguments.

    Parameters
    ----------
    message
        As the library says it.
    flags
        Of the command that runs, see `flags_of`.
    arguments
        What was typed: a setting may also have come by --option or --settings.

    Examples
    --------
    >>> flags = {"ring_cap": "--ring-cap", "fill_missing": "--fill-missing"}
    >>> in_flags("use ring_cap=64, or fill_missing=True", flags, [])
    'use --ring-cap 64, or --fill-missing'
    """
    message = _PARAMETERS.sub(_parameters(flags, arguments), message)
    message = _ARGUMENT.sub(lambda found: _argument(found, flags), message)
    return _QUOTED.sub(lambda found: flags.get(found[1], found[0]), message)


def _parameters(
    flags: dict[str, str], arguments: Sequence[str]
) -> Callable[[re.Match[str]], str]:
    """Return what names the parameters that a check has refused."""
    typed = {word.partition("=")[0] for word in arguments}

    def named(name: str) -> str | None:
        if name in flags and (flags[name] in typed or "--settings" not in typed):
            return flags[name]
        if "option" in flags and any(w.startswith(f"{name}=") for w in arguments):
            return f"--option {name}"
        return f"'{name}' of --settings" if "--settings" in typed else None

    def replace(found: re.Match[str]) -> str:
        names = [named(name) for name in found.groups() if name]
        return found[0] if None in names else " and ".join(map(str, names))

    return replace


def _argument(found: re.Match[str], flags: dict[str, str]) -> str:
    flag, value = flags.get(found["name"]), found["value"]
    if flag is None or value == "None":
        return found[0]
    if value == "True":
        return flag
    values = [one.strip().strip("'\"") for one in value.strip("[]").split(",")]
    return f"{flag} {','.join(values)}"
