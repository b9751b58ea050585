"""H2GCN and its whole design space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.dropout import dropout
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.parts import ACTIVATIONS, check_sizes
from h2gcn.rings import check_memory, exact_rings, normalise
from h2gcn.sparse import Operator, Target

__all__ = ["H2GCN", "ring_operators"]


def ring_operators(
    adj: CSR, *, hops: Sequence[int] = (1, 2), self_loops: bool = False
) -> tuple[CSR, ...]:
    """Return the normalised rings of a graph, one for each of `hops`.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix without self-loops, [n, n].
    hops
        Which rings.
    self_loops
        Mix each node into its own rings (the paper's NS variants).
    """
    if not hops:
        return ()
    check_memory(
        adj,
        hops,
        "a model without the 2-hop ring needs less: "
        "--model h2gcn-s1 (D1 and D3, 1-hop only), gcn or mlp",
    )
    rings = exact_rings(adj, hops=max(hops))
    return tuple(normalise(rings[hop - 1], self_loops=self_loops) for hop in hops)


class H2GCN(nn.Module):
    r"""H2GCN (Zhu et al., NeurIPS 2020), and every variant of its ablations.

    With A_i the normalised ring i and K rounds,

    .. math::
        R^{(0)} = \sigma(X W_e), \quad
        R^{(k)} = A_1 R^{(k-1)} \,\Vert\, A_2 R^{(k-1)}, \quad
        \text{logits} = \mathrm{dropout}(R^{(0)} \Vert \ldots \Vert R^{(K)})\, W_c

    Aggregation is linear, so wherever no dropout acts it commutes with the
    classifier, and the rings multiply matrices |Y| columns wide instead of p:
    the same numbers for a fraction of the work.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width p of the embedding.
    hops
        Which rings each round aggregates; the operators of `forward`, in order.
    rounds
        Number of rounds K.
    final
        Which rounds' representations the classifier sees.
    self_loops
        Whether the rings include the node itself (design D1 undone).
    activation
        σ of the embedding, "relu", "elu" or "none".
    nonlinear
        Embed every round: R^(k) = relu([R^(k-1) ‖ A_1 R^(k-1) ‖ A_2 R^(k-1)] W_k),
        p wide (the paper's App. D.2).
    dropout
        Dropped share of the final representation, while training.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), each operator [n, n],
    logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    """

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
        super().__init__()
        check_sizes("H2GCN", in_channels, out_channels, hidden_channels)
        check_integer("H2GCN", "rounds", rounds, 0)
        check_choice("H2GCN", "activation", activation, ACTIVATIONS)
        self.dropout = check_real("H2GCN", "dropout", dropout, "[0, 1)")
        self.final = tuple(sorted(set(final)))
        if not self.final or self.final[0] < 0 or self.final[-1] > rounds:
            raise InputError(
                f"The 'final' parameter of H2GCN must name rounds from 0 to {rounds}, "
                f"at least one. Got {tuple(final)!r} instead."
            )
        self.hops = tuple(hops)
        if self.final[-1] > 0 and (not self.hops or min(self.hops) < 1):
            raise InputError(
                "The 'hops' parameter of H2GCN must name rings, 1 or larger, when "
                f"there are rounds. Got {self.hops!r} instead."
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.hidden_channels = hidden_channels
        self.rounds = rounds
        self.self_loops = check_bool("H2GCN", "self_loops", self_loops)
        self.activation = activation
        self.nonlinear = check_bool("H2GCN", "nonlinear", nonlinear)
        # Round k is |hops|^k embeddings wide, or one where every round embeds.
        self._widths = [1 if nonlinear else len(self.hops) ** k for k in self.final]
        self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.round_embeddings = nn.ParameterList(
            torch.empty((1 + len(self.hops)) * hidden_channels, hidden_channels)
            for _ in range(self.final[-1] if nonlinear else 0)
        )
        self.classifier = nn.Parameter(
            torch.empty(sum(self._widths) * hidden_channels, out_channels)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform)."""
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: all of them."""
        return list(self.parameters())

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, or of the target's."""
        if len(operators) != len(self.hops):
            raise ValueError(
                f"H2GCN with hops {self.hops} takes {len(self.hops)} operators, "
                f"got {len(operators)}."
            )
        r0 = ACTIVATIONS[self.activation](x @ self.embedding)
        last = tuple(operators) if target is None else target.operators
        index = slice(None) if target is None else target.index
        if not self.nonlinear and not (self.training and self.dropout > 0):
            return self._classify_then_aggregate(r0, operators, last, index)
        step = self._embedded_rounds if self.nonlinear else self._rounds
        final = torch.cat(step(r0, operators, last, index), dim=1)
        final = dropout(final, self.dropout, self.training)
        return final @ self.classifier

    def _rounds(
        self,
        r: Tensor,
        operators: Sequence[Operator],
        last: Sequence[Operator],
        index: Tensor | slice,
    ) -> list[Tensor]:
        """Return the final representation, a block of width p for every path.

        Blocks are multiplied one by one: torch's product is slower a column on
        wider matrices, and nothing needs to be joined between the rounds.
        """
        depth = self.final[-1]
        blocks = [r]
        kept = [r[index]] if 0 in self.final else []
        for k in range(1, depth + 1):
            # Only the target's rows of the last round are ever needed.
            ops = last if k == depth else operators
            blocks = [op @ block for op in ops for block in blocks]
            if k in self.final:
                kept += blocks if k == depth else [block[index] for block in blocks]
        return kept

    def _embedded_rounds(
        self,
        r: Tensor,
        operators: Sequence[Operator],
        last: Sequence[Operator],
        index: Tensor | slice,
    ) -> list[Tensor]:
        """Return the rounds of the non-linear variant, each p wide."""
        depth = self.final[-1]
        kept = [r[index]] if 0 in self.final else []
        for k, weight in enumerate(self.round_embeddings, start=1):
            ego, ops = (r[index], last) if k == depth else (r, operators)
            r = torch.relu(torch.cat([ego, *(op @ r for op in ops)], dim=1) @ weight)
            if k in self.final:
                kept.append(r if k == depth else r[index])
        return kept

    def _classify_then_aggregate(
        self,
        r0: Tensor,
        operators: Sequence[Operator],
        last: Sequence[Operator],
        index: Tensor | slice,
    ) -> Tensor:
        """Return the logits with the classifier moved inside the aggregation.

        The block of W_c for the path (i, j, …) of rings meets A_i A_j … R^(0).
        Level by level from the longest paths inwards, what follows a ring is
        summed first, |Y| columns wide, and the ring is applied to the sum.
        """
        n, p = r0.shape
        blocks = self.classifier.view(-1, p, self.out_channels)
        z = (r0 @ blocks.transpose(0, 1).reshape(p, -1)).view(n, *blocks.shape[::2])
        by_round = dict(zip(self.final, z.split(self._widths, dim=1), strict=True))
        width = len(self.hops)
        total = by_round[self.final[-1]]
        for k in range(self.final[-1], 0, -1):
            level = total.reshape(n, width ** (k - 1), width, self.out_channels)
            ops = last if k == 1 else operators
            products = [op @ level[:, :, i].reshape(n, -1) for i, op in enumerate(ops)]
            total = torch.stack(products).sum(dim=0)
            total = total.view(-1, width ** (k - 1), self.out_channels)
            if k - 1 in by_round:
                nearer = by_round[k - 1]
                total = total + (nearer[index] if k == 1 else nearer)
        if self.final[-1] == 0:
            total = total[index]
        logits: Tensor = total[:, 0]
        return logits

    def __repr__(self) -> str:
        return (
            f"H2GCN({self.in_channels}, {self.out_channels}, "
            f"hidden_channels={self.hidden_channels}, hops={self.hops}, "
            f"rounds={self.rounds}, final={self.final})"
        )
