"""Which members answer, and with what weight: from probabilities and labels alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from h2gcn.training import score

__all__ = ["MANY_NODES", "Choice", "by_node", "choose"]

MANY_NODES = 1000
"""Held-out nodes from which on weights are found, instead of all being equal."""
ROUNDS = 25
"""How many members the greedy choice adds, the same ones again and again."""
RESAMPLES = 200
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
        been chosen on them.
    """

    weights: Mapping[str, float]
    scores: Mapping[str, float]
    gaps: Mapping[str, float]
    errors: Mapping[str, float]
    optimism: float


def choose(
    found: Mapping[str, NDArray[np.float64]],
    y: NDArray[np.int64],
    metric: str = "log_loss",
    seed: int = 0,
) -> Choice:
    """Choose among members by their probabilities for held-out nodes.

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
    draws = np.random.default_rng(seed).integers(len(y), size=(RESAMPLES, len(y)))
    if metric in ("log_loss", "accuracy"):
        nodes = np.stack([by_node(metric, found[name], y) for name in names])

        def means_of(draw: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.asarray(nodes[:, draw].mean(axis=1))

    else:
        draws = draws[: RESAMPLES // 4]

        def means_of(draw: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.array(
                [score(metric, y[draw], _f32(found[name][draw])) for name in names]
            )

    means = means_of(np.arange(len(y)))
    resampled = np.stack([means_of(draw) for draw in draws])
    resampled = np.where(np.isnan(resampled), means, resampled)
    best = int(np.argmax(means))
    gaps = means[best] - means
    errors = (resampled[:, [best]] - resampled).std(axis=0)
    near = [name for i, name in enumerate(names) if gaps[i] <= errors[i]]
    weights = dict.fromkeys(near, 1 / len(near))
    if len(y) >= MANY_NODES:
        weights = _greedy(found, y, metric)
    return Choice(
        weights,
        dict(zip(names, means.tolist(), strict=True)),
        dict(zip(names, gaps.tolist(), strict=True)),
        dict(zip(names, errors.tolist(), strict=True)),
        _optimism(means_of, draws, resampled),
    )


def _optimism(
    means_of: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    draws: NDArray[np.int64],
    resampled: NDArray[np.float64],
) -> float:
    """Return how much better the best of resampled nodes is there than on the others.

    The mean over members of the same difference is taken off: it is by chance alone.
    """
    nodes = np.arange(draws.shape[1])
    found = []
    for draw, means in zip(draws, resampled, strict=True):
        others = np.setdiff1d(nodes, draw)
        if not others.size:
            continue
        excess = means - means_of(others)
        found.append(excess[int(np.argmax(means))] - excess.mean())
    known = [value for value in found if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def _f32(p: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.log(np.maximum(p, TINY)).astype(np.float32)


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

    After Caruana et al. 2004; the best of all rounds counts, so that it is never
    worse than the best member.
    """

    def quality(p: NDArray[np.float64]) -> float:
        if metric in ("log_loss", "accuracy"):
            return float(by_node(metric, p, y).mean())
        return score(metric, y, _f32(p))

    total = np.zeros_like(next(iter(found.values())))
    taken: list[str] = []
    best, length = -np.inf, 0
    for number in range(1, ROUNDS + 1):
        tried = {name: quality((total + p) / number) for name, p in found.items()}
        name = max(tried, key=tried.__getitem__)
        total = total + found[name]
        taken.append(name)
        if tried[name] > best:
            best, length = tried[name], number
    kept = taken[:length]
    return {name: kept.count(name) / length for name in dict.fromkeys(kept)}
