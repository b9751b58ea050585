"""Rows of which others have more, multiplied to the same bits whoever has them.

What a processor makes of a row may depend on how many rows are multiplied with it, and
a sum on the order of its terms. So rows are cut into blocks that are the same however
many processes share them out: a block is multiplied with weights by itself (`linear`),
and what blocks say of a weight is added up by those who have them (`Blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = [
    "Blocks",
    "aligned",
    "by_blocks",
    "current_blocks",
    "in_blocks",
    "linear",
    "pieces",
]

ALIGNED = 64
"""Bytes: a processor reads what begins elsewhere in another way."""


class Blocks(Protocol):
    """How the rows that are here are cut, and what is made of weights."""

    def parts(self, nodes: Tensor | None) -> list[slice]:
        """Return where the blocks are among the rows of some nodes; at least one.

        Parameters
        ----------
        nodes
            Ascending, [m]; None is all that are here.
        """
        ...

    def rows_of(self, x: Any) -> Sequence[Any]:
        """Return the blocks of a sparse matrix with a row for each node here."""
        ...

    def shared(self, weight: Tensor, count: int) -> Sequence[Tensor]:
        """Return a weight so many times; its gradient is the sum of all blocks'."""
        ...

    def dropped(
        self,
        read: Sequence[Tensor],
        level: Sequence[Tensor],
        last: Sequence[Any],
        weight: Tensor,
        drawn: Any,
    ) -> Tensor:
        """Return dropout(B_1 ‖ … ‖ A_1 L_1 ‖ A_1 L_2 ‖ … ‖ A_2 L_1 ‖ …) W, [m, C].

        Parameters
        ----------
        read
            B, of the nodes that are wanted, [m, p] each.
        level
            L, of all nodes, [n, p] each.
        last
            A, the rows of operators for the nodes that are wanted.
        weight
            W.
        drawn
            What of it is kept, a `Draw`.
        """
        ...


_BLOCKS: ContextVar[Blocks | None] = ContextVar("blocks", default=None)


@contextmanager
def in_blocks(blocks: Blocks | None) -> Iterator[None]:
    """Have `by_blocks` and `linear` go by some blocks; None has them do all at once."""
    before = _BLOCKS.set(blocks)
    try:
        yield
    finally:
        _BLOCKS.reset(before)


def current_blocks() -> Blocks | None:
    """Return the blocks that rows are in."""
    return _BLOCKS.get()


def by_blocks(
    work: Callable[..., Tensor],
    weight: Tensor,
    rows: Sequence[Tensor],
    nodes: Tensor | None = None,
) -> Tensor:
    """Return what is made of rows and a weight, a row each, block by block.

    Parameters
    ----------
    work
        Called with the weight, where the rows of a block are, and these.
    weight
        Of any shape.
    rows
        Matrices with the same rows, [m, p_i].
    nodes
        Which nodes they are of, ascending, [m]; None is all that are here.
    """
    blocks = _BLOCKS.get()
    if blocks is None:
        return work(weight, slice(None), *rows)
    parts = blocks.parts(nodes)
    weights = blocks.shared(weight, len(parts))
    cut = zip(*(pieces(one, parts) for one in rows), strict=True)
    found = [work(*each, *own) for *each, own in zip(weights, parts, cut, strict=True)]
    result: Tensor = _Joined.apply(parts, *found)  # type: ignore[no-untyped-call]
    return result


def linear(x: Any, weight: Tensor, nodes: Tensor | None = None) -> Tensor:
    """Return the product of rows and a weight, [m, C].

    Parameters
    ----------
    x
        A tensor, or a sparse matrix of all nodes that are here, [m, p].
    weight
        [p, C].
    nodes
        As of `by_blocks`.
    """
    blocks = _BLOCKS.get()
    if blocks is None:
        found: Tensor = x @ weight
        return found
    if isinstance(x, Tensor):
        return by_blocks(lambda own, _, rows: rows @ own, weight, [x], nodes)
    parts = blocks.rows_of(x)
    weights = blocks.shared(weight, len(parts))
    each = [rows @ own for rows, own in zip(parts, weights, strict=True)]
    joined: Tensor = _Joined.apply(blocks.parts(None), *each)  # type: ignore[no-untyped-call]
    return joined


def pieces(rows: Tensor, parts: Sequence[slice]) -> Sequence[Tensor]:
    """Return consecutive parts of all rows, each where memory is aligned."""
    found: Sequence[Tensor] = _Cut.apply(parts, rows)  # type: ignore[no-untyped-call]
    return found


def aligned(rows: Tensor, parts: Sequence[slice]) -> tuple[Tensor, ...]:
    """Return parts of some rows as `pieces`, of which no gradient is taken."""
    found = (rows[part] for part in parts)
    return tuple(p.clone() if p.data_ptr() % ALIGNED else p for p in found)


class _Cut(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, parts: Sequence[slice], rows: Tensor) -> tuple[Tensor, ...]:
        return aligned(rows.contiguous(), parts)

    @staticmethod
    def backward(_: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, torch.cat(grads)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Sequence[slice], *found: Tensor) -> Tensor:
        ctx.parts = parts
        return torch.cat(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *aligned(grads[0].contiguous(), ctx.parts)
