"""The exact 2-hop ring: ours against scipy's product and subtraction, and GraphBLAS.

Each size in a process of its own, in which all ways take turns. scipy has one thread;
ours and GraphBLAS have as many as the process may use cores. Memory is what a call
takes at most beyond what was there before it, its result included. scipy is left out
where its product would not fit in memory, GraphBLAS where it is not installed.

    python benchmarks/rings.py 10000 100000 --kind attachment
"""

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import medians_in_turns, parser, publish, ratio
from graphs import random_adjacency
from memory import in_a_process, peak_increase

from h2gcn.datasets.synthetic import circular_compatibility, generate_edges
from h2gcn.graph import CSR
from h2gcn.io import adjacency_from_edges
from h2gcn.rings import exact_rings, forecast_rings
from h2gcn.sparse import available_memory

KINDS = ("random", "attachment")
SIZES = (10_000, 100_000, 300_000, 1_000_000)
SCIPY_BYTES = 20
"""What scipy takes for each walk of length two: the product, and the difference."""
SLOW = 10.0
"""Seconds after which a way gets no further turn."""


def main() -> None:
    """Time all ways on generated graphs of average degree 10."""
    options = parser(__doc__)
    options.add_argument("sizes", type=int, nargs="*", default=SIZES)
    options.add_argument("--kind", choices=KINDS, nargs="+", default=["random"])
    options.add_argument("--threads", type=int, default=os.cpu_count())
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    rows = [
        in_a_process(measure, n, kind, chosen.threads, chosen.repeats)
        for kind in chosen.kind
        for n in chosen.sizes
    ]
    publish("rings", rows, folder=chosen.out)


def measure(n: int, kind: str, threads: int, repeats: int) -> dict[str, Any]:
    """Build ring 2 of a generated graph in all ways; return its row."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    adj = random_adjacency(n)[0] if kind == "random" else attachment_adjacency(n)
    small, entries = CSR(adj[:100, :100]), {}
    ways: dict[str, Callable[[CSR], CSR]] = {"ours": _ours}
    if SCIPY_BYTES * float((np.diff(adj.indptr) ** 2.0).sum()) < available_memory():
        ways["scipy"] = product_and_subtract
    if importlib.util.find_spec("graphblas"):
        ways["GraphBLAS"] = masked_product
    for way in ways.values():  # loads and compiles, before the clock starts
        way(small)

    def build(name: str) -> None:
        entries[name] = int(ways[name](adj).nnz)

    calls = {name: partial(build, name) for name in ways}
    peaks = {name: peak_increase(call) for name, call in calls.items()}
    assert len(set(entries.values())) == 1, f"the rings differ: {entries}"
    seconds = medians_in_turns(calls, repeats, seconds=SLOW, warm_up=False)
    row: dict[str, Any] = {
        "graph": kind,
        "nodes": n,
        "entries": entries["ours"],
        "forecast": forecast_rings(adj).entries[1],
        "threads": threads,
        "seconds": seconds["ours"],
        "peak GB": peaks["ours"],
    }
    for name in ("scipy", "GraphBLAS"):
        row[f"{name} s"] = seconds.get(name)
        row[f"{name} / ours"] = ratio(seconds.get(name), seconds["ours"])
        row[f"{name} GB"] = peaks.get(name)
    return row


def attachment_adjacency(n: int) -> CSR:
    """Return a graph of the paper's generator, with a few nodes of very many links."""
    labels = np.random.default_rng(0).integers(0, 10, n)
    edges = generate_edges(
        labels,
        compatibility=circular_compatibility(10, 0.3),
        edges_per_node=5,
        start_nodes=50,
    )
    return adjacency_from_edges(edges[:, 0], edges[:, 1], n, directed=False)[0]


def product_and_subtract(adj: CSR) -> CSR:
    """Return ring 2 as most programs compute it: (A² > 0) − A − I."""
    walks = CSR(adj @ adj)
    walks.data[:] = 1
    walks = CSR(walks - walks.multiply(adj))
    walks.setdiag(0)
    walks.eliminate_zeros()
    return walks


def masked_product(adj: CSR) -> CSR:
    """Return ring 2 by GraphBLAS: A·A over (any, pair) where nothing is nearer."""
    import graphblas as gb

    n = adj.shape[0]
    step = gb.io.from_scipy_sparse(adj.astype(bool))
    ego = gb.Vector.from_scalar(True, n, dtype=bool).diag()
    nearer = step.ewise_add(ego, gb.binary.pair).new()
    ring = gb.Matrix(bool, n, n)
    ring(~nearer.S) << gb.semiring.any_pair[bool](step @ step)
    parts = ring.ss.export("csr", sort=True, give_ownership=True)
    columns, starts = (parts[k].astype(np.int32) for k in ("col_indices", "indptr"))
    return CSR((np.ones(len(columns), np.float32), columns, starts), shape=(n, n))


def _ours(adj: CSR) -> CSR:
    return exact_rings(adj, hops=2)[1]


if __name__ == "__main__":
    main()
