"""Torch's random generators: seeded for a while, copied, and put back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor

__all__ = ["random_state", "reseeded", "seeded", "set_random_state"]

_TURN = RLock()
"""torch's generators are those of all threads: one thread at a time has them."""


def _renew() -> None:
    """Forget whose turn it was: a forked process has none of the other threads."""
    global _TURN
    _TURN = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Run a block on seeded torch generators; the global ones stay as they were.

    Threads that want this at the same time wait for each other, so that each draws
    what it would draw alone.
    """
    with _TURN, reseeded(seed, device):
        yield


@contextmanager
def reseeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """As `seeded`, for a block within one of that, in whichever thread it is run.

    The gradients of a device are computed in a thread of torch's own, while the one
    whose turn it is waits for them.
    """
    if device is None or device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
        return
    with torch.random.fork_rng(devices=[device.index or 0], device_type=device.type):
        torch.manual_seed(seed)
        yield


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the generators' state by type of device, "cpu" and the given one's."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state()
    return states


def set_random_state(states: dict[str, Tensor], device: torch.device) -> None:
    """Put the generators of the processor and of a device into a state.

    A device of another type than the state's keeps its own.
    """
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu" and device.type in states:
        torch.get_device_module(device).set_rng_state(states[device.type])
