"""Which members answer, and with what weight: from probabilities and labels alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from h2gcn.training import score

__all__ = ["MANY_NODES", "ROUNDING", "Choice", "by_node", "choose"]

MANY_NODES = 1000
"""Held-out nodes from which on weights are found, instead of all being equal."""
ROUNDS = 25
"""How many members the greedy choice adds, the same ones again and again."""
RESAMPLES = 200
BY_NODE = ("log_loss", "accuracy")
"""What is a mean over nodes; other metrics are resampled a quarter as often."""
ROUNDING = 1e-9
"""Sums are no better known than this."""
TINY = 1e-7
"""Probabilities are at least this: one sure mistake must not decide alone."""


@dataclass(frozen=True)
class Choice:
    """The members that answer, and how all of them stand.

    Parameters
    ----------
    weights
        Of the members that are in the answer, by name; they sum to one.
    scores
        Of each member, by name: larger is better. Minus the log-loss, or the metric.
    gaps
        How far each is behind the best.
    errors
        The standard error of that gap, nodes compared one by one.
    optimism
        By how much the best looks better on these nodes than on others, for having
        been chosen on them; None where there are too few nodes to tell.
    metric
        What was chosen by: log-loss where the metric asked for has no value.
    """

    weights: Mapping[str, float]
    scores: Mapping[str, float]
    gaps: Mapping[str, float]
    errors: Mapping[str, float]
    optimism: float | None
    metric: str

    def among(self, names: Collection[str]) -> Choice:
        """Return the choice with no others than some members in the answer."""
        kept = {name: w for name, w in self.weights.items() if name in names}
        if len(kept) == len(self.weights):
            return self
        total = sum(kept.values())
        return replace(self, weights={name: w / total for name, w in kept.items()})


def choose(
    found: Mapping[str, NDArray[np.float64]],
    y: NDArray[np.int64],
    metric: str = "log_loss",
    seed: int = 0,
) -> Choice:
    """Choose among members by their probabilities for held-out nodes.

    Those within one standard error of the best answer, all alike: that of the best's
    own score, or that of the gap. From a thousand nodes on, weights are found instead.

    Parameters
    ----------
    found
        Probabilities by member, [m, C] each, in the same order of nodes.
    y
        Classes of the nodes, [m].
    metric
        "log_loss", or a metric that the answer is to be good in.
    seed
        Of the resampling.
    """
    names = list(found)
    means_of = _means(found, y, metric)
    every = np.ones(len(y), dtype=np.int64)
    means = means_of(every)
    if np.isnan(means).any():  # nodes of one class have no ROC curve
        return choose(found, y, "log_loss", seed)
    rng = np.random.default_rng(seed)
    resampled, excess = [], []
    for _ in range(RESAMPLES if metric in BY_NODE else RESAMPLES // 4):
        times = np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))
        here, elsewhere = means_of(times), means_of((times == 0).astype(np.int64))
        if np.isfinite(here).all():
            resampled.append(here)
        # That nodes are easier than others by chance is the same for all.
        more = here - elsewhere
        excess.append(more[int(np.argmax(here))] - more.mean())
    best = int(np.argmax(means))
    gaps = means[best] - means
    errors, error = np.zeros(len(names)), 0.0
    if resampled:
        drawn = np.stack(resampled)
        errors = (drawn[:, [best]] - drawn).std(axis=0)
        error = float(drawn[:, best].std())
    near = [
        name
        for name, gap, own in zip(names, gaps, errors, strict=True)
        if gap <= max(error, own) + ROUNDING
    ]
    weights = dict.fromkeys(near, 1 / len(near))
    if len(y) >= MANY_NODES:
        weights = _greedy(found, y, metric)
    known = [float(value) for value in excess if np.isfinite(value)]
    return Choice(
        weights,
        dict(zip(names, means.tolist(), strict=True)),
        dict(zip(names, gaps.tolist(), strict=True)),
        dict(zip(names, errors.tolist(), strict=True)),
        sum(known) / len(known) if known else None,
        metric,
    )


def _means(
    found: Mapping[str, NDArray[np.float64]], y: NDArray[np.int64], metric: str
) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Return what scores all members on nodes that count so many times each."""
    if metric in BY_NODE:
        nodes = np.stack([by_node(metric, p, y) for p in found.values()])

        def means_of(times: NDArray[np.int64]) -> NDArray[np.float64]:
            total = int(times.sum())
            if not total:
                return np.full(len(nodes), np.nan)
            return np.asarray(nodes @ times / total, dtype=np.float64)

        return means_of
    logits = [_logits(p) for p in found.values()]

    def scores_of(times: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = np.repeat(np.arange(len(y)), times)
        if not drawn.size:
            return np.full(len(logits), np.nan)
        return np.array([score(metric, y[drawn], z[drawn]) for z in logits])

    return scores_of


def _logits(p: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(np.log(np.maximum(p, TINY)), dtype=np.float32)


def by_node(
    metric: str, p: NDArray[np.float64], y: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each node adds to the score, [m]."""
    if metric == "accuracy":
        return np.asarray(p.argmax(axis=1) == y, dtype=np.float64)
    own = p[np.arange(len(y)), y]
    return np.asarray(np.log(np.maximum(own, TINY)), dtype=np.float64)


def _greedy(
    found: Mapping[str, NDArray[np.float64]], y: NDArray[np.int64], metric: str
) -> dict[str, float]:
    """Return weights by adding the member that helps most, again and again.

    After Caruana et al. 2004; the best of all rounds counts. The first round takes the
    best member, so that the answer is never worse than that.
    """

    def quality(p: NDArray[np.float64]) -> float:
        if metric in BY_NODE:
            return float(by_node(metric, p, y).mean())
        return score(metric, y, _logits(p))

    total = np.zeros_like(next(iter(found.values())))
    taken: list[str] = []
    best, length = -np.inf, 0
    for number in range(1, ROUNDS + 1):
        tried = {name: quality((total + p) / number) for name, p in found.items()}
        name = max(tried, key=tried.__getitem__)
        total = total + found[name]
        taken.append(name)
        if tried[name] > best + ROUNDING:
            best, length = tried[name], number
    kept = taken[:length]
    return {name: kept.count(name) / length for name in dict.fromkeys(kept)}
