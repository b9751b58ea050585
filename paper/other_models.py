"""The models that the paper does not have, from what `h2gcn train --json` printed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATASETS = ("texas", "chameleon", "citeseer", "cora")
MODELS = ("sgc", "cpgnn", "label-propagation", "label-propagation-2hop", "linbp")


def others_table(folder: Path) -> str:
    """Return test accuracy and setting of each model on each dataset.

    Parameters
    ----------
    folder
        Holds `DATASET-MODEL.json`.
    """
    lines = [
        f"| model | {' | '.join(DATASETS)} |",
        f"| :-- |{' --: |' * len(DATASETS)}",
    ]
    settings = []
    for model in MODELS:
        found = {d: _read(folder / f"{d}-{model}.json") for d in DATASETS}
        lines.append(f"| {model} | {' | '.join(map(_accuracy, found.values()))} |")
        settings += [
            f"- {model} on {dataset}: {setting_words(result['config'])}"
            for dataset, result in found.items()
            if result is not None
        ]
    return "\n".join([*lines, "", "Settings:", "", *settings])


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


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def _accuracy(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "not run"
    mean, std = (100 * result["test_accuracy"][key] for key in ("mean", "std"))
    return f"{mean:.2f} ± {std:.2f}"
