"""Write docs/results.md from what `h2gcn train … --split all --json` printed.

The records are in results/train/, one file for each dataset and model.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "train"
MODELS = ("h2gcn-1", "h2gcn-2")
ALLOWED = 1.5
"""Points under the paper's mean that still count as reproduced."""


def main() -> None:
    """Read the records, write the page."""
    paper = json.loads((ROOT / "results" / "paper.json").read_text())["real"]
    page = (ROOT / "benchmarks" / "results_page.md").read_text()
    tables = "\n".join(table(model, paper[model]) for model in MODELS)
    (ROOT / "docs" / "results.md").write_text(page.replace("{{tables}}", tables))
    print(tables)


def table(model: str, paper: dict[str, list[float]]) -> str:
    """Return a model's table in Markdown."""
    lines = [
        f"### {model}",
        "",
        "| dataset | test accuracy | paper | difference | setting | seconds a split |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for dataset, (mean, deviation) in paper.items():
        path = FOLDER / f"{dataset}-{model}.json"
        if not path.exists():
            lines.append(
                f"| {dataset} | not run | {mean:.2f} ± {deviation:.2f} | | | |"
            )
            continue
        lines.append(row(dataset, json.loads(path.read_text()), mean, deviation))
    return "\n".join([*lines, ""])


def row(dataset: str, result: dict[str, object], mean: float, deviation: float) -> str:
    """Return one dataset's row: ours beside the paper's."""
    ours = result["test_accuracy"]
    config = result["config"]
    splits = result["splits"]
    assert isinstance(ours, dict)
    assert isinstance(config, dict)
    assert isinstance(splits, list)
    difference = 100 * ours["mean"] - mean
    mark = "" if difference >= -ALLOWED else " (short)"
    stop = f"patience {config['patience']}" if config["patience"] else "2,000 epochs"
    setting = (
        f"{config['activation']}, dropout {config['dropout']:g}, "
        f"l2 {config['l2']:g}, {stop}"
    )
    seconds = sum(split["seconds"] for split in splits) / len(splits)
    return (
        f"| {dataset} | {100 * ours['mean']:.2f} ± {100 * ours['std']:.2f} "
        f"| {mean:.2f} ± {deviation:.2f} | {difference:+.2f}{mark} | {setting} "
        f"| {seconds:.1f} |"
    )


if __name__ == "__main__":
    main()
