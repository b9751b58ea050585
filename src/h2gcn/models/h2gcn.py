"""H2GCN (Zhu et al., NeurIPS 2020) and every variant of its ablations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor, nn

from h2gcn.features import FeatureTable, Input
from h2gcn.models.base import ACTIVATIONS, glorot
from h2gcn.models.decompose import Decomposition, decompose_paths, to_numpy
from h2gcn.models.options import Activation, Dropout, Width
from h2gcn.sparse import (
    Input as Features,
    LinearMap,
    Propagation,
    classify_first,
    dropout_linear,
)
from h2gcn.training import NodeModule


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
    hops
        The ring behind each matrix of `graph`. No hops and no rounds are an MLP.
    rounds, final
        Number of rounds K, and which of R⁽⁰⁾ … R⁽ᴷ⁾ the classifier reads, ascending;
        the last of them is K.
    self_loops
        Whether the rings include the node itself (design D1 undone).
    nonlinear
        Embed every round (App. D.2), p columns wide:
        R⁽ᵏ⁾ = ReLU((R⁽ᵏ⁻¹⁾ ‖ Ā₁ R⁽ᵏ⁻¹⁾ ‖ Ā₂ R⁽ᵏ⁻¹⁾) W_k).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 64,
        activation: Activation = "relu",
        dropout: Dropout = 0.5,
        hops: tuple[int, ...] = (1, 2),
        rounds: int = 2,
        final: tuple[int, ...] = (0, 1, 2),
        self_loops: bool = False,
        nonlinear: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels)
        if final != tuple(sorted({*final})) or final[-1:] != (rounds,):
            raise ValueError(f"final must ascend to rounds={rounds}, got {final}")
        self.hidden_channels, self.activation = hidden_channels, activation
        self.dropout, self.nonlinear = dropout, nonlinear
        self.hops, self.self_loops = hops, self_loops
        self.rounds = self.receptive_field = rounds
        self.final, p, r = final, hidden_channels, len(hops)
        n_blocks = sum(1 if nonlinear else r**k for k in final)
        self.embedding = glorot(in_channels, p)
        self.round_embeddings = nn.ParameterList(
            glorot((1 + r) * p, p) for _ in range(rounds if nonlinear else 0)
        )
        self.classifier = glorot(n_blocks * p, out_channels)

    def forward(self, x: Features, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
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

    def decompose(self, x: Input, graph: Propagation) -> Decomposition | None:
        """Split by path of rings and by node; by column where σ is "none"."""
        linear = self.activation == "none"
        if self.nonlinear or not (linear or self.hops):
            return None
        assert not isinstance(x, FeatureTable)
        names = self._path_names()
        maps = to_numpy(self.classifier).reshape(len(names), -1, self.out_channels)
        if linear:
            maps = to_numpy(self.embedding) @ maps
        contributions = decompose_paths(
            lambda r: torch.cat(self._aggregate(r, graph), dim=1)[0],
            x if linear else self._encode(x),
            dict(zip(names, maps, strict=True)),
            has_columns=linear,
        )
        how = (
            "exact by path and by neighbor; not by column: features are embedded first"
        )
        if linear:
            how = "exact by path, by neighbor and by column: the model is linear"
        return Decomposition(contributions, how)

    def _path_names(self) -> list[str]:
        """Return the name of each block that the classifier reads.

        "ring 1 of ring 2" are the neighbors of the nodes in ring 2.
        """
        own = " with the node itself" if self.self_loops else ""
        rings = [f"ring {hop}{own}" for hop in self.hops]
        paths = [path for k in self.final for path in product(rings, repeat=k)]
        return [" of ".join(reversed(path)) or "own features" for path in paths]

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of R⁽⁰⁾, the inner rounds and what the classifier reads.

        All with their gradients, and the last with its mask.
        """
        del entries
        p, inner = self.hidden_channels, max(self.rounds - 1, 0)
        joined = (1 + len(self.hops)) * inner * 2
        rounds = joined if self.nonlinear else len(self.hops) ** inner
        return 4 * p * n_nodes * (4 + rounds) + 9 * self.classifier.shape[0] * n_targets
