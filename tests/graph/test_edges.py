"""What edges carry: checked when it is made, and summed up for nodes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, edge_aggregates, fingerprint
from support.cases import each
from support.refusals import refused

NAMES = ("amount", "kind=card", "kind=wire")


def payments(**changes: Any) -> EdgeColumns:
    """Return four payments, two of them between the same two nodes."""
    given = {
        "source": [0, 0, 1, 0],
        "target": [1, 1, 0, 2],
        "values": [[10, 0, 1], [-30, 1, 0], [2, 1, 0], [5, 0, 1]],
        "names": NAMES,
    }
    return EdgeColumns(**given | changes)


def star(**changes: Any) -> Graph:
    """Return a star of three nodes, with changes."""
    adj = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    return Graph(**{"x": np.eye(3), "adj": adj} | changes)


@each(
    ("changes", "fields"),
    [
        (
            {"source": [0.5, 0, 1, 0]},
            {"param": "source", "words": "shape (4,) and dtype float64"},
        ),
        ({"target": [[1, 1, 0, 2]]}, {"param": "target", "words": "shape (1, 4)"}),
        ({"source": [0, 0, 1]}, {"param": "target", "value": 4}),
        (
            {"values": [["x"] * 3] * 4},
            {"param": "values", "words": "must hold numbers"},
        ),
        ({"values": np.zeros((4, 2))}, {"param": "values", "words": "shape (4, 2)"}),
        ({"values": np.zeros(4)}, {"param": "values", "words": "shape (4,)"}),
        (
            {"values": [[0, 0, 0], [0, 1, 0], [np.nan, 0, 0], [0, 0, 0]]},
            {"param": "values", "words": "nan in row 2, column 'amount'"},
        ),
        (
            {"values": [[1e300, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]},
            {"param": "values", "words": "inf in row 0, column 'amount'"},
        ),
    ],
)
def test_what_cannot_be_edge_columns_is_refused(
    changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    with refused(**fields):
        payments(**changes)


@each(
    ("changes", "message"),
    [
        ({"target": [1, -1, 0, 2]}, "'target' holds a negative node index"),
        ({"source": [0, 0, 0, 0]}, "join two nodes. Row 2 joins node 0 to itself"),
        ({"names": ("a", "b", "a")}, "two columns are called 'a'"),
        ({"categories": ("kind",)}, "'categories' names 'kind', which is no column"),
        (
            {"categories": ("amount",)},
            "column 'amount' is a category and must hold 0 and 1 only, got 10; 'cat",
        ),
    ],
)
def test_edge_columns_that_contradict_themselves_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        payments(**changes)


@each(
    ("given", "message"),
    [
        (payments(source=[3, 0, 1, 0]), "'source', names node 3, but there are 3"),
        (payments(target=[1, 1, 0, 7]), "'target', names node 7, but there are 3"),
    ],
)
def test_a_graph_refuses_edges_of_other_graphs(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        star(edge_columns=given)


def test_edge_columns_are_no_text() -> None:
    with refused(param="edge_columns", value=str):
        star(edge_columns="amounts")


def test_edge_columns_share_nothing_with_what_they_were_made_of() -> None:
    source, values = np.array([0, 1]), np.ones((2, 1), dtype=np.float32)
    columns = EdgeColumns(source, [1, 0], values, ["w"])
    source[:], values[:] = 5, 5
    assert columns.source.tolist() == [0, 1]
    assert columns.values.tolist() == [[1], [1]]
    assert columns.source.dtype == columns.target.dtype == np.int64
    assert columns.values.dtype == np.float32
    assert columns.names == ("w",)


def test_categories_are_what_is_called_so() -> None:
    assert payments().categories == NAMES[1:]
    assert payments().numeric == ("amount",)
    assert payments(categories=["kind=card"]).numeric == ("amount", "kind=wire")
    # A number whose name has the sign is one where that is said.
    odd = EdgeColumns([0], [1], [[7]], ("a=b",), categories=())
    assert odd.numeric == ("a=b",)


def test_a_graph_keeps_its_edge_columns() -> None:
    columns = payments()
    graph = star(edge_columns=columns)
    assert replace(graph, name="copy").edge_columns is columns
    assert star().edge_columns is None
    assert fingerprint(graph) == fingerprint(star())


def test_aggregates_of_payments() -> None:
    names, values = edge_aggregates(payments(), 4)
    assert names == (
        "number of outgoing edges (log)",
        "sum of amount over outgoing edges (signed log)",
        "mean of amount over outgoing edges",
        "max of amount over outgoing edges",
        "min of amount over outgoing edges",
        "share of kind=card among outgoing edges",
        "share of kind=wire among outgoing edges",
        "number of incoming edges (log)",
        "sum of amount over incoming edges (signed log)",
        "mean of amount over incoming edges",
        "max of amount over incoming edges",
        "min of amount over incoming edges",
        "share of kind=card among incoming edges",
        "share of kind=wire among incoming edges",
    )
    assert values.dtype == np.float32
    ln = np.log
    expected = [
        [ln(4), -ln(16), -5, 10, -30, 1 / 3, 2 / 3, ln(2), ln(3), 2, 2, 2, 1, 0],
        [ln(2), ln(3), 2, 2, 2, 1, 0, ln(3), -ln(21), -10, 10, -30, 0.5, 0.5],
        [0, 0, 0, 0, 0, 0, 0, ln(2), ln(6), 5, 5, 5, 0, 1],
        [0] * 14,
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_edges_without_direction_are_summed_up_together() -> None:
    columns = EdgeColumns([0, 2], [1, 0], [[4], [-1]], ("w",), directed=False)
    names, values = edge_aggregates(columns, 3)
    assert names == (
        "number of edges (log)",
        "sum of w over edges (signed log)",
        "mean of w over edges",
        "max of w over edges",
        "min of w over edges",
    )
    ln = np.log
    expected = [
        [ln(3), ln(4), 1.5, 4, -1],
        [ln(2), ln(5), 4, 4, 4],
        [ln(2), -ln(2), -1, -1, -1],
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_edges_that_carry_nothing_are_counted() -> None:
    columns = EdgeColumns([0, 0], [1, 1], np.empty((2, 0)), ())
    names, values = edge_aggregates(columns, 2)
    assert names == ("number of outgoing edges (log)", "number of incoming edges (log)")
    np.testing.assert_allclose(values, [[np.log(3), 0], [0, np.log(3)]], rtol=1e-6)


def test_aggregates_of_no_edges_are_zeros() -> None:
    none = EdgeColumns([], [], np.empty((0, 2)), ("w", "kind=a"))
    names, values = edge_aggregates(none, 3)
    assert values.shape == (3, len(names)) == (3, 12)
    assert not values.any()


def test_large_numbers_are_summed_in_64_bits() -> None:
    # In 32 bits, 2²⁴ + 1 is 2²⁴, and the sum of three of 3e38 is infinite.
    amounts = [[2**24], [1], [1], [-(2**24)]]
    _, values = edge_aggregates(EdgeColumns([0] * 4, [1] * 4, amounts, ("w",)), 2)
    np.testing.assert_allclose(values[0, 1:3], [np.log(3), 0.5], rtol=1e-6)
    columns = EdgeColumns([0, 0, 0], [1, 1, 1], [[3e38]] * 3, ("w",))
    _, values = edge_aggregates(columns, 2)
    np.testing.assert_allclose(values[0, 1:5], [np.log(9e38), 3e38, 3e38, 3e38], 1e-6)


def test_aggregates_of_unknown_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="an edge names node 2, but there are 2 nodes"):
        edge_aggregates(payments(), 2)


def by_loops(columns: EdgeColumns, n_nodes: int) -> list[list[float]]:
    """Return the same values, a node and a column at a time."""
    edges = list(zip(columns.source, columns.target, columns.values, strict=True))
    rows = []
    for node in range(n_nodes):
        sides = [
            [v for s, _, v in edges if s == node],
            [v for _, t, v in edges if t == node],
        ]
        if not columns.directed:
            sides = [sides[0] + sides[1]]
        row: list[float] = []
        for side in sides:
            row.append(np.log(1 + len(side)))
            for place, name in enumerate(columns.names):
                carried = [float(v[place]) for v in side]
                if name in columns.categories:
                    row.append(carried.count(1.0) / len(side) if side else 0.0)
                elif not side:
                    row += [0.0] * 4
                else:
                    total = sum(carried)
                    row += [np.sign(total) * np.log(1 + abs(total))]
                    row += [total / len(side), max(carried), min(carried)]
        rows.append(row)
    return rows


@each("directed", [True, False])
@each("seed", range(5))
def test_aggregates_are_those_of_a_loop(seed: int, directed: bool) -> None:
    rng = np.random.default_rng(seed)
    n, m = 12, 60
    source = rng.integers(0, n - 2, m)
    target = (source + rng.integers(1, n - 2, m)) % (n - 2)
    values = rng.normal(scale=10, size=(m, 4))
    values[:, 1] = rng.integers(0, 2, m)
    values[:, 3] = 1 - values[:, 1]
    names = ("amount", "kind=a", "hours", "kind=b")
    columns = EdgeColumns(source, target, values, names, directed=directed)
    found, aggregates = edge_aggregates(columns, n)
    assert aggregates.shape == (n, len(found))
    np.testing.assert_allclose(aggregates, by_loops(columns, n), rtol=1e-5, atol=1e-5)
