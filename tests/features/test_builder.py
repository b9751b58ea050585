"""Tables against breadth-first search, dense products and values by hand."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureBuilder, FeatureTable, LazyTable
from h2gcn.features.builder import MAX_NUMERIC
from h2gcn.graph import CSR, EdgeColumns
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import NAMED

ARCS = [(0, 1), (1, 0), (1, 2), (3, 2), (3, 4)]
KNOWN = np.array([0, 1, 0, -1, -1])
EVERY = (
    "ego+rings+ring3+directions+numeric+ring2.max+ring3.min+out.sum+in.std+hop2.max"
    "+hop2.mean+hop1.sum+power1+power3+loops2+labels+labels.ring3+adjacency+degrees"
    "+pagerank+edges"
)


def path_graph(
    *, directed: bool = False, features: int = 2, ids: bool = False, edges: bool = True
) -> Graph:
    ways = np.zeros((5, 5), dtype=np.float32)
    for source, target in ARCS:
        ways[source, target] = 1
    return Graph(
        x=np.arange(5.0 * features).reshape(5, features),
        adj=NAMED["path"] if edges else sp.csr_array((5, 5), dtype=np.float32),
        y=np.array([0, 1, 0, 1, -1]),
        classes=np.array(["no", "yes"]),
        directed=sp.csr_array(ways) if directed else None,
        node_ids=np.array(list("abcde")) if ids else None,
        feature_names=[f"f{i}" for i in range(features)],
        name="five",
    )


def random_graph(seed: int, n: int = 14, *, weighted: bool = False) -> Graph:
    """Return a directed graph, some edges both ways, the last node alone."""
    rng = np.random.default_rng(seed)
    arcs = rng.random((n, n)) < (0.05, 0.12, 0.25)[seed % 3]
    arcs |= arcs.T & (rng.random((n, n)) < 0.3)
    arcs[np.diag_indices(n)] = False
    arcs[-1], arcs[:, -1] = False, False
    arcs[0, 1] = True
    source, target = np.nonzero(arcs)
    amounts = rng.random((len(source), 1)) * 9 + 1
    x = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.6)
    return Graph(
        x=x.astype(np.float32),
        adj=CSR((arcs | arcs.T).astype(np.float32)),
        directed=CSR(arcs.astype(np.float32)),
        y=np.arange(n) % 3,
        edge_columns=EdgeColumns(source, target, amounts, ("amount",)),
        edge_weight="amount" if weighted else None,
    )


def build(
    graph: Graph, blocks: str, labels: NDArray[np.int64] | None = KNOWN
) -> FeatureTable:
    builder = FeatureBuilder(graph)
    return builder.table(builder.schema(blocks), graph.x, labels)


def columns(graph: Graph, block: str) -> NDArray[np.float32]:
    return build(graph, block, None).dense()


# ------------------------------------------------------------------------- by oracles


def distances(adj: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how far apart nodes are, by a search from each of them."""
    n = len(adj)
    steps = np.full((n, n), -1)
    for start in range(n):
        front, hop = {start}, 0
        while front:
            steps[start, list(front)] = hop
            reached = {v for u in front for v in range(n) if adj[u, v]}
            front, hop = {v for v in reached if steps[start, v] < 0}, hop + 1
    return steps


def means(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)


def reduced(
    matrix: NDArray[np.float64], x: NDArray[np.float64], reduce: str
) -> NDArray[np.float64]:
    """Return the features of each row's members, reduced; zero without any."""
    function = {"max": np.max, "min": np.min, "std": np.std, "sum": np.sum}[reduce]
    rows = [x[members > 0] for members in matrix]
    empty = np.zeros(x.shape[1])
    return np.array([function(r, axis=0) if len(r) else empty for r in rows])


@each("form", [np.asarray, CSR], ids=["dense", "sparse"])
@each("seed", range(6))
def test_blocks_are_dense_products(seed: int, form: type) -> None:
    given = random_graph(seed)
    graph = replace(given, x=form(given.x))
    x = given.x.astype(np.float64)
    adj, out = (m.toarray().astype(np.float64) for m in (graph.adj, graph.directed))
    hops, step = distances(adj), {"out": out, "in": out.T}
    expected = {f"{a}_{b}": means(step[a]) @ means(step[b]) @ x for a, b in PAIRS}
    places = {f"ring{k}": (hops == k).astype(np.float64) for k in (1, 2, 3)} | step
    for place, matrix in places.items():
        expected[place] = means(matrix) @ x
        for reduce in ("sum", "max", "min", "std"):
            expected[f"{place}.{reduce}"] = reduced(matrix, x, reduce)
    for name, loops in (("power", 0), ("loops", 1)):
        a = adj + np.eye(len(adj)) * loops
        degrees = a.sum(axis=1)
        scale = np.divide(1, np.sqrt(degrees), where=degrees > 0, out=0 * degrees)
        for k in (1, 2, 3):
            power = np.linalg.matrix_power(scale[:, None] * a * scale, k)
            expected[f"{name}{k}"] = power @ x
    expected["hop2.mean"] = means(adj) @ means(adj) @ x
    expected["hop2.max"] = reduced(adj, reduced(adj, x, "max"), "max")
    table = build(graph, "+".join(expected), None)
    for block, values in expected.items():
        found = FeatureTable({block: table.blocks[block]}).dense()
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-6, err_msg=block)


PAIRS = [(a, b) for a in ("out", "in") for b in ("out", "in")]


@each("weighted", [False, True])
@each("cap", [None, 3])
@each("seed", range(6))
def test_some_rows_are_those_of_all_nodes(
    seed: int, cap: int | None, weighted: bool
) -> None:
    graph = random_graph(seed, 60, weighted=weighted)
    whole = FeatureBuilder(graph, None, cap, 7)
    schema, known = whole.schema(EVERY), np.where(np.arange(60) % 3, graph.y, -1)
    expected = whole.table(schema, graph.x, known, key="x").dense()
    rng = np.random.default_rng(seed)
    for nodes in (np.array([59]), rng.permutation(60)[:9], np.arange(60)[:0]):
        alone = FeatureBuilder(graph, None, cap, 7)
        for builder in (alone, whole):  # computed, and taken from blocks that are kept
            rows = builder.table(schema, graph.x, known, nodes, key="x").dense()
            np.testing.assert_allclose(rows, expected[nodes], rtol=1e-6, atol=1e-6)
    lazy = LazyTable(
        lambda nodes, blocks: whole.table(
            schema if blocks is None else schema.select(blocks), graph.x, known, nodes
        ),
        expected.shape,
        wanted=np.array([4, 8]),
    )
    rows = lazy.rows(np.array([2, 4, 7])).dense()
    np.testing.assert_allclose(rows[1], expected[4], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(rows[[0, 2], :3], graph.x[[2, 7]])
    assert not rows[[0, 2], 3:].any()


def test_no_features_of_other_nodes_are_read() -> None:
    read: set[int] = set()

    class Rows:
        def __getitem__(self, nodes: NDArray[np.int64]) -> Any:
            read.update(nodes.tolist())
            return path_graph().x[nodes]

    builder = FeatureBuilder(path_graph())
    builder.table(builder.schema("ego+rings+power1"), Rows(), nodes=np.array([0]))
    assert read == {0, 1, 2}


@each("weighted", [False, True])
@each("seed", range(3))
def test_members_are_of_whom_a_row_is_made(seed: int, weighted: bool) -> None:
    graph = random_graph(seed, 30, weighted=weighted)
    builder = FeatureBuilder(graph)
    for block, _ in builder.schema(EVERY).parsed():
        members = builder.members(block.name, 1)
        if block.kind == "labels":
            assert members is not None
            assert 1 not in members[0]
        elif members is not None:
            row = members[1] @ graph.x[members[0]]
            found = columns(graph, block.name)[1]
            np.testing.assert_allclose(row, found, rtol=1e-5, atol=1e-6)
    for block in ("ring1.max", "in.std", "degrees", "edges", "adjacency.out"):
        assert builder.members(block, 1) is None
    assert not builder._patterns, "no ring of all nodes is found for one"


def test_pagerank_is_that_of_networkx() -> None:
    graph = random_graph(2, 40)
    rank = nx.pagerank(
        nx.from_scipy_sparse_array(graph.directed, create_using=nx.DiGraph)
    )
    expected = np.log(40 * np.array([rank[i] for i in range(40)]))
    np.testing.assert_allclose(columns(graph, "pagerank")[:, 0], expected, atol=0.01)


# ---------------------------------------------------------------------------- by hand


def test_the_values_of_a_path_by_hand() -> None:
    expected = {
        "ego": [0, 1, 2, 3, 4],
        "ring1": [1, 1, 2, 3, 3],
        "ring2": [2, 3, 2, 1, 2],
        "ring1.sum": [1, 2, 4, 6, 3],
        "ring1.max": [1, 2, 3, 4, 3],
        "ring1.std": [0, 1, 1, 1, 0],
        "ring2.min": [2, 3, 0, 1, 2],
        "hop2.max": [2, 3, 4, 3, 4],
        "hop1.mean": [1, 1, 2, 3, 3],
        "hop2.sum": [2, 5, 8, 7, 6],
    }
    graph = path_graph(features=1)
    found = {block: columns(graph, block).ravel().tolist() for block in expected}
    assert found == expected


def test_directions_of_a_triangle_by_hand() -> None:
    ways = CSR(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float32))
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    graph = Graph(x=[[1.0], [2.0], [4.0]], adj=path, directed=ways)
    expected = {
        "out": [2, 4, 2],
        "in": [0, 2.5, 2],
        "out_out": [4, 2, 4],
        "out_in": [2.5, 2, 2.5],
        "in_out": [0, 2, 4],
        "in_in": [0, 1, 2.5],
    }
    assert {b: columns(graph, b).ravel().tolist() for b in expected} == expected


def test_shares_of_labels_by_hand() -> None:
    graph = path_graph(directed=True)
    two, three = np.log1p(2), np.log1p(1)
    found = build(graph, "labels.ring1").dense()
    expected = [[0, 1, three], [1, 0, two], [0, 1, three], [1, 0, three], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # 1 leads to 0 and to 2, and 3 to 2 and 4; walks that return do not count.
    found = build(graph, "labels.in_out").dense()
    expected = [[1, 0, three], [0, 0, 0], [1, 0, three], [0, 0, 0], [1, 0, three]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_more_walks_than_float32_can_count_leave_no_trace_of_a_node() -> None:
    n = 5000  # all point at two hubs: 25 million walks in_out
    ways = sp.csr_array((np.ones(2 * n - 3, np.float32), hub_ends(n)), shape=(n, n))
    both = CSR((ways + ways.T > 0).astype(np.float32))
    graph = Graph(x=np.ones((n, 1)), adj=both, directed=ways, y=np.zeros(n, int))
    builder = FeatureBuilder(graph)
    schema = builder.schema("labels.in_out")
    rows = []
    for label in (0, -1):
        known = np.zeros(n, dtype=np.int64)
        known[0] = label
        rows.append(builder.table(schema, graph.x, known, np.array([0])).dense())
    np.testing.assert_array_equal(*rows)


def hub_ends(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = np.arange(1, n), np.arange(2, n)
    ends = np.concatenate([np.zeros_like(first), np.ones_like(second)])
    return np.concatenate([first, second]), ends


def test_degrees_are_logarithms_of_sizes() -> None:
    found = columns(path_graph(directed=True), "degrees")
    sizes = [[1, 1, 1, 1], [2, 1, 2, 1], [2, 2, 0, 2], [2, 1, 2, 0], [1, 1, 0, 1]]
    np.testing.assert_allclose(found, np.log1p(sizes), rtol=1e-6)


def test_adjacency_rows_are_the_edges() -> None:
    table = build(path_graph(directed=True), "adjacency")
    out, back = table.blocks["adjacency.out"], table.blocks["adjacency.in"]
    assert isinstance(out, Operator)
    assert isinstance(back, Operator)
    assert sorted(zip(*out.scipy.nonzero(), strict=True)) == sorted(ARCS)
    np.testing.assert_array_equal(back.scipy.toarray(), out.scipy.toarray().T)
    assert isinstance(build(NARROW, "ego+adjacency", None).matrix(), CSR), (
        "as few are filled"
    )


NARROW = Graph(x=np.ones((9, 1)), adj=np.eye(9, k=1) + np.eye(9, k=-1))


def test_extremes_are_of_numeric_columns() -> None:
    x = np.zeros((5, 400), dtype=np.float32)
    x[:, 1:] = np.arange(399) + 2
    x[2, 0] = 1
    for form in (np.asarray, CSR):
        schema = FeatureBuilder(replace(path_graph(features=400), x=form(x))).schema(
            "ego+numeric"
        )
        assert schema.widths == (400, MAX_NUMERIC, MAX_NUMERIC, MAX_NUMERIC)
        assert schema.numeric[0] == "f1"
    flags = replace(path_graph(), x=np.eye(5, 2))
    assert FeatureBuilder(flags).schema("ego+numeric+ring1").blocks == ("ego", "ring1")


def test_empty_neighborhoods_are_zero() -> None:
    schema = FeatureBuilder(path_graph()).schema(
        "ego+rings+degrees+labels+power2+numeric+loops2"
    )
    other = path_graph(edges=False)
    found = FeatureBuilder(other).table(schema, other.x, KNOWN).dense()
    np.testing.assert_array_equal(found[:, :2], other.x)
    assert not found[:, 2:-2].any()
    np.testing.assert_array_equal(found[:, -2:], other.x)


# --------------------------------------------------------------------- what a graph has


def test_blocks_that_a_graph_cannot_fill_are_left_out() -> None:
    schema = FeatureBuilder(path_graph()).schema(EVERY, labels=False)
    assert not {"out", "edges", "labels.ring1", "adjacency.out"} & set(schema.blocks)
    assert schema.nodes is not None
    schema = FeatureBuilder(path_graph(directed=True)).schema(
        "degrees+adjacency+labels"
    )
    assert "adjacency.ring1" not in schema.blocks
    assert dict(zip(schema.blocks, schema.widths, strict=True))["degrees"] == 4
    alone = FeatureBuilder(path_graph(edges=False))
    assert alone.schema(EVERY).blocks == ("ego",)
    for builder, blocks in (
        (alone, "ring1"),
        (FeatureBuilder(path_graph()), "out+edges"),
    ):
        with pytest.raises(InputError) as caught:
            builder.schema(blocks)
        assert (caught.value.param, caught.value.value) == ("blocks", blocks)


def test_every_column_has_one_name() -> None:
    graph = random_graph(1)
    schema = FeatureBuilder(graph).schema(EVERY)
    names = schema.column_names(graph.node_ids.tolist())
    assert len(set(names)) == len(names) == schema.width
    assert build(graph, EVERY, graph.y).shape == (14, schema.width)


def test_features_in_a_file_are_read(tmp_path: Path) -> None:
    graph = path_graph()
    np.save(tmp_path / "x.npy", graph.x)
    mapped = replace(graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(
        columns(mapped, "ego+ring1"), columns(graph, "ego+ring1")
    )


def test_blocks_of_an_equal_key_are_computed_once() -> None:
    graph = path_graph()
    builder = FeatureBuilder(graph)
    schema = builder.schema("ring1")
    first, again, other, unkept = (
        builder.table(schema, c * graph.x, key=key).blocks["ring1"]
        for c, key in ((1, "a"), (9, "a"), (2, "b"), (3, None))
    )
    assert first.data_ptr() == again.data_ptr()
    np.testing.assert_array_equal(other, 2 * first)
    np.testing.assert_array_equal(unkept, 3 * first)


def test_a_builder_goes_with_its_graph() -> None:
    graph = path_graph()
    gone = weakref.ref(graph)
    assert FeatureBuilder(graph).schema("ego").blocks == ("ego",)
    del graph
    gc.collect()
    assert gone() is None


# ----------------------------------------------------------------------- another graph


def test_the_adjacency_of_another_graph_is_refused() -> None:
    for ids in (False, True):
        graph = path_graph(ids=ids)
        schema = FeatureBuilder(graph).schema("ego+adjacency")
        other = replace(graph, adj=NAMED["star"], name="other")
        if ids:  # the same nodes, joined otherwise, are the same columns
            FeatureBuilder(other).table(schema, other.x)
            other = replace(other, node_ids=np.array(list("abcdf")))
        with pytest.raises(InputError, match="another graph") as caught:
            FeatureBuilder(other).table(schema, other.x)
        assert caught.value.where == "other"


@each("block", ["out", "in_out", "labels.out", "degrees"])
def test_directions_that_another_graph_lacks_are_named(block: str) -> None:
    schema = FeatureBuilder(path_graph(directed=True)).schema(f"ego+{block}")
    other = path_graph()
    with pytest.raises(InputError, match=f"no directions.*'{block}'"):
        FeatureBuilder(other).table(schema, other.x)


def test_directions_that_only_another_graph_has_are_left_out() -> None:
    blocks = "ego+degrees+labels+ring1"
    schema = FeatureBuilder(path_graph()).schema(blocks)
    other = path_graph(directed=True)
    found = FeatureBuilder(other).table(schema, other.x, KNOWN).dense()
    np.testing.assert_array_equal(found, build(path_graph(), blocks).dense())


def with_edge_features(*, categories: bool = True) -> Graph:
    """Return five nodes whose edges have an amount and a category."""
    names = ("amount", "kind=wire") if categories else ("amount",)
    values = np.array([[10.0, 1], [-3, 0], [7, 0], [1, 1], [2, 1]])[:, : len(names)]
    source, target = np.array(ARCS).T
    columns = EdgeColumns(source, target, values, names)
    return replace(path_graph(directed=True), edge_columns=columns)


def test_edge_features_by_hand() -> None:
    graph = with_edge_features()
    builder = FeatureBuilder(graph)
    schema = builder.schema("edges")
    values = builder.table(schema, graph.x).dense()
    by_name = dict(zip(schema.column_names(), values.T, strict=True))
    mean = by_name["mean of amount over outgoing edges (signed log)"]
    # Node 1 sends -3 and 7, node 3 sends 1 and 2; node 2 and 4 send nothing.
    np.testing.assert_allclose(mean, np.log1p([10, 2, 0, 1.5, 0]), rtol=1e-6)
    least = by_name["min of amount over outgoing edges (signed log)"]
    assert least[1] == pytest.approx(-np.log(4))
    share = by_name["share of kind=wire among incoming edges"]
    np.testing.assert_allclose(share, [0, 1, 0.5, 0, 1])


def test_a_category_that_edges_lack_is_zero_and_a_column_is_refused() -> None:
    schema = FeatureBuilder(with_edge_features()).schema("edges")
    fewer = with_edge_features(categories=False)
    values = FeatureBuilder(fewer).table(schema, fewer.x).dense()
    shares = [name.startswith("share") for name in schema.column_names()]
    assert any(shares)
    assert not values[:, shares].any()
    assert fewer.edge_columns is not None
    other = replace(fewer.edge_columns, names=("weight",), categories=())
    for graph in (replace(fewer, edge_columns=other), path_graph(directed=True)):
        with pytest.raises(InputError, match="the model was trained on"):
            FeatureBuilder(graph).table(schema, graph.x)
