"""How set-up, epoch and memory of H2GCN grow with the graph.

Random graphs of average degree 10, ten classes and 64 features (graphs.py), each size
and dropout in a process of its own. All is taken from a plain `NodeClassifier.fit`: an
epoch is the median time between two calls of `on_epoch`; set-up is what comes before
the first epoch (forecast, rings, their normalisation, the rows of the split, the scaled
features) together with what only the first epoch does; the peak is of the whole process
from there on, the graph included. A small fit comes first, so that nothing is imported
or compiled inside the clock; and as much memory as is forecast is taken and freed,
because a virtual machine may have left it to its host, and then a fit waits seconds for
each gigabyte ("memory s" says how long; `--cold` leaves it to the fit).

`--steps` tells where set-up goes, by Python's profiler, which such long calls hardly
notice: checks of graph and split, the forecast, rings and their normalisation, scaled
features, the rows of training and validation nodes, and the transposes of the former.

The slope is that of log(seconds an epoch) against log(nnz(A1) + nnz(A2)), by least
squares. The literal algorithm takes turns with ours where it is affordable.

    python benchmarks/growth.py 10000 30000 100000 --model h2gcn-2 --epochs 3
"""

import cProfile
import itertools
import pstats
import time
import warnings
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from cases import MODELS, Case
from common import judge, medians_in_turns, parser, publish, ratio
from graphs import random_graph
from memory import in_a_process, peak_gigabytes, reset_peak, take_and_free

from h2gcn import Graph, NodeClassifier
from h2gcn.rings import forecast_rings, ring_sizes
from h2gcn.sparse import tune_allocator

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
LITERAL_UP_TO = 100_000
BRIEF = 1_000_000
"""Nodes that all epochs together see at least: those of small graphs vary more."""
SLOPE = 1.15
AT_A_MILLION = {"set-up s": 6.0, "epoch s": 8.0, "peak GB": 10.0}
"""What is asked of the largest size, of H2GCN-1."""
STEPS = {
    "checks": ("check_fit", "warn_of_findings"),
    "forecast": ("resolve_cap", "plan_operators"),
    "rings": ("build_operators",),
    "features": ("fit_scaler", "build_input"),
    "rows": ("_find_batches",),
    "transposes": ("transposed",),
}
"""The functions whose time a step of set-up is."""


def main() -> None:
    """Measure every size and publish table and slopes."""
    options = parser(__doc__)
    options.add_argument("sizes", type=int, nargs="*", default=SIZES)
    options.add_argument("--model", choices=MODELS, default="h2gcn-1")
    options.add_argument("--dropout", type=float, nargs="+", default=(0.5, 0.0))
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument(
        "--literal-up-to", type=int, default=LITERAL_UP_TO, help="nodes (%(default)s)"
    )
    options.add_argument(
        "--train", type=float, default=0.6, help="share of the nodes (%(default)s)"
    )
    options.add_argument("--steps", action="store_true", help="seconds of each step")
    options.add_argument("--cold", action="store_true", help="take no memory before")
    chosen = options.parse_args()
    rows = []
    for n, dropout in itertools.product(chosen.sizes, chosen.dropout):
        rows.append(in_a_process(measure, n, dropout, chosen))
        print(f"{n:,} nodes, dropout {dropout}: done", flush=True)
    slopes = {dropout: slope(rows, dropout) for dropout in chosen.dropout}
    publish(f"growth-{chosen.model}", rows, folder=chosen.out, slopes=slopes)
    for dropout, value in slopes.items():
        judge(f"slope of the epoch, dropout {dropout}", value, SLOPE)
    if chosen.model == "h2gcn-1":
        for row in rows:
            if row["nodes"] == SIZES[-1]:
                for name, limit in AT_A_MILLION.items():
                    judge(f"{name}, dropout {row['dropout']}", row[name], limit)


def measure(n: int, dropout: float, chosen: Any) -> dict[str, Any]:
    """Fit a graph of n nodes for some epochs; return its row."""
    warnings.filterwarnings("ignore")
    tune_allocator()  # as the command line does
    torch.set_num_threads(chosen.threads)
    settings: dict[str, Any] = {"dropout": dropout, "random_state": 0}
    NodeClassifier(chosen.model, epochs=2, **settings).fit(random_graph(10_000))
    start = time.perf_counter()
    graph = random_graph(n, train=chosen.train)
    generated = time.perf_counter() - start
    taken = None
    if not chosen.cold:
        taken = take_and_free(forecast_rings(graph.adj).bytes, chosen.threads)
    reset_peak()
    stamps = [time.perf_counter()]
    epochs = max(chosen.epochs, BRIEF // n)
    profile = cProfile.Profile()

    def on_epoch(_: object) -> None:
        stamps.append(time.perf_counter())
        profile.disable()

    if chosen.steps:
        profile.enable()
    NodeClassifier(chosen.model, epochs=1 + epochs, **settings).fit(
        graph, on_epoch=on_epoch
    )
    peak = peak_gigabytes()
    first, *others = np.diff(stamps).tolist()
    seconds = median(others)
    programs = in_turns(graph, dropout, chosen) if n <= chosen.literal_up_to else {}
    return {
        "nodes": n,
        "edges": graph.n_edges,
        "entries": int(graph.adj.nnz) + int(ring_sizes(graph.adj).sum()),
        "model": chosen.model,
        "dropout": dropout,
        "threads": chosen.threads,
        "graph s": generated,
        "memory s": taken,
        "set-up s": first - seconds,
        "epoch s": seconds,
        "literal s": programs.get("literal"),
        "times faster": ratio(programs.get("literal"), programs.get("ours")),
        "peak GB": peak,
        **(steps(profile, first - seconds) if chosen.steps else {}),
    }


def steps(profile: cProfile.Profile, whole: float) -> dict[str, float]:
    """Return the seconds of each step of set-up, and what is left of the whole."""
    profile.create_stats()
    found = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    known = {
        f"{step} s": sum(took[3] for (_, _, name), took in found if name in names)
        for step, names in STEPS.items()
    }
    return known | {"rest s": whole - sum(known.values())}


def in_turns(graph: Graph, dropout: float, chosen: Any) -> dict[str, float]:
    """Return the seconds of an epoch of ours and of the literal algorithm."""
    case = Case(graph, chosen.model, dropout)
    programs = {"ours": case.our_epoch, "literal": case.literal_epoch}
    return medians_in_turns(programs, chosen.epochs)


def slope(rows: Sequence[dict[str, Any]], dropout: float) -> float | None:
    """Return the exponent of the entries that the epochs' seconds grow with."""
    own = [row for row in rows if row["dropout"] == dropout]
    if len(own) < 2:
        return None
    entries, seconds = (
        np.log([row[column] for row in own]) for column in ("entries", "epoch s")
    )
    return float(np.polyfit(entries, seconds, 1)[0])


if __name__ == "__main__":
    main()
