"""What a training step sees: the whole graph, or one small piece after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from h2gcn.graph import Split, slices
from h2gcn.sparse import Input, LinearMap, Target
from h2gcn.training.pieces import Piece, gather

__all__ = ["Feed", "MiniBatches", "Piece", "WholeGraph", "find_feed"]


class Feed(Protocol):
    """Gives the pieces of a graph, epoch by epoch."""

    def steps(self, epoch: int) -> Iterator[Piece]:
        """Return the pieces of an epoch's training steps; together, all of `train`."""
        ...

    def validation(self) -> Iterator[Piece]:
        """Return the pieces whose nodes are, in order, those of `val`."""
        ...


class WholeGraph:
    """One piece an epoch: every training node, the operators as they are.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        The model's operators of the graph, [n, n] each.
    split
        Its `train` and `val` parts are used.
    device
        Where the model is.
    """

    def __init__(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        device: torch.device,
    ) -> None:
        self._train, self._val = (
            Piece(x, operators, Target.of(operators, index, device), index)
            for index in (split.train, split.val)
        )

    def steps(self, epoch: int) -> Iterator[Piece]:
        """Return the one piece."""
        del epoch
        yield self._train

    def validation(self) -> Iterator[Piece]:
        """Return the piece of the validation nodes."""
        yield self._val


class MiniBatches:
    """A few training nodes a step, each with no more of the graph than it needs.

    In every epoch the training nodes are shuffled, by a generator of seed and epoch
    alone, and cut into batches of one size or one less. Validation nodes are taken in
    order, as many at a time.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        The model's operators of the graph, [n, n] each.
    split
        Its `train` and `val` parts are used.
    batch_size
        At most so many nodes a step.
    reach
        The module's; see `gather`.
    device
        Where the model is.
    seed
        Of the order.
    """

    def __init__(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        split: Split,
        batch_size: int,
        reach: int,
        device: torch.device,
        seed: int,
    ) -> None:
        self._x, self._operators, self._split = x, operators, split
        self._batch_size, self._reach, self._device = batch_size, reach, device
        self._seed = seed

    def steps(self, epoch: int) -> Iterator[Piece]:
        """Return a piece for each batch."""
        train = np.random.default_rng((self._seed, epoch)).permutation(
            self._split.train
        )
        # Of one size: a step for the few that are left over would count as much.
        n_batches = -(-len(train) // self._batch_size)
        for batch in np.array_split(train, n_batches):
            yield self._piece(batch)

    def validation(self) -> Iterator[Piece]:
        """Return the pieces of the validation nodes."""
        val = self._split.val
        for part in slices(len(val), self._batch_size):
            yield self._piece(val[part])

    def _piece(self, nodes: NDArray[np.int64]) -> Piece:
        return gather(self._x, self._operators, nodes, self._reach, self._device)


def find_feed(
    model: nn.Module,
    x: Input,
    operators: Sequence[LinearMap],
    split: Split,
    batch_size: int | None,
    seed: int,
) -> Feed:
    """Return the whole graph, or batches of it where a `batch_size` is given."""
    device = next(model.parameters()).device
    if batch_size is None:
        return WholeGraph(x, operators, split, device)
    reach: int = model.reach  # type: ignore[assignment]
    return MiniBatches(x, operators, split, batch_size, reach, device, seed)
