"""Results as `result.json` holds them, made up around the paper's figures."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from h2gcn.experiments import Cell, published
from h2gcn.experiments.analysis import mark_best, measured, not_run
from h2gcn.experiments.definition import EXPERIMENTS, Experiment

EVIL = "</script><img src=x onerror=alert(1)>\"'&`{{x}}"
"""A name that breaks whatever forgets to escape it."""
ENVIRONMENT = {
    **{"python": "3.12.1", "torch": "2.6.0", "numpy": "2.1.0", "scipy": "1.14.1"},
    "cpu": "Example CPU, 2 cores",
}


def cell(mean: float | None = None, **given: Any) -> dict[str, Any]:
    """Return a cell with these fields, the rest empty."""
    empty = {"std": None, "n": 0, "values": [], "runs": [], "paper": None}
    told = {"verdict": "none", "difference": None, "best": False, "note": ""}
    return {"mean": mean, **empty, **told, **given}


def table(
    rows: dict[str, list[dict[str, Any]]], columns: list[str], **given: Any
) -> Any:
    """Return a table with these rows."""
    listed = [{"name": name, "cells": cells} for name, cells in rows.items()]
    fixed = {"name": "t", "title": "A title", "corner": "model", "unit": "%"}
    return {**fixed, "decimals": 2, "columns": columns, "rows": listed, **given}


def result(**given: Any) -> dict[str, Any]:
    """Return a result with these fields, the rest empty but for the versions."""
    return {
        **{"experiment": "t", "title": "A title", "protocol": "quick"},
        **{"version": "0.1.0", "environment": ENVIRONMENT, "notes": ["Made up."]},
        **{"tables": [], "figures": [], "cards": {}, "not_run": [], "failed": []},
        **given,
    }


def small() -> dict[str, Any]:
    """Return a result of two models and three columns with every kind of verdict."""
    paper = {"mean": 70.0, "std": 1.0}
    runs = {"n": 2, "runs": ["split 0", "split 1"]}
    rows = {
        "h2gcn-1": [
            cell(70.5, std=0.71, values=[70.0, 71.0], paper=paper, verdict="within")
            | {"difference": 0.5, "best": True, "note": "ahead of gcn", **runs},
            cell(72.25, std=0.35, values=[72.0, 72.5], paper=paper, verdict="better")
            | {"difference": 2.25, **runs},
            cell(9.5, std=0.71, values=[9.0, 10.0], **runs),
        ],
        "gcn": [
            cell(64.0, std=1.41, values=[63.0, 65.0], paper=paper, verdict="worse")
            | {"difference": -6.0, **runs},
            cell(paper=paper, verdict="not run"),
            cell(10.25, std=0.35, values=[10.0, 10.5], **runs),
        ],
    }
    columns = ["texas", "cora", "own"]
    series = [
        {
            "name": name,
            "x": [0.1, 0.3, 0.5],
            "mean": [c["mean"] for c in cells],
            "std": [c["std"] for c in cells],
            "runs": [c["values"] for c in cells],
            "paper": [70.0, 70.0, None],
        }
        for name, cells in rows.items()
    ]
    return result(
        tables=[table(rows, columns)],
        figures=[figure(series)],
        cards={"texas": card("texas", 3)},
        not_run=["cora × gcn: no data"],
        failed=[
            {"key": "0" * 16, "dataset": "cora", "model": "gcn", "split": 0}
            | {"error": "ValueError: no such file"}
        ],
    )


def figure(series: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    """Return a figure with these series."""
    labels = {"x_label": "edge homophily ratio h", "y_label": "test accuracy (%)"}
    return {"name": "f", "title": "A figure", **labels, "series": series, **given}


def card(name: str, n_classes: int) -> dict[str, Any]:
    """Return the card of a graph, with its compatibility matrix."""
    h = np.random.default_rng(n_classes).dirichlet(np.ones(n_classes), n_classes)
    return {
        **{"name": name, "nodes": 183, "edges": 279, "features": 1703},
        **{"classes": n_classes, "labelled": 183, "h": 0.108, "mean_degree": 3.05},
        **{"adjusted_homophily": -0.23, "label_informativeness": 0.19, "splits": 10},
        **{"split_sizes": [87, 59, 37], "checksum": "0123456789abcdef"},
        "class_names": [f"class {i}" for i in range(n_classes)],
        "compatibility": h.tolist(),
    }


def as_paper(
    name: str, *, spread: float = 1.0, models: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return an experiment's result, drawn around the paper's figures."""
    experiment = EXPERIMENTS[name]
    rng = np.random.default_rng(0)
    n = 3 if experiment.synthetic else 10
    columns = {
        column: mark_best(
            {
                model: _drawn(rng, experiment, model, column, n, spread)
                for model in models or experiment.models
            }
        )
        for column in experiment.columns
    }
    rows = {
        model: [columns[column][model].to_json() for column in columns]
        for model in models or experiment.models
    }
    drawn = table(rows, list(columns), name=name, title=experiment.title)
    figures = []
    for stem, (title, shown) in experiment.figures.items():
        series = [_series(m, columns, rows[m]) for m in shown if m in rows]
        figures.append(figure(series, name=stem, title=title))
    graphs = [] if experiment.synthetic else list(columns)
    cards = {g: card(g, 70 if g == "cora-full" else 7) for g in graphs}
    return result(
        **{"experiment": name, "title": experiment.title, "tables": [drawn]},
        **{"figures": figures, "cards": cards},
    )


def _drawn(
    rng: np.random.Generator,
    experiment: Experiment,
    model: str,
    column: str,
    n: int,
    spread: float,
) -> Cell:
    paper = published(experiment.paper, model, column)
    if paper is None:
        return not_run(paper)
    std = (paper.std or 1.5) * spread
    values = np.clip(rng.normal(paper.mean - 0.3, std + 0.1, n), 0, 100) / 100
    return measured(values.tolist(), [f"split {i}" for i in range(n)], paper)


def _series(model: str, columns: Any, cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": model,
        "x": [float(column) for column in columns],
        "mean": [c["mean"] for c in cells],
        "std": [c["std"] for c in cells],
        "runs": [c["values"] for c in cells],
        "paper": [(c["paper"] or {}).get("mean") for c in cells],
    }


def leave(folder: Path, *results: dict[str, Any]) -> Path:
    """Write results as an experiment does; return the folder."""
    for one in results:
        place = folder / one["experiment"]
        place.mkdir(parents=True, exist_ok=True)
        (place / "result.json").write_text(json.dumps(one), encoding="utf-8")
    return folder
