"""What reaches a terminal: no character that steers it, none that it cannot show."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = [
    "NOBODY_READS",
    "OutputError",
    "end_streams",
    "fitting",
    "guarded_streams",
    "open_streams",
    "printable",
    "shown",
]

SIGNS = {
    **dict.fromkeys("–—−‐‑─━╴╶╸╺", "-"),
    **{"→": "->", "←": "<-", "≥": ">=", "≤": "<=", "±": "+-", "≈": "~", "∝": "~"},
    **{"…": "...", "×": "x", "✗": "x", "✓": "v", "·": "*", "•": "*", "█": "#"},
    **{"¹": "^1", "²": "^2", "³": "^3", "⁴": "^4", "⁶": "^6", "⁻": "^-", "½": "1/2"},
    **{"₀": "0", "₁": "1", "₂": "2", "ᵀ": "^T", "ᵏ": "^k", "ᐟ": "/", "√": "sqrt "},
    **{"‖": "||", "│": "|", "┃": "|", "∈": " in ", "∪": " or ", "Σ": "sum "},
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon"},
    **{"λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau"},
    **{"χ": "chi", "Â": "A^", "Ã": "A~", "Ĥ": "H^", "Ê": "E^", "č": "c", "ć": "c"},
    **{"\u0302": "^", "\u0303": "~", "\u0305": "-"},
    **{"‘": "'", "’": "'", "“": '"', "”": '"', "⌈": "ceil(", "⌉": ")", "�": "?"},
}
"""The signs that we print, in ASCII; all others are shown as escapes."""

_JOINERS = "\u200c\u200d"
"""They have no width and steer nothing, and Persian, Hindi and emoji need them."""

NOBODY_READS = 141
"""Exit code where the reader of a pipe is gone, as shells have it."""


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
        c if _fits(c, encoding) else SIGNS.get(c) or _escape(c) for c in text
    )


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
