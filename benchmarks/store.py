"""Tables of ten million nodes and fifty million edges, converted in bounded memory.

The tables are drawn part by part, with a seed, and written as Parquet; `h2gcn convert`
is then a process of its own, whose largest memory the system tells.

    python benchmarks/store.py --folder /tmp/store-benchmark
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import judge, parser, publish

CLASSES, LABELLED = 10, 0.01
"""How many classes there are, and the share of nodes that have one."""


def main() -> None:
    """Draw the tables, convert them, publish time and memory."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=10_000_000)
    options.add_argument("--edges", type=int, default=50_000_000)
    options.add_argument("--features", type=int, default=64)
    options.add_argument("--parts", type=int, default=20, help="files of each table")
    options.add_argument("--ids", choices=("numbers", "far", "text"), default="numbers")
    options.add_argument("--memory-limit", type=float, default=4.0, help="gigabytes")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--folder", type=Path, help="where the files go meanwhile")
    options.add_argument("--keep", action="store_true", help="keep them")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.folder, prefix="store-benchmark-"))
    try:
        began = time.perf_counter()
        size = draw(folder, chosen)
        print(f"{size / 1e9:.1f} GB drawn in {time.perf_counter() - began:.0f} s")
        row = convert(folder, chosen)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)
    print(json.dumps(row))
    publish(f"store-{chosen.ids}", [row], folder=chosen.out)
    judge("GB of memory at the peak", row["peak GB"], chosen.memory_limit)


def draw(folder: Path, chosen: Namespace) -> int:
    """Write the tables in parts; return their bytes."""
    for name, count in (("nodes", chosen.nodes), ("edges", chosen.edges)):
        (folder / name).mkdir()
        bounds = np.linspace(0, count, chosen.parts + 1).astype(int).tolist()
        for part in range(chosen.parts):
            rng = np.random.default_rng([chosen.seed, name == "nodes", part])
            rows = range(bounds[part], bounds[part + 1])
            make = some_nodes if name == "nodes" else some_edges
            file = folder / name / f"part-{part:05}-of-{chosen.parts:05}.parquet"
            pq.write_table(pa.table(make(rows, rng, chosen)), file)
    files = [*folder.glob("*/*.parquet")]
    return sum(file.stat().st_size for file in files)


def some_nodes(rows: range, rng: np.random.Generator, chosen: Namespace) -> Any:
    """Return some rows of the node table: id, label and features by the label."""
    numbers = np.arange(rows.start, rows.stop)
    labels = rng.integers(0, CLASSES, len(rows))
    hidden = rng.random(len(rows)) >= LABELLED
    columns = {"id": ids_of(numbers, chosen), "label": pa.array(labels, mask=hidden)}
    for number in range(chosen.features):
        noise = rng.normal(size=len(rows)).astype(np.float32)
        columns[f"x{number}"] = noise + (labels == number % CLASSES)
    return columns


def some_edges(rows: range, rng: np.random.Generator, chosen: Namespace) -> Any:
    """Return some rows of the edge table: any two nodes."""
    ends = rng.integers(0, chosen.nodes, (2, len(rows)))
    names = ("source", "target")
    return {name: ids_of(end, chosen) for name, end in zip(names, ends, strict=True)}


def ids_of(numbers: np.ndarray, chosen: Namespace) -> Any:
    """Return the ids of nodes: numbers from 0 on, numbers far apart, or text."""
    if chosen.ids == "numbers":
        return numbers
    if chosen.ids == "far":
        return numbers * 1_000_003 % (2**61 - 1)
    return pa.array(np.char.add("customer-", numbers.astype("U10")))


def convert(folder: Path, chosen: Namespace) -> dict[str, Any]:
    """Run the command on the tables and return what it took."""
    out = folder / "store"
    command = [sys.executable, "-m", "h2gcn", "convert", str(folder), "--out", str(out)]
    command += ["--memory-limit", str(chosen.memory_limit), "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    told = json.loads(done.stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "nodes": told["nodes"],
        "edges": told["edges"],
        "features": told["features"],
        "ids": chosen.ids,
        "limit GB": chosen.memory_limit,
        "seconds": seconds,
        "peak GB": peak / 1e9,
        "store GB": told["bytes"] / 1e9,
        "merged": told["duplicates_merged"],
        "open s": opened(out),
    }


def opened(store: Path) -> float:
    """Return how long opening the store takes, in a process that has read it before."""
    from h2gcn.io import open_store

    began = time.perf_counter()
    open_store(store)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
