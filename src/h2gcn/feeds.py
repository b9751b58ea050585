"""What a training step sees: the whole graph, or one small piece after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import Split
from h2gcn.sparse import Operator, Target

__all__ = ["Feed", "Piece", "WholeGraph"]


class Piece(NamedTuple):
    """What a module is called with, and the nodes whose logits come out.

    Parameters
    ----------
    x
        Features of the nodes of this piece.
    operators
        The operators among them.
    target
        Which of them are wanted.
    nodes
        The same as numbers of the graph, [m].
    """

    x: Tensor | Operator
    operators: Sequence[Operator]
    target: Target
    nodes: NDArray[np.int64]


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
        x: Tensor | Operator,
        operators: Sequence[Operator],
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
