"""Tables against breadth-first search, dense products and values by hand."""

import gc
import weakref
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import shortest_path

from h2gcn import Graph
from h2gcn.features import FeatureBuilder, FeatureTable
from h2gcn.features.builder import MAX_NUMERIC
from h2gcn.graph import CSR, EdgeColumns, edge_aggregates
from h2gcn.rings import NeighborIndex
from support.cases import each
from support.graphs import NAMED, make_graph, one_way, random_adjacency
from support.refusals import refused

ARCS = np.array([(0, 1), (1, 0), (1, 2), (3, 2), (3, 4)])
KNOWN = np.array([0, 1, 0, -1, -1])
EVERY = (
    "ego+rings+ring3+directions+numeric+ring2.max+ring3.min+out.sum+in.std+power1"
    "+power3+loops2+labels+labels.ring3+adjacency+degrees+edges"
)
PATH = Graph(
    x=np.arange(5.0)[:, None],
    adj=NAMED["path"],
    y=np.array([0, 1, 0, 1, -1]),
    classes=np.array(["no", "yes"]),
    name="five",
)
ALONE = replace(PATH, adj=CSR((5, 5), dtype=np.float32))
DIRECTED = replace(PATH, directed=CSR((np.ones(5), (ARCS[:, 0], ARCS[:, 1])), (5, 5)))


def with_edge_features(*names):
    """Return the directed path whose edges have the named features."""
    values = {"amount": [10, -3, 7, 1, 2], "kind=wire": [1, 0, 0, 1, 1]}
    table = np.array([values[name] for name in names], dtype=float).T
    return replace(DIRECTED, edge_columns=EdgeColumns(*ARCS.T, table, names))


WIRED = with_edge_features("amount", "kind=wire")


def random_graph(seed, n=14, *, weighted=False):
    """Return a directed graph, some edges both ways, the last node alone."""
    adj = random_adjacency(seed, n - 1, (0.08, 0.15, 0.3)[seed % 3])
    arcs = CSR(one_way(adj, 0) + one_way(adj, 1))
    arcs.data[:] = 1
    arcs.resize((n, n))
    return make_graph(arcs, weighted=weighted, n_features=3, seed=seed)


def build(graph, blocks, labels=None):
    builder = FeatureBuilder(graph)
    return builder.table(builder.schema(blocks), graph.x, labels).dense()


def means(matrix):
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)


def reduced(matrix, x, reduce):
    """Return the features of each row's members, reduced; zero without any."""
    rows = [x[members > 0] for members in matrix]
    return np.array([getattr(np, reduce)(r, 0) if len(r) else 0 * x[0] for r in rows])


@each("seed", range(6))
def test_blocks_are_dense_products(seed):
    graph = random_graph(seed)
    x = graph.x.astype(np.float64)
    adj, out = (m.toarray().astype(np.float64) for m in (graph.adj, graph.directed))
    hops, step = shortest_path(adj, unweighted=True), {"out": out, "in": out.T}
    expected = {
        f"{a}_{b}": means(step[a]) @ means(step[b]) @ x for a in step for b in step
    }
    places = step | {f"ring{k}": (hops == k).astype(np.float64) for k in (1, 2, 3)}
    for place, matrix in places.items():
        expected[place] = means(matrix) @ x
        for reduce in ("sum", "max", "min", "std"):
            expected[f"{place}.{reduce}"] = reduced(matrix, x, reduce)
    for name, loops in (("power", 0), ("loops", 1)):
        a = adj + np.eye(len(adj)) * loops
        scale = np.maximum(a.sum(axis=1), 1) ** -0.5
        for k in (1, 2, 3):
            product = np.linalg.matrix_power(scale[:, None] * a * scale, k)
            expected[f"{name}{k}"] = product @ x
    for form in (np.asarray, CSR):
        builder = FeatureBuilder(replace(graph, x=form(graph.x)))
        table = builder.table(builder.schema("+".join(expected)), builder.graph.x)
        assert table.blocks.keys() == expected.keys()
        for block, values in expected.items():
            rows = FeatureTable({block: table.blocks[block]}).dense()
            assert_allclose(rows, values, rtol=1e-5, atol=1e-6, err_msg=block)


@each("weighted", [False, True])
@each("cap", [None, 3])
@each("seed", range(6))
def test_some_rows_are_those_of_all_nodes(seed, cap, weighted):
    graph = random_graph(seed, 60, weighted=weighted)
    whole = FeatureBuilder(graph, cap, 7)
    schema, known = whole.schema(EVERY), np.where(np.arange(60) % 3, graph.y, -1)
    names = schema.column_names(graph.node_ids.tolist())
    assert len(set(names)) == len(names) == schema.width
    expected = whole.table(schema, graph.x, known, key="x").dense()
    rng = np.random.default_rng(seed)
    for nodes in (np.array([59]), rng.permutation(60)[:9], np.arange(60)[:0]):
        alone = FeatureBuilder(graph, cap, 7)
        for builder in (alone, whole):  # computed, and taken from blocks that are kept
            rows = builder.table(schema, graph.x, known, nodes, key="x").dense()
            assert_allclose(rows, expected[nodes], rtol=1e-6, atol=1e-6)


@each("weighted", [False, True])
@each("seed", range(3))
def test_members_are_what_a_row_sums_up(seed, weighted):
    graph = random_graph(seed, 30, weighted=weighted)
    builder, known = FeatureBuilder(graph), np.where(np.arange(30) == 1, -1, graph.y)
    for block in builder.schema(EVERY).parsed:
        members = builder.members(block.name, 1)
        sums = block.kind in ("ego", "features", "labels") and not block.numeric
        assert (members is not None) == sums, block.name
        if members is None:
            continue
        nodes, weights = members
        row = weights @ graph.x[nodes]
        if block.kind == "labels":
            assert 1 not in nodes
            counts = np.bincount(graph.y[nodes], weights, 3)
            row = [*counts / max(counts.sum(), 1), np.log1p(counts.sum())]
        expected = build(graph, block.name, known)[1]
        assert_allclose(row, expected, rtol=1e-5, atol=1e-6, err_msg=block.name)


TRIPLE = Graph(
    x=[[1.0], [2.0], [4.0]],
    adj=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
    directed=CSR(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float32)),
)
ONE, TWO = np.log(2), np.log(3)  # log(1 + number)
BY_HAND = {
    (PATH, "ego"): [0, 1, 2, 3, 4],
    (PATH, "ring1"): [1, 1, 2, 3, 3],
    (PATH, "ring2"): [2, 3, 2, 1, 2],
    (PATH, "ring1.sum"): [1, 2, 4, 6, 3],
    (PATH, "ring1.max"): [1, 2, 3, 4, 3],
    (PATH, "ring1.std"): [0, 1, 1, 1, 0],
    (PATH, "ring2.min"): [2, 3, 0, 1, 2],
    (TRIPLE, "out"): [2, 4, 2],
    (TRIPLE, "in"): [0, 2.5, 2],
    (TRIPLE, "out_out"): [4, 2, 4],
    (TRIPLE, "out_in"): [2.5, 2, 2.5],
    (TRIPLE, "in_out"): [0, 2, 4],
    (TRIPLE, "in_in"): [0, 1, 2.5],
    (PATH, "labels.ring1"): [*(0, 1, ONE), *(1, 0, TWO), *(0, 1, ONE), *(1, 0, ONE)],
    # 1 leads to 0 and to 2, and 3 to 2 and 4; walks that return do not count.
    (DIRECTED, "labels.in_out"): [*(1, 0, ONE), 0, 0, 0, *(1, 0, ONE), 0, 0, 0, 1],
    (PATH, "degrees"): [*(ONE, ONE), *(TWO, ONE), *(TWO, TWO), *(TWO, ONE), ONE],
    (DIRECTED, "degrees"): [*[ONE] * 4, *(TWO, ONE, TWO, ONE), *(TWO, TWO, 0, TWO)],
    (DIRECTED, "adjacency.out"): [0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    (DIRECTED, "adjacency.in"): [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1],
    (ALONE, "ego"): [0, 1, 2, 3, 4],
}


def test_the_first_values_by_hand():
    for (graph, block), values in BY_HAND.items():
        rows = build(graph, block, KNOWN if graph is not TRIPLE else None).ravel()
        assert_allclose(rows[: len(values)], values, rtol=1e-6, err_msg=block)


def test_edge_features_by_hand(monkeypatch):
    aggregated = []

    def spy(columns, n_nodes, nodes=None):
        aggregated.append(n_nodes if nodes is None else len(nodes))
        return edge_aggregates(columns, n_nodes, nodes)

    monkeypatch.setattr("h2gcn.features.edges.edge_aggregates", spy)
    builder = FeatureBuilder(WIRED)
    schema = builder.schema("edges")
    assert aggregated == [0], "no edge is aggregated for the width of a block"
    rows = builder.table(schema, WIRED.x).dense()
    columns = dict(zip(schema.column_names(), rows.T, strict=True))
    # Node 1 sends -3 and 7, node 3 sends 1 and 2; nodes 2 and 4 send nothing.
    mean, least = np.log([11, 3, 1, 2.5, 1]), np.log([11, 1 / 4, 1, 2, 1])
    for name, values in (
        ("mean of amount over outgoing edges (signed log)", mean),
        ("min of amount over outgoing edges (signed log)", least),
        ("share of kind=wire among incoming edges", [0, 1, 0.5, 0, 1]),
    ):
        assert_allclose(columns[name], values, rtol=1e-6)


def test_more_walks_than_float32_counts_leave_no_trace_of_a_label():
    n = 5000  # all point at two hubs: 25 million walks in_out
    ends = np.concatenate([np.arange(1, n), np.arange(2, n)]), np.repeat([0, 1], n)
    ways = CSR((np.ones(2 * n - 3), (ends[0], ends[1][1:-2])), shape=(n, n))
    both = CSR((ways + ways.T > 0).astype(np.float32))
    graph = Graph(x=np.ones((n, 1)), adj=both, directed=ways, y=np.zeros(n, int))
    known = np.zeros((2, n), dtype=np.int64)
    known[1, 0] = -1
    assert_array_equal(*(build(graph, "labels.in_out", labels)[0] for labels in known))


def test_extremes_are_of_numeric_columns_and_few_entries_stay_sparse():
    x = np.zeros((5, 400), dtype=np.float32)
    x[:, 1:] = np.arange(399) + 2
    x[2, 0] = 1
    for form in (np.asarray, CSR):
        graph = Graph(x=form(x), adj=NAMED["path"])
        schema = FeatureBuilder(graph).schema("ego+numeric")
        assert schema.widths == (400, MAX_NUMERIC, MAX_NUMERIC, MAX_NUMERIC)
        assert schema.numeric[0] == graph.feature_names[1]
    path = np.eye(9, k=1) + np.eye(9, k=-1)
    builder = FeatureBuilder(Graph(x=np.eye(9, 2), adj=path))
    assert builder.schema("ego+numeric+ring1").blocks == ("ego", "ring1")
    for blocks, kind in (("ego+adjacency", CSR), ("ego+ring1", np.ndarray)):
        table = builder.table(builder.schema(blocks), builder.graph.x)
        assert isinstance(table.matrix(), kind)


def test_blocks_that_a_graph_cannot_fill_are_left_out():
    blocks = "ego+ring1+ring1.max+out+labels.ring1+labels.in+adjacency+degrees+edges"
    ring1 = "ego+ring1+ring1.max"
    flags = replace(WIRED, x=np.eye(5, 1))
    for graph, known, filled in (
        (WIRED, True, blocks.replace("adjacency", "adjacency.out+adjacency.in")),
        (PATH, True, f"{ring1}+labels.ring1+adjacency.ring1+degrees"),
        (PATH, False, f"{ring1}+adjacency.ring1+degrees"),
        (flags, False, "ego+ring1+out+adjacency.out+adjacency.in+degrees+edges"),
        (ALONE, True, "ego"),
    ):
        schema = FeatureBuilder(graph).schema(blocks, labels=known)
        assert "+".join(schema.blocks) == filled
        assert (schema.nodes is None) == (graph is ALONE)
    for graph, recipe in ((ALONE, "ring1"), (PATH, "out+edges")):
        with refused(param="blocks", value=recipe, where="five"):
            FeatureBuilder(graph).schema(recipe)


def test_another_graph_must_have_what_the_schema_needs():
    named, star = replace(PATH, node_ids=np.array([*"abcde"])), NAMED["star"]
    for graph, blocks, other, rule in (
        (PATH, "ego+adjacency", replace(PATH, adj=star), "another graph"),
        (named, "adjacency", replace(named, node_ids=[*"abcdf"]), "another graph"),
        (DIRECTED, "ego+out", PATH, "no directions, and the model has 'out'"),
        (DIRECTED, "in_out", PATH, "the model has 'in_out'"),
        (DIRECTED, "ego+labels.out", PATH, "the model has 'labels.out'"),
        (DIRECTED, "degrees", PATH, "the model has 'degrees'"),
        (WIRED, "edges", DIRECTED, "the edges have no features"),
        (WIRED, "edges", with_edge_features("kind=wire"), "lack a column"),
    ):
        schema = FeatureBuilder(graph).schema(blocks)
        with refused(where="five", words=rule):
            FeatureBuilder(other).table(schema, other.x)
    for graph, blocks, other in (  # neighborhoods may differ, and be empty
        (named, "ego+adjacency", replace(named, adj=star)),
        (PATH, "ego+degrees+labels+ring1", DIRECTED),
        (PATH, "ego+loops2+rings+degrees+labels+power2+numeric", ALONE),
        (WIRED, "ego+edges", with_edge_features("amount")),
    ):
        schema = FeatureBuilder(graph).schema(blocks)
        rows = FeatureBuilder(other).table(schema, other.x, KNOWN).dense()
        assert rows.shape == (5, schema.width)
        names = np.array(schema.column_names([*"abcde"]))
        assert not rows[:, np.char.startswith(names, "share of kind")].any()
        assert other is not DIRECTED or (rows == build(PATH, blocks, KNOWN)).all()
        assert other is not ALONE or not rows[:, 2:].any()


def test_one_row_needs_neither_other_features_nor_rings_of_all_nodes(monkeypatch):
    read, searched = set(), []
    rows_of = NeighborIndex.rows

    class Rows:
        def __getitem__(self, nodes):
            read.update(nodes.tolist())
            return PATH.x[nodes]

    def spy(self, name, hop, nodes, **options):
        searched.extend(nodes.tolist() if hop > 1 else [])
        return rows_of(self, name, hop, nodes, **options)

    monkeypatch.setattr(NeighborIndex, "rows", spy)
    builder = FeatureBuilder(PATH)
    schema = builder.schema("ego+rings+power1+labels.ring2")
    builder.table(schema, Rows(), KNOWN, nodes=np.array([0]))
    assert read == {0, 1, 2}
    assert searched == [0], "two blocks share the ring"
    assert builder.members("labels.ring2", 4) is not None
    assert searched == [0, 4], "to explain a row, that of the node is enough"


def test_blocks_of_an_equal_key_are_computed_once():
    builder = FeatureBuilder(PATH)
    schema = builder.schema("ring1")
    first, again, other, unkept = (
        builder.table(schema, c * PATH.x, key=key).blocks["ring1"]
        for c, key in ((1, "a"), (9, "a"), (2, "b"), (3, None))
    )
    assert first.data_ptr() == again.data_ptr()
    assert_array_equal(other, 2 * first)
    assert_array_equal(unkept, 3 * first)


def test_a_builder_reads_mapped_features_and_lets_its_graph_go(tmp_path):
    np.save(tmp_path / "x.npy", PATH.x)
    graph = replace(PATH, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    builder = FeatureBuilder(graph)
    rows = builder.table(builder.schema("ego+ring1"), graph.x).dense()
    assert_array_equal(rows, build(PATH, "ego+ring1"))
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None
