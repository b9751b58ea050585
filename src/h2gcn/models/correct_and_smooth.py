"""Correct and smooth: a predictor without the graph, its errors and labels spread."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.features import FeatureTable
from h2gcn.models.base import ACTIVATIONS, MAX_STEPS, MAX_WIDTH
from h2gcn.models.label_propagation import log_shares
from h2gcn.models.table_net import TableModule, TableNet, table_rows
from h2gcn.sparse import NO_GRAPH, Propagation

__all__ = ["CorrectAndSmooth", "LinearTable"]

BASES = ("mlp", "linear")
CORRECTIONS = ("autoscale", "fixed", "none")
MAX_GAMMA = 1000  # an error that would be scaled by more is not scaled, as published


class CorrectAndSmooth(TableModule):
    """Correct and smooth (Huang, He, Singh, Lim and Benson, ICLR 2021).

        Z = softmax(base(X))
        E⁽⁰⁾ = Y − Z on training nodes, 0 elsewhere
        E⁽ᵗ⁺¹⁾ = α₁ S E⁽ᵗ⁾ + (1 − α₁) E⁽⁰⁾               correct
        G⁽⁰⁾ = Y on training nodes, Z + γ E elsewhere
        G⁽ᵗ⁺¹⁾ = α₂ S G⁽ᵗ⁾ + (1 − α₂) G⁽⁰⁾               smooth
        logits = log(G_v / Σ_c G_vc)

    with S = D^-1/2 A D^-1/2 and the one-hot training labels Y. A base predictor without
    the graph is trained as usual. The rest takes place at every prediction, with the
    training labels of that graph; where it has none, only the smoothing is left.

    With "autoscale" E is clipped to ±1 in every step, and γ is σ / ‖E_v‖₁ for each
    node, with the mean σ of ‖E⁽⁰⁾‖₁ over the training nodes; it is 1 where that exceeds
    1000. With "fixed" the errors of training nodes are clamped, those of others are the
    means over their neighbors, D⁻¹ A E, and γ is `scale`. "none" corrects nothing. G is
    clipped to [0, 1] in every step. A share is at least 1e-12.

    All that is the authors' program, and so is that the best epoch is the one in which
    the base alone is best on the validation nodes, and that a training node starts the
    smoothing at its own label: accuracy on training nodes is no measure of the model.

    Departures from the authors' program: it searched which of S, D⁻¹ A and A D⁻¹ to
    spread over; its features had spectral embeddings beside them, its MLP three layers
    with batch norm; and for some results it put in the labels of validation nodes.
    Here only labels of training nodes ever are.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, here of the features, and number of classes.
    base
        "mlp" with one hidden layer, or "linear" (the paper's plain linear).
    hidden_channels
        Width of the MLP's hidden layer.
    activation
        Of the hidden layer, "relu", "elu" or "none".
    dropout
        Dropped fraction of the hidden layer, while training.
    correction
        "autoscale", "fixed" or "none".
    correction_alpha
        α₁ of "autoscale".
    scale
        γ of "fixed".
    smoothing_alpha
        α₂.
    steps
        Number of iterations of each of the two.

    Notes
    -----
    Shapes: `x` a `FeatureTable` with features [n, F] and `labels` [n, |Y|],
    the operators S and D⁻¹ A [n, n], logits [m, |Y|] of m target nodes. All weights are
    the base's, which is what epochs train.
    """

    base: TableModule

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        base: str = "mlp",
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.5,
        correction: str = "autoscale",
        correction_alpha: float = 0.9,
        scale: float = 1.0,
        smoothing_alpha: float = 0.8,
        steps: int = 50,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_choice("base", base, BASES)
        check_integer("hidden_channels", hidden_channels, 1, MAX_WIDTH)
        check_choice("activation", activation, ACTIVATIONS)
        check_real("dropout", dropout, "[0, 1)")
        self.correction = check_choice("correction", correction, CORRECTIONS)
        self.correction_alpha = check_real(
            "correction_alpha", correction_alpha, "(0, 1)"
        )
        self.scale = check_real("scale", scale, "[0, inf)")
        self.smoothing_alpha = check_real("smoothing_alpha", smoothing_alpha, "(0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        if base == "linear":
            self.base = LinearTable(self.widths, out_channels)
        else:
            self.base = TableNet(
                self.widths,
                out_channels,
                hidden_channels=hidden_channels,
                layers=1,
                activation=activation,
                dropout=dropout,
            )

    @property
    def reach(self) -> int | None:
        """None: each logit depends on the whole graph."""
        return None

    def learner(self) -> TableModule:
        """Return the base: it has all the weights."""
        return self.base

    def regularised(self) -> list[nn.Parameter]:
        """Return the base's weights that the L2 penalty acts on."""
        return self.base.regularised()

    def embedding_width(self) -> int:
        """Return how many columns a row becomes in the base."""
        return self.base.embedding_width()

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return the bytes of a step of the base, or of the iteration after it."""
        spreading = 24 * self.out_channels * n_nodes
        return max(self.base.working_bytes(n_nodes, n_targets), spreading)

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the log-shares of the target nodes, [m, C]."""
        predicted = self.base(x, NO_GRAPH).softmax(dim=1)
        start = self._corrected(predicted, x.labels, graph)
        start = torch.where(x.labels.any(dim=1, keepdim=True), x.labels, start)
        s, _ = graph.matrices
        scores = start
        for _ in range(self.steps):
            scores = self.smoothing_alpha * (s @ scores)
            scores = (scores + (1 - self.smoothing_alpha) * start).clamp(0, 1)
        # Where clipping leaves nothing of a node, the base's prediction stands.
        scores = torch.where(scores.any(dim=1, keepdim=True), scores, predicted)
        return log_shares(graph.pick(scores))

    def _corrected(
        self, predicted: Tensor, known: Tensor, graph: Propagation
    ) -> Tensor:
        """Return Z + γ E, [n, C]."""
        train = known.any(dim=1, keepdim=True)
        if self.correction == "none" or not bool(train.any()):
            return predicted
        s, means = graph.matrices
        errors = torch.where(train, known - predicted, 0.0)
        spread = errors
        if self.correction == "fixed":
            for _ in range(self.steps):
                spread = torch.where(train, errors, means @ spread)
            return predicted + self.scale * spread
        for _ in range(self.steps):
            spread = self.correction_alpha * (s @ spread)
            spread = (spread + (1 - self.correction_alpha) * errors).clamp(-1, 1)
        sigma = errors.abs().sum() / train.sum()
        sizes = spread.abs().sum(dim=1, keepdim=True)
        large = (sizes > 0) & (sizes * MAX_GAMMA >= sigma)
        gamma = torch.where(large, sigma / torch.where(large, sizes, 1), 1.0)
        return predicted + gamma * spread


class LinearTable(TableModule):
    """logits = X W + b: one linear map of a node's row of the table."""

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.maps = nn.ParameterList(
            torch.empty(width, out_channels) for width in self.widths
        )
        self.bias = nn.Parameter(torch.zeros(out_channels))
        for weight in self.maps:
            nn.init.xavier_uniform_(weight)

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: not the bias."""
        return list(self.maps)

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        logits = self.bias
        blocks = table_rows(x, graph).blocks.values()
        for block, weight in zip(blocks, self.maps, strict=True):
            logits = logits + block @ weight
        return logits
