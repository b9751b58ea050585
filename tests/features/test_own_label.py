"""No node's row depends on its own label, not even by rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from h2gcn import Graph
from h2gcn.features import FeatureBuilder, RingFeatures
from h2gcn.features.blocks import DIRECTIONS, RINGS
from h2gcn.models import MODELS
from support.cases import each

PLACES = (*RINGS, *DIRECTIONS)
RECIPES = sorted({spec.table({}) for spec in MODELS.values() if spec.inputs == "table"})
C = 3
Ints = NDArray[np.int64]


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


def some_known(seed: int, n: int) -> Ints:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, -1, rng.integers(C, size=n))


def assert_blind(n: int, columns: Callable[[Ints], NDArray[Any]], known: Ints) -> None:
    """Check that each node's row is the same whatever its own label is."""
    for node in range(n):
        rows = set()
        for label in range(-1, C):
            changed = known.copy()
            changed[node] = label
            rows.add(columns(changed)[node].tobytes())
        assert len(rows) == 1, node


graphs = given(
    seed=st.integers(0, 10_000), n=st.integers(2, 12), directed=st.booleans()
)


@settings(max_examples=15)
@graphs
@each("blocks", [*(f"labels.{place}" for place in PLACES), *RECIPES])
def test_no_block_and_no_table_of_a_model_has_a_nodes_own(
    blocks: str, seed: int, n: int, directed: bool
) -> None:
    graph = random_graph(seed, n, directed=directed)
    if not graph.adj.nnz or (blocks[7:] in DIRECTIONS and not directed):
        return
    nodes = np.random.default_rng(seed).permutation(n)
    place = np.argsort(nodes)
    for cap in (None, 2):
        builder = FeatureBuilder(graph, cap, seed)
        schema = builder.schema(blocks)

        def whole(known: Ints, builder: Any = builder, schema: Any = schema) -> Any:
            return builder.table(schema, graph.x, known).dense()

        def some(known: Ints, cap: Any = cap, schema: Any = schema) -> Any:
            alone = FeatureBuilder(graph, cap, seed)
            return alone.table(schema, graph.x, known, nodes).dense()[place]

        assert_blind(n, whole, some_known(seed, n))
        assert_blind(n, some, some_known(seed, n))


@settings(max_examples=10)
@graphs
def test_no_row_of_the_transformer_has_a_nodes_own(
    seed: int, n: int, directed: bool
) -> None:
    graph = random_graph(seed, n, directed=directed)
    nodes = np.arange(n)

    def columns(known: Ints) -> NDArray[Any]:
        train = np.flatnonzero(known >= 0)
        return RingFeatures(graph).fit(train, known[train]).transform(nodes)

    known = some_known(seed, n)
    known[:C] = range(min(C, n))  # every class stays known, whatever one label is
    for node in range(C, n):
        rows = []
        for label in range(C):
            changed = known.copy()
            changed[node] = label
            rows.append(columns(changed)[node].tobytes())
        assert len(set(rows)) == 1, node


def naive(
    graph: Graph, path: str, *, corrected: bool
) -> Callable[[Ints], NDArray[Any]]:
    """Return shares along two steps as means of means.

    Corrected, what comes back to the node is taken away, but in broken numbers.
    """
    assert graph.directed is not None
    out = graph.directed.toarray().astype(np.float32)
    first, second = (out if step == "out" else out.T for step in path.split("_"))
    first, second = (
        m / np.maximum(m.sum(axis=1, keepdims=True), 1) for m in (first, second)
    )
    back = (first * second.T).sum(axis=1, keepdims=True)

    def columns(known: Ints) -> NDArray[Any]:
        hot = np.eye(C + 1, dtype=np.float32)[known, :C]
        seen = first @ (second @ hot) - (back * hot if corrected else 0)
        return np.asarray(seen)

    return columns


@each("path", [place for place in DIRECTIONS if "_" in place])
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
    builder = FeatureBuilder(random_graph(1, 10, directed=True))
    schema, known = builder.schema("labels"), some_known(1, 10)
    before = builder.table(schema, builder.graph.x, known).dense()
    known[0] = (known[0] + 1) % C
    after = builder.table(schema, builder.graph.x, known).dense()
    assert (before != after).any(axis=1).sum() >= 2
