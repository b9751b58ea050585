"""The logits of one node as an exact sum of contributions.

A model that is linear from some stage on is a sum over what enters that stage: hidden
vectors of nodes, labels, columns. Its `decompose` names the stage. Nothing is
approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.features import FeatureTable, Input
from h2gcn.graph import CSR
from h2gcn.sparse import Operator

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Contribution:
    """What some inputs add to the logits: the sum of the rows of inputs @ weight.

    Parameters
    ----------
    name
        In words. Empty for a block of a table, and for nodes that the caller groups.
    inputs, weight
        [m, F] and [F, C].
    nodes
        The node of each input, as a row of `x`, [m]; None if they are not nodes.
    has_columns
        Whether the F columns are those of the features, or of the block.
    block, mean
        The block of a table, and what was subtracted from its columns, [F].
    """

    name: str
    inputs: Numbers | CSR
    weight: Numbers
    nodes: NDArray[np.int64] | None = None
    has_columns: bool = False
    block: str = ""
    mean: Numbers | None = None

    @cached_property
    def by_node(self) -> Numbers:
        """What each input adds, [m, C]."""
        return np.asarray(self.inputs @ self.weight)

    @property
    def by_column(self) -> Numbers:
        """What each column adds, [F, C]."""
        return np.asarray(self.inputs.sum(axis=0))[:, None] * self.weight

    @cached_property
    def values(self) -> Numbers:
        """What all of them add, [C]."""
        return np.asarray(self.by_node.sum(axis=0))

    def select(self, chosen: NDArray[np.bool_], name: str) -> Contribution:
        """Return what the chosen of its nodes, [m], add."""
        assert self.nodes is not None
        inputs, nodes = self.inputs[chosen], self.nodes[chosen]
        return replace(self, name=name, inputs=inputs, nodes=nodes)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The logits of one node as a sum.

    Parameters
    ----------
    contributions
        They sum to the logits, up to rounding.
    how
        In a sentence, how far the sum is split, and why not further.
    scale
        Whether they sum to the logits or to the class shares, whose logarithms the
        logits are.
    """

    contributions: tuple[Contribution, ...]
    how: str
    scale: Literal["logit", "share"] = "logit"


def constant(name: str, values: Numbers) -> Contribution:
    """Return the contribution of no input, such as a bias, [C]."""
    return Contribution(name, np.ones((1, 1)), values[None])


def gradient_times_input(f: Callable[[Tensor], Tensor], h: Tensor) -> Numbers:
    """Split f(h), [k], by node, [n, k]; exact where f is linear in h, [n, p]."""
    h = h.detach().requires_grad_()
    with torch.enable_grad():
        outputs = f(h).unbind()
    by_output = []
    for output in outputs:
        (slope,) = torch.autograd.grad(output, h, retain_graph=True)
        by_output.append((slope * h.detach()).sum(dim=1))
    return to_numpy(torch.stack(by_output, dim=1))


def node_weights(f: Callable[[Tensor], Tensor], x: Input) -> Numbers:
    """Return how much each node counts where f propagates one column, [n, k]."""
    dtype = torch.float32 if x.device.type == "mps" else torch.float64  # MPS has none
    ones = torch.ones(x.shape[0], 1, dtype=dtype, device=x.device)
    return gradient_times_input(f, ones)


def decompose_paths(
    f: Callable[[Tensor], Tensor],
    h: Input,
    maps: Mapping[str, Numbers],
    *,
    has_columns: bool = False,
) -> tuple[Contribution, ...]:
    """Split Σ_k w_k · h · map_k by path k and by node.

    Parameters
    ----------
    f
        Propagates one column, [n, 1], to the target node along each path: w · h, [k].
    h
        What nodes send, [n, p].
    maps
        The map of each path to the logits, [p, C], by its name.
    has_columns
        Whether h are the features.
    """
    assert isinstance(h, Tensor | Operator)
    contributions, weights = [], node_weights(f, h)
    for weight, (name, to_logits) in zip(weights.T, maps.items(), strict=True):
        nodes = np.flatnonzero(weight)
        rows = h.take(nodes) if isinstance(h, Operator) else to_numpy(h[nodes])
        inputs: Any = sp.diags_array(weight[nodes]) @ rows
        contributions.append(Contribution(name, inputs, to_logits, nodes, has_columns))
    return tuple(contributions)


def decompose_columns(
    row: FeatureTable, inputs: Numbers, weight: Numbers, mean: Numbers | None = None
) -> tuple[Contribution, ...]:
    """Split inputs @ weight, [D] and [D, C], by the blocks of a table and by column.

    With a mean, [D], the inputs are the columns less their mean.
    """
    contributions, first = [], 0
    for block, columns in row.blocks.items():
        of = slice(first, first + columns.shape[1])
        centers = None if mean is None else mean[of]
        contributions.append(
            Contribution("", inputs[None, of], weight[of], None, True, block, centers)
        )
        first = of.stop
    return tuple(contributions)


def to_numpy(values: Tensor) -> Numbers:
    """Return numbers in double precision, without their gradient."""
    return values.detach().cpu().numpy().astype(np.float64)
