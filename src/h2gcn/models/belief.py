"""Beliefs that spread through a compatibility matrix: BP, LinBP and ZooBP.

A compatibility matrix H, [C, C], says in H[i, j] which share of a node of class i's
neighbours are of class j. `h2gcn.homophily.compatibility_matrix` measures it on a
graph whose labels are known; the functions here guess it from the training nodes for
models that propagate by it, and so must find a value for every entry.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_bool, check_integer, check_real
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.models.base import MAX_STEPS, ExactSum, NodeModule, Summand
from h2gcn.models.label_propagation import (
    FLOOR,
    TIE,
    as_labels,
    check_label_channels,
    of_labels,
    reached_nodes,
)
from h2gcn.ring_table import Input
from h2gcn.rings import is_weighted
from h2gcn.sparse import LinearMap, Operator, Target, compiled

__all__ = [
    "BeliefPropagation",
    "LinBP",
    "ZooBP",
    "belief_operators",
    "from_edges",
    "from_neighbours",
    "project",
    "row_normalised",
    "sinkhorn",
    "spectral_radius",
]

TOLERANCE = 1e-12
"""Change of all entries together, below which Sinkhorn's iteration ends."""
ITERATIONS = 3000
"""How often rows and columns are scaled, at most."""
SMOOTHING = 0.01
"""Weight of the evenly spread edges that `from_edges` adds to those it counts."""


def row_normalised(matrix: ArrayLike, n_classes: int) -> Tensor:
    """Return a given compatibility matrix with rows that sum to one, else raise.

    Parameters
    ----------
    matrix
        [C, C].
    n_classes
        Number of classes C.
    """
    name = "compatibility"
    rule = (
        f"must be {n_classes} x {n_classes} numbers, finite and not negative, with a "
        "positive one in each row"
    )
    try:
        numbers = np.asarray(matrix, dtype=np.float64)
    except (OverflowError, RecursionError, TypeError, ValueError):
        raise InputError(rule, param=name, value=matrix) from None
    if numbers.shape != (n_classes, n_classes):
        raise InputError(f"{rule}, got shape {numbers.shape}", param=name)
    sums = numbers.sum(axis=1, keepdims=True)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and (sums > 0).all()):
        raise InputError(rule, param=name, value=numbers.tolist())
    return torch.from_numpy((numbers / sums).astype(np.float32))


def sinkhorn(matrix: Tensor) -> Tensor:
    """Scale columns and rows in turn until all of them sum to one.

    It ends when the entries change by less than 1e-12 together, or after 3,000 turns:
    not every pattern of zeros leaves a doubly stochastic matrix. Rows are scaled
    last. A column or row of zeros stays as it is.

    Parameters
    ----------
    matrix
        No entry negative, [C, C].

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.

    Examples
    --------
    >>> sinkhorn(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    tensor([[0.3333, 0.6667],
            [0.6667, 0.3333]], dtype=torch.float64)
    """
    # First to the processor: not every device has double precision.
    scaled = matrix.detach().cpu().double()
    for _ in range(ITERATIONS):
        before = scaled
        for axis in (0, 1):
            sums = scaled.sum(dim=axis, keepdim=True)
            scaled = scaled / torch.where(sums > 0, sums, 1)
        if (scaled - before).abs().sum() < TOLERANCE:
            break
    return scaled


def project(matrix: Tensor) -> Tensor:
    """Return ½(H + Hᵀ) of the scaled matrix: symmetric and doubly stochastic.

    Doubly stochastic only where `sinkhorn` comes to an end, as it does whenever all
    entries are positive.

    Parameters
    ----------
    matrix
        No entry negative, [C, C].
    """
    scaled = sinkhorn(matrix)
    return (scaled + scaled.T) / 2


def from_edges(adj: LinearMap, labels: Tensor, index: Tensor, n_classes: int) -> Tensor:
    r"""Return the compatibility of the edges that join two training nodes.

    .. math::
        M = X^\top A X, \quad H = \mathrm{project}(M + 0.01\, \bar M)

    with the one-hot training labels X (zero rows for other nodes) and the mean entry
    :math:`\bar M`. The evenly spread hundredth keeps every entry positive, so that H
    is symmetric and doubly stochastic whichever pairs of classes were seen.

    A class without such an edge says nothing: its row and column are 1/C, and the
    other classes share the rest of their rows as above.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix or a multiple of it, [n, n].
    labels
        Classes of the training nodes, [m].
    index
        The training nodes, [m].
    n_classes
        Number of classes C.

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.
    """
    one_hot = functional.one_hot(labels, n_classes).float()
    known = one_hot.new_zeros(adj.shape[0], n_classes)
    known[index] = one_hot
    counts = (known.T @ (adj @ known)).cpu().double()
    seen = torch.nonzero(counts.sum(dim=1) > 0)[:, 0]
    result = torch.full((n_classes, n_classes), 1 / n_classes, dtype=torch.float64)
    if len(seen):
        block = counts[seen][:, seen]
        shares = project(block + SMOOTHING * block.mean())
        result[seen[:, None], seen] = shares * (len(seen) / n_classes)
    return result


def from_neighbours(
    adj: LinearMap, beliefs: Tensor, labels: Tensor, index: Tensor
) -> Tensor:
    r"""Return the compatibility of training nodes with what their neighbours may be.

    .. math::
        H_{c \cdot} = \operatorname{mean}_{v \in \text{train}, y_v = c}
        (D^{-1} A\, Y)_{v \cdot}

    and then `project`. Training nodes without neighbours are left out. The row of a
    class that has none left is filled with its column; what is then still missing
    takes equal shares of what the row lacks of one.

    Parameters
    ----------
    adj
        Symmetric adjacency matrix, [n, n].
    beliefs
        Y, the probabilities of each node's classes, [n, C].
    labels
        Classes of the training nodes, [m].
    index
        The training nodes, [m].

    Returns
    -------
    Tensor
        [C, C], double precision, on the processor.
    """
    degrees = adj @ beliefs.new_ones(len(beliefs), 1)
    shares = (adj @ beliefs) / degrees.clamp(min=1)
    has = degrees[index, 0] > 0
    members = functional.one_hot(labels[has], beliefs.shape[1]).to(beliefs.dtype)
    sums = (members.T @ shares[index[has]]).cpu().double()
    # 0/0 is NaN, which here says that the row is missing.
    h = sums / members.sum(dim=0).cpu().double()[:, None]
    h = torch.where(h.isnan(), h.T, h)
    missing = h.isnan()
    # A filled row may hold more than one already; a share is never negative.
    lacking = (1 - h.nansum(dim=1, keepdim=True)).clamp(min=0)
    h = torch.where(missing, lacking / missing.sum(dim=1, keepdim=True), h)
    return project(h)


DENSE_NODES = 256
"""Up to so many nodes, all eigenvalues are computed."""
ECHO_BOUND = (5**0.5 - 1) / 2
"""Where e + e² = 1: up to this e, LinBP with echo cancellation converges anywhere."""
LEAST = float(np.log(FLOOR))
"""The logarithm that stands for that of no belief at all."""
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


class _Coupled(NodeModule):
    """A module without weights that spreads labels through a compatibility matrix.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    compatibility
        H, [|Y|, |Y|], with rows that sum to one; None estimates it in `initialise`,
        and until then it is uniform.

    Attributes
    ----------
    steps
        At most so many edges a label passes.
    """

    compatibility: Tensor
    steps: int

    def __init__(
        self, in_channels: int, out_channels: int, compatibility: Tensor | None
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.estimated = compatibility is None
        if compatibility is None:
            compatibility = torch.full((out_channels, out_channels), 1 / out_channels)
        self.register_buffer("compatibility", compatibility)

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

    def reached(self, x: Input, operators: Sequence[LinearMap]) -> Tensor:
        """Return which nodes a label reaches, [n]; a uniform matrix passes none on."""
        steps = self.steps if self._residual_norm() else 0
        return reached_nodes(as_labels(x, self.out_channels), operators[0], steps)

    def _residual_norm(self) -> float:
        """Return how far H is from uniform, zero where that is rounding."""
        residual = self.compatibility.cpu() - 1 / self.out_channels
        norm = float(torch.linalg.matrix_norm(residual, 2))
        return norm if norm >= UNIFORM else 0.0


class _WithClassPrior(_Coupled):
    """A coupled module in which nodes without a label begin with a class prior.

    An estimated H is doubly stochastic: it does not know which classes are common. So
    where edges say nothing, and the prior is uniform, every class is as likely.

    Attributes
    ----------
    class_prior
        How much of the training nodes' shares of the classes the prior takes; the rest
        is uniform.
    class_shares
        Those shares with one more node in each class, [|Y|]; uniform until
        `initialise`, and in files of models from before there were any.
    """

    class_shares: Tensor
    class_prior: float

    def _take_class_prior(self, class_prior: float) -> None:
        """Check how much of the shares is taken, and make room for them."""
        self.class_prior = check_real("class_prior", class_prior, "[0, 1]")
        self.register_buffer("class_shares", self._equal_shares())

    def _equal_shares(self) -> Tensor:
        """Return the shares of classes that are all as common, [|Y|]."""
        return torch.full((self.out_channels,), 1 / self.out_channels)

    def initialise(
        self,
        x: Input,
        operators: Sequence[LinearMap],
        labels: Tensor,
        index: Tensor,
    ) -> None:
        """Count the training nodes of each class, and estimate the compatibility."""
        super().initialise(x, operators, labels, index)
        counts = torch.bincount(labels, minlength=self.out_channels) + 1
        self.class_shares.copy_(counts / counts.sum())

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not its own; shares may be missing."""
        whole = {"class_shares": self._equal_shares(), **state}
        problem = super().state_problem(whole)
        if problem is None and not bool((whole["class_shares"] > 0).all()):
            return "class_shares has numbers that are not positive"
        return problem

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any
    ) -> None:
        """Take the state; without shares, the prior stays uniform."""
        state_dict.setdefault(f"{prefix}class_shares", self._equal_shares())
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _class_lead(self) -> Tensor:
        """Return the class prior less 1/|Y|, [|Y|]."""
        return self.class_prior * (self.class_shares - 1 / self.out_channels)


def _symmetric(matrix: ArrayLike | None, n_classes: int) -> Tensor | None:
    """Return a given compatibility matrix made symmetric and doubly stochastic.

    An edge has no direction, and a node that knows nothing shall say nothing.
    """
    if matrix is None:
        return None
    rows = row_normalised(matrix, n_classes)
    return project(rows.clamp(min=FLOOR)).float()


class LinBP(_Coupled):
    r"""Linearised belief propagation (Gatterbauer et al., PVLDB 2015).

    .. math::
        \hat B^{(0)} = \hat E, \quad \hat B^{(t+1)} = \hat E + A \hat B^{(t)} \hat H
        - D \hat B^{(t)} \hat H^2, \quad \hat H = \varepsilon (H - 1/|Y|)

    Ê are the training labels, one-hot less 1/|Y|, with zero rows for all other nodes: a
    uniform prior, as the paper has it (`ZooBP` has another one, too). H[i, j] is the
    share of class i's neighbours that are of class j, so labels help where neighbours
    are alike and where they differ. The last term takes back the echo, what a node
    hears of itself from its neighbours; without it this is the paper's LinBP*.

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
        `from_edges`; until then it is uniform, and labels stay
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

    tolerance = 0.0
    """How little beliefs may change where the iteration ends: all steps are taken."""

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
        check_label_channels(in_channels, out_channels)
        given = None
        if compatibility is not None:
            given = row_normalised(compatibility, out_channels)
        super().__init__(in_channels, out_channels, given)
        self.scale = check_real("scale", scale, "(0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.echo = check_bool("echo", echo)

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the scaled beliefs of all nodes, [n, |Y|], or of the target's."""
        labels = as_labels(x, self.out_channels)
        beliefs = self._spread(self._explicit(labels, operators), operators)
        beliefs = beliefs / self._size(beliefs, labels, operators)
        return beliefs if target is None else beliefs[target.index]

    def _explicit(self, labels: Tensor, operators: Sequence[LinearMap]) -> Tensor:
        """Return what each node is believed to be before it hears of others, [n, |Y|].

        Less 1/|Y|: zeros where there is no label.
        """
        del operators
        return labels - labels.mean(dim=1, keepdim=True)

    def _spread(self, explicit: Tensor, operators: Sequence[LinearMap]) -> Tensor:
        """Return the beliefs after all steps: they are linear in the labels."""
        a, d = operators
        h = self._coupling(operators)
        beliefs = explicit
        for _ in range(self.steps):
            heard = a @ (beliefs @ h)
            if self.echo:
                heard = heard - d @ (beliefs @ h @ h)
            before, beliefs = beliefs, explicit + heard
            change = float((beliefs - before).detach().abs().max())
            # Of large beliefs, rounding alone is more.
            least = self.tolerance * max(1.0, float(beliefs.detach().abs().max()))
            if change <= least:
                break
        else:
            self._tell_unsettled(change)
        return beliefs

    def _tell_unsettled(self, change: float) -> None:
        """Say that steps ran out before beliefs settled; nobody waits for it here."""

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
        labels = as_labels(x, self.out_channels)
        explicit = self._explicit(labels, operators)
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
        known = (labels != 0).any(dim=1).cpu().numpy()
        parts = of_labels(by_node * known[:, None], node)
        if (prior := by_node[~known].sum(axis=0)).any():
            parts += (Summand(prior, "how common each class is"),)
        how = (
            "exact by labelled node: beliefs are linear in the labels; the one number "
            "that they are all divided by is taken as it is"
        )
        return ExactSum(parts, how)

    def _coupling(self, operators: Sequence[LinearMap]) -> Tensor:
        """Return ρ(A) Ĥ, for operators that are divided by ρ(A), [|Y|, |Y|]."""
        residual = self.compatibility - 1 / self.out_channels
        norm = self._residual_norm()
        return residual * (self._reach(operators) / norm if norm else 0.0)

    def _reach(self, operators: Sequence[LinearMap]) -> float:
        """Return e, the norm of ρ(A) Ĥ."""
        return self.scale * self._bound(operators)

    def _bound(self, operators: Sequence[LinearMap]) -> float:
        """Return the e up to which the iteration converges."""
        del operators
        return ECHO_BOUND if self.echo else 1.0


class ZooBP(_WithClassPrior, LinBP):
    r"""ZooBP (Eswaran et al., PVLDB 2017), for one type of nodes and one of edges.

    .. math::
        b = e + (P - Q)\, b, \quad
        P = A \otimes \frac{\varepsilon}{|Y|} R, \quad
        Q = D \otimes (\frac{\varepsilon}{|Y|} R)^2, \quad R = |Y| H - 1

    e are the training labels, one-hot less 1/|Y|, one row of classes after the other;
    of any other node it is ε (π − 1/|Y|) with a class prior π, by `class_prior` between
    uniform and the training nodes' shares of the classes. R is the residual of the
    compatibility: how much likelier than by chance two classes are next to each other.
    Its rows and columns sum to zero, and it is symmetric, for an edge has no direction.
    Q takes the echo back.

    The paper has several types of nodes and of edges, each pair with a matrix of its
    own, and P and Q are then made of blocks. Here operators are made of one matrix of
    a graph, so all edges are of one type. With one type, :math:`\varepsilon R / |Y|` is
    LinBP's :math:`\hat H`, and both have the same solution for the same ε and a uniform
    prior. Four things differ: the system is solved, where LinBP takes a few steps; a
    given matrix is made symmetric, where LinBP takes it as it is; ε has a bound of its
    own; and there is a class prior.

    The iteration converges if and only if ρ(P − Q) < 1, and it does if the norms of P
    and Q sum to less than 1. In spectral norms that is e + m e² < 1 with
    :math:`e = \varepsilon \rho(A) \lVert R \rVert_2 / |Y|` and m = max D / ρ(A)²: the
    bound is e = (√(1 + 4m) − 1) / 2m. It is LinBP's (√5 − 1)/2 on a star, where m is
    1, and near 1 where no degree is large against ρ(A)². ε is `scale` times the bound,
    but at most 1: that is H itself, and more would only make its errors larger. (Of
    edges with weights, ε is that of a typical one.) The paper's program takes a fixed
    ε, such as 1e-4.

    In the paper's program a node without a label has e = 0, a uniform prior, which is
    `class_prior` 0. H does not know which classes are common, so where edges say little
    every class is then predicted about as often as any other. ε makes what neighbours
    say weaker, so that the iteration converges, and the prior as much, so that both
    weigh as they would at ε = 1. What comes from further away, ε² and less, weighs less
    against it: where labels are far and neighbours alike, a uniform prior is the better
    one.

    The logits are beliefs over their typical size, as LinBP's. Classes that a node
    hears best and equally well, up to rounding, are equal.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    compatibility
        H, [|Y|, |Y|], made symmetric with rows and columns that sum to one, see
        `project`; a zero counts as 1e-12. None estimates it from the
        edges between training nodes in `initialise`, see `from_edges`;
        until then it is uniform, and labels stay where they are.
    scale
        Share of the bound on convergence that ε takes.
    class_prior
        How much of the training nodes' shares of the classes (one more node in each)
        the prior takes, the rest is uniform.
    steps
        Number of iterations, at most; a warning says where they were too few.
    tolerance
        The iteration ends once no belief changes by more; where beliefs are larger
        than one, by this share of the largest.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the two operators [n, n] each (see
    `belief_operators`), logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes. There
    are no weights; the state is the buffers `compatibility` and `class_shares`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        compatibility: ArrayLike | None = None,
        scale: float = 0.5,
        class_prior: float = 1.0,
        steps: int = 1000,
        tolerance: float = 1e-6,
    ) -> None:
        check_label_channels(in_channels, out_channels)
        matrix = _symmetric(compatibility, out_channels)
        _Coupled.__init__(self, in_channels, out_channels, matrix)
        self._take_class_prior(class_prior)
        self.scale = check_real("scale", scale, "(0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "[0, 1)")
        self.echo = True

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the scaled beliefs of all nodes, [n, |Y|], or of the target's."""
        labels = as_labels(x, self.out_channels)
        explicit = self._explicit(labels, operators)
        beliefs = self._spread(explicit, operators)
        best = beliefs.amax(dim=1, keepdim=True)
        rounding = TIE * self._heard(explicit, operators)
        levelled = torch.where(beliefs >= best - rounding, best, beliefs)
        levelled = levelled / self._size(beliefs, labels, operators)
        return levelled if target is None else levelled[target.index]

    def _explicit(self, labels: Tensor, operators: Sequence[LinearMap]) -> Tensor:
        """Return what each node is believed to be before it hears of others, [n, |Y|].

        Less 1/|Y|: of nodes without a label, what the class prior says.
        """
        epsilon = 1.0
        if norm := self._residual_norm():
            epsilon = self._reach(operators) * self._edge(operators) / norm
        explicit = super()._explicit(labels, operators)
        explicit[(labels == 0).all(dim=1)] = epsilon * self._class_lead()
        return explicit

    def _tell_unsettled(self, change: float) -> None:
        """Warn: the beliefs are not the solution."""
        if self.tolerance:
            warnings.warn(
                f"the beliefs have not settled: after {self.steps} steps they still "
                f"change by up to {change:.2g}; a smaller 'scale' or more 'steps' may "
                "help",
                H2GCNWarning,
                stacklevel=2,
            )

    def _heard(self, explicit: Tensor, operators: Sequence[LinearMap]) -> Tensor:
        """Return how much each node hears, whatever it says, [n, 1].

        What is heard for and against a class may cancel out, and what is left is then
        rounding of numbers that large.
        """
        a, d = operators
        own: Tensor = torch.linalg.vector_norm(explicit, dim=1, keepdim=True)
        e = self._reach(operators)
        heard = own
        for _ in range(self.steps):
            before, heard = heard, own + e * (a @ heard) + e * e * (d @ heard)
            if float((heard - before).abs().max()) <= self.tolerance:
                break
        return heard

    def _reach(self, operators: Sequence[LinearMap]) -> float:
        """Return e, the norm of ρ(A) Ĥ: at most that of ρ(A) (H − 1/|Y|)."""
        whole = self._residual_norm() / self._edge(operators)
        return min(super()._reach(operators), whole)

    def _edge(self, operators: Sequence[LinearMap]) -> float:
        """Return what an edge weighs in A/ρ(A), the mean by weight: 1/ρ(A) if alike."""
        a, d = operators
        ones = torch.ones(a.shape[0], 1, device=a.device)
        total = float((a @ ones).sum())
        return float((d @ ones).sum()) / total if total else 1.0

    def _bound(self, operators: Sequence[LinearMap]) -> float:
        """Return the e for which e + m e² is one, with m = max D / ρ(A)²."""
        diagonal = operators[1] @ torch.ones(
            operators[1].shape[0], 1, device=operators[1].device
        )
        m = float(diagonal.max())
        return ((1 + 4 * m) ** 0.5 - 1) / (2 * m) if m > 0 else 1.0


class BeliefPropagation(_WithClassPrior):
    r"""Loopy belief propagation (Pearl 1988; Yedidia et al. 2003), sums of products.

    .. math::
        m_{uv}(j) \propto \sum_i \phi_u(i)\, \psi(i, j)
        \prod_{w \in N(u), w \neq v} m_{wu}(i), \quad
        b_v(j) \propto \phi_v(j) \prod_{u \in N(v)} m_{uv}(j), \quad
        \text{logits} = \log b_v

    All labels together have a probability in proportion to the product of ψ(y_u, y_v)
    over the edges and of φ_v(y_v) over the nodes; the beliefs b are what each node's
    label is by that. On a forest they are exact, once messages have gone from end to
    end, and a label that is held fast cuts the cycles that it is in. Where others are
    left, a node's own message comes back to it: beliefs are then too sure, or never
    settle, and a warning says so.

    φ of a training node is one for its label and zero elsewhere (or less sure, by
    `prior`). Of any other node it is a class prior, by `class_prior` between uniform
    and the training nodes' shares of the classes: H is doubly stochastic and does not
    know which classes are common, so where edges say nothing a uniform prior makes
    every class as likely. (The prior is that of a node without edges. One with edges to
    nodes without labels hears from them which classes go with common ones.)
    ψ = 1/|Y| + `coupling` (H − 1/|Y|) of the
    compatibility matrix H. All messages are sent at once, each divided by its sum;
    products are sums of logarithms, so that none underflows at a hub. A message is a
    mean of the new and, by `damping`, the last one; where all settle is the same.

    The same H estimated from edges is LinBP's, which is this for weak compatibilities,
    linearised. What edges weigh is not looked at.

    Classes whose belief is largest up to rounding are equal. With a uniform prior, a
    node that no label reaches has equal logits. What a training node cannot be has a
    belief of 1e-12.

    Parameters
    ----------
    in_channels, out_channels
        Number of classes |Y|, both.
    compatibility
        H, [|Y|, |Y|], made symmetric with rows and columns that sum to one, see
        `project`; a zero counts as 1e-12. None estimates it from the
        edges between training nodes in `initialise`, see `from_edges`;
        until then it is uniform, and labels stay where they are.
    coupling
        How much of H is taken, the rest is uniform; 1 is all of it.
    prior
        How likely a training node's label is, before it hears of others; 1 holds it
        fast. The other classes share the rest.
    class_prior
        How much of the training nodes' shares of the classes (one more node in each)
        the prior of other nodes takes, the rest is uniform.
    damping
        Share of the last message in each new one.
    steps
        Number of iterations, at most.
    tolerance
        The iteration ends once no share of a message changes by more.

    Notes
    -----
    Shapes: `x` [n, |Y|] the one-hot labels, the operator A [n, n] symmetric and binary,
    logits [n, |Y|], or [m, |Y|] for a `Target` of m nodes. There are no weights; the
    state is the buffers `compatibility` and `class_shares`. It is computed on the
    processor, in double precision. What a label that is held fast says never changes
    and nothing changes it: a step takes |Y|² multiplications for each direction of each
    edge between other nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        compatibility: ArrayLike | None = None,
        coupling: float = 1.0,
        prior: float = 1.0,
        class_prior: float = 1.0,
        damping: float = 0.5,
        steps: int = 200,
        tolerance: float = 1e-6,
    ) -> None:
        check_label_channels(in_channels, out_channels)
        matrix = _symmetric(compatibility, out_channels)
        super().__init__(in_channels, out_channels, matrix)
        self.coupling = check_real("coupling", coupling, "(0, 1]")
        self.prior = check_real("prior", prior, "(0, 1]")
        self._take_class_prior(class_prior)
        self.damping = check_real("damping", damping, "[0, 1)")
        self.steps = check_integer("steps", steps, 1, MAX_STEPS)
        self.tolerance = check_real("tolerance", tolerance, "[0, 1)")

    def forward(
        self,
        x: Tensor | Operator,
        operators: Sequence[Operator],
        target: Target | None = None,
    ) -> Tensor:
        """Return the log-beliefs of all nodes, [n, |Y|], or of the target's."""
        labels = as_labels(x, self.out_channels).cpu().numpy().astype(np.float64)
        beliefs = self._log_priors(labels)
        if self._residual_norm():
            adj = operators[0].take(np.arange(len(labels)))
            beliefs = self._settle(adj, beliefs)
        best = beliefs.max(axis=1, keepdims=True)
        levelled = torch.from_numpy(np.where(beliefs >= best - TIE, best, beliefs))
        logits = levelled.log_softmax(dim=1).nan_to_num(neginf=LEAST)
        logits = logits.float().to(x.device)
        return logits if target is None else logits[target.index]

    def entry_bytes(self) -> int:
        """Return the bytes for an entry: two messages and where the answer goes."""
        return 16 * self.out_channels + 16

    def _log_priors(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log φ of each node, [n, |Y|]."""
        other = (1 - self.prior) / max(self.out_channels - 1, 1)
        priors = np.where(labels > 0, self.prior, other)
        lead = self._class_lead().cpu().numpy().astype(np.float64)
        priors[~labels.any(axis=1)] = 1 / self.out_channels + lead
        with np.errstate(divide="ignore"):  # of a label that is held fast
            return np.asarray(np.log(priors))

    def _settle(self, adj: CSR, priors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithms of the beliefs, up to a number for each node, [n, C].

        What nodes that are held fast say becomes part of their neighbours' priors.
        """
        uniform = 1 / self.out_channels
        h = self.compatibility.cpu().numpy().astype(np.float64)
        psi = np.maximum(uniform + self.coupling * (h - uniform), FLOOR)
        is_held = np.isneginf(priors).any(axis=1)
        held, free = np.flatnonzero(is_held), np.flatnonzero(~is_held)
        of_free = CSR(adj[free])
        said = np.log(psi)[priors[held].argmax(axis=1)]
        known = priors[free] + of_free[:, held] @ said
        beliefs = priors.copy()
        beliefs[free] = known + self._heard(CSR(of_free[:, free]), known, psi)
        return beliefs

    def _heard(
        self, adj: CSR, priors: NDArray[np.float64], psi: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sum of the logarithms of what each node hears, [n, C].

        Entry e of row u, column v, is the message that u hears of v; `reverse` says
        which entry is the one that v hears of u.
        """
        adj.sort_indices()
        reverse = np.argsort(adj.indices, kind="stable")
        heard = np.full((adj.nnz, self.out_channels), 1 / self.out_channels)
        sent, starts = np.empty_like(heard), adj.indptr.astype(np.int64)
        change = 0.0
        for _ in range(self.steps):
            change = _send_messages(
                starts, reverse, heard, priors, psi, self.damping, sent
            )
            heard, sent = sent, heard
            if change <= self.tolerance:
                break
        else:
            warnings.warn(
                f"belief propagation has not settled: after {self.steps} steps "
                f"messages still change by up to {change:.2g}; a larger 'damping', a "
                "smaller 'coupling' or more 'steps' may help",
                H2GCNWarning,
                stacklevel=2,
            )
        by_row = CSR(
            (np.ones(adj.nnz), np.arange(adj.nnz), starts),
            shape=(len(priors), adj.nnz),
        )
        return np.asarray(by_row @ np.log(heard))


@compiled
def _send_messages(  # type: ignore[no-untyped-def]
    starts, reverse, heard, priors, psi, damping, out
):
    """Write what each node says to each neighbour; return the largest change.

    Products are sums of logarithms, of which the largest is taken away before they are
    shares again: of those of many messages each may be far below what a number holds.
    """
    classes = psi.shape[0]
    all_of, said, without = np.empty(classes), np.empty(classes), np.empty(classes)
    logs = np.empty((np.diff(starts).max() if len(starts) > 1 else 0, classes))
    largest = 0.0
    for u in range(len(starts) - 1):
        first = starts[u]
        for i in range(classes):
            all_of[i] = priors[u, i]
        for e in range(first, starts[u + 1]):
            for i in range(classes):
                logs[e - first, i] = np.log(heard[e, i])
                all_of[i] += logs[e - first, i]
        for e in range(first, starts[u + 1]):
            top = -np.inf
            for i in range(classes):
                without[i] = all_of[i] - logs[e - first, i]
                top = max(top, without[i])
            for j in range(classes):
                said[j] = 0.0
            for i in range(classes):
                share = np.exp(without[i] - top)
                for j in range(classes):
                    said[j] += share * psi[i, j]
            total = 0.0
            for j in range(classes):
                total += said[j]
            to, scale = reverse[e], (1 - damping) / total
            for j in range(classes):
                before = heard[to, j]
                now = scale * said[j] + damping * before
                largest = max(largest, abs(now - before))
                out[to, j] = now
    return largest
