"""The leaderboard: how each member stands, who answers, and what the graph adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from h2gcn.auto.choosing import by_node
from h2gcn.auto.contest import Contest
from h2gcn.training import score

__all__ = ["Leaderboard", "Row", "make_leaderboard"]

NAMES = {"accuracy": "accuracy", "macro_f1": "macro F1", "roc_auc": "ROC-AUC"}
"""How metrics are called in a sentence."""


@dataclass(frozen=True)
class Row:
    """A member's line.

    Parameters
    ----------
    name, model, sees
        Of the member.
    log_loss
        On the held-out nodes, after its temperature; None if it was left out.
    score
        The metric there, a fraction of 1.
    gap
        How far it is behind the best, by what the choice was made by.
    gap_error
        The standard error of that.
    weight
        In the answer; 0 if it is not in it.
    seconds
        That it took.
    note
        Why it was left out or cut short, else empty.
    """

    name: str
    model: str
    sees: str
    log_loss: float | None
    score: float | None
    gap: float | None
    gap_error: float | None
    weight: float
    seconds: float
    note: str


@dataclass(frozen=True)
class Leaderboard:
    """All members on the held-out nodes, the best first.

    Parameters
    ----------
    rows
        A line for each.
    metric
        Of the column `score`.
    chosen_by
        "log_loss", or the metric that was asked for.
    nodes
        How many held-out nodes there are.
    folds
        How many folds they come from; 0 where they are the validation nodes.
    majority
        The score of always saying the largest class.
    optimism
        By how much the best member's score is too good, for having been chosen.
    graph
        What the graph adds over no graph, in a sentence; empty where it cannot be
        said.
    seconds
        Of it all.
    interrupted
        Whether Ctrl-C ended it.
    """

    rows: tuple[Row, ...]
    metric: str
    chosen_by: str
    nodes: int
    folds: int
    majority: float
    optimism: float
    graph: str
    seconds: float
    interrupted: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Leaderboard:
        """Return what `to_json` wrote."""
        rows = tuple(Row(**row) for row in content["rows"])
        return cls(**{**content, "rows": rows})

    @property
    def held_out(self) -> str:
        """Where the held-out nodes come from, in words."""
        if self.folds:
            return (
                f"{self.nodes:,} training and validation nodes, in {self.folds} folds"
            )
        return f"{self.nodes:,} validation nodes"

    @property
    def answering(self) -> str:
        """Who answers, in a sentence."""
        names = [row.name for row in self.rows if row.weight]
        if len(names) == 1:
            return f"{names[0]} answers alone."
        weights = {row.weight for row in self.rows if row.weight}
        how = "by the plain mean" if len(weights) == 1 else "by a weighted mean"
        listed = ", ".join(names[:-1])
        return f"{listed} and {names[-1]} answer together, {how} of probabilities."

    @property
    def optimism_in_words(self) -> str:
        """By how much the best looks better than it is."""
        much = max(self.optimism, 0.0)
        if self.chosen_by == "log_loss":
            return f"{much:.3f} of log-loss"
        return f"{100 * much:.1f} points of {NAMES[self.chosen_by]}"


def make_leaderboard(contest: Contest, metric: str, chosen_by: str) -> Leaderboard:
    """Return the leaderboard of a contest.

    Parameters
    ----------
    contest
        Held.
    metric
        "accuracy", "macro_f1" or "roc_auc".
    chosen_by
        What the choice was made by.
    """
    choice, y = contest.choice, contest.y
    rows = []
    for entry in contest.entries:
        name, known = entry.member.name, entry.logits is not None
        shares = contest.probabilities.get(name)
        rows.append(
            Row(
                name,
                entry.member.model,
                entry.member.sees,
                -float(by_node("log_loss", shares, y).mean())
                if shares is not None
                else None,
                score(metric, y, entry.logits) if entry.logits is not None else None,
                choice.gaps[name] if known else None,
                choice.errors[name] if known else None,
                choice.weights.get(name, 0.0),
                round(entry.seconds, 2),
                entry.why,
            )
        )
    # Those that were left out go last.
    rows.sort(key=lambda row: (row.gap is None, row.gap or 0.0))
    counts = np.bincount(y, minlength=2)
    guess = np.tile(counts / counts.sum(), (len(y), 1)).astype(np.float32)
    return Leaderboard(
        tuple(rows),
        metric,
        chosen_by,
        len(y),
        contest.folds,
        score(metric, y, guess),
        choice.optimism,
        what_the_graph_adds(contest, metric),
        round(contest.seconds, 2),
        contest.interrupted,
    )


def what_the_graph_adds(contest: Contest, metric: str) -> str:
    """Return in a sentence what the best member gains by looking at edges."""
    groups: dict[bool, list[str]] = {True: [], False: []}
    for entry in contest.entries:
        if entry.logits is not None:
            groups[entry.member.uses_graph].append(entry.member.name)
    if not (groups[True] and groups[False]):
        return ""
    losses = {
        name: -by_node("log_loss", contest.probabilities[name], contest.y)
        for name in (*groups[True], *groups[False])
    }
    with_graph, without = (
        min(groups[uses], key=lambda name: float(losses[name].mean()))
        for uses in (True, False)
    )
    gain = losses[without] - losses[with_graph]
    mean, error = float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))
    words = NAMES[metric]
    scores = [
        score(metric, contest.y, np.log(contest.probabilities[name] + 1e-12))
        for name in (with_graph, without)
    ]
    told = (
        f"{words} {100 * scores[0]:.1f} % with it ({with_graph}), "
        f"{100 * scores[1]:.1f} % without ({without})"
    )
    if mean > 2 * error:
        return f"The graph helps: {told}."
    if mean < -2 * error:
        return f"The graph does not help here: {told}."
    return f"Whether the graph helps, these nodes cannot tell: {told}."
