"""Graphs with further nodes and edges, against the same graphs made at once."""

import gc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, EdgeColumns, grown_from, grown_matrix
from support.cases import each
from support.refusals import refused


def path(**more: Any) -> Graph:
    """Return 0 — 1 — 2."""
    adj = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    return Graph(x=np.eye(3), adj=adj, **more)


@given(st.integers(0, 2**31), st.integers(0, 12), st.integers(0, 6))
def test_a_matrix_grows_by_ones_where_nothing_was(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    before = np.where(rng.random((n, n)) < 0.3, rng.integers(1, 5, (n, n)), 0)
    count = int(rng.integers(20)) if n + k else 0
    rows, columns = rng.integers(max(n + k, 1), size=(2, count))
    expected = np.zeros((n + k, n + k))
    expected[:n, :n] = before
    new = np.zeros_like(expected)
    new[rows, columns] = 1
    expected = np.where(expected != 0, expected, new)
    grown = grown_matrix(CSR(before.astype(np.float32)), rows, columns, n + k)
    np.testing.assert_array_equal(grown.toarray(), expected)
    assert grown.has_canonical_format
    assert grown.indices.dtype == np.int32


def test_nodes_and_edges_are_added_and_the_graph_stays_as_it_is() -> None:
    split = Split([0], [1], [2])
    graph = path(y=[0, 1, -1], node_ids=["a", "b", "c"], splits=(split,), name="abc")
    more = graph.with_nodes(
        [[1, 2, 3], [4, 5, 6]],
        ([3, 0, 2, 1], [0, 4, 0, 0]),
        y=[-1, 1],
        node_ids=["d", "e"],
        notes=("two came",),
    )
    assert more.adj.toarray().tolist() == [
        [0, 1, 1, 1, 1],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
    ]
    assert more.x[3:].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert more.y.tolist() == [0, 1, -1, -1, 1]
    assert more.node_ids.tolist() == ["a", "b", "c", "d", "e"]
    assert more.record.notes == ("two came",)
    assert (more.name, more.splits, more.directed) == ("abc", (split,), None)
    assert graph.n_nodes == 3
    assert graph.adj.nnz == 4
    fields = {name: getattr(more, name) for name in Graph.__dataclass_fields__}
    Graph(**fields)  # keeps all rules


def test_directions_and_what_edges_carry_go_on() -> None:
    directed = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    paid = EdgeColumns([0, 1], [1, 2], [[5, 1], [7, 0]], ("amount", "kind=wire"))
    graph = path(directed=directed, edge_columns=paid)
    more = graph.with_nodes(
        [[0, 0, 1]], ([3, 1, 0], [0, 0, 1]), edge_values=[[1, 0], [2, 1], [9, 1]]
    )
    assert more.directed is not None
    assert more.directed.toarray().tolist() == [
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 0, 0, 0],
        [1, 0, 0, 0],
    ]
    assert more.edge_columns is not None
    assert more.edge_columns.source.tolist() == [0, 1, 3, 1, 0]
    assert more.edge_columns.target.tolist() == [1, 2, 0, 0, 1]
    assert more.edge_columns.values[:, 0].tolist() == [5, 7, 1, 2, 9]
    assert more.edge_columns.categories == ("kind=wire",)


def test_sparse_features_stay_sparse() -> None:
    graph = Graph(x=sp.csr_array(np.eye(3)), adj=np.zeros((3, 3)))
    more = graph.with_nodes([[0, 2, 0]])
    assert isinstance(more.x, CSR)
    assert more.x.toarray()[3].tolist() == [0, 2, 0]
    assert more.has_ids is False
    assert more.node_ids.tolist() == [0, 1, 2, 3]


def test_what_a_graph_grew_out_of_is_known_while_it_is_in_use() -> None:
    graph = path()
    more = graph.with_nodes(np.zeros((2, 3)), ([3], [1]))
    growth = grown_from(more)
    assert growth is not None
    assert growth.base is graph
    assert growth.touched.tolist() == [1, 3, 4]
    assert grown_from(graph) is None
    del graph, growth
    gc.collect()
    assert grown_from(more) is None


def test_classes_may_be_more() -> None:
    graph = path(y=[0, 1, -1], classes=["ham", "spam"])
    more = graph.with_nodes([[0, 0, 0]], y=[2], classes=["ham", "spam", "eggs"])
    assert more.classes.tolist() == ["ham", "spam", "eggs"]


ids = {"node_ids": ["a", "b", "c"]}
paid = {"edge_columns": EdgeColumns([0], [1], [[5.0]], ("amount",))}


@each(
    ("graph", "call", "fields"),
    [
        ({}, {"x": [[1, 2]]}, {"param": "x", "words": "shape (1, 2)"}),
        ({}, {"x": [1, 2, 3]}, {"param": "x", "words": "shape (3,)"}),
        ({}, {"x": [[1, np.nan, 3]]}, {"param": "x", "words": "nan in row 0"}),
        ({}, {"x": [["a", "b", "c"]]}, {"param": "x", "words": "must hold numbers"}),
        ({}, {"edges": [1, 2]}, {"param": "edges", "words": "shape (2,)"}),
        ({}, {"edges": [[0.5], [1]]}, {"param": "edges", "words": "dtype float64"}),
        ({}, {"edges": ([0], [4])}, {"param": "edges", "words": "node 4"}),
        ({}, {"edges": ([-1], [0])}, {"param": "edges", "words": "node -1"}),
        ({}, {"y": [0, 1]}, {"param": "y", "value": 2}),
        ({"y": [0, 0, 0]}, {"classes": ["x"]}, {"param": "classes", "words": "begin"}),
        (ids, {}, {"param": "node_ids", "words": "must be given"}),
        (ids, {"node_ids": ["d", "e"]}, {"param": "node_ids", "value": 2}),
        (
            {},
            {"edges": ([3], [0]), "edge_values": [[1]]},
            {"param": "edge_values", "words": "carry nothing"},
        ),
        (
            paid,
            {"edges": ([3], [0])},
            {"param": "edge_values", "words": "carry 'amount'"},
        ),
        (
            paid,
            {"edges": ([3], [0]), "edge_values": [[np.inf]]},
            {"param": "values", "words": "inf in row 0"},
        ),
        (
            paid,
            {"edges": ([3], [0]), "edge_values": [[1, 2]]},
            {"param": "values", "words": "shape (1, 2)"},
        ),
    ],
)
def test_only_what_is_new_is_refused(
    graph: dict[str, Any], call: dict[str, Any], fields: dict[str, Any]
) -> None:
    with refused(**fields):
        path(**graph).with_nodes(**{"x": [[0, 0, 0]]} | call)


@each(
    ("graph", "call", "message"),
    [
        ({}, {"edges": ([1, 3], [0, 3])}, "Edge 1 joins node 3 to itself"),
        ({}, {"y": [0]}, "'y' uses 1 classes, but 'classes' names 0"),
        (ids, {"node_ids": ["b"]}, "the id 'b' is there already, of node 1"),
        (
            ids,
            {"x": np.zeros((2, 3)), "node_ids": ["d", "d"]},
            "2 of the new nodes have the id 'd'",
        ),
        (
            paid | {"edge_weight": "amount"},
            {"edges": ([3, 3], [0, 1]), "edge_values": [[1], [-2]]},
            "an edge cannot weigh less than nothing, and 'amount' is -2 in row 1",
        ),
    ],
)
def test_what_is_new_goes_with_what_is_there(
    graph: dict[str, Any], call: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        path(**graph).with_nodes(**{"x": [[0, 0, 0]]} | call)
