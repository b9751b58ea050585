"""The models that the paper does not run, from what `h2gcn train --json` printed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2gcn.experiments import Table

DATASETS = (
    *("texas", "wisconsin", "cornell-2020", "cornell", "actor", "chameleon"),
    *("squirrel", "citeseer", "cora", "pubmed", "minesweeper", "tolokers"),
)
MODELS = (
    *("gdc", "gmnn", "gam", "ica", "bp", "zoobp", "decoupled-smoothing"),
    *("correct-and-smooth", "sgc", "cpgnn", "label-propagation"),
    *("label-propagation-2hop", "linbp", "sign", "linkx", "dir-gnn"),
)
BESIDE = ("h2gcn-1", "h2gcn-2", "gcn", "mlp")
"""Rows that stand above them, of the table of real benchmarks where it has the set."""
SPLITS = 10
NOT_RUN = "not run"


def others_table(folder: Path, real: Table) -> str:
    """Return the test score of each model on each dataset, and how many are missing.

    Parameters
    ----------
    folder
        Holds `DATASET-MODEL.json`, one for each cell that was run.
    real
        The table of real benchmarks, which the rows of `BESIDE` are of.
    """
    lines = [
        f"| model | {' | '.join(DATASETS)} |",
        f"| :-- |{' --: |' * len(DATASETS)}",
    ]
    for model in BESIDE:
        cells = real.row(model)
        told = [
            _pair(cells[dataset].mean, cells[dataset].std)
            if dataset in cells
            else score(read(folder, dataset, model))
            for dataset in DATASETS
        ]
        lines.append(f"| *{model}* | {' | '.join(told)} |")
    missing = 0
    for model in MODELS:
        told = [score(read(folder, dataset, model)) for dataset in DATASETS]
        missing += told.count(NOT_RUN)
        lines.append(f"| {model} | {' | '.join(told)} |")
    of = len(MODELS) * len(DATASETS)
    if missing:
        lines += ["", f"{missing} of {of} cells are not run."]
    return "\n".join(lines)


def others_settings(folder: Path) -> str:
    """Return the setting of each cell that was run, as a list."""
    return "\n".join(
        f"- {model} on {dataset}: {setting_words(found['config'])}"
        for model in (*BESIDE, *MODELS)
        for dataset in DATASETS
        if (found := read(folder, dataset, model)) is not None
    )


def setting_words(config: Mapping[str, Any]) -> str:
    """Return what a run was trained with, in a few words."""
    said = []
    if config.get("hidden_channels") is not None:
        said.append(f"width {config['hidden_channels']}")
    if config.get("activation") is not None:
        activation = config["activation"]
        said.append("no activation" if activation == "none" else activation)
    said += [
        f"{name} {config[name]:g}"
        for name in ("dropout", "l2")
        if config.get(name) is not None
    ]
    if config.get("learning_rate") is not None:
        said.append(f"{config.get('optimizer', 'adam')} {config['learning_rate']:g}")
    for name, value in (config.get("options") or {}).items():
        if value is not None:
            said.append(f"{name.replace('_', ' ')} {value}")
    if config.get("patience"):
        rule = config.get("stopping", "score")
        said.append(f"patience {config['patience']} ({rule})")
    elif config.get("epochs") and config.get("l2") is not None:
        said.append(f"{config['epochs']:,} epochs")
    return ", ".join(said) or "the model's own"


def read(folder: Path, dataset: str, model: str) -> dict[str, Any] | None:
    """Return what was printed of a cell, None where it was not run on all splits."""
    path = folder / f"{dataset}-{model}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found if len(found["splits"]) == SPLITS else None


def score(found: Mapping[str, Any] | None) -> str:
    """Return the mean and deviation of the score that the dataset is judged by."""
    if found is None:
        return NOT_RUN
    measured = found[f"test_{found['config']['metric']}"]
    return _pair(100 * measured["mean"], 100 * measured["std"])


def _pair(mean: float | None, std: float | None) -> str:
    return NOT_RUN if mean is None or std is None else f"{mean:.2f} ± {std:.2f}"
