"""Cells of a table: mean and deviation, the paper beside them, and what is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from h2gcn.experiments.definition import Published

__all__ = ["Cell", "lead", "mark_best", "measured", "not_run", "paired_interval"]
__all__ += ["pairs", "verdict"]

Cell = dict[str, Any]
"""A cell as `result.json` holds it; figures in percent."""

CONFIDENCE = 0.95
ROUNDING = 0.005
"""Half of the last decimal of the paper's figures."""


def measured(
    values: Sequence[float],
    runs: Sequence[str],
    paper: Published | None,
    note: str = "",
    overlap: float = 0.0,
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
    overlap
        As of `paired_interval`.
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
        "overlap": overlap,
        "paper": None if paper is None else paper._asdict(),
        "verdict": verdict(mean, paper, std),
        "difference": None if paper is None else mean - paper.mean,
        "best": False,
        "against": None,
        "interval": None,
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
        "overlap": 0.0,
        "paper": None if paper is None else paper._asdict(),
        "verdict": "not run",
        "difference": None,
        "best": False,
        "against": None,
        "interval": None,
        "note": note,
    }


def verdict(mean: float, paper: Published | None, std: float | None = None) -> str:
    """Return "better", "within" (one standard deviation), "worse" or "none".

    Parameters
    ----------
    mean
        Ours.
    paper
        The paper's figure; its deviation is the measure.
    std
        Our deviation, the measure where the paper gives none, or 0.00. Without either,
        only what rounds to the paper's figure is within.

    Examples
    --------
    >>> verdict(99.9, Published(100.0, 0.0)), verdict(99.9, Published(100.0, 0.0), 0.2)
    ('worse', 'within')
    """
    if paper is None:
        return "none"
    difference = mean - paper.mean
    if abs(difference) <= (paper.std or std or 0.0) + ROUNDING:
        return "within"
    return "better" if difference > 0 else "worse"


def paired_interval(
    first: Sequence[float], second: Sequence[float], overlap: float = 0.0
) -> tuple[float, float]:
    """Return the confidence interval of the mean of paired differences.

    Student's t over the graphs or splits that both were run on; without at least two
    pairs it is unbounded. Splits of one graph share most of their training nodes, so
    their differences vary less than those of new data would; Nadeau and Bengio
    (Machine Learning 52, 2003) add `overlap` to 1 / n for it.

    Parameters
    ----------
    first, second
        The values, one pair a run.
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs.
    """
    differences = np.subtract(first, second)
    n = differences.size
    if n < 2:
        return -math.inf, math.inf
    error = float(differences.std(ddof=1)) * math.sqrt(1 / n + overlap)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    mean = float(differences.mean())
    return mean - reach, mean + reach


def pairs(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Return the values of two cells on the runs that both have."""
    one = dict(zip(first["runs"], first["values"], strict=True))
    two = dict(zip(second["runs"], second["values"], strict=True))
    both = [run for run in one if run in two]
    return [one[run] for run in both], [two[run] for run in both]


def lead(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[float, float]:
    """Return the interval of a cell's lead over another, on the runs of both."""
    return paired_interval(*pairs(first, second), first["overlap"])


def mark_best(column: Mapping[str, Cell]) -> None:
    """Set each cell against the best other one, and mark the leader of a column.

    The leader is marked if all models have the same runs, and its lead over every one
    is beyond the noise: the runner-up by mean may be behind for certain, and another
    one, less steady, not. Its note tells the interval of its lead, whatever it is.

    Parameters
    ----------
    column
        The cells by model. Each gets `against`, the best other model with the same
        runs, and `interval`, that of its difference to that one; both may be None.
    """
    done = {name: cell for name, cell in column.items() if cell["mean"] is not None}
    for name, cell in done.items():
        peers = _peers(name, done)
        if peers:
            cell["against"] = max(peers, key=lambda other: peers[other]["mean"])
            cell["interval"] = _interval(cell, peers[cell["against"]])
    if not done:
        return
    name = max(done, key=lambda model: done[model]["mean"])
    best = done[name]
    if best["interval"] is None:
        return
    peers = _peers(name, done)
    best["best"] = len(peers) + 1 == len(column) and all(
        lead(best, peer)[0] > 0 for peer in peers.values()
    )
    low, high = best["interval"]
    told = f"ahead of {best['against']} by {low:.1f} to {high:.1f} (95 %, paired)"
    best["note"] = f"{best['note']}; {told}" if best["note"] else told


def _peers(name: str, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the other cells with the same runs; others cannot be paired."""
    runs = cells[name]["runs"]
    return {
        other: cell
        for other, cell in cells.items()
        if other != name and runs and cell["runs"] == runs
    }


def _interval(cell: Cell, peer: Cell) -> list[float] | None:
    if len(cell["values"]) < 2:
        return None
    return list(lead(cell, peer))
