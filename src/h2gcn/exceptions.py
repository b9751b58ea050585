"""The error and the warnings that the package raises for its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final, Self

__all__ = [
    "MISSING",
    "H2GCNWarning",
    "InputError",
    "UndefinedMeasureWarning",
    "python_name",
    "short_repr",
    "shorten",
]

MAX_VALUE_CHARS = 300  # of a value that a message shows


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"  # stays one object when an error comes from another process


class _Shown(str):
    """The repr of a value that stayed in another process."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


MISSING: Final = _Missing()
Name = Callable[..., str]


def python_name(param: str, value: object = MISSING) -> str:
    """Return a parameter as Python code has it: `epochs`, or `epochs=5` to set it."""
    return param if value is MISSING else f"{param}={value!r}"


class _Message(Exception):
    """What is wrong, field by field; its text is `render()`."""

    def __init__(
        self,
        rule: str,
        *,
        param: str | None = None,
        value: object = MISSING,
        where: str | None = None,
        hint: str | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(rule)
        self.rule, self.param, self.value = rule, param, value
        self.where, self.hint = where, hint

    def render(self, name: Name = python_name) -> str:
        """Return the message as one line of text.

        Parameters
        ----------
        name
            Writes a parameter, alone or with a value to set: `python_name`, or what
            the command line has in its place.
        """
        text = self.rule
        if self.param is not None:
            text = f"{name(self.param)} {text}"
        if self.value is not MISSING:
            text += f", got {short_repr(self.value)}"
        if self.where is not None:
            text = f"{' '.join(self.where.splitlines())}: {text}"
        if not self.hint:
            return text
        if isinstance(self.hint, Mapping):
            text += "; try " + " or ".join(name(*item) for item in self.hint.items())
        else:
            text += f"; {self.hint}"
        return text

    def at(self, where: str) -> Self:
        """Return the message with a place before the one that it names, if any."""
        moved = copy(self)
        moved.where = where if self.where is None else f"{where}: {self.where}"
        return moved

    def __str__(self) -> str:
        return self.render()

    def __copy__(self) -> Self:
        twin = type(self)(self.rule)
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> Any:
        # What was given may be too large for another process, or not get there at all.
        state = dict(self.__dict__)
        if not isinstance(self.value, str | int | float | _Missing | None):
            state["value"] = _Shown(short_repr(self.value))
        return type(self), (self.rule,), state


class InputError(_Message, ValueError):
    """A user's mistake.

    The command line prints it as one line, with flags for parameters, and exits with
    code 2.

    Parameters
    ----------
    rule
        What the value must be, or the whole sentence where there is no parameter.
    param
        The parameter at fault, by its name in Python.
    value
        What was given.
    where
        The file, with line or column if known.
    hint
        What to do: a text, or parameters to set.

    Examples
    --------
    >>> print(InputError("must be in [0, 1)", param="dropout", value=1.5))
    dropout must be in [0, 1), got 1.5
    >>> print(InputError("the ring has 9,000,000 entries", hint={"ring_cap": 64}))
    the ring has 9,000,000 entries; try ring_cap=64
    """


class H2GCNWarning(_Message, UserWarning):
    """Something a user should know; takes what `InputError` takes."""


class UndefinedMeasureWarning(H2GCNWarning):
    """A measure has no value on this graph; it is returned as NaN."""


def short_repr(value: object) -> str:
    """Return a value as a message shows it: on one line, at most 300 characters.

    A class is its name, and an array its shape and type.
    """
    try:
        if isinstance(value, type):
            return value.__name__
        shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
        if shape and dtype is not None:
            return f"an array of shape {tuple(shape)} and dtype {dtype}"
        return shorten(repr(value))
    except Exception:  # anybody's object: too deep, or with a bug of its own
        return f"a {type(value).__name__}"


def shorten(text: str) -> str:
    """Return a text on one line, without the end of a long one."""
    line = " ".join(text.splitlines())
    if len(line) <= MAX_VALUE_CHARS:
        return line
    return f"{line[: MAX_VALUE_CHARS - 1]}…"
