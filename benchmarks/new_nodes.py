"""New nodes in a known graph, predicted by computing what they touch.

A million nodes and five million edges in memory, and a model that was trained on a
smaller graph with the same columns. `prepare` counts once what any node may need. Then
a request adds a thousand nodes with three edges each and asks for their probabilities,
and so do those that follow, each with other nodes. Beside it the same from the whole
extended graph.

    python benchmarks/new_nodes.py
"""

import statistics
import time
import warnings
from dataclasses import fields
from typing import Any

import numpy as np
from common import judge, parser, publish
from graphs import random_graph
from memory import in_a_process, peak_gigabytes, reset_peak
from numpy.typing import NDArray

from h2gcn import Graph, NodeClassifier
from h2gcn.features import walk_extent
from h2gcn.models import find_model
from h2gcn.rings import NeighborIndex
from h2gcn.sparse import tune_allocator

MODELS = ("h2gcn-1", "h2gcn-2", "gcn", "ring-table", "logistic")
EDGES = 3
"""Of each new node, to old ones."""
ASKED = 2.0
"""Seconds that a request may take."""
CLOSE = 1e-6
"""By how much a probability may differ from that of the whole graph."""


def main() -> None:
    """Measure each model in a process of its own, and publish the table."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--degree", type=int, default=10)
    options.add_argument("--new", type=int, default=1000)
    options.add_argument("--trained-on", type=int, default=20_000)
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--requests", type=int, default=5)
    options.add_argument("--models", nargs="+", default=list(MODELS))
    options.add_argument("--no-whole", action="store_true")
    chosen = options.parse_args()
    rows = [in_a_process(measure, model, chosen) for model in chosen.models]
    publish("new_nodes", rows, folder=chosen.out)
    if chosen.nodes >= 1_000_000:
        for row in rows:
            judge(f"s of a request, {row['model']}", row["next s"], ASKED)
            judge(f"s of the first one, {row['model']}", row["first s"], ASKED)
    for row in rows:
        judge(f"largest difference, {row['model']}", row["difference"], CLOSE)


def named(graph: Graph) -> Graph:
    """Return a graph whose nodes have ids."""
    parts = {part.name: getattr(graph, part.name) for part in fields(Graph)}
    ids = np.char.add("n", np.arange(graph.n_nodes).astype(str))
    return Graph(**parts | {"node_ids": ids})


def request(
    base: Graph, classifier: NodeClassifier, count: int, seed: int
) -> tuple[Graph, NDArray[np.float32], tuple[float, float, float]]:
    """Add nodes and predict them; return both, their seconds and the processor's."""
    rng = np.random.default_rng((1, seed))
    n = base.n_nodes
    x = rng.standard_normal((count, base.n_features), dtype=np.float32)
    source = np.repeat(np.arange(n, n + count), EDGES)
    target = rng.integers(n, size=len(source))
    ids = [f"new {seed} {number}" for number in range(count)]
    start, used = time.perf_counter(), time.process_time()
    graph = base.with_nodes(x, (source, target), node_ids=ids)
    added = time.perf_counter()
    shares = classifier.predict_proba(graph, np.arange(n, n + count))
    done = time.perf_counter()
    return graph, shares, (added - start, done - added, time.process_time() - used)


def touched(graph: Graph, classifier: NodeClassifier, count: int) -> tuple[int, int]:
    """Return for how many nodes rows are made, and how many nodes are seen."""
    spec = find_model(classifier.params_["model"])
    steps, hop = 0, 0
    if classifier.schema_ is not None:
        steps, hop = walk_extent(classifier.schema_)
    elif spec.rules and classifier.module_ is not None:
        steps = classifier.module_.receptive_field or 0
        hop = max(rule.hop for rule in spec.rules)
    near = NeighborIndex.from_graph(graph)
    new = np.arange(graph.n_nodes - count, graph.n_nodes)
    inner = near.within(("ring",), new, max(steps - 1, 0) * hop)
    outer = near.within(("ring",), new, steps * hop)
    assert inner is not None
    assert outer is not None
    return len(inner), len(outer)


def measure(model: str, chosen: Any) -> dict[str, Any]:
    """Train a model, and have it answer; return its row."""
    warnings.filterwarnings("ignore")
    tune_allocator()
    params = {"epochs": chosen.epochs} if find_model(model).trained else {}
    classifier = NodeClassifier(model, random_state=0, **params)
    degree = chosen.degree
    classifier.fit(named(random_graph(chosen.trained_on, degree=degree)))
    base = named(random_graph(chosen.nodes, degree=degree))
    small = named(random_graph(2000, degree=degree))
    request(small, classifier, 20, 0)  # compiles what is compiled when first used
    reset_peak()
    start = time.perf_counter()
    classifier.prepare(base)
    prepared = time.perf_counter() - start
    graph, shares, first = request(base, classifier, chosen.new, 0)
    rows, seen = touched(graph, classifier, chosen.new)
    others = [
        request(base, classifier, chosen.new, seed)[2]  # the graph is not kept
        for seed in range(1, chosen.requests + 1)
    ]
    peak = peak_gigabytes()
    difference, whole = None, None
    if not chosen.no_whole:
        parts = {part.name: getattr(graph, part.name) for part in fields(Graph)}
        start = time.perf_counter()
        found = classifier.predict_proba(Graph(**parts))[-chosen.new :]
        whole = time.perf_counter() - start
        difference = float(np.abs(found - shares).max())
    return {
        "model": model,
        "nodes": base.n_nodes,
        "edges": base.n_edges,
        "new": chosen.new,
        "rows made": rows,
        "nodes seen": seen,
        "prepare s": prepared,
        "add s": statistics.median(one[0] for one in others),
        "predict s": statistics.median(one[1] for one in others),
        "next s": statistics.median(one[2] + one[1] for one in others),
        "processor s": statistics.median(one[2] for one in others),
        "first s": first[0] + first[1],
        "peak GB": peak,
        "whole s": whole,
        "difference": difference,
    }


if __name__ == "__main__":
    main()
