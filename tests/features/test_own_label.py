"""No node's row depends on its own label, not even by rounding."""

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


def random_graph(seed, n, *, directed):
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


def some_known(seed, n):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, -1, rng.integers(C, size=n))


def assert_blind(nodes, columns, known, labels=range(-1, C)):
    """Check that each node's row is the same whatever its own label is."""
    for node in nodes:
        rows = set()
        for label in labels:
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
def test_no_block_and_no_table_of_a_model_has_a_nodes_own(blocks, seed, n, directed):
    graph = random_graph(seed, n, directed=directed)
    if not graph.adj.nnz or (blocks[7:] in DIRECTIONS and not directed):
        return
    nodes = np.random.default_rng(seed).permutation(n)
    place = np.argsort(nodes)
    for cap in (None, 2):
        builder = FeatureBuilder(graph, cap, seed)
        schema = builder.schema(blocks)

        def whole(known, builder=builder, schema=schema):
            return builder.table(schema, graph.x, known).dense()

        def some(known, cap=cap, schema=schema):
            alone = FeatureBuilder(graph, cap, seed)
            return alone.table(schema, graph.x, known, nodes).dense()[place]

        assert_blind(nodes, whole, some_known(seed, n))
        assert_blind(nodes, some, some_known(seed, n))


@settings(max_examples=10)
@graphs
def test_no_row_of_the_transformer_has_a_nodes_own(seed, n, directed):
    graph = random_graph(seed, n, directed=directed)

    def columns(known):
        train = np.flatnonzero(known >= 0)
        return RingFeatures(graph).fit(train, known[train]).transform(np.arange(n))

    known = some_known(seed, n)
    known[:C] = range(min(C, n))  # every class stays known, whatever one label is
    assert_blind(range(C, n), columns, known, range(C))


def naive(graph, path, *, corrected):
    """Return shares along two steps as means of means.

    Corrected, what returns to the node is subtracted, but in fractions.
    """
    out = graph.directed.toarray().astype(np.float32)
    first, second = (out if step == "out" else out.T for step in path.split("_"))
    first, second = (
        m / np.maximum(m.sum(axis=1, keepdims=True), 1) for m in (first, second)
    )
    back = (first * second.T).sum(axis=1, keepdims=True)

    def columns(known):
        hot = np.eye(C + 1, dtype=np.float32)[known, :C]
        return first @ (second @ hot) - (back * hot if corrected else 0)

    return columns


@each("path", [place for place in DIRECTIONS if "_" in place])
@each("corrected", [False, True])
def test_a_naive_product_of_two_steps_would_be_caught(path, corrected):
    caught = 0
    for seed in range(10):
        graph = random_graph(seed, 12, directed=True)
        try:
            columns = naive(graph, path, corrected=corrected)
            assert_blind(range(12), columns, some_known(seed, 12))
        except AssertionError:
            caught += 1
    assert caught > 0


def test_labels_of_others_are_seen():
    builder = FeatureBuilder(random_graph(1, 10, directed=True))
    schema, known = builder.schema("labels"), some_known(1, 10)
    before = builder.table(schema, builder.graph.x, known).dense()
    known[0] = (known[0] + 1) % C
    after = builder.table(schema, builder.graph.x, known).dense()
    assert (before != after).any(axis=1).sum() >= 2
