"""A quick fit: the models that take seconds, on nodes that they were not fitted to."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_real
from h2gcn.auto import Member, class_folds, quick_members
from h2gcn.diagnosis import QuickFit, QuickScore
from h2gcn.estimator.classifier import NodeClassifier
from h2gcn.estimator.parameters import check_fit
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split, is_by_time, stratified_split
from h2gcn.rings import forecast_rings
from h2gcn.training import score

__all__ = ["quick_fit"]

TIME_LIMIT = 20.0
"""Seconds after which no further model is begun, where nothing is said."""
LEAST_NODES = 10
"""Labelled nodes, outside the test nodes, below which nothing can be told."""
LEAST_A_CLASS = 3
"""Of these, how many each class must have on average."""
HELD_OUT = 300
"""Validation nodes from which on they are held out once; below there are folds."""
MOST_ROWS = 2000
"""Nodes that a regression is fitted to at most."""
MOST_CELLS = 200_000_000
"""Numbers that a table may have; 0.8 GB."""
MOST_PAIRS = 20_000_000
"""Entries up to which the 2-hop ring is looked at."""
MOST_HELD_OUT = 5000
"""Held-out nodes that are predicted at most."""
ONE_CLASS = 0.8
"""The share of the largest class from which on accuracy tells little."""
DRAWS = 100

Round = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Nodes that models are fitted to, and those that they then predict."""


def quick_fit(
    graph: Graph,
    *,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
    on_member: Callable[[str], None] | None = None,
) -> QuickFit:
    """Fit cheap models, and score them on nodes that they were not fitted to.

    Test nodes are left alone: those of the graph's first split, or of the split that a
    `NodeClassifier` would make. Validation nodes are held out where there are enough,
    else training and validation nodes are held out in folds, class by class.

    Parameters
    ----------
    graph
        With or without labels, edges, splits.
    time_limit
        Seconds after which no further model is begun.
    seed
        Of what is drawn.
    on_member
        Called with the name of each model before it is fitted.

    Examples
    --------
    >>> pairs = np.kron(np.eye(20), [[0, 1], [1, 0]])
    >>> graph = Graph(x=np.ones((40, 1)), adj=pairs, y=np.arange(40) // 2 % 2)
    >>> found = quick_fit(graph)
    >>> found.best.uses_graph, found.nodes, found.metric
    (True, 32, 'accuracy')
    """
    check_real("time_limit", time_limit, "(0, inf)")
    start = time.perf_counter()
    if not graph.labelled.size:
        nothing = "nothing is labelled"
        return QuickFit((), "accuracy", 0, 0, 0.0, 0.0, time_limit, nothing)
    split = (
        graph.splits[0]
        if graph.splits
        else stratified_split(graph.y, seed=seed, groups=graph.groups)
    )
    nodes = np.concatenate([split.train, split.val])
    nodes = nodes[graph.y[nodes] >= 0]
    if why := _too_few(graph, nodes):
        return QuickFit((), "accuracy", 0, 0, 0.0, 0.0, time_limit, why)
    rounds = _rounds(graph, split, nodes, seed)
    held = np.concatenate([held for _, held in rounds])
    y, folds = graph.y[held], len(rounds) if len(rounds) > 1 else 0
    metric = _metric(y, graph.n_classes)
    far = sum(forecast_rings(graph.adj).entries) <= MOST_PAIRS
    found: list[tuple[Member, NDArray[np.float32] | None, float, str]] = []
    for member in quick_members(graph, far=far):
        begun = time.perf_counter()
        if found and begun - start > time_limit:
            found.append((member, None, 0.0, "left out, as time was up"))
            continue
        if on_member is not None:
            on_member(member.name)
        logits, note = _predict(graph, member, rounds, seed)
        found.append((member, logits, time.perf_counter() - begun, note))
    rows = _scored(found, y, metric, seed)
    share = np.bincount(y, minlength=graph.n_classes) / len(y)
    always = np.tile(share, (len(y), 1)).astype(np.float32)
    return QuickFit(
        rows,
        metric,
        len(y),
        folds,
        score(metric, y, always),
        time.perf_counter() - start,
        time_limit,
    )


def _too_few(graph: Graph, nodes: NDArray[np.int64]) -> str:
    """Return why nothing can be told from some labelled nodes, or ""."""
    if nodes.size < LEAST_NODES:
        return (
            f"labelled nodes beside test nodes: {nodes.size}, fewer than {LEAST_NODES}"
        )
    classes = len(np.unique(graph.y[nodes]))
    if LEAST_A_CLASS * classes > nodes.size:
        return f"{classes:,} classes are too many for {nodes.size:,} labelled nodes"
    if classes == 1:
        return "all labelled nodes beside test nodes are of a single class"
    return ""


def _rounds(
    graph: Graph, split: Split, nodes: NDArray[np.int64], seed: int
) -> list[Round]:
    """Return who is held out: the validation nodes, or folds where these are few.

    Those of a split by time are later than the others, and stay so.
    """
    if len(split.val) < HELD_OUT and not is_by_time(graph, split):
        folds = class_folds(graph.y, nodes, seed, graph.groups)
        if len(folds) > 1:
            return [(np.sort(known), np.sort(held)) for known, held in folds]
    held = np.random.default_rng(seed).permutation(split.val)[:MOST_HELD_OUT]
    return [(np.sort(split.train), np.sort(held))]


def _metric(y: NDArray[np.int64], n_classes: int) -> str:
    """Return what tells models apart where most nodes are of one class."""
    counts = np.bincount(y, minlength=n_classes)
    if counts.max() < ONE_CLASS * len(y):
        return "accuracy"
    return "roc_auc" if n_classes == 2 and counts.min() else "macro_f1"


def _predict(
    graph: Graph, member: Member, rounds: Sequence[Round], seed: int
) -> tuple[NDArray[np.float32] | None, str]:
    """Return the logits of all held-out nodes, and what is to be known of them."""
    table = member.params.get("options", {}).get("table", "")
    blocks = sum(_BLOCKS.get(part, 0) for part in table.split("+"))
    cells = graph.n_nodes * graph.n_features * blocks
    if cells > MOST_CELLS:
        return None, f"left out, as its table would have {cells:,} numbers"
    logits, note = [], ""
    rng = np.random.default_rng(seed)
    for known, held in rounds:
        fitted = known
        if table and len(known) > MOST_ROWS:
            fitted = np.sort(rng.permutation(known)[:MOST_ROWS])
            note = f"fitted to {MOST_ROWS:,} of {len(known):,} nodes"
        # What is held out stands for validation: none of these models looks there.
        split = Split(fitted, held, np.array([], dtype=np.int64))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", H2GCNWarning)
                model = NodeClassifier(
                    member.model, calibrate=False, random_state=seed, **member.params
                )
                # Checked, but not audited: nobody would hear it.
                model.fit_checked(check_fit(model.get_params(), graph, split))
                logits.append(model.predict_logits(graph, held))
        except InputError as error:
            return None, f"left out: {error}"
    return np.concatenate(logits), note


_BLOCKS = {"ego": 1, "rings": 2, "ring1": 1, "out": 1, "in": 1, "directions": 6}
"""How many blocks as wide as the features a part of a recipe has."""


def _scored(
    found: Sequence[tuple[Member, NDArray[np.float32] | None, float, str]],
    y: NDArray[np.int64],
    metric: str,
    seed: int,
) -> tuple[QuickScore, ...]:
    """Return the models, the best first, and how far each is behind it.

    The standard error of that is the deviation over draws of the same nodes, class by
    class, for both models.
    """
    scores = [None if z is None else score(metric, y, z) for _, z, _, _ in found]
    order = sorted(
        range(len(found)), key=lambda i: (scores[i] is None, -(scores[i] or 0.0))
    )
    first = found[order[0]][1]
    draws = _draws(y, seed) if first is not None else []
    top = [] if first is None else [score(metric, y[d], first[d]) for d in draws]
    rows = []
    for i in order:
        (member, z, seconds, note), own = found[i], scores[i]
        behind = error = None
        if z is not None and own is not None:
            behind = (scores[order[0]] or 0.0) - own
            theirs = [score(metric, y[drawn], z[drawn]) for drawn in draws]
            error = float(np.std(np.subtract(top, theirs)))
        rows.append(
            QuickScore(
                member.name,
                member.model,
                member.sees,
                member.uses_graph,
                own,
                behind,
                error,
                round(seconds, 3),
                note,
            )
        )
    return tuple(rows)


def _draws(y: NDArray[np.int64], seed: int) -> list[NDArray[np.int64]]:
    """Return draws of the nodes with replacement, as many of each class."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(y == k) for k in np.unique(y)]
    return [
        np.concatenate([rng.choice(group, len(group)) for group in groups])
        for _ in range(DRAWS)
    ]
