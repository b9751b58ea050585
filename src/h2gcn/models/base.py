"""What the modules of several models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.features import FeatureTable, Input
from h2gcn.graph import CSR
from h2gcn.sparse import LinearMap, Operator, WeightedOperator, dropout
from h2gcn.training.module import NodeModule, soft_cross_entropy, tensor_problem

__all__ = [
    "ACTIVATIONS",
    "ExactSum",
    "NodeModule",
    "Summand",
    "Weighted",
    "by_distance",
    "dense_row",
    "drop",
    "follow",
    "glorot",
    "input_rows",
    "soft_cross_entropy",
    "tensor_problem",
    "uniform",
]

Numbers = NDArray[np.float64]
Weighted = tuple[NDArray[np.int64], Numbers]  # nodes and weights, [m] each


def _identity(r: Tensor) -> Tensor:
    return r


# σ by its name. Each works in place: a large graph leaves no room for a copy.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "elu": partial(functional.elu, inplace=True),
    "none": _identity,
}


def glorot(in_channels: int, *out_channels: int) -> nn.Parameter:
    """Return a weight as Glorot and Bengio draw it, [in_channels, out_channels].

    Of several widths, the blocks stand side by side, each drawn by itself.
    """
    weight = torch.empty(in_channels, sum(out_channels))
    for block in weight.split(out_channels, dim=1) if weight.numel() else ():
        nn.init.xavier_uniform_(block)
    return nn.Parameter(weight)


def uniform(bound: float, *shape: int) -> nn.Parameter:
    """Return a weight of some shape, drawn between -bound and bound."""
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def drop(
    x: Tensor | Operator, p: float, training: bool
) -> Tensor | Operator | WeightedOperator:
    """Return features with entries dropped; of sparse ones, the stored entries.

    Dropping a zero changes nothing, so both are the same dropout.
    """
    if not training or p == 0:
        return x
    return dropout(x, p) if isinstance(x, Tensor) else x.dropout(p)


@dataclass(frozen=True, eq=False)
class Summand:
    """A part of the exact sum that the logits of one node are.

    Parameters
    ----------
    values
        What it adds to the logit of each class, [C].
    name
        In words; of a block of a table empty, the block says it.
    block
        The block of the table that it is of; empty for none.
    columns
        The same by column of the input, or of the block, [width, C]; None where it
        cannot be split so.
    nodes, by_node
        The same by node, [m] and [m, C]; None where it cannot be split so, or where
        `weight` says how.
    weight, mean
        Of a block that is taken linearly: its columns z give (z - mean) @ weight,
        [width, C] and [width].
    """

    values: Numbers
    name: str = ""
    block: str = ""
    columns: Numbers | None = None
    nodes: NDArray[np.int64] | None = None
    by_node: Numbers | None = None
    weight: Numbers | None = None
    mean: Numbers | None = None

    @classmethod
    def linear(
        cls, block: str, row: Numbers, weight: Numbers, mean: Numbers | None = None
    ) -> Summand:
        """Return what the columns of a block give that are taken linearly.

        Parameters
        ----------
        block
            Of a table.
        row
            The node's columns of it, [width].
        weight, mean
            As of the class; no mean is zero.
        """
        mean = np.zeros(len(row)) if mean is None else mean
        columns = (row - mean)[:, None] * weight
        values = columns.sum(axis=0)
        return cls(values, "", block, columns, weight=weight, mean=mean)


@dataclass(frozen=True, eq=False)
class ExactSum:
    """The logits of one node as an exact sum.

    Parameters
    ----------
    parts
        Their values sum to the logits, up to rounding.
    how
        In a sentence what is exact, and how far it goes.
    of
        What the sum is: the "logit", or the "share" whose logarithm the logit is.
    """

    parts: tuple[Summand, ...]
    how: str
    of: str = "logit"


def input_rows(x: Input, index: NDArray[np.int64]) -> Numbers | CSR:
    """Return some rows of an input in double precision, [m, F]; sparse ones stay so."""
    if isinstance(x, FeatureTable):
        return x.rows(index).dense().astype(np.float64)
    if isinstance(x, Tensor):
        rows = x[torch.from_numpy(index).to(x.device)]
        return rows.detach().cpu().numpy().astype(np.float64)
    found = x.rows(index)
    if isinstance(found, Tensor):  # of a mapped file
        return found.cpu().numpy().astype(np.float64)
    return CSR(found.scipy.astype(np.float64))


def dense_row(x: Input, node: int) -> Numbers:
    """Return a node's row of an input in double precision, [F]."""
    found = input_rows(x, np.array([node]))
    row = found if isinstance(found, np.ndarray) else found.toarray()
    return np.asarray(row[0], dtype=np.float64)


def follow(operator: LinearMap, start: Weighted) -> Weighted:
    """Return a row vector times an operator, both as nodes and what they count.

    Parameters
    ----------
    operator
        [n, n].
    start
        The entries of the vector that are not zero.
    """
    nodes, weights = start
    rows = operator.take(nodes).astype(np.float64)
    found = CSR(sp.csr_array(weights[None, :]) @ rows)
    found.sort_indices()
    return found.indices.astype(np.int64), found.data


def by_distance(powers: Sequence[Weighted]) -> list[tuple[str, Weighted]]:
    """Return the sum of row vectors, apart by which of them first has each node.

    Parameters
    ----------
    powers
        The row of a node in powers 0, 1, … of an operator, each with its weight: which
        of them has a node first is how far away that node is.

    Returns
    -------
    list[tuple[str, Weighted]]
        "own features", "ring 1" and so on, with their part of the sum.
    """
    total: dict[int, float] = {}
    distance: dict[int, int] = {}
    for power, (nodes, weights) in enumerate(powers):
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            total[node] = total.get(node, 0.0) + weight
            distance.setdefault(node, power)
    members: dict[int, list[int]] = {}
    for node, hop in distance.items():
        members.setdefault(hop, []).append(node)
    return [
        (
            f"ring {hop}" if hop else "own features",
            (np.array(inside), np.array([total[node] for node in inside])),
        )
        for hop, inside in sorted(members.items())
    ]


# ------------------------------------------------------ goes when every model is ported
from h2gcn._validation import check_integer  # noqa: E402
from h2gcn.models.spec import MatrixMaker, ModelSpec  # noqa: E402, F401

MAX_STEPS, MAX_WIDTH = 10_000, 65_536


class Phase:
    def __init__(self, name="", steps=None):
        self.name, self.steps = name, steps


def check_sizes(in_channels, out_channels, hidden_channels):
    check_integer("hidden_channels", hidden_channels, 1, MAX_WIDTH)
