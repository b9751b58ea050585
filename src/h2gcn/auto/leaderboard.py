"""The leaderboard and its page: how members stand, who answers, what a graph adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn.auto.contest import Contest, by_node
from h2gcn.diagnosis import find_template, points
from h2gcn.exceptions import InputError
from h2gcn.io import conform
from h2gcn.training import score

__all__ = ["Leaderboard", "Standing", "make_leaderboard", "render_leaderboard"]

NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
}
"""How metrics are called in a sentence."""


@dataclass(frozen=True)
class Standing:
    """A member's line.

    Parameters
    ----------
    name, model, sees
        Of the member.
    log_loss
        On the held-out nodes, after its temperature; None if it was left out.
    score
        The metric there, a fraction of 1; None also where it has no value.
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
        The score of always saying the largest class; None where it has no value.
    optimism
        By how much the best member's score is too good, for having been chosen; None
        where there are too few nodes to tell.
    graph
        What the graph adds over no graph, in a sentence; empty where it cannot be
        said.
    seconds
        Of it all.
    interrupted
        Whether Ctrl-C ended it.
    """

    rows: tuple[Standing, ...]
    metric: str
    chosen_by: str
    nodes: int
    folds: int
    majority: float | None
    optimism: float | None
    graph: str
    seconds: float
    interrupted: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Leaderboard:
        """Return what `to_json` wrote."""
        return conform(cls, content, "the leaderboard")

    def __post_init__(self) -> None:
        if self.metric not in NAMES or self.chosen_by not in ("log_loss", *NAMES):
            raise InputError("it is by a metric that is not known")
        if not any(row.weight for row in self.rows):
            raise InputError("it has nobody who answers")

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
    def caution(self) -> str:
        """By how much the best looks better than it is, in a sentence."""
        if self.optimism is None:
            return "How much too good the best looks, so few nodes cannot tell."
        much = max(self.optimism, 0.0)
        if self.chosen_by == "log_loss":
            said = f"{much:.3f} of log-loss"
        else:
            said = f"{100 * much:.1f} points of {NAMES[self.chosen_by]}"
        return f"The best of so many looks better than it is, by about {said}."

    def behind(self, row: Standing) -> str:
        """How far a member is behind the best, with the standard error of that."""
        if row.gap is None or row.gap_error is None:
            return ""
        if self.chosen_by == "log_loss":
            return f"{row.gap:.3f} ± {row.gap_error:.3f}"
        return f"{100 * row.gap:.2f} ± {100 * row.gap_error:.2f}"


def make_leaderboard(contest: Contest, metric: str) -> Leaderboard:
    """Return the leaderboard of a contest.

    Parameters
    ----------
    contest
        Held.
    metric
        "accuracy", "macro_f1", "roc_auc" or "pr_auc".
    """
    choice, y = contest.choice, contest.y
    rows = []
    for entry in contest.entries:
        name, known = entry.member.name, entry.logits is not None
        shares = contest.probabilities.get(name)
        rows.append(
            Standing(
                name,
                entry.member.model,
                entry.member.sees,
                -float(by_node("log_loss", shares, y).mean())
                if shares is not None
                else None,
                _known(score(metric, y, entry.logits))
                if entry.logits is not None
                else None,
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
        choice.metric,
        len(y),
        contest.folds,
        _known(score(metric, y, guess)),
        choice.optimism,
        what_the_graph_adds(contest, metric),
        round(contest.seconds, 2),
        contest.interrupted,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def what_the_graph_adds(contest: Contest, metric: str) -> str:
    """Return in a sentence what the best member gains by looking at edges.

    It is judged by the log-loss, node by node: two standard errors tell it from none.
    """
    losses: dict[bool, dict[str, NDArray[np.float64]]] = {True: {}, False: {}}
    for entry in contest.entries:
        name = entry.member.name
        if name in contest.probabilities:
            of_nodes = -by_node("log_loss", contest.probabilities[name], contest.y)
            losses[entry.member.uses_graph][name] = of_nodes
    if not (losses[True] and losses[False]):
        return ""
    found = {
        uses: min(group, key=lambda name: float(group[name].mean()))
        for uses, group in losses.items()
    }
    told = "; ".join(
        f"log-loss {losses[uses][name].mean():.3f}{_and(contest, metric, name)} "
        f"{'with it' if uses else 'without'} ({name})"
        for uses, name in found.items()
    )
    gain = losses[False][found[False]] - losses[True][found[True]]
    mean, error = float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))
    if mean > 2 * error:
        return f"The graph helps: {told}."
    if mean < -2 * error:
        return f"The graph does not help here: {told}."
    return f"Whether the graph helps, these nodes cannot tell: {told}."


def _and(contest: Contest, metric: str, name: str) -> str:
    """Return the score of a member in words, to go on with."""
    found = _known(score(metric, contest.y, _logits_of(contest, name)))
    return "" if found is None else f" and {NAMES[metric]} {100 * found:.1f} %"


def _logits_of(contest: Contest, name: str) -> NDArray[np.float32]:
    logits = {entry.member.name: entry.logits for entry in contest.entries}[name]
    assert logits is not None
    return logits


def render_leaderboard(
    board: Leaderboard,
    name: str,
    facts: Sequence[tuple[str, str]] = (),
    reliability: str = "",
) -> str:
    """Return a leaderboard as a self-contained page; all names are escaped.

    Parameters
    ----------
    board
        The leaderboard.
    name
        Of the graph.
    facts
        What else is to be told of the test nodes, with its value.
    reliability
        A picture of it, as SVG; empty for none.
    """
    return find_template("leaderboard.html", "h2gcn.auto").render(
        board=board,
        name=name,
        facts=facts,
        reliability=Markup(reliability),
        score_name=NAMES[board.metric],
        percent=points,
        version=__version__,
    )
