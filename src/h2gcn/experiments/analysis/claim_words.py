"""What the checks of claims share: leads, noise, and how both are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from h2gcn.experiments.analysis.cells import lead

__all__ = ["Cells", "ahead", "begun", "leader", "margins", "mean", "noise_count"]
__all__ += ["points", "short", "where"]

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Cells by row and column; all that a claim is about are there, and have been run."""


def margins(cells: Cells, model: str, other: str) -> dict[str, float]:
    """Return by how much a model's mean is above another's in each column."""
    return {
        h: cell["mean"] - cells[other][h]["mean"] for h, cell in cells[model].items()
    }


def ahead(cells: Cells, model: str, other: str, column: str) -> bool:
    """Return whether a model is ahead of another beyond the noise."""
    return lead(cells[model][column], cells[other][column])[0] > 0


def noise_count(cells: Cells, model: str, other: str, columns: Iterable[str]) -> str:
    """Return at how many columns a model is ahead of another beyond the noise."""
    found = [ahead(cells, model, other, column) for column in columns]
    return f"{sum(found)} of {len(found)}"


def leader(cells: Cells, models: Iterable[str], column: str) -> str:
    """Return the model with the largest mean in a column."""
    return max(models, key=lambda model: float(cells[model][column]["mean"]))


def mean(cells: Cells, model: str, column: str) -> str:
    """Return a model and its mean."""
    return f"{model} {cells[model][column]['mean']:.1f}"


def points(value: float) -> str:
    """Return a difference in percent as points."""
    return f"{value:z.1f} points".replace("-", "−")


def short(column: str) -> str:
    """Return a homophily without needless zeros."""
    return f"{float(column):g}"


def where(column: str) -> str:
    """Return a column as a place: a homophily, or a benchmark."""
    return f"h = {short(column)}" if column[0].isdigit() else column


def begun(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
