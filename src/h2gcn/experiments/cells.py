"""Cells of a table: mean and deviation, the paper beside them, and what is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from h2gcn.experiments.paper import Published

__all__ = ["Cell", "mark_best", "measured", "not_run", "paired_interval", "verdict"]

Cell = dict[str, Any]
"""A cell as `result.json` holds it; figures in percent."""

CONFIDENCE = 0.95


def measured(
    values: Sequence[float],
    runs: Sequence[str],
    paper: Published | None,
    note: str = "",
) -> Cell:
    """Return the cell of some runs, in percent.

    Parameters
    ----------
    values
        The test accuracy of each run, fractions of 1.
    runs
        What each run was on, for whoever asks.
    paper
        The paper's figure.
    note
        What must be said of this cell.
    """
    percent = [100 * value for value in values]
    mean = float(np.mean(percent))
    std = float(np.std(percent, ddof=1)) if len(percent) > 1 else None
    return {
        "mean": mean,
        "std": std,
        "n": len(percent),
        "values": percent,
        "runs": list(runs),
        "paper": None if paper is None else paper._asdict(),
        "verdict": verdict(mean, paper),
        "difference": None if paper is None else mean - paper.mean,
        "best": False,
        "note": note,
    }


def not_run(paper: Published | None, note: str = "") -> Cell:
    """Return the cell of what was not run."""
    return {
        "mean": None,
        "std": None,
        "n": 0,
        "values": [],
        "runs": [],
        "paper": None if paper is None else paper._asdict(),
        "verdict": "not run",
        "difference": None,
        "best": False,
        "note": note,
    }


def verdict(mean: float, paper: Published | None) -> str:
    """Return "better", "within" (one deviation of the paper's), "worse" or "none"."""
    if paper is None:
        return "none"
    difference = round(mean - paper.mean, 2)
    if abs(difference) <= (paper.std or 0.0):
        return "within"
    return "better" if difference > 0 else "worse"


def paired_interval(
    first: Sequence[float], second: Sequence[float]
) -> tuple[float, float]:
    """Return the confidence interval of the mean of paired differences.

    Student's t over the graphs or splits that both were run on; without at least two
    pairs it is unbounded.
    """
    differences = np.subtract(first, second)
    n = differences.size
    if n < 2:
        return -math.inf, math.inf
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    mean = float(differences.mean())
    return mean - reach, mean + reach


def mark_best(column: Mapping[str, Cell]) -> None:
    """Mark the best cell of a column if its lead over the next is beyond the noise.

    The note of the best one tells the interval of its lead, whatever it is.
    """
    ranked = sorted(
        ((name, cell) for name, cell in column.items() if cell["mean"] is not None),
        key=lambda item: -item[1]["mean"],
    )
    if len(ranked) < 2:
        return
    (_, best), (name, second) = ranked[:2]
    if best["runs"] != second["runs"] or len(best["runs"]) < 2:
        return
    low, high = paired_interval(best["values"], second["values"])
    best["best"] = low > 0
    lead = f"ahead of {name} by {low:.1f} to {high:.1f} (95 %, paired)"
    best["note"] = f"{best['note']}; {lead}" if best["note"] else lead
