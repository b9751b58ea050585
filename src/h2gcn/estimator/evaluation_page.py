"""A score card as rows of text, and as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from h2gcn import __version__
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
from h2gcn.estimator.evaluation import Estimate, GroupScores, ScoreCard
from h2gcn.training import rarer_class

__all__ = [
    "class_rows",
    "group_rows",
    "render_scores",
    "score_lines",
    "score_rows",
    "set_line",
]

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
