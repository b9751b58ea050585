"""One hub with thousands of neighbours: what each command takes, capped and exact.

Tables of a graph whose neighbours are mostly of another class are written, and every
command is run on them as a program of its own: with what it chooses by itself, and
with all of the 2-hop ring (`--ring-cap exact`), which was the only way once.

    python benchmarks/hub.py
    python benchmarks/hub.py --nodes 3000 --hub 2000 --time-limit 10
"""

import json
import os
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import judge, parser, publish

CLASSES, FEATURES, EDGES = 3, 8, 2
"""Edges are for each node."""
MOST = 2.0
"""Gigabytes that a command may take by itself."""


def write(folder: Path, n: int, hub: int, seed: int) -> None:
    """Write the tables: a fifth of the nodes have no label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    centres = rng.normal(size=(CLASSES, FEATURES)) / 2
    x = rng.normal(size=(n, FEATURES)) + centres[y]
    source = rng.integers(n, size=EDGES * n)
    target = rng.integers(n, size=EDGES * n)
    for label in range(CLASSES):
        chosen = (y[source] == label) & (rng.random(len(source)) < 0.7)
        of_next = np.flatnonzero(y == (label + 1) % CLASSES)
        target[chosen] = rng.choice(of_next, size=int(chosen.sum()))
    around = rng.choice(np.arange(1, n), size=hub, replace=False)
    source, target = np.r_[source, around], np.r_[target, np.zeros(hub, int)]
    known = rng.random(n) < 0.8
    with (folder / "nodes.csv").open("w") as file:
        file.write(",".join(["id", *(f"f{j}" for j in range(FEATURES)), "label"]))
        for i in range(n):
            label = "abc"[y[i]] if known[i] else ""
            file.write(f"\nn{i},{','.join(f'{v:.4f}' for v in x[i])},{label}")
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target")
        for u, v in zip(source, target, strict=True):
            if u != v:
                file.write(f"\nn{u},n{v}")


def measure(*arguments: object) -> tuple[dict[str, Any], str]:
    """Return seconds, processor seconds and peak memory of a command, and its JSON."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "h2gcn", *map(str, arguments)]
    child = Popen(command, stdout=PIPE, stderr=DEVNULL, text=True)
    assert child.stdout is not None
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1e3
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor s": round(used.ru_utime + used.ru_stime, 1),
        "peak GB": round(used.ru_maxrss * unit / 1e9, 2),
        "exit": child.returncode,
        "test %": None,
    }, out


def main() -> None:
    """Run the commands and publish the table."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=30_000)
    options.add_argument("--hub", type=int, default=20_000, help="neighbours of it")
    options.add_argument("--epochs", type=int, default=5, help="of h2gcn-1")
    options.add_argument("--time-limit", type=float, help="seconds of auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--no-exact", action="store_true", help="as chosen alone")
    chosen = options.parse_args()
    limit = ["--time-limit", chosen.time_limit] if chosen.time_limit else []
    rows = []
    with TemporaryDirectory() as name:
        folder = Path(name, "hub")
        folder.mkdir()
        write(folder, chosen.nodes, chosen.hub, chosen.seed)
        seen, out = measure("diagnose", folder, "--json")
        entries = json.loads(out)["forecast"]["entries"][1] if out else None
        rows.append({"command": "diagnose", "ring": "", **seen})
        for ring in ["as chosen", *([] if chosen.no_exact else ["exact"])]:
            cap = ["--ring-cap", "exact"] if ring == "exact" else []
            for model in ("h2gcn-1", "auto"):
                saved = Path(name, f"{model}-{ring}".replace(" ", "-"))
                how = limit if model == "auto" else ["--epochs", chosen.epochs]
                train = "train", folder, "--model", model, *how, *cap, "--json"
                seen, out = measure(*train, "--out", saved)
                test = json.loads(out)["test_accuracy"]["mean"] if out else None
                told = {"test %": None if test is None else round(100 * test, 1)}
                rows.append(
                    {"command": f"train, {model}", "ring": ring, **seen, **told}
                )
                seen, _ = measure("predict", saved, folder, "--out", f"{saved}.csv")
                rows.append({"command": f"predict, {model}", "ring": ring, **seen})
    about = {"nodes": chosen.nodes, "hub": chosen.hub, "entries of ring 2": entries}
    publish("hub", [about | row for row in rows], folder=chosen.out)
    for row in rows:
        if row["exit"]:
            print(f"{row['command']}, {row['ring']}: it failed ({row['exit']})")
        elif row["ring"] != "exact":
            judge(f"GB of {row['command']}", row["peak GB"], MOST)


if __name__ == "__main__":
    main()
