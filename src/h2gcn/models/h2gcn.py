"""H2GCN (Zhu et al., NeurIPS 2020) and every variant of its ablations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.features import Input
from h2gcn.models.base import (
    ACTIVATIONS,
    ExactSum,
    NodeModule,
    Summand,
    Weighted,
    check_sizes,
    follow,
    input_rows,
)
from h2gcn.sparse import (
    Input as Features,
    LinearMap,
    Propagation,
    classify_first,
    dropout_linear,
)

__all__ = ["H2GCN"]


class H2GCN(NodeModule):
    """H2GCN: a node, its rings and all rounds stay apart until the classifier.

    Algorithm 1 of the paper, with Ā_i the normalized ring i (the nodes at exactly i
    hops) and K rounds:

        R⁽⁰⁾ = σ(X W_e)                            S1  feature embedding  [n, p]
        R⁽ᵏ⁾ = Ā₁ R⁽ᵏ⁻¹⁾ ‖ Ā₂ R⁽ᵏ⁻¹⁾                 S2  aggregation        [n, 2ᵏ p]
        logits = dropout(R⁽⁰⁾ ‖ … ‖ R⁽ᴷ⁾) W_c        S3  classification     [n, C]

    S2 is linear: without dropout, `classify_first` applies W_c before the rings, which
    then multiply C columns per block instead of p. The logits are the same.

    Parameters
    ----------
    in_channels, out_channels
        Number of features and of classes C.
    hidden_channels
        Width p of the embedding.
    hops
        Which rings each round aggregates, in the order of `Propagation.matrices`.
        No hops and no rounds are an MLP.
    rounds, final
        Number of rounds K, and which of R⁽⁰⁾ … R⁽ᴷ⁾ the classifier reads.
    self_loops
        Whether the rings include the node itself (design D1 undone).
    activation
        σ: "relu", "elu" or "none".
    nonlinear
        Embed every round (App. D.2), p columns wide:
        R⁽ᵏ⁾ = ReLU((R⁽ᵏ⁻¹⁾ ‖ Ā₁ R⁽ᵏ⁻¹⁾ ‖ Ā₂ R⁽ᵏ⁻¹⁾) W_k).
    dropout
        Dropped fraction of what the classifier reads, in training.
    """

    drops_input = False
    renumbers = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        hops: Sequence[int] = (1, 2),
        rounds: int = 2,
        final: Sequence[int] = (0, 1, 2),
        self_loops: bool = False,
        activation: str = "relu",
        nonlinear: bool = False,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        check_integer("rounds", rounds, 0)
        check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.final, self.hops = tuple(sorted(set(final))), tuple(hops)
        if not self.final or self.final[0] < 0 or self.final[-1] != rounds:
            raise InputError(
                f"must name rounds from 0 to {rounds}, the last one among them",
                param="final",
                value=tuple(final),
            )
        if rounds and (not self.hops or min(self.hops) < 1):
            raise InputError(
                "must name rings, 1 or larger, when there are rounds",
                param="hops",
                value=self.hops,
            )
        self.hidden_channels, self.rounds = hidden_channels, rounds
        self.activation = activation
        self.self_loops = check_bool("self_loops", self_loops)
        self.nonlinear = check_bool("nonlinear", nonlinear)
        p, r = hidden_channels, len(self.hops)
        n_blocks = sum(1 if nonlinear else r**k for k in self.final)
        self.embedding = nn.Parameter(torch.empty(in_channels, p))
        self.round_embeddings = nn.ParameterList(
            torch.empty((1 + r) * p, p) for _ in range(rounds if nonlinear else 0)
        )
        self.classifier = nn.Parameter(torch.empty(n_blocks * p, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform)."""
        for weight in self.parameters():
            if weight.numel():
                nn.init.xavier_uniform_(weight)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a round."""
        return self.rounds

    def forward(self, x: Features, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        if self.rounds and len(graph.matrices) != len(self.hops):
            raise ValueError(
                f"H2GCN with hops {self.hops} takes {len(self.hops)} matrices, "
                f"got {len(graph.matrices)}."
            )
        r = graph.cached(self._encode, x)
        p = self.dropout if self.training else 0.0
        if not self.rounds or self.nonlinear or p:
            blocks = self._aggregate(r, graph)
            return dropout_linear(blocks, self.classifier, p, graph.node_ids)
        if self.dropout:  # training takes the other way: there is nothing to keep
            return graph.sum(*self._classify_first(r, graph.matrices))
        return graph.sum(*graph.cached(self._classify_first, r, graph.matrices))

    def _encode(self, x: Features) -> Tensor:
        """S1: return R⁽⁰⁾ = σ(X W_e), [n, p]."""
        return ACTIVATIONS[self.activation](x @ self.embedding)

    def _classify_first(
        self, r: Tensor, matrices: Sequence[LinearMap]
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Return what `Propagation.sum` turns into the logits."""
        return classify_first(r, self.classifier, matrices, self.final)

    def _aggregate(self, r: Tensor, graph: Propagation) -> list[Tensor]:
        """S2: return the blocks of R⁽ᵏ⁾ for each k in `final`, target nodes only."""
        if not self.rounds:
            return [graph.pick(r)]
        if self.nonlinear:
            rounds = graph.cached(self._inner_rounds, r, graph.matrices)
            blocks = [graph.pick(rounds[k]) for k in self.final[:-1]]
            return [*blocks, self._embed_round(self.rounds, graph.last(rounds[-1]))]
        level = [r]
        blocks = []
        for k in range(self.rounds):
            blocks += map(graph.pick, level) if k in self.final else ()
            matrices = graph.rows if k == self.rounds - 1 else graph.matrices
            level = [ring @ h for ring in matrices for h in level]
        return blocks + level

    def _inner_rounds(self, r: Tensor, matrices: Sequence[LinearMap]) -> list[Tensor]:
        """Return the embedded R⁽⁰⁾ … R⁽ᴷ⁻¹⁾ of all nodes."""
        rounds = [r]
        for k in range(1, self.rounds):
            joined = [rounds[-1], *(ring @ rounds[-1] for ring in matrices)]
            rounds.append(self._embed_round(k, torch.cat(joined, dim=1)))
        return rounds

    def _embed_round(self, k: int, joined: Tensor) -> Tensor:
        return torch.relu(joined @ self.round_embeddings[k - 1])

    def exact_sum(self, x: Input, graph: Propagation, node: int) -> ExactSum | None:
        """Return the logits as a sum over paths of rings and the nodes at their ends.

        Without an activation also by column. Where every round is embedded there is no
        sum, nor is there anything to split of an embedding that sees no graph.
        """
        linear = self.activation == "none"
        if self.nonlinear or not (linear or self.hops):
            return None
        paths = self._paths(graph.matrices, node)
        ends = np.unique(np.concatenate([nodes for nodes, _ in paths.values()]))
        rows = input_rows(x, ends)
        embedding, classifier = (
            weight.detach().cpu().numpy().astype(np.float64)
            for weight in (self.embedding, self.classifier)
        )
        # The activation works in place.
        r0 = ACTIVATIONS[self.activation](torch.from_numpy(rows @ embedding)).numpy()
        blocks = classifier.reshape(-1, self.hidden_channels, self.out_channels)
        parts = []
        for (path, (nodes, weights)), block in zip(paths.items(), blocks, strict=True):
            at = np.searchsorted(ends, nodes)
            by_node = weights[:, None] * (r0[at] @ block)
            columns = None
            if linear:
                columns = (weights @ rows[at])[:, None] * (embedding @ block)
            values, name = by_node.sum(axis=0), self._path_name(path)
            parts.append(Summand(values, name, "", columns, nodes, by_node))
        how = (
            "exact by path, by neighbor and by column: the model is linear in the "
            "features"
            if linear
            else "exact by path and by neighbor; not by column: the embedding of each "
            f"node has an activation ({self.activation})"
        )
        return ExactSum(tuple(parts), how)

    def _paths(
        self, matrices: Sequence[LinearMap], node: int
    ) -> dict[tuple[int, ...], Weighted]:
        """Return the weights of the nodes at the end of each path of rings.

        Paths are in the order of the classifier's blocks; the ring next to the node
        comes first in a path.
        """
        weights: dict[tuple[int, ...], Weighted] = {(): (np.array([node]), np.ones(1))}
        wanted = []
        for depth in range(self.rounds + 1):
            for path in product(range(len(self.hops)), repeat=depth):
                if path:
                    weights[path] = follow(matrices[path[-1]], weights[path[:-1]])
                if depth in self.final:
                    wanted.append(path)
        return {path: weights[path] for path in wanted}

    def _path_name(self, path: tuple[int, ...]) -> str:
        """Return "ring 1 of ring 2": the neighbors of the nodes in ring 2."""
        own = " with the node itself" if self.self_loops else ""
        rings = [f"ring {self.hops[ring]}{own}" for ring in reversed(path)]
        return " of ".join(rings) or "own features"

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return what a training step holds beside its matrices, in bytes.

        R⁽⁰⁾, the inner rounds and their gradients, and what the classifier reads with
        its gradient and its mask.
        """
        p, inner = self.hidden_channels, max(self.rounds - 1, 0)
        joined = (1 + len(self.hops)) * inner * 2
        rounds = joined if self.nonlinear else len(self.hops) ** inner
        return 4 * p * n_nodes * (4 + rounds) + 9 * self.classifier.shape[0] * n_targets

    def __repr__(self) -> str:
        return (
            f"H2GCN({self.in_channels}, {self.out_channels}, "
            f"hidden_channels={self.hidden_channels}, hops={self.hops}, "
            f"rounds={self.rounds}, final={self.final})"
        )
