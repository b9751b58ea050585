"""An epoch (training step and evaluation) of H2GCN against the literal algorithm.

The reference concatenates, then classifies, over the whole graph, and lets torch
differentiate through its own sparse products. Both are timed in the same run on the
same weights, and their logits are compared.

    python benchmarks/epoch.py cora chameleon pubmed --threads 1 2
"""

import argparse
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from common import median_seconds, publish
from torch.nn import functional

from h2gcn import Graph, load_dataset
from h2gcn.models import find_model
from h2gcn.scaling import fit_scaler
from h2gcn.sparse import Operator, Target, to_tensor
from h2gcn.synthetic import PRESETS, generate_graph

TOLERANCE = 1e-5


def main() -> None:
    """Time every combination and publish the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "graphs",
        nargs="*",
        default=["cora", "chameleon", "pubmed", "squirrel", "syn-products"],
    )
    parser.add_argument("--models", nargs="+", default=["h2gcn-1", "h2gcn-2"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    rows = []
    for name, model in itertools.product(options.graphs, options.models):
        graph = load(name)
        for dropout, threads in itertools.product((0.5, 0.0), options.threads):
            torch.set_num_threads(threads)
            ours, literal, difference = epochs(graph, model, dropout)
            assert difference < TOLERANCE, f"the logits differ by {difference}"
            seconds = median_seconds(ours, options.repeats)
            reference = median_seconds(literal, max(options.repeats // 2, 1))
            rows.append(
                {
                    "graph": name,
                    "model": model,
                    "dropout": dropout,
                    "threads": threads,
                    "ms": 1e3 * seconds,
                    "literal ms": 1e3 * reference,
                    "times faster": reference / seconds,
                    "logits differ": difference,
                }
            )
    publish("epoch", rows)


def load(name: str) -> Graph:
    """Return a benchmark, or a graph like syn-products."""
    if name == "syn-products":
        return generate_graph(**PRESETS["syn-products"], homophily=0.2, name=name)
    return load_dataset(name)


def epochs(
    graph: Graph, model: str, dropout: float
) -> tuple[Callable[[], Any], Callable[[], Any], float]:
    """Return our epoch, the literal one, and how much their logits differ."""
    spec, split = find_model(model), graph.splits[0]
    features = fit_scaler("auto", graph.x, split.train)(graph.x)
    x = to_tensor(features)
    operators = [Operator(m, symmetric=True) for m in spec.operators(graph.adj)]
    matrices = [operator.matrix.to_sparse_coo() for operator in operators]
    plain_x = x.matrix.to_sparse_coo() if isinstance(x, Operator) else x
    train, val = (Target.of(operators, i) for i in (split.train, split.val))
    labels = torch.from_numpy(graph.y[split.train])
    torch.manual_seed(0)
    module = spec.module(
        graph.n_features, graph.n_classes, dropout=dropout, **spec.fixed
    )
    optimiser = torch.optim.Adam(module.parameters(), fused=True)

    def literal_logits() -> torch.Tensor:
        r = torch.relu(plain_x @ module.embedding)
        rounds = [r]
        for _ in range(module.rounds):
            r = torch.cat([torch.sparse.mm(matrix, r) for matrix in matrices], dim=1)
            rounds.append(r)
        final = torch.cat(rounds, dim=1)
        final = functional.dropout(final, dropout, module.training)
        return final @ module.classifier

    def step(logits: Callable[[], torch.Tensor], check: Callable[[], Any]) -> None:
        module.train()
        optimiser.zero_grad()
        functional.cross_entropy(logits(), labels).backward()
        optimiser.step()
        module.eval()
        with torch.no_grad():
            check()

    def ours() -> None:
        step(lambda: module(x, operators, train), lambda: module(x, operators, val))

    def literal() -> None:
        step(lambda: literal_logits()[train.index], literal_logits)

    module.eval()
    with torch.no_grad():
        difference = (module(x, operators) - literal_logits()).abs().max().item()
    return ours, literal, difference


if __name__ == "__main__":
    main()
