"""A score card: what a model is worth on nodes that training did not see; its page."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from h2gcn import __version__
from h2gcn._validation import as_array, check_integer, check_real
from h2gcn.diagnosis import (
    NONE,
    STEPS,
    find_template,
    heat_palette,
    number,
    points,
    reliability_svg,
    rounded,
)
from h2gcn.estimator.inputs import Seen, translate_labels
from h2gcn.estimator.outputs import (
    Calibration,
    aps_scores,
    coverage_range,
    coverage_words,
    draws,
    prediction_sets,
    quantile,
)
from h2gcn.estimator.prediction import (
    Evaluation,
    Judgement,
    Predictor,
    check_nodes,
    degree_groups,
    join_blocks,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph
from h2gcn.homophily import graph_card
from h2gcn.io import listed
from h2gcn.training import (
    bootstrap,
    brier,
    calibration_error,
    chance_error,
    confusion_matrix,
    log_loss,
    macro_f1,
    per_class,
    percentiles,
    rarer_class,
    reliability_bins,
    wilson,
)

__all__ = [
    "ClassScores",
    "Estimate",
    "GroupScores",
    "ScoreCard",
    "SetCoverage",
    "TimeScores",
    "class_rows",
    "group_rows",
    "is_balanced",
    "nodes_to_score",
    "render_scores",
    "score_lines",
    "score_model",
    "score_rows",
    "set_line",
]

RESAMPLES, FEWER, MANY = 1000, 200, 20_000
"""Draws of the bootstrap, and how many of more nodes than `MANY`."""

PERIODS = 12
"""Groups of nodes by calendar or by value, at most."""
QUANTILES = 4
"""Groups of nodes by time where it is neither of few values nor of a few periods."""
MISSING = "(missing)"
"""The group of nodes without a time."""


@dataclass(frozen=True)
class Estimate:
    """A score, and between what it would be on other nodes like these.

    Parameters
    ----------
    value
        None where it has none.
    low, high
        Ends of its interval of 95 %; None without a value.
    floor
        What it takes no model to reach; None where there is no such thing.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    floor: float | None = None

    @classmethod
    def share(cls, hits: int, nodes: int, floor: float | None = None) -> Estimate:
        """Return a share of nodes, with Wilson's interval."""
        ends = wilson(hits, nodes)
        return cls(None) if ends is None else cls(hits / nodes, *ends, floor)

    @classmethod
    def drawn(
        cls,
        value: float | None,
        draws: NDArray[np.float64],
        floor: float | None = None,
    ) -> Estimate:
        """Return a score with the percentiles of its draws; it is never outside."""
        ends = percentiles(draws)
        if value is None or ends is None:
            return cls(value, floor=floor)
        return cls(value, min(ends[0], value), max(ends[1], value), floor)


@dataclass(frozen=True)
class ClassScores:
    """How a class was found: its name, its nodes, and three scores."""

    name: str
    nodes: int
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True)
class GroupScores:
    """How good a group of nodes was predicted.

    Parameters
    ----------
    name
        The degrees, such as "2–4", or the time, such as "2024-03".
    nodes
        How many there are.
    accuracy
        With the interval of so many nodes.
    calibration_error, chance_error
        As of `ProbabilityScores`; None without nodes.
    """

    name: str
    nodes: int
    accuracy: Estimate
    calibration_error: float | None
    chance_error: float | None

    @classmethod
    def of(
        cls,
        name: str,
        y: NDArray[np.int64],
        said: NDArray[np.int64],
        probabilities: NDArray[np.floating],
    ) -> GroupScores:
        """Score a group: classes and what was said, [k], and probabilities, [k, C]."""
        bins = reliability_bins(y, probabilities)
        known = len(y) > 0
        return cls(
            name,
            len(y),
            Estimate.share(int((y == said).sum()), len(y)),
            calibration_error(bins) if known else None,
            chance_error(bins) if known else None,
        )


@dataclass(frozen=True)
class TimeScores:
    """Groups of nodes by time, the earliest first.

    Parameters
    ----------
    by
        "month", "quarter" or "year" of dates; "value" of numbers of which there are
        few; else "quantile": groups of about the same size.
    groups
        One for each with nodes; those without a time are the last.
    """

    by: str
    groups: tuple[GroupScores, ...]


@dataclass(frozen=True)
class SetCoverage:
    """How many of the sets of `predict_set` hold the true class.

    Parameters
    ----------
    alpha
        The share that may be missed.
    nodes
        How many nodes were looked at: those that training did not see.
    coverage
        The share of their sets that do; the floor is 1 − alpha. None where sets are
        not valid.
    mean_size
        How many classes a set holds in the mean; None likewise.
    expected
        Between what the coverage lies in 95 of 100 cases, by so many validation
        nodes; None likewise.
    words
        How well it is known, or why sets are not valid.
    """

    alpha: float
    nodes: int
    coverage: Estimate | None
    mean_size: float | None
    expected: tuple[float, float] | None
    words: str


@dataclass(frozen=True, eq=False)
class ScoreCard:
    """What a fitted model is worth on some labelled nodes, and how sure that is.

    Parameters
    ----------
    model
        Name of the model.
    graph
        The graph's card, see `h2gcn.homophily.graph_card`.
    classes
        Names of the classes, [C].
    rule
        Which nodes were scored: "test", "unseen", "all", "named", or "unknown" where
        the model does not know which nodes it saw.
    why
        The same in words.
    scores
        The scores without intervals.
    measures
        `accuracy`, `macro_f1`, `roc_auc` (of two classes), `pr_auc`, `log_loss`,
        `brier` and `calibration_error`. The floor of the first two is always the
        largest class; of areas chance; of log-loss and Brier score the shares of the
        classes, told of every node; of the calibration error what chance alone makes.
    guess, guess_why
        The class that it takes no model to guess, and why that one, in words.
    by_class, by_degree
        Scores of each class, and of nodes with few and with many neighbours.
    by_time
        Scores by time where times were given, else None.
    sets
        How much prediction sets cover.
    metric, val_score
        What training chose by, and its score on the validation nodes.
    resamples
        How often nodes were drawn for the intervals.
    never_seen
        Labels that the model never saw, with their numbers of nodes; not scored.
    judgement
        What must be told of it.
    """

    model: str
    graph: Mapping[str, Any]
    classes: tuple[str, ...]
    rule: str
    why: str
    scores: Evaluation
    measures: Mapping[str, Estimate]
    guess: str
    guess_why: str
    by_class: tuple[ClassScores, ...]
    by_degree: tuple[GroupScores, ...]
    by_time: TimeScores | None
    sets: SetCoverage
    metric: str
    val_score: float | None
    resamples: int
    never_seen: Mapping[str, int]
    judgement: Judgement

    @property
    def nodes(self) -> int:
        """How many nodes were scored."""
        return self.scores.nodes

    @property
    def how_sure(self) -> str:
        """How the intervals were made, in a sentence."""
        return (
            "Intervals of 95 %: Wilson's for shares of nodes (accuracy, precision, "
            f"recall), else percentiles of {self.resamples:,} draws of these nodes "
            "(bootstrap)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return all as what JSON can hold; scores are fractions of 1."""
        return {
            "name": self.model,
            "dataset": self.graph["name"],
            "graph": dict(self.graph),
            "nodes": self.nodes,
            "rule": self.rule,
            "why": self.why,
            "measures": {name: asdict(one) for name, one in self.measures.items()},
            "always_guessing": {"class": self.guess, "why": self.guess_why},
            "validation": {"metric": self.metric, "score": self.val_score},
            "intervals": {"confidence": 0.95, "resamples": self.resamples},
            "by_class": [asdict(one) for one in self.by_class],
            "by_degree": [asdict(one) for one in self.by_degree],
            "by_time": None if self.by_time is None else asdict(self.by_time),
            "confusion": {
                "classes": list(self.classes),
                "counts": self.scores.confusion.tolist(),
            },
            "probabilities": self.scores.probabilities.to_json(list(self.classes)),
            "sets": asdict(self.sets),
            "never_seen": dict(self.never_seen),
            **self.judgement.to_json(),
            "version": __version__,
        }

    def __repr__(self) -> str:
        found = self.measures["accuracy"]
        return (
            f"ScoreCard({self.model!r} on {self.graph['name']!r}: accuracy "
            f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f}) on "
            f"{self.nodes:,} nodes, {found.floor:.3f} by always guessing one class)"
        )


class FittedModel(Predictor, Protocol):
    """What a score card asks of a fitted classifier."""

    params_: dict[str, Any]
    seen_: Seen | None
    calibration_: Calibration | None
    val_score_: float
    seed_: int


def nodes_to_score(
    seen: Seen | None,
    graph: Graph,
    nodes: ArrayLike | None,
    *,
    all_nodes: bool | None = None,
) -> tuple[NDArray[np.int64], str, str]:
    """Return which nodes a model is to be scored on, the rule, and the rule in words.

    Parameters
    ----------
    seen
        Which nodes training saw; None of a model that does not know.
    graph
        With labels.
    nodes
        Indices or a mask, each node once, whether training saw them or not; None is
        those that it did not see.
    all_nodes
        Whether all labelled nodes are taken, training nodes with them; None where that
        cannot be asked for, so that messages do not speak of it.
    """
    if nodes is not None:
        if all_nodes:
            raise InputError("'nodes' and 'all_nodes' cannot both say what is scored.")
        index = check_nodes(graph, nodes)
        if len(np.unique(index)) < len(index):
            raise InputError(
                "must name each node once, to score by. The labels are the graph's "
                "own, and are not given",
                param="nodes",
            )
        found = index, "named", "the nodes that were named"
    elif all_nodes:
        found = (
            graph.labelled,
            "all",
            "all labelled nodes, any that training saw with them",
        )
    else:
        found = _unseen(seen, graph, can_ask=all_nodes is not None)
    if not found[0].size:
        raise InputError(f"{graph.name}: there is no labelled node to score by")
    return found


def _unseen(
    seen: Seen | None, graph: Graph, *, can_ask: bool
) -> tuple[NDArray[np.int64], str, str]:
    """Return the labelled nodes to score by where none are named."""
    if seen is None:
        warnings.warn(
            "this model was saved without a word of which nodes it was trained on: "
            "all labelled nodes are scored, and any training nodes with them",
            H2GCNWarning,
            stacklevel=4,
        )
        why = "all labelled nodes, since the model does not know which training saw"
        return graph.labelled, "unknown", why
    index, left_out = seen.unseen(graph)
    way = "name those in 'nodes' that are to be scored all the same"
    unless = "'nodes' names them"
    if can_ask:
        way, unless = "all_nodes=True scores them all the same", "all_nodes=True"
    if left_out and not index.size:
        raise InputError(f"{graph.name}: training saw all labelled nodes; {way}")
    if seen.is_of(graph):
        if np.isin(index, seen.test).all() and index.size:
            return index, "test", "the test nodes of the split that it was trained by"
        why = "labelled nodes that were neither training nor validation nodes"
        return index, "unseen", why
    if not left_out:
        return index, "unseen", "all labelled nodes of another graph than that of fit"
    warnings.warn(
        f"{left_out:,} nodes of {graph.name} have ids that training saw, and are not "
        f"scored, unless {unless}",
        H2GCNWarning,
        stacklevel=4,
    )
    return index, "unseen", "labelled nodes whose ids training did not see"


def is_balanced(classifier: FittedModel) -> bool:
    """Return whether probabilities are those of balanced classes, not calibrated."""
    params = classifier.params_
    calibrated = params["calibrate"] and classifier.calibration_ is not None
    return params["class_weight"] == "balanced" and not calibrated


def score_model(
    classifier: FittedModel,
    graph: Graph,
    found: tuple[NDArray[np.int64], str, str],
    *,
    times: ArrayLike | None = None,
    alpha: float = 0.1,
    resamples: int | None = None,
    seed: int = 0,
) -> ScoreCard:
    """Return the score card of a fitted model.

    Parameters
    ----------
    classifier
        Fitted.
    graph
        The graph of `fit`, or another.
    found
        Of `nodes_to_score`.
    times, alpha, resamples, seed
        As of `NodeClassifier.evaluate`.
    """
    nodes, rule, why = found
    when = None if times is None else _check_times(graph, times)
    check_real("alpha", alpha, "(0, 1)")
    check_integer("seed", seed, 0)
    if resamples is not None:
        check_integer("resamples", resamples, 1)
    nodes, y, never_seen = _known_classes(graph, nodes, classifier.classes_)
    n_classes, m = len(classifier.classes_), len(nodes)
    logits = join_blocks(classifier.predict_blocks(graph, nodes), m, n_classes)
    shares, degrees = classifier.probabilities_of(logits), graph.degrees[nodes]
    largest, guess_why = _largest(classifier, graph, y)
    scores = Evaluation.of(y, logits, shares, degrees, largest)
    n_draws = resamples or (RESAMPLES if m <= MANY else FEWER)
    drawn = bootstrap(y, logits, shares, resamples=n_draws, seed=seed)
    names = tuple(str(label) for label in classifier.classes_)
    said = logits.argmax(axis=1)
    return ScoreCard(
        model=classifier.params_["model"],
        graph=graph_card(graph),
        classes=names,
        rule=rule,
        why=why,
        scores=scores,
        measures=_measures(scores, y, largest, n_classes, drawn),
        guess=names[largest],
        guess_why=guess_why,
        by_class=_by_class(names, scores.confusion, drawn["f1"]),
        by_degree=tuple(
            GroupScores.of(name, y[inside], said[inside], shares[inside])
            for name, inside in degree_groups(degrees)
        ),
        by_time=None if when is None else _by_time(when[nodes], y, said, shares),
        sets=_coverage(classifier, graph, nodes, y, shares, alpha),
        metric=classifier.params_["metric"],
        val_score=_or_none(classifier.val_score_),
        resamples=n_draws,
        never_seen=never_seen,
        judgement=Judgement.of(
            [scores], "nodes scored", balanced=is_balanced(classifier)
        ),
    )


def _known_classes(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, int]]:
    """Return the nodes of classes that a model knows, theirs, and counts of others."""
    without = nodes[graph.y[nodes] < 0]
    if without.size:
        raise InputError(
            f"{graph.name}: node {graph.node_ids[without[0]]!s} has no label to score "
            "by"
        )
    y, others = translate_labels(graph, nodes, classes)
    if not others:
        return nodes, y, {}
    names = [str(label) for label in classes]
    if (y < 0).all():
        raise InputError(
            f"{graph.name}: the model never saw any of the labels {listed(others)}; "
            f"it knows {listed(names)}"
        )
    own = [str(graph.classes[c]) for c in graph.y[nodes[y < 0]]]
    counts = {label: own.count(label) for label in others}
    warnings.warn(
        f"{len(own):,} of {len(nodes):,} nodes have labels that the model never saw "
        f"({listed(others)}): they are not scored, and it cannot be right about them",
        H2GCNWarning,
        stacklevel=4,
    )
    return nodes[y >= 0], y[y >= 0], counts


def _largest(
    classifier: FittedModel, graph: Graph, y: NDArray[np.int64]
) -> tuple[int, str]:
    """Return the class to always guess, and by what nodes it is the largest."""
    seen, calibration = classifier.seen_, classifier.calibration_
    if seen is not None and seen.is_of(graph):
        rows = seen.rows[graph.y[seen.rows] >= 0]
        own, _ = translate_labels(graph, rows, classifier.classes_)
        if (own >= 0).any():
            return _most(own[own >= 0]), "the largest class of what training saw"
    if calibration is not None and len(calibration.y):
        return _most(calibration.y), "the largest class of the validation nodes"
    return _most(y), "the largest class of these nodes"


def _most(y: NDArray[np.int64]) -> int:
    return int(np.bincount(y).argmax())


def _measures(
    scores: Evaluation,
    y: NDArray[np.int64],
    largest: int,
    n_classes: int,
    drawn: Mapping[str, NDArray[np.float64]],
) -> dict[str, Estimate]:
    """Return every measure with its interval and its floor."""
    counts = np.bincount(y, minlength=n_classes)
    base = np.tile(counts / len(y), (len(y), 1))
    guessed = np.full(len(y), largest)
    chance = np.mean(base[0][counts > 0])
    if n_classes == 2:
        chance = counts[rarer_class(counts)] / len(y)
    floors = {
        "accuracy": scores.majority,
        "macro_f1": macro_f1(confusion_matrix(y, guessed, n_classes)),
        "roc_auc": 0.5,
        "pr_auc": float(chance),
        "log_loss": log_loss(y, base),
        "brier": brier(y, base),
        "calibration_error": scores.probabilities.chance_error,
    }
    hits = int(np.trace(scores.confusion))
    return {
        name: Estimate.drawn(value, drawn[name], floors[name])
        if name in drawn
        else Estimate.share(hits, len(y), floors[name])
        for name, value in scores.measures.items()
    }


def _by_class(
    names: tuple[str, ...],
    confusion: NDArray[np.int64],
    drawn: NDArray[np.float64],
) -> tuple[ClassScores, ...]:
    """Return how each class was found; `drawn` is its F1 in each draw, [R, C]."""
    hits, true, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    rows = per_class(confusion)
    return tuple(
        ClassScores(
            name,
            int(true[c]),
            Estimate.share(int(hits[c]), int(said[c])),
            Estimate.share(int(hits[c]), int(true[c])),
            Estimate.drawn(rows[c]["f1"], drawn[:, c]),
        )
        for c, name in enumerate(names)
    )


def _coverage(
    classifier: FittedModel,
    graph: Graph,
    nodes: NDArray[np.int64],
    y: NDArray[np.int64],
    shares: NDArray[np.float32],
    alpha: float,
) -> SetCoverage:
    """Return how many sets hold the true class, as `predict_set` makes them."""
    seen, held_out = classifier.seen_, classifier.calibration_
    fresh = np.zeros(len(nodes), dtype=bool)
    if held_out is None:
        why = "the model does not have its validation nodes, which sets are made by"
    elif seen is None or not seen.is_of(graph):
        why = "this is not the graph of fit, where alone sets are known to cover"
    else:
        fresh = ~np.isin(nodes, seen.rows)
        why = "training saw all of these nodes"
    if held_out is None or not fresh.any():
        return SetCoverage(alpha, 0, None, None, None, why)
    m = len(held_out.y)
    low, high = (round(100 * end) for end in coverage_range(m, alpha))
    words = f"By {m:,} validation nodes, {low} to {high} % are to be expected"
    own = aps_scores(held_out.probabilities, draws(held_out.nodes, classifier.seed_))
    threshold = quantile(own[np.arange(m), held_out.y], alpha)
    parts = draws(nodes[fresh], classifier.seed_)
    sets = prediction_sets(shares[fresh], parts, threshold)
    covered = int(sets[np.arange(len(sets)), y[fresh]].sum())
    return SetCoverage(
        alpha,
        len(sets),
        Estimate.share(covered, len(sets), 1 - alpha),
        float(sets.sum(axis=1).mean()),
        coverage_range(m, alpha),
        coverage_words(m, alpha) if np.isinf(threshold) else words,
    )


def _check_times(graph: Graph, times: ArrayLike) -> NDArray[Any]:
    """Return times as dates or numbers, [n], or raise."""
    given = as_array("times", times)
    if given.shape != (graph.n_nodes,):
        raise InputError(
            f"must have an entry for each of the {graph.n_nodes:,} nodes of "
            f"{graph.name}, got shape {given.shape}",
            param="times",
        )
    if given.dtype.kind not in "iufM":
        raise InputError(
            f"must be dates (datetime64) or numbers, got {given.dtype}", param="times"
        )
    return given


def _by_time(
    times: NDArray[Any],
    y: NDArray[np.int64],
    said: NDArray[np.int64],
    probabilities: NDArray[np.float32],
) -> TimeScores:
    by, names, group = _time_groups(times)
    return TimeScores(
        by,
        tuple(
            GroupScores.of(name, *(a[group == g] for a in (y, said, probabilities)))
            for g, name in enumerate(names)
        ),
    )


def _time_groups(times: NDArray[Any]) -> tuple[str, list[str], NDArray[np.int64]]:
    """Return what times are grouped by, the groups' names, and that of each node, [m].

    Dates go by months, quarters or years, the finest of which there are at most
    `PERIODS`, and at least two. Numbers of at most so many values go by value. All
    else, by quantiles.
    """
    missing = np.isnat(times) if times.dtype.kind == "M" else np.isnan(times)
    known = times[~missing]
    group = np.full(len(times), -1)
    by, names = "value", list[str]()
    if known.size:
        by, names, group[~missing] = (
            _by_calendar(known) if times.dtype.kind == "M" else _by_number(known)
        )
    if missing.any():
        group[missing] = len(names)
        names = [*names, MISSING]
    return by, names, group


def _by_calendar(dates: NDArray[Any]) -> tuple[str, list[str], NDArray[np.int64]]:
    months = dates.astype("datetime64[M]").astype(np.int64)
    for by, width in (("month", 1), ("quarter", 3), ("year", 12)):
        periods = months // width
        if 1 < periods.max() - periods.min() + 1 <= PERIODS:
            found, group = np.unique(periods, return_inverse=True)
            names = [_period(by, int(period * width)) for period in found]
            return by, names, group
    days = dates.astype("datetime64[D]")
    fine = len(np.unique(days)) >= QUANTILES
    return _by_quantile(days if fine else dates.astype("datetime64[s]"))


def _period(by: str, month: int) -> str:
    """Return the name of the period that begins with a month, from 1970 on."""
    year, place = 1970 + month // 12, month % 12
    if by == "year":
        return str(year)
    return f"{year} Q{place // 3 + 1}" if by == "quarter" else f"{year}-{place + 1:02}"


def _by_number(values: NDArray[Any]) -> tuple[str, list[str], NDArray[np.int64]]:
    found, group = np.unique(values, return_inverse=True)
    if len(found) <= PERIODS:
        return "value", [_shown(value) for value in found], group
    return _by_quantile(values)


def _by_quantile(values: NDArray[Any]) -> tuple[str, list[str], NDArray[np.int64]]:
    found, group = np.unique(values, return_inverse=True)
    ranks = np.ceil(np.arange(1, QUANTILES) * len(values) / QUANTILES) - 1
    cuts = np.unique(np.sort(group)[ranks.astype(np.int64)])
    parts, part = np.unique(np.searchsorted(cuts, group), return_inverse=True)
    names = []
    for place in range(len(parts)):
        inside = found[group[part == place]]
        low, high = _shown(inside.min()), _shown(inside.max())
        names.append(low if low == high else f"{low} to {high}")
    return "quantile", names, part


def _shown(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(value).replace("T", " ")
    number = float(value)
    return f"{number:.0f}" if number.is_integer() else f"{number:.6g}"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# ---------------------------------------------------------------------------- as a page


MEASURES = {
    "accuracy": ("accuracy %", "always {guess}"),
    "macro_f1": ("macro F1 %", "always {guess}"),
    "roc_auc": ("ROC-AUC %", "chance"),
    "pr_auc": ("PR-AUC %", "chance: share of {one}"),
    "log_loss": ("log-loss", "shares of classes"),
    "brier": ("Brier", "shares of classes"),
    "calibration_error": ("calibration error", "chance alone"),
}
"""How each measure is called, and its floor."""
SHARES = ("accuracy", "macro_f1", "roc_auc", "pr_auc")
"""Those that are told in percent."""

Row = tuple[str, ...]


def score_rows(card: ScoreCard) -> list[Row]:
    """Return name, value, interval and floor of each measure, and what the floor is."""
    rows: list[Row] = []
    for key, found in card.measures.items():
        name, floor = MEASURES[key]
        text = points if key in SHARES else number
        one = "a class"
        if len(card.by_class) == 2:
            one = card.by_class[rarer_class([c.nodes for c in card.by_class])].name
        said = floor.format(guess=card.guess, one=one)
        interval = _interval(found, 100 if key in SHARES else 1)
        rows.append((name, text(found.value), interval, text(found.floor), said))
    return rows


def class_rows(card: ScoreCard) -> list[Row]:
    """Return name, nodes, precision, recall and F1 of each class, in percent."""
    return [
        (
            one.name,
            f"{one.nodes:,}",
            *_with_interval(one.precision),
            *_with_interval(one.recall),
            *_with_interval(one.f1),
        )
        for one in card.by_class
    ]


def group_rows(groups: Sequence[GroupScores]) -> list[Row]:
    """Return name, nodes, accuracy and calibration error of groups with nodes."""
    return [
        (
            one.name,
            f"{one.nodes:,}",
            *_with_interval(one.accuracy),
            number(one.calibration_error),
            number(one.chance_error),
        )
        for one in groups
        if one.nodes
    ]


def set_line(card: ScoreCard) -> str:
    """Return in a sentence how much prediction sets cover."""
    sets = card.sets
    share = f"{100 * (1 - sets.alpha):g} %"
    if sets.coverage is None or sets.mean_size is None:
        return f"Sets of {share}: not counted, since {sets.words}."
    value, interval = _with_interval(sets.coverage)
    return (
        f"Sets of {share} cover {value} % ({interval}) of {sets.nodes:,} nodes, with "
        f"{sets.mean_size:.2f} classes in the mean. {sets.words}."
    )


def score_lines(card: ScoreCard) -> Iterator[str]:
    """Yield which nodes were scored and why, what is guessed, what training knew."""
    nodes = "node" if card.nodes == 1 else "nodes"
    yield f"{card.nodes:,} {nodes} scored: {card.why}."
    yield f"To guess without a model: {card.guess}, {card.guess_why}."
    name, _ = MEASURES[card.metric]
    yield (
        f"On the validation nodes, which training chose by: {name.removesuffix(' %')} "
        f"{points(card.val_score)} %."
    )


def _with_interval(found: Estimate) -> tuple[str, str]:
    return points(found.value), _interval(found, 100)


def _interval(found: Estimate, full: int) -> str:
    """Return the ends of an interval, of shares in percent where `full` is 100."""
    if found.low is None or found.high is None:
        return NONE
    digits = 1 if full == 100 else 3
    low, high = (rounded(full * end, digits, full) for end in (found.low, found.high))
    return f"{low}–{high}"


def render_scores(card: ScoreCard) -> str:
    """Return a score card as a self-contained page; all names are escaped."""
    template = find_template("score_card.html", "h2gcn.estimator")
    counts, bins = card.scores.confusion, card.scores.probabilities.bins
    wholes = counts.sum(axis=1, keepdims=True).clip(1)
    return template.render(
        card=card,
        lines=list(score_lines(card)),
        measures=list(zip(score_rows(card), card.measures.items(), strict=True)),
        shares=SHARES,
        classes=class_rows(card),
        groups=[
            (title, head, list(zip(group_rows(groups), filled, strict=True)))
            for title, head, groups in _tables(card)
            if (filled := [one for one in groups if one.nodes])
        ],
        counts=counts.tolist(),
        steps=(STEPS * counts / wholes).round().astype(int).tolist(),
        palette=heat_palette(),
        sets=set_line(card),
        reliability=Markup(reliability_svg(bins, "nodes scored")),
        version=__version__,
    )


def _tables(
    card: ScoreCard,
) -> Iterator[tuple[str, str, Sequence[GroupScores]]]:
    yield "By number of neighbours", "neighbours", card.by_degree
    if card.by_time is not None:
        yield "By time", card.by_time.by, card.by_time.groups
