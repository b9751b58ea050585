"""What each way to multiply gains, next to what it replaced, on one thread.

A product of the second ring, 64 columns wide unless told otherwise: as torch writes it
and without the zeros before; with nodes in the order of the data, and neighbours close
to each other; five columns, and the same filled up to eight. Then the gradient of
sparse features, whole and strip by strip; and dropout with its product, forward and
backward, next to the same through torch's own functions.

    python benchmarks/products.py cora chameleon pubmed
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from common import medians_in_turns, parser, publish
from torch import Tensor
from torch.nn import functional

from h2gcn import Graph, load_dataset
from h2gcn.models.h2gcn import ring_operators
from h2gcn.sparse import Operator, dropout_linear
from h2gcn.sparse.operator import STRIP, Strips
from h2gcn.training.batches import renumbered

WIDTH, FEW, ROUNDS = 64, 5, 7
"""Columns of an embedding, of few classes, and blocks of H2GCN-2's representation."""


def main() -> None:
    """Time each pair in turns and publish the table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["cora", "chameleon", "pubmed"])
    options.add_argument("--repeats", type=int, default=15)
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in chosen.graphs:
        graph = load_dataset(name)
        for what, (before, after) in pairs_of(graph).items():
            times = medians_in_turns({"before": before, "after": after}, chosen.repeats)
            rows.append(
                {
                    "graph": name,
                    "what": what,
                    "before, ms": 1e3 * times["before"],
                    "after, ms": 1e3 * times["after"],
                    "times faster": times["before"] / times["after"],
                }
            )
    publish("products", rows, folder=chosen.out)


Pair = tuple[Callable[[], Any], Callable[[], Any]]


def pairs_of(graph: Graph) -> dict[str, Pair]:
    """Return what is compared on a graph: before and after, by name."""
    rings = [Operator(ring, symmetric=True) for ring in ring_operators(graph.adj)]
    ring, n = rings[1].matrix, graph.n_nodes
    assert isinstance(ring, Tensor)
    dense, few = torch.randn(n, WIDTH), torch.randn(n, FEW)
    filled = functional.pad(few, (0, -FEW % 8))
    _, moved, _ = renumbered(dense, rings)
    close = moved[1].matrix  # type: ignore[attr-defined]

    def into(matrix: Tensor, given: Tensor) -> Tensor:
        return given.new_empty(n, given.shape[1]).addmm_(matrix, given, beta=0)

    found: dict[str, Pair] = {
        "nothing zeroed first": (lambda: ring @ dense, lambda: into(ring, dense)),
        "neighbours close": (lambda: into(ring, dense), lambda: into(close, dense)),
        "eight columns, not five": (
            lambda: into(ring, few),
            lambda: into(ring, filled),
        ),
        "dropout and its product": dropped(graph),
    }
    if not isinstance(graph.x, Tensor) and hasattr(graph.x, "tocsr"):
        x = Operator(graph.x)
        strips = Strips.of_transposed(x.scipy)
        if strips is not None:
            whole = x.transposed
            found[f"the gradient of features in strips of {STRIP:,}"] = (
                lambda: whole @ dense,
                lambda: strips @ dense,
            )
    return found


def dropped(graph: Graph) -> Pair:
    """Return dropout and the classifier's product of the training nodes, both ways."""
    m, c = len(graph.splits[0].train), graph.n_classes
    blocks = [torch.randn(m, WIDTH, requires_grad=True) for _ in range(ROUNDS)]
    weight = torch.randn(ROUNDS * WIDTH, c, requires_grad=True)
    grad = torch.randn(m, c)

    def run(product: Callable[[], Tensor]) -> None:
        torch.autograd.grad(product(), [weight, *blocks], grad)

    return (
        lambda: run(lambda: functional.dropout(torch.cat(blocks, 1), 0.5) @ weight),
        lambda: run(lambda: dropout_linear(blocks, weight, 0.5)),
    )


if __name__ == "__main__":
    main()
