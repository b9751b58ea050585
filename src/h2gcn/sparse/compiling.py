"""Functions that are compiled when they are first called, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any

__all__ = ["compiled", "instruction", "told_of_compiling"]

_TOLD: list[Callable[[bool], None]] = []
"""Who is told before something is compiled."""
_KEPT: dict[Any, bool] = {}
"""Of each function of ours that numba made: whether there is a cache for it."""


@contextmanager
def told_of_compiling(tell: Callable[[bool], None]) -> Iterator[None]:
    """Have somebody told whenever a function is compiled, as long as a block runs.

    Parameters
    ----------
    tell
        Called before it is compiled, with whether the result is kept for later
        programs. What an earlier one has kept is not compiled again.
    """
    _TOLD.append(tell)
    try:
        yield
    finally:
        _TOLD.remove(tell)


@cache
def _listen() -> None:
    """Have numba say what it compiles, from now on."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            kept = _KEPT.get(event.data["dispatcher"])
            if kept is not None:  # it is ours
                for tell in _TOLD:
                    tell(kept)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())


class Compiled:
    """A function that is compiled when it is first called.

    What was compiled is kept beside the module, or in the user's cache folder; where
    neither can be written, each process compiles anew. numba itself is imported then
    and not before: who never calls such a function does not wait for it.

    Parameters
    ----------
    function
        It may call others that are compiled, by their names in its module.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function, self._made = function, None
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __call__(self, *given: Any) -> Any:
        made = self._made
        return (self.made() if made is None else made)(*given)

    def made(self) -> Any:
        """Return what numba made of it."""
        if self._made is None:
            import numba

            _listen()
            options = {"nogil": True, "fastmath": {"contract"}}
            function, kept = self._resolved(), True
            try:
                self._made = numba.njit(cache=True, **options)(function)
            except RuntimeError:  # no place for the cache
                self._made, kept = numba.njit(**options)(function), False
            _KEPT[self._made] = kept
        return self._made

    def _resolved(self) -> FunctionType:
        """Return the function with what numba made of those that it calls."""
        of, known = self._function, dict(self._function.__globals__)
        for name in of.__code__.co_names:
            if isinstance(known.get(name), Compiled):
                known[name] = known[name].made()
        copy = FunctionType(of.__code__, known, of.__name__, of.__defaults__)
        copy.__module__, copy.__qualname__ = of.__module__, of.__qualname__
        return copy


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function as numba compiles it, when it is first called."""
    assert isinstance(function, FunctionType)
    return Compiled(function)


class Instruction(Compiled):
    """What processors do at once and Python has no name for.

    Parameters
    ----------
    function
        As numba's `intrinsic` wants it: takes a context and the types of what is given,
        returns a signature and what writes LLVM's code.
    """

    def made(self) -> Any:
        """Return it as numba puts it into functions."""
        if self._made is None:
            from numba.extending import intrinsic

            self._made = intrinsic(self._function)
        return self._made


def instruction(function: Callable[..., Any]) -> Any:
    """Return a function that compiled ones may call, as it writes itself for LLVM."""
    assert isinstance(function, FunctionType)
    return Instruction(function)
