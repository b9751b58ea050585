"""Entries of a result's tables and figures for numbers that have a closed form."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["Entry", "cell", "figure", "row", "series", "table"]

Entry = dict[str, Any]
"""A table, a figure, or a part of one, as it is written to JSON."""
SAME = 1e-6
"""How near a number found by bisection must come to a closed form."""


def cell(
    values: Sequence[float],
    *,
    paper: float | None = None,
    runs: Sequence[str] = (),
    note: str = "",
) -> Entry:
    """Return the mean of what was measured beside the paper's closed form.

    The verdict is "within" where the two differ by at most one standard deviation
    over the runs; by rounding at most, where there is a single value.

    Examples
    --------
    >>> entry = cell([0.5, 0.7], paper=0.5)
    >>> round(entry["difference"], 6), entry["verdict"]
    (0.1, 'within')
    """
    mean = float(np.mean(values)) if len(values) else None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    difference = None if mean is None or paper is None else mean - paper
    verdict = "none"
    if difference is not None:
        verdict = "within" if abs(difference) <= max(std or 0, SAME) else "worse"
    return {
        "mean": mean,
        "std": std,
        "n": len(values),
        "values": [float(value) for value in values],
        "runs": list(runs),
        "paper": None if paper is None else {"mean": paper, "std": None},
        "verdict": verdict,
        "difference": difference,
        "best": False,
        "note": note,
    }


def row(name: str, cells: Iterable[Entry]) -> Entry:
    """Return a row of a table."""
    return {"name": name, "cells": list(cells)}


def table(
    name: str,
    title: str,
    corner: str,
    columns: Sequence[str],
    rows: Sequence[Entry],
    *,
    decimals: int,
    unit: str = "",
) -> Entry:
    """Return a table."""
    return {
        "name": name,
        "title": title,
        "corner": corner,
        "columns": list(columns),
        "unit": unit,
        "decimals": decimals,
        "rows": list(rows),
    }


def series(
    name: str,
    x: Iterable[float],
    runs: Sequence[Sequence[float]],
    *,
    paper: Sequence[float] | None = None,
) -> Entry:
    """Return a line of a figure: at each x the mean over its runs.

    Examples
    --------
    >>> line = series("measured", [0.1, 0.2], [[1, 3], [2, 4]])
    >>> line["mean"], [round(std, 3) for std in line["std"]]
    ([2.0, 3.0], [1.414, 1.414])
    """
    several = len(runs[0]) > 1
    return {
        "name": name,
        "x": [float(value) for value in x],
        "mean": [float(np.mean(values)) for values in runs],
        "std": [float(np.std(v, ddof=1)) for v in runs] if several else None,
        "runs": [[float(v) for v in values] for values in runs] if several else None,
        "paper": None if paper is None else [float(value) for value in paper],
    }


def figure(
    name: str, title: str, x_label: str, y_label: str, lines: Sequence[Entry]
) -> Entry:
    """Return a figure of lines."""
    return {
        "name": name,
        "title": title,
        "kind": "lines",
        "x_label": x_label,
        "y_label": y_label,
        "x_ticks": None,
        "series": list(lines),
    }
