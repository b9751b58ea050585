"""Write docs/results.md from what `h2gcn train … --split all --json` printed.

The records are in results/train/, one file for each dataset and model.
"""

import json
from pathlib import Path
from typing import Any

from h2gcn.experiments.paper import Published, published, published_rows

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "train"
H2GCN = ("h2gcn-1", "h2gcn-2")
FOUR = ("cora", "citeseer", "texas", "chameleon")
"""The benchmarks on which every model is verified."""
OTHERS = (
    *("mlp", "gcn", "gat", "gcn-cheby", "graphsage", "mixhop"),
    *("gcn-jk", "gcn-cheby-jk", "graphsage-jk", "geom-gcn"),
    *("sgc", "cpgnn", "label-propagation", "label-propagation-2hop", "linbp"),
)
ALLOWED = 1.5
"""Standard deviations of the paper under its mean that count as reproduced."""


def main() -> None:
    """Read the records, write the page."""
    page = (ROOT / "benchmarks" / "results_page.md").read_text("utf-8")
    parts = {
        "h2gcn": "\n".join(h2gcn_table(model) for model in H2GCN),
        "models": models_table(),
        "settings": settings_table(),
        "short": shortfalls(),
    }
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    (ROOT / "docs" / "results.md").write_text(page, "utf-8")
    print(parts["models"])


def read(dataset: str, model: str) -> dict[str, Any] | None:
    """Return what `h2gcn train` printed, None where it was not run."""
    path = FOLDER / f"{dataset}-{model}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def h2gcn_table(model: str) -> str:
    """Return the table of H2GCN on all benchmarks of the paper."""
    lines = [
        f"### {model}",
        "",
        "| dataset | test accuracy | paper | difference | setting | seconds a split |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for dataset in published_rows("real")[model]:
        paper, result = published("real", model, dataset), read(dataset, model)
        if dataset == "cora-full" or paper is None:
            continue
        if result is None:
            lines.append(f"| {dataset} | not run | {text(*paper)} | | | |")
            continue
        ours, splits = result["test_accuracy"], result["splits"]
        seconds = sum(split["seconds"] for split in splits) / len(splits)
        lines.append(
            f"| {dataset} | {text(100 * ours['mean'], 100 * ours['std'])} "
            f"| {text(*paper)} | {100 * ours['mean'] - paper.mean:+.2f} "
            f"| {setting(result)} | {seconds:.1f} |"
        )
    return "\n".join([*lines, ""])


def models_table() -> str:
    """Return the table of every model on four benchmarks, the paper's figures below."""
    lines = [f"| model | {' | '.join(FOUR)} |", f"| --- |{' --- |' * len(FOUR)}"]
    for model in (*H2GCN, *OTHERS):
        cells = [cell(dataset, model) for dataset in FOUR]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def cell(dataset: str, model: str) -> str:
    """Return ours, the paper's in brackets, and a mark where ours is short of it."""
    paper, result = published("real", model, dataset), read(dataset, model)
    beside = "" if paper is None else f" ({text(*paper)})"
    if result is None:
        return f"not run{beside}"
    mean, std = (100 * result["test_accuracy"][key] for key in ("mean", "std"))
    return f"{text(mean, std)}{beside}{mark(mean, paper)}"


def mark(mean: float, paper: Published | None) -> str:
    """Return what to say of a mean beside the paper's."""
    if paper is None:
        return ""
    if paper.std is None:
        return "" if mean >= paper.mean else f" {mean - paper.mean:+.1f}"
    return "" if mean >= paper.mean - ALLOWED * paper.std else " **short**"


REASONS: dict[tuple[str, str], str] = {
    ("citeseer", "geom-gcn"): (
        "the figure is copied from Geom-GCN's own paper, whose neighbourhoods come as "
        "files that were not made by Isomap of hop distances, and whose splits of "
        "citeseer leave nodes out. Tried on two splits: the largest component alone "
        "(72.6 against 72.0 on all test nodes), and stronger penalties (l2 2.5e-4 and "
        "2.5e-3: it no longer learns). The neighbourhoods are the likely reason"
    ),
}
"""What was tried where ours is short, and the likely reason."""


def shortfalls() -> str:
    """Return a line for each cell that is short of the paper's."""
    lines = []
    for model in (*H2GCN, *OTHERS):
        for dataset in FOUR:
            paper, result = published("real", model, dataset), read(dataset, model)
            if result is None:
                lines.append(f"- {model} on {dataset}: not run yet.")
            elif mark(100 * result["test_accuracy"]["mean"], paper):
                reason = REASONS.get((dataset, model), "not known yet")
                lines.append(f"- {model} on {dataset}: {reason}.")
    return "\n".join(lines or ["- nothing: every cell was run, none is short."]) + "\n"


def settings_table() -> str:
    """Return the settings of every model on the four benchmarks."""
    lines = [
        "| model | dataset | setting | seconds a split |",
        "| --- | --- | --- | --- |",
    ]
    for model in OTHERS:
        for dataset in FOUR:
            result = read(dataset, model)
            if result is not None:
                splits = result["splits"]
                seconds = sum(split["seconds"] for split in splits) / len(splits)
                lines.append(
                    f"| {model} | {dataset} | {setting(result)} | {seconds:.1f} |"
                )
    return "\n".join([*lines, ""])


def setting(result: dict[str, Any]) -> str:
    """Return what a run was trained with, in a few words."""
    config = dict(result["config"])
    said = []
    if config.get("hidden_channels") not in (None, 64):
        said.append(f"width {config['hidden_channels']}")
    if config.get("activation") is not None:
        said.append(config["activation"])
    for name, short in (("dropout", "dropout"), ("l2", "l2")):
        if config.get(name) is not None:
            said.append(f"{short} {config[name]:g}")
    if config.get("learning_rate") not in (None, 0.01):
        said.append(f"{config.get('optimizer', 'adam')} {config['learning_rate']:g}")
    for name, value in (config.get("options") or {}).items():
        if value is not None:
            said.append(f"{name} {value}")
    if config.get("dropout") is not None or config.get("l2") is not None:
        rule = config.get("stopping", "score")
        word = "patience" if rule == "score" else rule
        patience = config["patience"]
        said.append(
            f"{word} {patience}" if patience else f"{config['epochs']:,} epochs"
        )
    return ", ".join(said)


def text(mean: float, std: float | None) -> str:
    """Return a mean and its deviation."""
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


if __name__ == "__main__":
    main()
