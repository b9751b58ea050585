"""Time the generator of synthetic graphs: a table of size, seconds and memory.

Run it as ``python benchmarks/generator.py``; the large graph takes some seconds.
"""

from __future__ import annotations

import resource
import sys
import time

from h2gcn.synthetic import GaussianFeatures, generate_graph

# Nodes, classes, links of each node; growing, because a process remembers only the
# highest memory it ever used.
SIZES = ((10_000, 10, 6), (1_000_000, 5, 5))


def peak_mib() -> float:
    """Return the highest memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    """Generate each size once and print a line for it."""
    row = "{:>10} {:>10} {:>9} {:>9}\n"
    sys.stdout.write(row.format("nodes", "edges", "seconds", "peak MiB"))
    for n_nodes, n_classes, edges_per_node in SIZES:
        begin = time.perf_counter()
        graph = generate_graph(
            n_nodes=n_nodes,
            n_classes=n_classes,
            edges_per_node=edges_per_node,
            features=GaussianFeatures(n_features=8),
        )
        seconds = time.perf_counter() - begin
        sys.stdout.write(
            row.format(
                f"{graph.n_nodes:,}",
                f"{graph.n_edges:,}",
                f"{seconds:.2f}",
                f"{peak_mib():,.0f}",
            )
        )


if __name__ == "__main__":
    main()
