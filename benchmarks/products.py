"""What each way to multiply gains, next to what it replaced, on one thread.

A product of the second ring, 64 columns wide unless told otherwise: as torch writes it
and without the zeros before; with nodes in the order of the data, and neighbours close
to each other; five columns, and the same filled up to eight; torch's product, and that
whose sums stay in registers; the training nodes' rows as they were drawn, and close to
each other. Then the gradient of sparse features, whole and strip by strip; dropout with
its product; all rounds of H2GCN-2 as torch differentiates them, and by hand; a step of
it with its embedding likewise; GAT's attention, eight heads of eight columns, in the
same two ways; the loss; a step of Adam: each forward and
backward, next to the same by torch's own functions. Rows in groups are next to rows one
by one.

    python benchmarks/products.py cora chameleon pubmed
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from common import medians_in_turns, parser, publish
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn import Graph, load_dataset
from h2gcn.models.gat import SLOPE, closed_neighbourhoods
from h2gcn.models.h2gcn import H2GCN, ring_operators
from h2gcn.sparse import (
    LinearMap,
    Operator,
    Paths,
    Sheet,
    Target,
    attend,
    dropout_linear,
    operator,
    to_tensor,
)
from h2gcn.sparse.operator import STRIP, Strips, TiledMatrix
from h2gcn.training.batches import renumbered
from h2gcn.training.objective import node_loss
from h2gcn.training.optimizers import OPTIMIZERS

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
    dense, few, some = (torch.randn(n, columns) for columns in (WIDTH, FEW, 16))
    filled = functional.pad(few, (0, -FEW % 8))
    _, moved, place = renumbered(dense, rings)
    close = moved[1].matrix  # type: ignore[attr-defined]

    one_by_one = rows_alone(ring)

    def into(matrix: Tensor, given: Tensor) -> Tensor:
        return given.new_empty(n, given.shape[1]).addmm_(matrix, given, beta=0)

    found: dict[str, Pair] = {
        "nothing zeroed first": (lambda: ring @ dense, lambda: into(ring, dense)),
        "neighbours close": (lambda: into(ring, dense), lambda: into(close, dense)),
        "eight columns, not five": (
            lambda: into(ring, few),
            lambda: into(ring, filled),
        ),
        "sums in registers": (
            lambda: into(ring, dense),
            lambda: one_by_one @ dense,
        ),
        "sums in registers, 16 columns": (
            lambda: into(ring, some),
            lambda: one_by_one @ some,
        ),
        "rows of training nodes close": rows_of(graph, moved[1], place, dense),
        "dropout and its product": dropped(graph),
        "rounds by hand, dropout": rounds(graph, 0.5),
        "rounds by hand": rounds(graph, 0.0),
        "step by hand, dropout": whole_steps(graph, 0.5),
        "step by hand": whole_steps(graph, 0.0),
        "attention by hand, dropout": attention(graph, 0.6),
        "attention by hand": attention(graph, 0.0),
        "loss": losses(graph),
        "Adam": steps(graph),
    }
    grouped = TiledMatrix(ring)
    if grouped.groups is not None:
        found["rows in groups"] = (lambda: one_by_one @ dense, lambda: grouped @ dense)
        found["rows in groups, 16 columns"] = (
            lambda: one_by_one @ some,
            lambda: grouped @ some,
        )
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


def rows_of(
    graph: Graph, ring: LinearMap, place: NDArray[np.int64], dense: Tensor
) -> Pair:
    """Return a product of the training nodes' rows, in two orders."""
    train = place[graph.splits[0].train]
    drawn, close = ring.rows(train), ring.rows(np.sort(train))
    return (lambda: drawn @ dense, lambda: close @ dense)


def attention(graph: Graph, probability: float) -> Pair:
    """Return the weighted sums of a layer of GAT for all nodes, both ways."""
    (closed,) = closed_neighbourhoods(graph.adj)
    operator, n = Operator(closed, symmetric=True), graph.n_nodes
    parts = [torch.randn(shape) for shape in ((8, n), (8, n), (n, 8, 8))]
    own, other, z = (part.requires_grad_() for part in parts)
    grad = torch.randn(n, 8, 8)

    def run(by_hand: bool) -> None:
        share = {"slope": SLOPE, "probability": probability}
        attend(operator, own, other, z, **share, by_hand=by_hand).backward(grad)

    return (lambda: run(False), lambda: run(True))


def rounds(graph: Graph, probability: float) -> Pair:
    """Return all that H2GCN-2 does after its embedding, both ways."""
    train, paths = graph.splits[0].train, Paths(2, (0, 1, 2))
    rings = [Operator(ring, symmetric=True) for ring in ring_operators(graph.adj)]
    target, sheet = Target.of(rings, np.sort(train)), Sheet(paths, rings)
    r = torch.randn(graph.n_nodes, WIDTH, requires_grad=True)
    weight = torch.randn(ROUNDS * WIDTH, graph.n_classes, requires_grad=True)
    grad = torch.randn(len(train), graph.n_classes)

    def by_torch() -> Tensor:
        if probability:
            return paths.dropped(r, weight, probability, rings, target)
        return paths.outer(paths.inner(r, weight, rings), rings, target)

    def by_hand() -> Tensor:  # of another matrix each time, as after a step
        return sheet.logits(r.view_as(r), weight, target, probability)

    def run(logits: Callable[[], Tensor]) -> None:
        torch.autograd.grad(logits(), [r, weight], grad)

    return (lambda: run(by_torch), lambda: run(by_hand))


def whole_steps(graph: Graph, probability: float) -> Pair:
    """Return a step of H2GCN-2 up to its gradients, both ways."""
    rings = [Operator(ring, symmetric=True) for ring in ring_operators(graph.adj)]
    target = Target.of(rings, np.sort(graph.splits[0].train))
    x = to_tensor(graph.x)
    module = H2GCN(graph.n_features, graph.n_classes, dropout=probability).train()
    grad = torch.randn(len(target.index), graph.n_classes)

    def run(by_hand: bool) -> None:
        with patch.object(Sheet, "fits", lambda *_: by_hand):
            logits = module(x, rings, target)
        torch.autograd.grad(logits, list(module.parameters()), grad)

    kept = ExitStack()  # until the end of the program
    kept.enter_context(module.remembering())
    return (lambda: run(False), lambda: run(True))


def rows_alone(matrix: Tensor) -> TiledMatrix:
    """Return a matrix whose rows are in no groups."""
    found = TiledMatrix(matrix)
    with patch.object(operator, "GROUPED", matrix.shape[1]):
        assert found.groups is None
    return found


def losses(graph: Graph) -> Pair:
    """Return the loss of the training nodes, both ways."""
    train = torch.from_numpy(graph.splits[0].train)
    labels = torch.from_numpy(graph.y)[train]
    logits = torch.randn(len(train), graph.n_classes, requires_grad=True)
    return (
        lambda: torch.autograd.grad(functional.cross_entropy(logits, labels), logits),
        lambda: torch.autograd.grad(node_loss(logits, labels, None), logits),
    )


def steps(graph: Graph) -> Pair:
    """Return a step of the optimiser."""
    module = H2GCN(graph.n_features, graph.n_classes)
    for weight in module.parameters():
        weight.grad = torch.randn_like(weight)
    theirs = torch.optim.Adam(module.parameters(), fused=True)
    return theirs.step, OPTIMIZERS["adam"](module.parameters(), fused=True).step


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
