"""Dropout, several times faster than torch's own, and the generator it draws from."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "dropout",
    "dropout_linear",
    "random_problem",
    "random_state",
    "reseeded",
    "seeded",
    "set_random_state",
]

CHOICES = 2**16
"""How finely a share can be told: an element is decided by 16 random bits."""
NUMBERS = 624
"""That torch's generator (mt19937) makes at a time."""
CHUNK = 2**20
"""Elements that are dropped and multiplied together: they fit in the cache."""


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """Return x with each element zero at the given probability, the others scaled up.

    torch draws a number for each element, which is slow on a processor. Here one draw
    of 64 bits decides four elements. The
    probability is rounded to 1/65,536, and the scale belongs to the rounded one, so
    that the expectation is x.

    Parameters
    ----------
    x
        Of any shape.
    probability
        The dropped share, in [0, 1).
    training
        Whether to drop at all.
    """
    if not training or probability == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, probability)
    kept = _kept(probability)
    if kept == CHOICES:  # less than half of the smallest share
        return x
    mask = _draw(x.numel(), kept).view(x.shape).to(x.dtype)
    return x * mask.mul_(CHOICES / kept)


def dropout_linear(
    blocks: Sequence[Tensor], weight: Tensor, probability: float, training: bool = True
) -> Tensor:
    """Return dropout(B_1 ‖ B_2 ‖ …) W without ever holding the concatenation.

    The same numbers are drawn as by `dropout` of the concatenation. Some rows are
    joined, dropped and multiplied at a time, in the backward pass once more.

    Parameters
    ----------
    blocks
        Of the same number of rows, [m, p_i] each.
    weight
        W, [Σ p_i, C].
    probability
        The dropped share, in [0, 1).
    training
        Whether to drop at all.
    """
    drops = training and _kept(probability) < CHOICES
    if not drops or weight.device.type != "cpu":
        joined = torch.cat(list(blocks), dim=1)
        return dropout(joined, probability, training) @ weight
    result: Tensor = _DroppedLinear.apply(weight, _kept(probability), *blocks)  # type: ignore[no-untyped-call]
    return result


class _DroppedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, kept: int, *blocks: Tensor) -> Tensor:
        scaled = weight * (CHOICES / kept)
        rows, width = blocks[0].shape[0], weight.shape[0]
        result = scaled.new_empty(rows, weight.shape[1])
        masks = []
        for part in _chunks(rows, width):
            joined = torch.cat([block[part] for block in blocks], dim=1)
            mask = _draw(joined.numel(), kept).view(joined.shape)
            torch.mm(joined.mul_(mask.to(joined.dtype)), scaled, out=result[part])
            masks.append(mask)
        ctx.kept, ctx.masks = kept, masks
        ctx.save_for_backward(weight, *blocks)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, *blocks = ctx.saved_tensors
        (grad,) = grads
        scale = CHOICES / ctx.kept
        transposed = weight.t() * scale
        rows, width = blocks[0].shape[0], weight.shape[0]
        widths = [block.shape[1] for block in blocks]
        of_weight = torch.zeros_like(weight)
        of_blocks = [torch.empty_like(block) for block in blocks]
        parts = _chunks(rows, width)
        for part, kept in zip(parts, ctx.masks, strict=True):
            mask = kept.to(weight.dtype)
            joined = torch.cat([block[part] for block in blocks], dim=1).mul_(mask)
            of_weight.addmm_(joined.t(), grad[part])
            torch.mm(grad[part], transposed, out=joined)
            for whole, own in zip(
                of_blocks, joined.mul_(mask).split(widths, 1), strict=True
            ):
                whole[part] = own
        return (of_weight.mul_(scale), None, *of_blocks)


def _kept(probability: float) -> int:
    """Return how many of CHOICES numbers keep an element."""
    return max(1, round((1 - probability) * CHOICES))


def _draw(count: int, kept: int) -> Tensor:
    """Return for each of `count` elements whether it is kept, drawn at random."""
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:count] < kept - CHOICES // 2


def _chunks(rows: int, width: int) -> Iterator[slice]:
    """Cut rows into parts of about CHUNK elements; all but the last a multiple of 4."""
    step = max(4, CHUNK // max(width, 1) // 4 * 4)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


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


def random_problem(states: Mapping[str, Tensor], device: torch.device) -> str | None:
    """Return why states of a file are not those of the generators, if so.

    torch itself would take a processor's whose place is beyond its numbers, and read
    on from there.

    Parameters
    ----------
    states, device
        As of `set_random_state`.
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
