"""From logits to what is told of a node: probabilities, a set of classes, or one.

Logits z become softmax((z − log w) / T). Training with class weights w multiplies the
odds of each class by its weight, so their logarithms go first; the temperature T is
the one number that fits the held-out nodes best. It changes no order of the classes of
a node, so that decisions stay what they were; the weights do, which is why `predict`
keeps to the raw logits.

The held-out nodes are the validation nodes. They have chosen the epoch, so that the
model is a little better on them than on others, and what is fitted on them a little
too sure; one number learns hardly anything more from them.

The sets are adaptive prediction sets (APS): the score of a class is the probability of
all classes that are likelier, and a part u of its own. A set holds the classes whose
score is at most a quantile of the scores that held-out nodes have for their true class.
For nodes that could have been held out as well (of the same graph, and not trained on),
the true class is in the set with the probability 1 − alpha, whatever the model is
worth; a bad one has large sets.

The part u is drawn from [0, 1) for each node, by its number: without it, sets would be
too large, and cover more than was asked for. The same node always has the same.

The likeliest class is right most often, and that is all it is best for. A
`DecisionRule` is for something else: macro-F1, F1 of a class, the k nodes that are
surest of a class, or costs. Those for F1 are chosen on held-out nodes, where they do a
little better than they will elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from h2gcn._validation import check_choice, check_integer
from h2gcn.exceptions import InputError
from h2gcn.training import (
    class_weights,
    confusion_matrix,
    fit_temperature,
    macro_f1,
    softmax,
)

__all__ = [
    "DECISIONS",
    "Calibration",
    "DecisionRule",
    "aps_scores",
    "choose_decision",
    "coverage_range",
    "coverage_words",
    "draws",
    "fewest_nodes",
    "prediction_sets",
    "quantile",
    "training_weights",
]


def training_weights(
    kind: str | None, y: NDArray[np.int64], train: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Return the weight that each class had in training, or None if all were equal.

    Parameters
    ----------
    kind
        The parameter `class_weight` of training.
    y
        Class indices of all nodes, [n].
    train
        The training nodes, [m].
    """
    weights = class_weights(kind, torch.from_numpy(y), torch.from_numpy(train))
    return None if weights is None else weights.numpy().astype(np.float64)


@dataclass(frozen=True, eq=False)
class Calibration:
    """How logits become probabilities, and the held-out nodes that it was fitted on.

    Parameters
    ----------
    temperature
        What logits are divided by; 1 changes nothing.
    offsets
        What is taken off them before, the logarithm of each class's weight, [C].
    nodes
        The held-out nodes, [m].
    probabilities
        Their probabilities, calibrated, [m, C].
    y
        Their classes, [m].
    """

    temperature: float
    offsets: NDArray[np.float64]
    nodes: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    y: NDArray[np.int64]

    @classmethod
    def fit(
        cls,
        logits: NDArray[np.float32],
        y: NDArray[np.int64],
        nodes: NDArray[np.int64],
        weights: NDArray[np.floating] | None = None,
        *,
        calibrate: bool = True,
    ) -> Calibration:
        """Fit a temperature on held-out nodes.

        Parameters
        ----------
        logits
            Of the held-out nodes, as the model gives them, [m, C].
        y, nodes
            Their classes and their numbers, [m].
        weights
            Those of the classes in training, [C]; None if all were equal.
        calibrate
            False leaves the softmax of the logits as it is; the held-out nodes are
            kept all the same, for prediction sets and decisions.
        """
        offsets = np.zeros(logits.shape[1])
        temperature = 1.0
        if calibrate:
            if weights is not None:
                # Classes that nobody has are not among the weights.
                offsets[: len(weights)] = np.log(weights)
            temperature = fit_temperature(logits - offsets, y)
        shares = _shares(logits, offsets, temperature)
        return cls(temperature, offsets, nodes, shares, y)

    def __call__(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probabilities of logits, [n, C]."""
        return _shares(logits, self.offsets, self.temperature)

    def to_json(self) -> dict[str, Any]:
        """Return the few numbers; `to_tensors` has the held-out nodes."""
        return {"temperature": self.temperature, "offsets": self.offsets.tolist()}

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the held-out nodes, which are saved beside the numbers."""
        arrays = {"nodes": self.nodes, "probabilities": self.probabilities, "y": self.y}
        return {
            name: torch.from_numpy(np.ascontiguousarray(array))
            for name, array in arrays.items()
        }


def _shares(
    logits: NDArray[np.float32], offsets: NDArray[np.float64], temperature: float
) -> NDArray[np.float32]:
    shares = softmax((logits.astype(np.float64) - offsets) / temperature)
    return np.asarray(shares, dtype=np.float32)


CONFIDENCE = 0.95
"""How sure the range is that the coverage is told in."""


def draws(nodes: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each node, by its own number and a seed, [m].

    The bits of both are mixed as in the generator SplitMix64, so that a node has its
    number whichever others are asked for with it.
    """
    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        bits = (nodes.astype(np.uint64) + np.uint64(1)) * step
        bits ^= _mixed(np.array([seed], dtype=np.uint64) + step)
        bits = _mixed(bits)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def aps_scores(
    probabilities: NDArray[np.floating], parts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the score of each class: what is likelier, and a part of its own, [m, C].

    Parameters
    ----------
    probabilities
        [m, C]. Of equal ones the first class counts as likelier.
    parts
        In [0, 1], [m].

    Examples
    --------
    >>> aps_scores(np.array([[0.25, 0.5, 0.25]]), np.array([0.5])).tolist()
    [[0.625, 0.25, 0.875]]
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1).astype(np.float64)
    before = np.cumsum(ranked, axis=1) - ranked
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, before + parts[:, None] * ranked, axis=1)
    return scores


def quantile(scores: NDArray[np.float64], alpha: float) -> float:
    """Return the ⌈(m + 1)(1 − alpha)⌉-th smallest of m scores.

    That is a little more than the share 1 − alpha of them, so that the node that is
    asked about is counted too. Infinite where there are fewer scores.
    """
    rank = _rank(len(scores), alpha)
    if rank > len(scores):
        return math.inf
    return float(np.partition(scores, rank - 1)[rank - 1])


def _rank(m: int, alpha: float) -> int:
    # (19 + 1)(1 − 0.1) is 18, and 18.000000000000004 must not be 19.
    return math.ceil(round((m + 1) * (1 - alpha), 9))


def fewest_nodes(alpha: float) -> int:
    """Return how many held-out nodes it takes for sets that leave out a class."""
    m = max(math.ceil(1 / alpha) - 2, 0)
    while _rank(m, alpha) > m:
        m += 1
    return m


def prediction_sets(
    probabilities: NDArray[np.floating],
    parts: NDArray[np.float64],
    threshold: float,
    *,
    allow_empty: bool = True,
) -> NDArray[np.bool_]:
    """Return for each node which classes are in its set, [n, C].

    Parameters
    ----------
    probabilities, parts
        As of `aps_scores`.
    threshold
        Of `quantile`.
    allow_empty
        Where False, an empty set gets its likeliest class; more is then covered than
        was asked for.
    """
    inside = aps_scores(probabilities, parts) <= threshold
    if not allow_empty:
        empty = np.flatnonzero(~inside.any(axis=1))
        inside[empty, probabilities[empty].argmax(axis=1)] = True
    return inside


def coverage_range(m: int, alpha: float) -> tuple[float, float]:
    """Return between what, in 95 of 100 cases, the coverage of sets lies.

    Over all held-out nodes that could have been drawn it is 1 − alpha; of those that
    were, it is a little more or less: distributed as Beta(k, m + 1 − k), where k is
    the rank of the quantile among the m scores.

    Parameters
    ----------
    m
        Number of held-out nodes.
    alpha
        The share that may be missed.
    """
    from scipy.stats import beta

    rank = _rank(m, alpha)
    if rank > m:
        return 1.0, 1.0
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = (float(beta.ppf(end, rank, m + 1 - rank)) for end in ends)
    return low, high


def coverage_words(m: int, alpha: float) -> str:
    """Return in a sentence how well the coverage of sets is known.

    Examples
    --------
    >>> coverage_words(59, 0.1)
    'sets of 90 % by 59 held-out nodes: they cover 81 to 96 % of nodes like those'
    """
    share = f"{100 * (1 - alpha):g} %"
    nodes = "1 held-out node" if m == 1 else f"{m:,} held-out nodes"
    if _rank(m, alpha) > m:
        return (
            f"{nodes} are too few for sets of {share}: every class is in every set; "
            f"it takes at least {fewest_nodes(alpha):,}"
        ).replace("node are", "node is")
    low, high = (round(100 * end) for end in coverage_range(m, alpha))
    return (
        f"sets of {share} by {nodes}: they cover {low} to {high} % of nodes like those"
    )


DECISIONS = ("macro_f1", "f1", "top", "costs")
"""What a decision can be for."""

FACTORS = np.exp(np.linspace(-4, 4, 65))
"""What the probability of a class is multiplied by, to be tried: 1/55 to 55."""

ROUNDS = 10
"""How often the factor of each class is chosen anew, at most."""

GAIN = 1e-9
"""What a score must rise by to count: less may be a sum in another order."""


@dataclass(frozen=True, eq=False)
class DecisionRule:
    """A rule from probabilities to classes.

    The class with the largest p · `gains` is said; but where a class is singled out,
    it is said exactly of the nodes whose probability of it reaches the `threshold`, or
    is among the `top` largest, and of others the best of the rest.

    Parameters
    ----------
    kind
        One of `DECISIONS`.
    gains
        What it is worth to say a class (column) of a node of a class (row), [C, C].
    singled
        Index of the class that is singled out, or None.
    threshold, top
        By what it is; one of them is None.
    held_out, usual
        The F1 that it is for, on the held-out nodes, and what the likeliest class
        gives there; None for a kind that is not chosen by them.
    """

    kind: str
    gains: NDArray[np.float64]
    singled: int | None = None
    threshold: float | None = None
    top: int | None = None
    held_out: float | None = None
    usual: float | None = None

    @classmethod
    def from_costs(cls, costs: ArrayLike) -> DecisionRule:
        """Return the decision with the smallest expected cost.

        Parameters
        ----------
        costs
            What it costs to say a class (column) of a node of a class (row), [C, C].

        Examples
        --------
        To miss class 1 costs nine times as much as to suspect it in vain, so that a
        tenth is enough:

        >>> decision = DecisionRule.from_costs([[0, 1], [9, 0]])
        >>> decision(np.array([[0.89, 0.11], [0.91, 0.09]])).tolist()
        [1, 0]
        """
        try:
            matrix = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "must be a square table of numbers", param="costs"
            ) from None
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise InputError(
                "must be a square table, a row for each true class and a column for "
                f"each that is said, got shape {matrix.shape}",
                param="costs",
            )
        if not np.isfinite(matrix).all():
            raise InputError("must be finite numbers", param="costs")
        return cls("costs", -matrix)

    @property
    def by_rows(self) -> bool:
        """Whether what is said of a node depends on that node alone."""
        return self.top is None

    def __call__(self, probabilities: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the index of the class to say of each node, [n].

        Parameters
        ----------
        probabilities
            [n, C]; for `top` those of all nodes that it is to be chosen among.
        """
        n_classes = len(self.gains)
        if probabilities.ndim != 2 or probabilities.shape[1] != n_classes:
            raise InputError(
                f"the decision is for {n_classes} classes, got probabilities of "
                f"shape {probabilities.shape}"
            )
        worth = probabilities.astype(np.float64) @ self.gains
        if self.singled is None:
            return np.asarray(worth.argmax(axis=1))
        share = probabilities[:, self.singled].astype(np.float64)
        worth[:, self.singled] = -np.inf
        said = np.asarray(worth.argmax(axis=1))
        if self.top is not None:
            # Of equal ones the first nodes are taken.
            said[np.argsort(-share, kind="stable")[: self.top]] = self.singled
        if self.threshold is not None:
            said[share >= self.threshold] = self.singled
        return said


def choose_decision(
    kind: str,
    probabilities: NDArray[np.floating],
    y: NDArray[np.int64],
    *,
    index: int | None = None,
    k: int | None = None,
    costs: ArrayLike | None = None,
) -> DecisionRule:
    """Return the decision that is best for something, by held-out nodes.

    Parameters
    ----------
    kind
        "macro_f1" gives each class a factor, found one class after the other; "f1"
        gives the class `index` a threshold; "top" says it of the `k` nodes with the
        largest probability of it; "costs" is `DecisionRule.from_costs`. The last two
        need no held-out nodes.
    probabilities
        Of the held-out nodes, calibrated, [m, C].
    y
        Their classes, [m].
    index, k, costs
        What the kind asks for, and no other.
    """
    check_choice("kind", kind, DECISIONS)
    _check_asked(kind, {"a class": index, "'k'": k, "'costs'": costs})
    n_classes = probabilities.shape[1]
    if kind == "costs":
        decision = DecisionRule.from_costs(costs)  # type: ignore[arg-type]
        if len(decision.gains) != n_classes:
            raise InputError(
                f"must have a row and a column for each of the {n_classes} classes",
                param="costs",
                value=len(decision.gains),
            )
        return decision
    if kind == "top":
        top = check_integer("k", k, 1)
        return DecisionRule("top", np.eye(n_classes), index, top=top)
    if not len(y):
        raise InputError(f"there is no held-out node to choose for {kind} by")
    if kind == "f1":
        assert index is not None
        return _for_f1(probabilities, y, index)
    return _for_macro_f1(probabilities, y)


def _check_asked(kind: str, given: dict[str, object]) -> None:
    needs = {"f1": ["a class"], "top": ["a class", "'k'"], "costs": ["'costs'"]}
    for name, value in given.items():
        needed = name in needs.get(kind, [])
        if needed and value is None:
            raise InputError(f"a decision for {kind} needs {name}")
        if not needed and value is not None:
            raise InputError(f"a decision for {kind} does not go with {name}")


def _for_macro_f1(
    probabilities: NDArray[np.floating], y: NDArray[np.int64]
) -> DecisionRule:
    """Choose the factor of one class after the other, until none of them gains."""
    n_classes = probabilities.shape[1]
    shares = probabilities.astype(np.float64)
    counts = np.bincount(y, minlength=n_classes)
    as_it_is = np.ones(n_classes)
    # All classes as if they were of the same size: often near the best.
    alike = np.where(counts > 0, len(y) / np.maximum(counts, 1), 1.0)
    found = [_climb(shares, y, start) for start in (as_it_is, alike / alike.max())]
    best, factors = max(found, key=lambda one: round(one[0], 9))
    usual = _reached(y, shares.argmax(axis=1), n_classes)
    return DecisionRule("macro_f1", np.diag(factors), held_out=best, usual=usual)


def _climb(
    shares: NDArray[np.float64], y: NDArray[np.int64], factors: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the macro-F1 that changes of one factor at a time lead to, and factors."""
    n_classes, nodes = shares.shape[1], np.arange(len(y))
    # Of equal scores the factor nearest to 1 is kept, so they are tried in that order.
    tried = sorted(FACTORS, key=lambda factor: round(abs(np.log(factor)), 9))
    best = _reached(y, (shares * factors).argmax(axis=1), n_classes)
    for _ in range(ROUNDS):
        before = best
        for c in range(n_classes):
            others = shares * factors
            others[:, c] = -1.0
            second = others.argmax(axis=1)
            rival = others[nodes, second]
            for factor in tried:
                own = shares[:, c] * factor
                said = np.where(
                    (own > rival) | ((own == rival) & (c < second)), c, second
                )
                score = _reached(y, said, n_classes)
                if score > best + GAIN:
                    best = score
                    factors = np.where(np.arange(n_classes) == c, factor, factors)
        if best <= before + GAIN:
            break
    return best, factors


def _reached(y: NDArray[np.int64], said: NDArray[np.int64], n_classes: int) -> float:
    return macro_f1(confusion_matrix(y, said, n_classes))


def _for_f1(
    probabilities: NDArray[np.floating], y: NDArray[np.int64], index: int
) -> DecisionRule:
    """Choose a threshold in the middle between two probabilities of held-out nodes."""
    share, true = probabilities[:, index].astype(np.float64), y == index
    if not true.any():
        raise InputError(
            "no held-out node is of the class that F1 is asked for; a threshold for "
            "it cannot be chosen"
        )
    order = np.argsort(-share, kind="stable")
    hits, said = np.cumsum(true[order]), np.arange(1, len(y) + 1)
    f1 = 2 * hits / (said + true.sum())
    ranked = share[order]
    # A threshold cannot be between equal probabilities; below all of them it is 0.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    middles = np.append((ranked[:-1] + ranked[1:]) / 2, 0.0)
    best = np.flatnonzero(f1 >= f1.max() - GAIN)
    threshold = float(middles[best[np.abs(middles[best] - 0.5).argmin()]])
    usual = probabilities.argmax(axis=1) == index
    plain = 2 * (usual & true).sum() / (usual.sum() + true.sum())
    return DecisionRule(
        "f1",
        np.eye(probabilities.shape[1]),
        index,
        threshold=threshold,
        held_out=float(f1.max()),
        usual=float(plain),
    )
