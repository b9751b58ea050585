"""Iterative classification: guessed labels of neighbours are features of the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split, check_is_graph
from h2gcn.models.label_propagation import TIE
from h2gcn.models.table_learners import ABSENT, BoostedTrees, LogisticTable
from h2gcn.models.table_net import TableModule, table_rows
from h2gcn.ring_table import Input, TableInput, TableMaker, check_recipe
from h2gcn.sparse import LinearMap, Target

__all__ = ["IterativeClassification", "NaiveBayesTable", "iterative_classification"]

TABLE = "own+labels.ring1"
MAX_ROUNDS = 1000
"""More is a slip of the keyboard."""


class BlockLogistic(LogisticTable):
    """Logistic regression to which each block of the table counts alike.

    As `LogisticTable`, but that columns are divided by the root of the number of
    columns in their block, not of all: beside a thousand words, the labels of
    neighbours would hardly be seen.
    """

    def _shared_by(self, varies: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many columns share the penalty of each: those of its block."""
        ends = np.cumsum(self.widths)[:-1]
        counts = [int(part.sum()) for part in np.split(varies, ends)]
        return np.repeat(counts, self.widths).astype(np.int64)


class NaiveBayesTable(TableModule):
    r"""Gaussian naive Bayes (scikit-learn's) on the ring table.

    .. math::
        \text{logits} = \log p_c - \tfrac 1 2 \sum_d
        (\log 2 \pi v_{cd} + (z_d - \mu_{cd})^2 / v_{cd})

    less their log-sum-exp, and at least -30: z are the columns of a node, and p_c, μ_c
    and v_c the share of class c among the training nodes, and the means and variances
    of their columns, to which a billionth of the largest of all is added.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    """

    log_share: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        shape = out_channels, self.in_channels
        kind = torch.float64
        self.register_buffer("log_share", torch.zeros(out_channels, dtype=kind))
        self.register_buffer("mean", torch.zeros(shape, dtype=kind))
        self.register_buffer("variance", torch.ones(shape, dtype=kind))

    def initialise(
        self, x: Input, operators: Sequence[LinearMap], labels: Tensor, index: Tensor
    ) -> None:
        """Fit it to the training nodes."""
        from sklearn.naive_bayes import GaussianNB

        del operators
        assert isinstance(x, TableInput)
        rows = x.rows(index.cpu().numpy()).dense().astype(np.float64)
        fitted = GaussianNB().fit(rows, labels.cpu().numpy())
        seen = torch.from_numpy(fitted.classes_)
        # Where no column varies at all, none says anything.
        variance = np.where(fitted.var_ > 0, fitted.var_, 1.0)
        self.log_share.fill_(2 * ABSENT)
        self.log_share[seen] = torch.from_numpy(np.log(fitted.class_prior_)).to(
            self.log_share
        )
        self.mean[seen] = torch.from_numpy(fitted.theta_).to(self.mean)
        self.variance[seen] = torch.from_numpy(variance).to(self.variance)

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap] = (),
        target: Target | None = None,
    ) -> Tensor:
        """Return log-probabilities, [n, C] (or of the target's nodes)."""
        del operators
        mean, variance = self.mean.cpu().numpy(), self.variance.cpu().numpy()
        rows = table_rows(x, target).dense().astype(np.float64)
        constant = np.log(2 * np.pi * variance) + mean**2 / variance
        joint = rows @ (mean / variance).T - rows**2 @ (0.5 / variance).T
        joint += self.log_share.cpu().numpy() - constant.sum(axis=1) / 2
        absent = self.log_share.cpu().numpy() <= ABSENT
        joint[:, absent] = -np.inf
        logits = torch.from_numpy(joint).log_softmax(dim=1).clamp(min=ABSENT)
        return logits.float().to(x.device)

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not its own: variances are positive."""
        problem = super().state_problem(state)
        if problem is None and not bool((state["variance"] > 0).all()):
            return "variance has numbers that are not positive"
        return problem


BASES: dict[str, type[TableModule]] = {
    "logistic": BlockLogistic,
    "boosted-trees": BoostedTrees,
    "naive-bayes": NaiveBayesTable,
}
"""What `base` takes: learners that are nothing but arrays once they are fitted."""


class IterativeClassification(TableModule):
    r"""Iterative classification (Neville and Jensen, 2000; Lu and Getoor, ICML 2003).

    .. math::
        z_v^{(t)} = [x_v \Vert \mathrm{shares}_{u \in N(v)}(y_u^{(t)})], \quad
        y_v^{(t+1)} = \arg\max_c f(z_v^{(t)})_c, \quad
        \text{logits} = f(z_v^{(T)})

    f is a classifier of a node's own features and the shares of labels among its
    neighbours, fitted on the training nodes with the labels of training nodes around
    them. It is asked first with these labels alone (the bootstrap), and then again,
    `rounds` times at most or until no label changes, with the labels that it guessed
    for all other nodes. Training nodes keep their labels.

    As in Sen et al. (2008), Algorithm 1, one classifier is for the bootstrap and for
    all rounds; Lu and Getoor have two models, one for features and one for links, and
    multiply them. Their counts are here shares, for the rounds see more labels than the
    fit does. A round guesses all labels at once, where those papers go from node to
    node in some order: no result depends on an order, but labels of two neighbours may
    swap for ever, which the number of rounds ends.

    A node's own label is in none of its columns, so scores of training nodes are those
    of a model that was fitted to them, and no more. What edges weigh is not looked at.
    Logits that are largest up to rounding are equal.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Whose labels, and whether own features are seen: own+labels.ring1 or, with
        neighbours two steps away, own+labels.ring1+labels.ring2; along directions
        labels.out and labels.in, and so on (see `h2gcn.ring_table.check_recipe`).
    base
        f, "logistic" (`BlockLogistic`), "boosted-trees" (`BoostedTrees`) or
        "naive-bayes" (`NaiveBayesTable`). `iterative_classification` takes any
        classifier of scikit-learn.
    rounds
        How often all labels are guessed anew, at most.

    Notes
    -----
    Shapes: `x` a `TableInput` of n nodes with the labels `known` [n, C] and how they
    are counted, no operators, logits [n, C], or [m, C] for a `Target` of m nodes. There
    are no weights; the state is that of f.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = TABLE,
        base: str = "logistic",
        rounds: int = 10,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table = _check_table(table)
        check_choice("base", base, BASES)
        self.rounds = check_integer("rounds", rounds, 0, MAX_ROUNDS)
        self.base = BASES[base](self.widths, out_channels)

    @property
    def reach(self) -> int | None:
        """None: guesses go on from neighbour to neighbour."""
        return None

    def initialise(
        self, x: Input, operators: Sequence[LinearMap], labels: Tensor, index: Tensor
    ) -> None:
        """Fit the classifier to the training nodes."""
        assert isinstance(x, TableInput)
        self.base.initialise(_counted(x, x.known), operators, labels, index)

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap] = (),
        target: Target | None = None,
    ) -> Tensor:
        """Return logits, [n, C], or of the target's nodes."""
        del operators
        logits = _iterate(self.base, x, self.rounds)
        return logits if target is None else logits[target.index]

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not the state of its classifier, if so."""
        for name in state:
            if not name.startswith("base."):
                return f"{name} is none of its tensors"
        own = {name.removeprefix("base."): tensor for name, tensor in state.items()}
        problem = self.base.state_problem(own)
        return None if problem is None else f"base.{problem}"


def _check_table(table: str) -> str:
    """Return a recipe of own features and labels nearby, or raise."""
    blocks = check_recipe(table)
    labels = [block for block in blocks if block.startswith("labels.")]
    if not labels or set(blocks) - {"own", *labels}:
        raise InputError(
            "must be labels nearby, such as labels.ring1, with own features or without",
            param="table",
            value=table,
        )
    return table


def _counted(x: TableInput, labels: Tensor) -> TableInput:
    """Return a table whose blocks of labels are the shares of these, [n, C].

    Their last column, how many labels there are, is zero: once all are guessed there
    are many more than the classifier ever saw.
    """
    seen = {name: counts.columns(labels) for name, counts in x.labels.items()}
    for columns in seen.values():
        columns[:, -1] = 0
    return replace(x, blocks={**x.blocks, **seen})


def _iterate(
    predict: Callable[[TableInput], Tensor], x: TableInput, rounds: int
) -> Tensor:
    """Return scores once all labels were guessed, and guessed again, [n, C].

    Parameters
    ----------
    predict
        Gives the scores of all nodes of a table.
    x
        With the known labels, and how they are counted.
    rounds
        How often, at most.
    """
    known = x.known.any(dim=1, keepdim=True)
    labels = x.known
    scores = _levelled(predict(_counted(x, labels)))
    for _ in range(rounds):
        guessed = functional.one_hot(scores.argmax(dim=1), scores.shape[1])
        before, labels = labels, torch.where(known, x.known, guessed.to(x.known))
        if torch.equal(before, labels):
            break
        scores = _levelled(predict(_counted(x, labels)))
    return scores


def _levelled(scores: Tensor) -> Tensor:
    """Return scores with those equal that are largest up to rounding, [n, C]."""
    best = scores.amax(dim=1, keepdim=True)
    return torch.where(scores >= best - TIE * best.abs().clamp(min=1), best, scores)


def iterative_classification(
    graph: Graph,
    split: Split | int,
    estimator: Any,
    *,
    table: str = TABLE,
    rounds: int = 10,
) -> NDArray[np.float64]:
    """Return the probabilities of iterative classification with any classifier.

    It is the model `ica` (see `IterativeClassification`) with whatever classifier of
    scikit-learn: fitted on own features and the shares of training labels nearby,
    asked, and asked again with the labels that it guessed, all at once in each round.

    Parameters
    ----------
    graph
        With labels for the training nodes. No other label is looked at.
    split
        Its `train` part says which nodes' labels are known; or the number of one of
        the graph's own splits.
    estimator
        With `fit` and `predict_proba`. It is cloned, and sees the features as the graph
        has them: a pipeline may scale them.
    table, rounds
        As of `IterativeClassification`.

    Returns
    -------
    NDArray
        Of each node and class, [n, C]; zero for a class that training has not.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from h2gcn.datasets import generate_graph
    >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
    >>> iterative_classification(graph, 0, GaussianNB()).shape
    (300, 5)
    """
    from sklearn.base import clone

    check_is_graph(graph)
    _check_table(table)
    check_integer("rounds", rounds, 0, MAX_ROUNDS)
    for method in ("fit", "predict_proba"):
        if isinstance(estimator, type) or not callable(
            getattr(estimator, method, None)
        ):
            raise InputError(
                f"must be a classifier of scikit-learn with '{method}'",
                param="estimator",
                value=estimator,
            )
    train = _training_nodes(graph, split)
    known = np.zeros((graph.n_nodes, graph.n_classes), dtype=np.float32)
    known[train, graph.y[train]] = 1
    maker = TableMaker(graph)
    x = maker.build(
        maker.schema(table), graph.x, "own", torch.from_numpy(known), maskable=True
    )

    def columns(some: TableInput) -> NDArray[np.float64]:
        return some.dense().astype(np.float64)

    seen = _counted(x, x.known).rows(train)
    fitted = clone(estimator).fit(columns(seen), graph.y[train])

    def predict(counted: TableInput) -> Tensor:
        scores = torch.zeros(known.shape, dtype=torch.float64)
        shares = np.asarray(fitted.predict_proba(columns(counted)), dtype=np.float64)
        scores[:, torch.from_numpy(fitted.classes_)] = torch.from_numpy(shares)
        return scores

    return np.asarray(_iterate(predict, x, rounds).numpy())


def _training_nodes(graph: Graph, split: Split | int) -> NDArray[np.int64]:
    """Return the training nodes of a split, all of which have labels, or raise."""
    if not isinstance(split, Split):
        last = len(graph.splits) - 1
        if last < 0:
            raise InputError(f"{graph.name} has no split of its own; give a Split.")
        split = graph.splits[check_integer("split", split, 0, last)]
    train = split.train
    if not len(train) or train.max() >= graph.n_nodes or (graph.y[train] < 0).any():
        raise InputError(
            f"must have training nodes, and all of them labels in {graph.name}",
            param="split",
        )
    return train
