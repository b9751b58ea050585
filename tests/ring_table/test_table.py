"""From a graph to its table: which blocks it has, what is in them, what is refused."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, EdgeColumns
from h2gcn.ring_table import TableInput, TableMaker
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import NAMED

ARCS = [(0, 1), (1, 0), (1, 2), (3, 2), (3, 4)]


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


def known() -> torch.Tensor:
    return torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 0], [0, 0]])


def build(graph: Graph, recipe: str, key: object = "x") -> TableInput:
    maker = TableMaker(graph)
    return maker.build(maker.schema(recipe), graph.x, key, known())


# -------------------------------------------------------------------------- schema


def test_an_undirected_graph_has_no_directions() -> None:
    schema = TableMaker(path_graph()).schema(
        "own+rings+directions+degrees+edges+labels+adjacency"
    )
    assert dict(zip(schema.blocks, schema.widths, strict=True)) == {
        "own": 2,
        "ring1": 2,
        "ring2": 2,
        "degrees": 2,
        "labels.ring1": 3,
        "labels.ring2": 3,
        "adjacency.all": 5,
    }
    assert schema.features == ("f0", "f1")
    assert schema.classes == ("no", "yes")
    assert schema.nodes is not None


def test_a_directed_graph_has_them() -> None:
    schema = TableMaker(path_graph(directed=True)).schema(
        "own+out-in+degrees+labels.in+adjacency"
    )
    assert schema.blocks == (
        *("own", "out-in", "degrees", "labels.in", "adjacency.out", "adjacency.in"),
    )
    assert schema.widths == (2, 2, 4, 3, 5, 5)


def test_a_graph_without_edges_has_its_features() -> None:
    maker = TableMaker(path_graph(edges=False))
    assert maker.schema("own+rings+degrees+labels+adjacency").blocks == ("own",)


def test_labels_that_nobody_knows_are_left_out() -> None:
    maker = TableMaker(path_graph())
    assert maker.schema("own+labels", labels=False).blocks == ("own",)


@each("directed", [False, True])
def test_every_column_has_one_name(directed: bool) -> None:
    graph = path_graph(directed=directed, ids=True)
    recipe = (
        "own+rings+ring3.max+directions+power2+loops1+hop1.max+hop2.sum+degrees+labels"
        "+adjacency"
    )
    schema = TableMaker(graph).schema(recipe)
    names = schema.column_names(graph.node_ids)
    assert len(set(names)) == len(names) == schema.width
    assert build(graph, recipe).shape == (5, schema.width)


@each(
    ("graph", "recipe", "lacks"),
    [
        (path_graph(edges=False), "ring1", "edges, directions, columns of edges"),
        (path_graph(), "out+labels.in", "directions, columns of edges"),
        (path_graph(directed=True), "edges", "columns of edges"),
    ],
)
def test_a_table_of_nothing_is_refused(graph: Graph, recipe: str, lacks: str) -> None:
    with pytest.raises(InputError) as caught:
        TableMaker(graph).schema(recipe)
    assert str(caught.value) == (
        f"five has nothing for a ring table of {recipe!r}; it has no {lacks}"
    )


# --------------------------------------------------------------------------- values


def test_the_values_of_a_path_by_hand() -> None:
    graph = path_graph(features=1)
    recipe = "own+ring1+ring2+ring1.sum+ring1.max+ring2.min+hop2.max+hop1.mean+hop2.sum"
    found = {
        name: np.asarray(block).ravel().tolist()
        for name, block in build(graph, recipe).blocks.items()
    }
    assert found == {
        "own": [0, 1, 2, 3, 4],
        "ring1": [1, 1, 2, 3, 3],
        "ring2": [2, 3, 2, 1, 2],
        "ring1.sum": [1, 2, 4, 6, 3],
        "ring1.max": [1, 2, 3, 4, 3],
        "ring2.min": [2, 3, 0, 1, 2],
        "hop2.max": [2, 3, 4, 3, 4],
        "hop1.mean": [1, 1, 2, 3, 3],
        "hop2.sum": [2, 5, 8, 7, 6],
    }


def test_powers_with_and_without_self_loops() -> None:
    graph = path_graph(features=1)
    blocks = build(graph, "power2+loops1").blocks
    a = NAMED["path"].toarray().astype(float)
    for block, matrix, k in (("power2", a, 2), ("loops1", a + np.eye(5), 1)):
        root = np.diag(matrix.sum(axis=1) ** -0.5)
        expected = np.linalg.matrix_power(root @ matrix @ root, k) @ graph.x
        np.testing.assert_allclose(blocks[block], expected, rtol=1e-5)


def test_degrees_are_logarithms_of_sizes() -> None:
    found = build(path_graph(directed=True), "degrees").dense()
    sizes = [[1, 1, 1, 1], [2, 1, 2, 1], [2, 2, 0, 2], [2, 1, 2, 0], [1, 1, 0, 1]]
    np.testing.assert_allclose(found, np.log1p(sizes), rtol=1e-6)


def test_adjacency_rows_are_the_edges() -> None:
    blocks = build(path_graph(directed=True), "adjacency").blocks
    out, back = blocks["adjacency.out"], blocks["adjacency.in"]
    assert isinstance(out, Operator)
    assert isinstance(back, Operator)
    assert sorted(zip(*out.scipy.nonzero(), strict=True)) == sorted(ARCS)
    np.testing.assert_array_equal(back.scipy.toarray(), out.scipy.toarray().T)


def test_sparse_features_give_the_same_table() -> None:
    graph = path_graph(directed=True)
    sparse = replace(graph, x=CSR(graph.x))
    recipe = "own+rings+directions+power2+loops3+hop2.max+ring1.sum+labels"
    np.testing.assert_allclose(
        build(sparse, recipe).dense(), build(graph, recipe).dense(), rtol=1e-5
    )


def test_features_in_a_file_are_read(tmp_path: Path) -> None:
    graph = path_graph()
    np.save(tmp_path / "x.npy", graph.x)
    mapped = replace(graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    found = build(mapped, "own+ring1").dense()
    np.testing.assert_array_equal(found, build(graph, "own+ring1").dense())


def test_blocks_of_an_equal_key_are_made_once() -> None:
    graph = path_graph()
    maker = TableMaker(graph)
    schema = maker.schema("own+ring1+degrees")
    first = maker.build(schema, graph.x, "plain", known())
    again = maker.build(schema, graph.x, "plain", known())
    other = maker.build(schema, 2 * graph.x, "doubled", known())
    where = {
        name: [t.blocks[name].data_ptr() for t in (first, again, other)]
        for name in schema.blocks
    }
    assert where["ring1"][0] == where["ring1"][1] != where["ring1"][2]
    assert len(set(where["degrees"])) == 1, "they are of no features"
    np.testing.assert_array_equal(other.blocks["ring1"], 2 * first.blocks["ring1"])
    maker.forget()
    renewed = maker.build(schema, 3 * graph.x, "plain", known())
    np.testing.assert_array_equal(renewed.blocks["ring1"], 3 * first.blocks["ring1"])


def test_a_maker_lets_its_graph_go() -> None:
    graph = path_graph()
    maker, gone = TableMaker(graph), weakref.ref(graph)
    assert maker.schema("own").blocks == ("own",)
    del graph
    gc.collect()
    assert gone() is None


# -------------------------------------------------------------------- another graph


def test_the_adjacency_of_another_graph_is_refused() -> None:
    told = (
        "other: the model has the block 'adjacency', a column for each node of the "
        "graph it was trained on, and this is another graph; train without that block "
        "to predict here"
    )
    for ids in (False, True):
        graph = path_graph(ids=ids)
        schema = TableMaker(graph).schema("own+adjacency")
        other = replace(graph, adj=NAMED["star"], name="other")
        if ids:  # the same nodes, joined otherwise, are the same columns
            TableMaker(other).build(schema, other.x, "x", known())
            other = replace(other, node_ids=np.array(list("abcdf")))
        with pytest.raises(InputError) as caught:
            TableMaker(other).build(schema, other.x, "x", known())
        assert str(caught.value) == told


@each("block", ["out", "in-out", "labels.out", "degrees"])
def test_directions_that_another_graph_lacks_are_named(block: str) -> None:
    schema = TableMaker(path_graph(directed=True)).schema(f"own+{block}")
    other = path_graph()
    with pytest.raises(InputError) as caught:
        TableMaker(other).build(schema, other.x, "x", known())
    assert str(caught.value) == (
        f"five: the edges have no directions, and the model has the block '{block}'"
    )


def test_directions_that_only_another_graph_has_are_left_out() -> None:
    schema = TableMaker(path_graph()).schema("own+degrees+labels+ring1")
    other = path_graph(directed=True)
    found = TableMaker(other).build(schema, other.x, "x", known())
    np.testing.assert_array_equal(
        found.dense(), build(path_graph(), "own+degrees+labels+ring1").dense()
    )


def test_a_graph_without_edges_is_given_zeros() -> None:
    schema = TableMaker(path_graph()).schema("own+rings+degrees+labels")
    other = path_graph(edges=False)
    found = TableMaker(other).build(schema, other.x, "x", known()).dense()
    np.testing.assert_array_equal(found[:, :2], other.x)
    assert not found[:, 2:].any()


# --------------------------------------------------------------- what edges carry


def carrying(*, kinds: bool = True) -> Graph:
    """Return five nodes, of whose edges each carries an amount and a kind."""
    names = ("amount", "kind=wire") if kinds else ("amount",)
    values = np.array([[10.0, 1], [-3, 0], [7, 0], [1, 1], [2, 1]])[:, : len(names)]
    source, target = np.array(ARCS).T
    columns = EdgeColumns(source, target, values, names)
    return replace(path_graph(directed=True), edge_columns=columns)


def test_what_edges_carry_is_a_block_of_named_columns() -> None:
    graph = carrying()
    maker = TableMaker(graph)
    schema = maker.schema("edges")
    values = maker.build(schema, graph.x, "x", known()).dense()
    names = schema.column_names()
    assert schema.widths == (len(names),) == (values.shape[1],)
    by_name = dict(zip(names, values.T, strict=True))
    mean = by_name["mean of amount over outgoing edges (signed log)"]
    # Node 1 sends -3 and 7, node 3 sends 1 and 2; node 2 and 4 send nothing.
    expected = np.log1p([10, 2, 0, 1.5, 0])
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    least = by_name["min of amount over outgoing edges (signed log)"]
    assert least[1] == pytest.approx(-np.log(4))
    share = by_name["share of kind=wire among incoming edges"]
    np.testing.assert_allclose(share, [0, 1, 0.5, 0, 1])


def test_a_category_that_edges_have_not_is_zero_and_a_column_is_missed() -> None:
    schema = TableMaker(carrying()).schema("edges")
    fewer = carrying(kinds=False)
    values = TableMaker(fewer).build(schema, fewer.x, "x", known()).dense()
    shares = [name.startswith("share") for name in schema.column_names()]
    assert any(shares)
    assert not values[:, shares].any()
    assert values.shape[1] == schema.width
    other = replace(
        fewer,
        edge_columns=replace(fewer.edge_columns, names=("weight",), categories=()),
    )
    with pytest.raises(InputError, match="its edges lack what the model was trained"):
        TableMaker(other).build(schema, other.x, "x", known())
    bare = path_graph(directed=True)
    with pytest.raises(InputError, match="its edges carry nothing, and the model was"):
        TableMaker(bare).build(schema, bare.x, "x", known())
