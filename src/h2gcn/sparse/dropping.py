"""Dropout, several times faster than torch's own, and the generator it draws from."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
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
    blocks: Sequence[Tensor],
    weight: Tensor,
    probability: float,
    training: bool = True,
    nodes: Tensor | None = None,
) -> Tensor:
    """Return dropout(B_1 ‖ B_2 ‖ …) W without ever holding the concatenation.

    torch's generator gives one number a call; whether an element is kept follows from
    that number, the row's node and the column (`write_kept`). So a node's row is
    dropped in the same way whichever other rows are there, and nothing is kept for the
    backward pass, which asks again. Some rows are joined, dropped and multiplied at a
    time.

    Parameters
    ----------
    blocks
        Of the same number of rows, [m, p_i] each.
    weight
        W, [Σ p_i, C].
    probability
        The dropped share, in [0, 1), rounded as by `dropout`.
    training
        Whether to drop at all.
    nodes
        Which node each row is of, [m]; None numbers the rows.
    """
    drops = training and _kept(probability) < CHOICES
    if not drops or weight.device.type != "cpu":
        joined = torch.cat(list(blocks), dim=1)
        return dropout(joined, probability, training) @ weight
    if nodes is None:
        nodes = torch.arange(blocks[0].shape[0])
    key = int(torch.randint(2**63 - 1, ()))
    drawn = Draw(key, nodes.numpy(), _kept(probability))
    result: Tensor = _DroppedLinear.apply(weight, drawn, *blocks)  # type: ignore[no-untyped-call]
    return result


class Draw(NamedTuple):
    """Which elements of a matrix are kept.

    Parameters
    ----------
    key
        The number that was drawn.
    nodes
        Of the rows, [m].
    kept
        How many of CHOICES numbers keep an element.
    """

    key: int
    nodes: NDArray[np.int64]
    kept: int

    def join(self, blocks: Sequence[Tensor], part: slice, joined: Tensor) -> None:
        """Write what is kept of some rows of all blocks, side by side, else zero."""
        first = 0
        for block in blocks:
            self._write(
                block[part].contiguous(), 0, joined, first, block.shape[1], part, first
            )
            first += block.shape[1]

    def split(self, joined: Tensor, part: slice, blocks: Sequence[Tensor]) -> None:
        """Write what is kept of some rows to the blocks, else zero."""
        first = 0
        for block in blocks:
            self._write(joined, first, block[part], 0, block.shape[1], part, first)
            first += block.shape[1]

    def _write(
        self,
        given: Tensor,
        at: int,
        out: Tensor,
        to: int,
        width: int,
        part: slice,
        first: int,
    ) -> None:
        from h2gcn.sparse.kernels import write_kept

        bits = f"i{out.element_size()}"
        old, new = given.numpy().view(bits), out.numpy().view(bits)
        nodes, key = self.nodes[part], np.uint64(self.key)
        write_kept(old, at, new, to, width, nodes, first, key, self.kept)


class _DroppedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, drawn: Draw, *blocks: Tensor) -> Tensor:
        scaled = weight * (CHOICES / drawn.kept)
        rows, width = blocks[0].shape[0], weight.shape[0]
        result = scaled.new_empty(rows, weight.shape[1])
        for part in _chunks(rows, width):
            joined = scaled.new_empty(part.stop - part.start, width)
            drawn.join(blocks, part, joined)
            torch.mm(joined, scaled, out=result[part])
        ctx.drawn = drawn
        ctx.save_for_backward(weight, *blocks)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, *blocks = ctx.saved_tensors
        (grad,), drawn = grads, ctx.drawn
        scale = CHOICES / drawn.kept
        transposed = weight.t() * scale
        rows, width = blocks[0].shape[0], weight.shape[0]
        of_weight = torch.zeros_like(weight)
        of_blocks = [torch.empty(block.shape, dtype=block.dtype) for block in blocks]
        for part in _chunks(rows, width):
            joined = weight.new_empty(part.stop - part.start, width)
            drawn.join(blocks, part, joined)
            of_weight.addmm_(joined.t(), grad[part])
            torch.mm(grad[part], transposed, out=joined)
            drawn.split(joined, part, of_blocks)
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
