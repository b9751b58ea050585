"""GAM: neighbors are asked to agree only as far as a second model thinks they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.features import FeatureTable, Input
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
from h2gcn.sparse import LinearMap, Propagation

__all__ = ["BASES", "GAM", "Agreement", "pair_distances"]

BASES = ("mlp", "gcn")
PLAIN, AGREEMENT, CLASSIFIER = "plain", "agreement", "classifier"  # the phases
TIE = 1e-5  # difference that rounding can make between two probabilities


def pair_distances(one: Tensor, other: Tensor, pairs: Tensor) -> Tensor:
    """Return the squared differences (a_u − b_v)² of pairs uv of rows, [m, p].

    The rows are a and b, [n, p] each, and the pairs are columns, [2, m].
    """
    u, v = pairs
    return (one.index_select(0, u) - other.index_select(0, v)).square()


class Agreement(nn.Module):
    """How likely two nodes are of one class, by their features.

        h_v = σ(x_v W + b)
        z_uv = (h_u − h_v)² w + c

    The probability is sigmoid(z).
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
        assert not isinstance(x, FeatureTable)
        hidden = ACTIVATIONS[self.activation](x @ self.embedding + self.embedding_bias)
        return (
            pair_distances(hidden, hidden, pairs) @ self.output[:, 0] + self.output_bias
        )


class GAM(NodeModule):
    """Graph agreement model (Stretcu et al., NeurIPS 2019).

    A classifier f, an MLP or a GCN, and an `Agreement` a. With f_v the probabilities of
    a node, y_v its label, one-hot, and pairs uv of neighbors of which one (LU) or none
    (UU) is labeled, f minimizes

        loss = cross-entropy + (λ_LU M_LU + λ_UU M_UU) / k
        M_LU = mean(a_uv ‖y_u − f_v‖²)
        M_UU = mean(a_uv ‖f_u − f_v‖²)

    where k is the number of kinds of pairs that there are: these two, and pairs of two
    labeled nodes of one class (LL). Means are weighted by the edge weights, if any.

    Both are trained in turn, here as phases. First f alone. Then in each round a is
    trained anew on pairs of labeled nodes, f is trained anew with it, and the nodes
    that f is surest of get its labels: at most `added`, of each class as many as the
    training labels have of it, each above `confidence`. Labels once given stay.

    As in the authors' program: this order and the terms; the pairs that a learns from
    are edges between labeled nodes, with sampled pairs of different labels besides
    until these are as many as those of equal labels; a and f forget their weights
    before each round; the best epoch of f labels nodes; 128 hidden channels, and the
    weights 0 of a term for LL, 0.1 and 0.05. What it calls GAM*, with pairs sampled
    from all nodes, is not here.

    Departures from the authors' program: a step takes all labeled nodes and all pairs,
    which is what its batches of 128 give on average; so there are fewer steps, and the
    rate is 0.01, not 0.001. Additional pairs are sampled once per round, of equal
    labels too where no edge has them. Agreement is trained for `agreement_steps`, not
    until held-out pairs no longer improve. Rounds are counted, not until no node is
    left. Any node outside the training set may be labeled, there none of validation and
    test: on splits that take all nodes, none would be left. σ is ReLU, there a leaky
    one; its MLP drops nothing and has biases. The best classifier so far labels nodes,
    even if it is of a round before. The epoch is the best of all rounds, the first
    among them.

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
        At most so many nodes are labeled after a round.
    confidence
        How probable a label must be to be given.
    agreement_steps
        Steps of the agreement in a round.
    lu
        λ_LU, the weight of pairs of which one is labeled.
    uu
        λ_UU, the weight of pairs of which none is labeled.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), two operators [n, n] (Â and A;
    an MLP uses the second alone, and only while training), logits [m, |Y|] of m target
    nodes.
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
        self.lu = check_real("lu", lu, "[0, inf)")
        self.uu = check_real("uu", uu, "[0, inf)")
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
        """Return the bytes a step holds per entry: both rows and their difference."""
        return 12 * self.agreement.embedding.shape[1]

    def phases(self) -> tuple[Phase, ...]:
        """Return the classifier alone, and in each round first the agreement."""
        of_round = (Phase(AGREEMENT, self.agreement_steps), Phase(CLASSIFIER))
        return (Phase(PLAIN), *of_round * self.rounds)

    @torch.no_grad()
    def prepare(
        self,
        phase: Phase,
        x: Input,
        graph: Propagation,
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return known labels, [n], −1 elsewhere, and the pairs to learn from, [2, m].

        Forgets the weights that the phase trains anew.
        """
        if phase.name == PLAIN:
            return {}
        pairs, weights = _pairs(graph.matrices[1], labels.device)
        if phase.name == AGREEMENT:
            known = torch.full((x.shape[0],), -1, device=labels.device)
            known[index] = labels
            if "labels" in before:  # after a round
                known = self._labelled(before["labels"], self(x, graph), labels)
            self.agreement.reset_parameters()
            return {"labels": known, **_to_learn_from(pairs, known)}
        self.classifier.reset_parameters()
        known = before["labels"]
        result = {"labels": known}
        for kind, (some, weigh) in _by_kind(pairs, weights, known).items():
            agree = self.agreement(x, some).sigmoid()
            result |= {kind: some, f"{kind}_weights": agree * weigh / weigh.sum()}
        return result

    def _labelled(self, known: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Return known labels, [n], with those of the nodes that f is surest of."""
        sure, found = logits.softmax(dim=1).max(dim=1)
        # Rounded, and stable: of equal ones the lower number comes first.
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
        graph: Propagation,
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
        logits = self(x, graph)
        known = given["labels"]
        hot = functional.one_hot(known.clamp(min=0), self.out_channels).to(logits.dtype)
        there = known >= 0
        loss = soft_cross_entropy(logits[there], hot[there], weights)
        f = logits.softmax(dim=1)
        lu = pair_distances(hot, f, given["lu"]).sum(dim=1) @ given["lu_weights"]
        uu = pair_distances(f, f, given["uu"]).sum(dim=1) @ given["uu_weights"]
        kinds = sum(given[kind].shape[1] > 0 for kind in ("ll", "lu", "uu"))
        return loss + (self.lu * lu + self.uu * uu) / max(kinds, 1)

    def forward(self, x: Input, graph: Propagation) -> Tensor:
        """Return the classifier's logits of the target nodes, [m, |Y|]."""
        logits: Tensor = self.classifier(x, graph)
        return logits


def _pairs(operator: LinearMap, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the pairs of neighbors, each once, [2, m], and their weights, [m]."""
    matrix = operator.take(np.arange(operator.shape[0]))
    upper = sp.triu(matrix, 1, format="coo")
    ends = torch.from_numpy(np.stack([upper.row, upper.col]).astype(np.int64))
    return ends.to(device), torch.from_numpy(upper.data).to(device)


def _by_kind(
    pairs: Tensor, weights: Tensor, known: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return pairs and their weights by kind; the labeled node of an LU comes first."""
    one, other = known[pairs]
    alike = (one >= 0) & (one == other)
    mixed = torch.nonzero((one >= 0) != (other >= 0))[:, 0]
    neither = (one < 0) & (other < 0)
    flipped = torch.where(one[mixed] >= 0, pairs[:, mixed], pairs.flip(0)[:, mixed])
    return {
        "ll": (pairs[:, alike], weights[alike]),
        "lu": (flipped, weights[mixed]),
        "uu": (pairs[:, neither], weights[neither]),
    }


def _to_learn_from(pairs: Tensor, known: Tensor) -> dict[str, Tensor]:
    """Return pairs of labeled nodes with equal and with different labels, [2, m] each.

    Edges, and sampled pairs besides: of different labels until there are as many as of
    equal ones; of equal labels where there is none.
    """
    one, other = known[pairs]
    both = (one >= 0) & (other >= 0)
    equal, different = pairs[:, both & (one == other)], pairs[:, both & (one != other)]
    if not equal.shape[1]:
        equal = _sampled(known, max(different.shape[1], 1), same=True)
    missing = max(equal.shape[1], 1) - different.shape[1]
    if missing > 0:
        sampled = _sampled(known, missing, same=False)
        different = torch.cat([different, sampled], dim=1)
    return {"equal": equal, "different": different}


def _sampled(known: Tensor, count: int, *, same: bool) -> Tensor:
    """Return random pairs of labeled nodes with equal or different labels, [2, count].

    The first is uniform among the nodes with such a partner, the second among its
    partners. Empty where there is no such pair.
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
    # Partners are numbered from behind the node, or its class, around the circle.
    step = torch.rand(count, device=nodes.device) * partners[first]
    step = step.long().clamp(max=partners[first] - 1)
    begin, size = starts[label[first]], sizes[label[first]]
    if same:
        second = begin + (place[first] - begin + 1 + step) % size
    else:
        second = (begin + size + step) % len(nodes)
    return nodes[torch.stack([first, second])]
