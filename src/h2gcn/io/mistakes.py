"""What is wrong with an input, in words that all readers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from h2gcn.exceptions import InputError

__all__ = [
    "Mistakes",
    "check_parts",
    "excerpt",
    "listed",
    "not_utf8",
    "one_line",
]

SHOWN = 12
"""How many mistakes are told at once; the others are counted."""


Told = str | InputError


class Mistakes:
    """What is wrong with some files, collected to be told together in one line.

    Examples
    --------
    >>> mistakes = Mistakes()
    >>> with mistakes.of("a.csv"):
    ...     raise InputError("a.csv: the file is empty.")
    >>> mistakes.add("b.csv", "b.csv: no edges.")
    >>> mistakes.tell()
    Traceback (most recent call last):
        ...
    h2gcn.exceptions.InputError: a.csv: the file is empty; b.csv: no edges.
    """

    def __init__(self) -> None:
        self._found: list[tuple[str, Told | Callable[[], Told]]] = []

    def add(self, file: object, message: Told | Callable[[], Told]) -> None:
        """Keep a mistake in a file; its message, or what makes it if it is shown."""
        self._found.append((str(file), message))

    @contextmanager
    def of(self, file: object) -> Iterator[None]:
        """Keep an `InputError` that is raised inside, and go on."""
        try:
            yield
        except InputError as error:
            self.add(file, error)

    def in_file(self, file: object) -> bool:
        """Tell whether a file has any."""
        return any(str(file) == name for name, _ in self._found)

    def tell(self) -> None:
        """Raise if there is any mistake: one as it is, several on one line."""
        if not self._found:
            return
        seen: Counter[str] = Counter()
        turns = []
        for number, (file, _) in enumerate(self._found):
            turns.append((seen[file], number))
            seen[file] += 1
        # Of each file in turn: one with many does not hide that of another.
        shown = sorted(number for _, number in sorted(turns)[:SHOWN])
        first, *others = [_as_error(*self._found[number]) for number in shown]
        said = [str(error) for error in others]
        rest = len(self._found) - len(shown)
        said += [f"and {rest} more."] if rest else []
        raise _followed_by(first, said) if said else first


def _as_error(file: str, message: Told | Callable[[], Told]) -> InputError:
    told = message() if callable(message) else message
    if isinstance(told, InputError):
        return told
    return InputError(told.removeprefix(f"{file}: "), where=file)


def _followed_by(first: InputError, others: list[str]) -> InputError:
    """Return an error with its fields, and the text of others after its own."""
    error = copy(first)
    error.rule, error.hint = first.rule.removesuffix("."), None
    own = str(first).removeprefix(str(error)).removeprefix("; ")
    texts = [own, *others] if own.strip(".") else others
    opening = [text.removesuffix(".") for text in texts[:-1]]
    error.hint = "; ".join([*opening, texts[-1]])
    return error


def one_line(error: object, limit: int = 200) -> str:
    """Return the words of a parser's exception on one line, cut at `limit`."""
    words = " ".join(str(error).split()).rstrip(".")
    return words if len(words) <= limit else words[: limit - 1] + "…"


def excerpt(value: object, limit: int = 100) -> str:
    """Return a value of a file for a message: as `repr`, and cut where it is long.

    Examples
    --------
    >>> excerpt("a cell"), excerpt("9" * 1000, limit=5)
    ("'a cell'", "'9999…' (1,000 characters)")
    """
    text = str(value)
    if len(text) <= limit:
        return repr(value)
    return f"{text[: limit - 1] + '…'!r} ({len(text):,} characters)"


def listed(names: Sequence[str], limit: int = 12) -> str:
    """Return names for a message: quoted, and not all where there are many."""
    shown = ", ".join(map(excerpt, names[:limit]))
    rest = len(names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def not_utf8(path: Path) -> InputError | None:
    """Return the error that names the first byte that is not UTF-8, if any.

    It reads the whole file, so it is asked only once something has gone wrong.
    """
    offset = 0
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return InputError(
                    f"the text is not UTF-8 (byte {offset + error.start}, "
                    f"line {number}); save it as UTF-8.",
                    where=str(path),
                )
            offset += len(line)
    return None


def check_parts(parts: Mapping[str, object]) -> None:
    """Raise where some of a split's three parts are given and others are not."""
    missing = [name for name, part in parts.items() if part is None]
    if missing:
        raise InputError(
            f"A split needs train, val and test; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Take the validation "
            "nodes out of the training ones, or leave all three out."
        )
