"""The paper's two tables of statistics, from the graphs themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from h2gcn.experiments.analysis.cells import Cell, not_run
from h2gcn.experiments.definition import REAL, Published, published

__all__ = [
    "REAL_COLUMNS",
    "real_statistics",
    "synthetic_statistics",
]

Cards = Mapping[str, Mapping[str, Any] | None]
"""The card of each graph; None of one whose data are not there."""

REAL_COLUMNS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "nodes": lambda card: card["nodes"],
    # The paper counts self-loops as edges, and in h.
    "edges": lambda card: card["edges"] + card["loops_dropped"],
    "classes": lambda card: card["classes"],
    "h": lambda card: card["h_with_loops"],
    "features": lambda card: card["features"],
    "h without loops": lambda card: card["h"],
    "max degree": lambda card: card["max_degree"],
}
SYNTHETIC_COLUMNS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "nodes": lambda card: card["nodes"],
    "edges": lambda card: card["edges"],
    "classes": lambda card: card["classes"],
    "features": lambda card: card["features"],
    "h": lambda card: card["h"],
    "max degree": lambda card: card["max_degree"],
    "mean degree": lambda card: card["mean_degree"],
}


def real_statistics(cards: Cards) -> dict[str, Any]:
    """Return the statistics of the real benchmarks, the paper's beside them."""
    rows = [
        {
            "name": dataset,
            "cells": [
                _cell(cards.get(dataset), value, published("statistics", dataset, name))
                for name, value in REAL_COLUMNS.items()
            ],
        }
        for dataset in REAL
    ]
    return _table(
        "statistics-real",
        "Statistics of the real benchmarks",
        "dataset",
        list(REAL_COLUMNS),
        rows,
    )


def synthetic_statistics(cards: Cards) -> dict[str, Any]:
    """Return the statistics of synthetic graphs, one row each."""
    rows = [
        {
            "name": name,
            "cells": [_cell(card, value) for value in SYNTHETIC_COLUMNS.values()],
        }
        for name, card in cards.items()
    ]
    return _table(
        "statistics-synthetic",
        "Statistics of the synthetic graphs",
        "graph",
        list(SYNTHETIC_COLUMNS),
        rows,
    )


def _cell(
    card: Mapping[str, Any] | None,
    value: Callable[[Mapping[str, Any]], float | None],
    paper: Published | None = None,
) -> Cell:
    cell = not_run(paper)
    found = None if card is None else value(card)
    if found is None:
        return cell
    agrees = paper is not None and round(found, 2) == round(paper.mean, 2)
    return cell | {
        "mean": found,
        "n": 1,
        "verdict": "within" if agrees else "none",
        "difference": None if paper is None else found - paper.mean,
        "note": "" if agrees or paper is None else "differs from the paper",
    }


def _table(
    name: str, title: str, corner: str, columns: list[str], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "corner": corner,
        "columns": columns,
        "unit": "",
        "decimals": 2,
        "rows": rows,
    }
