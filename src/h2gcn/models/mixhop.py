"""MixHop, which mixes powers of the adjacency matrix."""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from h2gcn.exceptions import InputError
from h2gcn.models.base import ACTIVATIONS, drop, glorot
from h2gcn.models.options import Activation, Check, Dropout, InputDropout, Width
from h2gcn.sparse import Operator, Propagation, WeightedOperator, dropout
from h2gcn.training import NodeModule

VARIANCE_FLOOR = 1e-3  # added to the variances in the batch normalization
LENGTH_FLOOR = 1e-6  # rows of features are divided by at least this length
PENALTY = 1e-3  # weight of the penalty on the scores of the powers


def _check_powers(name: str, value: Any) -> tuple[int, ...]:
    """Return the powers in ascending order, or raise."""
    powers = value if isinstance(value, list | tuple) else ()
    valid = {
        int(p)
        for p in powers
        if isinstance(p, Integral) and not isinstance(p, bool) and int(p) >= 0
    }
    if not valid or len(valid) < len(powers):
        rule = "must be distinct integers, 0 or larger, at least one"
        raise InputError(rule, param=name, value=value)
    return tuple(sorted(valid))


class MixHop(NodeModule):
    """Two-layer MixHop (Abu-El-Haija et al., ICML 2019).

        Â = D^-1/2 (A + I) D^-1/2
        H = σ(BN(‖_p Âᵖ X̄ W_p))
        logits = Σ_p softmax(q)_p Âᵖ dropout(H) W'_p

    with the powers p ∈ P, and the rows of X̄ those of dropout(X), scaled to length 1.
    Weights come first, and the powers share their products: for P = {0, 1, 2} the first
    layer is X̄W₀ ‖ Â(X̄W₁ ‖ Â(X̄W₂)), the second Z₀ + Â(Z₁ + ÂZ₂) with
    Z_p = softmax(q)_p HW'_p, only C columns wide.

    As in the authors' program: Glorot-uniform weights without biases; a batch
    normalization with a shift β and no scale; the L2 penalty on all W and W', and
    10⁻³ mean(q²) beside it. The normalization takes means and variances of all nodes of
    the graph at hand, in evaluation too, since the program never tells its layer that
    training is over. So every node's logits depend on all nodes.

    Departures from the authors' program: features are taken as they are, where it
    replaces what is not zero by one; the learning rate stays the same, where it
    subtracts a hundredth of the first one every 40 steps. PyG's MixHopConv has biases,
    and neither scales rows to length 1 nor weighs the powers of an output layer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Annotated[
            Width, "Width of the hidden layer, of all powers together"
        ] = 64,
        powers: Annotated[
            tuple[int, ...], Check(_check_powers), "Powers of the matrix"
        ] = (0, 1, 2),
        activation: Activation = "relu",
        input_dropout: InputDropout = 0.7,
        dropout: Dropout = 0.9,
    ) -> None:
        super().__init__(in_channels, out_channels)
        if hidden_channels < len(powers):
            rule = f"must be at least {len(powers)}, a column for each power"
            raise InputError(rule, param="hidden_channels", value=hidden_channels)
        self.powers, self.activation = powers, activation
        self.input_dropout, self.dropout = input_dropout, dropout
        # Equal widths; the largest power has the remainder too.
        width, rest = divmod(hidden_channels, len(powers))
        self.widths = [width] * (len(powers) - 1) + [width + rest]
        self.first = glorot(in_channels, *self.widths)
        self.shift = nn.Parameter(torch.zeros(hidden_channels))
        self.second = glorot(hidden_channels, *[out_channels] * len(powers))
        self.scores = nn.Parameter(torch.zeros(len(powers)))

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return W and W'."""
        return [self.first, self.second]

    def penalty(self) -> Tensor:
        """Return what is added to the training loss for the scores of the powers."""
        return PENALTY * self.scores.square().mean()

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        dropped = drop(x, self.input_dropout, self.training)
        hidden = _normalize(self._mix(dropped, graph), self.shift)
        hidden = ACTIVATIONS[self.activation](hidden)
        hidden = dropout(hidden, self.dropout, self.training)
        return self._classify(hidden, graph)

    def _mix(
        self, x: Tensor | Operator | WeightedOperator, graph: Propagation
    ) -> Tensor:
        """Return Âᵖ X̄ W_p of each power side by side, [n, hidden_channels]."""
        lengths = x.norm(dim=1) if isinstance(x, Tensor) else x.row_norms()
        product = (x @ self.first) / lengths.clamp_min(LENGTH_FLOOR)[:, None]
        blocks = dict(zip(self.powers, product.split(self.widths, dim=1), strict=True))
        joined: Tensor = blocks[self.powers[-1]]
        for power in reversed(range(self.powers[-1])):
            joined = graph.matrices[0] @ joined
            if power in blocks:
                joined = torch.cat([blocks[power], joined], dim=1)
        return joined

    def _classify(self, hidden: Tensor, graph: Propagation) -> Tensor:
        """Return Σ_p softmax(q)_p Âᵖ hidden W'_p of the target nodes, [m, C]."""
        parts = (hidden @ self.second).chunk(len(self.powers), dim=1)
        weighted = [q * z for q, z in zip(self.scores.softmax(0), parts, strict=True)]
        blocks = dict(zip(self.powers, weighted, strict=True))
        total: Tensor = blocks[self.powers[-1]]
        for power in reversed(range(1, self.powers[-1])):
            total = graph.matrices[0] @ total
            if power in blocks:
                total = total + blocks[power]
        if self.powers[-1] == 0:
            return graph.pick(total)
        total = graph.rows[0] @ total
        return total + graph.pick(blocks[0]) if 0 in blocks else total


def _normalize(hidden: Tensor, shift: Tensor) -> Tensor:
    """Return columns of mean zero and variance one, plus their shifts."""
    # torch.batch_norm multiplies before it subtracts the mean, which loses the digits
    # of a column that hardly varies. What is subtracted has no gradient.
    near_zero = hidden - hidden.detach().mean(dim=0)
    return torch.batch_norm(
        near_zero, None, shift, None, None, True, 0.0, VARIANCE_FLOOR, False
    )
