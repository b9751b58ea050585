"""Labels that spread along edges, without weights: label propagation, and LinBP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from h2gcn._validation import check_bool, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS, ExactSum, NodeModule, Summand
from h2gcn.models.compatibility import from_edges, row_normalised
from h2gcn.ring_table import Input, TableInput
from h2gcn.rings import is_weighted, normalise
from h2gcn.sparse import LinearMap, Operator, Target

__all__ = [
    "LabelPropagation",
    "LinBP",
    "belief_operators",
    "check_label_channels",
    "normalised_adjacency",
    "reached_nodes",
]

FLOOR = 1e-12
"""The least probability, so that its logarithm is finite."""
TIE = 1e-5
"""How far apart, relative to the larger, rounding alone can bring two shares.

Processors add in different orders, with 32-bit floats, `steps` times.
"""


def check_label_channels(owner: str, in_channels: int, out_channels: int) -> None:
    """Raise where the columns of `x` cannot be one for each class."""
    check_integer(owner, "in_channels", in_channels, 1)
    check_integer(owner, "out_channels", out_channels, 1)
    if in_channels != out_channels:
        raise InputError(
            f"The 'in_channels' parameter of {owner} must be out_channels, "
            f"{out_channels}: it takes labels, one column a class, not features. "
            f"Got {in_channels} instead."
        )


def _labels(x: Input, n_classes: int) -> Tensor:
    """Return the labels as a tensor, [n, C]: their product with I."""
    assert not isinstance(x, TableInput)
    return x @ torch.eye(n_classes, device=x.device)


def normalised_adjacency(adj: CSR) -> tuple[CSR, ...]:
    """Return S = D^-1/2 A D^-1/2, without self-loops, as the only operator."""
    return (normalise(adj),)


def reached_nodes(
    labels: Tensor, operator: LinearMap, steps: int, hops: int = 1
) -> Tensor:
    """Return which nodes labels can have come to, [n].

    Equal scores do not tell: two classes can also be heard equally well.

    Parameters
    ----------
    labels
        Rows of zeros where there is no label, [n, C].
    operator
        Positive wherever a label passes, [n, n].
    steps, hops
        How often it passes, and over how many edges at a time.
    """
    known = (labels != 0).any(dim=1, keepdim=True)
    reached = known
    for _ in range(steps):
        heard = reached
        for _ in range(hops):
            heard = operator @ heard.float() > 0
        before, reached = reached, known | heard
        if torch.equal(before, reached):
            break
    return reached[:, 0]


class LabelPropagation(NodeModule):
    r"""Label propagation (Zhou et al., NeurIPS 2003), over one hop or two.

    .. math::
        F^{(0)} = Y, \quad F^{(t+1)} = \alpha\, S^h F^{(t)} + (1 - \alpha)\, Y, \quad
        \text{logits} = \log(F_v / \textstyle\sum_c F_{vc})

    Y are the training labels, one-hot, with zero rows for all other nodes. With two
    hops (h = 2) labels pass to neighbours of neighbours, for graphs whose neighbours
    differ but whose neighbours' neighbours are alike (Peel, SDM 2017). S² is S applied
    twice, so a node is its own neighbour's neighbour, and a pair counts once for every
    node between.

    The original gives the limit :math:`(1 - \alpha)(I - \alpha S)^{-1} Y` as a closed
    form; the iteration comes within :math:`\alpha^t` of it. Training labels are not
    held fast as in Zhu and Ghahramani (2002): their nodes' scores are never asked for
    in validation or test. Values are not cut off at 1 either, as PyG's module does:
    at hubs that would make different classes equal.

    A probability is at least 1e-12. A node that no label reaches has equal scores, and
    so have classes that a node hears best and equally well, up to rounding: which of
    them is predicted (the first) does not depend on the processor.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    alpha
        α, how much a node takes from its neighbours.
    steps
        Number of iterations t.
    hops
        h, 1 or 2.

    Notes
    -----
    Shapes: `x` [n, |Y|] the labels Y, the operator S [n, n] (see
    `normalised_adjacency`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
    There are no weights.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        alpha: float = 0.9,
        steps: int = 50,
        hops: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_label_channels("LabelPropagation", in_channels, out_channels)
        self.alpha = check_real("LabelPropagation", "alpha", alpha, "(0, 1)")
        self.steps = check_integer("LabelPropagation", "steps", steps, 1, MAX_STEPS)
        self.hops = check_integer("LabelPropagation", "hops", hops, 1, 2)

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def reached(self, x: Input, operators: Sequence[LinearMap]) -> Tensor:
        """Return which nodes a label reaches, [n]."""
        return reached_nodes(
            _labels(x, self.out_channels), operators[0], self.steps, self.hops
        )

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the log-probabilities of all nodes, [n, |Y|], or of the target's."""
        scores = self._spread(operators[0], _labels(x, self.out_channels))
        # Nothing is trained, so there is no step to make cheaper by the target's rows.
        if target is not None:
            scores = scores[target.index]
        totals = scores.sum(dim=1, keepdim=True)
        reached = totals > 0
        shares = torch.where(
            reached, scores / torch.where(reached, totals, 1), 1 / self.out_channels
        )
        best = shares.amax(dim=1, keepdim=True)
        shares = torch.where(shares >= (1 - TIE) * best, best, shares)
        return shares.clamp(min=FLOOR).log()

    def _spread(self, s: LinearMap, labels: Tensor) -> Tensor:
        """Return F after all steps: it is linear in the labels."""
        scores = labels
        for _ in range(self.steps):
            for _ in range(self.hops):
                scores = s @ scores
            scores = self.alpha * scores + (1 - self.alpha) * labels
        return scores

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the shares of the classes as a sum over the labelled nodes.

        The operator is symmetric: what a node hears of another is what that one would
        hear of it.
        """
        labels = _labels(x, self.out_channels)
        only = labels.new_zeros(len(labels), 1)
        only[node] = 1
        heard = self._spread(operators[0], only)[:, 0].cpu().numpy().astype(np.float64)
        by_node = heard[:, None] * labels.cpu().numpy()
        total = by_node.sum()
        if total == 0:
            equal = np.full(self.out_channels, 1 / self.out_channels)
            part = Summand(equal, "nothing is known: all classes are equal")
            return ExactSum((part,), "exact: no label reaches the node", "share")
        how = (
            "exact by labelled node: what is a sum is the share of each class, and the "
            "logit is its logarithm"
        )
        return ExactSum(_of_labels(by_node / total, node), how, "share")


def _of_labels(by_node: NDArray[np.float64], node: int) -> tuple[Summand, ...]:
    """Return what the node's own label adds, and what all others do.

    Parameters
    ----------
    by_node
        What each node's label adds, [n, C].
    node
        The node.
    """
    seeds = np.flatnonzero(by_node.any(axis=1))
    return tuple(
        Summand(by_node[some].sum(axis=0), name, nodes=some, by_node=by_node[some])
        for name, some in (
            ("its own training label", seeds[seeds == node]),
            ("training labels of other nodes", seeds[seeds != node]),
        )
        if len(some)
    )


DENSE_NODES = 256
"""Up to so many nodes, all eigenvalues are computed."""
ECHO_BOUND = (5**0.5 - 1) / 2
"""Where e + e² = 1: up to this e, LinBP with echo cancellation converges anywhere."""
UNIFORM = 1e-6
"""A compatibility matrix that differs from 1/C by less says nothing but rounding."""


def spectral_radius(adj: CSR) -> np.float32:
    """Return the largest eigenvalue of a symmetric matrix without negative entries.

    The search begins with equal numbers, which no such graph's leading eigenvector is
    orthogonal to. In single precision, for where the search meets an invariant
    subspace it goes on at random, and the last digits of the result are not the same.
    """
    n = adj.shape[0]
    if n <= DENSE_NODES:
        return np.float32(np.linalg.eigvalsh(adj.toarray().astype(np.float64)).max())
    from scipy.sparse.linalg import eigsh

    (radius,) = eigsh(
        adj.astype(np.float64),
        k=1,
        which="LA",
        v0=np.ones(n),
        tol=1e-5,
        return_eigenvectors=False,
    )
    return np.float32(radius)


def belief_operators(adj: CSR) -> tuple[CSR, ...]:
    """Return A/ρ(A) and D/ρ(A)², with the degrees D; zeros where there is no edge.

    D is what a node hears of itself by way of its neighbours, the diagonal of A²: its
    degree, or the sum of the squares of what its pairs weigh.
    """
    radius = spectral_radius(adj) if adj.nnz else np.float32(1)
    degrees = np.diff(adj.indptr).astype(np.float32)
    scaled = np.full(adj.nnz, 1 / radius, dtype=np.float32)
    if is_weighted(adj):
        degrees = np.asarray(adj.power(2).sum(axis=1), dtype=np.float32)
        scaled = (adj.data / radius).astype(np.float32)
    return (
        CSR((scaled, adj.indices, adj.indptr), shape=adj.shape),
        CSR(sp.diags_array(degrees / radius**2)),
    )


class LinBP(NodeModule):
    r"""Linearised belief propagation (Gatterbauer et al., PVLDB 2015).

    .. math::
        \hat B^{(0)} = \hat E, \quad \hat B^{(t+1)} = \hat E + A \hat B^{(t)} \hat H
        - D \hat B^{(t)} \hat H^2, \quad \hat H = \varepsilon (H - 1/|Y|)

    Ê are the training labels, one-hot less 1/|Y|, with zero rows for all other nodes.
    H[i, j] is the share of class i's neighbours that are of class j, so labels help
    where neighbours are alike and where they differ. The last term takes back the
    echo, what a node hears of itself from its neighbours; without it this is the
    paper's LinBP*.

    With :math:`e = \rho(A) \lVert\hat H\rVert_2` the iteration without echo
    cancellation converges for e < 1; for a symmetric H that is the paper's exact
    bound. With it, no eigenvalue of the iteration is larger than e + e² max D / ρ(A)²,
    and no degree than ρ(A)²: it converges on any graph for e < (√5 − 1)/2. (The
    paper's sufficient bound keeps max D, and is wider on some graphs.) ε is `scale`
    times the bound.

    Beliefs shrink with every hop, and softmax of them would be flat. The logits are
    the beliefs over their mean standard deviation (that of a node's beliefs over the
    classes, mean over the nodes that have no label but were reached): one number for
    the whole graph, so all comparisons, between nodes too, are those of the beliefs.
    The paper standardises every node on its own. A node that no label reaches has
    equal logits.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    compatibility
        H, [|Y|, |Y|]; each row is divided by its sum, and nothing else is done to it.
        Rows and columns are in the order of class indices; of a `NodeClassifier`, in
        that of its `classes_`.
        None estimates it from the edges between training nodes in `initialise`, see
        `compatibility.from_edges`; until then it is uniform, and labels stay
        where they are.
    scale
        Share of the bound on convergence that ε takes.
    steps
        Number of iterations.
    echo
        Whether the echo is taken back.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the two operators [n, n] each (see
    `belief_operators`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes. There
    are no weights; the state is the buffer `compatibility`.
    """

    compatibility: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        compatibility: ArrayLike | None = None,
        scale: float = 0.5,
        steps: int = 10,
        echo: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_label_channels("LinBP", in_channels, out_channels)
        self.scale = check_real("LinBP", "scale", scale, "(0, 1)")
        self.steps = check_integer("LinBP", "steps", steps, 1, MAX_STEPS)
        self.echo = check_bool("LinBP", "echo", echo)
        self.estimated = compatibility is None
        matrix = (
            torch.full((out_channels, out_channels), 1 / out_channels)
            if compatibility is None
            else row_normalised("LinBP", compatibility, out_channels)
        )
        self.register_buffer("compatibility", matrix)

    def reset_parameters(self) -> None:
        """Do nothing: there are no weights."""

    def initialise(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        labels: Tensor,
        index: Tensor,
    ) -> None:
        """Estimate the compatibility from the training nodes, unless it was given."""
        del x
        if self.estimated:
            estimate = from_edges(operators[0], labels, index, self.out_channels)
            self.compatibility.copy_(estimate)

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the scaled beliefs of all nodes, [n, |Y|], or of the target's."""
        labels = _labels(x, self.out_channels)
        explicit = labels - labels.mean(dim=1, keepdim=True)
        beliefs = self._spread(explicit, operators)
        beliefs = beliefs / self._size(beliefs, labels, operators)
        return beliefs if target is None else beliefs[target.index]

    def _spread(self, explicit: Tensor, operators: Sequence[LinearMap]) -> Tensor:
        """Return the beliefs after all steps: they are linear in the labels."""
        a, d = operators
        h = self._coupling()
        beliefs = explicit
        for _ in range(self.steps):
            heard = a @ (beliefs @ h)
            if self.echo:
                heard = heard - d @ (beliefs @ h @ h)
            beliefs = explicit + heard
        return beliefs

    def _size(
        self, beliefs: Tensor, labels: Tensor, operators: Sequence[LinearMap]
    ) -> Tensor:
        """Return the number that beliefs are divided by, the same for all nodes."""
        # The typical size is that of the whole graph, whichever nodes are asked for.
        size = beliefs.std(dim=1, correction=0)
        # Beliefs that cancel out are zero on one processor and almost zero on another,
        # so they do not tell which nodes were reached.
        among = size[(labels == 0).all(dim=1) & self.reached(labels, operators)]
        return among.mean() if among.any() else size.new_ones(())

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the logits as a sum over the labelled nodes.

        The number that all beliefs are divided by is taken as it is.
        """
        labels = _labels(x, self.out_channels)
        explicit = labels - labels.mean(dim=1, keepdim=True)
        with torch.enable_grad():
            given = explicit.clone().requires_grad_()
            beliefs = self._spread(given, operators)
            of_class = [
                torch.autograd.grad(beliefs[node, c], given, retain_graph=True)[0]
                for c in range(self.out_channels)
            ]
        size = self._size(beliefs.detach(), labels, operators)
        effect = torch.stack([(explicit * of).sum(dim=1) for of in of_class], dim=1)
        by_node = (effect / size).cpu().numpy().astype(np.float64)
        how = (
            "exact by labelled node: beliefs are linear in the labels; the one number "
            "that they are all divided by is taken as it is"
        )
        return ExactSum(_of_labels(by_node, node), how)

    def reached(self, x: Input, operators: Sequence[LinearMap]) -> Tensor:
        """Return which nodes a label reaches, [n]; a uniform matrix passes none on."""
        steps = self.steps if self._coupling().any() else 0
        return reached_nodes(_labels(x, self.out_channels), operators[0], steps)

    def _coupling(self) -> Tensor:
        """Return ρ(A) Ĥ, for operators that are divided by ρ(A), [|Y|, |Y|]."""
        residual = self.compatibility - 1 / self.out_channels
        norm = float(torch.linalg.matrix_norm(residual.cpu(), 2))
        if norm < UNIFORM:
            return torch.zeros_like(residual)
        return residual * (self.scale * (ECHO_BOUND if self.echo else 1) / norm)
