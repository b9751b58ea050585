"""The exact 2-hop ring: ours against scipy's product and subtraction.

python benchmarks/rings.py 10000 100000 1000000
"""

import argparse
import time

import numpy as np
from common import in_a_process, peak_gigabytes, publish

from h2gcn.attachment import circular_compatibility, generate_edges
from h2gcn.graph import CSR
from h2gcn.io import adjacency_from_edges
from h2gcn.rings import exact_rings, forecast_ring


def main() -> None:
    """Time both ways on generated graphs of average degree 10."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "sizes", type=int, nargs="*", default=[10_000, 100_000, 300_000]
    )
    options = parser.parse_args()
    rows = []
    for n in options.sizes:
        ours = in_a_process(measure, n, True)
        scipy = in_a_process(measure, n, False)
        assert ours["entries"] == scipy["entries"]
        rows.append(
            {
                "nodes": n,
                "entries": ours["entries"],
                "forecast": ours["forecast"],
                "seconds": ours["seconds"],
                "scipy seconds": scipy["seconds"],
                "times faster": scipy["seconds"] / ours["seconds"],
                "peak GB": ours["peak"],
                "scipy peak GB": scipy["peak"],
            }
        )
    publish("rings", rows)


def measure(n: int, ours: bool) -> dict[str, float]:
    """Build ring 2 of a generated graph; return its size, time and memory."""
    labels = np.random.default_rng(0).integers(0, 10, n)
    edges = generate_edges(
        labels,
        compatibility=circular_compatibility(10, 0.3),
        edges_per_node=5,
        start_nodes=50,
    )
    adj, _, _ = adjacency_from_edges(edges[:, 0], edges[:, 1], n, directed=False)
    exact_rings(adj[:100, :100], hops=2)  # loads GraphBLAS before the clock starts
    forecast = forecast_ring(adj).entries[1]
    before = peak_gigabytes()
    start = time.perf_counter()
    ring = exact_rings(adj, hops=2)[1] if ours else product_and_subtract(adj)
    return {
        "entries": int(ring.nnz),
        "forecast": forecast,
        "seconds": time.perf_counter() - start,
        "peak": peak_gigabytes() - before,
    }


def product_and_subtract(adj: CSR) -> CSR:
    """Return ring 2 as most programs compute it: (A² > 0) − A − I."""
    walks = CSR(adj @ adj)
    walks.data[:] = 1
    walks = CSR(walks - walks.multiply(adj))
    walks.setdiag(0)
    walks.eliminate_zeros()
    return walks


if __name__ == "__main__":
    main()
