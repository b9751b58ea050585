"""MixHop, the baseline that mixes powers of the adjacency matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.models.base import (
    ACTIVATIONS,
    MAX_WIDTH,
    NodeModule,
    check_sizes,
    drop,
)
from h2gcn.sparse import LinearMap, Operator, Propagation, WeightedOperator, dropout

__all__ = ["MixHop"]

VARIANCE_FLOOR = 1e-3  # added to the variances in the batch normalization
LENGTH_FLOOR = 1e-6  # rows of features are divided by at least this length
PENALTY = 1e-3  # weight of the penalty on the scores of the powers


class MixHop(NodeModule):
    """Two-layer MixHop (Abu-El-Haija et al., ICML 2019).

        H = σ(BN(‖_p Âᵖ X̄ W_p))
        logits = Σ_p softmax(q)_p Âᵖ dropout(H) W'_p

    with Â = D^-1/2 (A + I) D^-1/2, the powers p ∈ P, and the rows of X̄ those of
    dropout(X), scaled to length 1. Weights come first, and the powers share their
    products: for P = {0, 1, 2} the first layer is X̄W₀ ‖ Â(X̄W₁ ‖ Â(X̄W₂)), the second
    Z₀ + Â(Z₁ + ÂZ₂) with Z_p = softmax(q)_p HW'_p, only |Y| columns wide.

    As in the original program: Glorot-uniform weights without biases; a batch
    normalization with a shift β and no scale; the L2 penalty on all W and W', and
    10⁻³ mean(q²) beside it. The normalization takes means and variances of all
    nodes of the graph at hand, in evaluation too, since the program never tells its
    layer that training is over. So every node's logits depend on all nodes.

    Departures from the original program: features are taken as they are, where it
    replaces what is not zero by one; the learning rate stays the same, where it
    subtracts a hundredth of the first one every 40 steps. PyG's MixHopConv has biases,
    and neither scales rows to length 1 nor weighs the powers of an output layer.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer, all powers together. Each has an equal share, the
        largest power also the remainder: 64 is 21 + 21 + 22.
    powers
        P: distinct integers, 0 or larger, in any order.
    activation
        σ, "relu", "elu" or "none".
    input_dropout
        Dropped fraction of the features, while training.
    dropout
        Dropped fraction of the hidden layer, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the only operator Â [n, n],
    logits [m, |Y|] of m target nodes. With a target, only the last product is
    restricted to its rows.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        powers: Sequence[int] = (0, 1, 2),
        activation: str = "relu",
        input_dropout: float = 0.7,
        dropout: float = 0.9,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.powers = _check_powers(powers)
        count = len(self.powers)
        check_integer("hidden_channels", hidden_channels, count, MAX_WIDTH)
        check_choice("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.input_dropout = check_real("input_dropout", input_dropout, "[0, 1)")
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        share, rest = divmod(hidden_channels, count)
        self.widths = [share] * (count - 1) + [share + rest]
        self.first = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.shift = nn.Parameter(torch.empty(hidden_channels))
        self.second = nn.Parameter(torch.empty(hidden_channels, count, out_channels))
        self.scores = nn.Parameter(torch.empty(count))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform, power by power); β and q are 0."""
        for block in (
            *self.first.detach().split(self.widths, dim=1),
            *self.second.detach().unbind(dim=1),
        ):
            bound = math.sqrt(6 / sum(block.shape))
            block.uniform_(-bound, bound)
        nn.init.zeros_(self.shift)
        nn.init.zeros_(self.scores)

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: W and W'."""
        return [self.first, self.second]

    def penalty(self) -> Tensor:
        """Return what is added to the training loss for the scores of the powers."""
        return PENALTY * self.scores.square().mean()

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, |Y|]."""
        (a_hat,) = graph.matrices
        hidden = self._mix(drop(x, self.input_dropout, self.training), a_hat)
        hidden = ACTIVATIONS[self.activation](self._normalised(hidden))
        hidden = dropout(hidden, self.dropout, self.training)
        return self._classify(hidden, graph)

    def _normalised(self, hidden: Tensor) -> Tensor:
        """Return columns of mean zero and variance one, plus their shifts."""
        # torch.batch_norm multiplies before it subtracts the mean, which loses the
        # digits of a column that hardly varies. What is subtracted has no gradient.
        near_zero = hidden - hidden.detach().mean(dim=0)
        floor = VARIANCE_FLOOR
        return torch.batch_norm(
            near_zero, None, self.shift, None, None, True, 0.0, floor, False
        )

    def _mix(self, x: Tensor | Operator | WeightedOperator, a_hat: LinearMap) -> Tensor:
        """Return the powers' blocks side by side, [n, hidden]."""
        lengths = x.norm(dim=1) if isinstance(x, Tensor) else x.row_norms()
        product = (x @ self.first) / lengths.clamp_min(LENGTH_FLOOR)[:, None]
        blocks = dict(zip(self.powers, product.split(self.widths, dim=1), strict=True))
        joined: Tensor = blocks[self.powers[-1]]
        for power in range(self.powers[-1] - 1, -1, -1):
            joined = a_hat @ joined
            if power in blocks:
                joined = torch.cat([blocks[power], joined], dim=1)
        return joined

    def _classify(self, hidden: Tensor, graph: Propagation) -> Tensor:
        """Return the weighted sum of the second layer's blocks, [m, |Y|]."""
        share = torch.softmax(self.scores, dim=0)
        weight = self.second * share[:, None]
        z = (hidden @ weight.flatten(1)).view(len(hidden), *weight.shape[1:])
        blocks = dict(zip(self.powers, z.unbind(1), strict=True))
        total: Tensor = blocks[self.powers[-1]]
        if self.powers[-1] == 0:
            return graph.pick(total)
        for power in range(self.powers[-1] - 1, 0, -1):
            total = graph.matrices[0] @ total
            if power in blocks:
                total = total + blocks[power]
        total = graph.rows[0] @ total
        return total + graph.pick(blocks[0]) if 0 in blocks else total


def _check_powers(powers: object) -> tuple[int, ...]:
    """Return the powers in ascending order, or raise."""
    given = powers if isinstance(powers, list | tuple) else ()
    valid = [
        int(p)
        for p in given
        if isinstance(p, Integral) and not isinstance(p, bool) and int(p) >= 0
    ]
    if not valid or len(set(valid)) < len(given):
        raise InputError(
            "must be distinct integers, 0 or larger, at least one",
            param="powers",
            value=powers,
        )
    return tuple(sorted(valid))
