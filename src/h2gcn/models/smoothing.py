"""Labels smoothed over the graph: over two hops, or as a correction of a predictor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import CSR
from h2gcn.models.base import (
    ACTIVATIONS,
    MAX_STEPS,
    MAX_WIDTH,
    ExactSum,
    NodeModule,
)
from h2gcn.models.graphsage import mean_adjacency
from h2gcn.models.label_propagation import (
    as_labels,
    check_label_channels,
    log_shares,
    reached_nodes,
    sum_of_shares,
)
from h2gcn.models.table_net import TableModule, TableNet, table_rows
from h2gcn.ring_table import Input, TableInput
from h2gcn.rings import normalise
from h2gcn.sparse import LinearMap, Operator, Target

__all__ = [
    "CorrectAndSmooth",
    "DecoupledSmoothing",
    "correction_operators",
    "weighted_adjacency",
]

Numbers = NDArray[np.float64]

VARIANCES = ("degree", "equal")
"""What `variance` of DecoupledSmoothing takes."""


def weighted_adjacency(adj: CSR) -> tuple[CSR, ...]:
    """Return A itself, with what pairs weigh if they do, as the only operator."""
    adj.sort_indices()
    values = adj.data.astype(np.float32)
    return (CSR((values, adj.indices, adj.indptr), shape=adj.shape),)


class DecoupledSmoothing(NodeModule):
    r"""Decoupled smoothing (Chin, Chen, Altenburger and Ugander, WWW 2019).

    .. math::
        W = A \Sigma^{-1}, \quad \tilde A = W Z^{-1} W^\top, \quad
        (\tilde D_{uu} - \tilde A_{uu}) F_u = \tilde A_{ul} Y_l, \quad
        \text{logits} = \log F_v

    Who a node is and whom it prefers are two things: it is like those who are kept by
    the same company, not like its neighbours (monophily). Preferences are taken out of
    the model, and what is left is smoothing on the two-hop graph Ã, where Z are the
    column sums of W, D̃ the row sums of Ã, and Σ the diagonal of how much each node's
    neighbours differ from what it prefers. Y_l are the training labels, one-hot, held
    fast, and the other nodes' F_u the harmonic function: each is the mean of those
    around it, by Ã. Its rows sum to one.

    Σ up to a factor changes nothing. With `variance` "degree", as the authors' program
    has it, it is 1/d: Ã is A², and a pair counts once for every node between. With
    "equal" it is one: Ã is A D⁻¹ A, and a pair counts 1/d for a node between of degree
    d. A node is its own neighbour's neighbour in both, which cancels out of the system.

    Ã is never formed: conjugate gradients take products with A, twice for each step.
    The authors invert a dense matrix. They say a class where its share exceeds that of
    the training nodes, and report the AUC; here the class with the largest share is
    said, as everywhere.

    Training nodes have their own labels: scores of those are no measure. A node that
    no walk of two, four or more steps leads to from a label (in a bipartite graph the
    whole other side) has equal scores, and so have classes that a node hears best and
    equally well, up to rounding. A share is at least 1e-12.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    variance
        Σ, "degree" or "equal".
    steps
        Steps of conjugate gradients, at most.
    tolerance
        They end once what is left of the right side is smaller, relative to it.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the operator A [n, n] symmetric (see
    `weighted_adjacency`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes. There
    are no weights. It is computed on the processor, in double precision.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        variance: str = "degree",
        steps: int = 1000,
        tolerance: float = 1e-9,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_label_channels(in_channels, out_channels)
        self.variance = check_choice("variance", variance, VARIANCES)
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "(0, 1)")

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def reached(self, x: Input, operators: Sequence[LinearMap]) -> Tensor:
        """Return which nodes a label reaches, two steps at a time, [n]."""
        labels = as_labels(x, self.out_channels)
        return reached_nodes(labels, operators[0], len(labels), hops=2)

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the log-shares of all nodes, [n, |Y|], or of the target's."""
        labels = as_labels(x, self.out_channels).cpu().numpy().astype(np.float64)
        system = _TwoHops(operators[0], labels, self.variance)
        found = self._solve(system, system.free * system.spread(labels))
        scores = torch.from_numpy(np.maximum(labels + found, 0))
        logits = log_shares(scores).float().to(x.device)
        return logits if target is None else logits[target.index]

    def _solve(self, system: _TwoHops, right: Numbers) -> Numbers:
        """Return the harmonic function for a right side, [n, k], or warn."""
        found, left = _conjugate_gradients(
            system.laplacian, right, system.diagonal, self.steps, self.tolerance
        )
        if left > self.tolerance:
            warnings.warn(
                f"decoupled smoothing is not done: after {self.steps} steps "
                f"{left:.2g} of the right side is left; more 'steps' may help",
                H2GCNWarning,
                stacklevel=2,
            )
        return found

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the shares of the classes as a sum over the labelled nodes.

        The system is symmetric: what a node hears of each label is what they would
        hear of it.
        """
        labels = as_labels(x, self.out_channels).cpu().numpy().astype(np.float64)
        only = np.zeros((len(labels), 1))
        only[node] = 1
        if not labels[node].any() and bool(self.reached(x, operators)[node]):
            system = _TwoHops(operators[0], labels, self.variance)
            only = system.spread(self._solve(system, only))
        return sum_of_shares(only * labels, node)


class _TwoHops:
    """The Laplacian of the two-hop graph, with some nodes held fast.

    Parameters
    ----------
    operator
        A, [n, n].
    labels
        Rows of zeros of all nodes that are not held fast, [n, C].
    variance
        One of `VARIANCES`.
    """

    def __init__(self, operator: LinearMap, labels: Numbers, variance: str) -> None:
        n = len(labels)
        self._adj = operator.take(np.arange(n)).astype(np.float64)
        degrees = self._adj @ np.ones(n)
        self._between = np.ones((n, 1))
        if variance == "equal":
            self._between = (1 / np.where(degrees > 0, degrees, 1))[:, None]
        self.free: Numbers = np.asarray(1.0 - labels.any(axis=1, keepdims=True))
        self._sums = self.spread(np.ones((n, 1)))
        itself = self._adj.power(2) @ self._between
        diagonal = self._sums - itself
        # A node that is alone in the two-hop graph has nothing to hear or say.
        alone = diagonal <= 1e-12 * np.maximum(self._sums, 1)
        self.diagonal: Numbers = np.where(alone, 1.0, diagonal)

    def spread(self, f: Numbers) -> Numbers:
        """Return Ãf, [n, k]."""
        return np.asarray(self._adj @ (self._between * (self._adj @ f)))

    def laplacian(self, f: Numbers) -> Numbers:
        """Return (D̃ − Ã)f among the nodes that are free, [n, k]."""
        return np.asarray(self.free * (self._sums * f - self.spread(f)))


def _conjugate_gradients(
    product: Callable[[Numbers], Numbers],
    right: Numbers,
    diagonal: Numbers,
    steps: int,
    tolerance: float,
) -> tuple[Numbers, float]:
    """Return the solution of a positive system for several right sides.

    scipy's takes one right side at a time, and a product with a matrix costs hardly
    more for several.

    Parameters
    ----------
    product
        With the matrix, [n, k] to [n, k].
    right
        The right sides, [n, k].
    diagonal
        Of the matrix, positive, [n, 1].
    steps, tolerance
        It ends after so many, or once what is left of each right side is that small.

    Returns
    -------
    tuple[Numbers, float]
        The solutions, [n, k], and the largest share of a right side that is left.
    """
    sizes = np.linalg.norm(right, axis=0)
    sizes[sizes == 0] = 1
    found, left = np.zeros_like(right), right.copy()
    scaled = left / diagonal
    towards, energy = scaled, (left * scaled).sum(axis=0)
    share = np.linalg.norm(left, axis=0) / sizes
    for _ in range(steps):
        if not (share > tolerance).any():
            break
        moved = product(towards)
        curve = (towards * moved).sum(axis=0)
        # A column that is done moves no more, nor one that only rounding moves.
        moving = (share > tolerance) & (curve > 0)
        step = np.where(moving, energy / np.where(moving, curve, 1), 0)
        found, left = found + step * towards, left - step * moved
        scaled = left / diagonal
        before, energy = energy, (left * scaled).sum(axis=0)
        towards = scaled + energy / np.where(before > 0, before, 1) * towards
        share = np.linalg.norm(left, axis=0) / sizes
    return found, float(share.max(initial=0))


BASES = ("mlp", "linear")
"""What `base` of CorrectAndSmooth takes."""
CORRECTIONS = ("autoscale", "fixed", "none")
"""What `correction` of CorrectAndSmooth takes."""
TOO_SMALL = 1000
"""An error that would be scaled up by more is left as it is, as in the program."""


def correction_operators(adj: CSR) -> tuple[CSR, ...]:
    """Return S = D^-1/2 A D^-1/2 and the means D^-1 A, without self-loops."""
    return normalise(adj), *mean_adjacency(adj)


class CorrectAndSmooth(TableModule):
    r"""Correct and smooth (Huang, He, Singh, Lim and Benson, ICLR 2021).

    .. math::
        Z = \mathrm{softmax}(\mathrm{base}(X)), \quad
        E^{(0)}_l = Y_l - Z_l, \quad
        E^{(t+1)} = \alpha_1 S E^{(t)} + (1 - \alpha_1) E^{(0)}, \quad
        \hat Z = Z + \gamma E, \quad
        G^{(0)} = Y_l, \hat Z_u, \quad
        G^{(t+1)} = \alpha_2 S G^{(t)} + (1 - \alpha_2) G^{(0)}, \quad
        \text{logits} = \log(G_v / \textstyle\sum_c G_{vc})

    A base predictor that sees no graph is trained as usual. Its errors on the training
    nodes l are spread and added (the correction), the training labels put in, and all
    is spread once more (the smoothing). S = D^-1/2 A D^-1/2, Y_l are one-hot, E^(0) is
    zero elsewhere. Both take place whenever the model is asked, with the training
    labels of that graph; where it has none, only the smoothing is left.

    With "autoscale" E is cut off at ±1 in every step, and γ is σ / |E_v|₁ for each
    node, with the mean σ of |E^(0)|₁ over the training nodes; it is 1 where that would
    be more than 1000. With "fixed" the errors of training nodes are held fast, those of
    others are the means over their neighbours, D⁻¹ A E, and γ is `scale`; "none"
    corrects nothing. G is cut off at 0 and 1 in every step. All that is the authors'
    program, and so is that the base's best epoch is the one in which the base alone is
    best on the validation nodes. What they have besides is not here: which of S, D⁻¹ A
    and A D⁻¹ is spread over was searched for; features had spectral embeddings beside
    them, the MLP three layers with batch norm; and for some results the labels of
    validation nodes were put in. Here only labels of training nodes ever are.

    A training node begins the smoothing at its own label, as published, so its scores
    tell what it was told, and no accuracy on training nodes is a measure of the model.

    Classes whose share is largest up to rounding are equal. A share is at least 1e-12.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, here of the features, and number of classes.
    base
        "mlp", or "linear" for one linear map (the paper's plain linear).
    hidden_channels
        Width of the MLP's layers.
    hidden_layers
        Number of its layers before the last.
    activation
        Of its layers, "relu", "elu" or "none".
    dropout
        Dropped share of its layers, while training.
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
    Shapes: `x` a `TableInput` with the features [n, F] and the labels `known` [n, |Y|],
    the operators S and D⁻¹ A [n, n], logits [n, |Y|], or [m, |Y|] for a `Target` of m
    nodes. All weights are the base's, which is what epochs train.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        base: str = "mlp",
        hidden_channels: int = 64,
        hidden_layers: int = 1,
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
        check_integer("hidden_layers", hidden_layers, 1, 15)
        check_choice("activation", activation, ACTIVATIONS)
        check_real("dropout", dropout, "[0, 1)")
        self.correction = check_choice("correction", correction, CORRECTIONS)
        self.correction_alpha, self.smoothing_alpha = (
            check_real(name, alpha, "(0, 1)")
            for name, alpha in (
                ("correction_alpha", correction_alpha),
                ("smoothing_alpha", smoothing_alpha),
            )
        )
        self.scale = check_real("scale", scale, "[0, inf)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.base: TableModule = (
            LinearTable(self.widths, out_channels)
            if base == "linear"
            else TableNet(
                self.widths,
                out_channels,
                hidden_channels=hidden_channels,
                layers=hidden_layers,
                activation=activation,
                dropout=dropout,
            )
        )

    @property
    def reach(self) -> int | None:
        """None: each logit depends on the whole graph."""
        return None

    def learner(self) -> TableModule:
        """Return the base: the rest follows from it."""
        return self.base

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: those of the base."""
        return self.base.regularised()

    def embedding_width(self) -> int:
        """Return how many columns a row becomes in the base."""
        return self.base.embedding_width()

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return about what a step of the base holds, or the iteration after it."""
        return max(
            self.base.working_bytes(n_nodes, n_targets),
            24 * self.out_channels * n_nodes,
        )

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap],
        target: Target | None = None,
    ) -> Tensor:
        """Return the log-shares of all nodes, [n, C], or of the target's."""
        predicted = self.base(x).softmax(dim=1)
        corrected = self._corrected(predicted, x.known, operators)
        scores = self._smoothed(corrected, x.known, operators[0])
        # Of a node that nothing is left of, what the base says.
        scores = torch.where(scores.any(dim=1, keepdim=True), scores, predicted)
        return log_shares(scores if target is None else scores[target.index])

    def _corrected(
        self, predicted: Tensor, known: Tensor, operators: Sequence[LinearMap]
    ) -> Tensor:
        """Return Ẑ, [n, C]."""
        train = known.any(dim=1, keepdim=True)
        if self.correction == "none" or not bool(train.any()):
            return predicted
        errors = torch.where(train, known - predicted, 0.0)
        s, means = operators
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
        large = (sizes > 0) & (sizes * TOO_SMALL >= sigma)
        gamma = torch.where(large, sigma / torch.where(large, sizes, 1), 1.0)
        return predicted + gamma * spread

    def _smoothed(self, corrected: Tensor, known: Tensor, s: LinearMap) -> Tensor:
        """Return G, [n, C]."""
        start = torch.where(known.any(dim=1, keepdim=True), known, corrected)
        scores = start
        for _ in range(self.steps):
            scores = self.smoothing_alpha * (s @ scores)
            scores = (scores + (1 - self.smoothing_alpha) * start).clamp(0, 1)
        return scores


class LinearTable(TableModule):
    """logits = x W + b: one linear map of a node's row of the table.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    """

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

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap] = (),
        target: Target | None = None,
    ) -> Tensor:
        """Return logits, [n, C], or of the target's nodes."""
        del operators
        logits = self.bias
        blocks = table_rows(x, target).blocks.values()
        for block, weight in zip(blocks, self.maps, strict=True):
            logits = logits + block @ weight
        return logits
