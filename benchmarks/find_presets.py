"""Find the settings of H2GCN for a benchmark, on validation nodes only.

The paper's grid: activation {relu, none} x dropout {0, 0.5} x l2 {1e-5, 5e-4}. Every
setting is trained on the first splits of the dataset and ranked by its mean
validation accuracy. Finished runs are appended to a JSON-lines file, so that a
second start goes on where the first one stopped.

    python benchmarks/find_presets.py texas cora --splits 3 --patience 200
"""

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from h2gcn import NodeClassifier, load_dataset
from h2gcn.exceptions import H2GCNWarning

GRID = {"activation": ("relu", "none"), "dropout": (0.0, 0.5), "l2": (1e-5, 5e-4)}


def main() -> None:
    """Run the grid and print the ranking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--models", nargs="+", default=["h2gcn-1", "h2gcn-2"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--patience", type=int, default=None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/presets.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", H2GCNWarning)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in read_lines(options.out)]
    for dataset, model in itertools.product(options.datasets, options.models):
        graph = load_dataset(dataset)
        for values in itertools.product(*GRID.values()):
            config = dict(zip(GRID, values, strict=True))
            config |= {"epochs": options.epochs, "patience": options.patience}
            for split in range(options.splits):
                key = {"dataset": dataset, "model": model, "split": split, **config}
                if any(key.items() <= record.items() for record in done):
                    continue
                start = time.perf_counter()
                clf = NodeClassifier(
                    model, random_state=split, scaling="rows", **config
                )
                clf.fit(graph, split)
                record = key | {
                    "val_accuracy": clf.val_score_,
                    "best_epoch": clf.best_epoch_,
                    "epochs_run": clf.n_iter_,
                    "seconds": round(time.perf_counter() - start, 2),
                }
                done.append(record)
                with options.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
        rank(done, dataset, model)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, none if it is not there."""
    return path.read_text().splitlines() if path.exists() else []


def rank(records: list[dict[str, object]], dataset: str, model: str) -> None:
    """Print the settings of a dataset and a model, best first."""
    scores: dict[tuple[object, ...], list[float]] = {}
    for record in records:
        if (record["dataset"], record["model"]) == (dataset, model):
            setting = tuple(record[name] for name in (*GRID, "epochs", "patience"))
            scores.setdefault(setting, []).append(float(str(record["val_accuracy"])))
    for setting, values in sorted(scores.items(), key=lambda item: -np.mean(item[1])):
        mean = 100 * np.mean(values)
        print(f"{dataset:13} {model} {setting!s:36} {mean:6.2f} ({len(values)})")


if __name__ == "__main__":
    main()
