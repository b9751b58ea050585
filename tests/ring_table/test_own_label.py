"""No node's row depends on its own label, by not a single bit."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from h2gcn import Graph
from h2gcn.models import MODELS
from h2gcn.ring_table import TableInput, TableMaker
from h2gcn.ring_table.neighbourhoods import DIRECTIONS, RINGS
from support.cases import each

PLACES = (*RINGS, *DIRECTIONS)
RECIPES = sorted(
    {
        spec.table or spec.options["table"]
        for spec in MODELS.values()
        if spec.inputs == "table"
    }
)
C = 3


def random_graph(seed: int, n: int, *, directed: bool) -> Graph:
    """Return a graph with edges both ways, triangles that turn, and nodes alone."""
    rng = np.random.default_rng(seed)
    arcs = rng.random((n, n)) < rng.choice([0.1, 0.25, 0.6])
    arcs |= arcs.T & (rng.random((n, n)) < 0.4)
    if n > 3:
        arcs[0, 1] = arcs[1, 2] = arcs[2, 0] = arcs[1, 0] = True
    arcs[np.diag_indices(n)] = False
    adj = sp.csr_array((arcs | arcs.T).astype(np.float32))
    ways = sp.csr_array(arcs.astype(np.float32)) if directed else None
    x = rng.normal(size=(n, 2)).astype(np.float32)
    y = np.arange(n) % C
    return Graph(x=x, adj=adj, y=y, classes=np.arange(C), directed=ways)


def some_known(seed: int, n: int) -> Tensor:
    rng = np.random.default_rng(seed)
    known = np.eye(C, dtype=np.float32)[rng.integers(C, size=n)]
    known[rng.random(n) < 0.3] = 0
    return torch.from_numpy(known)


def other_labels(known: Tensor, node: int) -> list[Tensor]:
    """Return the labels with another one of a node, each, and with none."""
    found = []
    for row in [*torch.eye(C), torch.zeros(C)]:
        changed = known.clone()
        changed[node] = row
        found.append(changed)
    return found


def assert_blind(n: int, columns: Callable[[Tensor], Tensor], known: Tensor) -> None:
    """Check that each node's row is the same whatever its own label is."""
    for node in range(n):
        rows = {columns(k)[node].numpy().tobytes() for k in other_labels(known, node)}
        assert len(rows) == 1, node


def table(maker: TableMaker, recipe: str, known: Tensor) -> TableInput:
    schema = maker.schema(recipe)
    return maker.build(schema, maker.graph.x, "x", known, maskable=True)


graphs = given(
    seed=st.integers(0, 10_000), n=st.integers(2, 12), directed=st.booleans()
)


@settings(max_examples=15)
@graphs
@each("place", PLACES)
def test_no_block_of_labels_has_a_nodes_own(
    place: str, seed: int, n: int, directed: bool
) -> None:
    maker = TableMaker(random_graph(seed, n, directed=directed))
    if maker.graph.adj.nnz == 0 or (place in DIRECTIONS and not directed):
        return
    for share in (0.0, 0.5):

        def columns(known: Tensor, share: float = share) -> Tensor:
            torch.manual_seed(seed)  # the same labels are masked
            return (
                table(maker, f"labels.{place}", known)
                .masked(share)
                .blocks[f"labels.{place}"]
            )

        assert_blind(n, columns, some_known(seed, n))


@settings(max_examples=10)
@graphs
@each("recipe", RECIPES)
def test_no_table_of_any_model_has_a_nodes_own(
    recipe: str, seed: int, n: int, directed: bool
) -> None:
    maker = TableMaker(random_graph(seed, n, directed=directed))
    for share in (0.0, 0.3):

        def columns(known: Tensor, share: float = share) -> Tensor:
            torch.manual_seed(seed)
            return torch.from_numpy(table(maker, recipe, known).masked(share).dense())

        assert_blind(n, columns, some_known(seed, n))


@settings(max_examples=10)
@graphs
def test_some_rows_of_a_table_have_no_own_label_either(
    seed: int, n: int, directed: bool
) -> None:
    maker = TableMaker(random_graph(seed, n, directed=directed))
    order = np.random.default_rng(seed).permutation(n)
    place = np.argsort(order)

    def columns(known: Tensor) -> Tensor:
        torch.manual_seed(seed)
        rows = table(maker, "own+labels", known).rows(order).masked(0.5)
        return torch.from_numpy(rows.dense()[place])

    assert_blind(n, columns, some_known(seed, n))


def naive(graph: Graph, path: str, *, corrected: bool) -> Callable[[Tensor], Tensor]:
    """Return shares along two steps as means of means.

    Corrected, what comes back to the node is taken away, but in broken numbers.
    """
    assert graph.directed is not None
    out = graph.directed.toarray().astype(np.float32)
    first, second = (out if step == "out" else out.T for step in path.split("-"))
    first, second = (
        m / np.maximum(m.sum(axis=1, keepdims=True), 1) for m in (first, second)
    )
    back = torch.from_numpy((first * second.T).sum(axis=1, keepdims=True))
    a, b = torch.from_numpy(first), torch.from_numpy(second)

    def columns(known: Tensor) -> Tensor:
        return a @ (b @ known) - (back * known if corrected else 0)

    return columns


@each("path", [place for place in DIRECTIONS if "-" in place])
@each("corrected", [False, True])
def test_a_naive_product_of_two_steps_would_be_caught(
    path: str, corrected: bool
) -> None:
    caught = 0
    for seed in range(10):
        graph = random_graph(seed, 12, directed=True)
        try:
            columns = naive(graph, path, corrected=corrected)
            assert_blind(12, columns, some_known(seed, 12))
        except AssertionError:
            caught += 1
    assert caught > 0


def test_labels_of_others_are_seen() -> None:
    maker = TableMaker(random_graph(1, 10, directed=True))
    known = some_known(1, 10)
    before = table(maker, "labels", known).dense()
    changed = known.clone()
    changed[0] = torch.eye(C)[(int(known[0].argmax()) + 1) % C]
    after = table(maker, "labels", changed).dense()
    assert (before != after).any(axis=1).sum() >= 2
