"""What a cap on the 2-hop ring costs in accuracy: all splits, exact and capped.

Each model is trained with its preset on every split of a benchmark, with the exact
ring and with at most C neighbours of each node in it, the same seeds on both sides.

    python benchmarks/caps.py cora chameleon pubmed --caps 64 16
"""

from pathlib import Path
from typing import Any

import numpy as np
from common import judge, parser, publish

from h2gcn import load_dataset
from h2gcn.experiments import LocalPool, Run, Store, find_preset, run_plan
from h2gcn.rings import ring_sizes

ASKED = 1.0
"""Points that a cap of 64 may cost."""


def main() -> None:
    """Run what is missing and publish the table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["cora", "chameleon", "pubmed"])
    options.add_argument("--models", nargs="+", default=["h2gcn-1"])
    options.add_argument("--caps", type=int, nargs="+", default=[64, 16])
    options.add_argument("--jobs", type=int, default=None, help="processes")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with Store(Path(chosen.out, "caps.jsonl")) as store, LocalPool(chosen.jobs) as pool:
        for name in chosen.graphs:
            graph = load_dataset(name)
            sizes = ring_sizes(graph.adj)
            for model in chosen.models:
                exact = None
                for cap in (None, *chosen.caps):
                    runs = plan(name, model, cap, len(graph.splits))
                    run_plan(runs, store, pool=pool)
                    records = [store[run.key] for run in runs]
                    tests = 100 * np.array([r["test_accuracy"] for r in records])
                    exact = tests if exact is None else exact
                    rows.append(row(name, model, cap, sizes, tests, exact, records))
    publish("caps", rows, folder=chosen.out)
    for one in rows:
        if one["cap"] == 64:
            what = "{graph}, {model}: points that a cap of 64 costs".format_map(one)
            judge(what, -one["against exact"], ASKED)


def plan(name: str, model: str, cap: int | None, splits: int) -> list[Run]:
    """Return a run for each split."""
    config = find_preset(name, model) | ({} if cap is None else {"ring_cap": cap})
    return [Run("caps", name, model, config, split, seed=0) for split in range(splits)]


def row(
    name: str,
    model: str,
    cap: int | None,
    sizes: Any,
    tests: Any,
    exact: Any,
    records: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return a line of the table."""
    entries = sizes if cap is None else np.minimum(sizes, cap)
    return {
        "graph": name,
        "model": model,
        "cap": cap,
        "entries": int(entries.sum()),
        "share %": 100 * float(entries.sum() / sizes.sum()),
        "splits": len(tests),
        "test %": float(tests.mean()),
        "deviation": float(tests.std(ddof=1)),
        "against exact": float((tests - exact).mean()),
        "fit s": float(np.median([record["seconds"] for record in records])),
    }


if __name__ == "__main__":
    main()
