"""The average rank of each model under heterophily, homophily, and overall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata

from h2gcn.experiments.analysis.cells import Cell, not_run
from h2gcn.experiments.definition import Published, published_rows

__all__ = ["average_ranks", "ranks_table"]

GROUPS = {
    "heterophily": (
        "texas",
        "wisconsin",
        "actor",
        "squirrel",
        "chameleon",
        "cornell-2020",
    ),
    "homophily": ("citeseer", "pubmed", "cora"),
}
"""Benchmarks with h ≤ 0.3 and h ≥ 0.7; overall is over both, as the paper does it."""


def average_ranks(
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return each model's mean rank over benchmarks; 1 is best, equals share it.

    Parameters
    ----------
    scores
        The accuracy of each model on each benchmark; a benchmark counts where every
        model has a score.

    Examples
    --------
    >>> average_ranks({"a": {"cora": 0.9}, "b": {"cora": 0.8}})["b"]
    {'heterophily': nan, 'homophily': 2.0, 'overall': 2.0}
    """
    models = list(scores)
    groups = {**GROUPS, "overall": sum(GROUPS.values(), ())}
    by_benchmark = {
        benchmark: rankdata([-scores[m][benchmark] for m in models], method="min")
        for benchmark in groups["overall"]
        if all(benchmark in scores[model] for model in models)
    }
    return {
        model: {
            group: _mean([by_benchmark[b][i] for b in benchmarks if b in by_benchmark])
            for group, benchmarks in groups.items()
        }
        for i, model in enumerate(models)
    }


def ranks_table(real: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of average ranks, out of the table of the real benchmarks."""
    scores = {
        row["name"]: {
            column: cell["mean"]
            for column, cell in zip(real["columns"], row["cells"], strict=True)
            if cell["mean"] is not None
        }
        for row in real["rows"]
    }
    present = {name: row for name, row in scores.items() if row}
    ranks = average_ranks(present)
    used = [
        b
        for b in sum(GROUPS.values(), ())
        if present and all(b in row for row in present.values())
    ]
    paper = published_rows("ranks")
    columns = [*GROUPS, "overall"]
    return {
        "name": "ranks",
        "title": f"Average rank of the models on {', '.join(used) or 'no benchmark'}",
        "corner": "model",
        "columns": columns,
        "unit": "",
        "decimals": 1,
        "rows": [
            {
                "name": model,
                "cells": [
                    _cell(ranks.get(model, {}).get(column), paper[model][column])
                    for column in columns
                ],
            }
            for model in scores
        ],
    }


def _cell(rank: float | None, paper: float) -> Cell:
    cell = not_run(Published(paper, None))
    if rank is None or np.isnan(rank):
        return cell
    # A rank is no measurement with a deviation of its own: it is shown, not judged.
    return cell | {"mean": rank, "n": 1, "verdict": "none", "difference": rank - paper}


def _mean(ranks: list[float]) -> float:
    return float(np.mean(ranks)) if ranks else float("nan")
