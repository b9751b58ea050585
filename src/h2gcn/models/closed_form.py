"""What learners that are fitted in one go share: a time limit and one BLAS thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from threadpoolctl import threadpool_limits

ABSENT = -30.0  # the logit of a class without a training node

_TIME_IS_UP: ContextVar[Callable[[float], bool]] = ContextVar(
    "_TIME_IS_UP", default=lambda _: False
)


@contextmanager
def stop_fits(time_is_up: Callable[[float], bool]) -> Iterator[None]:
    """Stop fits without epochs early, once their time is up.

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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small products, more of them mostly wait.

    The limit holds for the whole process; fits in several threads take turns.
    """
    with threadpool_limits(1, user_api="blas"):
        yield


def draw_seed() -> int:
    """Return a seed for another library, drawn from torch's generator."""
    return int(torch.randint(2**31 - 1, ()))
