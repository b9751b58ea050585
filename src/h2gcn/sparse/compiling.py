"""Functions that are compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["compiled", "count_bits", "instruction", "lowest_bit"]


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

            options = {"nogil": True, "fastmath": {"contract"}}
            function = self._resolved()
            try:
                self._made = numba.njit(cache=True, **options)(function)
            except RuntimeError:  # no place for the cache
                self._made = numba.njit(**options)(function)
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


@instruction
def lowest_bit(_, word):  # type: ignore[no-untyped-def]
    """Return the place of the lowest bit of a 64-bit word; of no bit, 64."""
    from numba.core import types

    def write(_: Any, builder: Any, __: Any, given: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]

        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 0))

    del word
    return types.int64(types.uint64), write


@instruction
def count_bits(_, word):  # type: ignore[no-untyped-def]
    """Return how many bits of a 64-bit word are set."""
    from numba.core import types

    def write(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.ctpop(given[0])

    del word
    return types.int64(types.uint64), write
