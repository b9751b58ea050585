"""Seeded torch generators, and their states in a checkpoint."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import RLock

import torch
from torch import Tensor

__all__ = ["draw_seed", "random_problem", "random_state", "seeded", "set_random_state"]

NUMBERS = 624  # that torch's generator (mt19937) makes at a time

_LOCK = RLock()  # torch's generators belong to all threads


def _renew() -> None:
    """Prepare a forked process, which has none of the other threads.

    The lock is free, and torch no longer waits for threads of its OpenMP.
    """
    global _LOCK
    _LOCK = RLock()  # torch's generators belong to all threads
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Run a block on seeded torch generators; the global ones stay as they were.

    Threads that want this at the same time wait for each other, so that each draws
    what it would draw alone.
    """
    with _LOCK, ExitStack() as stack:
        if device is None or device.type == "cpu":
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.default_generator.manual_seed(seed)
        else:
            devices, kind = [device.index or 0], device.type
            fork = torch.random.fork_rng(devices=devices, device_type=kind)
            stack.enter_context(fork)
            torch.manual_seed(seed)
        yield


def draw_seed() -> int:
    """Return a seed for another library, drawn from torch's generator."""
    return int(torch.randint(2**31 - 1, ()))


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


def random_problem(states: Mapping[str, Tensor], device: torch.device) -> str | None:
    """Return why states of a file are not those of the generators, if so.

    torch itself would take a processor's whose place is beyond its numbers, and read
    on from there.
    """
    for name, wanted in random_state(device).items():
        state = states.get(name)
        if state is None:
            if name == "cpu":
                return f"{name} is missing"
            continue
        if state.dtype != wanted.dtype or state.shape != wanted.shape:
            return f"{name} is not the state of a generator"
    # After a seed of 64 bits: how many numbers are left, if any, and which is next.
    left, seeded, place = struct.unpack_from("<iiQ", states["cpu"].numpy().tobytes(), 8)
    begun = 1 <= left <= NUMBERS and left + place == NUMBERS + 1
    if seeded != 1 or not (begun or (left, place) == (1, 0)):
        return "cpu is not the state of a generator"
    return None
