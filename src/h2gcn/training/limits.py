"""A time limit for fits in closed form, which have no epochs to stop between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["stop_fits", "time_is_up"]

_TIME_IS_UP: ContextVar[Callable[[float], bool]] = ContextVar(
    "_TIME_IS_UP", default=lambda _: False
)


@contextmanager
def stop_fits(time_is_up: Callable[[float], bool]) -> Iterator[None]:
    """Stop fits in closed form early, once their time is up.

    Parameters
    ----------
    time_is_up
        Returns whether a fraction of the time of a fit, 1 for all of it, is used up.
    """
    token = _TIME_IS_UP.set(time_is_up)
    try:
        yield
    finally:
        _TIME_IS_UP.reset(token)


def time_is_up(fraction: float = 1.0) -> bool:
    """Return whether a fraction of the time of this fit is used up."""
    return _TIME_IS_UP.get()(fraction)
