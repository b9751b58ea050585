"""Probabilities that are those of the data, and sets of classes that cover it.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import beta
from torch import Tensor

from h2gcn.training import class_weights, fit_temperature

__all__ = [
    "Calibration",
    "aps_scores",
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
    shares = softmax((logits.astype(np.float64) - offsets) / temperature, axis=1)
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
