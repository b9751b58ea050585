"""What a quick fit of cheap models found, as data: who fits them is not asked here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRIC_WORDS", "QuickFit", "QuickScore"]

METRIC_WORDS = {"accuracy": "accuracy", "macro_f1": "macro F1", "roc_auc": "ROC-AUC"}
"""How metrics are called in a sentence."""
ERRORS = 2.0
"""A model that is so many standard errors behind the best is told from it."""


@dataclass(frozen=True)
class QuickScore:
    """One model of a quick fit.

    Parameters
    ----------
    name
        Of the line.
    model
        Of the model; lines of one model differ in what it sees.
    sees
        What it looks at, in words.
    uses_graph
        Whether it looks at edges.
    score
        On the held-out nodes, a fraction of 1; None where it was left out.
    behind, behind_error
        How far it is behind the best on the same nodes, and the standard error of that.
    seconds
        That it took.
    note
        Why it was left out, or what is to be known of its fit; or "".
    """

    name: str
    model: str
    sees: str
    uses_graph: bool
    score: float | None
    behind: float | None
    behind_error: float | None
    seconds: float
    note: str = ""

    @property
    def leads(self) -> bool:
        """Whether the held-out nodes cannot tell it from the best."""
        if self.behind is None or self.behind_error is None:
            return False
        return self.behind <= ERRORS * self.behind_error


@dataclass(frozen=True)
class QuickFit:
    """Cheap models on nodes that they were not fitted to.

    Parameters
    ----------
    rows
        The best first, those that were left out last; none where `note` says why.
    metric
        "accuracy"; "roc_auc" or "macro_f1" where most nodes are of one class.
    nodes
        How many held-out nodes there are.
    folds
        How many folds they come from; 0 where they were held out once.
    majority
        The score of always saying the largest class.
    seconds, time_limit
        That it took, and that it might have taken.
    note
        Why nothing was fitted, or "".
    """

    rows: tuple[QuickScore, ...]
    metric: str
    nodes: int
    folds: int
    majority: float
    seconds: float
    time_limit: float
    note: str = ""

    @property
    def best(self) -> QuickScore | None:
        """The best model; None where there is none."""
        return next((row for row in self.rows if row.score is not None), None)

    @property
    def leaders(self) -> tuple[QuickScore, ...]:
        """The best model, and those that the held-out nodes cannot tell from it."""
        return tuple(row for row in self.rows if row.leads)

    @property
    def held_out(self) -> str:
        """Where the held-out nodes come from, in words."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{nodes} in {self.folds} folds" if self.folds else nodes
