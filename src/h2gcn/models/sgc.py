"""SGC, a linear classifier of features that were smoothed over the graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from h2gcn._validation import check_integer
from h2gcn.models.base import NodeModule
from h2gcn.models.gcn import renormalised_adjacency
from h2gcn.sparse import Operator, Target

__all__ = ["MAX_POWER", "SGC", "renormalised_adjacency"]

MAX_POWER = 128
"""Of Â; by then every component is one shade."""


class SGC(NodeModule):
    r"""Simple graph convolution (Wu et al., ICML 2019).

    .. math::
        \text{logits} = \hat A^K X W + b

    The original program computes :math:`\hat A^K X` once and then fits a logistic
    regression. Here :math:`\hat A^K (X W)` is computed anew in every step: the same
    numbers from products |Y| columns wide, sparse features stay sparse, and the
    module holds no graph. As there, weights and biases are drawn uniformly from
    :math:`\pm 1/\sqrt F`, and nothing is dropped. The L2 penalty is on W; there the
    optimiser's decay is on b too.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    power
        K, how many times the features are mixed with the neighbours'.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator Â [n, n] (see
    `renormalised_adjacency`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    """

    def __init__(self, in_channels: int, out_channels: int, *, power: int = 2) -> None:
        super().__init__(in_channels, out_channels)
        check_integer("SGC", "in_channels", in_channels, 1)
        check_integer("SGC", "out_channels", out_channels, 1)
        self.power = check_integer("SGC", "power", power, 1, MAX_POWER)
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases anew."""
        bound = len(self.weight) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: K."""
        return self.power

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on."""
        return [self.weight]

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, [n, |Y|], or of the target's."""
        (a_hat,) = operators
        (last,) = operators if target is None else target.operators
        scores = x @ self.weight
        for _ in range(self.power - 1):
            scores = a_hat @ scores
        return last @ scores + self.bias
