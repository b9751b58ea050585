"""GAM: neighbors should agree only as far as a second model thinks they do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.features import FeatureTable, Input
from h2gcn.models.base import ACTIVATIONS, glorot
from h2gcn.models.gcn import GCN
from h2gcn.models.h2gcn import H2GCN
from h2gcn.models.options import (
    Activation,
    Dropout,
    Steps,
    Width,
    at_least,
    between,
    one_of,
)
from h2gcn.sparse import LinearMap, Propagation
from h2gcn.training import NodeModule, Trainer, node_loss

Base = Annotated[str, one_of(("mlp", "gcn")), "Classifier: mlp or gcn"]
Added = Annotated[int, at_least(1), "Most nodes that are labeled after a round"]
Confidence = Annotated[
    float, between("[0, 1)"), "Least probability of a label that is added"
]
Weight = Annotated[float, between("[0, inf)"), ""]


def pair_distances(h: Tensor, pairs: Tensor) -> Tensor:
    """Return (h_u − h_v)² for pairs uv of rows of h, [n, p]; [2, m] gives [m, p]."""
    u, v = pairs
    return (h.index_select(0, u) - h.index_select(0, v)).square()


class Agreement(nn.Module):
    """How likely two nodes are of one class, by their features.

        h_v = σ(x_v W + b)
        z_uv = (h_u − h_v)² w + c

    The probability is sigmoid(z).
    """

    def __init__(self, in_channels: int, hidden_channels: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.embedding = glorot(in_channels, hidden_channels)
        self.embedding_bias = nn.Parameter(torch.zeros(hidden_channels))
        self.output = glorot(hidden_channels, 1)
        self.output_bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Input, pairs: Tensor) -> Tensor:
        """Return z of some pairs of nodes, [2, m] gives [m]."""
        assert not isinstance(x, FeatureTable)
        hidden = ACTIVATIONS[self.activation](x @ self.embedding + self.embedding_bias)
        z = pair_distances(hidden, pairs) @ self.output + self.output_bias
        return z[:, 0]


class GAM(NodeModule):
    """Graph agreement model (Stretcu et al., NeurIPS 2019).

    A classifier f, an MLP or a GCN, and an `Agreement` a. With f_v the probabilities of
    a node, y_v its label, one-hot, and pairs uv of neighbors of which one (LU) or none
    (UU) is labeled, f minimizes

        loss = cross-entropy + (λ_LU M_LU + λ_UU M_UU) / k
        M_LU = mean(a_uv ‖y_u − f_v‖²)
        M_UU = mean(a_uv ‖f_u − f_v‖²)

    where k is the number of kinds of pairs in the graph: these two, and pairs of two
    labeled nodes of one class (LL). Means are weighted by the edge weights, if any.

    First f is trained alone. Then in each round a is trained anew on pairs of labeled
    nodes, f is trained anew with it, and the nodes that f is most confident of get its
    labels: at most `added`, divided among the classes as the training labels are, each
    above `confidence`. Added labels stay.

    As in the authors' program: this order and the terms; the pairs that a learns from
    are edges between labeled nodes, and sampled pairs of different labels until these
    are as many as those of equal labels; a and f forget their weights before each
    round; the best epoch of f labels nodes; 128 hidden channels, and the weights 0 of a
    term for LL, 0.1 and 0.05. GAM*, with pairs sampled from all nodes, is not here.

    Departures from the authors' program: a step takes all labeled nodes and all pairs,
    which is what its batches of 128 give on average; so there are fewer steps, and the
    rate is 0.01, not 0.001. Additional pairs are sampled once per round, also of equal
    labels where no edge has them. Agreement is trained for `agreement_steps`, not until
    held-out pairs no longer improve. Rounds are counted, not repeated until no node is
    left. Any node outside the training set may be labeled, there none of validation and
    test: on splits that take all nodes, none would be left. σ is ReLU, there a leaky
    one; its MLP drops nothing and has biases. The best classifier so far labels nodes,
    even if it is of a round before. The best epoch is the best of all rounds, the
    training of f alone included.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        base: Base = "mlp",
        hidden_channels: Width = 128,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
        rounds: Annotated[Steps, "Number of rounds after the classifier alone"] = 3,
        added: Added = 200,
        confidence: Confidence = 0.4,
        agreement_steps: Annotated[Steps, "Training steps of a per round"] = 100,
        lu: Annotated[Weight, "Weight λ_LU of pairs with one labeled node"] = 0.1,
        uu: Annotated[Weight, "Weight λ_UU of pairs without a labeled node"] = 0.05,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.rounds, self.agreement_steps = rounds, agreement_steps
        self.added, self.confidence = added, confidence
        self.lu, self.uu = lu, uu
        self._new_classifier: Callable[[], NodeModule] = partial(
            GCN if base == "gcn" else partial(H2GCN, hops=(), rounds=0, final=(0,)),
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
        )
        self._new_agreement = partial(
            Agreement, in_channels, hidden_channels, activation
        )
        self.classifier = self._new_classifier()
        self.agreement = self._new_agreement()
        self.receptive_field = self.classifier.receptive_field

    def batch_problem(self) -> str:
        """Return why there are no batches."""
        return "it learns from all nodes of the graph"

    def fit(self, trainer: Trainer) -> None:
        """Train the classifier alone, then agreement and classifier in rounds."""
        x, graph, labels = trainer.x, trainer.graph, trainer.labels
        pairs, weights = _neighbor_pairs(graph.matrices[1], trainer.device)
        known = torch.full((x.shape[0],), -1, device=trainer.device)
        known[trainer.index] = labels
        first, *rest = trainer.split_epochs(1 + self.rounds)
        trainer.train(epochs=first)
        for epochs in rest:
            self.agreement.load_state_dict(self._new_agreement().state_dict())
            trainer.minimize(
                partial(self._agreement_loss, x, *_labeled_pairs(pairs, known)),
                self.agreement.parameters(),
                self.agreement_steps,
            )
            self.classifier.load_state_dict(self._new_classifier().state_dict())
            factors = self._pair_factors(x, pairs, weights, known)
            trainer.train(
                loss=partial(self._classifier_loss, trainer, known, pairs, factors),
                epochs=epochs,
            )
            known = self._label_most_confident(known, self(x, graph), labels)

    def _agreement_loss(self, x: Input, equal: Tensor, different: Tensor) -> Tensor:
        """Return the cross-entropy, in which both kinds of pairs count alike."""
        z = self.agreement(x, torch.cat([equal, different], dim=1))
        n_equal = equal.shape[1]
        losses = functional.softplus(-z[:n_equal]), functional.softplus(z[n_equal:])
        return torch.stack([part.mean() for part in losses if len(part)]).mean()

    def _pair_factors(
        self, x: Input, pairs: Tensor, weights: Tensor, known: Tensor
    ) -> Tensor:
        """Return how much each pair counts in the loss, [m]: LU and UU pairs do."""
        one, other = known[pairs]
        ll = (one >= 0) & (one == other)
        lu, uu = (one >= 0) != (other >= 0), (one < 0) & (other < 0)
        n_kinds = sum(bool(kind.any()) for kind in (ll, lu, uu))
        factors = torch.zeros_like(weights)
        for factor, kind in ((self.lu, lu), (self.uu, uu)):
            agree = self.agreement(x, pairs[:, kind]).sigmoid() * weights[kind]
            factors[kind] = factor * agree / (n_kinds * weights[kind].sum())
        return factors

    def _classifier_loss(
        self, trainer: Trainer, known: Tensor, pairs: Tensor, factors: Tensor
    ) -> Tensor:
        """Return the cross-entropy of the labeled nodes, and the terms of pairs."""
        logits, labeled = self(trainer.x, trainer.graph), known >= 0
        labels, weights = known[labeled], trainer.class_weights
        loss = node_loss(logits[labeled], labels, weights, len(labels))
        one_hot = functional.one_hot(known.clamp(min=0), self.out_channels)
        f = torch.where(labeled[:, None], one_hot, logits.softmax(dim=1))
        return loss + pair_distances(f, pairs).sum(dim=1) @ factors

    def _label_most_confident(
        self, known: Tensor, logits: Tensor, labels: Tensor
    ) -> Tensor:
        """Return known labels, [n], with those of the nodes that f is surest of."""
        confidence, predicted = logits.softmax(dim=1).max(dim=1)
        order = confidence.argsort(descending=True, stable=True)
        order = order[(known[order] < 0) & (confidence[order] > self.confidence)]
        known = known.clone()
        counts = torch.bincount(labels, minlength=self.out_channels).tolist()
        for label, count in enumerate(counts):
            nodes = order[predicted[order] == label]
            known[nodes[: self.added * count // len(labels)]] = label
        return known

    def forward(self, x: Input, graph: Propagation) -> Tensor:
        """Return the classifier's logits of the target nodes, [m, C]."""
        logits: Tensor = self.classifier(x, graph)
        return logits

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the classifier's."""
        return self.classifier.decayed_parameters()

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return also the bytes of both rows of each pair and their difference."""
        own = super().step_bytes(n_nodes, n_targets, entries)
        return own + 12 * self.agreement.embedding.shape[1] * entries


def _neighbor_pairs(operator: LinearMap, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the pairs of neighbors, each once, [2, m], and their weights, [m]."""
    matrix = operator.take(np.arange(operator.shape[0]))
    upper = sp.triu(matrix, 1, format="coo")
    pairs = torch.from_numpy(np.stack([upper.row, upper.col]).astype(np.int64))
    return pairs.to(device), torch.from_numpy(upper.data).to(device)


def _labeled_pairs(pairs: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return pairs of labeled nodes with equal and with different labels, [2, m] each.

    These are edges, and also sampled pairs: of different labels until there are as many
    as of equal ones; of equal labels if no edge has them.
    """
    one, other = known[pairs]
    both = (one >= 0) & (other >= 0)
    equal, different = pairs[:, both & (one == other)], pairs[:, both & (one != other)]
    if not equal.shape[1]:
        equal = _sample_pairs(known, max(different.shape[1], 1), same=True)
    missing = max(equal.shape[1], 1) - different.shape[1]
    if missing > 0:
        sampled = _sample_pairs(known, missing, same=False)
        different = torch.cat([different, sampled], dim=1)
    return equal, different


def _sample_pairs(known: Tensor, count: int, *, same: bool) -> Tensor:
    """Return random pairs of labeled nodes with equal or different labels, [2, count].

    The first is uniform among the nodes with such a partner, the second among its
    partners. Empty if there is no such pair.
    """
    nodes = torch.nonzero(known >= 0)[:, 0]
    nodes = nodes[known[nodes].argsort(stable=True)]  # class by class
    label = known[nodes]
    begin, size = torch.searchsorted(label, label), torch.bincount(label)[label]
    n_partners = size - 1 if same else len(nodes) - size
    candidates = torch.nonzero(n_partners)[:, 0]
    if not len(candidates):
        return nodes.new_empty(2, 0)
    draws = torch.randint(2**62, (2, count), device=nodes.device)
    first = candidates[draws[0] % len(candidates)]
    begin, size, step = begin[first], size[first], draws[1] % n_partners[first]
    if same:  # count from behind the node, around its class
        second = begin + (first - begin + 1 + step) % size
    else:  # count from behind its class, around all nodes
        second = (begin + size + step) % len(nodes)
    return nodes[torch.stack([first, second])]
