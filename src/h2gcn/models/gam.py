"""GAM: neighbours are asked to agree only as far as a second model thinks they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.graph import CSR
from h2gcn.models.base import (
    ACTIVATIONS,
    MAX_STEPS,
    NodeModule,
    Phase,
    check_sizes,
    soft_cross_entropy,
)
from h2gcn.models.gcn import GCN
from h2gcn.models.h2gcn import H2GCN
from h2gcn.ring_table import Input, TableInput
from h2gcn.rings import normalise
from h2gcn.sparse import LinearMap, Target, pair_distances

__all__ = ["BASES", "GAM", "Agreement", "convolution_and_pairs"]

BASES = ("mlp", "gcn")
"""What `base` takes."""
PLAIN, AGREEMENT, CLASSIFIER = "plain", "agreement", "classifier"
"""The phases."""
KINDS = ("ll", "lu", "uu")
"""Of pairs: both labelled, one of them (it is the first), none."""
TIE = 1e-5
"""How far apart rounding alone can bring two probabilities."""


def convolution_and_pairs(adj: CSR) -> tuple[CSR, ...]:
    """Return Â = D^-1/2 (A + I) D^-1/2, and A itself: who is whose neighbour."""
    return normalise(adj, self_loops=True), CSR(adj.astype(np.float32))


class Agreement(nn.Module):
    r"""How likely two nodes are of one class, by their features.

    .. math::
        h_v = \sigma(x_v W + b), \qquad z_{uv} = \sum_k (h_{uk} - h_{vk})^2 w_k + c

    The probability is the logistic function of z.

    Parameters
    ----------
    in_channels
        Number of features F.
    hidden_channels
        Width of h.
    activation
        σ, "relu", "elu" or "none".
    """

    def __init__(self, in_channels: int, hidden_channels: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.embedding_bias = nn.Parameter(torch.empty(hidden_channels))
        self.output = nn.Parameter(torch.empty(hidden_channels, 1))
        self.output_bias = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform); biases are zero."""
        for weight in (self.embedding, self.output):
            nn.init.xavier_uniform_(weight)
        for bias in (self.embedding_bias, self.output_bias):
            nn.init.zeros_(bias)

    def forward(self, x: Input, pairs: Tensor) -> Tensor:
        """Return z of some pairs, [m], which are columns of node numbers, [2, m]."""
        assert not isinstance(x, TableInput)
        hidden = ACTIVATIONS[self.activation](x @ self.embedding + self.embedding_bias)
        z = pair_distances(hidden, hidden, pairs, self.output[:, 0])
        return z + self.output_bias


class GAM(NodeModule):
    r"""Graph agreement model (Stretcu et al., NeurIPS 2019).

    A classifier f, an MLP or a GCN, and an `Agreement` a. With f_v the probabilities of
    a node, y_v its label as a vector, and pairs uv of neighbours of which both, one or
    none is labelled, f lowers

    .. math::
        \text{loss} = \mathrm{entropy} + (\lambda_{LL} M_{LL} + \lambda_{LU} M_{LU}
        + \lambda_{UU} M_{UU}) / 3, \quad
        M_{LL} = \mathrm{mean}(\Vert y_u - f_v \Vert^2), \quad
        M_{LU} = \mathrm{mean}(a_{uv} \Vert y_u - f_v \Vert^2), \quad
        M_{UU} = \mathrm{mean}(a_{uv} \Vert f_u - f_v \Vert^2)

    where the entropy is the cross-entropy of labelled nodes, and pairs of two labelled
    nodes are those of one class. Of the three kinds those without a pair are left out,
    also of the count. Means go by what pairs weigh, where the graph says so.

    Both are trained in turn, here as phases. First f alone. Then in each round a is
    trained anew on pairs of labelled nodes, f is trained anew with it, and the nodes
    that f is surest of get its labels: at most `added`, of each class as many as the
    training labels have of it, each above `confidence`. Labels once given stay.

    As in the authors' program: this order and the terms; the pairs that a learns from
    are edges between labelled nodes, with drawn pairs of different labels besides until
    these are as many as those of equal labels; a and f forget their weights before each
    round; of f the best epoch labels nodes; 128 hidden channels, and the weights 0, 0.1
    and 0.05. What it calls GAM*, with pairs drawn of all nodes, is not here.

    Where it differs: a step takes all labelled nodes and all pairs, which is what its
    batches of 128 give on average; so there are fewer steps, and the rate is 0.01, not
    0.001. Pairs that are drawn besides are drawn once a round, of equal labels too
    where no edge has them. Agreement is trained for `agreement_steps`, not until pairs
    held back are not judged better. Rounds are so many, not until no node is left. Any
    node that is not of training may be labelled, there none of validation and test: on
    splits that take all nodes, none would be left. σ is ReLU, there a leaky one; its
    MLP drops nothing and has biases. The best classifier so far labels nodes, even if
    it is of a round before. The epoch is the best of all rounds, the first among them.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    base
        The classifier: "mlp" (H2GCN without a round) or "gcn".
    hidden_channels
        Width of its hidden layer, and of the agreement's.
    activation
        σ of both, "relu", "elu" or "none".
    dropout
        Of the classifier, while training.
    rounds
        How many there are after the classifier alone.
    added
        At most so many nodes are labelled after a round.
    confidence
        How probable a label must be to be given.
    agreement_steps
        Steps of the agreement in a round.
    ll
        λ_LL, the weight of pairs of which both are labelled.
    lu
        λ_LU, the weight of pairs of which one is labelled.
    uu
        λ_UU, the weight of pairs of which none is labelled.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), two operators [n, n] (see
    `convolution_and_pairs`; an MLP uses the second alone, and only while training),
    logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        base: str = "mlp",
        hidden_channels: int = 128,
        activation: str = "relu",
        dropout: float = 0.5,
        rounds: int = 3,
        added: int = 200,
        confidence: float = 0.4,
        agreement_steps: int = 100,
        ll: float = 0.0,
        lu: float = 0.1,
        uu: float = 0.05,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.base = check_choice("base", base, BASES)
        check_choice("activation", activation, ACTIVATIONS)
        check_real("dropout", dropout, "[0, 1)")
        self.rounds = check_integer("rounds", rounds, 1, MAX_STEPS)
        self.added = check_integer("added", added, 1)
        self.confidence = check_real("confidence", confidence, "[0, 1)")
        self.agreement_steps = check_integer(
            "agreement_steps", agreement_steps, 1, MAX_STEPS
        )
        self.kinds = {
            kind: check_real(kind, weight, "[0, inf)")
            for kind, weight in zip(KINDS, (ll, lu, uu), strict=True)
        }
        shared: dict[str, Any] = {
            "hidden_channels": hidden_channels,
            "activation": activation,
            "dropout": dropout,
        }
        self.classifier: H2GCN | GCN
        if base == "gcn":
            self.classifier = GCN(in_channels, out_channels, **shared)
        else:
            self.classifier = H2GCN(
                in_channels, out_channels, hops=(), rounds=0, final=(0,), **shared
            )
        self.agreement = Agreement(in_channels, hidden_channels, activation)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.classifier.reset_parameters()
        self.agreement.reset_parameters()

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: the classifier's."""
        return 2 if self.base == "gcn" else 0

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: the classifier's."""
        return self.classifier.regularised()

    def entry_bytes(self) -> int:
        """Return the bytes a step holds for an entry: differences of hidden layers."""
        return 4 * self.agreement.embedding.shape[1]

    def phases(self) -> tuple[Phase, ...]:
        """Return the classifier alone, and in each round first the agreement."""
        of_round = (Phase(AGREEMENT, self.agreement_steps), Phase(CLASSIFIER))
        return (Phase(PLAIN), *of_round * self.rounds)

    @torch.no_grad()
    def prepare(
        self,
        phase: Phase,
        x: Input,
        operators: Sequence[LinearMap],
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return known labels and the pairs to learn from; forget what is trained anew.

        Labels, [n], are -1 where there are none. Pairs are columns of node numbers.
        """
        if phase.name == PLAIN:
            return {}
        pairs, weights = _pairs(operators[1], labels.device)
        if phase.name == AGREEMENT:
            known = torch.full((x.shape[0],), -1, device=labels.device)
            known[index] = labels
            if "labels" in before:  # a round lies behind
                known = self._labelled(before["labels"], self(x, operators), labels)
            self.agreement.reset_parameters()
            return {"labels": known, **_to_learn_from(pairs, known)}
        self.classifier.reset_parameters()
        known = before["labels"]
        given = {"labels": known}
        for kind, (some, weigh) in _by_kind(pairs, weights, known).items():
            agree = self.agreement(x, some).sigmoid() if kind != "ll" else 1.0
            given |= {kind: some, f"{kind}_weights": agree * weigh / weigh.sum()}
        return given

    def _labelled(self, known: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Return known labels, [n], with those of the nodes that are surest of one."""
        sure, found = logits.softmax(dim=1).max(dim=1)
        # Stable, and levelled before: of equal ones the lower number comes first.
        order = (sure / TIE).round().argsort(descending=True, stable=True)
        order = order[(known[order] < 0) & (sure[order] > self.confidence)]
        known = known.clone()
        counts = torch.bincount(labels, minlength=self.out_channels).tolist()
        for label, count in enumerate(counts):
            of_label = order[found[order] == label]
            known[of_label[: self.added * count // len(labels)]] = label
        return known

    def objective(
        self,
        phase: Phase,
        x: Input,
        operators: Sequence[LinearMap],
        given: Mapping[str, Tensor],
        weights: Tensor | None,
    ) -> Tensor | None:
        """Return the loss of the agreement, or of the classifier with its term."""
        if phase.name == PLAIN:
            return None
        if phase.name == AGREEMENT:
            pairs = torch.cat([given["equal"], given["different"]], dim=1)
            z = self.agreement(x, pairs)
            n_equal = given["equal"].shape[1]
            equal = functional.softplus(-z[:n_equal])
            different = functional.softplus(z[n_equal:])
            halves = [half.mean() for half in (equal, different) if len(half)]
            return torch.stack(halves).mean()
        logits = self(x, operators)
        known = given["labels"]
        hot = functional.one_hot(known.clamp(min=0), self.out_channels)
        hot, there = hot.to(logits.dtype), known >= 0
        loss = soft_cross_entropy(logits[there], hot[there], weights)
        shares = logits.softmax(dim=1)
        terms = [
            weight * self._disagreement(kind, shares, hot, given)
            for kind, weight in self.kinds.items()
            if given[kind].shape[1]
        ]
        return loss + sum(terms) / max(len(terms), 1)

    def _disagreement(
        self, kind: str, shares: Tensor, hot: Tensor, given: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the mean distance of pairs of a kind, by agreement and weight."""
        first, ones = shares if kind == "uu" else hot, shares.new_ones(shares.shape[1])
        apart = pair_distances(first, shares, given[kind], ones)
        return apart @ given[f"{kind}_weights"]

    def forward(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        target: Target | None = None,
    ) -> Tensor:
        """Return the classifier's logits of all nodes, [n, |Y|], or of the target's."""
        used = operators[:1] if self.base == "gcn" else ()
        logits: Tensor = self.classifier(x, used, target)
        return logits


def _pairs(operator: LinearMap, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the pairs of neighbours, each once, [2, m], and what they weigh, [m]."""
    matrix = operator.take(np.arange(operator.shape[0]))
    upper = sp.triu(matrix, 1, format="coo")
    ends = torch.from_numpy(np.stack([upper.row, upper.col]).astype(np.int64))
    return ends.to(device), torch.from_numpy(upper.data).to(device)


def _by_kind(
    pairs: Tensor, weights: Tensor, known: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return pairs and what they weigh by kind, ordered as f is compared along them.

    Of two labelled nodes, those of one class, both ways.
    """
    one, other = known[pairs]
    both = torch.nonzero((one >= 0) & (one == other))[:, 0]
    mixed = torch.nonzero((one >= 0) != (other >= 0))[:, 0]
    none = torch.nonzero((one < 0) & (other < 0))[:, 0]
    ll = pairs[:, both]
    turned = torch.where(one[mixed] >= 0, pairs[:, mixed], pairs.flip(0)[:, mixed])
    return {
        "ll": (torch.cat([ll, ll.flip(0)], dim=1), weights[both].repeat(2)),
        "lu": (turned, weights[mixed]),
        "uu": (pairs[:, none], weights[none]),
    }


def _to_learn_from(pairs: Tensor, known: Tensor) -> dict[str, Tensor]:
    """Return pairs of labelled nodes with equal and with different labels, [2, m] each.

    Edges, and drawn pairs besides: of different labels until there are as many as of
    equal ones; of equal labels where there is none.
    """
    one, other = known[pairs]
    both = (one >= 0) & (other >= 0)
    equal, different = pairs[:, both & (one == other)], pairs[:, both & (one != other)]
    if not equal.shape[1]:
        equal = _drawn(known, max(different.shape[1], 1), same=True)
    missing = max(equal.shape[1], 1) - different.shape[1]
    if missing > 0:
        drawn = _drawn(known, missing, same=False)
        different = torch.cat([different, drawn], dim=1)
    return {"equal": equal, "different": different}


def _drawn(known: Tensor, count: int, *, same: bool) -> Tensor:
    """Return drawn pairs of labelled nodes with equal or different labels, [2, count].

    Each labelled node that has such a partner is alike likely to be the first, and each
    of its partners the second. None where there is no such pair.
    """
    nodes = torch.nonzero(known >= 0)[:, 0]
    nodes = nodes[known[nodes].argsort(stable=True)]  # class by class
    sizes = torch.bincount(known[nodes])
    starts = sizes.cumsum(0) - sizes
    place = torch.arange(len(nodes), device=nodes.device)
    label = known[nodes]
    partners = sizes[label] - 1 if same else len(nodes) - sizes[label]
    able = torch.nonzero(partners > 0)[:, 0]
    if not len(able):
        return nodes.new_empty(2, 0)
    first = able[torch.randint(len(able), (count,), device=nodes.device)]
    # Numbered from what comes after the node, or its class, around the circle.
    step = torch.rand(count, device=nodes.device) * partners[first]
    step = step.long().clamp(max=partners[first] - 1)
    begin, size = starts[label[first]], sizes[label[first]]
    if same:
        second = begin + (place[first] - begin + 1 + step) % size
    else:
        second = (begin + size + step) % len(nodes)
    return nodes[torch.stack([first, second])]
