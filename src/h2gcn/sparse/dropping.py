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
    "Draw",
    "draw",
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
CHUNK = 2**18
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
    that number, the row's node and the column (`kernels.drop`). So a node's row is
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
    drawn = None
    if training and weight.device.type == "cpu":
        drawn = draw(probability, len(blocks[0]) if nodes is None else nodes)
    if drawn is None:
        joined = torch.cat(list(blocks), dim=1)
        return dropout(joined, probability, training) @ weight
    product: Tensor = _DroppedLinear.apply(weight, drawn, *blocks)  # type: ignore[no-untyped-call]
    return product


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

    @property
    def scale(self) -> float:
        """What is kept counts so many times."""
        return CHOICES / self.kept

    def drop(self, rows: Tensor, first: int = 0) -> Tensor:
        """Make columns from `first` on, [m, c], zero where they are not kept."""
        self._drop(rows[None], first)
        return rows

    def _drop(self, blocks: Tensor, first: int) -> None:
        """Do so for blocks of columns, [b, m, c]."""
        from h2gcn.sparse.kernels import drop

        bits = blocks.numpy().view(f"i{blocks.element_size()}")
        drop(bits, self.nodes, first, np.uint64(self.key), self.kept)

    def turned(self, weight: Tensor) -> Tensor:
        """Return the transpose of W, scaled, [C, Σ p_i].

        Row by row in memory: torch's products of few columns are then the quickest.
        """
        return (weight * self.scale).t().contiguous()

    def multiply(self, joined: Tensor, turned: Tensor) -> Tensor:
        """Return the product of what is kept with W, [m, C], dropping in place."""
        result = joined.new_empty(len(turned), len(joined))
        for part in _chunks(*joined.shape):
            rows = self.of(part).drop(joined[part])
            torch.mm(turned, rows.t(), out=result[:, part])
        return result.t().contiguous()

    def product(self, blocks: Sequence[Tensor], turned: Tensor) -> Tensor:
        """Return the product of what is kept of some blocks with W, [m, C].

        Parameters
        ----------
        blocks
            Side by side, [m, p_i] each.
        turned
            Of `turned`.
        """
        width = turned.shape[1]
        parts = [
            self.of(part).multiply(joined, turned)
            for part, joined in _joined(blocks, width)
        ]
        return torch.cat(parts)

    def weight_gradient(self, grad: Tensor, blocks: Sequence[Tensor]) -> Tensor:
        """Return the gradient of W, of that of `product`, [Σ p_i, C]."""
        width = sum(block.shape[1] for block in blocks)
        found = grad.new_zeros(grad.shape[1], width)
        for part, joined in _joined(blocks, width):
            found.addmm_(grad[part].t(), self.of(part).drop(joined))
        return found.t() * self.scale

    def gradient(self, grad: Tensor, turned: Tensor, columns: slice) -> Tensor:
        """Return the gradient of some columns, of that of the product, [m, C]."""
        return self.drop(grad @ turned[:, columns], columns.start)

    def gradients(self, grad: Tensor, turned: Tensor, out: Tensor) -> None:
        """Write the gradients of all columns, in blocks of as many, [b, m, c].

        As many blocks at a time as fit in the cache.
        """
        n_blocks, m, width = out.shape
        weights = turned.view(-1, n_blocks, width).transpose(0, 1)
        step = max(1, CHUNK // max(m * width, 1))
        for first in range(0, n_blocks, step):
            some = out[first : first + step]
            grads = grad.expand(len(some), *grad.shape)
            torch.bmm(grads, weights[first : first + step], out=some)
            self._drop(some, first * width)

    def of(self, part: slice) -> Draw:
        """Return the same for some rows."""
        return self._replace(nodes=self.nodes[part])


def draw(probability: float, nodes: Tensor | int) -> Draw | None:
    """Return which elements of some rows are kept, None where all of them are.

    Parameters
    ----------
    probability
        The dropped share, in [0, 1).
    nodes
        Which node each row is of, [m], or how many rows there are.
    """
    kept = _kept(probability)
    if kept == CHOICES:
        return None
    named = np.arange(nodes) if isinstance(nodes, int) else nodes.numpy()
    return Draw(int(torch.randint(2**63 - 1, ())), named, kept)


class _DroppedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, drawn: Draw, *blocks: Tensor) -> Tensor:
        ctx.drawn = drawn
        ctx.save_for_backward(weight, *blocks)
        return drawn.product(blocks, drawn.turned(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, *blocks = ctx.saved_tensors
        grad, drawn = grads[0].contiguous(), ctx.drawn
        turned = drawn.turned(weight)
        of_weight = drawn.weight_gradient(grad, blocks)
        of_blocks, first = [], 0
        for block in blocks:
            columns = slice(first, first + block.shape[1])
            of_blocks.append(drawn.gradient(grad, turned, columns))
            first = columns.stop
        return (of_weight, None, *of_blocks)


def _joined(blocks: Sequence[Tensor], width: int) -> Iterator[tuple[slice, Tensor]]:
    """Give some rows of all blocks at a time, side by side."""
    for part in _chunks(len(blocks[0]), width):
        yield part, torch.cat([block[part] for block in blocks], dim=1)


def _kept(probability: float) -> int:
    """Return how many of CHOICES numbers keep an element."""
    return max(1, round((1 - probability) * CHOICES))


def _draw(count: int, kept: int) -> Tensor:
    """Return for each of `count` elements whether it is kept, drawn at random."""
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:count] < kept - CHOICES // 2


def _chunks(rows: int, width: int) -> Iterator[slice]:
    """Cut rows into parts of about CHUNK elements; at least one."""
    step = max(4, CHUNK // max(width, 1) // 4 * 4)
    for first in range(0, max(rows, 1), step):
        yield slice(first, min(first + step, rows))


_TURN = RLock()
"""torch's generators are those of all threads: one thread at a time has them."""


def _renew() -> None:
    """Go on in a forked process, which has none of the other threads.

    Nobody has the turn, and torch no longer waits for threads of its OpenMP.
    """
    global _TURN
    _TURN = RLock()
    torch.set_num_threads(1)


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
