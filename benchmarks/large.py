"""A graph whose exact 2-hop ring does not fit in memory, trained all the same.

A million nodes of average degree 50, two in a hundred labelled: ring 2 has some billion
entries, over 60 GB by the forecast. Each way in a process of its own: capped, or exact
rows computed for each batch; beside them the models that do without the ring.

    python benchmarks/large.py --epochs 30
"""

import time
import warnings
from typing import Any

import numpy as np
import torch
from common import judge, parser, publish
from graphs import random_graph
from memory import in_a_process, peak_gigabytes, reset_peak

from h2gcn import Graph, NodeClassifier
from h2gcn.graph import stratified_split
from h2gcn.rings import forecast_rings
from h2gcn.sparse import tune_allocator

LABELLED = (0.01, 0.005, 0.005)
"""Shares of the nodes to train on, to choose by, to test on."""
ASKED = 60.0
"""Gigabytes that the exact ring must take by the forecast."""
WAYS: dict[str, dict[str, Any]] = {
    "no graph": {"model": "mlp"},
    "1-hop ring only": {"model": "h2gcn-s1"},
    "ring capped at 64": {"model": "h2gcn-1", "ring_cap": 64},
    "capped, batches of 1,024": {
        "model": "h2gcn-1",
        "ring_cap": 64,
        "batch_size": 1024,
    },
    "exact rows, batches of 512": {
        "model": "h2gcn-1",
        "batch_size": 512,
        "epochs": 3,
    },
}


def main() -> None:
    """Train each way and publish the table."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--degree", type=int, default=50)
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    chosen = options.parse_args()
    forecast = in_a_process(foretell, chosen.nodes, chosen.degree)
    gigabytes = forecast.bytes / 1e9
    print(forecast)
    rows = [in_a_process(measure, way, chosen) for way in chosen.ways]
    publish("large", rows, folder=chosen.out, exact_gigabytes=gigabytes)
    if chosen.nodes >= 1_000_000:
        judge("GB of the exact rings, by the forecast", gigabytes, ASKED, least=True)


def large_graph(nodes: int, degree: int) -> Graph:
    """Return the graph, most of its nodes unlabelled."""
    graph = random_graph(nodes, degree=degree)
    split = stratified_split(graph.y, LABELLED, 0)
    y = np.full(nodes, -1)
    for part in split.parts.values():
        y[part] = graph.y[part]
    return Graph(x=graph.x, adj=graph.adj, y=y, splits=(split,), name="large")


def foretell(nodes: int, degree: int) -> Any:
    """Return the forecast of the graph's rings."""
    return forecast_rings(random_graph(nodes, degree=degree).adj)


def measure(way: str, chosen: Any) -> dict[str, Any]:
    """Train and score one way; return its row."""
    warnings.filterwarnings("ignore")
    tune_allocator()
    graph = large_graph(chosen.nodes, chosen.degree)
    params = {"epochs": chosen.epochs, "random_state": 0, "learning_rate": 0.05}
    params |= WAYS[way]
    reset_peak()
    stamps = [time.perf_counter()]
    classifier = NodeClassifier(**params).fit(
        graph, on_epoch=lambda _: stamps.append(time.perf_counter())
    )
    first, *others = np.diff(stamps).tolist()
    epoch = float(np.median(others)) if others else first
    test = graph.splits[0].test
    start = time.perf_counter()
    accuracy = classifier.score(graph, test)
    return {
        "way": way,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "labelled": graph.labelled.size,
        "epochs": len(stamps) - 1,
        "set-up s": first - epoch,
        "epoch s": epoch,
        "test s": time.perf_counter() - start,
        "test %": 100 * accuracy,
        "peak GB": peak_gigabytes(),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
