"""The generator of synthetic graphs: seconds and memory by size.

The graphs are those of `h2gcn.datasets.generate_graph`, with Gaussian features.

    python benchmarks/generator.py --largest 10000
"""

import time

from common import parser, publish
from memory import in_a_process, peak_gigabytes

from h2gcn.datasets import GaussianFeatures, generate_graph

SIZES = ((10_000, 10, 6), (1_000_000, 5, 5))
"""Nodes, classes, links of each node."""


def main() -> None:
    """Generate each size once and publish the table."""
    options = parser(__doc__)
    options.add_argument("--largest", type=int, default=10**6, help="number of nodes")
    chosen = options.parse_args()
    sizes = [size for size in SIZES if size[0] <= chosen.largest]
    rows = [in_a_process(measure, *size) for size in sizes]
    publish("generator", rows, folder=chosen.out)


def measure(n_nodes: int, n_classes: int, edges_per_node: int) -> dict[str, float]:
    """Generate a graph; return its size, time and the peak memory."""
    start = time.perf_counter()
    graph = generate_graph(
        n_nodes=n_nodes,
        n_classes=n_classes,
        edges_per_node=edges_per_node,
        features=GaussianFeatures(n_features=8),
    )
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "seconds": time.perf_counter() - start,
        "peak GB": peak_gigabytes(),
    }


if __name__ == "__main__":
    main()
