"""The figures of the paper, to set ours beside them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Published", "published", "published_rows"]


class Published(NamedTuple):
    """A cell of the paper, in percent; the deviation is None where it gives none."""

    mean: float
    std: float | None


def published_rows(table: str) -> dict[str, dict[str, Any]]:
    """Return a table of the paper: models, then columns.

    Parameters
    ----------
    table
        "real", "ranks", "syn-cora", "syn-products", "ablation" or "table-1".
    """
    rows: dict[str, dict[str, Any]] = _figures()[table]
    return rows


def published(table: str, model: str, column: str) -> Published | None:
    """Return a cell of the paper, None where it has none."""
    cell = _figures().get(table, {}).get(model, {}).get(column)
    return None if cell is None else Published(*cell)


@cache
def _figures() -> dict[str, Any]:
    text = (
        files("h2gcn.experiments.definition").joinpath("paper.json").read_text("utf-8")
    )
    figures: dict[str, Any] = json.loads(text)
    return figures
