"""Correct and smooth: a predictor without the graph, its errors and labels spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from h2gcn.features import FeatureTable
from h2gcn.models.base import glorot
from h2gcn.models.label_propagation import log_shares
from h2gcn.models.options import Activation, Dropout, Steps, Width, between, one_of
from h2gcn.models.table_net import TableModule, TableNet, multiply_table, table_rows
from h2gcn.sparse import NO_GRAPH, Propagation
from h2gcn.training import Trainer

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

    All weights are the base's, and they are what the epochs train.

    Departures from the authors' program: it searched which of S, D⁻¹ A and A D⁻¹ to
    spread over; its features had spectral embeddings beside them, its MLP three layers
    with batch norm; and for some results it put in the labels of validation nodes.
    Here only labels of training nodes ever are.
    """

    receptive_field = None

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "ego",
        base: Annotated[
            str,
            one_of(("mlp", "linear")),
            "mlp with one hidden layer, or linear (the paper's plain linear)",
        ] = "mlp",
        hidden_channels: Annotated[Width, "Width of the MLP's hidden layer"] = 64,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
        correction: Annotated[
            str,
            one_of(("autoscale", "fixed", "none")),
            "How errors are corrected: autoscale, fixed or none",
        ] = "autoscale",
        correction_alpha: Annotated[
            float, between("(0, 1)"), "α₁, weight of the neighbors in autoscale"
        ] = 0.9,
        scale: Annotated[float, between("[0, inf)"), "γ of fixed"] = 1.0,
        smoothing_alpha: Annotated[
            float, between("(0, 1)"), "α₂, weight of the neighbors in the smoothing"
        ] = 0.8,
        steps: Annotated[Steps, "Number of steps of each of the two"] = 50,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table, self.correction, self.scale = table, correction, scale
        self.correction_alpha, self.smoothing_alpha = correction_alpha, smoothing_alpha
        self.steps = steps
        self.base: TableModule
        if base == "linear":
            self.base = LinearTable(in_channels, out_channels)
        else:
            self.base = TableNet(
                in_channels,
                out_channels,
                hidden_channels=hidden_channels,
                activation=activation,
                dropout=dropout,
            )

    def fit(self, trainer: Trainer) -> None:
        """Train the base alone."""
        trainer.train(self.base)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return those of the base."""
        return self.base.decayed_parameters()

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of a step of the base, or of the iterations after it."""
        spreading = 24 * self.out_channels * n_nodes
        return max(self.base.step_bytes(n_nodes, n_targets, entries), spreading)

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
        self.weight = glorot(self.in_channels, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the weight: the bias is free."""
        return [self.weight]

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        return multiply_table(table_rows(x, graph), self.weight) + self.bias
