"""H2GCN and its whole design space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.base import (
    ACTIVATIONS,
    SLOPES,
    ExactSum,
    NodeModule,
    Summand,
    Weighted,
    check_sizes,
    dense_row,
    follow,
    input_rows,
    pick,
)
from h2gcn.ring_table import Input, TableInput
from h2gcn.rings import exact_rings, is_weighted, normalise, normalise_directed
from h2gcn.sparse import (
    LinearMap,
    Operator,
    Paths,
    Sheet,
    Target,
    dropout_linear,
)

__all__ = ["H2GCN", "directed_ring_operators", "ring_operators"]


_T = TypeVar("_T")


def ring_operators(
    adj: CSR, *, hops: Sequence[int] = (1, 2), self_loops: bool = False
) -> tuple[CSR, ...]:
    """Return the normalised rings of a graph, one for each of `hops`.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix without self-loops, [n, n]: ones, or what its pairs
        weigh, which counts in the first ring.
    hops
        Which rings.
    self_loops
        Mix each node into its own rings (the paper's NS variants).
    """
    if not hops:
        return ()
    rings = _rings(adj, max(hops))
    return tuple(normalise(rings[hop - 1], self_loops=self_loops) for hop in hops)


def _rings(adj: CSR, hops: int) -> list[CSR]:
    """Return the rings of a graph, the first with what its pairs weigh."""
    first, *further = exact_rings(adj, hops=hops)
    return [CSR(adj.multiply(first)) if is_weighted(adj) else first, *further]


def directed_ring_operators(
    adj: CSR, *, hops: Sequence[int] = (1, 2), self_loops: bool = False
) -> tuple[CSR, ...]:
    """Return the normalised rings along the edges and against them, two for each hop.

    Ring i along the edges has at (u, v) a one where the shortest way from u to v along
    them has i steps; the one against them is its transpose. With its row sums D_out and
    its column sums D_in, a ring R becomes D_out^-1/2 R D_in^-1/2.

    Parameters
    ----------
    adj
        Row u has the nodes that u points to, [n, n].
    hops
        Which rings.
    self_loops
        Mix each node into its own rings.
    """
    rings = _rings(adj, max(hops))
    operators: list[CSR] = []
    for hop in hops:
        along = normalise_directed(rings[hop - 1], self_loops=self_loops)
        operators += [along, CSR(along.T)]
    return tuple(operators)


class H2GCN(NodeModule):
    r"""H2GCN (Zhu et al., NeurIPS 2020), and every variant of its ablations.

    With A_i the normalised ring i and K rounds,

    .. math::
        R^{(0)} = \sigma(X W_e), \quad
        R^{(k)} = A_1 R^{(k-1)} \,\Vert\, A_2 R^{(k-1)}, \quad
        \text{logits} = \mathrm{dropout}(R^{(0)} \Vert \ldots \Vert R^{(K)})\, W_c

    Aggregation is linear, so wherever no dropout acts it commutes with the
    classifier, and the rings multiply matrices |Y| columns wide instead of p:
    the same numbers for a fraction of the work.

    With `directed`, which is not in the paper, a round has two blocks for each ring,
    one of the nodes i steps along the edges and one of those i steps against them, see
    `directed_ring_operators`.

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
    directed
        Whether rings along the edges and against them are kept apart. On a graph
        without directions the two are the same.
    labels
        Whether the classifier also sees the shares of training labels in each ring,
        which is not in the paper; `x` is then a ring table of own features and labels.
        They do not go through the rounds: by way of its neighbours, a node would be
        told its own.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), each operator [n, n],
    logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    """

    drops_input = False
    renumbers = True
    own_products = True

    def __init__(
        self,
        in_channels: int | Sequence[int],
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
        directed: bool = False,
        labels: bool = False,
    ) -> None:
        widths = (in_channels,) if isinstance(in_channels, int) else tuple(in_channels)
        in_channels = widths[0]
        super().__init__(in_channels, out_channels)
        self.labels = check_bool("labels", labels)
        check_sizes(in_channels, out_channels, hidden_channels)
        check_integer("rounds", rounds, 0)
        check_choice("activation", activation, ACTIVATIONS)
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.final = tuple(sorted(set(final)))
        if not self.final or self.final[0] < 0 or self.final[-1] > rounds:
            raise InputError(
                f"must name rounds from 0 to {rounds}, at least one",
                param="final",
                value=tuple(final),
            )
        self.hops = tuple(hops)
        if self.final[-1] > 0 and (not self.hops or min(self.hops) < 1):
            raise InputError(
                "must name rings, 1 or larger, when there are rounds",
                param="hops",
                value=self.hops,
            )
        self.hidden_channels = hidden_channels
        self.rounds = rounds
        self.self_loops = check_bool("self_loops", self_loops)
        self.activation = activation
        self.nonlinear = check_bool("nonlinear", nonlinear)
        self.directed = check_bool("directed", directed)
        self._n_rings = n_rings = len(self.hops) * (2 if directed else 1)
        # Round k is n_rings^k embeddings wide, or one where every round embeds.
        self._widths = [1 if nonlinear else n_rings**k for k in self.final]
        self._rounds = Paths(n_rings, self.final)
        self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.round_embeddings = nn.ParameterList(
            torch.empty((1 + n_rings) * hidden_channels, hidden_channels)
            for _ in range(self.final[-1] if nonlinear else 0)
        )
        self.classifier = nn.Parameter(
            torch.empty(sum(self._widths) * hidden_channels, out_channels)
        )
        if labels:
            self.of_labels = nn.Parameter(torch.empty(sum(widths[1:]), out_channels))
        self._kept: dict[str, tuple[object, list[int], Any]] | None = None
        self._sheet: Sheet | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew (Glorot, uniform)."""
        for weight in self.parameters():
            if weight.numel():
                nn.init.xavier_uniform_(weight)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one a round."""
        return self.final[-1]

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return what a training step holds beside its operators, in bytes.

        For each node the embedding, its gradient from three sides and their sum, and
        the gradients of the last round but one; for each target its blocks, their
        gradients and their mask. Where every round embeds, what it joins is kept too.
        """
        depth, width = self.final[-1], self.hidden_channels
        joined = 1 + self._n_rings
        if self.nonlinear:
            inner, own = 2 * joined * max(depth - 1, 0), 2 * joined
        else:
            inner, own = self._n_rings ** max(depth - 1, 0), 0
        per_node = 4 * (4 + inner)
        per_target = 9 * sum(self._widths) + 4 * own
        return width * (n_nodes * per_node + n_targets * per_target)

    def forward(
        self,
        x: Tensor | Operator | TableInput,
        operators: Sequence[LinearMap],
        target: Target | None = None,
    ) -> Tensor:
        """Return the logits of all nodes, or of the target's."""
        if isinstance(x, TableInput):
            own, *near = x.blocks.values()
            logits = self._of_features(own, operators, target)
            index = slice(None) if target is None else target.index
            shares = [pick(b, index) for b in near if isinstance(b, Tensor)]
            known = torch.cat(shares, dim=1)
            dropped = functional.dropout(known, self.dropout, self.training)
            return logits + dropped @ self.of_labels
        return self._of_features(x, operators, target)

    def _of_features(
        self,
        x: Tensor | Operator,
        operators: Sequence[LinearMap],
        target: Target | None,
    ) -> Tensor:
        """Return what the representation of features says, as the paper has it."""
        if len(operators) != self._n_rings:
            both = ", directed," if self.directed else ""
            raise ValueError(
                f"H2GCN with hops {self.hops}{both} takes {self._n_rings} operators, "
                f"got {len(operators)}."
            )
        if self.nonlinear or self.final[-1] == 0:
            names = None if target is None else target.names
            blocks = self._embedded_rounds(x, operators, target)
            return dropout_linear(
                blocks, self.classifier, self.dropout, self.training, names
            )
        probability = self.dropout if self.training else 0.0
        sheet = self._sheet_of(operators, target)
        if sheet is not None:
            plain = isinstance(x, Operator) or (
                type(x) is Tensor and not x.requires_grad
            )
            r0 = self._embedded(x, seen=not plain)
            back = partial(self._embedding_gradient, x, r0)
            origin = (self.embedding, back) if plain else None
            return sheet.logits(r0, self.classifier, target, probability, origin)
        if probability > 0:
            return self._rounds.dropped(
                self._embedded(x), self.classifier, probability, operators, target
            )

        def inner() -> Tensor:
            return self._rounds.inner(self._embedded(x), self.classifier, operators)

        found = self._common("inner", x, inner) if self.dropout == 0 else inner()
        return self._rounds.outer(found, operators, target)

    def _sheet_of(
        self, operators: Sequence[LinearMap], target: Target | None
    ) -> Sheet | None:
        """Return what computes the rounds by hand, None where torch differentiates.

        Compiled kernels are worth loading in a training, and not for one prediction.
        """
        wanted = self.training or self._kept is not None
        if not (wanted and Sheet.fits(self.classifier, operators, target)):
            return None
        sheet = self._sheet
        if sheet is None or sheet.operators is not operators:
            sheet = Sheet(self._rounds, operators)
        if self._kept is not None:
            self._sheet = sheet
        return sheet

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Keep what the next call has in common with the last, while weights stay.

        That is the embedding, and without dropout or where every round embeds all but
        the last products, which alone ask whose logits are wanted.
        """
        self._kept = {}
        try:
            yield
        finally:
            self._kept = self._sheet = None

    def _common(self, name: str, given: object, made: Callable[[], _T]) -> _T:
        """Return what is made of something, or what was made of it with these weights.

        A judged epoch leaves it to the step that follows, with its gradient. A step
        forgets all of it: the fused optimiser changes weights, and not their versions.
        """
        kept = self._kept
        if kept is None:
            return made()
        versions = [weight._version for weight in self.parameters()]
        at, before, found = kept.get(name, (None, None, None))
        if found is None or at is not given or before != versions:
            with torch.enable_grad():
                found = made()
        if self.training:
            kept.clear()
        else:
            kept[name] = given, versions, found
        return found

    def _embedded(self, x: Tensor | Operator, *, seen: bool = True) -> Tensor:
        """Return R^(0), [n, p], of whose origin torch knows if it has `seen` it."""

        def made() -> Tensor:
            with torch.set_grad_enabled(seen and torch.is_grad_enabled()):
                return ACTIVATIONS[self.activation](x @ self.embedding)

        return self._common("embedding", x, made)

    def _embedding_gradient(
        self, x: Tensor | Operator, r0: Tensor, grad: Tensor
    ) -> Tensor:
        """Return the gradient of the embedding, of that of R^(0), which it changes."""
        grad = SLOPES[self.activation](grad, r0)
        return x.t() @ grad if isinstance(x, Tensor) else x.gradient(grad)

    def _embedded_rounds(
        self,
        x: Tensor | Operator,
        operators: Sequence[LinearMap],
        target: Target | None,
    ) -> list[Tensor]:
        """Return the rounds of the non-linear variant, each p wide."""
        depth = self.final[-1]

        def inner() -> list[Tensor]:
            rounds = [self._embedded(x)]
            for k in range(1, depth):
                rounds.append(self._next_round(k, rounds[-1], operators, None))
            return rounds

        rounds = self._common("rounds", x, inner)
        if not torch.is_grad_enabled():
            rounds = [r.detach() for r in rounds]
        wanted = slice(None) if target is None else target.index
        kept = [pick(r, wanted) for k, r in enumerate(rounds) if k in self.final]
        if depth:
            kept.append(self._next_round(depth, rounds[-1], operators, target))
        return kept

    def _next_round(
        self,
        k: int,
        r: Tensor,
        operators: Sequence[LinearMap],
        target: Target | None,
    ) -> Tensor:
        """Return R^(k) of all nodes, or of the target's, where every round embeds."""
        ego, ops = r, operators
        if target is not None:
            ego, ops = pick(r, target.index), target.operators
        joined = torch.cat([ego, *(op @ r for op in ops)], dim=1)
        return torch.relu(joined @ self.round_embeddings[k - 1])

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum | None:
        """Return the logits as a sum over paths of rings and the nodes at their ends.

        Without an activation also by column. Where every round embeds there is no
        sum, nor is there anything to split of an embedding that sees no graph.
        """
        linear = self.activation == "none"
        if self.nonlinear or not (linear or self.hops):
            return None
        parts = []
        features: Input = x
        if isinstance(x, TableInput):
            (_, own), *near = x.blocks.items()
            features = own
            labels = self.of_labels.detach().cpu().numpy().astype(np.float64)
            for name, shares in near:
                weight, labels = np.split(labels, [shares.shape[1]])
                parts.append(Summand.linear(name, dense_row(shares, node), weight))
        paths = self._paths(operators, node)
        ends = np.unique(np.concatenate([nodes for nodes, _ in paths.values()]))
        rows = input_rows(features, ends)
        embedding, classifier = (
            weight.detach().cpu().numpy().astype(np.float64)
            for weight in (self.embedding, self.classifier)
        )
        # The activation overwrites what it is given, which is nobody else's.
        r0 = ACTIVATIONS[self.activation](torch.from_numpy(rows @ embedding)).numpy()
        blocks = classifier.reshape(-1, self.hidden_channels, self.out_channels)
        for (path, (nodes, weights)), block in zip(paths.items(), blocks, strict=True):
            at = np.searchsorted(ends, nodes)
            by_node = weights[:, None] * (r0[at] @ block)
            columns = None
            if linear:
                columns = (weights @ rows[at])[:, None] * (embedding @ block)
            values = by_node.sum(axis=0)
            name = self._path_words(path)
            parts.append(Summand(values, name, "", columns, nodes, by_node))
        how = (
            "exact by path, by neighbour and by column: the model is linear in the "
            "features"
            if linear
            else "exact by path and by neighbour; not by column: the embedding of each "
            f"node has an activation ({self.activation})"
        )
        return ExactSum(tuple(parts), how)

    def _paths(
        self, operators: Sequence[LinearMap], node: int
    ) -> dict[tuple[int, ...], Weighted]:
        """Return for each path what it takes of which node, as `classifier` has them.

        A path names its operators, the one next to the node first.
        """
        found: dict[tuple[int, ...], Weighted] = {(): (np.array([node]), np.ones(1))}
        wanted = []
        for depth in range(self.final[-1] + 1):
            for path in product(range(self._n_rings), repeat=depth):
                if path:
                    found[path] = follow(operators[path[-1]], found[path[:-1]])
                if depth in self.final:
                    wanted.append(path)
        return {path: found[path] for path in wanted}

    def _path_words(self, path: tuple[int, ...]) -> str:
        """Return "ring 1 of ring 2": the neighbours of the nodes in ring 2."""
        words = []
        for ring in reversed(path):
            hop = self.hops[ring // 2 if self.directed else ring]
            way = (" along edges", " against edges")[ring % 2] if self.directed else ""
            own = " with the node itself" if self.self_loops else ""
            words.append(f"ring {hop}{way}{own}")
        return " of ".join(words) or "own features"

    def __repr__(self) -> str:
        both = ", directed=True" if self.directed else ""
        return (
            f"H2GCN({self.in_channels}, {self.out_channels}, "
            f"hidden_channels={self.hidden_channels}, hops={self.hops}, "
            f"rounds={self.rounds}, final={self.final}{both})"
        )
