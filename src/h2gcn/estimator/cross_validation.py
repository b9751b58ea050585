"""Cross-validation: a classifier fitted on folds of the labelled nodes in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from h2gcn import __version__
from h2gcn._validation import as_array, check_callable, check_integer, check_type
from h2gcn.estimator.classifier import NodeClassifier
from h2gcn.estimator.prediction import Evaluation, mean_and_deviation
from h2gcn.exceptions import InputError
from h2gcn.graph import (
    Graph,
    Split,
    check_is_graph,
    deal_groups,
    groups_of_one,
    stratified_split,
)
from h2gcn.training import mean_interval

__all__ = ["CrossValidation", "FoldScores", "cross_validate"]

LARGEST = {"log_loss": math.inf, "brier": 2.0}
"""What a score can be at most, where that is not 1; none is below 0."""
VALIDATION = 4
"""One of so many nodes that are not of the fold is a validation node."""


@dataclass(frozen=True)
class FoldScores:
    """How a classifier did on a fold that it did not see.

    Parameters
    ----------
    repeat, fold
        From 0.
    sizes
        Numbers of training, validation and test nodes.
    measures
        `accuracy`, `macro_f1`, `roc_auc` (of two classes), `pr_auc`, `log_loss`,
        `brier` and `calibration_error`; None where one has no value.
    seconds
        That the fit took.
    """

    repeat: int
    fold: int
    sizes: tuple[int, int, int]
    measures: Mapping[str, float | None]
    seconds: float


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Scores of a classifier on folds of a graph.

    Parameters
    ----------
    model
        Name of the model.
    graph
        Name of the graph.
    classes
        The labels, [C].
    folds
        The scores of each fold, repeat after repeat.
    nodes
        The labelled nodes, [m].
    predictions
        The label of each of them by the classifier that did not see it, [m]; of
        several repeats that which was said most often.
    probabilities
        Likewise its probabilities, in the mean of the repeats, [m, C].
    overlap
        Test nodes per training node, in the mean of the folds.
    """

    model: str
    graph: str
    classes: NDArray[Any]
    folds: tuple[FoldScores, ...]
    nodes: NDArray[np.int64]
    predictions: NDArray[Any]
    probabilities: NDArray[np.float32]
    overlap: float

    def values(self, measure: str) -> list[float]:
        """Return a measure of each fold in which it has a value."""
        found = [fold.measures[measure] for fold in self.folds]
        return [value for value in found if value is not None]

    @property
    def summary(self) -> dict[str, dict[str, float | int | None]]:
        """Mean, sample deviation, number of folds, and interval of each measure.

        `low` and `high` are of 95 %, by Nadeau and Bengio: folds share most of their
        training nodes, so that their deviation alone says too little. None where less
        than two folds have a value.
        """
        found = {}
        for name in self.folds[0].measures:
            values = self.values(name)
            low, high = mean_interval(values, self.overlap)
            known = math.isfinite(low)
            # By Student's t it may go beyond what a score can be.
            most = LARGEST.get(name, 1.0)
            found[name] = mean_and_deviation(values) | {
                "low": max(low, 0.0) if known else None,
                "high": min(high, most) if known else None,
            }
        return found

    def to_json(self) -> dict[str, Any]:
        """Return all as what JSON can hold; scores are fractions of 1."""
        return {
            "dataset": self.graph,
            "model": self.model,
            "classes": [str(label) for label in self.classes],
            "measures": self.summary,
            "overlap": self.overlap,
            "folds": [
                asdict(fold)
                | {"sizes": list(fold.sizes), "measures": dict(fold.measures)}
                for fold in self.folds
            ],
            "nodes": self.nodes.tolist(),
            "predictions": [str(label) for label in self.predictions],
            "version": __version__,
        }

    def __repr__(self) -> str:
        repeats = self.folds[-1].repeat + 1
        count = len(self.folds) // repeats
        often = "" if repeats == 1 else f", {repeats} times"
        lines = [
            f"{self.model} on {self.graph}: {count} folds of {len(self.nodes):,} "
            f"labelled nodes{often}"
        ]
        for name, found in self.summary.items():
            mean, std = found["mean"], found["std"]
            text = "no value" if mean is None else f"{mean:.3f}"
            text += "" if std is None else f" ± {std:.3f}"
            if found["low"] is not None:
                text += f"  (95 %: {found['low']:.3f} to {found['high']:.3f})"
            lines.append(f"  {name:<17} {text}")
        return "\n".join(lines)


def cross_validate(
    graph: Graph,
    estimator: NodeClassifier | None = None,
    *,
    folds: int = 5,
    repeats: int = 1,
    seed: int = 0,
    groups: ArrayLike | None = None,
    on_fold: Callable[[FoldScores], None] | None = None,
) -> CrossValidation:
    """Fit a classifier on all folds of the labelled nodes but one, and score it there.

    Each class is dealt to the folds alike. A fold's nodes are test nodes in turn; of
    the others one in four is a validation node. Nodes of all folds are in the graph
    all the time, as nodes to be predicted are; their labels are not.

    Parameters
    ----------
    graph
        With labels.
    estimator
        What is fitted, a copy for each fold; None is `NodeClassifier()`. Where it has
        no `random_state`, fold i of all is seeded by seed + i. It is scored before any
        `refit`, which would leave no node to score by.
    folds
        How many, at least 2, and no more than the smallest class has nodes.
    repeats
        How often nodes are dealt anew.
    seed
        Of the folds.
    groups
        A name for each node, [n]; nodes of one name are never torn apart, neither by
        folds nor by training and validation. Names of nodes without labels do not
        count. None is `graph.groups`, if there are any.
    on_fold
        Called with the `FoldScores` of each fold.

    Returns
    -------
    CrossValidation
        Scores of each fold, `summary` of them, and predictions of every labelled node
        by a classifier that did not see its label.

    Examples
    --------
    >>> from h2gcn.datasets import generate_graph
    >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
    >>> found = cross_validate(graph, NodeClassifier("mlp", epochs=20), folds=3)
    >>> len(found.folds), found.predictions.shape
    (3, (300,))
    """
    check_is_graph(graph)
    estimator = NodeClassifier() if estimator is None else estimator
    rule = "a NodeClassifier, or None"
    check_type("estimator", estimator, NodeClassifier, rule)
    check_integer("folds", folds, 2)
    check_integer("repeats", repeats, 1)
    check_integer("seed", seed, 0, 2**31)
    check_callable("on_fold", on_fold)
    if groups is None and graph.groups is not None:
        groups = groups_of_one(graph.groups)
    names = None if groups is None else _check_groups(graph, groups, folds)
    _check_classes(graph, folds)
    nodes = graph.labelled
    place = np.full(graph.n_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    votes = np.zeros((len(nodes), graph.n_classes))
    shares = np.zeros((len(nodes), graph.n_classes))
    done: list[FoldScores] = []
    for number, split in enumerate(_splits(graph, folds, repeats, seed, names)):
        one = clone(estimator).set_params(refit=False)
        if one.random_state is None:
            one.set_params(random_state=seed + number)
        one.fit(graph, split)
        if one.interrupted_:
            raise KeyboardInterrupt
        rows = place[split.test]
        logits = one.predict_logits(graph, split.test)
        told = one.probabilities_of(logits)
        votes[rows, logits.argmax(axis=1)] += 1
        shares[rows] += told
        found = Evaluation.of(
            graph.y[split.test], logits, told, graph.degrees[split.test]
        )
        done.append(
            FoldScores(
                *divmod(number, folds), split.sizes, found.measures, one.seconds_
            )
        )
        if on_fold is not None:
            on_fold(done[-1])
    shares /= repeats
    return CrossValidation(
        estimator.model,
        graph.name,
        graph.classes,
        tuple(done),
        nodes,
        # Of classes that were said as often the likelier: a share is less than a vote.
        graph.classes[(votes + shares / 2).argmax(axis=1)],
        shares.astype(np.float32),
        float(np.mean([one.sizes[2] / one.sizes[0] for one in done])),
    )


def _check_classes(graph: Graph, folds: int) -> None:
    """Raise where a class cannot be in every fold."""
    counts = np.bincount(graph.y[graph.labelled], minlength=graph.n_classes)
    if not counts.sum():
        raise InputError(f"{graph.name}: there is no labelled node to cross-validate")
    there = np.flatnonzero(counts)
    least = int(there[counts[there].argmin()])
    if folds > counts[least]:
        raise InputError(
            f"{graph.name}: the class {graph.classes[least]!s} has {counts[least]} "
            f"nodes, too few for folds={folds}."
        )


def _check_groups(graph: Graph, groups: ArrayLike, folds: int) -> NDArray[np.int64]:
    """Return the number of the group of each node, [n], or raise."""
    given = as_array("groups", groups)
    if given.shape != (graph.n_nodes,):
        raise InputError(
            f"must have an entry for each of the {graph.n_nodes:,} nodes of "
            f"{graph.name}, got shape {given.shape}",
            param="groups",
        )
    try:
        texts = given.astype(str)
    except Exception:  # of an object that has no text
        raise InputError("must be names or numbers", param="groups") from None
    _, found = np.unique(texts, return_inverse=True)
    count, least = len(np.unique(found[graph.labelled])), max(folds, 3)
    if graph.labelled.size and count < least:
        raise InputError(
            f"{graph.name}: the labelled nodes are of {count} groups; folds={folds} "
            f"needs at least {least}: a fold, and some to train and to choose by."
        )
    return np.asarray(found, dtype=np.int64)


def _splits(
    graph: Graph,
    folds: int,
    repeats: int,
    seed: int,
    groups: NDArray[np.int64] | None,
) -> Iterator[Split]:
    """Yield the split of each fold, repeat after repeat."""
    for repeat in range(repeats):
        for test in _deal(graph, graph.labelled, folds, seed + repeat, groups):
            rest = np.setdiff1d(graph.labelled, test)
            if groups is None:
                y = np.full(graph.n_nodes, -1)
                y[rest] = graph.y[rest]
                share = 1 / VALIDATION
                own = stratified_split(y, (1 - share, share, 0), seed + repeat)
                train, val = own.train, own.val
            else:
                val = _whole_groups(graph, rest, folds, seed + repeat, groups)
                train = np.setdiff1d(rest, val)
            yield Split(train, val, test)


def _whole_groups(
    graph: Graph,
    rest: NDArray[np.int64],
    folds: int,
    seed: int,
    groups: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return validation nodes among those of all folds but one, groups whole."""
    parts = min(VALIDATION, len(np.unique(groups[rest])))
    if parts < 2:
        raise InputError(
            f"{graph.name}: one of the groups is so large that a fold is left with "
            f"nothing else to train and to choose by; take more than folds={folds}."
        )
    wanted = len(rest) / VALIDATION
    dealt = _deal(graph, rest, parts, seed, groups)
    return min(dealt, key=lambda part: abs(len(part) - wanted))


def _deal(
    graph: Graph,
    nodes: NDArray[np.int64],
    parts: int,
    seed: int,
    groups: NDArray[np.int64] | None,
) -> Iterator[NDArray[np.int64]]:
    """Yield parts of some nodes, classes dealt alike and groups whole."""
    y = graph.y[nodes]
    if groups is None:
        dealt = StratifiedKFold(parts, shuffle=True, random_state=seed)
        for _, part in dealt.split(nodes, y):
            yield nodes[part]
        return
    place = deal_groups(groups[nodes], y, [1 / parts] * parts, seed)
    for number in range(parts):
        yield nodes[place == number]
