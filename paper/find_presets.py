"""Find the setting of each model on each benchmark, on validation nodes only.

Runs the paper's grid on the first splits of a dataset, as `h2gcn tune` does, and keeps
every run in results/tune/DATASET-MODEL.jsonl, so that a second start goes on where the
first one stopped. `--collect` then writes the winners to the package's presets.json,
from which `h2gcn train` takes them.

    python paper/find_presets.py texas cora --models gcn gat --splits 3
    python paper/find_presets.py --collect
"""

import argparse
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import torch

from h2gcn import load_dataset
from h2gcn.exceptions import H2GCNWarning
from h2gcn.experiments import Store, find_grid, read_records, tune
from h2gcn.experiments.tuning import rank, sum_up
from h2gcn.models import MODELS
from h2gcn.sparse import tune_allocator

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "tune"
PRESETS = ROOT / "src" / "h2gcn" / "experiments" / "presets.json"
COMMON = ("scaling", "metric")
"""What a benchmark gives to every model, and presets need not repeat."""


def main() -> None:
    """Run the grids, or collect the winners."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--patience", type=int, help="of settings that have none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    if options.collect:
        collect()
        return
    torch.set_num_threads(options.threads)
    tune_allocator()  # as `h2gcn tune` does
    warnings.simplefilter("ignore", H2GCNWarning)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dataset, model in itertools.product(options.datasets, options.models):
        graph = load_dataset(dataset)
        settings = find_grid(dataset, model)
        if options.patience:
            settings = [{"patience": options.patience} | s for s in settings]
        splits = graph.splits[: options.splits]
        with Store(FOLDER / f"{dataset}-{model}.jsonl") as store:
            ranking = tune(graph, model, settings, splits, seed=0, store=store)
        best = ranking[0]
        mean = 100 * (best.mean or 0)
        print(f"{dataset:13} {model:13} {mean:6.2f} {best.setting}", flush=True)


def collect() -> None:
    """Write the setting with the best mean validation score of each store."""
    presets = json.loads(PRESETS.read_text("utf-8"))
    for path in sorted(FOLDER.glob("*.jsonl")):
        dataset, model, winner = winner_of(read_records(path))
        presets.setdefault(dataset, {})[model] = winner
        print(f"{dataset:13} {model:13} {winner}")
    PRESETS.write_text(json.dumps(presets, indent=1, sort_keys=True) + "\n", "utf-8")


def winner_of(records: list[dict[str, Any]]) -> tuple[str, str, dict[str, Any]]:
    """Return the dataset, the model and the setting that did best.

    Settings that did not run on as many splits as others are left out.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        runs.setdefault(json.dumps(record["config"]), []).append(record)
    results = [sum_up(json.loads(text), of_one) for text, of_one in runs.items()]
    most = max(result.n for result in results)
    config = rank([result for result in results if result.n == most])[0].setting
    common = {
        name: value
        for name, value in find_grid(records[0]["dataset"], "h2gcn-1")[0].items()
        if name in COMMON
    }
    setting = {n: v for n, v in config.items() if n not in common or v != common[n]}
    return records[0]["dataset"], records[0]["model"], setting


if __name__ == "__main__":
    main()
