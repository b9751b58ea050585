"""What the runner costs for each run, as a share of a run on Texas.

The same fits are done in a plain loop in one process, and as a plan by one worker with
a store, in turns. Both are timed less the fits themselves, so that a fit that happened
to be slow does not count; the difference is the runner's. The ratio of the whole times
is shown too, for a quiet machine. Starting a worker, once a
process, is shown apart.

    python benchmarks/runner.py --runs 50 --repeats 5
"""

import argparse
import os
import tempfile
import time
import warnings
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from common import publish

from h2gcn.experiments import LocalPool, Run, Store, find_preset, run_plan
from h2gcn.experiments.pools import ENVIRONMENT

TARGET = 0.05


def main() -> None:
    """Time both in turns and publish the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="h2gcn-1")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=int, default=100)
    options = parser.parse_args()
    config = find_preset("texas", options.model) | {"patience": options.patience}
    os.environ.update(ENVIRONMENT)  # for the process of the loop as for the worker's
    loops, plans, fits, ratios = [], [], [], []
    with (
        get_context("spawn").Pool(1) as alone,
        LocalPool(1) as pool,
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder, "runs.jsonl")) as store,
    ):
        first = [Run("first", "texas", options.model, config, 0, seed=10**6)]
        alone.apply(loop, (first,))
        start = time.perf_counter()
        run_plan(first, store, pool=pool)
        starting = time.perf_counter() - start - store.records[0]["seconds"]
        for repeat in range(options.repeats):
            runs = [
                Run("timed", "texas", options.model, config, n % 10, seed=100 * n)
                for n in range(repeat * options.runs, (repeat + 1) * options.runs)
            ]
            whole, fitting = alone.apply(loop, (runs,))
            loops.append((whole - fitting) / options.runs)
            start = time.perf_counter()
            outcome = run_plan(runs, store, pool=pool)
            seconds = time.perf_counter() - start
            assert not outcome.failed, store[outcome.failed[0].key]["error"]
            fitting = sum(store[run.key]["seconds"] for run in runs)
            plans.append((seconds - fitting) / options.runs)
            fits.append(fitting / options.runs)
            ratios.append(seconds / whole)
    cost, fit = median(plans) - median(loops), median(fits)
    row: dict[str, Any] = {
        "model": options.model,
        "runs": options.runs * options.repeats,
        "fit ms": 1e3 * fit,
        "loop, beside it ms": 1e3 * median(loops),
        "plan, beside it ms": 1e3 * median(plans),
        "cost of the runner ms": 1e3 * cost,
        "share of a run %": 100 * cost / fit,
        "plan / loop": median(ratios),
        "start of a worker s": starting,
    }
    publish("runner", [row])
    print(f"{'below' if cost < TARGET * fit else 'ABOVE'} the target, {TARGET:.0%}")


def loop(runs: list[Run]) -> tuple[float, float]:
    """Fit and score one run after the other; return the time of all and of fits."""
    import torch

    from h2gcn import NodeClassifier, load_dataset

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    graph, fitting = load_dataset("texas"), 0.0
    start = time.perf_counter()
    for run in runs:
        classifier = NodeClassifier(
            run.model, random_state=run.seed + run.split, **run.config
        )
        begin = time.perf_counter()
        classifier.fit(graph, run.split)
        fitting += time.perf_counter() - begin
        classifier.score(graph, graph.splits[run.split].test)
    return time.perf_counter() - start, fitting


if __name__ == "__main__":
    main()
