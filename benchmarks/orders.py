"""What the order of the nodes does to products, and what it costs.

A product reads the rows of a node's neighbours; in an order where these have numbers
close by, they are in the cache from the node before. The orders are: that of the data;
by degree, the largest first; reverse Cuthill-McKee, which trainings take for operators
of up to 16 million entries; and communities by label propagation, one after the other.
Of each: the seconds to find it, those to move both rings into it, and a product of each
ring, 64 columns wide, next to the order of the data in the same turns. "pays after" is
how many products with both rings make up for the two. Seconds are the processor's, of
all threads together: what else the machine does hardly changes them.

Graphs are benchmarks by name, "communities-N" (average degree 10, 50 to 500 nodes each,
80 % of the edges inside, numbers shuffled) and "random-N", which no order helps.

    python benchmarks/orders.py pubmed squirrel syn-products communities-300000
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from operator import matmul
from time import process_time
from typing import Any

import numpy as np
import torch
from cases import load
from common import medians_in_turns, parser, publish
from graphs import community_adjacency, random_adjacency
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from h2gcn.graph import CSR
from h2gcn.models.h2gcn import ring_operators
from h2gcn.sparse import (
    Operator,
    in_order,
    keep_freed_memory,
    kept_workspace,
    steady_memory,
)

GRAPHS = (
    *("pubmed", "squirrel", "syn-products"),
    *("communities-300000", "random-300000"),
)
WIDTH, ROUNDS = 64, 8
"""Columns of an embedding, and of label propagation."""


def main() -> None:
    """Measure every order of every graph and publish the table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=GRAPHS)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repeats", type=int, default=7)
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(chosen.threads)
    keep_freed_memory()
    in_order(CSR(np.ones((1100, 1100), dtype=np.float32)), np.arange(1100))  # compiled
    rows: list[dict[str, Any]] = []
    for name in chosen.graphs:
        rows += measure(name, chosen.repeats)
    publish("orders", rows, folder=chosen.out, threads=chosen.threads)


def measure(name: str, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each order of a graph."""
    adj = adjacency(name)
    rings = [Operator(ring, symmetric=True) for ring in ring_operators(adj)]
    dense = torch.randn(adj.shape[0], WIDTH)
    made, costs = {"data": rings}, {"data": (0.0, 0.0)}
    for key, find in ORDERS.items():
        start = process_time()
        order = find(adj)
        found = process_time()
        moved = [in_order(ring.scipy, order) for ring in rings]
        costs[key] = found - start, process_time() - found
        made[key] = [Operator(ring, symmetric=True) for ring in moved]
    with kept_workspace(), steady_memory():  # as in training
        times = [
            medians_in_turns(
                {key: partial(matmul, ops[hop], dense) for key, ops in made.items()},
                repeats,
                clock=process_time,
            )
            for hop in range(2)
        ]
    whole = {key: times[0][key] + times[1][key] for key in made}
    return [
        {
            "graph": name,
            "nodes": adj.shape[0],
            "entries": sum(ring.scipy.nnz for ring in rings),
            "order": key,
            "find s": costs[key][0],
            "move s": costs[key][1],
            "1-hop ms": 1e3 * times[0][key],
            "2-hop ms": 1e3 * times[1][key],
            "times faster, 1-hop": times[0]["data"] / times[0][key],
            "times faster, 2-hop": times[1]["data"] / times[1][key],
            "pays after": _pays(sum(costs[key]), whole["data"] - whole[key]),
        }
        for key in made
    ]


def _pays(cost: float, gain: float) -> int | None:
    """Return how many gains make up for a cost, None where nothing is gained."""
    return math.ceil(cost / gain) if gain > 0 and cost > 0 else None


def adjacency(name: str) -> CSR:
    """Return the adjacency matrix of a graph by its name, [n, n]."""
    kind, _, size = name.partition("-")
    if kind in MADE and size.isdecimal():
        return MADE[kind](int(size))[0]
    return load(name).adj


MADE: dict[str, Callable[[int], tuple[CSR, NDArray[np.int64]]]] = {
    "communities": community_adjacency,
    "random": random_adjacency,
}


def by_degree(adj: CSR) -> NDArray[np.int64]:
    """Return the nodes with many neighbours first, [n]."""
    return np.argsort(-np.diff(adj.indptr), kind="stable")


def cuthill_mckee(adj: CSR) -> NDArray[np.int64]:
    """Return the nodes breadth first from the rim, reversed, [n]."""
    return reverse_cuthill_mckee(adj, symmetric_mode=True).astype(np.int64)


def by_community(adj: CSR) -> NDArray[np.int64]:
    """Return the nodes of each community together, [n].

    Each node takes the label that most of its neighbours have, and of those the
    smallest; some rounds of it. In each, half of the nodes wait, so that no two sides
    change labels with each other for ever.
    """
    n = adj.shape[0]
    rows = np.repeat(np.arange(n), np.diff(adj.indptr))
    labels = np.arange(n)
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        keys = rows * n + labels[adj.indices]
        keys.sort()
        begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.diff(np.append(begins, len(keys)))
        node, label = np.divmod(keys[begins], n)
        most = np.zeros(n, dtype=counts.dtype)
        np.maximum.at(most, node, counts)
        winners = counts == most[node]
        taken = labels.copy()
        taken[node[winners][::-1]] = label[winners][::-1]  # the first is written last
        labels = np.where(rng.random(n) < 0.5, taken, labels)
    return np.argsort(labels, kind="stable")


ORDERS: dict[str, Callable[[CSR], NDArray[np.int64]]] = {
    "degree": by_degree,
    "Cuthill-McKee": cuthill_mckee,
    "communities": by_community,
}

if __name__ == "__main__":
    main()
